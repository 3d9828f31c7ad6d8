import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from gateway.db.engine import Database
from gateway.db.leases import DatabaseFence, DatabaseLeases
from gateway.db.models import LeaseRow
from memory.errors import LeaseLost
from tests.waiting import HANGS, until


@pytest.fixture
def leases(database: Database, now: Any) -> DatabaseLeases:
    return DatabaseLeases(database, now)


async def test_a_second_holder_waits_and_is_sent_away(leases: DatabaseLeases) -> None:
    async with leases.hold("A", seconds=30, wait=0):
        with pytest.raises(LeaseLost):
            async with leases.hold("A", seconds=30, wait=0.1):
                pass


async def test_other_names_are_other_leases(leases: DatabaseLeases) -> None:
    async with leases.hold("A", seconds=30, wait=0), leases.hold("B", seconds=30, wait=0):
        pass


async def test_a_lease_that_was_given_back_is_free_at_once(leases: DatabaseLeases) -> None:
    tokens = []
    for _ in range(3):
        async with leases.hold("A", seconds=30, wait=0) as fence:
            tokens.append(fence.token)
    assert tokens == [1, 2, 3]


async def test_a_lease_is_given_back_when_its_holder_fails_or_is_cancelled(leases: DatabaseLeases) -> None:
    with pytest.raises(ZeroDivisionError):
        async with leases.hold("A", seconds=30, wait=0):
            raise ZeroDivisionError

    async def hold() -> None:
        async with leases.hold("A", seconds=30, wait=0):
            held.set()
            await asyncio.sleep(60)

    held = asyncio.Event()
    task = asyncio.create_task(hold())
    await held.wait()
    task.cancel()
    await asyncio.wait({task})
    async with leases.hold("A", seconds=30, wait=0):
        pass


async def test_a_holder_whose_lease_ran_out_fails_its_check_once_another_has_it(
    leases: DatabaseLeases, now: Any
) -> None:
    async with leases.hold("A", seconds=30, wait=0) as old:
        now.forward(31)
        await old.check()
        async with leases.hold("A", seconds=30, wait=0) as new:
            assert new.token > old.token
            with pytest.raises(LeaseLost):
                await old.check()
            await new.check()


async def test_giving_back_a_lost_lease_does_not_end_its_successor(leases: DatabaseLeases, now: Any) -> None:
    first = leases.hold("A", seconds=30, wait=0)
    await first.__aenter__()
    now.forward(31)
    async with leases.hold("A", seconds=30, wait=0) as second:
        await first.__aexit__(None, None, None)
        await second.check()
        with pytest.raises(LeaseLost):
            async with leases.hold("A", seconds=30, wait=0):
                pass


async def test_a_lease_renews_itself_while_it_is_held(database: Database, leases: DatabaseLeases, now: Any) -> None:
    async def renewed() -> bool:
        async with database.read() as session:
            return bool(await session.scalar(select(LeaseRow.until)) == now().timestamp() + 0.3)

    async with leases.hold("A", seconds=0.3, wait=0) as fence:
        now.forward(0.29)
        await until(renewed)
        now.forward(0.29)
        with pytest.raises(LeaseLost):
            async with leases.hold("A", seconds=0.3, wait=0):
                pass
        await fence.check()


async def test_of_many_tasks_one_is_inside_at_a_time(leases: DatabaseLeases) -> None:
    inside = 0
    most = 0
    tokens: list[int] = []

    async def enter() -> None:
        nonlocal inside, most
        async with leases.hold("A", seconds=30, wait=20) as fence:
            inside += 1
            most = max(most, inside)
            tokens.append(fence.token)
            await asyncio.sleep(0.005)
            inside -= 1

    await asyncio.gather(*(enter() for _ in range(12)))
    assert most == 1
    assert tokens == list(range(1, 13))


async def test_two_replicas_respect_each_other(database: Database, leases: DatabaseLeases, now: Any) -> None:
    other = DatabaseLeases(Database(database.engine), now)
    won: list[DatabaseFence] = []
    refused = asyncio.Event()

    async def enter(side: DatabaseLeases) -> None:
        try:
            async with side.hold("A", seconds=30, wait=0) as fence:
                won.append(fence)
                await asyncio.wait_for(refused.wait(), HANGS)
        except LeaseLost:
            refused.set()

    await asyncio.gather(enter(leases), enter(other))
    assert len(won) == 1


async def test_what_a_dead_process_held_of_one_kind_can_be_taken_over(leases: DatabaseLeases) -> None:
    async with leases.hold("extract:A", seconds=30, wait=0) as dead, leases.hold("memory:A", seconds=30, wait=0):
        await leases.take_over("extract")
        async with leases.hold("extract:A", seconds=30, wait=0):
            with pytest.raises(LeaseLost):
                await dead.check()
        with pytest.raises(LeaseLost):
            async with leases.hold("memory:A", seconds=30, wait=0):
                pass


async def test_a_cancellation_at_any_moment_leaves_the_lease_free_and_is_not_swallowed(leases: DatabaseLeases) -> None:
    async def hold() -> None:
        async with leases.hold("A", seconds=30, wait=5):
            await asyncio.sleep(0)
        await asyncio.sleep(60)

    for moment in range(60):
        task = asyncio.create_task(hold())
        await asyncio.sleep(moment * 0.0003)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        async with leases.hold("A", seconds=30, wait=0):
            pass


async def test_what_a_clock_took_that_was_ahead_keeps_nobody_out_once_it_is_right(
    leases: DatabaseLeases, now: Any
) -> None:
    now.forward(86_400)
    dead = leases.hold("A", seconds=30, wait=0)
    left = await dead.__aenter__()
    now.forward(-86_400)
    async with leases.hold("A", seconds=30, wait=0) as fence:
        assert fence.token > left.token
        with pytest.raises(LeaseLost):
            await left.check()
        with pytest.raises(LeaseLost):
            async with leases.hold("A", seconds=30, wait=0):
                pass
    await dead.__aexit__(None, None, None)


async def test_a_lease_that_is_asked_for_longer_than_any_is_cut_and_so_never_taken_for_a_wrong_clocks(
    leases: DatabaseLeases,
) -> None:
    async with leases.hold("A", seconds=86_400, wait=0):
        with pytest.raises(LeaseLost):
            async with leases.hold("A", seconds=30, wait=0):
                pass
