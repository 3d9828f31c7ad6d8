import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from gateway.db.engine import Database
from scheduler.clock import SchedulerClock
from scheduler.errors import NotRunning, UnknownJob
from scheduler.jobs import Due, Every, Firing, Job, JobContext, Policy
from scheduler.runs import Outcome, Run, Runs
from scheduler.settings import SchedulerSettings
from tests.waiting import HANGS, until

SETTINGS = SchedulerSettings(start_delay=0.01, heartbeat=0.05, lease=600.0)
"""A lease that no run loses by being slow."""


def job(run: Callable[[JobContext], Awaitable[str]], **changes: Any) -> Job:
    hourly = Every(period=timedelta(hours=1))
    given = {"trigger": hourly, "grace": timedelta(hours=1), "policy": Policy.ONCE, **changes}
    return Job(id="work", run=run, **given)


def real() -> datetime:
    return datetime.now(UTC)


def shut_down(scheduler: AsyncIOScheduler) -> None:
    scheduler.shutdown(wait=False)


class Counting:
    """A meter that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], float]] = []

    def count(self, what: str, number: float = 1, /, **labels: str) -> None:
        self.seen.append((what, labels, number))

    def observe(self, what: str, value: float, /, **labels: str) -> None:
        self.seen.append((what, labels, value))


class Counted:
    """A job that counts how often it ran."""

    def __init__(self) -> None:
        self.slots: list[str] = []
        self.ran = anyio.Event()

    async def __call__(self, context: JobContext) -> str:
        self.slots.append(context.due.slot)
        self.ran.set()
        return "did it"


async def recorded(runs: Runs) -> None:
    async def ended() -> bool:
        return all(run.outcome is not None for run in await runs.recent())

    await until(ended)


@pytest.fixture
def _noted_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases be renewed often, however long they are."""
    monkeypatch.setattr("scheduler.execution._NOTED_SECONDS", 0.02)


async def test_the_clock_fires_and_each_slot_runs_once_on_any_number_of_replicas(
    replica: Callable[[str], Runs], now: Any
) -> None:
    work = Counted()
    clocks = [SchedulerClock([job(work)], runs=replica(f"r{n}"), settings=SETTINGS, clock=now) for n in range(3)]
    with anyio.fail_after(HANGS):
        async with clocks[0], clocks[1], clocks[2]:
            await work.ran.wait()
            await recorded(replica("any"))
            await anyio.sleep(0.3)  # for the others, which must not run it
    assert work.slots == ["2026-05-01T12:00:00+00:00"]
    [record] = await replica("any").recent()
    assert (record.outcome, record.detail) == (Outcome.DONE, "did it")


async def test_a_job_that_fails_is_recorded_with_its_cause_and_the_clock_goes_on(runs: Runs) -> None:
    failed = anyio.Event()

    async def fail(context: JobContext) -> str:
        failed.set()
        raise ExceptionGroup("wrapped", [ValueError("the disk\nis full")])

    async with SchedulerClock([job(fail)], runs=runs, settings=SETTINGS, clock=real) as clock:
        with anyio.fail_after(HANGS):
            await failed.wait()
            await recorded(runs)
        await until(lambda: clock.healthy(real()))
    [record] = await runs.recent()
    assert (record.outcome, record.detail) == (Outcome.FAILED, "ValueError: the disk is full")


async def test_a_failure_to_find_what_is_due_does_not_stop_the_clock(runs: Runs) -> None:
    asked, twice = 0, anyio.Event()

    async def due(firing: Firing) -> Sequence[Due]:
        nonlocal asked
        asked += 1
        if asked == 2:
            twice.set()
        raise OSError("no database")

    often = Every(period=timedelta(seconds=0.1))
    async with SchedulerClock([job(Counted(), finder=due, trigger=often)], runs=runs, settings=SETTINGS, clock=real):
        with anyio.fail_after(HANGS):
            await twice.wait()
    records = await runs.recent()
    assert {(record.outcome, record.detail, record.slot[:8]) for record in records} == {
        (Outcome.FAILED, "OSError: no database", "look at ")
    }


class Steady:
    """A clock that nobody sets, and that stands until a test lets it go on."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize("hours", [1, -1])
async def test_health_comes_from_the_last_beat(runs: Runs, now: Any, hours: int) -> None:
    clock = SchedulerClock([], runs=runs, settings=SETTINGS, clock=now)
    assert not clock.healthy(now())
    async with clock:
        assert clock.healthy(now())
        now.moment += timedelta(hours=hours)
        assert not clock.healthy(now())
        await until(lambda: clock.healthy(now()))
    assert not clock.healthy(now())


async def test_a_clock_that_stands_still_hides_no_beat_that_is_missing(runs: Runs, now: Any) -> None:
    steady = Steady()
    async with SchedulerClock([], runs=runs, settings=SETTINGS, clock=now, steady=steady) as clock:
        assert clock._scheduler is not None
        shut_down(clock._scheduler)
        await anyio.lowlevel.checkpoint()
        steady.seconds = 4 * SETTINGS.heartbeat
        assert not clock.healthy(now())


async def test_every_job_is_woken_when_the_clock_was_set_back_and_by_nothing_else(runs: Runs, now: Any) -> None:
    looked: list[datetime] = []

    async def due(firing: Firing) -> Sequence[Due]:
        looked.append(firing.now)
        return []

    steady = Steady()
    seldom = job(Counted(), finder=due, trigger=Every(period=timedelta(days=36500)))
    async with SchedulerClock([seldom], runs=runs, settings=SETTINGS, clock=now, steady=steady) as clock:
        await until(lambda: looked)
        now.moment, steady.seconds = now.moment + timedelta(hours=1), 3600.0
        await until(lambda: clock.healthy(now()))
        assert len(looked) == 1
        now.moment -= timedelta(hours=1)
        await until(lambda: len(looked) == 2)
    assert looked[1] == now()


async def test_a_job_run_by_hand_leaves_the_scheduled_slot_to_come(runs: Runs, now: Any) -> None:
    work = Counted()
    clock = SchedulerClock([job(work)], runs=runs, settings=SETTINGS, clock=now)
    [first] = await clock.run_now("work")
    now.moment += timedelta(seconds=1)
    await clock.run_now("work")
    await clock.fire("work")
    assert await clock.fire("work") == []
    assert len(work.slots) == 3
    assert (first.outcome, first.detail) == (Outcome.DONE, "did it")
    assert "by hand" in first.slot


async def test_an_unknown_job_is_named_with_those_that_there_are(runs: Runs) -> None:
    clock = SchedulerClock([job(Counted())], runs=runs, settings=SETTINGS, clock=real)
    with pytest.raises(UnknownJob, match="the jobs are work"):
        await clock.run_now("wrok")


async def test_missed_slots_are_recorded_and_a_late_run_says_so(runs: Runs, now: Any) -> None:
    async def due(firing: Firing) -> Sequence[Due]:
        return [Due(slot=f"day {back}", at=firing.now - timedelta(days=back)) for back in (1, 2)]

    clock = SchedulerClock([job(Counted(), finder=due)], runs=runs, settings=SETTINGS, clock=now)
    [ran] = await clock.fire("work")
    assert ran.detail == "1 d 0:00 h late: did it"
    details = {record.slot: record.detail for record in await runs.recent()}
    missed = "missed: its time was 2 d 0:00 h ago; the run for day 1 does its work"
    assert details == {"day 1": ran.detail, "day 2": missed}


async def test_a_failed_slot_rests_for_its_jobs_pause_and_stays_visible(runs: Runs, now: Any) -> None:
    tries = 0

    async def fail(context: JobContext) -> str:
        nonlocal tries
        tries += 1
        raise ValueError("refused")

    day = timedelta(days=1)
    daily = job(fail, trigger=Every(period=day), grace=day, pause=timedelta(hours=1))
    clock = SchedulerClock([daily], runs=runs, settings=SETTINGS, clock=now)
    for _ in range(6 * 11):
        await clock.fire("work")
        now.moment += timedelta(minutes=10)
    [record] = await runs.recent()
    assert (tries, record.outcome, record.detail) == (SETTINGS.attempts, Outcome.FAILED, "ValueError: refused")


async def test_a_job_that_takes_too_long_is_stopped_and_recorded(runs: Runs, now: Any) -> None:
    async def forever(context: JobContext) -> str:
        await anyio.sleep_forever()
        return ""

    settings = SETTINGS.model_copy(update={"job_limit_minutes": 0.001})
    [ran] = await SchedulerClock([job(forever)], runs=runs, settings=settings, clock=now).fire("work")
    assert (ran.outcome, ran.detail) == (Outcome.FAILED, "it was stopped, as it took more than 0.001 minutes")


@pytest.mark.usefixtures("_noted_often")
async def test_a_job_that_lost_its_lease_is_stopped_and_records_nothing(
    replica: Callable[[str], Runs], database: Database
) -> None:
    started, stopped = anyio.Event(), anyio.Event()

    async def work(context: JobContext) -> str:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            stopped.set()
        return ""

    clock = SchedulerClock([job(work)], runs=replica("r1"), settings=SETTINGS, clock=real)
    thief = Runs(database, clock=lambda: real() + timedelta(days=1), holder="thief")
    with anyio.fail_after(HANGS):
        async with anyio.create_task_group() as group:
            group.start_soon(clock.fire, "work")
            await started.wait()
            [run] = await thief.recent()
            assert await thief.claim(run.job, run.scope, run.slot, lease=timedelta(days=1), attempts=9)
            await stopped.wait()
    [record] = await thief.recent()
    assert (record.holder, record.outcome) == ("thief", None)


@pytest.mark.usefixtures("_noted_often")
async def test_a_job_that_is_longer_than_its_lease_keeps_it(replica: Callable[[str], Runs], now: Any) -> None:
    lease = timedelta(seconds=SETTINGS.lease)

    async def renewed() -> bool:
        [record] = await replica("any").recent()
        return bool(record.lease_until == now() + lease)

    async def work(context: JobContext) -> str:
        for _ in range(2):
            now.moment += lease * 0.9
            await until(renewed)
        await SchedulerClock([job(Counted())], runs=replica("r2"), settings=SETTINGS, clock=now).fire("work")
        return "alone"

    clock = SchedulerClock([job(work)], runs=replica("r1"), settings=SETTINGS, clock=now)
    [ran] = await clock.fire("work")
    assert ran.detail == "alone"
    [record] = await replica("any").recent()
    assert (record.holder, record.token) == ("r1", 1)


async def test_leaving_the_clock_gives_unfinished_runs_back(replica: Callable[[str], Runs]) -> None:
    started = anyio.Event()

    async def work(context: JobContext) -> str:
        started.set()
        await anyio.sleep_forever()
        return ""

    with anyio.fail_after(HANGS):
        async with SchedulerClock([job(work)], runs=replica("r1"), settings=SETTINGS, clock=real):
            await started.wait()
    again = Counted()
    await SchedulerClock([job(again)], runs=replica("r2"), settings=SETTINGS, clock=real).fire("work")
    assert len(again.slots) == 1


async def test_what_comes_next_is_known_without_a_running_clock(runs: Runs, now: Any) -> None:
    clock = SchedulerClock([job(Counted())], runs=runs, settings=SETTINGS, clock=now)
    assert await clock.job("work").following(now()) == datetime(2026, 5, 1, 13, tzinfo=UTC)


@pytest.mark.parametrize("stop", [AsyncIOScheduler.pause, AsyncIOScheduler.remove_all_jobs, shut_down])
async def test_a_clock_whose_scheduler_has_died_is_unhealthy(
    runs: Runs, now: Any, stop: Callable[[AsyncIOScheduler], None]
) -> None:
    async with SchedulerClock([], runs=runs, settings=SETTINGS, clock=now) as clock:
        assert clock._scheduler is not None
        stop(clock._scheduler)
        await anyio.sleep(3 * SETTINGS.heartbeat)
        now.moment += timedelta(seconds=4 * SETTINGS.heartbeat)
        await anyio.sleep(3 * SETTINGS.heartbeat)
        assert not clock.healthy(now())


async def test_a_loop_that_hung_makes_the_clock_unhealthy_until_it_beats_again(runs: Runs) -> None:
    async with SchedulerClock([], runs=runs, settings=SETTINGS, clock=real) as clock:
        time.sleep(4 * SETTINGS.heartbeat)  # noqa: ASYNC251  (the loop is to hang)
        assert not clock.healthy(real())
        await until(lambda: clock.healthy(real()), every=SETTINGS.heartbeat / 10)


async def test_errors_that_were_expected_are_told_in_their_own_words(runs: Runs, now: Any) -> None:
    async def fail(context: JobContext) -> str:
        raise ExceptionGroup("wrapped", [LookupError("the model is away")])

    clock = SchedulerClock([job(fail)], runs=runs, settings=SETTINGS, clock=now, expected=(LookupError,))
    [ran] = await clock.run_now("work")
    assert (ran.outcome, ran.detail) == (Outcome.FAILED, "the model is away")


async def test_every_end_of_a_run_is_counted_and_measured(runs: Runs, now: Any) -> None:
    async def fail(context: JobContext) -> str:
        now.moment += timedelta(seconds=7)
        raise ValueError("refused")

    async def due(firing: Firing) -> Sequence[Due]:
        return [Due(slot=f"day {back}", at=firing.now - timedelta(days=back)) for back in (0, 1)]

    meter = Counting()
    clock = SchedulerClock([job(fail, finder=due)], runs=runs, settings=SETTINGS, clock=now, meter=meter)
    await clock.fire("work")
    await clock.run_now("work")
    outcomes = [labels["outcome"] for what, labels, _ in meter.seen if what == "job_runs"]
    assert sorted(outcomes) == ["failed", "failed", "failed", "missed"]
    assert {(what, number) for what, _, number in meter.seen} == {("job_runs", 1), ("job_seconds", 7)}


@pytest.mark.usefixtures("_noted_often")
async def test_a_run_tells_how_far_it_is_while_it_keeps_its_lease(runs: Runs) -> None:
    noted = anyio.Event()

    async def work(context: JobContext) -> str:
        context.progress("turn 4,\n2 files")
        await noted.wait()
        return "done"

    async def told() -> bool:
        return [record.detail for record in await runs.recent()] == ["turn 4, 2 files"]

    clock = SchedulerClock([job(work)], runs=runs, settings=SETTINGS, clock=real)
    async with anyio.create_task_group() as group:
        group.start_soon(clock.fire, "work")
        await until(told)
        noted.set()


async def test_a_job_can_be_begun_by_hand_and_its_end_awaited(runs: Runs, now: Any) -> None:
    work = Counted()
    clock = SchedulerClock([job(work)], runs=runs, settings=SETTINGS, clock=now)
    with pytest.raises(NotRunning):
        clock.begin("work")
    async with clock:
        begun, wrong = clock.begin("work"), clock.begin("work", only="nobody")
        with anyio.fail_after(HANGS):
            await begun.ended.wait()
            await wrong.ended.wait()
    assert [ran.detail for ran in begun.ran] == ["did it"]
    assert "no scope 'nobody'" in wrong.error


@pytest.mark.usefixtures("_noted_often")
async def test_a_database_that_is_away_for_less_than_a_lease_does_not_stop_a_run(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew, failures, renewed = runs.renew, 1, anyio.Event()

    async def broken(run: Run, **more: Any) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OSError("no database")
        await renew(run, **more)
        renewed.set()

    async def work(context: JobContext) -> str:
        await renewed.wait()
        return "did it"

    monkeypatch.setattr(runs, "renew", broken)
    [ran] = await SchedulerClock([job(work)], runs=runs, settings=SETTINGS, clock=real).run_now("work")
    assert ran.detail == "did it"
    assert failures < 0


async def test_a_run_that_can_not_renew_its_lease_is_stopped_before_another_takes_it(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(run: Run, **more: Any) -> None:
        raise OSError("no database")

    async def forever(context: JobContext) -> str:
        await anyio.sleep_forever()
        return ""

    monkeypatch.setattr(runs, "renew", broken)
    settings = SETTINGS.model_copy(update={"lease": 0.3})
    with anyio.fail_after(HANGS):
        ran = await SchedulerClock([job(forever)], runs=runs, settings=settings, clock=real).run_now("work")
    assert ran == []
    [record] = await runs.recent()
    assert record.outcome is None
