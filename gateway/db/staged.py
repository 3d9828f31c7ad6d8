"""What staged changes of team memory lose when something is forgotten."""

from collections.abc import Callable

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from gateway.db.models import ButtonRow
from gateway.db.team_models import StagedRow

OPEN = ("draft", "pending")
"""The states of a change that may still be shared."""


SHARING = "it is being shared"
"""The outcome of a change that is pending and was confirmed: it can't be dropped any more."""


def close(row: StagedRow, state: str, outcome: str) -> None:
    """Note what became of a change; its texts are kept no longer."""
    row.state, row.outcome = state, outcome
    row.body, row.base, row.pointer, row.speaker = "", None, "", ""


async def drop_staged(session: AsyncSession, principal: str, project: str, tells: Callable[[str], bool]) -> None:
    """Drop the changes whose texts or names tell what is forgotten, inside the caller's transaction.

    One that tells it only in what it replaces goes too: it could be shared no more as it was shown.
    """
    mine = (StagedRow.principal == principal, StagedRow.project == project, StagedRow.name != "")
    for row in (await session.scalars(select(StagedRow).where(*mine).order_by(StagedRow.id))).all():
        if not any(tells(text) for text in (row.name, row.body, row.base, row.pointer) if text):
            continue
        row.name = ""
        if row.state in OPEN:
            close(row, "dead", "it held what was forgotten")


async def drop_all_staged(session: AsyncSession, principal: str) -> None:
    """Take away everything that was ever staged for a person, inside the caller's transaction.

    Their buttons go with it: numbers begin at 1 again, and an old button would say yes to another change.
    """
    await session.execute(delete(StagedRow).where(StagedRow.principal == principal))
    await session.execute(delete(ButtonRow).where(ButtonRow.principal == principal))
