from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from gateway.db.engine import Database
from scheduler.clock import SchedulerClock
from scheduler.errors import UnknownJob
from scheduler.jobs import Due, Every, Firing, Job, JobContext, Policy
from scheduler.runs import Outcome, Runs
from scheduler.settings import SchedulerSettings

SETTINGS = SchedulerSettings(start_delay=0.01, heartbeat=0.05, lease=0.3)


def job(run: Callable[[JobContext], Awaitable[str]], **changes: Any) -> Job:
    hourly = Every(period=timedelta(hours=1))
    given = {"trigger": hourly, "grace": timedelta(hours=1), "policy": Policy.ONCE, **changes}
    return Job(id="work", run=run, **given)


def real() -> datetime:
    return datetime.now(UTC)


class Counted:
    """A job that counts how often it ran."""

    def __init__(self) -> None:
        self.slots: list[str] = []
        self.ran = anyio.Event()

    async def __call__(self, context: JobContext) -> str:
        self.slots.append(context.due.slot)
        self.ran.set()
        return "did it"


async def test_the_clock_fires_and_each_slot_runs_once_on_any_number_of_replicas(
    replica: Callable[[str], Runs], now: Any
) -> None:
    work = Counted()
    clocks = [SchedulerClock([job(work)], runs=replica(f"r{n}"), settings=SETTINGS, clock=now) for n in range(3)]
    with anyio.fail_after(10):
        async with clocks[0], clocks[1], clocks[2]:
            await work.ran.wait()
            await anyio.sleep(0.3)
    assert work.slots == ["2026-05-01T12:00:00+00:00"]
    [record] = await replica("any").recent()
    assert (record.outcome, record.detail) == (Outcome.DONE, "did it")


async def test_a_job_that_fails_is_recorded_with_its_cause_and_the_clock_goes_on(runs: Runs) -> None:
    failed = anyio.Event()

    async def fail(context: JobContext) -> str:
        failed.set()
        raise ExceptionGroup("wrapped", [ValueError("the disk\nis full")])

    async with SchedulerClock([job(fail)], runs=runs, settings=SETTINGS, clock=real) as clock:
        with anyio.fail_after(10):
            await failed.wait()
            await anyio.sleep(0.2)
        assert clock.healthy(real())
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
        with anyio.fail_after(10):
            await twice.wait()
    assert await runs.recent() == []


async def test_health_comes_from_the_last_beat(runs: Runs, now: Any) -> None:
    beaten = anyio.Event()

    def moment() -> datetime:
        if now() > entered:
            beaten.set()
        moved: datetime = now()
        return moved

    entered: datetime = now()
    clock = SchedulerClock([], runs=runs, settings=SETTINGS, clock=moment)
    assert not clock.healthy(entered)
    async with clock:
        assert clock.healthy(entered)
        now.moment += timedelta(hours=1)
        assert not clock.healthy(now())
        with anyio.fail_after(10):
            await beaten.wait()
        assert clock.healthy(now())
    assert not clock.healthy(now())


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
    assert details == {"day 1": ran.detail, "day 2": "missed: its time was 2 d 0:00 h ago"}


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
    assert (ran.outcome, ran.detail) == (Outcome.FAILED, "TimeoutError")


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
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(clock.fire, "work")
            await started.wait()
            [run] = await thief.recent()
            assert await thief.claim(run.job, run.scope, run.slot, lease=timedelta(days=1), attempts=9)
            await stopped.wait()
    [record] = await thief.recent()
    assert (record.holder, record.outcome) == ("thief", None)


async def test_a_job_that_is_longer_than_its_lease_keeps_it(replica: Callable[[str], Runs]) -> None:
    async def work(context: JobContext) -> str:
        await anyio.sleep(1.5)
        await SchedulerClock([job(Counted())], runs=replica("r2"), settings=SETTINGS, clock=real).fire("work")
        return "alone"

    settings = SETTINGS.model_copy(update={"lease": 1.0})
    clock = SchedulerClock([job(work)], runs=replica("r1"), settings=settings, clock=real)
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

    with anyio.fail_after(10):
        async with SchedulerClock([job(work)], runs=replica("r1"), settings=SETTINGS, clock=real):
            await started.wait()
    again = Counted()
    await SchedulerClock([job(again)], runs=replica("r2"), settings=SETTINGS, clock=real).fire("work")
    assert len(again.slots) == 1


async def test_the_next_firings_can_be_listed(runs: Runs) -> None:
    settings = SETTINGS.model_copy(update={"start_delay": 60.0})
    clock = SchedulerClock([job(Counted())], runs=runs, settings=settings, clock=real)
    assert clock.following() == {"work": None}
    async with clock:
        following = clock.following()["work"]
    assert following is not None
    assert timedelta(0) < following - real() <= timedelta(seconds=60)
