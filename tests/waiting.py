"""Waiting in tests: for what happens, and never for a time, so that they hold on a slow machine and on a fast one."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable

HANGS = 40.0
"""Seconds after which a test takes what it waits for to hang: far beyond any slowness, below pytest's own limit."""


async def until(holds: Callable[[], object | Awaitable[object]], *, every: float = 0.01) -> None:
    """Wait until something is so that has no event of its own; `holds` may be a coroutine function."""
    async with asyncio.timeout(HANGS):
        while True:
            found = holds()
            if await found if isawaitable(found) else found:
                return
            await asyncio.sleep(every)
