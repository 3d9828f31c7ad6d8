"""What the tidying of a team's memory has proposed, and what its administrators said to it.

    pending --close--> accepted | refused | dead
       claim: accepted, and being carried out; no longer to be refused
    empty: a look that found nothing to change

A number stands for exactly the changes that were shown under it. Of what is over only the names and hashes stay, so
that the same is not proposed twice.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Address, ChatKind
from gateway.db.engine import Database
from gateway.db.models import AccountRow, ChatRow
from gateway.db.proposed import ACCEPTING, PENDING, close, drop_proposed, key_of
from gateway.db.team_models import ProposalRow
from gateway.outbox import Outbox, Post
from gateway.settings import Accounts
from memory.ports import Clock
from memory.team.forgotten import holds_any
from memory.team.proposal import Change


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What a look came to; `seen` stands for what was looked at, `removed` are facts that would be nowhere then."""

    number: int
    project: str
    state: str
    seen: str
    title: str
    changes: tuple[Change, ...]
    removed: tuple[str, ...]
    outcome: str
    at: float


class Proposals:
    """The table of proposals; at most one of a project waits at a time."""

    def __init__(self, database: Database, outbox: Outbox, clock: Clock) -> None:
        self._database = database
        self._outbox = outbox
        self._clock = clock

    async def add(
        self,
        project: str,
        *,
        seen: str,
        title: str,
        changes: Sequence[Change],
        removed: Sequence[str],
        posts: Callable[[AsyncSession, int], Sequence[Post]],
    ) -> Proposal:
        """Store a proposal together with what is posted about it, by its number, in one transaction."""
        row = self._row(project, seen, state=PENDING, title=title)
        row.changes = [{"key": each.key, "replaces": each.replaces, "text": each.text} for each in changes]
        row.removed = list(removed)
        async with self._database.write() as session:
            session.add(row)
            await session.flush()
            await self._outbox.enqueue(session, posts(session, row.id))
            proposal = _proposal(row)
        self._outbox.wake()
        return proposal

    async def found_nothing(self, project: str, *, seen: str) -> None:
        """Remember that these notes were looked at and are well as they are, in place of earlier looks like it."""
        before = delete(ProposalRow).where(ProposalRow.project == project, ProposalRow.state == "empty")
        async with self._database.write() as session:
            await session.execute(before)
            session.add(self._row(project, seen, state="empty", title=""))

    def _row(self, project: str, seen: str, *, state: str, title: str) -> ProposalRow:
        return ProposalRow(
            project=project,
            seen=seen,
            state=state,
            title=title,
            changes=[],
            removed=[],
            account="",
            outcome="",
            created_at=self._clock().timestamp(),
        )

    async def of(self, number: int) -> Proposal | None:
        """Return the proposal of this number; None if there is none."""
        async with self._database.read() as session:
            row = await session.get(ProposalRow, number)
            return None if row is None or row.state == "empty" else _proposal(row)

    async def latest(self, project: str) -> Proposal | None:
        """Return what the last look at a project came to; None if there was none."""
        newest = select(ProposalRow).where(ProposalRow.project == project).order_by(ProposalRow.id.desc()).limit(1)
        async with self._database.read() as session:
            row = await session.scalar(newest)
            return None if row is None else _proposal(row)

    async def waiting(self, projects: Collection[str]) -> Sequence[Proposal]:
        """Return what waits for an answer in these projects, oldest first."""
        waits = (ProposalRow.state == PENDING, ProposalRow.project.in_(list(projects)))
        async with self._database.read() as session:
            rows = await session.scalars(select(ProposalRow).where(*waits).order_by(ProposalRow.id))
            return [_proposal(row) for row in rows]

    async def close(self, number: int, state: str, *, outcome: str, account: str = "") -> bool:
        """End a proposal, and return whether it was waiting; its texts go."""
        async with self._database.write() as session:
            row = await _waiting(session, number)
            if row is not None:
                close(row, state, outcome)
                row.account = account
            return row is not None

    async def refuse(self, number: int, *, outcome: str, account: str) -> bool:
        """End a proposal that waits and that nobody has claimed, and return whether it was one."""
        async with self._database.write() as session:
            row = await _waiting(session, number)
            if row is None or row.outcome:
                return False
            close(row, "refused", outcome)
            row.account = account
            return True

    async def claim(self, number: int, *, account: str) -> bool:
        """Note before returning that a proposal is being carried out for somebody; False if it waits no more.

        It may be claimed again: whoever did so first may have been stopped.
        """
        async with self._database.write() as session:
            row = await _waiting(session, number)
            if row is not None:
                row.outcome, row.account = ACCEPTING, account
            return row is not None

    async def release(self, number: int) -> None:
        """Let a proposal that was claimed wait as before: nothing of it was done."""
        async with self._database.write() as session:
            row = await _waiting(session, number)
            if row is not None:
                row.outcome = row.account = ""

    async def touched(self, project: str, state: str) -> Sequence[frozenset[tuple[str, str]]]:
        """Return of each proposal that was accepted or refused the files that it was about, by key and hash."""
        over = (ProposalRow.project == project, ProposalRow.state == state)
        async with self._database.read() as session:
            found = (await session.scalars(select(ProposalRow.changes).where(*over))).all()
        return [frozenset((each["key"], each["replaces"]) for each in changes) for changes in found]

    async def drop_forgotten(self, project: str, hashes: frozenset[str]) -> None:
        """Drop the proposals that hold one of these facts."""
        if hashes:
            async with self._database.write() as session:
                await drop_proposed(session, project, lambda text: holds_any(hashes, {"": text}))

    async def private_chats(self, accounts: Accounts) -> Sequence[tuple[Address, str]]:
        """Return the private chats of these accounts, each with whose it is, as far as they have ever written there."""
        found: dict[Address, str] = {}
        async with self._database.read() as session:
            for account in accounts:
                who = await session.get(AccountRow, (account.platform, account.workspace, account.user))
                if who is None:
                    continue
                theirs = (
                    ChatRow.kind == ChatKind.PRIVATE.value,
                    ChatRow.principal == who.principal,
                    ChatRow.platform == account.platform,
                    ChatRow.workspace == account.workspace,
                )
                latest = select(ChatRow).where(*theirs).order_by(ChatRow.created_at.desc(), ChatRow.chat).limit(1)
                chat = await session.scalar(latest)
                if chat is not None:
                    place = Address(platform=chat.platform, workspace=chat.workspace, chat=chat.chat)
                    found[place] = who.principal
        return list(found.items())


async def _waiting(session: AsyncSession, number: int) -> ProposalRow | None:
    waits = (ProposalRow.id == number, ProposalRow.state == PENDING)
    return await session.scalar(select(ProposalRow).where(*waits).with_for_update())


def post_key(number: int, place: Address) -> str:
    """Return the key of what is posted about a proposal in a chat; the same proposal is told there once."""
    return f"{key_of(number)}:{place}"


def _proposal(row: ProposalRow) -> Proposal:
    changes: list[dict[str, Any]] = row.changes
    return Proposal(
        number=row.id,
        project=row.project,
        state=row.state,
        seen=row.seen,
        title=row.title,
        changes=tuple(Change(key=each["key"], replaces=each["replaces"], text=each["text"]) for each in changes),
        removed=tuple(row.removed),
        outcome=row.outcome,
        at=row.created_at,
    )
