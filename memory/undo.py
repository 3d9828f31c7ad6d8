"""Taking back what the last dream changed, and showing it."""

import difflib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread

from memory import journal as journals
from memory import snapshot as snapshots
from memory.errors import LeaseLost
from memory.journal import AFTER, Journal, Record
from memory.judgement import NoSources, Sources, moves_between
from memory.lease_names import dreaming, extracting
from memory.notes import Notes
from memory.ports import UNMETERED, Clock, Leases, Meter
from memory.restore import Restored, put_back
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.settling import has_lost_logs, unsettle
from memory.snapshot import Saved

_WAIT_SECONDS = 20.0  # for an extraction that is under way
_CONTEXT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Undone:
    """What became of an undo: whether there was a dream to take back, and which files were put back, merged or left."""

    found: bool
    busy: bool = False
    logs_gone: bool = False
    """The day logs that were distilled are gone by now: what came of them stands in the notes only, and stays there."""
    restored: Restored = field(default_factory=Restored)
    unrecorded: str = ""
    """Why it could not be written down that the dream is taken back; a further undo then finds all in its place."""


class Undo:
    """Puts back the last dream that changed something. Once it is taken back there is nothing to undo before the next.

    What others have changed since stays: merged where that is safe, else the whole file is left as it is. What was
    forgotten since does not come back, as it is no longer in what is kept. The time of the last dream stays, so that
    the same dream is not dreamt at once; day logs that were distilled wait for the night again. One that could not be
    taken back wholly counts as not taken back, and can be again.
    """

    def __init__(
        self,
        *,
        notes: Notes,
        leases: Leases,
        settings: MemorySettings,
        clock: Clock,
        ledger: Sources | None = None,
        meter: Meter = UNMETERED,
    ) -> None:
        self._notes = notes
        self._leases = leases
        self._settings = settings
        self._clock = clock
        self._ledger = ledger or NoSources()
        self._meter = meter

    async def __call__(self, scope: Scope) -> Undone:
        """Take the last dream back. While something is saved, forgotten or dreamt nothing is: that is `busy`."""
        seconds = self._settings.lease_seconds
        try:
            async with AsyncExitStack() as stack:
                # The lease of extraction is also that of forgetting: else it could come between reading and writing.
                extraction = self._leases.hold(extracting(scope), seconds=seconds, wait=_WAIT_SECONDS)
                await stack.enter_async_context(extraction)
                await stack.enter_async_context(self._leases.hold(dreaming(scope), seconds=seconds, wait=0))
                if await anyio.to_thread.run_sync(journals.unfinished, scope):
                    return Undone(found=True, busy=True)  # a later one, which is to be put back before this
                return await self._take_back(scope)
        except LeaseLost:
            return Undone(found=True, busy=True)

    async def diff(self, scope: Scope) -> str:
        """Return what the last dream changed as a patch in the unified form, "" if there is nothing to undo."""
        last = await anyio.to_thread.run_sync(_last, scope)
        return await anyio.to_thread.run_sync(_patch, scope, last[0]) if last else ""

    async def _take_back(self, scope: Scope) -> Undone:
        last = await anyio.to_thread.run_sync(_last, scope)
        if last is None:
            return Undone(found=False)
        folder, record = last
        if await anyio.to_thread.run_sync(has_lost_logs, scope, record.settling):
            return Undone(found=True, logs_gone=True)
        before = await anyio.to_thread.run_sync(snapshots.load, scope, folder)
        written = await anyio.to_thread.run_sync(Journal(scope, folder).written)
        changed = await anyio.to_thread.run_sync(snapshots.read_all, scope)
        restored = await put_back(
            scope, before, written, notes=self._notes, leases=self._leases, wait=self._settings.lease_wait
        )
        now = await anyio.to_thread.run_sync(snapshots.read_all, scope)
        await self._ledger.carry(scope, await anyio.to_thread.run_sync(moves_between, scope, changed, now))
        if restored.failed:
            return Undone(found=True, restored=restored)
        try:
            await anyio.to_thread.run_sync(unsettle, scope, record.settling)
            await anyio.to_thread.run_sync(journals.undone, scope, folder, record, self._clock())
        except OSError as error:
            return Undone(found=True, restored=restored, unrecorded=error.strerror or "the file system failed")
        self._meter.count("dreams_undone")
        return Undone(found=True, restored=restored)


def _last(scope: Scope) -> tuple[Path, Record] | None:
    """Return the latest dream that changed something, unless it was taken back already."""
    last = journals.last_change(scope)
    return last if last is not None and last[1].undone_at is None else None


def _patch(scope: Scope, folder: Path) -> str:
    before, after = (snapshots.state(scope, folder / name) for name in (snapshots.BEFORE, AFTER))
    return "".join(_hunks(scope, path, before, after) for path in Journal(scope, folder).written())


def _hunks(scope: Scope, path: Path, before: Mapping[Path, Saved], after: Mapping[Path, Saved]) -> str:
    name = path.relative_to(scope.memory_dir).as_posix()
    old, new = (files[path].text.splitlines() if path in files else [] for files in (before, after))
    was, is_now = (f"{side}/{name}" if path in files else "/dev/null" for side, files in (("a", before), ("b", after)))
    lines = difflib.unified_diff(old, new, was, is_now, lineterm="", n=_CONTEXT)
    return "".join(f"{line}\n" for line in lines)
