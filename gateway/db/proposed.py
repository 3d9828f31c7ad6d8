"""What proposals for a team's memory lose when something is forgotten."""

from collections.abc import Callable

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from gateway.db.models import OutboxRow
from gateway.db.redaction import texts_in
from gateway.db.team_models import ProposalRow

PENDING = "pending"
ACCEPTING = "it is being carried out"
"""The outcome of a proposal that is pending and was accepted: it can't be refused any more."""


def key_of(number: int) -> str:
    """Return what the keys of all that is posted about a proposal begin with."""
    return f"proposal-{number}"


def close(row: ProposalRow, state: str, outcome: str) -> None:
    """Note what became of a proposal; its texts are kept no longer."""
    row.state, row.outcome, row.removed = state, outcome, []
    row.changes = [dict(each) | {"text": None} for each in row.changes]


async def drop_proposed(session: AsyncSession, project: str, tells: Callable[[str], bool]) -> None:
    """Drop the proposals that tell what is forgotten, inside the caller's transaction.

    What was posted of them is blanked, and of those that are over the names go that tell it.
    """
    rows = await session.scalars(select(ProposalRow).where(ProposalRow.project == project).with_for_update())
    for row in rows.all():
        texts = (text for each in row.changes for text in (each["key"], each["text"]) if text)
        told = any(map(tells, texts)) or any(map(tells, row.removed))
        if told and row.state == PENDING:
            close(row, "dead", "it held what was forgotten")
        if told:
            row.changes = [each for each in row.changes if not tells(each["key"])]
        if told or row.state != "empty":
            await _blank(session, row.id, tells)


async def _blank(session: AsyncSession, number: int, tells: Callable[[str], bool]) -> None:
    posted = (OutboxRow.key.startswith(f"{key_of(number)}:"), OutboxRow.state.in_(("sent", "dead")))
    rows = (await session.execute(select(OutboxRow.id, OutboxRow.part).where(*posted))).all()
    told = [one for one, part in rows if any(map(tells, texts_in(part)))]
    if told:
        await session.execute(update(OutboxRow).where(OutboxRow.id.in_(told)).values(part={}))
