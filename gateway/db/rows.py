"""Rows: those of a scope, those that several writers may make at once, and more of them than a statement takes.

On PostgreSQL no writer sees what another has not yet committed.
"""

from collections.abc import Collection, Iterator
from typing import TypeVar

from sqlalchemy import ColumnElement, inspect
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from gateway.db.models import Base, ErasureRow, FactRow, ForgetOfferRow, SessionRow
from memory.scope import Scope

Row = TypeVar("Row", bound=Base)
T = TypeVar("T")

AT_ONCE = 500
"""A database takes only so many parameters in one statement."""


async def add_missing(session: AsyncSession, row: Base) -> bool:
    """Add the row, and return True, unless one with its key is stored; waits for a writer who is about to store one."""
    try:
        async with session.begin_nested():
            session.add(row)
    except IntegrityError:
        return False
    return True


async def obtain(session: AsyncSession, row: Row) -> Row:
    """Return the stored row that has this one's primary key; if there is none, store this one.

    Until the transaction ends, nobody else can change it: whoever obtains it too waits, and then sees what was done.
    """
    mapper = inspect(type(row))
    key = mapper.primary_key_from_instance(row)
    stored = await session.get(type(row), key, with_for_update=True)
    if stored is not None:
        return stored
    if await add_missing(session, row):
        return row
    return await session.get_one(type(row), key, with_for_update=True)


def some(values: Collection[T]) -> Iterator[list[T]]:
    """Yield the values in lists that a statement takes."""
    listed = list(values)
    yield from (listed[start : start + AT_ONCE] for start in range(0, len(listed), AT_ONCE))


def of_scope(
    table: type[ErasureRow | FactRow | ForgetOfferRow | SessionRow], scope: Scope
) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions by which the rows are those of one memory."""
    return table.principal == scope.principal, table.project == scope.project
