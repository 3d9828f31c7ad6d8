from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from gateway.db.engine import Database
from scheduler.errors import RunGivenUp, RunLost
from scheduler.runs import Outcome, Run, Runs
from tests.postgres import sqlite_only
from tests.waiting import HANGS

LEASE = timedelta(minutes=2)


async def claim(runs: Runs, slot: str = "s", *, attempts: int = 3) -> Run | None:
    return await runs.claim("job", "scope", slot, lease=LEASE, attempts=attempts)


async def surely(runs: Runs) -> Run:
    run = await claim(runs)
    assert run is not None
    return run


async def test_of_many_replicas_exactly_one_gets_a_slot(replica: Callable[[str], Runs]) -> None:
    won: list[Run | None] = []

    async def compete(name: str) -> None:
        won.append(await claim(replica(name)))

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(compete, f"r{number}")
    assert len(won) == 8
    assert len([run for run in won if run is not None]) == 1


async def test_scopes_and_slots_of_a_job_are_apart(runs: Runs) -> None:
    for scope, slot in [("a", "1"), ("a", "2"), ("b", "1")]:
        assert await runs.claim("job", scope, slot, lease=LEASE, attempts=1)
    assert await runs.claim("other", "a", "1", lease=LEASE, attempts=1)


async def test_a_run_whose_holder_died_is_taken_over_and_the_old_holder_records_nothing(
    replica: Callable[[str], Runs], now: Any
) -> None:
    old = await surely(replica("dead"))
    now.moment += LEASE
    assert await claim(replica("heir")) is None, "the lease is not over yet"
    now.moment += timedelta(seconds=1)
    new = await surely(replica("heir"))
    assert new.token > old.token
    with pytest.raises(RunLost):
        await replica("dead").finish(old, Outcome.DONE, "from the grave")
    with pytest.raises(RunLost):
        await replica("dead").renew(old, lease=LEASE)
    await replica("heir").finish(new, Outcome.DONE, "fine")
    [record] = await replica("any").recent("job")
    assert (record.holder, record.detail, record.outcome) == ("heir", "fine", Outcome.DONE)


async def test_a_lease_of_a_clock_that_was_ahead_keeps_nobody_away_once_it_is_set_back(
    replica: Callable[[str], Runs], now: Any
) -> None:
    now.moment += timedelta(days=30)
    dead = await surely(replica("dead"))
    now.moment -= timedelta(days=30)
    heir = await surely(replica("heir"))
    assert heir.token > dead.token
    now.moment -= LEASE * 0.9
    assert await claim(replica("other")) is None, "clocks of replicas differ a little"


async def test_a_renewed_lease_keeps_others_away(replica: Callable[[str], Runs], now: Any) -> None:
    run = await surely(replica("r1"))
    now.moment += timedelta(minutes=1)
    await replica("r1").renew(run, lease=LEASE)
    now.moment += timedelta(minutes=1, seconds=30)
    assert await claim(replica("r2")) is None


async def test_a_finished_slot_is_never_run_again(runs: Runs, now: Any) -> None:
    await runs.finish(await surely(runs), Outcome.DONE, "once")
    now.moment += timedelta(days=1)
    assert await claim(runs) is None
    [record] = await runs.recent()
    assert record.detail == "once"


async def test_a_failed_run_is_tried_again_a_bounded_number_of_times(runs: Runs) -> None:
    for _ in range(3):
        await runs.finish(await surely(runs), Outcome.FAILED, "disk full")
    assert await claim(runs) is None
    [record] = await runs.recent()
    assert (record.outcome, record.detail, record.token) == (Outcome.FAILED, "disk full", 3)


async def test_after_a_failure_a_slot_rests_each_time_twice_as_long(runs: Runs, now: Any) -> None:
    async def taken() -> bool:
        run = await runs.claim("job", "scope", "s", lease=LEASE, attempts=3, pause=timedelta(hours=1))
        if run is not None:
            await runs.finish(run, Outcome.FAILED, "refused")
        return run is not None

    tries = []
    for _ in range(10):
        tries.append(await taken())
        now.moment += timedelta(minutes=30)
    assert [number for number, tried in enumerate(tries) if tried] == [0, 2, 6]


async def test_reading_the_table_waits_for_no_writer(database: Database, runs: Runs) -> None:
    with anyio.fail_after(HANGS):
        async with database.write():
            assert await runs.recent() == []
            assert await runs.outcomes("job", since=datetime.min.replace(tzinfo=UTC)) == {}


@sqlite_only  # elsewhere writers do not wait for one another
async def test_a_claim_stands_in_line_with_the_other_writers_of_the_process(database: Database, runs: Runs) -> None:
    async with anyio.create_task_group() as group, database.write() as session:
        await session.connection()
        group.start_soon(surely, runs)
        await anyio.sleep(0.05)
        assert database.engine.pool.checkedout() == 1  # type: ignore[attr-defined]  # the claim has no connection


async def test_a_run_that_kills_its_holders_ends_as_failed(runs: Runs, now: Any) -> None:
    for _ in range(2):
        assert await claim(runs, attempts=2)
        now.moment += LEASE + timedelta(seconds=1)
    with pytest.raises(RunGivenUp):
        await claim(runs, attempts=2)
    assert await claim(runs, attempts=2) is None, "it is told once"
    [record] = await runs.recent()
    assert record.outcome is Outcome.FAILED
    assert "2 holders" in record.detail


async def test_a_run_that_was_given_back_is_taken_at_once_and_does_not_count(runs: Runs) -> None:
    for _ in range(5):
        run = await claim(runs, attempts=1)
        assert run is not None
        await runs.release(run)


async def test_a_missed_slot_is_recorded_once_and_then_not_run(runs: Runs, now: Any) -> None:
    assert await runs.record("job", "scope", "s", Outcome.MISSED, detail="asleep")
    assert not await runs.record("job", "scope", "s", Outcome.MISSED, detail="again")
    now.moment += timedelta(days=1)
    assert await claim(runs) is None
    assert await runs.outcomes("job", since=now() - timedelta(days=2)) == {("scope", "s"): Outcome.MISSED}
    assert await runs.outcomes("job", since=now()) == {}
    [record] = await runs.recent()
    assert (record.outcome, record.detail) == (Outcome.MISSED, "asleep")


async def test_records_are_listed_newest_first_and_old_ones_can_be_forgotten(runs: Runs, now: Any) -> None:
    for slot in ("1", "2", "3"):
        run = await claim(runs, slot)
        assert run is not None
        now.moment += timedelta(hours=1)
        await runs.finish(run, Outcome.DONE, "")
    assert [record.slot for record in await runs.recent("job", limit=2)] == ["3", "2"]
    assert await runs.prune(now.moment - timedelta(minutes=30)) == 2
    assert [record.slot for record in await runs.recent()] == ["3"]


async def test_how_far_a_run_is_can_be_noted_and_its_end_takes_the_place(runs: Runs) -> None:
    run = await surely(runs)
    await runs.renew(run, lease=LEASE, note="turn 4, 2 files")
    [record] = await runs.recent()
    assert (record.outcome, record.detail) == (None, "turn 4, 2 files")
    await runs.finish(run, Outcome.DONE, "2 files changed")
    found = await runs.find("job", "scope", "s")
    assert found is not None
    assert found.detail == "2 files changed"
    assert await runs.find("job", "scope", "t") is None


async def test_of_each_scope_the_last_run_is_listed_the_failed_first_then_those_that_run(runs: Runs, now: Any) -> None:
    for scope, slot, outcome in [
        ("a", "1", Outcome.FAILED), ("a", "2", Outcome.DONE), ("b", "1", Outcome.DONE), ("b", "2", Outcome.FAILED),
        ("c", "1", Outcome.DONE), ("d", "1", None), ("e", "1", Outcome.MISSED),
    ]:  # fmt: skip
        run = await runs.claim("job", scope, slot, lease=LEASE, attempts=1)
        assert run is not None
        if outcome is not None:
            await runs.finish(run, outcome, "")
        now.moment += timedelta(minutes=1)
    listed = [(run.scope, run.slot) for run in await runs.last_of_scopes("job", limit=9)]
    assert listed == [("b", "2"), ("d", "1"), ("e", "1"), ("c", "1"), ("a", "2")]
    assert [run.scope for run in await runs.last_of_scopes("job", limit=2, offset=1)] == ["d", "e"]
    assert await runs.last_of_scopes("other", limit=9) == []


async def test_what_failed_and_came_right_is_recorded_as_such(runs: Runs) -> None:
    await runs.record("job", "", "look at 10% of it", Outcome.FAILED, detail="no database")
    await runs.record("job", "", "100", Outcome.FAILED, detail="of its own")
    await runs.recover("job", "", slots="look at ")
    details = {run.detail: run.outcome for run in await runs.recent()}
    assert details == {"right again; no database": Outcome.DONE, "of its own": Outcome.FAILED}
