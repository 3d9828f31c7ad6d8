"""What the gateway knows of the copies of team memories: where each stands, what was forgotten in it, who has left.

Implements `memory.team.state.SyncStates` and `memory.team.forgotten.Forgotten`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import delete, exists, or_, select

from adapters.base import Address
from gateway.access import is_shared, names_of
from gateway.db.engine import Database
from gateway.db.models import ErasureRow, FactRow, SessionRow
from gateway.db.team_models import SyncRow
from gateway.settings import Settings
from memory.paths import TEAM, Homes, ProjectRef
from memory.scope import Part, Scope
from memory.team.local import Skip
from memory.team.state import SyncState
from memory.team.wire import plain_tag

ScopesOf = Callable[[Sequence[tuple[Address, str]]], Awaitable[Sequence[Scope]]]
"""Says of each conversation and principal in turn what may be touched there."""


class DatabaseSyncStates:
    """One row per principal and project."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, principal: str, project: str) -> SyncState:
        """Return the state of a copy; of one that was never stored, `SyncState()`."""
        async with self._database.read() as session:
            row = await session.get(SyncRow, (principal, project))
        return _state(row.state) if row else SyncState()

    async def put(self, principal: str, project: str, state: SyncState) -> None:
        """Store the state of a copy before returning."""
        async with self._database.write() as session:
            await session.merge(SyncRow(principal=principal, project=project, state=asdict(state)))

    async def drop(self, principal: str, project: str) -> None:
        """Forget a copy that is no more, before returning."""
        here = (SyncRow.principal == principal, SyncRow.project == project)
        async with self._database.write() as session:
            await session.execute(delete(SyncRow).where(*here))


def _state(stored: Mapping[str, Any]) -> SyncState:
    """Return a state as it was stored, maybe by an older version that kept other things of it.

    Everything is asked for once more where that kept no refusals, or a tag that can't be sent.
    """
    kept = stored.get("refused")
    refused = tuple(Skip(key=each["key"], reason=each["reason"], rules=tuple(each["rules"])) for each in kept or ())
    known = {name: value for name, value in stored.items() if name in _FIELDS}
    checksum = plain_tag(stored.get("checksum")) if kept is not None else None
    return SyncState(**{**known, "refused": refused, "checksum": checksum})


_FIELDS = frozenset(each.name for each in fields(SyncState))


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

    def __init__(self, settings: Settings, homes: Homes, scopes_of: ScopesOf, database: Database) -> None:
        self._settings = settings
        self._homes = homes
        self._scopes_of = scopes_of
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
        talks = await self._conversations()
        held = [copy for row in rows if row[0] in talks and (copy := self._copy(*row)) is not None]
        # One of those that are bound to the project speaks for all: who has a part in it has it wherever that is so.
        bound = [
            (place, copy.principal)
            for copy, _ in held
            if (place := next(filter(partial(self._is_bound, copy), talks[copy.principal]), None)) is not None
        ]
        parts = {(scope.principal, scope.project) for scope in await self._scopes_of(bound) if _has_part(scope)}
        left = [each for each in held if (each[0].principal, each[0].project) not in parts]
        in_use = await self._in_use([(place, copy.principal) for copy, _ in left for place in talks[copy.principal]])
        return [
            (replace(copy, team_dir=None, readable=copy.writable, project_root=None), directory)
            for copy, directory in left
            if directory not in in_use
        ]

    async def _in_use(self, places: Sequence[tuple[Address, str]]) -> frozenset[Path]:
        """Return the directories that are some project's copy there: one may have another name than the copy had."""
        found = [scope for scope in await self._scopes_of(places) if _has_part(scope)]
        copies = (self._copy(scope.principal, scope.project) for scope in found)
        return frozenset(copy[1] for copy in copies if copy is not None)

    def _copy(self, principal: str, project: str) -> tuple[Scope, Path] | None:
        """Return the scope that a member has, with the directory of the copy; None where there can be none."""
        declared = self._settings.projects.get(project)
        if declared is None:
            return None
        member = self._homes.scope(
            principal=principal,
            project=ProjectRef(name=project, root=declared.root, repo=declared.repo or project),
            member=True,
            shared=is_shared(principal),
            mode=self._settings.memory.memory_mode,
            timezone=self._settings.timezone,
        )
        return None if member.team_dir is None else (member, member.team_dir)  # none: switched off for everybody

    def _is_bound(self, copy: Scope, place: Address) -> bool:
        found = self._settings.project_of(*names_of(place, copy.principal))
        return found is not None and found[0] == copy.project

    async def _conversations(self) -> Mapping[str, Sequence[Address]]:
        """Return every conversation that a principal with a copy has ever had, by principal."""
        with_copy = SessionRow.principal.in_(select(SyncRow.principal))
        theirs = select(SessionRow.principal, SessionRow.conversation).where(with_copy).distinct()
        found: dict[str, list[Address]] = {}
        async with self._database.read() as session:
            for principal, conversation in await session.execute(theirs):
                found.setdefault(principal, []).append(Address.parse(conversation))
        return found


def _has_part(scope: Scope) -> bool:
    return scope.team_dir is not None or scope.leaves_out(Part.TEAM)
