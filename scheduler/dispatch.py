"""From a job to its slots: what is due is found, planned by policy, and run, of each scope in order."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import anyio
import structlog

from memory.ports import UNMETERED, Clock, Meter
from scheduler.accounting import Accounting
from scheduler.errors import NotReady, UnknownJob, UnknownScope
from scheduler.execution import Execution, Ran, describe, span
from scheduler.jobs import Due, Firing, Job, JobContext, Policy, plan
from scheduler.runs import Runs
from scheduler.settings import SchedulerSettings

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 300.0  # what looks longer for who is due hangs; the next tick looks again
_LOOK = "look at "

Obstacle = Callable[[], Awaitable[str]]
"""Says why nothing may be claimed here now, and what helps; "" if nothing is in the way."""


async def unhindered() -> str:
    """Name nothing that is in the way."""
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What a dry run says of a slot. `gate` is what keeps the clock from running it now, "" if it would."""

    scope: str
    slot: str
    gate: str
    by_hand: bool
    """Whether it would be run by hand."""
    does: str = ""
    """What the run would do, if the job can tell: words that follow "would"."""


class Dispatch:
    """Fires jobs, in the caller's task; of one scope never two slots of a job at once."""

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
    ) -> None:
        """Take errors of the `expected` kinds to be words for people; others are told with their kind."""
        self.jobs = {job.id: job for job in jobs}
        if len(self.jobs) != len(jobs):
            raise ValueError("two jobs have the same id")
        self._runs = runs
        self._clock = clock
        self._execution = Execution(runs, settings=settings, clock=clock, meter=meter, expected=expected)
        self._lanes = {job.lane or job.id: anyio.CapacityLimiter(settings.concurrency) for job in jobs}
        self._in_hand: dict[tuple[str, str], Sequence[str]] = {}
        self._obstacle = obstacle
        self._accounting = Accounting(
            self.jobs, runs=runs, execution=self._execution, clock=clock, in_hand=self._in_hand
        )
        self._looks_well: set[str] = set()

    def job(self, name: str) -> Job:
        """Return a job by its name; raises `UnknownJob`."""
        if name not in self.jobs:
            raise UnknownJob(name, known=sorted(self.jobs))
        return self.jobs[name]

    async def by_hand(self, job: Job, *, only: str = "") -> Sequence[Ran]:
        """Run what the job can do now, whatever the time; `only` for the scope that the words mean.

        Raises `UnknownScope` and `NotReady`. The slots are their own: the scheduled ones still come.
        """
        if why := await self._obstacle():
            raise NotReady(why)
        firing = Firing(now=self._clock(), by_hand=True, only=only)
        found = await _meant(job, firing)
        return await self._run_all(job, [due for due in found if not due.gate], firing)

    async def dry_run(self, job: Job, *, only: str = "") -> Sequence[Looked]:
        """Say what the clock would run now, and what keeps it from the rest; changes nothing. Raises `UnknownScope`."""
        firing = Firing(now=self._clock(), dry=True, only=only)
        found = await _meant(job, firing)
        _, missed = plan(job, [due for due in found if not due.gate], now=firing.now)
        late = {(due.scope_key, due.slot) for due in missed}
        by_hand = await job.candidates(replace(firing, by_hand=True))
        could = {due.scope_key for due in by_hand if not due.gate}
        return [
            Looked(
                scope=due.scope_key,
                slot=due.slot,
                gate=due.gate or await self._gate(job, due, firing.now, late=(due.scope_key, due.slot) in late),
                by_hand=due.scope_key in could,
                does="" if job.would is None else await job.would(JobContext(due=due, firing=firing)),
            )
            for due in found
        ]

    async def _gate(self, job: Job, due: Due, now: datetime, *, late: bool) -> str:
        if obstacle := await self._execution.obstacle(job, due):
            return obstacle
        return "too late: it would be recorded as missed" if late else job.hold(due, now)

    async def look(self, job: Job, firing: Firing) -> Sequence[Due]:
        """Find what is due, if anything may be claimed here; a failure is recorded as one of the job, and raised.

        What nobody sees to any more is accounted for on the way.
        """
        try:
            with anyio.fail_after(_LOOK_SECONDS):
                if why := await self._obstacle():
                    _log.error("job_not_looked_at", job=job.id, cause=why)
                    return []
                found = await job.candidates(firing)
                await self._accounting.look(job, found)
                if job.finder is not None and job.id not in self._looks_well:
                    await self._runs.recover(job.id, "", slots=_LOOK)
                    self._looks_well.add(job.id)
                return [due for due in found if not due.gate]
        except Exception as error:
            self._looks_well.discard(job.id)
            tick = job.trigger.latest(firing.now)
            await self._execution.fail(job, replace(tick, slot=f"{_LOOK}{tick.slot}"), error)
            raise

    async def carry_out(self, job: Job, found: Sequence[Due], firing: Firing) -> Sequence[Ran]:
        """Run what a look has found, or record it as missed, as the job's policy says."""
        to_run, missed = plan(job, found, now=firing.now)
        newest = {due.scope_key: due.slot for due in to_run}
        for due in missed:
            instead = newest.get(due.scope_key) if job.policy is Policy.ONCE else None
            does = f"; the run for {instead} does its work" if instead else ""
            await self._execution.miss(job, due, f"missed: its time was {span(firing.now - due.at)} ago{does}")
        return await self._run_all(job, to_run, firing)

    async def _run_all(self, job: Job, dues: Sequence[Due], firing: Firing) -> Sequence[Ran]:
        """Run the slots: of each scope in their order, for as many scopes at once as the job's lane takes."""
        ran: list[Ran] = []
        errors: list[Exception] = []
        by_scope: dict[str, list[Due]] = {}
        for due in dues:
            by_scope.setdefault(due.scope_key, []).append(due)

        async def one(mine: Sequence[Due]) -> None:
            try:
                await self._in_order(job, mine, firing, ran)
            except Exception as error:  # noqa: BLE001  (raised below, when all others have ended)
                _log.error("job_scope_failed", job=job.id, scope=mine[0].scope_key, cause=describe(error))
                errors.append(error)

        async with anyio.create_task_group() as group:
            for mine in by_scope.values():
                group.start_soon(one, mine)
        if errors:
            raise errors[0]
        return sorted(ran, key=lambda each: (each.scope, each.slot))

    async def _in_order(self, job: Job, dues: Sequence[Due], firing: Firing, ran: list[Ran]) -> None:
        lane, key = self._lanes[job.lane or job.id], (job.id, dues[0].scope_key)
        if firing.by_hand:
            async with lane:
                for due in dues:
                    ran += await self._run(job, due, firing)
        elif key in self._in_hand:  # an earlier firing is still at it, or waits for its turn
            self._accounting.turn_away(job, dues)
        else:
            self._in_hand[key] = [due.slot for due in dues]
            try:
                async with lane:
                    await self._one_after_another(job, dues, firing, ran)
            finally:
                del self._in_hand[key]

    async def _one_after_another(self, job: Job, dues: Sequence[Due], firing: Firing, ran: list[Ran]) -> None:
        for due in dues:
            if job.hold(due, self._clock()):
                return
            ran += await self._run(job, due, firing)
            if due is not dues[-1] and await self._execution.unfinished(job, due):
                return  # the next day waits until this one is over

    async def _run(self, job: Job, due: Due, firing: Firing) -> list[Ran]:
        ran = await self._execution.run(job, due, firing)
        return [] if ran is None else [ran]


async def _meant(job: Job, firing: Firing) -> Sequence[Due]:
    found = await job.candidates(firing)
    mine = [due for due in found if not firing.only or due.is_of(firing.only)]
    if firing.only and not mine:
        raise UnknownScope(job.id, firing.only)
    return mine
