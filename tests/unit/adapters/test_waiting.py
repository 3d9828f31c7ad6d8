import asyncio

import pytest

from adapters.waiting import happens
from tests.waiting import HANGS


async def test_it_says_at_once_that_the_event_is_set_and_in_time_that_it_is_not() -> None:
    event = asyncio.Event()
    assert not await happens(event, within=0.01)
    event.set()
    async with asyncio.timeout(HANGS):
        assert await happens(event, within=60)
        assert await happens(event, within=0)


async def test_a_cancellation_that_comes_with_the_event_is_not_swallowed() -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(happens(event, within=60))
    await asyncio.sleep(0)
    event.set()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
