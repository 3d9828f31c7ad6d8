"""One copy of a team's memory during one exchange: what lies on disk is settled with what the server says."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath

import anyio.to_thread

from memory.errors import Conflict, PathRefused, WriteRefused
from memory.facts import facts, vanished
from memory.index import pointers, rewritten
from memory.notes import INDEX, Notes, content_hash
from memory.paths import contained
from memory.provenance import fact_hash
from memory.scope import Scope
from memory.team.forgotten import Forgotten, Left, holds_any, known_words, nothing_forgotten, texts_left
from memory.team.local import (
    LocalCopy,
    Skip,
    Verdict,
    conflict_copy,
    judge,
    look_of,
    make_room,
    never_taken,
    out_of_sight,
    read_copy,
    why_not_kept,
    why_not_sent,
)
from memory.team.remote import Answer, Fetched
from memory.team.report import SyncReport
from memory.team.state import SyncState
from memory.team.wire import ENTRY_BYTES, Content, check_key

_RECORDED = timedelta(minutes=30)
"""Who said what a turn or its extraction has written is on record by then."""


class Copy:
    """One copy during one exchange: its state, what lies on disk, and what has been done."""

    def __init__(
        self,
        scope: Scope,
        state: SyncState,
        *,
        directory: Path,
        notes: Notes,
        now: datetime,
        forgotten: Forgotten = nothing_forgotten,
        erases: bool = True,
        report: SyncReport | None = None,
        largest: int = ENTRY_BYTES,
    ) -> None:
        """Take the parts; `largest` is how many bytes a text may have.

        `erases`: what was forgotten here is to be taken from the server too, not only left out.
        """
        self.scope = scope
        self.repo = scope.repo
        self.state = state
        self.report = report or SyncReport()
        self.local = LocalCopy(texts={}, names=frozenset(), skipped=())
        self._directory = directory
        self._notes = notes
        self._forgotten = forgotten
        self._erases = erases
        self._largest = min(largest, ENTRY_BYTES)
        self._disk = self.local
        self._digest = ""
        self._owed: dict[str, str] = {}
        self._cleared: set[str] = set()
        self._all_cleared = True
        self._open: dict[str, str] = {}
        self._now = now

    @property
    def tag(self) -> str | None:
        """What the server need not send again; None if all of it has to be looked at."""
        known = self.state.pulled and self.state.forgotten == self._digest
        known = known and all(look_of(self._directory, key)[0] == look for key, look in self.state.open.items())
        return self.state.checksum if known else None

    async def look(self) -> None:
        """Read what lies on disk; a copy that is gone as a whole was lost, not deleted, and is pulled anew."""
        self._disk = await anyio.to_thread.run_sync(read_copy, self._directory)
        await self._left({})
        if not self.local.names and len(self.state.base) > 1:
            self.state = replace(self.state, checksum=None, base={}, gone={}, pulled=False)

    async def _left(self, incoming: Mapping[str, str]) -> Left:
        """Show no forgotten fact from here on, and return what is left of incoming texts.

        Asked anew each time, as somebody may have something forgotten while a request is under way.
        """
        hashes = await self._forgotten(self.scope)
        self._digest = sha256("".join(sorted(hashes)).encode()).hexdigest() if hashes else ""
        self.local = self._disk.to_compare()
        if not await anyio.to_thread.run_sync(holds_any, hashes, self._unread(), incoming):
            return Left(texts={})
        what = await anyio.to_thread.run_sync(known_words, hashes, self._disk.texts, incoming)
        here = (await anyio.to_thread.run_sync(texts_left, self._disk.texts, what)).texts
        stale = await anyio.to_thread.run_sync(self._stale, here)
        self.local = self._disk
        for key in stale:
            await self._tried(key, partial(self._clear, key, here[key]))
        if stale:
            self._disk = await anyio.to_thread.run_sync(read_copy, self._directory)
            here = (await anyio.to_thread.run_sync(texts_left, self._disk.texts, what)).texts
        self._all_cleared = here.keys().isdisjoint(stale)
        self.local = self._disk.showing(here).to_compare()
        return await anyio.to_thread.run_sync(partial(texts_left, incoming, what, renaming=self._erases))

    def _unread(self) -> dict[str, str]:
        """Return the texts that may hold what was forgotten: not those that both sides had since it was."""
        known = self.state.base if self.state.forgotten == self._digest else {}
        return {key: text for key, text in self._disk.texts.items() if self._disk.hash(key) != known.get(key)}

    def _stale(self, keys: Iterable[str]) -> list[str]:
        """Return which of these were not changed here a short while ago; what others hold may just be said again."""
        since = (self._now - _RECORDED).timestamp()
        return [
            key
            for key in sorted(keys)
            if self._disk.hash(key) == self.state.base.get(key) or not _changed_after(self._directory / key, since)
        ]

    async def _clear(self, key: str, left: str | None) -> None:
        """Take out of a file what was forgotten, in another chat of the team maybe."""
        agreed = self.local.hash(key) == self.state.base.get(key)
        await self._put(key, left)
        if agreed:
            self._cleared.add(key)
        if agreed and not self._erases:
            self._agree(key, None if left is None else content_hash(left), there=self.state.server.get(key))

    async def take(self, fetched: Fetched) -> None:
        """Bring the disk in line with what the server said."""
        self.report.found = fetched.answer
        if fetched.answer is Answer.UNCHANGED or fetched.content is None:
            empty = fetched.answer is Answer.EMPTY
            state = replace(self.state, checksum=None, server={}, base={}, gone={}) if empty else self.state
            self.state = replace(state, pulled=True)
            return
        self._open = {}
        kept_here = self._kept(fetched.content)
        incoming = self._fitting(kept_here)
        left = await self._left(incoming)
        gone = fetched.content.deleted_checksums
        hashes = {key: content_hash(text) for key, text in kept_here.items()}
        known = hashes.keys() | {key for key in gone or {} if why_not_kept(key) is None}
        kept = {key: value for key, value in self.state.base.items() if key in known}
        self.state = replace(self.state, base=kept, server=hashes, tombstones=gone is not None)
        # A server that keeps no deletions is given what is left, be it nothing, in place of what it still has.
        owes = self._erases and not self.state.tombstones
        self._owed = {key: text or "" for key, text in left.texts.items()} if owes else {}
        whole = [await self._settle(key, text, left.texts.get(key, text)) for key, text in sorted(incoming.items())]
        whole += [await self._bring(key, text, incoming.get(key)) for key, text in sorted(left.moved.items())]
        done = {key: await self._bury(key, last) for key, last in sorted((gone or {}).items())}
        whole += done.values()
        self.state = replace(self.state, gone={key: last for key, last in (gone or {}).items() if done[key]})
        await self._unpoint({*self.state.base, *(gone or {})})
        checksum = fetched.checksum if all(whole) and not self._owed else None
        forgotten = self._digest if self._all_cleared else ""
        self.state = replace(self.state, checksum=checksum, pulled=True, forgotten=forgotten, open=self._open)

    def _kept(self, content: Content) -> dict[str, str]:
        """Return the entries that a copy may have, by their plain keys."""
        found: dict[str, str] = {}
        for raw, text in sorted(content.entries.items()):
            try:
                key = check_key(raw)
            except PathRefused as error:
                self._skip(raw, str(error))
                continue
            if key != raw and (key in content.entries or key in found):
                self._skip(raw, "another entry has the same name")
            elif reason := why_not_kept(key):
                self._skip(raw, reason)
            else:
                found[key] = text
        return found

    def _fitting(self, entries: Mapping[str, str]) -> dict[str, str]:
        """Return those that can be written; of the others it is only known that the server has them."""
        found: dict[str, str] = {}
        for key, text in entries.items():
            if len(text.encode()) > self._largest:
                self._skip(key, f"it is larger than {self._largest} bytes")
            elif any(folder.as_posix() in entries for folder in PurePosixPath(key).parents):
                self._skip(key, "another entry has the name of its folder")
            else:
                found[key] = text
        return found

    async def _settle(self, key: str, text: str, left: str | None) -> bool:
        """Bring one key in line with what is `left` of the server's text; false if it has to be looked at again.

        Where something was forgotten, what is left counts as a change of this side, so that a push carries it to
        the server; or, if this side may not take it from there, as what the server has.
        """
        if self._unreadable(key):
            if self.state.base.get(key) != self.state.server[key]:
                self._open[key], _ = look_of(self._directory, key)
            return True
        here, there = self.local.hash(key), self.state.server[key]
        wanted = None if left is None else content_hash(left)
        agreed = there if self._erases else wanted
        verdict = judge(local=here, server=there, base=self.state.base.get(key))
        if here == wanted or (left is None and verdict is Verdict.CONFLICT):
            verdict = Verdict.AGREED
        if verdict is Verdict.AGREED:
            self._agree(key, agreed, there=there)
        if verdict in {Verdict.AGREED, Verdict.KEEP}:
            return True

        async def write() -> None:
            if verdict is Verdict.CONFLICT and PurePosixPath(key).name == INDEX:
                await self._unite(key, left or "")
                self._agree(key, agreed, there=there)
                return
            erased = left != text or key in self._cleared
            if verdict is Verdict.CONFLICT and not (erased and _holds(left or "", self.local.texts[key])):
                await self._keep_beside(key, self.local.texts[key])
            await self._put(key, left)
            self._agree(key, agreed, there=there)

        return await self._tried(key, write) or never_taken(key, left)

    async def _unite(self, key: str, left: str) -> None:
        """Put the lines of both sides into an index; what the server lacks of them counts as a change of this side."""
        united = _united(left, self.local.texts[key])
        if content_hash(united) != self.local.on_disk(key):
            await self._put(key, united)

    async def _bring(self, key: str, text: str, there: str | None) -> bool:
        """Keep what is left of a note whose name told it, as a note of this side that a push will tell of."""
        present = self.local.texts.get(key, there)

        async def write() -> None:
            if present is None:
                await self._put(key, text)
            elif not _holds(present, text):
                await self._keep_beside(key, text)

        return await self._tried(key, write) or never_taken(key, text)

    async def _put(self, key: str, text: str | None) -> None:
        """Put a text in the place of what lies under the key, or nothing."""
        before, expected = self.local.texts.get(key, ""), self.local.on_disk(key)
        if text is None:
            await self._notes.delete(self.scope, self._place(key), expected=expected)
            self.report.removed.append(key)
        else:
            await anyio.to_thread.run_sync(make_room, self._place(key))
            await self._notes.write(self.scope, self._place(key), text, expected=expected)
            self.report.written.append(key)
            self.report.shrunk += _shrunk(key, before, text)

    async def _bury(self, raw: str, last: str) -> bool:
        """Carry out a deletion that the server tells of; a text that was changed since is kept beside."""
        try:
            key = check_key(raw)
        except PathRefused as error:
            self._skip(raw, str(error))
            return True
        if why_not_kept(key):
            return True
        if self._unreadable(key):
            if key in self.state.base:
                self._open[key], _ = look_of(self._directory, key)
            return True
        here, base = self.local.hash(key), self.state.base.get(key)
        anew = base is None and (here != last or self.state.gone.get(raw) == last)
        if key not in self.local.names or key == INDEX or anew:
            self._agree(key, None)  # gone here too, or written anew since, and then pushed as a new text
            return True

        async def delete() -> None:
            if here not in {base, last} and key not in self._cleared:
                await self._keep_beside(key, self.local.texts[key])
            await self._put(key, None)
            self._agree(key, None)

        return await self._tried(key, delete) or PurePosixPath(key).name == INDEX  # an index is never deleted

    async def _unpoint(self, known: Collection[str]) -> None:
        """Clear the index lines of what is deleted, here or by others: an index that was taken may not know of it."""
        disk = await anyio.to_thread.run_sync(read_copy, self._directory)
        for key in sorted(_pointed_to(disk.texts) & set(known) - disk.names):
            await self._tried(key, partial(self._forget_pointer, key))

    async def _forget_pointer(self, key: str) -> None:
        await self._notes.delete(self.scope, self._place(key), expected="")

    def _unreadable(self, key: str) -> bool:
        """Leave alone what is there and can't be compared: a link, a huge file, one that is no text."""
        found = [skip for skip in self.local.skipped if skip.key == key]
        for skip in found:
            self._skip(key, skip.reason)
        return bool(found)

    async def _tried(self, key: str, act: Callable[[], Awaitable[None]]) -> bool:
        """Return whether it could be done, or is to be tried again only once what lies in its way has changed."""
        try:
            await act()
        except Conflict:  # somebody wrote since we looked
            return False
        except (PathRefused, WriteRefused) as error:
            self._skip(key, str(error))
            look, barred = look_of(self._directory, key)
            if barred:
                self._open[key] = look
            return barred
        return True

    async def _keep_beside(self, key: str, text: str) -> None:
        beside = conflict_copy(key, text)
        try:
            await self._notes.write(self.scope, self._place(beside), text, expected="")
        except Conflict as error:
            if error.actual != content_hash(text):
                raise
        self.report.conflicts.append(beside)

    def _place(self, key: str) -> Path:
        """Return where the key lies; no link may stand in the way, since even one inside A leads out of T."""
        place = self._directory / key
        if contained(str(place), base=self._directory, roots=(self._directory,)) != place:
            raise PathRefused("a link stands in the way")
        return place

    def to_push(self, maximum: int | None) -> tuple[dict[str, str], list[str]]:
        """Return the texts and the deletions that only this side has, without what may not leave."""
        known = [limit for limit in (self.state.maximum, maximum) if limit is not None]
        allowed = sorted(self.local.texts)[: min(known, default=None)]
        for skip in self.local.skipped:
            self._skip(skip.key, skip.reason)
        texts = {key: self.local.texts[key] for key in allowed if self._ours(key)}
        texts |= {key: left for key, left in self._owed.items() if key not in self.local.names}
        for reason in [why for key, text in texts.items() if (why := why_not_sent(key, text))]:
            del texts[reason.key]
            self._noted(reason)
        for key in filter(self._undecided, self.local.texts):
            self._skip(key, "the server has another text under this name, which could not be taken so far")
        over = sorted(self.local.texts)[len(allowed) :]
        self.report.capped = len(over)
        for key in over:
            self._skip(key, "the server takes no more entries")
        return texts, self._deletions()

    def _ours(self, key: str) -> bool:
        return self._verdict(key) is Verdict.KEEP

    def _undecided(self, key: str) -> bool:
        told = any(skip.key == key for skip in self.report.skipped)
        return not told and self._verdict(key) is Verdict.CONFLICT

    def _verdict(self, key: str) -> Verdict:
        here, there, base = self.local.hash(key), self.state.server.get(key), self.state.base.get(key)
        return judge(local=here, server=there, base=base)

    def _deletions(self) -> list[str]:
        if not self.state.tombstones:
            return []
        base, server = self.state.base, self.state.server
        gone = (key for key in base if key not in self.local.names and server.get(key) == base[key])
        return sorted(key for key in gone if not why_not_kept(key) and not out_of_sight(self._directory, key))

    def sent(self, batch: Mapping[str, str]) -> None:
        """Note that the server has these texts now."""
        for key, text in batch.items():
            self._agree(key, content_hash(text))
            self._owed.pop(key, None)
        self.report.pushed += batch

    def buried(self, keys: Iterable[str]) -> None:
        """Note that the server has deleted these keys."""
        for key in keys:
            gone = {**self.state.gone, key: self.state.base[key]}
            self.state = replace(self.state, gone=gone)
            self._agree(key, None)
            self.report.deleted.append(key)

    def _agree(self, key: str, agreed: str | None, *, there: str | None = None) -> None:
        """Note that both sides have the same; None: neither has a text. `there`: what the server calls its own."""
        base = {other: value for other, value in self.state.base.items() if other != key}
        server = {other: value for other, value in self.state.server.items() if other != key}
        if agreed is not None:
            base[key] = server[key] = agreed
        if there is not None:
            server[key] = there
        self.state = replace(self.state, base=base, server=server)

    def _skip(self, key: str, reason: str) -> None:
        self._noted(Skip(key=key, reason=reason))

    def _noted(self, skip: Skip) -> None:
        if skip not in self.report.skipped:
            self.report.skipped.append(skip)


def _pointed_to(texts: Mapping[str, str]) -> set[str]:
    """Return the keys that the indexes among these texts point to."""
    indexes = [(PurePosixPath(key), text) for key, text in texts.items() if PurePosixPath(key).name == INDEX]
    return {(index.parent / to).as_posix() for index, text in indexes for _, to in pointers(text)}


def _united(theirs: str, ours: str) -> str:
    """Return an index with the lines of ours that theirs lacks; of two lines for one target theirs stays."""
    targets, known = {target for _, target in pointers(theirs)}, set(theirs.splitlines())

    def new(line: str, target: str) -> str | None:
        there = target in targets if target else not line.strip() or line in known
        return None if there else line

    more = rewritten(ours, new).strip("\n")
    return "\n".join([*theirs.rstrip("\n").split("\n"), more, ""]).lstrip("\n") if more else theirs


def _holds(text: str, other: str) -> bool:
    """Return whether a text holds every fact of the other one, so that nothing would be lost with that."""
    return set(map(fact_hash, facts(other))) <= set(map(fact_hash, facts(text)))


def _changed_after(path: Path, moment: float) -> bool:
    try:
        return path.lstat().st_mtime > moment
    except OSError:  # gone meanwhile, or not ours to look at: then it is not cleared either
        return True


def _shrunk(key: str, before: str, after: str) -> list[str]:
    """Return what lost a fact: the note, or of an index the notes whose lines went or say less."""
    if PurePosixPath(key).name != INDEX:
        return [key] if vanished(facts(before), facts(after)) else []
    lines, folder = dict(pointers(before)), PurePosixPath(key).parent
    return [(folder / lines[gone]).as_posix() for gone in vanished(list(lines), [line for line, _ in pointers(after)])]
