"""One copy of a team's memory during one exchange: what lies on disk, what both sides agree on, what is to be sent."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path

import anyio.to_thread

from memory.notes import Notes, content_hash
from memory.scope import Scope
from memory.team.files import Files
from memory.team.forgotten import Forgotten, Left, holds_any, known_words, nothing_forgotten, texts_left
from memory.team.local import (
    LocalCopy,
    Verdict,
    judge,
    look_of,
    out_of_sight,
    read_copy,
    why_not_kept,
    why_not_sent,
)
from memory.team.mark import mark_of
from memory.team.report import SyncReport
from memory.team.state import SyncState
from memory.team.wire import ENTRY_BYTES

_RECORDED = timedelta(minutes=30)
"""Who said what a turn or its extraction has written is on record by then."""


class Copy:
    """One copy during one exchange: its state, what lies on disk, and what has been done.

    What a pull does to it is in `memory.team.taking`.
    """

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
        self.files = Files(scope, directory, notes, self.report)
        self.local = LocalCopy(texts={}, names=frozenset(), skipped=())
        self.erases = erases
        self.largest = min(largest, ENTRY_BYTES)
        self.cleared: set[str] = set()
        """The keys of agreed texts out of which something forgotten was taken."""
        self.owed: dict[str, str] = {}
        """What a server that keeps no deletions is to be given in place of texts with something forgotten."""
        self.moved = False
        """Whether what the server says is to be compared anew, as it is another one or was put back."""
        self._forgotten = forgotten
        self._disk = self.local
        self._digest = ""
        self._all_cleared = True
        self._now = now

    @property
    def tag(self) -> str | None:
        """What the server need not send again; None if all of it has to be looked at."""
        known = self.state.pulled and self.state.forgotten == self._digest
        known = known and all(look_of(self.files.directory, key)[0] == look for key, look in self.state.open.items())
        return self.state.checksum if known else None

    @property
    def clear_of(self) -> str:
        """What stands for all that was forgotten, if nothing of it is left here; else empty."""
        return self._digest if self._all_cleared else ""

    async def look(self) -> None:
        """Read what lies on disk.

        What lacks in a directory that was made anew, or put back, was lost and not deleted, and what differs there may
        be older: it is pulled before anything of it counts. So is a copy that is gone as a whole.
        """
        mark = await anyio.to_thread.run_sync(mark_of, self.files.directory)
        self._disk = await self._read()
        if mark != self.state.place:
            same = {key: value for key, value in self.state.base.items() if self._disk.hash(key) == value}
            self._begin_anew(same)
            self.state = replace(self.state, place=mark)
        await self.left({})
        if not self.local.names and len(self.state.base) > 1:
            self._begin_anew({})

    def compare_anew(self) -> None:
        """Take nothing for agreed: the server is another one, or was put back from a backup.

        Where the two sides differ both texts are kept, and what one of them lacks comes from the other.
        """
        self._begin_anew({})
        self.state = replace(self.state, server={}, tombstones=False, version=0)
        self.moved = True

    def _begin_anew(self, base: Mapping[str, str]) -> None:
        self.state = replace(self.state, checksum=None, base=base, gone={}, pulled=False)

    async def _read(self) -> LocalCopy:
        return await anyio.to_thread.run_sync(read_copy, self.files.directory)

    # -- what was forgotten

    async def left(self, incoming: Mapping[str, str]) -> Left:
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
            await self.files.tried(key, partial(self._clear, key, here[key]))
        if stale:
            self._disk = await self._read()
            here = (await anyio.to_thread.run_sync(texts_left, self._disk.texts, what)).texts
        self._all_cleared = here.keys().isdisjoint(stale)
        self.local = self._disk.showing(here).to_compare()
        return await anyio.to_thread.run_sync(partial(texts_left, incoming, what, renaming=self.erases))

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
            if self._disk.hash(key) == self.state.base.get(key) or not _changed_after(self.files.directory / key, since)
        ]

    async def _clear(self, key: str, left: str | None) -> None:
        """Take out of a file what was forgotten, in another chat of the team maybe."""
        agreed = self.local.hash(key) == self.state.base.get(key)
        await self.files.put(key, left, over=self.local)
        if agreed:
            self.cleared.add(key)
        if agreed and not self.erases:
            self.agree(key, None if left is None else content_hash(left), there=self.state.server.get(key))

    # -- what a push sends

    def to_push(self, maximum: int | None) -> tuple[dict[str, str], list[str]]:
        """Return the texts and the deletions that only this side has, without what may not leave."""
        allowed = sorted(self.local.texts)[:maximum]
        for skip in self.local.skipped:
            self.report.skip(skip.key, skip.reason)
        texts = {key: self.local.texts[key] for key in allowed if self._verdict(key) is Verdict.KEEP}
        texts |= {key: left for key, left in self.owed.items() if key not in self.local.names}
        stays = {key: why for key, text in texts.items() if (why := why_not_sent(key, text))}
        self.report.still(stays.values())
        for key in filter(self._undecided, self.local.texts):
            self.report.skip(key, "the server has another text under this name, which could not be taken so far")
        over = sorted(self.local.texts)[len(allowed) :]
        self.report.capped = len(over)
        for key in over:
            self.report.skip(key, "the server takes no more entries")
        return {key: text for key, text in texts.items() if key not in stays}, self._deletions()

    def _undecided(self, key: str) -> bool:
        told = any(skip.key == key for skip in (*self.report.skipped, *self.state.refused))
        return not told and self._verdict(key) is Verdict.CONFLICT

    def _verdict(self, key: str) -> Verdict:
        here, there, base = self.local.hash(key), self.state.server.get(key), self.state.base.get(key)
        return judge(local=here, server=there, base=base)

    def _deletions(self) -> list[str]:
        if not self.state.tombstones:
            return []
        base, server = self.state.base, self.state.server
        gone = (key for key in base if key not in self.local.names and server.get(key) == base[key])
        return sorted(key for key in gone if not why_not_kept(key) and not out_of_sight(self.files.directory, key))

    # -- what both sides agree on

    def sent(self, batch: Mapping[str, str]) -> None:
        """Note that the server has these texts now."""
        for key, text in batch.items():
            self.agree(key, content_hash(text))
            self.owed.pop(key, None)
        self.report.pushed += batch

    def buried(self, keys: Iterable[str]) -> None:
        """Note that the server has deleted these keys."""
        for key in keys:
            gone = {**self.state.gone, key: self.state.base[key]}
            self.state = replace(self.state, gone=gone)
            self.agree(key, None)
            self.report.deleted.append(key)

    def agree(self, key: str, agreed: str | None, *, there: str | None = None) -> None:
        """Note that both sides have the same; None: neither has a text. `there`: what the server calls its own."""
        base = {other: value for other, value in self.state.base.items() if other != key}
        server = {other: value for other, value in self.state.server.items() if other != key}
        if agreed is not None:
            base[key] = server[key] = agreed
        if there is not None:
            server[key] = there
        self.state = replace(self.state, base=base, server=server)


def _changed_after(path: Path, moment: float) -> bool:
    try:
        return path.lstat().st_mtime > moment
    except OSError:  # gone meanwhile, or not ours to look at: then it is not cleared either
        return True
