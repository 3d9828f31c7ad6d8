"""A mark that changes when something of a memory is forgotten: who read before that, and stores after it, compares."""

import re

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from gateway.db.models import ErasureRow, InboxRow
from gateway.db.payloads import wordless


async def mark_of(session: AsyncSession, principal: str, project: str) -> int:
    """Return the mark of a memory: how many rows say that something of it was forgotten."""
    here = (ErasureRow.principal == principal, ErasureRow.project == project)
    return await session.scalar(select(func.count()).select_from(ErasureRow).where(*here)) or 0


def inbox_id(key: str) -> int | None:
    """Return which message a post answers, by its key; see `gateway.turn.Turns.posts`."""
    number = re.match(r"\d+(?=[:-])", key)
    return int(number[0]) if number else None


async def clear_inbox(session: AsyncSession, message: int) -> None:
    """Take the words from a message that came in, inside the caller's transaction; see `answers_cleared`."""
    row = await session.get(InboxRow, message)
    if row is not None:
        row.payload = wordless(row.payload)


async def answers_cleared(session: AsyncSession, key: str) -> bool:
    """Return whether a post answers a message that has no words, or none any more: its own are then kept no longer."""
    message = inbox_id(key)
    row = await session.get(InboxRow, message) if message is not None else None
    return row is not None and not row.payload.get("text", "")


async def in_line(session: AsyncSession, principal: str, project: str) -> None:
    """Wait for whoever stores or forgets something of this memory, and let the next one wait for this transaction."""
    await one_by_one(session, f"{principal} {project}")


async def one_by_one(session: AsyncSession, name: str) -> None:
    """Let no other transaction that gives this name go on until this one has ended; SQLite has one writer anyway."""
    if session.get_bind().dialect.name == "postgresql":
        await session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
