"""Waiting lines in the database: per conversation one row at a time, oldest first; conversations beside one another.

Inbox and outbox are both such lines. A claim is a lease with a random token: whoever shows a token that is no longer
the row's has lost it and must not commit. The partial unique index on the running state holds "one at a time".
"""

import secrets
from collections.abc import Collection
from typing import Generic, TypeVar

from sqlalchemy import BindParameter, ColumnElement, CursorResult, and_, bindparam, exists, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from gateway.db.models import InboxRow, OutboxRow
from gateway.errors import ClaimLost

WAITING = "pending"
Row = TypeVar("Row", InboxRow, OutboxRow)


class Line(Generic[Row]):
    """One line; `running` is the name of its claimed state."""

    def __init__(self, table: type[Row], *, running: str) -> None:
        self._table: type[Row] = table
        self._running = running

    async def claim(self, session: AsyncSession, *, platforms: Collection[str], now: float, lease: float) -> Row | None:
        """Take the first row that is ready, or whose holder's lease ran out; None if there is none.

        Rows of other platforms wait: nobody here could answer them.

        On PostgreSQL the older rows are looked at as they were when the statement began, even if the row that it takes
        has changed since. That only holds back more, as nothing that was settled opens again.
        """
        table, other = self._table, aliased(self._table)
        same = and_(other.conversation == table.conversation, self.is_open(other))
        # Not only older ones: on PostgreSQL a row may be committed after its successor was claimed.
        blocks = or_(other.id < table.id, and_(other.id != table.id, other.state == self._running))
        ready = or_(
            and_(table.state == WAITING, table.not_before <= now),
            and_(table.state == self._running, table.claimed_until < now),
        )
        found = select(table).where(
            self.is_open(table), table.platform.in_(sorted(platforms)), ready, ~exists().where(same, blocks)
        )
        row: Row | None = await session.scalar(found.order_by(table.id).limit(1).with_for_update(skip_locked=True))
        if row is None:
            return None
        try:
            async with session.begin_nested():
                row.state, row.attempts = self._running, row.attempts + 1
                row.claim, row.claimed_until = secrets.token_hex(8), now + lease
        except IntegrityError:  # another replica claimed in this conversation at the same moment
            return None
        return row

    def is_open(self, table: type[Row]) -> ColumnElement[bool]:
        """Return the condition for rows that are not settled, in the words of the partial index."""
        states: BindParameter[str] = bindparam(None, (WAITING, self._running), expanding=True, literal_execute=True)
        return table.state.in_(states)

    async def renew(self, session: AsyncSession, row_id: int, claim: str, *, until: float) -> None:
        """Hold the row longer; raises `ClaimLost` if it is somebody else's."""
        await self.change(session, row_id, claim, claimed_until=until)

    async def change(self, session: AsyncSession, row_id: int, claim: str, **values: object) -> None:
        """Change a row that this claim still holds; raises `ClaimLost` otherwise, which rolls the transaction back."""
        table = self._table
        held = update(table).where(table.id == row_id, table.claim == claim, table.state == self._running)
        result = await session.execute(held.values(**values))
        if not isinstance(result, CursorResult) or result.rowcount != 1:
            raise ClaimLost(f"{table.__tablename__} row {row_id} is held by another worker")

    async def expire_all(self, session: AsyncSession) -> None:
        """Let every lease run out: right only where no other process can hold one."""
        table = self._table
        await session.execute(
            update(table).where(self.is_open(table), table.state == self._running).values(claimed_until=0.0)
        )
