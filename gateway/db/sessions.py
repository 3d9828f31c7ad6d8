"""The end of a session, by whatever ends it."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from gateway.db.models import DueRow, MessageRow, SessionRow


async def end(session: AsyncSession, row: SessionRow) -> None:
    """End a session inside the caller's transaction; what is not extracted yet falls due."""
    row.ended = True
    last = await session.scalar(select(func.max(MessageRow.id)).where(MessageRow.session_id == row.id))
    if last is not None and last > row.extracted_to:
        await fall_due(session, session_id=row.id, principal=row.principal, upto=last, turns=0, forced=True)


async def fall_due(
    session: AsyncSession, *, session_id: int, principal: str, upto: int, turns: int, forced: bool
) -> None:
    """Let a session's messages up to this one be extracted.

    Whoever changes what is due of a session holds the session's row: turns and ends that come at once add up.
    """
    row = await session.get(DueRow, session_id)
    if row is None:
        row = DueRow(session_id=session_id, principal=principal, turns=0, forced=False)
        session.add(row)
    row.upto, row.turns, row.forced = upto, row.turns + turns, row.forced or forced
    row.attempts, row.not_before = 0, 0.0
