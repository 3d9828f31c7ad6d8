"""Waiting for an event, but not for ever."""

import asyncio
from contextlib import suppress


async def happens(event: asyncio.Event, *, within: float) -> bool:
    """Wait for the event at most `within` seconds and return whether it is set.

    Not by `asyncio.wait_for`: up to Python 3.11 that swallows a cancellation that comes with the event.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()
    return event.is_set()
