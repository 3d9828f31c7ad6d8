"""Takes what waits in a line and works on it, many at a time: the loop that worker and outbox share."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from adapters.waiting import happens

log = structlog.get_logger(__name__)

_IDLE_SECONDS = 1.0  # how long a row that another process stored, or whose time has come, can lie unseen
_DATABASE_AWAY_SECONDS = 2.0
Taken = TypeVar("Taken")


class Consumer(Generic[Taken]):
    """Calls `claim` until it returns None, runs `work` on each claim in a task of its own, then waits for `wake`."""

    def __init__(
        self,
        claim: Callable[[], Awaitable[Taken | None]],
        work: Callable[[Taken], Awaitable[None]],
        *,
        arrived: asyncio.Event,
        concurrency: int,
    ) -> None:
        self._claim = claim
        self._work = work
        self._arrived = arrived
        self._free = asyncio.Semaphore(concurrency)
        self._under_way = 0
        self._closing = False

    def close(self) -> None:
        """Let `run` return once `claim` gives nothing more and what is under way has ended."""
        self._closing = True
        self._arrived.set()

    async def run(self) -> None:
        """Work until `close`. A fault of one piece of work, or of the database, ends neither the others nor this."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._free.acquire()
                self._arrived.clear()  # before the look, so that what comes during it is not missed
                last = (
                    self._closing and not self._under_way
                )  # what ends may let its successor in a conversation through
                taken = await self._take()
                if taken is not None:
                    self._under_way += 1
                    group.create_task(self._one(taken)).add_done_callback(self._freed)
                    continue
                self._free.release()
                if last:
                    return
                await happens(self._arrived, within=_IDLE_SECONDS)

    async def _take(self) -> Taken | None:
        try:
            return await self._claim()
        except Exception:  # edge: a database that is away comes back
            log.exception("claim_fault")
            await asyncio.sleep(_DATABASE_AWAY_SECONDS)
            return None

    async def _one(self, taken: Taken) -> None:
        try:
            await self._work(taken)
        except Exception:  # edge: the row stays claimed, and is taken again when its lease runs out
            log.exception("work_fault")

    def _freed(self, _: "asyncio.Task[None]") -> None:
        self._under_way -= 1
        self._free.release()
        self._arrived.set()
