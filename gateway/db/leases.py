"""Named leases in the database, with fencing tokens: the exclusion that memory asks for (`memory.ports.Leases`)."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import structlog
from sqlalchemy import CursorResult, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from gateway.db.engine import Database
from gateway.db.models import LeaseRow
from memory.errors import LeaseLost
from memory.ports import Clock

log = structlog.get_logger(__name__)

_POLL_SECONDS = 0.05
_LONGEST = 600.0
"""Seconds that a lease runs at most from its last renewal; one that lies further ahead was taken by a wrong clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseFence:
    """A held lease."""

    name: str
    holder: str
    token: int
    database: Database
    clock: Clock

    async def check(self) -> None:
        """Raise `LeaseLost` unless this token is the newest of its name."""
        async with self.database.read() as session:
            row = await session.get(LeaseRow, self.name)
        if row is None or row.token != self.token or row.holder != self.holder:
            raise LeaseLost(f"the lease {self.name} was taken over")


class DatabaseLeases:
    """Leases that every replica on one database respects."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @asynccontextmanager
    async def hold(self, name: str, *, seconds: float, wait: float) -> AsyncIterator[DatabaseFence]:
        """Hold the lease, renewing it at a third of its length; raises `LeaseLost` if not had within `wait` seconds.

        It is ten minutes long at most. One that lies further ahead is void: the clock was ahead when it was taken, and
        if its holder has died it would keep everybody out until the clock is there again.
        """
        seconds = min(seconds, _LONGEST)
        fence = await self._acquire(name, seconds=seconds, wait=wait)
        renewal = asyncio.create_task(self._renew(fence, seconds))
        try:
            yield fence
        finally:
            renewal.cancel()
            await _to_its_end(self._release(fence.name, fence.holder, renewal))

    async def take_over(self, kind: str) -> None:
        """Let every lease `kind:…` run out at once: right only where no other process can hold one of that kind."""
        left = update(LeaseRow).where(LeaseRow.name.startswith(f"{kind}:", autoescape=True))
        async with self._database.write() as session:
            await session.execute(left.values(until=0.0))

    async def _acquire(self, name: str, *, seconds: float, wait: float) -> DatabaseFence:
        holder = secrets.token_hex(8)
        deadline = asyncio.get_running_loop().time() + wait
        while True:
            try:
                token = await self._try(name, holder, seconds)
            except asyncio.CancelledError:  # it may have been had all the same
                await _to_its_end(self._release(name, holder))
                raise
            if token is not None:
                return DatabaseFence(name=name, holder=holder, token=token, database=self._database, clock=self._clock)
            if asyncio.get_running_loop().time() >= deadline:
                raise LeaseLost(f"the lease {name} is held by another writer")
            await asyncio.sleep(_POLL_SECONDS)

    async def _try(self, name: str, holder: str, seconds: float) -> int | None:
        now = self._clock().timestamp()
        try:
            async with self._database.write() as session:
                row = (await session.execute(select(LeaseRow).where(LeaseRow.name == name).with_for_update())).scalar()
                if row is None:
                    row = LeaseRow(name=name, holder="", token=0, until=0.0)
                    session.add(row)
                if now < row.until <= now + _LONGEST:
                    return None
                row.holder, row.token, row.until = holder, row.token + 1, now + seconds
                return row.token
        except IntegrityError:  # two writers made the row at once; the other one has it
            return None

    async def _renew(self, fence: DatabaseFence, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds / 3)
            try:
                await self._set_until(fence, self._clock().timestamp() + seconds)
            except DBAPIError as error:  # away for a moment: two more tries are left
                log.warning("lease_renewal_failed", lease=fence.name, error=error)

    async def _release(self, name: str, holder: str, renewal: "asyncio.Task[None] | None" = None) -> None:
        if renewal is not None:
            await asyncio.wait({renewal})
            if not renewal.cancelled():
                renewal.exception()  # whoever holds the lease has heard of it from the fence
        mine = update(LeaseRow).where(LeaseRow.name == name, LeaseRow.holder == holder)
        async with self._database.write() as session:
            await session.execute(mine.values(until=0.0))

    async def _set_until(self, fence: DatabaseFence, until: float) -> None:
        mine = update(LeaseRow).where(LeaseRow.name == fence.name, LeaseRow.token == fence.token)
        async with self._database.write() as session:
            result = await session.execute(mine.values(until=until))
        if isinstance(result, CursorResult) and result.rowcount != 1:
            raise LeaseLost(f"the lease {fence.name} was taken over")


async def _to_its_end(work: Coroutine[None, None, None]) -> None:
    """Let `work` end also if the caller is cancelled meanwhile: a lease that is not let go holds up all others."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise
