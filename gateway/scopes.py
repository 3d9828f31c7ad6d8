"""Scopes: from a chat to whose memory it reaches. The only place where the isolation rule is decided."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from anyio import to_thread
from sqlalchemy import func, select

from adapters.base import Address
from gateway.access import Access, is_shared, names_of
from gateway.db.engine import Database
from gateway.db.models import IgnoredRow, SessionRow
from gateway.settings import Settings
from memory.paths import Homes, ProjectRef
from memory.preferences import Preferences
from memory.scope import Scope


class Scopes:
    """Makes the scope of a turn, and lists the scopes that the night looks after."""

    def __init__(self, settings: Settings, homes: Homes, access: Access, database: Database) -> None:
        self._settings = settings
        self._homes = homes
        self._access = access
        self._database = database
        self._preferences = Preferences()

    async def of(self, address: Address, principal: str) -> Scope:
        """Return what a turn of this principal in this chat may touch."""
        scope = await self._of(address, principal)
        return replace(scope, enabled=False) if await self.ignoring(address, principal) else scope

    async def ignoring(self, address: Address, principal: str) -> bool:
        """Return whether somebody has said there that memory is to be left aside."""
        async with self._database.read() as session:
            return await session.get(IgnoredRow, (str(address), principal)) is not None

    async def _of(self, address: Address, principal: str) -> Scope:
        names = names_of(address, principal)
        bound, chat = self._settings.project_of(*names), self._settings.chat(*names)
        shared = is_shared(principal)
        project = None
        member = False
        if bound is not None:
            name, found = bound
            project = ProjectRef(name=name, root=found.root, repo=found.repo or name)
            member = shared or not (await self._access.accounts_of(principal)).isdisjoint(found.members)
        scope = self._homes.scope(
            principal=principal,
            project=project,
            member=member,
            shared=shared,
            mode=chat.mode or self._settings.memory.memory_mode,
            timezone=chat.timezone or self._settings.timezone,
        )
        home = self._homes.home(principal)
        said_no = partial(self._preferences.opted_out, home=home, project_root=scope.project_root)
        return replace(scope, enabled=False) if scope.enabled and await to_thread.run_sync(said_no) else scope

    async def active(self) -> Sequence[Scope]:
        """Return every known scope whose memory is on; see `scheduler.finders.Scopes`."""
        return [scope for scope in await self.known() if scope.enabled]

    async def known(self) -> Sequence[Scope]:
        """Return every scope that has ever had a session, each once, whatever a conversation of it leaves aside."""
        latest = select(func.max(SessionRow.id)).group_by(SessionRow.principal, SessionRow.project)
        rows = select(SessionRow.principal, SessionRow.conversation).where(SessionRow.id.in_(latest))
        async with self._database.read() as session:
            found = (await session.execute(rows)).all()
        scopes = [await self._of(Address.parse(conversation), principal) for principal, conversation in found]
        return list({(scope.principal, scope.project): scope for scope in scopes}.values())
