"""Where each copy of a team's memory stands, kept in the database (`memory.team.state.SyncStates`)."""

from dataclasses import asdict

from gateway.db.engine import Database
from gateway.db.models import SyncRow
from memory.team.state import SyncState


class DatabaseSyncStates:
    """One row per principal and project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, principal: str, project: str) -> SyncState:
        """Return the state of a copy; of one that was never stored, `SyncState()`."""
        async with self._database.read() as session:
            row = await session.get(SyncRow, (principal, project))
        return SyncState(**row.state) if row else SyncState()

    async def put(self, principal: str, project: str, state: SyncState) -> None:
        """Store the state of a copy before returning."""
        async with self._database.write() as session:
            await session.merge(SyncRow(principal=principal, project=project, state=asdict(state)))
