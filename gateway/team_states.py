"""What the gateway knows of the copies of team memories: where each stands, what was forgotten in it, who has left.

Implements `memory.team.state.SyncStates` and `memory.team.forgotten.Forgotten`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from sqlalchemy import delete, exists, or_, select

from adapters.base import Address
from gateway.access import is_shared, names_of
from gateway.db.engine import Database
from gateway.db.models import ErasureRow, FactRow, SessionRow, SyncRow
from gateway.settings import Settings
from memory.paths import TEAM, Homes, ProjectRef
from memory.scope import Part, Scope
from memory.team.state import SyncState

ScopeOf = Callable[[Address, str], Awaitable[Scope]]
"""Says what a principal may touch in a conversation."""


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

    async def drop(self, principal: str, project: str) -> None:
        """Forget a copy that is no more, before returning."""
        here = (SyncRow.principal == principal, SyncRow.project == project)
        async with self._database.write() as session:
            await session.execute(delete(SyncRow).where(*here))


class DatabaseForgotten:
    """What was forgotten, for the sync; by the hash of each fact."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, scope: Scope) -> frozenset[str]:
        """Return what was forgotten in this scope and what no human has said again since, as the facts' sources tell.

        Forgetting takes the sources of a fact away, so a later one stems from a sentence that came after it. Whoever
        tells it to the team anew, in whichever of its chats, tells it to all of them.
        """
        said_again = exists().where(
            FactRow.project == ErasureRow.project,
            FactRow.fact_hash == ErasureRow.fact_hash,
            FactRow.said_at > ErasureRow.at,
            or_(FactRow.principal == ErasureRow.principal, FactRow.note.startswith(f"{TEAM}/")),
        )
        mine = (ErasureRow.principal == scope.principal, ErasureRow.project == scope.project)
        forgotten = select(ErasureRow.fact_hash).where(*mine, ErasureRow.fact_hash != "", ~said_again).distinct()
        async with self._database.read() as session:
            return frozenset((await session.scalars(forgotten)).all())


class FormerMembers:
    """Finds the copies of those whose membership of a project has ended."""

    def __init__(self, settings: Settings, homes: Homes, scope_of: ScopeOf, database: Database) -> None:
        self._settings = settings
        self._homes = homes
        self._scope_of = scope_of
        self._database = database

    async def copies(self) -> Sequence[tuple[Scope, Path]]:
        """Return the scopes whose team memory has to go, each with the directory that holds it.

        Only what is certain counts: the settings still declare the project, and no conversation that the principal
        has ever had here has a right in it. Where team memory is switched off, by the operator or by those whom the
        memory belongs to, it is only hidden; and a project that the settings don't name is no proof either, as they
        may be those of another start.
        """
        async with self._database.read() as session:
            rows = (await session.execute(select(SyncRow.principal, SyncRow.project))).all()
        found = [await self._former(principal, project) for principal, project in rows]
        return [copy for copy in found if copy is not None]

    async def _former(self, principal: str, project: str) -> tuple[Scope, Path] | None:
        declared = self._settings.projects.get(project)
        if declared is None:
            return None
        ref = ProjectRef(name=project, root=declared.root, repo=declared.repo or project)
        member = self._homes.scope(
            principal=principal,
            project=ref,
            member=True,
            shared=is_shared(principal),
            mode=self._settings.memory.memory_mode,
            timezone=self._settings.timezone,
        )
        if member.team_dir is None:
            return None  # switched off for everybody
        talks = await self._conversations(principal)
        # One of those that are bound to the project speaks for all: who has a part in it has it wherever that is so.
        bound = next((place for place in talks if self._is_bound(place, principal, project)), None)
        if not talks or (bound is not None and _has_part(await self._scope_of(bound, principal), project)):
            return None
        return replace(member, team_dir=None, readable=member.writable, project_root=None), member.team_dir

    def _is_bound(self, place: Address, principal: str, project: str) -> bool:
        found = self._settings.project_of(*names_of(place, principal))
        return found is not None and found[0] == project

    async def _conversations(self, principal: str) -> list[Address]:
        theirs = select(SessionRow.conversation).where(SessionRow.principal == principal).distinct()
        async with self._database.read() as session:
            return [Address.parse(conversation) for conversation in await session.scalars(theirs)]


def _has_part(scope: Scope, project: str) -> bool:
    return scope.project == project and (scope.team_dir is not None or scope.leaves_out(Part.TEAM))
