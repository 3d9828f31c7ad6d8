"""The whole core, opened for a command that runs a job or asks the scheduler."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway import log
from gateway.core import Core, open_core
from gateway.settings import load

Result = TypeVar("Result")


def with_core(work: Callable[[Core], Awaitable[Result]]) -> Result:
    """Do this with the core open; raises `StartRefused` if it can't be opened."""

    async def go() -> Result:
        settings = load()
        log.configure(level="WARNING", json=settings.log_json)
        async with open_core(settings, adapters={}) as core:
            return await work(core)

    return asyncio.run(go())
