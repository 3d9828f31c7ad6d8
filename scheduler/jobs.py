"""The table of jobs: what fires when, for whom, and what becomes of a slot that is late."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum

from memory.scope import Scope
from scheduler.finders import Days, Dreamers, DueSince, Members, Scopes
from scheduler.runs import Runs
from scheduler.settings import SchedulerSettings
from scheduler.slots import Due, Every, Finder, Firing

__all__ = [
    "Chore",
    "Due",
    "Every",
    "Firing",
    "Job",
    "JobContext",
    "MemoryWork",
    "Policy",
    "Scopes",
    "Work",
    "jobs",
    "plan",
]


class Policy(StrEnum):
    """What happens to slots whose time has passed by more than the job's grace."""

    ONCE = "once"
    """The newest is run, late; those before it are recorded as missed."""
    CATCH_UP = "catch-up"
    """All are run, oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobContext:
    """What a job is told about the slot that it runs for."""

    due: Due
    firing: Firing

    @property
    def scope(self) -> Scope:
        """The scope to work for; only in jobs that go by scope."""
        if self.due.scope is None:
            raise ValueError("this job works for the gateway as a whole")
        return self.due.scope

    @property
    def day(self) -> date:
        """The local day to work on; only in jobs that go by day."""
        if self.due.day is None:
            raise ValueError("this job does not go by days")
        return self.due.day

    @property
    def by_hand(self) -> bool:
        """Whether a person asked for it."""
        return self.firing.by_hand


Work = Callable[[JobContext], Awaitable[str]]
"""Does the work of one slot and returns one line on it; an error that it raises is the run's failure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A declared job; without a `finder`, the trigger's latest slot is due, for the gateway as a whole."""

    id: str
    trigger: Every
    grace: timedelta
    policy: Policy
    run: Work
    finder: Finder | None = None
    pause: timedelta = timedelta()
    """How long a slot rests before it is tried again after a failure; each time twice as long."""

    async def due(self, firing: Firing) -> Sequence[Due]:
        """Return the slots that the firing finds due."""
        if self.finder is not None:
            return await self.finder(firing)
        return [self.trigger.latest(firing.now)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chore:
    """Work of the gateway's own that only has to be done now and then."""

    id: str
    period: timedelta
    run: Work


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryWork:
    """What memory does by the clock, as plain callables; `context.by_hand` lifts the dream's gates."""

    close_day: Work
    distil: Work
    dream_due_since: DueSince
    dream: Work
    sync_team: Work
    sync_every: timedelta


def plan(job: Job, dues: Sequence[Due], *, now: datetime) -> tuple[list[Due], list[Due]]:
    """Return which slots to run, oldest first, and which are missed, by the job's grace and policy."""
    ordered = sorted(dues, key=lambda due: due.at)
    late = [due for due in ordered if now - due.at > job.grace]
    if job.policy is Policy.CATCH_UP or not late:
        return ordered, []
    newest = {due.scope_key: due for due in ordered}
    missed = [due for due in late if due is not newest[due.scope_key]]
    return [due for due in ordered if due not in missed], missed


def jobs(
    settings: SchedulerSettings, *, scopes: Scopes, runs: Runs, work: MemoryWork, chores: Sequence[Chore] = ()
) -> tuple[Job, ...]:
    """Return every job, each id once; what they do is passed in by the gateway."""
    sync = Every(period=work.sync_every)
    dream = Every(period=timedelta(minutes=settings.dream_minutes))
    close = Every(period=timedelta(minutes=settings.close_day_minutes))
    days = Days(settings, scopes=scopes, runs=runs)
    pause = timedelta(minutes=settings.retry_minutes)
    return (
        Job(
            id=Days.CLOSE,
            trigger=close,
            grace=timedelta(hours=1),
            policy=Policy.CATCH_UP,
            run=work.close_day,
            finder=days.to_close,
        ),
        Job(
            id=Days.DISTIL,
            trigger=dream,
            grace=_window(settings),
            policy=Policy.ONCE,
            run=work.distil,
            finder=days.to_distil,
            pause=pause,
        ),
        Job(
            id="dream",
            trigger=dream,
            grace=dream.period,
            policy=Policy.ONCE,
            run=work.dream,
            finder=Dreamers(dream, scopes=scopes, due_since=work.dream_due_since),
            pause=pause,
        ),
        Job(
            id="team-sync",
            trigger=sync,
            grace=sync.period,
            policy=Policy.ONCE,
            run=work.sync_team,
            finder=Members(sync, scopes=scopes),
        ),
        *map(_chore, chores),
        _chore(
            Chore(
                id="forget-runs",
                period=timedelta(days=1),
                run=_Forget(runs, kept=timedelta(days=settings.runs_kept_days)),
            )
        ),
    )


def _chore(chore: Chore) -> Job:
    every = Every(period=chore.period)
    return Job(id=chore.id, trigger=every, grace=chore.period, policy=Policy.ONCE, run=chore.run)


def _window(settings: SchedulerSettings) -> timedelta:
    midnight = datetime.combine(date.min, time.min)
    start, end = (
        datetime.combine(date.min, moment) - midnight for moment in (settings.distil_from, settings.distil_until)
    )
    return (end - start) % timedelta(days=1)


class _Forget:
    """Deletes old rows of runs."""

    def __init__(self, runs: Runs, *, kept: timedelta) -> None:
        self._runs = runs
        self._kept = kept

    async def __call__(self, context: JobContext) -> str:
        gone = await self._runs.prune(context.firing.now - self._kept)
        return f"{gone} old {'run' if gone == 1 else 'runs'} forgotten"
