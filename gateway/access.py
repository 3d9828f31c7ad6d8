"""Who may speak, and as whom. Ids decide; names are data.

Owners and members from the settings may always talk in private; others by the policy, by default with a pairing code
that an operator approves (`reverie access approve CODE`). Shared chats are closed until they are approved, by
`reverie access allow CHAT` or by being bound to a project in the settings.
"""

import hashlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account, Address, ChatKind, Inbound
from gateway.db.engine import Database
from gateway.db.models import AccountRow, ChatRow, PairingRow
from gateway.db.rows import obtain
from gateway.settings import Settings
from memory.ports import Clock

_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # without 0 O 1 I L, which people mistake for one another
_CODE_LENGTH = 6
_CODE_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether a message is answered. `word` is what a refused sender is told; empty: nothing."""

    allowed: bool
    principal: str
    word: str = ""


class Access:
    """Accounts, chats and pairing codes."""

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock

    async def judge(self, inbound: Inbound) -> Verdict:
        """Decide on a message that is meant for the bot; of those who are refused no name is kept."""
        async with self._database.read() as session:
            verdict = await self._known(session, inbound)
        return verdict or await self._meet(inbound)

    async def _known(self, session: AsyncSession, inbound: Inbound) -> Verdict | None:
        """Decide without a write, which most messages need not: the sender and the chat are as they were."""
        who, address = inbound.account, inbound.address
        account = await session.get(AccountRow, (who.platform, who.workspace, who.user))
        chat = await session.get(ChatRow, (address.platform, address.workspace, address.chat))
        if account is None or chat is None or account.name != inbound.name:
            return None
        if inbound.chat_title and chat.title != inbound.chat_title:
            return None
        if inbound.kind is ChatKind.SHARED:
            verdict = self._shared(address, chat)
            return verdict if verdict.allowed else None
        return Verdict(allowed=True, principal=account.principal) if self._may_talk(who, account) else None

    async def _meet(self, inbound: Inbound) -> Verdict:
        async with self._database.write() as session:
            account = await self._account(session, inbound)
            chat = await self._chat(session, inbound, account)
            if inbound.kind is ChatKind.PRIVATE:
                verdict = await self._private(session, inbound.account, account)
            else:
                verdict = self._shared(inbound.address, chat)
            if not verdict.allowed:
                account.name = chat.title = ""
            return verdict

    async def _private(self, session: AsyncSession, who: Account, row: AccountRow) -> Verdict:
        if self._may_talk(who, row):
            return Verdict(allowed=True, principal=row.principal)
        policy = self._settings.access.private
        if policy == "off":
            return Verdict(allowed=False, principal=row.principal, word="This bot doesn't take private messages.")
        if policy == "listed":
            word = f"This bot is private. Its operator can let you in; your id here is {who}."
            return Verdict(allowed=False, principal=row.principal, word=word)
        given = await session.get(PairingRow, (who.platform, who.workspace, who.user))
        if given is not None and given.expires_at - self._now() > _CODE_SECONDS / 2:
            # Only its hash is kept, so it can't be said again; a new one would kill the one on its way to the operator.
            word = "The code that I gave you is still good: please hand it to the operator of this bot."
            return Verdict(allowed=False, principal=row.principal, word=word)
        code = await self._new_code(session, who)
        word = (
            f"I don't know you yet. Please give this code to the operator of this bot: {code}\n"
            f"They let you in with `reverie access approve {code}`; it is good for an hour. "
            f"Until then I keep nothing of what you write. (Your id here is {who}.)"
        )
        return Verdict(allowed=False, principal=row.principal, word=word)

    def _may_talk(self, who: Account, row: AccountRow) -> bool:
        policy = self._settings.access
        if who in policy.owners or policy.private == "off":
            return who in policy.owners
        return policy.private == "open" or who in policy.members or row.allowed

    def _shared(self, address: Address, row: ChatRow) -> Verdict:
        policy = self._settings.access.shared
        # Whatever the row says: a shared chat is never a person, even if a private one had its id before.
        principal = row.principal if is_shared(row.principal) else _of_chat(address)
        bound = self._settings.project_of(*names_of(address, principal)) is not None
        if policy == "open" or (policy == "approved" and (row.allowed or bound)):
            return Verdict(allowed=True, principal=principal)
        word = (
            "I'm not switched on in this chat. The operator can allow it with "
            f"`reverie access allow {address.whole_chat}`."
        )
        return Verdict(allowed=False, principal=principal, word=word if policy == "approved" else "")

    async def approve(self, code: str) -> Account | None:
        """Let in whoever was given this code; None if it is unknown or too old. A code works once."""
        given = select(PairingRow).where(PairingRow.code_hash == _hash(code), PairingRow.expires_at > self._now())
        async with self._database.write() as session:
            row = await session.scalar(given.with_for_update())
            if row is None:
                return None
            who = Account(platform=row.platform, workspace=row.workspace, user=row.user)
            await session.execute(_account_of(who).values(allowed=True))
            await session.delete(row)
            return who

    async def allow_account(self, who: Account, *, allowed: bool) -> None:
        """Let an account talk in private, or no longer, from its next message on."""
        async with self._database.write() as session:
            row = await obtain(session, self._new_account(who, name=""))
            row.allowed = allowed

    async def allow_chat(self, address: Address, *, allowed: bool) -> None:
        """Let the bot answer in a shared chat, or no longer, from the next message on."""
        async with self._database.write() as session:
            row = await obtain(session, self._new_group(address))
            row.allowed = allowed

    async def person(self, who: Account) -> str | None:
        """Return the principal of somebody who may talk in private; None for anybody else."""
        async with self._database.read() as session:
            account = await session.get(AccountRow, (who.platform, who.workspace, who.user))
        return account.principal if account is not None and self._may_talk(who, account) else None

    async def reach(self, chat: Address, *, reachable: bool) -> None:
        """Keep whether the bot can post in a chat that it knows."""
        known = (ChatRow.platform == chat.platform, ChatRow.workspace == chat.workspace, ChatRow.chat == chat.chat)
        async with self._database.write() as session:
            await session.execute(update(ChatRow).where(*known).values(reachable=reachable))

    async def move(self, session: AsyncSession, old: Address, new: Address) -> str:
        """Let a shared chat be who it was under its old id, inside the caller's transaction; returns its principal."""
        before = await obtain(session, self._new_group(old))
        row = await obtain(session, self._new_group(new, title=before.title))
        if row.principal != before.principal:  # else it was moved before, and may have been forbidden since
            row.principal, row.allowed = before.principal, row.allowed or before.allowed
        return row.principal

    async def known(self) -> Sequence[str]:
        """List who and where is allowed, a line each."""
        async with self._database.read() as session:
            accounts = (await session.scalars(select(AccountRow).where(AccountRow.allowed))).all()
            chats = (await session.scalars(select(ChatRow).where(ChatRow.allowed))).all()
        people = [Account(platform=row.platform, workspace=row.workspace, user=row.user) for row in accounts]
        places = [Address(platform=row.platform, workspace=row.workspace, chat=row.chat) for row in chats]
        return [*(f"person {who}" for who in people), *(f"chat {place}" for place in places)]

    async def accounts_of(self, principal: str) -> frozenset[Account]:
        """Return the accounts that are this person."""
        async with self._database.read() as session:
            return (await self.accounts_by(session, [principal]))[principal]

    async def accounts_by(self, session: AsyncSession, principals: Collection[str]) -> Mapping[str, frozenset[Account]]:
        """Return the accounts that each of these persons is: one query, and none where nobody is asked for."""
        found: dict[str, set[Account]] = {principal: set() for principal in principals}
        if found:
            columns = (AccountRow.principal, AccountRow.platform, AccountRow.workspace, AccountRow.user)
            theirs = select(*columns).where(AccountRow.principal.in_(found))
            for principal, platform, workspace, user in (await session.execute(theirs)).all():
                found[principal].add(Account(platform=platform, workspace=workspace, user=user))
        return {principal: frozenset(accounts) for principal, accounts in found.items()}

    async def _account(self, session: AsyncSession, inbound: Inbound) -> AccountRow:
        row = await obtain(session, self._new_account(inbound.account, name=inbound.name))
        row.name = inbound.name
        return row

    async def _chat(self, session: AsyncSession, inbound: Inbound, account: AccountRow) -> ChatRow:
        address, private = inbound.address, inbound.kind is ChatKind.PRIVATE
        principal = account.principal if private else _of_chat(address)
        new = self._new_chat(address, kind=inbound.kind, principal=principal, title=inbound.chat_title)
        row = await obtain(session, new)
        row.title = inbound.chat_title or row.title
        return row

    def _new_account(self, who: Account, *, name: str) -> AccountRow:
        return AccountRow(
            platform=who.platform,
            workspace=who.workspace,
            user=who.user,
            principal=f"person:{who}",
            name=name,
            allowed=False,
            created_at=self._now(),
        )

    def _new_group(self, address: Address, *, title: str = "") -> ChatRow:
        return self._new_chat(address, kind=ChatKind.SHARED, principal=_of_chat(address), title=title)

    def _new_chat(self, address: Address, *, kind: ChatKind, principal: str, title: str) -> ChatRow:
        return ChatRow(
            platform=address.platform,
            workspace=address.workspace,
            chat=address.chat,
            kind=kind.value,
            principal=principal,
            title=title,
            allowed=False,
            created_at=self._now(),
        )

    async def _new_code(self, session: AsyncSession, who: Account) -> str:
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
        mine = (
            PairingRow.platform == who.platform,
            PairingRow.workspace == who.workspace,
            PairingRow.user == who.user,
        )
        await session.execute(delete(PairingRow).where(*mine))
        session.add(
            PairingRow(
                platform=who.platform,
                workspace=who.workspace,
                user=who.user,
                code_hash=_hash(code),
                expires_at=self._now() + _CODE_SECONDS,
            )
        )
        return code

    def _now(self) -> float:
        return self._clock().timestamp()


def is_shared(principal: str) -> bool:
    """Whether a principal is a group or channel and not a person."""
    return principal.startswith("chat:")


def names_of(address: Address, principal: str) -> tuple[Address, ...]:
    """Return how the settings may name this conversation: as it is, or under the id that its chat had at first.

    A shared chat that has moved keeps its principal, and that holds the first id.
    """
    if not is_shared(principal):
        return (address,)
    first = replace(Address.parse(principal.removeprefix("chat:")), thread=address.thread)
    return (address,) if first == address else (address, first)


def _of_chat(address: Address) -> str:
    return f"chat:{address.whole_chat}"


def _account_of(who: Account):  # type: ignore[no-untyped-def]  # SQLAlchemy's Update is generic in a private way
    return update(AccountRow).where(
        AccountRow.platform == who.platform,
        AccountRow.workspace == who.workspace,
        AccountRow.user == who.user,
    )


def _hash(code: str) -> str:
    return hashlib.sha256(code.strip().upper().encode()).hexdigest()
