"""The clock: APScheduler fires, the table of runs decides who runs, no job's failure reaches the clock."""

from collections.abc import Sequence
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

from memory.ports import Clock
from scheduler.errors import NotRunning, RunLost, UnknownJob
from scheduler.jobs import Due, Every, Firing, Job, JobContext, plan
from scheduler.runs import Outcome, Run, Runs
from scheduler.settings import SchedulerSettings

_log = structlog.get_logger(__name__)

_BEAT = "heartbeat"
_BEATS_TO_MISS = 3
_LONGEST_DETAIL = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What became of one slot in this process."""

    scope: str
    slot: str
    outcome: Outcome
    detail: str


class SchedulerClock:
    """Fires the declared jobs for as long as it is entered.

    Leaving it stops what runs; a stopped run is given back, so that another replica takes it up at once.
    """

    def __init__(self, jobs: Sequence[Job], *, runs: Runs, settings: SchedulerSettings, clock: Clock) -> None:
        self._jobs = {job.id: job for job in jobs}
        if len(self._jobs) != len(jobs):
            raise ValueError("two jobs have the same id")
        self._runs = runs
        self._settings = settings
        self._clock = clock
        self._lease = timedelta(seconds=settings.lease)
        self._scheduler: AsyncIOScheduler | None = None
        self._tasks: TaskGroup | None = None
        self._firing: set[str] = set()
        self._last_beat: datetime | None = None
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._tasks = await self._exit.enter_async_context(anyio.create_task_group())
        # Never dropped for being late: how late a slot may be is decided by its job, which also records it.
        defaults = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        scheduler = AsyncIOScheduler(timezone=UTC, job_defaults=defaults)
        first = datetime.now(UTC) + timedelta(seconds=self._settings.start_delay)
        for job in self._jobs.values():
            trigger = job.trigger.apscheduler()
            scheduler.add_job(self._tick, trigger, args=[job], id=job.id, next_run_time=first)
        beat = Every(period=timedelta(seconds=self._settings.heartbeat)).apscheduler()
        scheduler.add_job(self._beat, beat, id=_BEAT)
        scheduler.start()
        self._scheduler = scheduler
        self._last_beat = self._clock()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            await anyio.lowlevel.checkpoint()  # the library shuts down in a callback of the loop
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        self._scheduler = self._tasks = self._last_beat = None
        return await self._exit.__aexit__(kind, error, trace)

    def healthy(self, now: datetime) -> bool:
        """Return whether the clock has beaten lately; false when it is stuck, dead or was never entered."""
        longest = timedelta(seconds=self._settings.heartbeat * _BEATS_TO_MISS)
        return self._last_beat is not None and now - self._last_beat <= longest

    def following(self) -> dict[str, datetime | None]:
        """Return when each job fires next."""
        if self._scheduler is None:
            return dict.fromkeys(self._jobs)
        return {name: self._scheduler.get_job(name).next_run_time for name in self._jobs}

    async def run_now(self, name: str) -> Sequence[Ran]:
        """Run a job now, by hand, and return what came of each slot; raises `UnknownJob`.

        Works whether or not the clock is entered. The slot is its own: the scheduled one still comes.
        """
        if name not in self._jobs:
            raise UnknownJob(name, known=sorted(self._jobs))
        return await self.fire(name, by_hand=True)

    async def fire(self, name: str, *, by_hand: bool = False) -> Sequence[Ran]:
        """Do what a tick does, in the caller's task: find what is due, claim it, run it, record it."""
        job = self._jobs[name]
        firing = Firing(now=self._clock(), by_hand=by_hand)
        found = await job.due(firing)
        to_run, missed = (found, []) if by_hand else plan(job, found, now=firing.now)
        for due in missed:
            await self._miss(job, due, firing)
        ran = [await self._run(job, due, firing) for due in to_run]
        return [each for each in ran if each is not None]

    async def _tick(self, job: Job) -> None:
        if self._tasks is None:
            raise NotRunning("the clock is not running")
        if job.id not in self._firing:
            self._firing.add(job.id)
            self._tasks.start_soon(self._fire_safely, job.id)

    async def _fire_safely(self, name: str) -> None:
        try:
            await self.fire(name)
        except Exception as error:  # noqa: BLE001  (the edge: a job must not stop the clock)
            _log.error("job_firing_failed", job=name, cause=describe(error), exc_info=True)
        finally:
            self._firing.discard(name)

    async def _beat(self) -> None:
        self._last_beat = self._clock()

    async def _miss(self, job: Job, due: Due, firing: Firing) -> None:
        detail = f"missed: its time was {_span(firing.now - due.at)} ago"
        if await self._runs.missed(job.id, due.scope_key, due.slot, detail=detail):
            _log.warning("job_missed", job=job.id, scope=due.scope_key, slot=due.slot)

    async def _run(self, job: Job, due: Due, firing: Firing) -> Ran | None:
        slot = f"{due.slot} by hand {firing.now.isoformat()}" if firing.by_hand else due.slot
        run = await self._runs.claim(
            job.id, due.scope_key, slot, lease=self._lease, attempts=self._settings.attempts, pause=job.pause
        )
        if run is None:
            return None
        late = "" if firing.by_hand or firing.now - due.at <= job.grace else f"{_span(firing.now - due.at)} late: "
        try:
            outcome, detail = await self._work(job, run, JobContext(due=due, firing=firing))
            with anyio.CancelScope(shield=True):  # what was done is recorded, even while stopping
                await self._runs.finish(run, outcome, late + detail)
        except RunLost:
            _log.warning("job_lost", job=job.id, scope=run.scope, slot=slot)
            return None
        _log.info("job_ran", job=job.id, scope=run.scope, slot=slot, outcome=outcome.value)
        return Ran(scope=run.scope, slot=slot, outcome=outcome, detail=late + detail)

    async def _work(self, job: Job, run: Run, context: JobContext) -> tuple[Outcome, str]:
        """Run the job while its lease is renewed; raises `RunLost` when another holder took it over."""
        ended: tuple[Outcome, str] | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._renew, run, group)
                ended = await self._attempt(job, context)
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._give_back(run)
            raise
        if ended is None:
            raise RunLost(f"the run of {run.job} for {run.slot} was taken over")
        return ended

    async def _attempt(self, job: Job, context: JobContext) -> tuple[Outcome, str]:
        limit = self._settings.job_limit_minutes
        try:
            with anyio.fail_after(limit * 60):
                return Outcome.DONE, (await job.run(context))[:_LONGEST_DETAIL]
        except Exception as error:  # noqa: BLE001  (the edge: the failure is recorded, the clock goes on)
            _log.error("job_failed", job=job.id, cause=type(error).__name__, exc_info=True)
            return Outcome.FAILED, describe(error)

    async def _renew(self, run: Run, group: TaskGroup) -> None:
        while True:
            await anyio.sleep(self._settings.lease / 3)
            try:
                await self._runs.renew(run, lease=self._lease)
            except RunLost:
                group.cancel_scope.cancel()
                return

    async def _give_back(self, run: Run) -> None:
        try:
            await self._runs.release(run)
        except Exception as error:  # noqa: BLE001  (stopping goes on; the lease runs out by itself)
            _log.warning("job_not_given_back", job=run.job, cause=describe(error))


def describe(error: BaseException) -> str:
    """Return the error in one line: its kind and its words; of a group, those of the first real cause."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:_LONGEST_DETAIL] if words else type(error).__name__


def _span(length: timedelta) -> str:
    minutes = int(length.total_seconds() // 60)
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{days} d " if days else "") + f"{hours}:{minutes:02d} h"
