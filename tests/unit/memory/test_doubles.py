"""The double of the leases keeps the port's promises."""

import asyncio

import pytest

from memory.doubles import LocalLeases
from memory.errors import LeaseLost


async def test_a_name_has_one_holder_at_a_time_and_tokens_only_grow() -> None:
    leases, tokens, inside = LocalLeases(), list[int](), list[int]()

    async def hold() -> None:
        async with leases.hold("a", seconds=1, wait=5) as fence:
            inside.append(1)
            assert len(inside) == 1
            await asyncio.sleep(0)
            await fence.check()
            tokens.append(fence.token)
            inside.pop()

    await asyncio.gather(*(hold() for _ in range(5)))
    assert tokens == sorted(set(tokens))


async def test_a_held_name_is_not_had_in_time_and_another_is() -> None:
    leases = LocalLeases()
    async with leases.hold("a", seconds=1, wait=0), leases.hold("b", seconds=1, wait=0):
        with pytest.raises(LeaseLost):
            async with leases.hold("a", seconds=1, wait=0.01):
                raise AssertionError("two holders")
    assert not leases.held("a")


async def test_a_token_that_was_taken_over_fails_its_check() -> None:
    leases = LocalLeases()
    async with leases.hold("a", seconds=1, wait=0) as fence:
        await fence.check()
        leases.take_over("a")
        with pytest.raises(LeaseLost):
            await fence.check()
