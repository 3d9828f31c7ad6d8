"""A run that may rewrite a whole memory directory, under guard: all of it stands, or none of it does."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from memory import journal as journals
from memory import snapshot as snapshots
from memory.consolidation_prompt import system_prompt
from memory.errors import LeaseLost, PathRefused
from memory.index import INDEX
from memory.journal import Journal, Record, Settling, Survival, Written
from memory.judgement import Ending, Judgement, NoSources, Sources, speakers
from memory.notes import Notes
from memory.ports import UNLIMITED, Budget, Clock, Fence, Leases, Notice, Progress, Rights, Run, RunReport
from memory.restore import put_back
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.settling import settle, settle_record
from memory.snapshot import Saved, Snapshot, hash_of
from memory.watching import Watching

__all__ = ["Consolidated", "Consolidation", "Ending", "Task", "lease_name"]

_log = structlog.get_logger(__name__)
_NO_TOKENS = "tonight's tokens for dreams are used up"
_HALF_BACK = "an earlier one is not wholly put back yet, as a note could not be written; that is tried again by itself"
_CUT_OFF = "Putting memory in order was cut off; the notes are as they were before."


def lease_name(scope: Scope) -> str:
    """Return the name of the lease that whoever rewrites a whole memory directory holds."""
    return f"dream:{scope.memory_dir}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Consolidated:
    """What a consolidation did: files that differ from before, facts that are gone, and the run's own words.

    `reason` says why it was not kept, or not begun. `snapshot` is where the state before lies, if there is need of it.
    """

    ending: Ending
    touched: tuple[Path, ...] = ()
    removed: tuple[str, ...] = ()
    summary: str = ""
    reason: str = ""
    snapshot: Path | None = None
    survival: Survival | None = None
    half_back: bool = False
    """Whether something of what was not kept could not be put back yet; whoever comes next tries it again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What one consolidation is to do."""

    purpose: str
    prompt: str
    max_turns: int
    told: Callable[[Consolidated], str]
    """The line for the owner if something changed; empty: nothing is told."""
    settling: Settling = field(default_factory=Settling)
    """What is noted once it has ended well, while the lease is still held."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Back:
    """How far a run is put back: where its snapshot is if there is still need of it."""

    snapshot: Path | None = None
    is_half: bool = False


class Consolidation:
    """Gives a run the right to write in A, and puts everything back unless it ended well.

    One at a time per memory directory, on any number of replicas. The owner is told in one line if something changed.
    """

    def __init__(
        self,
        run: Run,
        *,
        notes: Notes,
        leases: Leases,
        notice: Notice,
        settings: MemorySettings,
        clock: Clock,
        ledger: Sources | None = None,
        budget: Budget = UNLIMITED,
    ) -> None:
        self._run = run
        self._ledger = ledger or NoSources()
        self._notes = notes
        self._leases = leases
        self._notice = notice
        self._settings = settings
        self._clock = clock
        self._budget = budget

    async def __call__(
        self, scope: Scope, task_of: Callable[[], Awaitable[Task | Consolidated]], *, progress: Progress | None
    ) -> Consolidated:
        """Do what `task_of` returns, asked under the lease; if it returns a result, that is it.

        When cancelled, puts back what is known to be the run's, and is cancelled. A run during which something is
        forgotten is stopped after its next tool: it has read what is to be forgotten.
        """
        try:
            async with self._leases.hold(lease_name(scope), seconds=self._settings.lease_seconds, wait=0) as fence:
                await self._recover(scope, fence)
                if await anyio.to_thread.run_sync(journals.unfinished, scope):
                    return Consolidated(ending=Ending.GATED, reason=_HALF_BACK)
                task = await task_of()
                return task if isinstance(task, Consolidated) else await self._do(scope, task, fence, progress)
        except LeaseLost:
            return Consolidated(ending=Ending.BUSY, reason="another consolidation holds this memory")

    async def is_held(self, scope: Scope) -> bool:
        """Return whether a consolidation is under way, in whichever process."""
        try:
            async with self._leases.hold(lease_name(scope), seconds=self._settings.lease_seconds, wait=0):
                return False
        except LeaseLost:
            return True

    async def recover(self, scope: Scope) -> bool:
        """Put back what a run wrote that was killed, and return whether there was one; one that is alive goes on.

        What could not be put back wholly is left for the next time. Of a run that ended well, and was killed before it
        noted so, that is made up for.
        """
        if not await anyio.to_thread.run_sync(_is_owed, scope):
            return False
        try:
            async with self._leases.hold(lease_name(scope), seconds=self._settings.lease_seconds, wait=0) as fence:
                return await self._recover(scope, fence)
        except LeaseLost:
            return False

    async def _recover(self, scope: Scope, fence: Fence) -> bool:
        found = False
        for folder, record in await anyio.to_thread.run_sync(journals.unsettled, scope):
            await self._settle(scope, fence, record.settling, folder)
        for folder in reversed(await anyio.to_thread.run_sync(journals.unfinished, scope)):
            journal = Journal(scope, folder)
            written = await anyio.to_thread.run_sync(_left_by_the_dead, scope, journal)
            back = await self._take_back(scope, journal, written, purpose="dream", ending=Ending.ABORTED)
            if back.is_half:
                return False  # those before it have to wait: what it left is not what they wrote
            if written:
                _log.warning("consolidation_recovered", principal=scope.principal, files=len(written))
            found = found or bool(written)
        if found and self._settings.notices != "off":
            await self._notice(scope, _CUT_OFF)
        return found

    async def _do(self, scope: Scope, task: Task, fence: Fence, progress: Progress | None) -> Consolidated:
        if not await self._budget(0):
            return Consolidated(ending=Ending.SPENT, reason=_NO_TOKENS)
        done = await self._guarded(scope, task, fence, progress)
        if done.ending.good:
            await fence.check()
            await self._settle(scope, fence, task.settling, done.snapshot)
        told = task.told(done) if done.ending is Ending.CHANGED else ""
        if told and self._settings.notices != "off":
            await self._notice(scope, told)
        return done

    async def _settle(self, scope: Scope, fence: Fence, what: Settling, folder: Path | None) -> None:
        """Note what is due; what can't be noted now is so later, as the record says that it is missing."""
        try:
            await anyio.to_thread.run_sync(_settled, scope, what, folder, fence.token)
        except (OSError, PathRefused) as error:
            _log.warning("consolidation_not_settled", principal=scope.principal, reason=str(error))

    async def _guarded(self, scope: Scope, task: Task, fence: Fence, progress: Progress | None) -> Consolidated:
        began = self._clock()
        before = await anyio.to_thread.run_sync(snapshots.take, scope, began)
        watch = Watching(scope, before.folder, fence, progress, partial(self._ledger.erased_since, scope, began))
        try:
            await watch.begin()
            report = await self._watched(scope, task, watch)
            await fence.check()
            await watch.note(report.written if report else ())
            before = await anyio.to_thread.run_sync(snapshots.load, scope, before.folder)  # with what came in meanwhile
            return await self._settled(scope, task, before, watch, report)
        except LeaseLost:
            raise  # whoever has the lease now has put back what was written, and may be at work
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._undone_unless_ended(scope, task, fence, watch)
            raise

    async def _watched(self, scope: Scope, task: Task, watch: Watching) -> RunReport | None:
        """Run within the time there is, while somebody looks whether it is to stop."""
        with anyio.move_on_after(self._settings.dream_max_minutes * 60) as watch.limit:
            looking = asyncio.create_task(watch.look_after())
            try:
                return await self._run(
                    scope,
                    purpose=task.purpose,
                    system=system_prompt(scope),
                    prompt=task.prompt,
                    rights=Rights(read=(scope.memory_dir,), write=(scope.memory_dir,)),
                    max_turns=task.max_turns,
                    progress=watch,
                    changes=watch.changes,
                    budget=self._budget,
                )
            finally:
                looking.cancel()
        return None

    async def _settled(
        self, scope: Scope, task: Task, before: Snapshot, watch: Watching, report: RunReport | None
    ) -> Consolidated:
        after = await anyio.to_thread.run_sync(snapshots.read_all, scope)
        said_by = await speakers(scope, self._ledger, before.files)
        judged = Judgement(scope=scope, before=before.files, after=after, said_by=said_by)
        verdict = partial(judged.verdict, tuple(watch.paths), report, self._settings)
        judged_by_itself: tuple[Ending, str] = await anyio.to_thread.run_sync(verdict)
        ending, reason = await watch.ended_otherwise() or judged_by_itself
        survival = await anyio.to_thread.run_sync(lambda: judged.survival)
        summary = report.text if report else ""
        written = await anyio.to_thread.run_sync(watch.journal.written, tuple(watch.paths))
        if not ending.good:
            _log.warning("consolidation_not_kept", principal=scope.principal, ending=ending.value, reason=reason)
            back = await self._take_back(scope, watch.journal, written, purpose=task.purpose, ending=ending)
            return Consolidated(
                ending=ending,
                summary=summary,
                reason=reason,
                snapshot=back.snapshot,
                survival=survival,
                half_back=back.is_half,
            )
        touched = tuple(path for path in sorted(written) if hash_of(after.get(path)) != before.hash(path))
        if not touched:
            await anyio.to_thread.run_sync(snapshots.discard, before.folder)
            return Consolidated(ending=Ending.UNCHANGED, summary=summary, survival=survival)
        await self._ledger.carry(scope, await anyio.to_thread.run_sync(judged.moves))
        record = self._record(task.purpose, Ending.CHANGED, files=len(touched), survival=survival)
        record = replace(record, settling=task.settling, settled=False)
        await anyio.to_thread.run_sync(_keep, watch.journal, {path: after.get(path) for path in touched}, record)
        return Consolidated(
            ending=Ending.CHANGED,
            touched=touched,
            removed=judged.removed,
            summary=summary,
            snapshot=before.folder,
            survival=survival,
        )

    async def _undone_unless_ended(self, scope: Scope, task: Task, fence: Fence, watch: Watching) -> None:
        """Put back what a run wrote that was cut off, unless it had ended well by then or the lease is lost."""
        journal = watch.journal
        if journal.folder not in await anyio.to_thread.run_sync(journals.unfinished, scope):
            return
        try:
            await fence.check()
        except LeaseLost:
            return
        written = await anyio.to_thread.run_sync(journal.written, tuple(watch.paths))
        await self._take_back(scope, journal, written, purpose=task.purpose, ending=Ending.ABORTED)

    async def _take_back(
        self, scope: Scope, journal: Journal, written: Mapping[Path, Written], *, purpose: str, ending: Ending
    ) -> _Back:
        """Put back what was written; without a record of its end, so that it is tried again, if not all can be now.

        What was before is read from the disk, where what was forgotten meanwhile is no longer in it. Without need the
        snapshot goes: else the failures of a few days would push out what can still be undone.
        """
        before = await anyio.to_thread.run_sync(snapshots.load, scope, journal.folder)
        restored = await put_back(scope, before, written, notes=self._notes, leases=self._leases)
        cleared = await anyio.to_thread.run_sync(snapshots.load, scope, journal.folder)
        if cleared.files != before.files:  # something was forgotten just now: it must not be what was put back
            also = {path: Written(each.hashes | {before.hash(path)}, each.text) for path, each in written.items()}
            restored = await put_back(scope, cleared, also, notes=self._notes, leases=self._leases)
        if restored.failed:
            _log.warning("consolidation_half_back", principal=scope.principal, files=len(restored.failed))
            return _Back(snapshot=journal.folder, is_half=True)
        if restored.left or restored.beside:
            record = self._record(purpose, ending, files=len(restored.left), survival=None)
            await anyio.to_thread.run_sync(journal.end, record)
            return _Back(snapshot=journal.folder)
        await anyio.to_thread.run_sync(snapshots.discard, journal.folder)
        return _Back()

    def _record(self, purpose: str, ending: Ending, *, files: int, survival: Survival | None) -> Record:
        return Record(purpose=purpose, ending=ending.value, ended_at=self._clock(), files=files, survival=survival)


def _is_owed(scope: Scope) -> bool:
    return bool(journals.unfinished(scope) or journals.unsettled(scope))


def _settled(scope: Scope, what: Settling, folder: Path | None, token: int) -> None:
    record = next((record for each, record in journals.unsettled(scope) if each == folder), None)
    if folder is not None and record is not None:
        settle_record(scope, folder, record, token)
    else:
        settle(scope, what, token)


def _left_by_the_dead(scope: Scope, journal: Journal) -> Mapping[Path, Written]:
    """Return what a killed run wrote, with the indexes: a deletion that was cut short may have cleared a pointer."""
    if not journals.has_begun(journal.folder):
        return {}
    noted = journal.written()
    before = snapshots.load(scope, journal.folder)
    indexes = (path for path in before.files if path.name == INDEX)
    changed = {path for path in indexes if hash_of(snapshots.read_one(scope, path)) != before.hash(path)}
    return {**{path: Written() for path in sorted(changed)}, **noted}


def _keep(journal: Journal, touched: Mapping[Path, Saved | None], record: Record) -> None:
    """Keep what an index holds now, as a deletion clears pointers on its way; then the record."""
    for path, saved in touched.items():
        if path.name == INDEX:
            journal.note(path, saved.text if saved else "")
    journal.end(record)
