"""A run that may rewrite a whole memory directory, under guard: all of it stands, or none of it does.

The way of one through its modules: `snapshot` keeps what was before; `watching` lets the run write, each change first
noted in the `journal`, and what others change meanwhile (`meanwhile`) taken into the snapshot; `judgement` says whether
the result may stand, by what it says (`claims`, `survival`) and of whom (`attribution`); then `settling` notes that it
was done, or `restore` puts all back as `rewind` plans it. `undo` takes back later what stood.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
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
from memory.index import is_index
from memory.journal import Journal, Record, Settling, Survival, Written
from memory.judgement import Ending, Judgement, NoSources, Sources, speakers
from memory.lease_names import dreaming, writing
from memory.notes import Notes
from memory.ports import UNLIMITED, Budget, Clock, Fence, Leases, Notice, Progress, Rights, Run, RunReport
from memory.restore import put_back
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.settling import settle, settle_record
from memory.snapshot import Snapshot, hash_of
from memory.watching import Watching

__all__ = ["Consolidated", "Consolidation", "Ending", "Task"]

_log = structlog.get_logger(__name__)
_WAIT_SECONDS = 30.0  # for who replaces a file just now
_NO_TOKENS = "tonight's tokens for dreams are used up"
_HALF_BACK = "an earlier one is not wholly put back yet, as a note could not be written; that is tried again by itself"
_UNREAD = "it opened none of the day logs, so they wait"
_CUT_OFF = "Putting memory in order was cut off; the notes are as they were before."


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
    settling: Settling = field(default_factory=Settling)
    """What is noted of it: of the logs that the task names, those that were opened."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What one consolidation is to do."""

    purpose: str
    prompt: str
    max_turns: int
    told: Callable[[Consolidated], str]
    """The line for the owner if something changed; empty: nothing is told."""
    settling: Settling = field(default_factory=Settling)
    """What is noted once it has ended well, while the lease is still held; of its logs those that the run opened."""
    shown: frozenset[str] = frozenset()
    """The logs that stand in the prompt, and so need not be opened."""


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
            async with self._leases.hold(dreaming(scope), seconds=self._settings.lease_seconds, wait=0) as fence:
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
            async with self._leases.hold(dreaming(scope), seconds=self._settings.lease_seconds, wait=0):
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
            async with self._leases.hold(dreaming(scope), seconds=self._settings.lease_seconds, wait=0) as fence:
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
            back = await self._take_back(scope, journal, written)
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
            await self._settle(scope, fence, done.settling, done.snapshot)
        told = task.told(done) if done.ending is Ending.CHANGED else ""
        if told and self._settings.notices != "off":
            await self._notice(scope, told)
        return done

    async def _settle(self, scope: Scope, fence: Fence, what: Settling, folder: Path | None) -> None:
        """Note what is due; what can't be noted now is so later, as the record says that it is missing."""
        try:
            await anyio.to_thread.run_sync(_note_settled, scope, what, folder, fence.token)
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
            return await self._judged(scope, task, before, watch, report)
        except LeaseLost:
            raise  # whoever has the lease now has put back what was written, and may be at work
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._undone_unless_ended(scope, fence, watch)
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

    async def _judged(
        self, scope: Scope, task: Task, before: Snapshot, watch: Watching, report: RunReport | None
    ) -> Consolidated:
        """Keep what the run has written, or put it back."""
        after = await anyio.to_thread.run_sync(snapshots.read_all, scope)
        said_by = await speakers(scope, self._ledger, before.files)
        judged = Judgement(scope=scope, before=before.files, after=after, said_by=said_by)
        verdict = partial(judged.verdict, tuple(watch.paths), report, self._settings)
        judged_by_itself: tuple[Ending, str] = await anyio.to_thread.run_sync(verdict)
        ending, reason = await watch.ended_otherwise() or judged_by_itself
        settling = _earned(task, report)
        if ending.good and task.settling.logs and not settling.logs:  # else they would count as sorted, and go in time
            ending, reason = Ending.FAILED, _UNREAD
        survival = await anyio.to_thread.run_sync(lambda: judged.survival)
        summary = report.text if report else ""
        done = Consolidated(ending=ending, reason=reason, summary=summary, survival=survival, settling=settling)
        written = await anyio.to_thread.run_sync(watch.journal.written, tuple(watch.paths))
        if ending.good:
            return await self._kept(judged, done, watch, written)
        return await self._not_kept(scope, done, watch, written)

    async def _not_kept(
        self, scope: Scope, done: Consolidated, watch: Watching, written: Mapping[Path, Written]
    ) -> Consolidated:
        ending, reason = done.ending.value, done.reason
        _log.warning("consolidation_not_kept", principal=scope.principal, ending=ending, reason=reason)
        back = await self._take_back(scope, watch.journal, written)
        return replace(done, snapshot=back.snapshot, half_back=back.is_half)

    async def _kept(
        self, judged: Judgement, done: Consolidated, watch: Watching, written: Mapping[Path, Written]
    ) -> Consolidated:
        """Record what stands; of a run that has left everything as it was nothing is kept."""
        scope, journal = judged.scope, watch.journal
        before, after = judged.before, judged.after
        touched = tuple(path for path in sorted(written) if hash_of(after.get(path)) != hash_of(before.get(path)))
        if not touched:
            await anyio.to_thread.run_sync(snapshots.discard, journal.folder)
            return replace(done, ending=Ending.UNCHANGED)
        async with self._leases.hold(writing(scope), seconds=self._settings.lease_seconds, wait=_WAIT_SECONDS):
            await anyio.to_thread.run_sync(_keep_indexes, scope, journal, touched)
        if ended := await watch.ended_otherwise():  # what is forgotten from now on leaves what was kept just now, too
            done = replace(done, ending=ended[0], reason=ended[1])
            written = await anyio.to_thread.run_sync(journal.written, tuple(watch.paths))
            return await self._not_kept(scope, done, watch, written)
        await self._ledger.carry(scope, await anyio.to_thread.run_sync(judged.moves))
        record = Record(files=len(touched), survival=done.survival, settling=done.settling, settled=False)
        await anyio.to_thread.run_sync(journal.end, record)
        return replace(done, touched=touched, removed=judged.removed, snapshot=journal.folder)

    async def _undone_unless_ended(self, scope: Scope, fence: Fence, watch: Watching) -> None:
        """Put back what a run wrote that was cut off, unless it had ended well by then or the lease is lost."""
        journal = watch.journal
        if journal.folder not in await anyio.to_thread.run_sync(journals.unfinished, scope):
            return
        try:
            await fence.check()
        except LeaseLost:
            return
        written = await anyio.to_thread.run_sync(journal.written, tuple(watch.paths))
        await self._take_back(scope, journal, written)

    async def _take_back(self, scope: Scope, journal: Journal, written: Mapping[Path, Written]) -> _Back:
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
            await anyio.to_thread.run_sync(journal.end, Record(files=len(restored.left)))
            return _Back(snapshot=journal.folder)
        await anyio.to_thread.run_sync(snapshots.discard, journal.folder)
        return _Back()


def _earned(task: Task, report: RunReport | None) -> Settling:
    """Return what may be noted of a task: a log that was not opened is not sorted, whatever the run says."""
    known = task.shown.union(report.opened if report else ())
    return replace(task.settling, logs={name: mark for name, mark in task.settling.logs.items() if name in known})


def _is_owed(scope: Scope) -> bool:
    return bool(journals.unfinished(scope) or journals.unsettled(scope))


def _note_settled(scope: Scope, what: Settling, folder: Path | None, token: int) -> None:
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
    indexes = (path for path in before.files if is_index(path.name))
    changed = {path for path in indexes if hash_of(snapshots.read_one(scope, path)) != before.hash(path)}
    return {**{path: Written() for path in sorted(changed)}, **noted}


def _keep_indexes(scope: Scope, journal: Journal, touched: Iterable[Path]) -> None:
    """Keep what the indexes hold now, as a deletion clears pointers on its way."""
    for path in touched:
        if is_index(path.name):
            saved = snapshots.read_one(scope, path)
            journal.note(path, saved.text if saved else "")
