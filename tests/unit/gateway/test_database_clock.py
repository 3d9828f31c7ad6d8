"""Replicas read leases by their own clocks: one whose clock is too far from the database's must not take part."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.db.engine import Database, DatabaseClock, connect
from gateway.errors import StartRefused
from gateway.running import Gateway
from scheduler.clock import SchedulerClock
from scheduler.errors import NotReady
from scheduler.jobs import Every, Job, JobContext, Policy
from scheduler.runs import Runs
from scheduler.settings import SchedulerSettings
from tests.acceptance.whole import Whole, whole

Clock = Callable[[], datetime]
on_postgres = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def off_by(**time: float) -> Clock:
    return lambda: datetime.now(UTC) + timedelta(**time)


@on_postgres
@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (off_by(), ""),
        (off_by(seconds=2), ""),
        (off_by(hours=1), "3600 s ahead of"),
        (off_by(minutes=-2), "120 s behind"),
    ],
    ids=["right", "nearly", "ahead", "behind"],
)
async def test_a_clock_that_is_far_from_the_databases_is_told_with_the_cure(
    database: Database, clock: Clock, words: str
) -> None:
    said = await DatabaseClock(database, clock).apart()
    assert (words in said, "NTP" in said) == (True, bool(words))


async def test_on_one_machine_there_is_no_other_clock(sqlite_url: str) -> None:

    database = connect(sqlite_url)
    assert await DatabaseClock(database, off_by(hours=1)).apart() == ""
    await database.engine.dispose()


@on_postgres
async def test_a_replica_with_a_wrong_clock_runs_no_slot_that_another_runs(database: Database) -> None:
    ran: list[str] = []

    def replica(name: str, clock: Clock) -> SchedulerClock:
        async def work(context: JobContext) -> str:
            ran.append(name)
            if name == "right":  # in the middle of it, its lease is over by the other's clock
                assert await wrong.fire("work") == []
            return "did it"

        day = timedelta(days=1)
        job = Job(id="work", trigger=Every(period=day), grace=day, policy=Policy.SKIP, run=work)
        runs, obstacle = Runs(database, clock=clock, holder=name), DatabaseClock(database, clock).apart
        return SchedulerClock([job], runs=runs, settings=SchedulerSettings(), clock=clock, obstacle=obstacle)

    right, wrong = replica("right", off_by()), replica("wrong", off_by(minutes=3))
    await right.fire("work")
    assert ran == ["right"]
    with pytest.raises(NotReady, match="180 s ahead"):
        await wrong.run_now("work")


def with_clock(running: Whole, clock: Clock) -> Gateway:
    core = running.core
    compared = DatabaseClock(core.database, clock)
    return replace(running.gateway, core=replace(core, night=replace(core.night, database_clock=compared)))


async def test_a_gateway_with_a_wrong_clock_is_not_ready_and_does_not_start(tmp_path: Path, postgres_url: str) -> None:
    async with whole(tmp_path / "home", environ={"DATABASE_URL": postgres_url}) as running:
        assert await with_clock(running, off_by()).faults() == {}
        wrong = with_clock(running, off_by(hours=-1))
        assert "3600 s behind the database's" in (await wrong.faults())["clock"]
        with pytest.raises(StartRefused, match="NTP"):
            await wrong.run(asyncio.Event(), announce=lambda _: None)
