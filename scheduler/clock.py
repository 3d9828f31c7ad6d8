"""The clock: APScheduler fires, the table of runs decides who runs, no job's failure reaches the clock."""

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel
import structlog
from anyio.abc import TaskGroup
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from memory.ports import UNMETERED, Clock, Meter
from scheduler.dispatch import Dispatch, Looked, Obstacle, unhindered
from scheduler.errors import NotRunning, SchedulerFault
from scheduler.execution import Ran, describe
from scheduler.jobs import Every, Firing, Job
from scheduler.runs import Runs
from scheduler.settings import SchedulerSettings

__all__ = ["Begun", "Looked", "Ran", "SchedulerClock"]

_log = structlog.get_logger(__name__)

_BEAT = "heartbeat"
_BEATS_TO_MISS = 3
_STEP_SECONDS = 1.0  # what a clock is set back by less, work may be late by


@dataclass(frozen=True, slots=True)
class _Moment:
    """A moment by the clock on the wall, which people and networks set, and by one that only goes on, in seconds."""

    wall: datetime
    steady: float

    def set_back(self, since: "_Moment") -> float:
        """Return by how many seconds the clock on the wall was set back since; less than 0 if it was set ahead."""
        return (self.steady - since.steady) - (self.wall - since.wall).total_seconds()


@dataclass(kw_only=True)
class Begun:
    """A job that was begun by hand: `ran` and `error` hold what came of it once `ended` is set."""

    ended: anyio.Event
    ran: Sequence[Ran] = ()
    error: str = "the gateway was stopped"


class SchedulerClock:
    """Fires the declared jobs for as long as it is entered.

    Leaving it stops what runs; a stopped run is given back, so that another replica takes it up at once.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        runs: Runs,
        settings: SchedulerSettings,
        clock: Clock,
        meter: Meter = UNMETERED,
        expected: tuple[type[Exception], ...] = (),
        obstacle: Obstacle = unhindered,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take errors of the `expected` kinds to be words for people; others are told with their kind.

        While there is an `obstacle` no slot is claimed, by the clock or by hand. `steady` is a clock that nobody sets,
        in seconds: by it the health of this one is told, and that `clock` was set back.
        """
        self._dispatch = Dispatch(
            jobs, runs=runs, settings=settings, clock=clock, meter=meter, expected=expected, obstacle=obstacle
        )
        self._settings = settings
        self._clock = clock
        self._steady = steady
        self._scheduler: AsyncIOScheduler | None = None
        self._tasks: TaskGroup | None = None
        self._looking: set[str] = set()
        self._last_beat: _Moment | None = None
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks = await self._exit.enter_async_context(anyio.create_task_group())
        # Never dropped for being late: how late a slot may be is decided by its job, which also records it.
        defaults = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        scheduler = AsyncIOScheduler(timezone=UTC, job_defaults=defaults)
        first = datetime.now(UTC) + timedelta(seconds=self._settings.start_delay)
        for job in self._dispatch.jobs.values():
            trigger = job.trigger.apscheduler()
            scheduler.add_job(self._tick, trigger, args=[job], id=job.id, next_run_time=first)
        beat = Every(period=timedelta(seconds=self._settings.heartbeat)).apscheduler()
        scheduler.add_job(self._beat, beat, id=_BEAT)
        scheduler.start()
        self._scheduler = scheduler
        self._last_beat = self._moment()
        self._tasks.start_soon(self._look_at_the_clock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._scheduler is not None:
            if self._scheduler.running:
                self._scheduler.shutdown(wait=False)
            await anyio.lowlevel.checkpoint()  # the library shuts down in a callback of the loop
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        self._scheduler = self._tasks = self._last_beat = None
        return await self._exit.__aexit__(kind, error, trace)

    def healthy(self, now: datetime) -> bool:
        """Return whether the clock has beaten lately; false when it is stuck, dead or was never entered.

        A beat in the future is none: the clock was set back, and nothing is woken before it is noticed.
        """
        beat, longest = self._last_beat, self._settings.heartbeat * _BEATS_TO_MISS
        if beat is None or self._steady() - beat.steady > longest:
            return False
        return abs((now - beat.wall).total_seconds()) <= longest

    @property
    def jobs(self) -> Sequence[Job]:
        """The declared jobs."""
        return tuple(self._dispatch.jobs.values())

    def job(self, name: str) -> Job:
        """Return a job by its name; raises `UnknownJob`."""
        return self._dispatch.job(name)

    async def run_now(self, name: str, *, only: str = "") -> Sequence[Ran]:
        """Run a job now, by hand, and return what came of each slot; `only` for the scope that these words mean.

        Works whether or not the clock is entered. The slot is its own: the scheduled one still comes.
        Raises `UnknownJob`, `UnknownScope` and `NotReady`.
        """
        return await self._dispatch.by_hand(self.job(name), only=only)

    def begin(self, name: str, *, only: str = "") -> Begun:
        """Begin a job by hand and return at once; raises `UnknownJob`, and `NotRunning` where the clock is not."""
        job, begun = self.job(name), Begun(ended=anyio.Event())
        if self._tasks is None:
            raise NotRunning("the clock is not running")
        self._tasks.start_soon(self._see_through, job, only, begun)
        return begun

    async def dry_run(self, name: str, *, only: str = "") -> Sequence[Looked]:
        """Say what the clock would run now, and what keeps it from the rest; changes nothing.

        Raises `UnknownJob` and `UnknownScope`.
        """
        return await self._dispatch.dry_run(self.job(name), only=only)

    async def fire(self, name: str) -> Sequence[Ran]:
        """Do what a tick does, in the caller's task: find what is due, claim it, run it, record it."""
        job, firing = self.job(name), Firing(now=self._clock())
        return await self._dispatch.carry_out(job, await self._dispatch.look(job, firing), firing)

    async def _tick(self, job: Job) -> None:
        if self._tasks is None:
            raise NotRunning("the clock is not running")
        if job.id not in self._looking:
            self._looking.add(job.id)
            self._tasks.start_soon(self._fire_safely, job)

    async def _fire_safely(self, job: Job) -> None:
        """Fire; the next tick need not wait until all that this one found has been run."""
        firing = Firing(now=self._clock())
        try:
            try:
                found = await self._dispatch.look(job, firing)
            finally:
                self._looking.discard(job.id)
            await self._dispatch.carry_out(job, found, firing)
        except Exception as error:  # noqa: BLE001  (the edge: a job must not stop the clock)
            _log.error("job_firing_failed", job=job.id, cause=describe(error), exc_info=True)

    async def _see_through(self, job: Job, only: str, begun: Begun) -> None:
        try:
            begun.ran, begun.error = await self._dispatch.by_hand(job, only=only), ""
        except Exception as error:  # noqa: BLE001  (the edge: whoever has begun it is told)
            _log.error("job_by_hand_failed", job=job.id, cause=describe(error), exc_info=True)
            begun.error = describe(error, expected=(SchedulerFault,))
        finally:
            begun.ended.set()

    async def _beat(self) -> None:
        self._last_beat = self._moment()

    def _moment(self) -> _Moment:
        return _Moment(self._clock(), self._steady())

    async def _look_at_the_clock(self) -> None:
        """Wake every job once the clock was set back: the library sleeps until it shows what it did once more."""
        last = self._moment()
        while True:
            await anyio.sleep(self._settings.heartbeat)
            now = self._moment()
            back = now.set_back(last)
            if back > _STEP_SECONDS:
                _log.warning("clock_set_back", seconds=round(back))
                self._wake()
            last = now

    def _wake(self) -> None:
        if self._scheduler is not None:
            for job in self._scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))
