"""The record of who has changed a team's memory on its server, and of who was turned away; never of a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import delete, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory import secret_scan
from memory.ports import Clock
from memory.team.tables import AUDIT, ENTRIES
from memory.transactions import Transactions

KEEP_DAYS = 90
KEEP_ROWS = 10_000
_PRUNE_EVERY = timedelta(hours=1)
_SAME = timedelta(minutes=1)
"""For so long the same refusal is one row: who asks again and again must not fill the record, nor the disk."""
_REFUSALS = 1000
_LONGEST = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One request: whose token it had (empty: nobody's), from which address, and which keys it has changed."""

    who: str
    peer: str
    repo: str
    method: str
    status: int
    written: Sequence[str] = ()
    deleted: Sequence[str] = ()
    at: datetime | None = None
    """Set by the record."""


class Audit:
    """Keeps the newest entries, for a bounded time and up to a bounded number."""

    def __init__(
        self, database: Transactions, *, clock: Clock, keep_days: int = KEEP_DAYS, keep_rows: int = KEEP_ROWS
    ) -> None:
        self._database = database
        self._clock = clock
        self._keep = timedelta(days=keep_days)
        self._rows = keep_rows
        self._pruned: datetime | None = None
        self._refused: dict[tuple[str, ...], datetime] = {}

    async def refused(self, entry: Entry) -> None:
        """Record a request that was turned away, in a transaction of its own; one like it a moment ago is enough."""
        entry = replace(entry, repo=entry.repo.replace("\0", "")[:_LONGEST])
        # A stranger chooses what to ask for, so all strangers together get a row in a while.
        same = (entry.who, entry.repo if entry.who else "", entry.method, str(entry.status))
        now, before = self._clock(), self._refused.get(same)
        if before is not None and now - before < _SAME:
            return
        if len(self._refused) >= _REFUSALS:
            self._refused.clear()
        self._refused[same] = now
        async with self._database.write() as session:
            await self.write(session, entry)

    async def write(self, session: AsyncSession, entry: Entry) -> None:
        """Record a request inside the transaction that carries it out."""
        now = self._clock()
        values = {
            "at": now,
            "who": entry.who,
            "peer": entry.peer,
            "repo": entry.repo,
            "method": entry.method,
            "status": entry.status,
            "written": [secret_scan.redact(key) for key in entry.written],
            "deleted": [secret_scan.redact(key) for key in entry.deleted],
        }
        await session.execute(insert(AUDIT).values(**values))
        if self._pruned is None or now - self._pruned >= _PRUNE_EVERY:
            self._pruned = now
            newest = select(func.max(AUDIT.c.id)).scalar_subquery()
            await session.execute(
                delete(AUDIT).where(or_(AUDIT.c.at < now - self._keep, AUDIT.c.id <= newest - self._rows))
            )

    async def writers(self, repo: str) -> Mapping[str, str]:
        """Return whose token has written the present text of each entry of a repo, by its key."""
        query = select(ENTRIES.c.key, ENTRIES.c.author).where(ENTRIES.c.repo == repo, ~ENTRIES.c.deleted)
        async with self._database.read() as session:
            return {entry.key: entry.author for entry in await session.execute(query)}

    async def newest(self, repo: str, *, limit: int) -> Sequence[Entry]:
        """Return what was last asked of a repo, the newest first."""
        query = select(AUDIT).where(AUDIT.c.repo == repo).order_by(AUDIT.c.id.desc()).limit(limit)
        async with self._database.read() as session:
            rows = (await session.execute(query)).mappings().all()
        return [Entry(**{name: value for name, value in row.items() if name != "id"}) for row in rows]
