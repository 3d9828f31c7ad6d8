"""One slot from its claim to its record: the work runs under a renewed lease, and no failure of it goes further."""

from dataclasses import dataclass
from datetime import timedelta

import anyio
import structlog
from anyio.abc import TaskGroup

from memory.ports import Clock, Meter
from scheduler.errors import NotNow, RunGivenUp, RunLost
from scheduler.jobs import Due, Firing, Job, JobContext
from scheduler.runs import BY_HAND, JobRun, Outcome, Run, Runs
from scheduler.settings import SchedulerSettings

_log = structlog.get_logger(__name__)

_LONGEST_DETAIL = 500
_NOTED_SECONDS = 10.0
"""How old a line of progress may be before it is stored."""
_CUT_OFF = "it was cut off: the process that ran it has ended"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What became of one slot in this process."""

    scope: str
    slot: str
    outcome: Outcome
    detail: str


class _Line:
    """The latest line of progress."""

    text = ""

    def __call__(self, line: str) -> None:
        self.text = one_line(line)


class Execution:
    """Runs slots and records what came of each: in the table of runs, in the log and in the figures."""

    def __init__(
        self,
        runs: Runs,
        *,
        settings: SchedulerSettings,
        clock: Clock,
        meter: Meter,
        expected: tuple[type[Exception], ...],
    ) -> None:
        """Take errors of the `expected` kinds to be words for people; others are recorded with their kind."""
        self._runs = runs
        self._settings = settings
        self._clock = clock
        self._meter = meter
        self._expected = expected
        self._lease = timedelta(seconds=settings.lease)
        self._under_way: set[tuple[str, str, str]] = set()

    async def miss(self, job: Job, due: Due, detail: str) -> None:
        """Record that a slot is not run any more, unless something has become of it; what has failed is given up."""
        recorded = await self._runs.record(job.id, due.scope_key, due.slot, Outcome.MISSED, detail=detail)
        if recorded or await self._give_up(job, due, detail):
            _log.warning("job_missed", job=job.id, scope=due.scope_key, slot=due.slot, detail=detail)
            self._count(job.id, Outcome.MISSED.value)

    async def _give_up(self, job: Job, due: Due, detail: str) -> bool:
        found = await self._runs.find(job.id, due.scope_key, due.slot)
        if found is None or found.outcome in {Outcome.DONE, Outcome.MISSED}:
            return False
        try:
            run = await self._runs.claim(
                job.id, due.scope_key, due.slot, lease=self._lease, attempts=found.attempts + 1
            )
            if run is None:  # it is under way, or somebody else gives it up
                return False
            before = "had failed" if found.outcome is Outcome.FAILED else "had not come to its end"
            await self._runs.finish(run, Outcome.MISSED, one_line(f"{detail}; it {before}: {found.detail}"))
        except (RunLost, RunGivenUp):
            return False
        return True

    async def fail(self, job: Job, due: Due, error: Exception) -> None:
        """Record that a slot could not even be begun."""
        detail = describe(error, expected=self._expected)
        if await self._runs.record(job.id, due.scope_key, due.slot, Outcome.FAILED, detail=detail):
            self._count(job.id, Outcome.FAILED.value)

    async def cut_off(self, run: JobRun, *, note: str = "") -> None:
        """Record the end of a run whose lease has run out, unless it is one of this process, or something became of it.

        `note` is added to what the record says of it.
        A clock that leaps, as after a machine has slept, ends leases of runs that are alive.
        """
        if (run.job, run.scope, run.slot) in self._under_way:
            return
        detail = _cut_off(run.detail, note=note)
        if await self._runs.cut_off(run, detail):
            self._tell_cut_off(run, detail)

    def _tell_cut_off(self, run: JobRun | Run, detail: str) -> None:
        _log.warning("job_cut_off", job=run.job, scope=run.scope, slot=run.slot, cause=detail)
        self._count(run.job, Outcome.FAILED.value)

    async def unfinished(self, job: Job, due: Due) -> bool:
        """Return whether what comes after a slot is to wait for it: it is under way, or will be tried again soon."""
        found = await self._runs.find(job.id, due.scope_key, due.slot)
        if found is None or found.outcome in {None, Outcome.BUSY}:
            return found is not None
        return found.outcome is Outcome.FAILED and found.attempts < self._settings.attempts

    async def obstacle(self, job: Job, due: Due) -> str:
        """Say what has become of a slot that keeps it from being run now, "" if nothing does."""
        found = await self._runs.find(job.id, due.scope_key, due.slot)
        now = self._clock()
        if found is None or found.stopped(now) or found.outcome is Outcome.BUSY:
            return ""
        if found.outcome is None:
            return "it is running"
        if found.outcome is not Outcome.FAILED:
            return "done already" if found.outcome is Outcome.DONE else "recorded as missed"
        if found.attempts >= self._attempts(job):
            return f"given up after {found.attempts} tries"
        rested = (found.finished_at or now) + job.pause * 2 ** (found.attempts - 1)
        return f"rests after a failure for {span(rested - now)}" if rested > now else ""

    async def run(self, job: Job, due: Due, firing: Firing) -> Ran | None:
        """Run a slot, and return None if it is not to be had: settled, resting, or another holder's."""
        slot = f"{due.slot}{BY_HAND}{firing.now.isoformat()}" if firing.by_hand else due.slot
        ran = None
        try:
            run = await self._runs.claim(
                job.id,
                due.scope_key,
                slot,
                lease=self._lease,
                attempts=self._attempts(job),
                pause=job.pause,
            )
            if run is not None:
                ran = await self._carry_out(job, run, due, firing)
        except RunGivenUp as error:
            _log.error("job_given_up", job=job.id, scope=due.scope_key, slot=slot, cause=str(error))
            ran = Ran(scope=due.scope_key, slot=slot, outcome=Outcome.FAILED, detail=str(error))
        except RunLost:
            _log.warning("job_lost", job=job.id, scope=due.scope_key, slot=slot)
            self._count(job.id, "lost")
        if ran is not None:
            self._count(job.id, ran.outcome.value)
        return ran

    def _attempts(self, job: Job) -> int:
        return max(job.attempts, self._settings.attempts)

    async def _carry_out(self, job: Job, run: Run, due: Due, firing: Firing) -> Ran:
        began = self._clock()
        late = "" if firing.by_hand or began - due.at <= job.grace else f"{span(began - due.at)} late: "
        outcome, said = await self._under_lease(job, run, due, firing)
        detail = late + said
        with anyio.CancelScope(shield=True):  # what was done is recorded, even while stopping
            if outcome is Outcome.BUSY:
                await self._runs.put_off(run, detail)
            else:
                await self._runs.finish(run, outcome, detail)
        self._meter.observe("job_seconds", (self._clock() - began).total_seconds(), job=_label(job.id))
        _log.info("job_ran", job=job.id, scope=run.scope, slot=run.slot, outcome=outcome.value)
        return Ran(scope=run.scope, slot=run.slot, outcome=outcome, detail=detail)

    async def _under_lease(self, job: Job, run: Run, due: Due, firing: Firing) -> tuple[Outcome, str]:
        """Do the work while its lease is renewed; raises `RunLost` when another holder took it over."""
        ended: tuple[Outcome, str] | None = None
        line, key = _Line(), (run.job, run.scope, run.slot)
        self._under_way.add(key)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._renew, run, line, group)
                ended = await self._attempt(job, JobContext(due=due, firing=firing, progress=line))
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._give_back(run, firing, line)
            raise
        finally:
            self._under_way.discard(key)
        if ended is None:
            raise RunLost(f"the run of {run.job} for {run.slot} was taken over")
        return ended

    async def _attempt(self, job: Job, context: JobContext) -> tuple[Outcome, str]:
        limit = self._settings.job_limit_minutes
        try:
            with anyio.move_on_after(limit * 60):
                return Outcome.DONE, one_line(await job.run(context))
        except Exception as error:  # noqa: BLE001  (the edge: the failure is recorded, the clock goes on)
            if isinstance(_cause(error), NotNow):
                return Outcome.BUSY, one_line(str(_cause(error)))
            detail = describe(error, expected=self._expected)
            unexpected = not isinstance(_cause(error), self._expected)
            _log.error("job_failed", job=job.id, scope=context.due.scope_key, cause=detail, exc_info=unexpected)
            return Outcome.FAILED, detail
        detail = f"it was stopped, as it took more than {limit:g} minutes"
        _log.error("job_failed", job=job.id, scope=context.due.scope_key, cause=detail)
        return Outcome.FAILED, detail

    async def _renew(self, run: Run, line: _Line, group: TaskGroup) -> None:
        """Keep the lease and store the line; a database that is away is waited for as long as the lease still holds."""
        lease, renewed = self._settings.lease, anyio.current_time()
        step = min(lease / 3, _NOTED_SECONDS)
        while anyio.current_time() - renewed < lease - step:
            await anyio.sleep(step)
            try:
                with anyio.fail_after(lease):
                    await self._runs.renew(run, lease=self._lease, note=line.text)
                renewed = anyio.current_time()
            except RunLost:
                break
            except Exception as error:  # noqa: BLE001  (the work goes on; the lease says how long)
                _log.warning("job_not_renewed", job=run.job, scope=run.scope, cause=describe(error))
        group.cancel_scope.cancel()

    async def _give_back(self, run: Run, firing: Firing, line: _Line) -> None:
        """Leave a run to whoever finds its slot due; of one by hand that is nobody, so its end is recorded."""
        try:
            if not firing.by_hand:
                await self._runs.release(run)
                return
            detail = _cut_off(line.text)
            await self._runs.finish(run, Outcome.FAILED, detail)
            self._tell_cut_off(run, detail)
        except Exception as error:  # noqa: BLE001  (stopping goes on; the lease runs out by itself)
            _log.warning("job_not_given_back", job=run.job, cause=describe(error))

    def _count(self, job: str, outcome: str) -> None:
        self._meter.count("job_runs", job=_label(job), outcome=outcome)


def _cut_off(progress: str, *, note: str = "") -> str:
    return one_line("; ".join(filter(None, (_CUT_OFF, note, progress and f"it had got to: {progress}"))))


def describe(error: BaseException, *, expected: tuple[type[Exception], ...] = ()) -> str:
    """Return the error in one line: the words of one that was expected, else its kind and its words.

    Of a group, those of the first real cause.
    """
    cause = _cause(error)
    words = one_line(str(cause))
    if words and isinstance(cause, expected):
        return words
    return one_line(f"{type(cause).__name__}: {words}") if words else type(cause).__name__


def one_line(text: str) -> str:
    """Return the text on one line that is short enough to be stored."""
    return " ".join(text.split())[:_LONGEST_DETAIL]


def span(length: timedelta) -> str:
    """Return a length of time in days, hours and minutes."""
    minutes = int(length.total_seconds() // 60)
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{days} d " if days else "") + f"{hours}:{minutes:02d} h"


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _label(job: str) -> str:
    return job.replace("-", "_")
