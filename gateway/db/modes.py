"""Which mode somebody has chosen for a memory in its chat; it goes before what the settings say."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from gateway.db.models import ChatModeRow
from gateway.db.rows import obtain
from memory.scope import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What was chosen: None for what the settings say. `since` is when that last changed the mode, if it ever did."""

    mode: Mode | None
    at: datetime
    since: datetime | None


async def chosen_of(session: AsyncSession, principal: str) -> Chosen | None:
    """Return what was chosen for a principal; None if nobody ever has."""
    row = await session.get(ChatModeRow, principal)
    return None if row is None else _chosen(row)


async def all_chosen(session: AsyncSession) -> Mapping[str, Chosen]:
    """Return what was chosen, by principal."""
    return {row.principal: _chosen(row) for row in (await session.scalars(select(ChatModeRow))).all()}


async def choose(
    session: AsyncSession, principal: str, mode: Mode | None, *, account: str, now: datetime, changes: bool
) -> None:
    """Note the choice; `changes` says whether the mode is another one from now on."""
    at = now.timestamp()
    row = await obtain(session, ChatModeRow(principal=principal, mode="", set_by=account, at=at, since=None))
    row.mode, row.set_by, row.at = mode.value if mode else "", account, at
    row.since = at if changes else row.since


def _chosen(row: ChatModeRow) -> Chosen:
    return Chosen(
        mode=Mode(row.mode) if row.mode else None,
        at=datetime.fromtimestamp(row.at, UTC),
        since=None if row.since is None else datetime.fromtimestamp(row.since, UTC),
    )
