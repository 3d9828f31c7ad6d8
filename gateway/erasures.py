"""What was forgotten, and where memory is left aside: the tables that everything asks that rebuilds memory."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from anyio import to_thread
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account
from gateway.db.engine import Database
from gateway.db.models import DueRow, ErasureRow, FactRow, ForgetOfferRow, IgnoredRow, MessageRow, SessionRow
from memory.ports import Clock
from memory.scope import Scope

OFFER_SECONDS = 600.0
"""How long what was listed may be named by its number."""


class Erasures:
    """The record of what was forgotten, and of what somebody is about to have forgotten."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def offer(self, scope: Scope, conversation: str, account: Account, items: Sequence[dict[str, Any]]) -> None:
        """Keep what somebody was shown; it takes the place of what they were shown before."""
        row = ForgetOfferRow(
            conversation=conversation,
            account=str(account),
            principal=scope.principal,
            project=scope.project,
            items=list(items),
            until=self._now() + OFFER_SECONDS,
        )
        async with self._database.write() as session:
            await session.merge(row)

    async def offered(self, scope: Scope, conversation: str, account: Account) -> list[dict[str, Any]]:
        """Return what this person was shown here within the last ten minutes."""
        mine = (
            ForgetOfferRow.conversation == conversation,
            ForgetOfferRow.account == str(account),
            ForgetOfferRow.principal == scope.principal,
            ForgetOfferRow.project == scope.project,
            ForgetOfferRow.until > self._now(),
        )
        async with self._database.read() as session:
            return list(await session.scalar(select(ForgetOfferRow.items).where(*mine)) or ())

    async def messages_telling(
        self, scope: Scope, tells: Callable[[str], bool], known: Collection[int]
    ) -> frozenset[int]:
        """Return the stored messages of the turns in which something of it was said, by a person or by the bot.

        `known` are messages that are known to be of it.
        """
        said = (
            select(MessageRow.id, MessageRow.session_id, MessageRow.inbox_id, MessageRow.said)
            .join(SessionRow, SessionRow.id == MessageRow.session_id)
            .where(SessionRow.principal == scope.principal, SessionRow.project == scope.project)
            .where(MessageRow.principal == scope.principal)
        )
        async with self._database.read() as session:
            rows = (await session.execute(said)).all()

        def found() -> frozenset[int]:
            turns = {
                (row.session_id, row.inbox_id) for row in rows if row.id in known or (row.said and tells(row.said))
            }
            return frozenset(row.id for row in rows if (row.session_id, row.inbox_id) in turns)

        return await to_thread.run_sync(found)

    async def erase(self, scope: Scope, *, messages: Collection[int], hashes: Collection[str]) -> None:
        """Record it, and end every session that may know of it: none is carried on, none is extracted any more.

        All sessions of the scope may, as each holds the index that it began with.
        """
        now = self._now()
        fields = {"principal": scope.principal, "project": scope.project, "at": now}
        sessions = (SessionRow.principal == scope.principal, SessionRow.project == scope.project)
        mine = (FactRow.principal == scope.principal, FactRow.project == scope.project)
        async with self._database.write() as session:
            session.add_all(ErasureRow(**fields, message_id=message, fact_hash="") for message in sorted(messages))
            session.add_all(ErasureRow(**fields, message_id=None, fact_hash=each) for each in sorted(hashes))
            await session.execute(update(SessionRow).where(*sessions, ~SessionRow.ended).values(ended=True))
            known = select(SessionRow.id).where(*sessions)
            await session.execute(delete(DueRow).where(DueRow.session_id.in_(known)))
            for each in hashes:
                await session.execute(delete(FactRow).where(*mine, FactRow.fact_hash == each))

    async def touch(self, session_id: int) -> bool:
        """Return whether something was forgotten since this session began, which may therefore know of it."""
        touched = (
            select(ErasureRow.id)
            .join(
                SessionRow,
                (SessionRow.principal == ErasureRow.principal) & (SessionRow.project == ErasureRow.project),
            )
            .where(SessionRow.id == session_id, ErasureRow.at >= SessionRow.started_at)
        )
        async with self._database.read() as session:
            return await session.scalar(touched.limit(1)) is not None

    async def ignore(self, scope: Scope, conversation: str) -> None:
        """Leave memory aside in a conversation from its next message on."""
        async with self._database.write() as session:
            row = IgnoredRow(conversation=conversation, principal=scope.principal, since=self._now())
            if await session.get(IgnoredRow, (conversation, scope.principal)) is None:
                session.add(row)
            await _end(session, scope, conversation)

    async def heed(self, scope: Scope, conversation: str) -> None:
        """Use memory again from the next message on; what was said meanwhile is not taken up."""
        async with self._database.write() as session:
            row = await session.get(IgnoredRow, (conversation, scope.principal))
            if row is None:
                return
            last = select(func.max(MessageRow.id)).where(MessageRow.session_id == SessionRow.id).scalar_subquery()
            meanwhile = (
                SessionRow.conversation == conversation,
                SessionRow.principal == scope.principal,
                SessionRow.started_at >= row.since,
            )
            passed_over = update(SessionRow).where(*meanwhile, last.is_not(None)).values(extracted_to=last)
            await session.execute(passed_over.execution_options(synchronize_session=False))
            await session.delete(row)
            await _end(session, scope, conversation)

    def _now(self) -> float:
        return self._clock().timestamp()


async def _end(session: AsyncSession, scope: Scope, conversation: str) -> None:
    """End a conversation's sessions so that nothing of them goes into another request, an extraction's neither."""
    here = (SessionRow.conversation == conversation, SessionRow.principal == scope.principal)
    known = select(SessionRow.id).where(*here)
    await session.execute(delete(DueRow).where(DueRow.session_id.in_(known)))
    await session.execute(update(SessionRow).where(*here, ~SessionRow.ended).values(ended=True))
