"""What the scheduler did last and does next, for people to read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from memory.ports import Clock
from scheduler.clock import SchedulerClock
from scheduler.jobs import Job
from scheduler.runs import JobRun, Outcome, Runs

_NONE = timedelta()
_LATELY = timedelta(days=7)
_TOOK = {Outcome.DONE: "in", Outcome.FAILED: "after"}


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStatus:
    """A job: when it has something to do next, and the last run of each of its scopes, those that failed first."""

    job: Job
    following: datetime | None
    last: Sequence[JobRun]
    more: bool
    """Whether there are more scopes than `last` holds."""
    missed: JobRun | None = None
    """What was missed lately, where `last` does not show it."""

    @property
    def failing(self) -> bool:
        """Whether the last run of a scope has failed."""
        return any(run.outcome is Outcome.FAILED for run in self.last)


class Board:
    """Looks at the jobs of a clock, which need not run, and at the table of runs, whoever filled it."""

    def __init__(self, scheduler: SchedulerClock, *, runs: Runs, clock: Clock) -> None:
        self._scheduler = scheduler
        self._runs = runs
        self._clock = clock

    async def overview(self, *, limit: int) -> Sequence[JobStatus]:
        """Return all jobs, those that fail first, each with at most so many scopes."""
        found = [await self.of(job.id, limit=limit) for job in self._scheduler.jobs]
        return sorted(found, key=lambda status: not status.failing)

    async def of(self, name: str, *, limit: int, page: int = 1) -> JobStatus:
        """Return one job with a page of its scopes, the first being 1; raises `UnknownJob`."""
        job = self._scheduler.job(name)
        found = await self._runs.last_of_scopes(name, limit=limit + 1, offset=limit * (page - 1))
        following = await job.following(self._clock())
        missed = await self._runs.last_missed(name, since=self._clock() - _LATELY)
        hidden = None if missed in found[:limit] else missed
        return JobStatus(job=job, following=following, last=found[:limit], more=len(found) > limit, missed=hidden)


def how(run: JobRun, *, now: datetime) -> str:
    """Return what has become of a run, or how far it is: its outcome, how long it took, and its line."""
    if run.stopped(now):
        said = "stopped in the middle; a tick takes it up, or records that it was cut off"
    elif run.outcome is None:
        said = f"running for {spoken(now - run.started_at)}"
    elif run.outcome is Outcome.MISSED:
        return run.detail
    elif run.outcome is Outcome.BUSY:
        said = "busy" if run.by_hand else "busy, and tried again at the next tick"
    else:
        took = f" {_TOOK[run.outcome]} {spoken(length)}" if (length := lasted(run)) is not None else ""
        said = f"{run.outcome.value}{took}"
    return f"{said}: {run.detail}" if run.detail else said


def outcome_of(run: JobRun, *, now: datetime) -> str:
    """Return what has become of a run in a word, for programs."""
    if run.outcome is not None:
        return run.outcome.value
    return "stopped" if run.stopped(now) else "running"


def lasted(run: JobRun) -> timedelta | None:
    """Return how long a run took; None while it runs, and for one that never ran."""
    if run.finished_at is None or run.outcome in {Outcome.MISSED, Outcome.BUSY}:
        return None
    return max(run.finished_at - run.started_at, _NONE)


def spoken(length: timedelta) -> str:
    """Return a length of time in its two greatest units."""
    rest = int(max(length, _NONE).total_seconds())
    parts: list[str] = []
    for name, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or parts or name == "s":
            parts.append(f"{count} {name}")
    return " ".join(part for part in parts[:2] if len(parts) == 1 or not part.startswith("0 "))


def local(moment: datetime, timezone: str) -> str:
    """Return a moment as a clock of the zone shows it, with the zone."""
    return moment.astimezone(ZoneInfo(timezone)).strftime("%Y-%m-%d %H:%M %Z")
