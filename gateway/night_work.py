"""What the scheduler's jobs do in memory, each with one line on what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from gateway.dreaming import Dreaming, changes
from gateway.dry_runs import DryRuns
from gateway.errors import JobFailed
from gateway.history import History
from gateway.notices import counted
from gateway.provenance import Provenance
from gateway.team_copies import TeamCopies
from gateway.tidying import TeamTidying
from memory.closing import close_day
from memory.consolidation import Consolidated, Ending
from memory.dailylog import day_bounds
from memory.distil import Distil
from memory.dream import Dream, Gate
from memory.errors import LeaseLost
from memory.notes import Notes
from memory.ports import Clock
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.team.client import TeamSync
from memory.team.shared_pull import SharedPull
from scheduler.days import Days
from scheduler.errors import NotNow
from scheduler.jobs import Due, Firing, JobContext, MemoryWork

_PULL_SECONDS = 10.0
_ELSEWHERE = "another process is at it"


class _Told:
    """Tells a job how far its run is; a `memory.ports.Progress`."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self.begun = False

    async def __call__(self, *, turn: int, text: str, tools: int, written: Sequence[Path]) -> None:
        self.begun = True
        self._context.progress(f"turn {turn}, {counted(len(written), 'file')} written")


class NightWork:
    """The jobs' work, each with one line on what came of it."""

    def __init__(
        self,
        *,
        dreams: Dreaming,
        asking: Callable[[], Dream],
        distil: Distil,
        sync: TeamSync,
        sync_every: timedelta,
        copies: TeamCopies,
        tidying: TeamTidying,
        dry_runs: DryRuns,
        history: History,
        provenance: Provenance,
        notes: Notes,
        days: Days,
        settings: MemorySettings,
        clock: Clock,
    ) -> None:
        self._days = days
        self._settings = settings
        self._clock = clock
        self._dreams = dreams
        self._asking = asking
        self._distil = distil
        self._sync = sync
        self._sync_every = sync_every
        self._copies = copies
        self._tidying = tidying
        self._dry_runs = dry_runs
        self._history = history
        self._provenance = provenance
        self._notes = notes
        self._round: tuple[Firing, SharedPull] | None = None

    @property
    def table(self) -> MemoryWork:
        """What the scheduler is handed."""
        return MemoryWork(
            close_day=self.close_day,
            distil=self.distil,
            dream_since=self._dreams.dream.last,
            dream_gate=self.dream_gate,
            dream=self.dream,
            sync_team=self.sync_team,
            sync_every=self._sync_every,
            tidy_team=self.tidy_team,
            teams=self._tidying.due,
            unseen=self._history.unseen,
            would=self._dry_runs.table,
        )

    async def close_day(self, context: JobContext) -> str:
        """Put into a day's log what was said on that day and is in no log yet."""
        scope, day = context.scope, context.day
        context.progress(f"looking for what was said on {day} and is in no log yet")
        return f"{counted(await self._close(scope, day, context.due), 'message')} added to the log of {day}"

    async def close_log(self, scope: Scope) -> int:
        """Close every day of a scope in log mode that is open, today up to now, and return how many messages came."""
        unclosed = await self._days.unclosed(scope, self._clock())
        return sum([await self._close(scope, due.day, due) for due in unclosed if due.day is not None])

    async def _close(self, scope: Scope, day: date, due: Due) -> int:
        begins, ends = due.since or day_bounds(scope, day)[0], due.at
        # What extraction has looked at stands in the log in its words, or was not worth a line.
        logged = await self._history.extracted_between(scope, begins, ends)
        return await close_day(
            scope,
            day,
            history=self._history,
            notes=self._notes,
            logged=logged,
            between=(begins, ends),
            ledger=self._provenance,
            max_bytes=self._settings.write_max_bytes,
        )

    async def distil(self, context: JobContext) -> str:
        """Sort the day logs that wait into notes."""
        progress = _Told(context)
        return _told(await self._distil(context.scope, progress=progress), begun=progress.begun)

    async def dream_gate(self, scope: Scope, firing: Firing) -> str:
        """Name the gate that keeps a scope from dreaming, "" if all are open."""
        gate = await (self._asking() if firing.dry else self._dreams.dream).due(scope)
        return "" if gate is Gate.OPEN else gate.value

    async def dream(self, context: JobContext) -> str:
        """Put a scope's notes in order."""
        progress = _Told(context)
        done = await self._dreams(context.scope, forced=context.by_hand, progress=progress)
        return _told(done, begun=progress.begun)

    async def sync_team(self, context: JobContext) -> str:
        """Bring one copy of a project's team memory in step; all copies of one firing share what is pulled.

        Each has a run of its own nevertheless, as each fails, rests and has its conflicts on its own, and `/team` says
        how it went for the copy that the asker sees.
        """
        context.progress("exchanging with the server of the team's memory")
        try:
            report = await self._sync.sync(context.scope, shared=self._shared_by(context.firing))
        except LeaseLost as error:
            raise NotNow(_ELSEWHERE) from error
        if report.pushed or report.deleted:
            context.progress(f"{report.summary()}; bringing the other copies in step")
            await self._copies.bring_in_step(context.scope, within=_PULL_SECONDS)
        if report.failure is not None:
            raise report.failure
        return report.summary()

    def _shared_by(self, firing: Firing) -> SharedPull:
        """Return what the copies share that one firing of the job is at: each project's server is asked once."""
        if self._round is None or self._round[0] is not firing:
            self._round = firing, SharedPull()
        return self._round[1]

    async def tidy_team(self, context: JobContext) -> str:
        """Have the notes of a project's team looked over, and propose how they could be put in order."""
        begun: list[str] = []

        def progress(line: str) -> None:
            begun.append(line)
            context.progress(line)

        try:
            return await self._tidying.look(replace(context, progress=progress))
        except LeaseLost as error:
            if begun:
                raise
            raise NotNow(_ELSEWHERE) from error


_SETTLED = (Ending.GATED, Ending.SPENT, Ending.STOPPED)
"""Ends that are none of a failure: to try it again today would be against what somebody, or the budget, has said."""


def _told(done: Consolidated, *, begun: bool) -> str:
    """Return the run's outcome in one line; raises `JobFailed` where it did not end well, so that it is tried again.

    A lease that was not to be had is no failure, and raises `NotNow`; one that was lost on the way is one, as it would
    cost the model's work again at each tick.
    """
    if done.ending is Ending.BUSY and not begun:
        raise NotNow(done.reason)
    if not done.ending.good and done.ending not in _SETTLED:
        raise JobFailed(done.reason if done.ending is Ending.FAILED else f"{done.ending.value}: {done.reason}")
    touched = changes(len(done.touched), done.survival) if done.touched else ""
    ended = "not due" if done.ending is Ending.GATED else done.ending.value
    return "; ".join(part for part in (ended, touched, done.reason) if part)
