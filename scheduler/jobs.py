"""The table of jobs: what fires when, for whom, and what becomes of a slot that is late."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import StrEnum

from memory.scope import Scope
from scheduler.days import Days, Unseen, nothing_unseen
from scheduler.finders import Dreamers, DreamGate, DreamSince, Members, Scopes
from scheduler.runs import Runs
from scheduler.settings import SchedulerSettings
from scheduler.slots import Due, Every, Finder, Firing, QuietHours

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

_THINKING = "model"
_SLACK = timedelta(hours=2)  # the longest day has 25 hours
_ANY_HOUR = timedelta(days=1)
"""The grace of what may be done at any hour of its day, so that it is never late."""


class Policy(StrEnum):
    """What happens to slots whose time has passed by more than the job's grace. Each of them is told, never dropped."""

    SKIP = "skip"
    """None is run, all are recorded as missed: the next one does the same work, and comes soon.

    Those in a row, of one scope, in one record. The slots are those of the job's trigger.
    """
    ONCE = "once"
    """The newest is run, late; those before it are recorded as missed, as it does their work with its own."""
    CATCH_UP = "catch-up"
    """All are run, oldest first."""


def _untold(line: str) -> None:
    """Take a line of progress that nobody looks at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobContext:
    """What a job is told about the slot that it runs for."""

    due: Due
    firing: Firing
    progress: Callable[[str], None] = _untold
    """Told one line on how far long work is, as often as one likes; `/jobs` shows the latest, some seconds later."""

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


def _always(due: Due, now: datetime) -> str:
    """Name no gate: a slot that is due may be begun at any moment."""
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A declared job; without a `finder`, the trigger's latest slot is due, for the gateway as a whole.

    Ticks of all jobs coalesce: what is due follows from the slots, so a tick that was late or left out finds all that
    it would have found, and ten of them in a row no more than one. Slots coalesce as the policy says.
    """

    id: str
    trigger: Every
    grace: timedelta
    policy: Policy
    run: Work
    tells: str = ""
    """What it does, in words for people."""
    finder: Finder | None = None
    pause: timedelta = timedelta()
    """How long a slot rests before it is tried again after a failure; each time twice as long."""
    attempts: int = 0
    """How often a slot is tried, where that is more often than the settings say; later slots don't wait for that."""
    reach: timedelta | None = None
    """Slots that are older are missed, whatever the policy."""
    lane: str = ""
    """Jobs of the same lane share the cap on how many scopes are worked for at once; empty: a lane of its own."""
    hold: Callable[[Due, datetime], str] = _always
    """Names what keeps a slot from being begun, "" if nothing does; asked right before, as it may have waited."""
    would: Work | None = None
    """Says what the run of a slot would do, in words that follow "would", and changes nothing."""
    upcoming: Callable[[datetime], Awaitable[datetime | None]] | None = None
    """Says when there will be something to do next, where that is not the next tick."""

    async def candidates(self, firing: Firing) -> Sequence[Due]:
        """Return every slot that the firing looks at; those that are not to be run now have a gate."""
        if self.finder is not None:
            return await self.finder(firing)
        return [self.trigger.latest(firing.now)]

    async def due(self, firing: Firing) -> Sequence[Due]:
        """Return the slots that the firing finds due."""
        return [due for due in await self.candidates(firing) if not due.gate]

    async def following(self, now: datetime) -> datetime | None:
        """Return when it has something to do next, as far as the clock can know; None if there is nobody to do it for.

        Whether a dream is due only its gates can tell: of that job it is when it looks next.
        """
        return self.trigger.following(now) if self.upcoming is None else await self.upcoming(now)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chore:
    """Work of the gateway's own that only has to be done now and then."""

    id: str
    period: timedelta
    run: Work
    tells: str = "a chore of the gateway"
    would: Work | None = None
    """See `Job.would`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryWork:
    """What memory does by the clock, as plain callables; `context.by_hand` lifts the dream's gates."""

    close_day: Work
    distil: Work
    dream_since: DreamSince
    dream_gate: DreamGate
    dream: Work
    sync_team: Work
    sync_every: timedelta
    tidy_team: Work
    teams: Finder
    """The projects that have a team memory, each under a scope of its own."""
    unseen: Unseen = nothing_unseen
    would: Mapping[str, Work] = field(default_factory=dict)
    """By job, what says what a run would do; see `Job.would`."""


def plan(job: Job, dues: Sequence[Due], *, now: datetime) -> tuple[list[Due], list[Due]]:
    """Return which slots to run, oldest first, and which are missed, by the job's grace and policy."""
    ordered = sorted(dues, key=lambda due: due.at)
    newest = {due.scope_key: due for due in ordered}
    missed = [due for due in ordered if _is_missed(job, due, now - due.at, newest=newest[due.scope_key])]
    return [due for due in ordered if due not in missed], missed


def _is_missed(job: Job, due: Due, age: timedelta, *, newest: Due) -> bool:
    if job.reach is not None and age > job.reach:
        return True
    if age <= job.grace or job.policy is Policy.CATCH_UP:
        return False
    return job.policy is Policy.SKIP or due is not newest


def jobs(
    settings: SchedulerSettings, *, scopes: Scopes, runs: Runs, work: MemoryWork, chores: Sequence[Chore] = ()
) -> tuple[Job, ...]:
    """Return every job, each id once; what they do is passed in by the gateway."""
    sync = Every(period=work.sync_every)
    dream = Every(period=timedelta(minutes=settings.dream_minutes))
    close = Every(period=timedelta(minutes=settings.close_day_minutes))
    reach = timedelta(days=settings.close_day_back) + _SLACK
    days = Days(settings, scopes=scopes, runs=runs, unseen=work.unseen)
    pause = timedelta(minutes=settings.retry_minutes)
    return (
        Job(
            id=Days.CLOSE,
            tells="closes the day log of yesterday at a scope's midnight, where log mode is on",
            trigger=close,
            grace=timedelta(hours=1),
            policy=Policy.CATCH_UP,
            run=work.close_day,
            would=work.would.get(Days.CLOSE),
            finder=days.to_close,
            pause=close.period,
            attempts=2 + int(reach / close.period).bit_length(),  # with pauses twice as long each time, all the while
            reach=reach,
            upcoming=days.next_close,
        ),
        Job(
            id=Days.DISTIL,
            tells="sorts closed day logs into notes at night",
            trigger=dream,
            grace=_window(settings),
            policy=Policy.ONCE,
            run=work.distil,
            would=work.would.get(Days.DISTIL),
            finder=days.to_distil,
            pause=pause,
            lane=_THINKING,
            upcoming=days.next_distil,
        ),
        Job(
            id="dream",
            tells="puts a memory's notes in order, where enough has happened since it last did",
            trigger=dream,
            grace=_ANY_HOUR,
            policy=Policy.ONCE,
            run=work.dream,
            would=work.would.get("dream"),
            finder=Dreamers(dream, scopes=scopes, since=work.dream_since, gate=work.dream_gate),
            pause=pause,
            lane=_THINKING,
            hold=QuietHours(begin=settings.quiet_from, end=settings.quiet_until),
        ),
        Job(
            id="team-sync",
            tells="brings the copies of a team's memory in step",
            trigger=sync,
            grace=sync.period,
            policy=Policy.SKIP,
            run=work.sync_team,
            would=work.would.get("team-sync"),
            finder=Members(sync, scopes=scopes),
        ),
        Job(
            id="tidy-team",
            tells="looks once a day how a team's notes could be put in order, and proposes that to the owners",
            trigger=dream,
            grace=_ANY_HOUR,
            policy=Policy.ONCE,
            run=work.tidy_team,
            would=work.would.get("tidy-team"),
            finder=work.teams,
            pause=pause,
            lane=_THINKING,
            hold=QuietHours(begin=settings.quiet_from, end=settings.quiet_until),
        ),
        *map(_chore, [*chores, _forgetting(runs, kept=timedelta(days=settings.runs_kept_days))]),
    )


def _chore(chore: Chore) -> Job:
    every = Every(period=chore.period)
    return Job(
        id=chore.id,
        tells=chore.tells,
        trigger=every,
        grace=chore.period,
        policy=Policy.SKIP,
        run=chore.run,
        would=chore.would,
    )


def _window(settings: SchedulerSettings) -> timedelta:
    midnight = datetime.combine(date.min, time.min)
    start, end = (
        datetime.combine(date.min, moment) - midnight for moment in (settings.distil_from, settings.distil_until)
    )
    return (end - start) % timedelta(days=1)


def _forgetting(runs: Runs, *, kept: timedelta) -> Chore:
    async def forget(context: JobContext) -> str:
        return f"{_old_runs(await runs.prune(context.firing.now - kept))} forgotten"

    async def would(context: JobContext) -> str:
        return f"forget {_old_runs(await runs.count(context.firing.now - kept))}"

    tells = "deletes old records of runs"
    return Chore(id="forget-runs", tells=tells, period=timedelta(days=1), run=forget, would=would)


def _old_runs(number: int) -> str:
    return f"{number} old {'run' if number == 1 else 'runs'}"
