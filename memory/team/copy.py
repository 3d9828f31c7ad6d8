"""One copy of a team's memory during one exchange: what lies on disk is settled with what the server says."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio.to_thread

from memory.errors import Conflict, PathRefused, WriteRefused
from memory.notes import INDEX, Notes, content_hash
from memory.paths import contained
from memory.scope import Scope
from memory.team.errors import SyncFailed
from memory.team.local import (
    LocalCopy,
    Skip,
    Verdict,
    conflict_copy,
    is_conflict_copy,
    judge,
    read_copy,
    why_not_sent,
)
from memory.team.remote import Answer, Fetched
from memory.team.state import SyncState
from memory.team.wire import ENTRY_BYTES, Content, check_key


@dataclass(kw_only=True)
class SyncReport:
    """What one exchange did, by key. `failure` is set when it did not come to its end; what is listed stays done."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    """The copies that were kept beside texts that won."""
    pushed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)
    failure: SyncFailed | None = None

    def summary(self) -> str:
        """Return the counts in one line."""
        counts = {
            "pulled": len(self.written) + len(self.removed),
            "pushed": len(self.pushed) + len(self.deleted),
            "conflict" if len(self.conflicts) == 1 else "conflicts": len(self.conflicts),
            "skipped": len(self.skipped),
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "nothing to do"


class Copy:
    """One copy during one exchange: its state, what lies on disk, and what has been done."""

    def __init__(self, scope: Scope, state: SyncState, *, directory: Path, notes: Notes) -> None:
        self.scope = scope
        self.repo = scope.repo
        self.state = state
        self.report = SyncReport()
        self.local = LocalCopy(texts={}, names=frozenset(), skipped=())
        self._directory = directory
        self._notes = notes

    async def look(self) -> None:
        """Read what lies on disk; a copy that is gone as a whole was lost, not deleted, and is pulled anew."""
        self.local = await anyio.to_thread.run_sync(read_copy, self._directory)
        if not self.local.names and len(self.state.base) > 1:
            self.state = replace(self.state, checksum=None, base={}, pulled=False)

    async def take(self, fetched: Fetched) -> None:
        """Bring the disk in line with what the server said."""
        if fetched.answer is Answer.UNCHANGED or fetched.content is None:
            empty = fetched.answer is Answer.EMPTY
            state = replace(self.state, checksum=None, server={}, base={}) if empty else self.state
            self.state = replace(state, pulled=True)
            return
        incoming = self._incoming(fetched.content)
        gone = fetched.content.deleted_checksums
        hashes = {key: content_hash(text) for key, text in incoming.items()}
        kept = {key: value for key, value in self.state.base.items() if key in hashes or key in (gone or {})}
        self.state = replace(self.state, base=kept, server=hashes, tombstones=gone is not None)
        whole = [await self._settle(key, text) for key, text in sorted(incoming.items())]
        whole += [await self._bury(key, last) for key, last in sorted((gone or {}).items())]
        checksum = fetched.checksum if all(whole) else None
        self.state = replace(self.state, checksum=checksum, pulled=True)

    def _incoming(self, content: Content) -> dict[str, str]:
        found: dict[str, str] = {}
        for raw, text in sorted(content.entries.items()):
            try:
                key = check_key(raw)
            except PathRefused as error:
                self._skip(raw, str(error))
                continue
            if key != raw and key in content.entries:
                self._skip(raw, "another entry has the same name")
            elif is_conflict_copy(key):
                self._skip(raw, "its name is that of a conflict copy")
            elif len(text.encode()) > ENTRY_BYTES:
                self._skip(raw, f"it is larger than {ENTRY_BYTES} bytes")
            else:
                found[key] = text
        return found

    async def _settle(self, key: str, text: str) -> bool:
        """Bring one key in line; returns false if it has to be looked at again."""
        if self._unreadable(key):
            return True
        here, there = self.local.hash(key), self.state.server[key]
        verdict = judge(local=here, server=there, base=self.state.base.get(key))
        if verdict is Verdict.AGREED:
            self._agree(key, there)
        if verdict in {Verdict.AGREED, Verdict.KEEP}:
            return True

        async def write() -> None:
            if verdict is Verdict.CONFLICT:
                await self._keep_beside(key)
            await self._notes.write(self.scope, self._place(key), text, expected=here or "")
            self._agree(key, there)
            self.report.written.append(key)

        return await self._tried(key, write)

    async def _bury(self, raw: str, last: str) -> bool:
        """Carry out a deletion that the server tells of; a text that was changed since is kept beside."""
        try:
            key = check_key(raw)
        except PathRefused as error:
            self._skip(raw, str(error))
            return True
        if self._unreadable(key):
            return True
        here, base = self.local.hash(key), self.state.base.get(key)
        if key not in self.local.names or key == INDEX or (base is None and here != last):
            self._agree(key, None)  # gone here too, or written anew since, and then pushed as a new text
            return True

        async def delete() -> None:
            if here not in {base, last}:
                await self._keep_beside(key)
            await self._notes.delete(self.scope, self._place(key), expected=here)
            self._agree(key, None)
            self.report.removed.append(key)

        return await self._tried(key, delete)

    def _unreadable(self, key: str) -> bool:
        """Leave alone what is there and can't be compared: a link, a huge file, one that is no text."""
        found = [skip for skip in self.local.skipped if skip.key == key]
        for skip in found:
            self._skip(key, skip.reason)
        return bool(found)

    async def _tried(self, key: str, act: Callable[[], Awaitable[None]]) -> bool:
        try:
            await act()
        except Conflict:
            return False  # somebody wrote since we looked; the next pull decides anew
        except (PathRefused, WriteRefused) as error:
            self._skip(key, str(error))
        return True

    async def _keep_beside(self, key: str) -> None:
        text = self.local.texts[key]
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
        texts: dict[str, str] = {}
        for key in allowed:
            here, there, base = self.local.hash(key), self.state.server.get(key), self.state.base.get(key)
            if judge(local=here, server=there, base=base) is not Verdict.KEEP:
                continue
            reason = why_not_sent(key, self.local.texts[key])
            if reason:
                self._skip(key, reason)
            else:
                texts[key] = self.local.texts[key]
        for key in sorted(self.local.texts)[len(allowed) :]:
            self._skip(key, "the server takes no more entries")
        return texts, self._deletions()

    def _deletions(self) -> list[str]:
        if not self.state.tombstones:
            return []
        base, server = self.state.base, self.state.server
        return sorted(key for key in base if key not in self.local.names and server.get(key) == base[key])

    def sent(self, batch: Mapping[str, str]) -> None:
        """Note that the server has these texts now."""
        for key, text in batch.items():
            self._agree(key, content_hash(text))
        self.report.pushed += batch

    def buried(self, keys: Iterable[str]) -> None:
        """Note that the server has deleted these keys."""
        for key in keys:
            self._agree(key, None)
            self.report.deleted.append(key)

    def _agree(self, key: str, agreed: str | None) -> None:
        """Note that both sides have the same; None: neither has a text."""
        base = {other: value for other, value in self.state.base.items() if other != key}
        server = {other: value for other, value in self.state.server.items() if other != key}
        if agreed is not None:
            base[key] = server[key] = agreed
        self.state = replace(self.state, base=base, server=server)

    def _skip(self, key: str, reason: str) -> None:
        skip = Skip(key=key, reason=reason)
        if skip not in self.report.skipped:
            self.report.skipped.append(skip)
