"""Scopes: from a chat to whose memory it reaches. The only place where the isolation rule is decided."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from anyio import to_thread
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account, Address
from gateway.access import Access, is_shared, names_of
from gateway.db.engine import Database
from gateway.db.models import IgnoredRow, SessionRow
from gateway.db.modes import Chosen, all_chosen, choose, chosen_of
from gateway.db.sessions import end
from gateway.settings import Settings
from memory.paths import Homes, ProjectRef
from memory.preferences import Preferences
from memory.scope import Mode, Scope


class Scopes:
    """Makes the scope of a turn, and lists the scopes that the night looks after."""

    def __init__(self, settings: Settings, homes: Homes, access: Access, database: Database) -> None:
        self._settings = settings
        self._homes = homes
        self._access = access
        self._database = database
        self._preferences = Preferences(settings.memory)

    async def of(self, address: Address, principal: str) -> Scope:
        """Return what a turn of this principal in this chat may touch."""
        async with self._database.read() as session:
            chosen = await chosen_of(session, principal)
            ignored = await _ignored(session, address, principal)
            accounts = await self._access.accounts_by(session, self._persons([(address, principal)]))
        scope = await to_thread.run_sync(self._of, address, principal, chosen, accounts.get(principal, frozenset()))
        return replace(scope, enabled=False) if ignored else scope

    async def ignoring(self, address: Address, principal: str) -> bool:
        """Return whether somebody has said there that memory is to be left aside."""
        async with self._database.read() as session:
            return await _ignored(session, address, principal)

    async def chosen(self, principal: str) -> Chosen | None:
        """Return which mode was chosen for a principal with `/mode`; None if nobody ever has."""
        async with self._database.read() as session:
            return await chosen_of(session, principal)

    async def choose(
        self, principal: str, mode: Mode | None, *, account: Account, now: datetime, changes: bool
    ) -> None:
        """Let a principal's memory be in this mode from now on; None: in the one that the settings say.

        Each conversation that is in another mode then begins anew: what is held back there falls due, which silence
        would not see to in log mode.
        """
        still_open = select(SessionRow).where(SessionRow.principal == principal, ~SessionRow.ended)
        async with self._database.write() as session:
            before = await chosen_of(session, principal)
            await choose(session, principal, mode, account=str(account), now=now, changes=changes)
            after = await chosen_of(session, principal)
            for row in (await session.scalars(still_open.order_by(SessionRow.id).with_for_update())).all():
                here = Address.parse(row.conversation)
                if self._mode(here, principal, before) is not self._mode(here, principal, after):
                    await end(session, row)

    def _of(self, address: Address, principal: str, chosen: Chosen | None, accounts: frozenset[Account]) -> Scope:
        """Return the scope of whoever these accounts are; blocking."""
        names = names_of(address, principal)
        bound, chat = self._settings.project_of(*names), self._settings.chat(*names)
        shared = is_shared(principal)
        project = None
        member = False
        if bound is not None:
            name, found = bound
            project = ProjectRef(name=name, root=found.root, repo=found.repo or name)
            member = shared or not accounts.isdisjoint(found.members)
        scope = self._homes.scope(
            principal=principal,
            project=project,
            member=member,
            shared=shared,
            mode=self._mode(address, principal, chosen),
            timezone=chat.timezone or self._settings.timezone,
        )
        scope = replace(scope, mode_since=chosen.since if chosen else None)
        home = self._homes.home(principal)
        return scope.after(self._preferences.opted_out(home=home, project_root=scope.project_root))

    def _persons(self, places: Iterable[tuple[Address, str]]) -> set[str]:
        """Return those persons of whom it has to be known which accounts they are: they may belong to a project."""
        return {
            principal
            for address, principal in places
            if not is_shared(principal) and self._settings.project_of(*names_of(address, principal)) is not None
        }

    def _mode(self, address: Address, principal: str, chosen: Chosen | None) -> Mode:
        set_here = self._settings.chat(*names_of(address, principal)).mode
        return (chosen and chosen.mode) or set_here or self._settings.memory.memory_mode

    async def modes(self) -> Callable[[Address, str], Mode]:
        """Return what tells the mode of any chat and its principal, as it is now, without looking anything up."""
        async with self._database.read() as session:
            chosen = await all_chosen(session)
        return lambda address, principal: self._mode(address, principal, chosen.get(principal))

    async def active(self) -> Sequence[Scope]:
        """Return every known scope whose memory is on; see `scheduler.finders.Scopes`."""
        return [scope for scope in await self.known() if scope.enabled]

    async def known(self) -> Sequence[Scope]:
        """Return every scope that has ever had a session, each once, whatever a conversation of it leaves aside."""
        return await self._scopes_of(await self._latest())

    async def of_principal(self, principal: str) -> Sequence[Scope]:
        """Return those of the known scopes that are this principal's."""
        return await self._scopes_of([latest for latest in await self._latest() if latest[0] == principal])

    async def _scopes_of(self, latest: Sequence[tuple[str, str, str]]) -> Sequence[Scope]:
        scopes = await self.of_all([(Address.parse(conversation), principal) for principal, _, conversation in latest])
        return list({(scope.principal, scope.project): scope for scope in scopes}.values())

    async def of_all(self, places: Sequence[tuple[Address, str]]) -> Sequence[Scope]:
        """Return the scope of each conversation and principal in turn, whatever the conversation leaves aside.

        However many there are, the database is asked as often.
        """
        async with self._database.read() as session:
            modes = await all_chosen(session)
            accounts = await self._access.accounts_by(session, self._persons(places))

        def made() -> list[Scope]:
            return [self._of(at, who, modes.get(who), accounts.get(who, frozenset())) for at, who in places]

        return await to_thread.run_sync(made)

    async def left(self) -> Sequence[Scope]:
        """Return the scopes whose chats are bound to another project by now, as far as their notes are still there.

        No turn and no night comes to them any more. They have no team memory.
        """
        known = {(scope.principal, scope.project) for scope in await self.known()}
        had = [(principal, project) for principal, project, _ in await self._latest()]
        scopes = [self._former(*each) for each in had if each not in known]
        return await to_thread.run_sync(lambda: [scope for scope in scopes if scope.memory_dir.is_dir()])

    async def _latest(self) -> list[tuple[str, str, str]]:
        """Return principal, project and conversation of the latest session of each principal in each project."""
        latest = select(func.max(SessionRow.id)).group_by(SessionRow.principal, SessionRow.project)
        columns = (SessionRow.principal, SessionRow.project, SessionRow.conversation)
        async with self._database.read() as session:
            found = (await session.execute(select(*columns).where(SessionRow.id.in_(latest)))).all()
        return [(principal, project, conversation) for principal, project, conversation in found]

    def _former(self, principal: str, project: str) -> Scope:
        declared = self._settings.projects.get(project)
        root, repo = (declared.root, declared.repo or project) if declared else (None, "")
        former = ProjectRef(name=project, root=root, repo=repo) if project else None
        return self._homes.scope(
            principal=principal,
            project=former,
            member=False,
            shared=is_shared(principal),
            mode=self._settings.memory.memory_mode,
            timezone=self._settings.timezone,
        )


async def _ignored(session: AsyncSession, address: Address, principal: str) -> bool:
    return await session.get(IgnoredRow, (str(address), principal)) is not None
