"""What was forgotten, and where memory is left aside: the tables that everything asks that rebuilds memory."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import compress
from typing import Any

from anyio import to_thread
from sqlalchemy import ColumnElement, delete, func, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account
from gateway.db.clearing import Clearing, drop_sources, end_those_shown, withdraw_offers
from gateway.db.engine import Database
from gateway.db.marks import in_line
from gateway.db.models import (
    DueRow,
    ErasureRow,
    FactRow,
    ForgetOfferRow,
    IgnoredRow,
    InboxRow,
    MessageRow,
    SessionRow,
)
from gateway.db.proposed import drop_proposed
from gateway.db.rows import AT_ONCE, of_scope, some
from gateway.db.staged import OPEN, drop_staged
from gateway.db.team_models import StagedRow
from memory.facts import forgettable
from memory.gone import Gone
from memory.paths import TEAM
from memory.ports import Clock
from memory.scope import Scope

OFFER_SECONDS = 600.0
"""How long what was listed may be named by its number."""
AT_LONGEST = 900.0
"""How long a memory takes up nothing new, in seconds, where whoever was forgetting something was killed meanwhile.

More than the files of any memory take, and than it takes to start again, after which they go on.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Said:
    """What a person or the bot said in a message."""

    id: int
    inbox_id: int | None
    role: str
    text: str
    waits: bool
    """Whether it may still be extracted: its session is open, or something of that is due."""


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
            *of_scope(ForgetOfferRow, scope),
            ForgetOfferRow.until > self._now(),
        )
        async with self._database.read() as session:
            return list(await session.scalar(select(ForgetOfferRow.items).where(*mine)) or ())

    async def staged(self, scope: Scope) -> dict[str, str]:
        """Return the texts that wait to be shared with the team, by the change's number and the note's name."""
        mine = (StagedRow.principal == scope.principal, StagedRow.project == scope.project)
        waits = select(StagedRow).where(*mine, StagedRow.state.in_(OPEN)).order_by(StagedRow.id)
        async with self._database.read() as session:
            rows = (await session.scalars(waits)).all()
        return {f"{row.number}/{row.name}": row.body for row in rows if row.body is not None}

    async def latest(self, scope: Scope) -> int:
        """Return the last message of a memory: all up to it are stored, and those that come are after it."""
        last = select(func.max(MessageRow.id)).join(SessionRow, SessionRow.id == MessageRow.session_id)
        async with self._database.write() as session:
            await in_line(session, scope.principal, scope.project)
            return await session.scalar(last.where(*of_scope(SessionRow, scope))) or 0

    async def messages_telling(
        self,
        scope: Scope,
        what: Gone,
        known: Collection[int],
        *,
        by: Collection[str] | None = None,
        after: int = 0,
    ) -> frozenset[int]:
        """Return the messages stored `after` one of the turns in which something of it was said, by whomever.

        `known` are messages that are known to be of it. If `by` names accounts, then of the turns of others only what
        the bot itself said of it. Of what may still be extracted a message is of it by one word that no fact has which
        stays: what else was said in that message is lost with it, as what would be noted of it can't be told apart.
        """
        telling, hinting = list[_Said](), list[_Said]()
        while said := await self._said(scope, after):
            after = said[-1].id
            told = await to_thread.run_sync(list, map(what.tells, [each.text for each in said]))
            telling += compress(said, told)
            waiting = [each for each in said if each.waits]
            hints = await to_thread.run_sync(list, map(what.hinted_in, [each.text for each in waiting]))
            hinting += compress(waiting, hints)
        answers = {each.id for each in (*telling, *hinting) if each.role == "assistant"}
        async with self._database.read() as session:
            theirs, hints_of_theirs = telling, hinting
            if by is not None:
                theirs, hints_of_theirs = [await _said_by(session, each, by) for each in (telling, hinting)]
            sure = [*(each.id for each in theirs), *known]
            alone = {each.id for each in hints_of_theirs}
            return frozenset(answers | alone | await _turns_of(session, scope, sure))

    async def _said(self, scope: Scope, after: int) -> Sequence[_Said]:
        waits = or_(~SessionRow.ended, SessionRow.id.in_(select(DueRow.session_id)))
        said = (
            select(MessageRow.id, MessageRow.inbox_id, MessageRow.role, MessageRow.said, waits.label("waits"))
            .join(SessionRow, SessionRow.id == MessageRow.session_id)
            .where(*of_scope(SessionRow, scope), MessageRow.principal == scope.principal)
            .where(MessageRow.said != "", MessageRow.id > after)
            .order_by(MessageRow.id)
        )
        async with self._database.read() as session:
            rows = (await session.execute(said.limit(AT_ONCE))).all()
        return [_Said(id=row.id, inbox_id=row.inbox_id, role=row.role, text=row.said, waits=row.waits) for row in rows]

    async def begin(
        self,
        scope: Scope,
        *,
        messages: Collection[int],
        what: Gone,
        names: Collection[str] = (),
        team: Gone | None = None,
    ) -> None:
        """Record it, blank what tells it, and end every session of the scope, as each holds the index it began with.

        What is due stays due, and is extracted from what is left of its transcript and prompt. `names` are notes that
        are named by it. `team` is that part of it which stood in the team's notes: sessions of other chats of the
        project that were shown it end too. Called before the files are cleared, so that nothing rebuilds it: until
        `end` all who ask hear that something was forgotten just now. Who said it stays known till then, so that they
        can have it taken out again if that was cut short.
        """
        clearing = Clearing(scope, what, names=names)
        async with self._database.read() as session:
            traces = await clearing.traces(session)
        async with self._database.write() as session:
            others = await _others(session, scope) if team is not None and scope.project else ()
            for each in sorted({scope.principal, *others}):  # in one order, so that no two wait for each other
                await in_line(session, each, scope.project)
            self._record(session, scope.principal, scope.project, what.hashes, messages=messages, done=False)
            await clearing.end_sessions(session, messages)
            await clearing.blank(session, messages, traces)
            await drop_staged(session, scope.principal, scope.project, partial(_told_in, what))
            if team is not None:
                await drop_proposed(session, scope.project, team.told_in)
                for other in others:
                    await drop_staged(session, other, scope.project, team.told_in)
                    self._record(session, other, scope.project, team.hashes, place=TEAM, done=False)
                    await clearing.leave_team(session, other, team)

    async def end(self, scope: Scope, *, names: Collection[str] = (), stays: Collection[str] = ()) -> None:
        """Record that what was begun to be forgotten is forgotten by now, and drop who said it and what offers it.

        `stays` are the hashes of facts that could not be taken out: who said them may try again.
        """
        async with self._database.write() as session:
            begun = await self._unfinished(session, scope)
            hashes = {row.fact_hash for row in begun} - {""}
            begun += await _of_others(session, scope, hashes)
            for each in sorted({scope.principal, *(row.principal for row in begun)}):
                await in_line(session, each, scope.project)
            for row in begun:
                row.done, row.at = True, self._now()
            dropped = hashes.difference(stays)
            await drop_sources(session, scope.principal, scope.project, dropped)
            for other in sorted({row.principal for row in begun if row.place == TEAM}):
                await drop_sources(session, other, scope.project, dropped, FactRow.note.like(f"{TEAM}/%"))
            await withdraw_offers(session, scope, names=names, hashes=dropped)

    async def erase(
        self,
        scope: Scope,
        *,
        messages: Collection[int],
        what: Gone,
        names: Collection[str] = (),
        team: Gone | None = None,
        stays: Collection[str] = (),
    ) -> None:
        """Do `begin`, for what has begun since it was called first, and then `end`."""
        await self.begin(scope, messages=messages, what=what, names=names, team=team)
        await self.end(scope, names=names, stays=stays)

    async def unfinished(self, scope: Scope) -> frozenset[str]:
        """Return the hashes of facts of this memory that somebody has begun to forget and has not ended.

        Who holds the lease of those who forget knows that nobody is at it any more.
        """
        async with self._database.read() as session:
            return frozenset(row.fact_hash for row in await self._unfinished(session, scope)) - {""}

    async def _unfinished(self, session: AsyncSession, scope: Scope) -> list[ErasureRow]:
        begun = select(ErasureRow).where(*of_scope(ErasureRow, scope), ErasureRow.place == "", ~ErasureRow.done)
        return list((await session.scalars(begun)).all())

    async def record_facts(self, scope: Scope, hashes: Collection[str]) -> None:
        """Record facts that left memory on somebody's word, so that nothing rebuilds them; no session ends."""
        if hashes:
            async with self._database.write() as session:
                await in_line(session, scope.principal, scope.project)
                self._record(session, scope.principal, scope.project, hashes)

    async def team_notes_gone(self, scope: Scope, names: Collection[str]) -> None:
        """End the open sessions of this one memory that were shown notes of T which a pull has removed.

        `names` are relative to T. What is due of them loses the notes' lines in the index and what was read of them.
        """
        if names:
            async with self._database.write() as session:
                await in_line(session, scope.principal, scope.project)
                await end_those_shown(session, scope, frozenset(names))

    async def since(self, scope: Scope, moment: datetime) -> bool:
        """Return whether anything was forgotten since `moment` that an agent of this scope may have read.

        Its memory may be one for all projects of the principal, or for all chats of the project.
        """
        near = ErasureRow.principal == scope.principal
        if scope.project:
            near = or_(near, ErasureRow.project == scope.project)
        since = select(ErasureRow.id).where(near, ErasureRow.at >= moment.timestamp())
        async with self._database.read() as session:
            return await session.scalar(since.limit(1)) is not None

    async def ignore(self, scope: Scope, conversation: str) -> None:
        """Leave memory aside in a conversation from its next message on; what is due of it waits for `heed`."""
        async with self._database.write() as session:
            await in_line(session, scope.principal, scope.project)
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

    def _record(
        self,
        session: AsyncSession,
        principal: str,
        project: str,
        hashes: Collection[str],
        *,
        messages: Collection[int] = (),
        place: str = "",
        done: bool = True,
    ) -> None:
        at = self._now() + (0.0 if done else AT_LONGEST)
        about: list[tuple[int | None, str]] = [(each, "") for each in sorted(messages)]
        about += [(None, each) for each in sorted(hashes)]
        session.add_all(
            ErasureRow(
                principal=principal, project=project, message_id=message, fact_hash=fact, place=place, at=at, done=done
            )
            for message, fact in about or [(None, "")]  # of a note without facts, that something was forgotten
        )

    def _now(self) -> float:
        return self._clock().timestamp()


def _told_in(what: Gone, text: str) -> bool:
    """Return whether a text holds it, be it in other words or as one fact over many lines."""
    return what.told_in(text) or any(map(what.same, forgettable(text)))


async def _said_by(session: AsyncSession, said: Sequence[_Said], by: Collection[str]) -> list[_Said]:
    """Return those of the messages that stem from these accounts."""
    accounts: dict[int, str] = {}
    for ids in some({each.inbox_id for each in said if each.inbox_id is not None}):
        payloads = select(InboxRow.id, InboxRow.payload).where(InboxRow.id.in_(ids))
        for inbox_id, payload in (await session.execute(payloads)).all():
            accounts[inbox_id] = str(Account(**payload["account"]))
    return [each for each in said if accounts.get(each.inbox_id or 0, "") in by]


async def _turns_of(session: AsyncSession, scope: Scope, messages: Collection[int]) -> set[int]:
    """Return all messages of the turns that these are of, within the scope."""
    mine = (*of_scope(SessionRow, scope), MessageRow.principal == scope.principal)
    within = select(MessageRow.id, MessageRow.session_id, MessageRow.inbox_id).join(
        SessionRow, SessionRow.id == MessageRow.session_id
    )
    found: set[int] = set()
    turns: set[tuple[int, int]] = set()
    for ids in some(messages):
        for row in (await session.execute(within.where(*mine, MessageRow.id.in_(ids)))).all():
            found.add(row.id)
            if row.inbox_id is not None:
                turns.add((row.session_id, row.inbox_id))
    of_turn = tuple_(MessageRow.session_id, MessageRow.inbox_id)
    for keys in some(turns):
        found.update((await session.scalars(within.where(*mine, of_turn.in_(keys)))).all())
    return found


async def _others(session: AsyncSession, scope: Scope) -> Sequence[str]:
    """Return who else has talked in chats of the scope's project."""
    others = select(SessionRow.principal).where(
        SessionRow.project == scope.project, SessionRow.principal != scope.principal
    )
    return (await session.scalars(others.distinct())).all()


async def _of_others(session: AsyncSession, scope: Scope, hashes: Collection[str]) -> list[ErasureRow]:
    """Return what says that these facts are being forgotten for others of the scope's project."""
    begun = (ErasureRow.project == scope.project, ErasureRow.place == TEAM, ~ErasureRow.done)
    found: list[ErasureRow] = []
    for wanted in some(hashes) if scope.project else ():
        rows = select(ErasureRow).where(*begun, ErasureRow.fact_hash.in_(wanted))
        found += (await session.scalars(rows)).all()
    return found


async def _end(session: AsyncSession, scope: Scope, conversation: str) -> None:
    """End a conversation's session: none is carried on."""
    here = (*_in(scope, conversation), ~SessionRow.ended)
    await session.execute(update(SessionRow).where(*here).values(ended=True))


def _in(scope: Scope, conversation: str) -> tuple[ColumnElement[bool], ...]:
    return SessionRow.conversation == conversation, SessionRow.principal == scope.principal
