"""What was forgotten, and where memory is left aside: the tables that everything asks that rebuilds memory."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from anyio import to_thread
from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account
from gateway.db.engine import Database
from gateway.db.models import DueRow, ErasureRow, FactRow, ForgetOfferRow, IgnoredRow, InboxRow, MessageRow, SessionRow
from memory.erasure import Gone
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
        self,
        scope: Scope,
        tells: Callable[[str], bool],
        known: Collection[int],
        *,
        by: Collection[str] | None = None,
    ) -> frozenset[int]:
        """Return the stored messages of the turns in which something of it was said, by a person or by the bot.

        `known` are messages that are known to be of it. If `by` names accounts, then of the turns of others only what
        the bot itself said of it.
        """
        said = (
            select(
                MessageRow.id,
                MessageRow.session_id,
                MessageRow.inbox_id,
                MessageRow.role,
                MessageRow.said,
                InboxRow.payload,
            )
            .join(SessionRow, SessionRow.id == MessageRow.session_id)
            .outerjoin(InboxRow, InboxRow.id == MessageRow.inbox_id)
            .where(SessionRow.principal == scope.principal, SessionRow.project == scope.project)
            .where(MessageRow.principal == scope.principal)
        )
        async with self._database.read() as session:
            rows = (await session.execute(said)).all()

        def found() -> frozenset[int]:
            sure = {(row.session_id, row.inbox_id) for row in rows if row.id in known}
            telling = [row for row in rows if row.said and tells(row.said)]
            theirs = [row for row in telling if by is None or _account(row.payload) in by]
            turns = sure | {(row.session_id, row.inbox_id) for row in theirs}
            answers = {row.id for row in telling if row.role == "assistant"}
            return frozenset(row.id for row in rows if row.id in answers or (row.session_id, row.inbox_id) in turns)

        return await to_thread.run_sync(found)

    async def erase(self, scope: Scope, *, messages: Collection[int], what: Gone) -> None:
        """Record it, and end every session of the scope, as each holds the index that it began with.

        What is due of a session in which it was said, or shown, is dropped; of the others it stays due, and the
        prompt that they are extracted with loses it. Called before the files are cleared, so that nothing rebuilds
        it, and again after, for what has begun meanwhile.
        """
        knowing, prompts = await self._due_of(scope, frozenset(messages), what)
        now, hashes = self._now(), what.hashes
        fields = {"principal": scope.principal, "project": scope.project, "at": now}
        sessions = (SessionRow.principal == scope.principal, SessionRow.project == scope.project)
        mine = (FactRow.principal == scope.principal, FactRow.project == scope.project)
        async with self._database.write() as session:
            session.add_all(ErasureRow(**fields, message_id=message, fact_hash="") for message in sorted(messages))
            session.add_all(ErasureRow(**fields, message_id=None, fact_hash=each) for each in sorted(hashes))
            await session.execute(update(SessionRow).where(*sessions, ~SessionRow.ended).values(ended=True))
            for one in knowing:
                await session.execute(delete(DueRow).where(DueRow.session_id == one))
            for one, system in prompts.items():
                await session.execute(update(SessionRow).where(SessionRow.id == one).values(system=system))
            for each in hashes:
                await session.execute(delete(FactRow).where(*mine, FactRow.fact_hash == each))

    async def _due_of(
        self, scope: Scope, messages: frozenset[int], what: Gone
    ) -> tuple[Collection[int], Mapping[int, list[Any]]]:
        """Return which sessions with something due know of it, and of the others the prompts that must change."""
        waiting = (
            select(SessionRow.id, SessionRow.system, MessageRow.id, MessageRow.content)
            .join(DueRow, DueRow.session_id == SessionRow.id)
            .join(MessageRow, MessageRow.session_id == SessionRow.id)
            .where(SessionRow.principal == scope.principal, SessionRow.project == scope.project)
        )
        async with self._database.read() as session:
            rows = (await session.execute(waiting)).all()

        def looked() -> tuple[Collection[int], Mapping[int, list[Any]]]:
            prompts = {one: [_shorn(block, what) for block in system] for one, system, _, _ in rows}
            knowing = {one for one, system in prompts.items() if any(map(what.told_in, _texts(system)))}
            for one, _, message, content in rows:
                if one not in knowing and (message in messages or any(map(what.told_in, _texts(content)))):
                    knowing.add(one)
            before = {one: system for one, system, _, _ in rows}
            changed = {one: new for one, new in prompts.items() if one not in knowing and new != before[one]}
            return knowing, changed

        return await to_thread.run_sync(looked)

    async def touch(self, session_id: int) -> bool:
        """Return whether something was forgotten that was said in this session, or while a turn of it ran.

        A turn that is stored later than that, in a session that had begun before it, may have seen it.
        """
        said = MessageRow.id == ErasureRow.message_id
        since = (ErasureRow.at >= SessionRow.started_at) & (MessageRow.at > ErasureRow.at)
        touched = (
            select(ErasureRow.id)
            .join(
                SessionRow,
                (SessionRow.principal == ErasureRow.principal) & (SessionRow.project == ErasureRow.project),
            )
            .join(MessageRow, MessageRow.session_id == SessionRow.id)
            .where(SessionRow.id == session_id, said | since)
        )
        async with self._database.read() as session:
            return await session.scalar(touched.limit(1)) is not None

    async def ignore(self, scope: Scope, conversation: str) -> None:
        """Leave memory aside in a conversation from its next message on; what is due of it waits for `heed`."""
        async with self._database.write() as session:
            row = IgnoredRow(conversation=conversation, principal=scope.principal, since=self._now())
            if await session.get(IgnoredRow, (conversation, scope.principal)) is None:
                session.add(row)
                here = select(SessionRow.id).where(*_in(scope, conversation))
                await session.execute(update(DueRow).where(DueRow.session_id.in_(here)).values(not_before=math.inf))
            await _end(session, scope, conversation)

    async def heed(self, scope: Scope, conversation: str) -> None:
        """Use memory again from the next message on; what was said meanwhile is not taken up."""
        async with self._database.write() as session:
            row = await session.get(IgnoredRow, (conversation, scope.principal))
            if row is None:
                return
            last = select(func.max(MessageRow.id)).where(MessageRow.session_id == SessionRow.id).scalar_subquery()
            here = _in(scope, conversation)
            meanwhile = (*here, SessionRow.started_at >= row.since)
            aside, before = (
                DueRow.session_id.in_(select(SessionRow.id).where(*where))
                for where in (meanwhile, (*here, SessionRow.started_at < row.since))
            )
            await session.execute(delete(DueRow).where(aside))
            await session.execute(update(DueRow).where(before).values(not_before=0.0, forced=True))
            passed_over = update(SessionRow).where(*meanwhile, last.is_not(None)).values(extracted_to=last)
            await session.execute(passed_over.execution_options(synchronize_session=False))
            await session.delete(row)
            await _end(session, scope, conversation)

    def _now(self) -> float:
        return self._clock().timestamp()


async def _end(session: AsyncSession, scope: Scope, conversation: str) -> None:
    """End a conversation's session: none is carried on."""
    here = (*_in(scope, conversation), ~SessionRow.ended)
    await session.execute(update(SessionRow).where(*here).values(ended=True))


def _in(scope: Scope, conversation: str) -> tuple[ColumnElement[bool], ...]:
    return SessionRow.conversation == conversation, SessionRow.principal == scope.principal


def _shorn(block: dict[str, Any], what: Gone) -> dict[str, Any]:
    return {**block, "text": what.shorn(block["text"])} if "text" in block else block


def _texts(value: object) -> Iterator[str]:
    """Yield every text within the content of a message."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _account(payload: dict[str, Any] | None) -> str:
    return str(Account(**payload["account"])) if payload is not None else ""
