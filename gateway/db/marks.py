"""A mark that changes when something of a memory is forgotten: who read before that, and stores after it, compares."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from gateway.db.models import ErasureRow


async def mark_of(session: AsyncSession, principal: str, project: str) -> int:
    """Return the mark of a memory: how many rows say that something of it was forgotten."""
    here = (ErasureRow.principal == principal, ErasureRow.project == project)
    return await session.scalar(select(func.count()).select_from(ErasureRow).where(*here)) or 0


async def in_line(session: AsyncSession, principal: str, project: str) -> None:
    """Wait for whoever stores or forgets something of this memory, and let the next one wait until this is committed.

    On SQLite all writers stand in one line already.
    """
    if session.get_bind().dialect.name == "postgresql":
        name = func.hashtextextended(f"{principal} {project}", 0)
        await session.execute(select(func.pg_advisory_xact_lock(name)))
