"""What one pull does to a copy: each key is settled with what the server says, and nothing of either side is lost."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

import anyio.to_thread

from memory.errors import PathRefused
from memory.facts import facts
from memory.index import is_index, lines_of, pointers, rewritten
from memory.notes import content_hash
from memory.provenance import fact_hash
from memory.team.copy import Copy
from memory.team.local import Skip, Verdict, judge, look_of, read_copy, secret_in, why_not_kept
from memory.team.remote import Answer, Fetched
from memory.team.state import SyncState
from memory.team.wire import Content, check_key


async def take(copy: Copy, fetched: Fetched) -> None:
    """Bring the disk in line with what the server said; the copy has been looked at before."""
    copy.report.found = fetched.answer
    if fetched.answer is Answer.UNCHANGED or fetched.content is None:
        empty = fetched.answer is Answer.EMPTY
        nothing = replace(copy.state, checksum=None, server={}, base={}, gone={}, refused=(), version=0)
        state = nothing if empty else copy.state
        copy.state = replace(state, pulled=True)
        return
    await _Taking(copy)(fetched.content, fetched.checksum, fetched.version)


class _Taking:
    """One taking of what a server has."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._files = copy.files
        self._report = copy.report

    async def __call__(self, content: Content, checksum: str | None, version: int) -> None:
        """Take all of it. What could not be taken leaves no checksum behind, so that it is looked at again."""
        copy = self._copy
        self._files.barred.clear()
        self._report.refused.clear()
        kept_here = self._kept(content)
        hashes = {key: content_hash(text) for key, text in kept_here.items()}
        if _put_back(copy.state, hashes, content, version):
            copy.compare_anew()
        incoming = self._fitting(kept_here)
        left = await copy.left(incoming)
        gone = content.deleted_checksums
        if gone is not None:  # what is there is not gone, whatever else is said of it
            gone = {key: last for key, last in gone.items() if key not in content.entries}
        known = hashes.keys() | {key for key in gone or {} if why_not_kept(key) is None}
        kept = {key: value for key, value in copy.state.base.items() if key in known}
        copy.state = replace(copy.state, base=kept, server=hashes, tombstones=gone is not None)
        if copy.moved:  # what has gone there was not deleted from what is here
            copy.state, copy.moved = replace(copy.state, gone=gone or {}), False
        # A server that keeps no deletions is given what is left, be it nothing, in place of what it still has.
        owes = copy.erases and not copy.state.tombstones
        copy.owed = {key: text or "" for key, text in left.texts.items()} if owes else {}
        whole = [await self._settle(key, text, left.texts.get(key, text)) for key, text in sorted(incoming.items())]
        whole += [await self._bring(key, text, incoming.get(key)) for key, text in sorted(left.moved.items())]
        done = {key: await self._bury(key, last) for key, last in sorted((gone or {}).items())}
        whole += done.values()
        copy.state = replace(copy.state, gone={key: last for key, last in (gone or {}).items() if done[key]})
        await self._unpoint({*copy.state.base, *(gone or {})})
        known_as = checksum if all(whole) and not copy.owed else None
        copy.state = replace(
            copy.state,
            checksum=known_as,
            version=version,
            pulled=True,
            forgotten=copy.clear_of,
            open=dict(self._files.barred),
            refused=tuple(dict.fromkeys(self._report.refused)),
        )

    def _kept(self, content: Content) -> dict[str, str]:
        """Return the entries that a copy may have, by their plain keys."""
        found: dict[str, str] = {}
        for raw, text in sorted(content.entries.items()):
            try:
                key = check_key(raw)
            except PathRefused as error:
                self._refuse(raw, str(error))
                continue
            if key != raw and (key in content.entries or key in found):
                self._refuse(raw, "another entry has the same name")
            elif reason := why_not_kept(key):
                self._refuse(raw, reason)
            else:
                found[key] = text.removeprefix("\ufeff")  # a mark of the encoding, which a file here is read without
        return found

    def _fitting(self, entries: Mapping[str, str]) -> dict[str, str]:
        """Return those that can be written; of the others it is only known that the server has them."""
        found: dict[str, str] = {}
        for key, text in entries.items():
            if len(text.encode()) > self._copy.largest:
                self._refuse(key, f"it is larger than {self._copy.largest} bytes")
            elif any(folder.as_posix() in entries for folder in PurePosixPath(key).parents):
                self._refuse(key, "another entry has the name of its folder")
            else:
                found[key] = text
        return found

    async def _settle(self, key: str, text: str, left: str | None) -> bool:
        """Bring one key in line with what is `left` of the server's text; false if it has to be looked at again.

        Where something was forgotten, what is left counts as a change of this side, so that a push carries it to
        the server; or, if this side may not take it from there, as what the server has.
        """
        copy = self._copy
        if self._unreadable(key):
            if copy.state.base.get(key) != copy.state.server[key]:
                self._note_look(key)
            return True
        here, there = copy.local.hash(key), copy.state.server[key]
        wanted = None if left is None else content_hash(left)
        agreed = there if copy.erases else wanted
        verdict = judge(local=here, server=there, base=copy.state.base.get(key))
        if here == wanted or (left is None and verdict is Verdict.CONFLICT):
            verdict = Verdict.AGREED
        if verdict is Verdict.AGREED:
            copy.agree(key, agreed, there=there)
        if verdict in {Verdict.AGREED, Verdict.KEEP}:
            return True

        async def write() -> None:
            if verdict is Verdict.CONFLICT and is_index(key):
                await self._unite(key, left or "")
                copy.agree(key, agreed, there=there)
                return
            erased = left != text or key in copy.cleared
            if verdict is Verdict.CONFLICT and not (erased and _holds(left or "", copy.local.texts[key])):
                await self._files.keep_beside(key, copy.local.texts[key])
            await self._put(key, left)
            copy.agree(key, agreed, there=there)

        return await self._tried(key, left, write)

    async def _unite(self, key: str, left: str) -> None:
        """Put the lines of both sides into an index; what the server lacks of them counts as a change of this side."""
        united = _united(left, self._copy.local.texts[key])
        if content_hash(united) != self._copy.local.on_disk(key):
            await self._put(key, united)

    async def _bring(self, key: str, text: str, there: str | None) -> bool:
        """Keep what is left of a note whose name told it, as a note of this side that a push will tell of."""
        present = self._copy.local.texts.get(key, there)

        async def write() -> None:
            if present is None:
                await self._put(key, text)
            elif not _holds(present, text):
                await self._files.keep_beside(key, text)

        return await self._tried(key, text, write)

    async def _bury(self, raw: str, last: str) -> bool:
        """Carry out a deletion that the server tells of; a text that was changed since is kept beside."""
        copy = self._copy
        try:
            key = check_key(raw)
        except PathRefused:  # it never was here
            return True
        if why_not_kept(key):
            return True
        if self._unreadable(key):
            if key in copy.state.base:
                self._note_look(key)
            return True
        here, base = copy.local.hash(key), copy.state.base.get(key)
        anew = base is None and (here != last or copy.state.gone.get(raw) == last)
        if key not in copy.local.names or is_index(key) or anew:
            # Gone here too, or written anew since, and then pushed as a new text. An index is never deleted.
            copy.agree(key, None)
            return True

        async def delete() -> None:
            if here not in {base, last} and key not in copy.cleared:
                await self._files.keep_beside(key, copy.local.texts[key])
            await self._put(key, None)
            copy.agree(key, None)

        return await self._files.tried(key, delete)

    async def _unpoint(self, known: Collection[str]) -> None:
        """Clear the index lines of what is deleted, here or by others: an index that was taken may not know of it."""
        disk = await anyio.to_thread.run_sync(read_copy, self._files.directory)
        for key in sorted(_pointed_to(disk.texts) & set(known) - disk.names):
            await self._files.tried(key, partial(self._files.unpoint, key))

    async def _tried(self, key: str, text: str | None, write: Callable[[], Awaitable[None]]) -> bool:
        """Take a text, unless it holds a secret: then it is never taken, whatever lies here."""
        secret = None if text is None else await anyio.to_thread.run_sync(secret_in, key, text)
        if secret is not None:
            self._report.refuse(secret)
            return True
        return await self._files.tried(key, write)

    def _refuse(self, key: str, reason: str) -> None:
        self._report.refuse(Skip(key=key, reason=reason))

    async def _put(self, key: str, text: str | None) -> None:
        await self._files.put(key, text, over=self._copy.local)

    def _unreadable(self, key: str) -> bool:
        """Leave alone what is there and can't be compared: a link, a huge file, one that is no text."""
        found = [skip for skip in self._copy.local.skipped if skip.key == key]
        for skip in found:
            self._report.skip(key, skip.reason)
        return bool(found)

    def _note_look(self, key: str) -> None:
        self._files.barred[key], _ = look_of(self._files.directory, key)


def _put_back(state: SyncState, hashes: Mapping[str, str], content: Content, version: int) -> bool:
    """Return whether what is known of a server never was, by what it says now: it was put back from a backup.

    Its states have to go on being counted, and a text that is not the known one has to be newer than that.
    """
    since, known = content.entry_versions or {}, state.server
    other = (key for key, value in hashes.items() if known.get(key, value) != value)
    return version < state.version or any(since.get(key, state.version + 1) <= state.version for key in other)


def _pointed_to(texts: Mapping[str, str]) -> set[str]:
    """Return the keys that the indexes among these texts point to."""
    indexes = [(PurePosixPath(key), text) for key, text in texts.items() if is_index(key)]
    return {(index.parent / to).as_posix() for index, text in indexes for _, to in pointers(text)}


def _united(theirs: str, ours: str) -> str:
    """Return an index with the lines of ours that theirs lacks; of two lines for one target theirs stays."""
    targets, known = {target for _, target in pointers(theirs)}, set(lines_of(theirs))

    def new(line: str, target: str) -> str | None:
        there = target in targets if target else not line.strip() or line in known
        return None if there else line

    more = rewritten(ours, new).strip("\n")
    return "\n".join([*theirs.rstrip("\n").split("\n"), more, ""]).lstrip("\n") if more else theirs


def _holds(text: str, other: str) -> bool:
    """Return whether a text holds every fact of the other one, so that nothing would be lost with that."""
    return set(map(fact_hash, facts(other))) <= set(map(fact_hash, facts(text)))
