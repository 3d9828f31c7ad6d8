"""Sessions and their transcripts, stored exactly as they stand in requests, so that a prefix stays the same bytes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Address
from gateway.db.addresses import moved, within
from gateway.db.engine import Database
from gateway.db.models import DirectWriteRow, DueRow, ErasureRow, IgnoredRow, MessageRow, SessionRow, ShownRow
from memory.ports import Clock, Said
from memory.recall import Recalled, Shown
from memory.scope import Scope

_SITTING = timedelta(hours=1)  # memory specification, section 0: a sitting ends with an hour's silence


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """One open session as a turn needs it. `messages` are API messages, oldest first."""

    id: int
    principal: str
    project: str
    conversation: str
    system: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    shown: Shown
    told_date: str
    told_notes_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One message to store. `said` holds the human's or bot's own words only."""

    role: str
    content: list[dict[str, Any]]
    speaker: str = ""
    said: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turned:
    """What a finished turn adds to its session."""

    lines: Sequence[Line]
    recalled: Sequence[Recalled]
    rules: Sequence[str]
    """Instruction rules that were told for the first time, by the names that `Shown` knows them under."""
    written: Sequence[Path]
    told_date: str
    told_notes_at: float
    inbox_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """An extraction that waits: which session, up to which message, and what has piled up since the last one."""

    session_id: int
    upto: int
    turns: int
    forced: bool
    attempts: int
    new_messages: int
    direct_writes: tuple[Path, ...]


class History:
    """Sessions, messages, what recall has shown, which extractions are due. Implements `memory.ports.History`."""

    def __init__(self, database: Database, clock: Clock, *, silence: float) -> None:
        self._database = database
        self._clock = clock
        self._silence = silence

    async def open_session(self, scope: Scope, conversation: str) -> Session | None:
        """Return the conversation's open session; None if there is none, or it ended by silence or a new binding."""
        async with self._database.read() as session:
            row = await session.scalar(_open_in(conversation))
            if row is None:
                return None
            silent = self._now() - row.last_at > self._silence
            if not silent and (row.principal, row.project) == (scope.principal, scope.project):
                return await self._load(session, row)
        async with self._database.write() as session:
            await self.end_session(session, conversation)
        return None

    async def start_session(
        self, scope: Scope, conversation: str, *, system: list[dict[str, Any]], today: str
    ) -> Session:
        """Begin a session with the system prompt that stays frozen in it."""
        now = self._now()
        row = SessionRow(
            principal=scope.principal,
            project=scope.project,
            conversation=conversation,
            system=system,
            started_at=now,
            last_at=now,
            ended=False,
            told_date=today,
            told_notes_at=now,
            extracted_to=0,
        )
        async with self._database.write() as session:
            session.add(row)
            await session.flush()
            return await self._load(session, row)

    async def end_session(self, session: AsyncSession, conversation: str) -> int | None:
        """End the conversation's session inside the caller's transaction and return its id; None if there is none.

        What is not extracted yet falls due.
        """
        row = await session.scalar(_open_in(conversation))
        if row is None:
            return None
        await self._end(session, row)
        return row.id

    async def take_back(self, session: AsyncSession, conversation: str, former: int | None) -> None:
        """Let a session that was ended a moment ago go on, in place of the one that was begun after it."""
        newer = await session.scalar(_open_in(conversation))
        if newer is not None:
            newer.ended = True
            await session.flush()  # before the other is open again: there is only ever one
        row = await session.get(SessionRow, former) if former is not None else None
        if row is not None:
            row.ended = False

    async def end_silent(self) -> int:
        """End every session that has been silent for too long, so that its last turns are extracted."""
        silent = select(SessionRow).where(~SessionRow.ended, SessionRow.last_at < self._now() - self._silence)
        async with self._database.write() as session:
            rows = (await session.scalars(silent)).all()
            for row in rows:
                await self._end(session, row)
        return len(rows)

    async def move(self, session: AsyncSession, old: Address, new: Address) -> None:
        """Let a chat's sessions go on in its new place, inside the caller's transaction.

        Where a session is open there already, the old one ends.
        """
        here, there = within(SessionRow.conversation, old), moved(SessionRow.conversation, old, new)
        begun = select(SessionRow.conversation).where(~SessionRow.ended, within(SessionRow.conversation, new))
        taken = (await session.scalars(begun)).all()
        for row in (await session.scalars(select(SessionRow).where(here, ~SessionRow.ended, there.in_(taken)))).all():
            await self._end(session, row)
        await session.flush()
        await session.execute(update(SessionRow).where(here).values(conversation=there))
        # Where somebody has said that memory is to be left aside, it is left aside still.
        for ignored in (await session.scalars(select(IgnoredRow).where(within(IgnoredRow.conversation, old)))).all():
            place = str(new) + ignored.conversation.removeprefix(str(old))
            await session.merge(IgnoredRow(conversation=place, principal=ignored.principal, since=ignored.since))
            await session.delete(ignored)

    async def add_turn(self, session: AsyncSession, to: Session, turned: Turned) -> None:
        """Store a turn inside the caller's transaction and mark its extraction due."""
        rows = [
            MessageRow(
                session_id=to.id,
                principal=to.principal,
                inbox_id=turned.inbox_id,
                role=line.role,
                content=line.content,
                speaker=line.speaker,
                said=line.said,
                at=self._now(),
            )
            for line in turned.lines
        ]
        session.add_all(rows)
        await session.flush()
        first, last = rows[0].id, rows[-1].id
        for note in turned.recalled:
            await session.merge(ShownRow(session_id=to.id, name=note.name, message_id=first, units=note.units))
        for name in turned.rules:
            await session.merge(ShownRow(session_id=to.id, name=name, message_id=first, units=0))
        session.add_all(DirectWriteRow(session_id=to.id, message_id=last, path=str(path)) for path in turned.written)
        row = await session.get_one(SessionRow, to.id)
        row.last_at, row.told_date, row.told_notes_at = self._now(), turned.told_date, turned.told_notes_at
        # A session that ended while this turn ran has no later turn that would take up what the throttle holds back.
        await self._fall_due(session, session_id=to.id, principal=to.principal, upto=last, turns=1, forced=row.ended)

    # -- extractions that are due

    async def due(self) -> Sequence[int]:
        """Return the sessions whose extraction may run now: of each memory only the one that was said first.

        So what was said later is also written later, whichever session it was said in.
        """
        first = (
            select(func.min(DueRow.upto))
            .join(SessionRow, SessionRow.id == DueRow.session_id)
            .where(DueRow.not_before < math.inf)
            .group_by(SessionRow.principal, SessionRow.project)
        )
        ready = (
            select(DueRow.session_id)
            .where(DueRow.upto.in_(first), DueRow.not_before <= self._now())
            .order_by(DueRow.upto)
        )
        async with self._database.read() as session:
            return (await session.scalars(ready)).all()

    async def due_extraction(self, session_id: int) -> tuple[Due, Session] | None:
        """Return what is due for a session, with its transcript up to there; None if it has been done meanwhile."""
        async with self._database.read() as session:
            due = await session.get(DueRow, session_id)
            row = await session.get(SessionRow, session_id)
            if due is None or row is None:
                return None
            window = (
                MessageRow.session_id == session_id,
                MessageRow.id > row.extracted_to,
                MessageRow.id <= due.upto,
                MessageRow.said != "",
            )
            count = await session.scalar(select(func.count()).select_from(MessageRow).where(*window))
            writes = select(DirectWriteRow.path).where(
                DirectWriteRow.session_id == session_id,
                DirectWriteRow.message_id > row.extracted_to,
                DirectWriteRow.message_id <= due.upto,
            )
            paths = (await session.scalars(writes)).all()
            found = Due(
                session_id=session_id,
                upto=due.upto,
                turns=due.turns,
                forced=due.forced,
                attempts=due.attempts,
                new_messages=count or 0,
                direct_writes=tuple(Path(path) for path in paths),
            )
            return found, await self._load(session, row, upto=due.upto)

    async def close_due(self, due: Due, *, move_cursor: bool) -> None:
        """Take the extraction off; turns that came meanwhile stay due, and their run ignores the throttle."""
        async with self._database.write() as session:
            if move_cursor:
                moved = update(SessionRow).where(SessionRow.id == due.session_id)
                await session.execute(moved.values(extracted_to=due.upto))
            row = await session.get(DueRow, due.session_id)
            if row is None:
                return
            if row.upto == due.upto:
                await session.delete(row)
            else:
                row.turns, row.forced, row.attempts = row.turns - due.turns, True, 0

    async def turns_after(self, due: Due) -> int:
        """Return how many turns have ended since this extraction was taken up; it must not be closed yet."""
        turns = select(DueRow.turns).where(DueRow.session_id == due.session_id)
        async with self._database.read() as session:
            return max(0, (await session.scalar(turns) or 0) - due.turns)

    async def failed_due(self, due: Due, *, after: float) -> None:
        """Count a failed attempt and leave the extraction due for `after` seconds; see `postpone_due`."""
        await self._put_off(due, after=after, attempts=due.attempts + 1)

    async def postpone_due(self, due: Due, *, after: float) -> None:
        """Leave the extraction due for `after` seconds; infinity: until the next turn of the session, or its end."""
        await self._put_off(due, after=after, attempts=due.attempts)

    async def _put_off(self, due: Due, *, after: float, attempts: int) -> None:
        kept = update(DueRow).where(DueRow.session_id == due.session_id, DueRow.upto == due.upto)
        async with self._database.write() as session:
            await session.execute(kept.values(attempts=attempts, not_before=self._now() + after))

    # -- memory.ports.History

    async def sittings_since(self, scope: Scope, since: datetime, *, enough: int) -> int:
        """Count stretches without an hour's silence, per conversation, that ended after `since`; at most `enough`.

        Reads from the newest message backwards, no further than it has to.
        """
        times = (
            select(SessionRow.conversation, MessageRow.at)
            .join(SessionRow, MessageRow.session_id == SessionRow.id)
            .where(SessionRow.principal == scope.principal, SessionRow.project == scope.project)
            .where(MessageRow.principal == scope.principal)
            .where(MessageRow.said != "", MessageRow.at > since.timestamp())
            .order_by(MessageRow.at.desc())
        )
        count = 0
        began: dict[str, float] = {}  # of the sitting that is being read, per conversation
        async with self._database.read() as session, (await session.connection()).stream(times) as rows:
            while count < enough and (row := await rows.fetchone()) is not None:
                conversation, at = row
                if conversation not in began or began[conversation] - at > _SITTING.total_seconds():
                    count += 1
                began[conversation] = at
        return count

    async def said_between(self, scope: Scope, start: datetime, end: datetime) -> Sequence[Said]:
        """Return what people and the bot said in [start, end) in this scope, oldest first, and was not forgotten."""
        forgotten = select(ErasureRow.message_id).where(
            ErasureRow.principal == scope.principal,
            ErasureRow.project == scope.project,
            ErasureRow.message_id.is_not(None),
        )
        said = (
            select(MessageRow)
            .join(SessionRow, MessageRow.session_id == SessionRow.id)
            .where(SessionRow.principal == scope.principal, SessionRow.project == scope.project)
            .where(MessageRow.principal == scope.principal)
            .where(MessageRow.said != "", MessageRow.at >= start.timestamp(), MessageRow.at < end.timestamp())
            .where(MessageRow.id.not_in(forgotten))
            .order_by(MessageRow.id)
        )
        async with self._database.read() as session:
            rows = (await session.scalars(said)).all()
        return [
            Said(
                message_id=row.id,
                session_id=row.session_id,
                role=row.role,
                speaker=row.speaker,
                text=row.said,
                at=datetime.fromtimestamp(row.at, UTC),
            )
            for row in rows
        ]

    async def extracted_between(self, scope: Scope, start: datetime, end: datetime) -> frozenset[int]:
        """Return the ids of what was said in [start, end) in this scope and extraction has looked at."""
        extracted = (
            select(MessageRow.id)
            .join(SessionRow, MessageRow.session_id == SessionRow.id)
            .where(SessionRow.principal == scope.principal, SessionRow.project == scope.project)
            .where(MessageRow.principal == scope.principal, MessageRow.id <= SessionRow.extracted_to)
            .where(MessageRow.said != "", MessageRow.at >= start.timestamp(), MessageRow.at < end.timestamp())
        )
        async with self._database.read() as session:
            return frozenset((await session.scalars(extracted)).all())

    async def latest_conversation(self, scope: Scope) -> str | None:
        """Return where this scope was last talked to, for notices."""
        latest = (
            select(SessionRow.conversation)
            .where(SessionRow.principal == scope.principal, SessionRow.project == scope.project)
            .order_by(SessionRow.last_at.desc())
        )
        async with self._database.read() as session:
            return await session.scalar(latest.limit(1))

    async def _load(self, session: AsyncSession, row: SessionRow, *, upto: int | None = None) -> Session:
        lines = select(MessageRow.role, MessageRow.content).where(MessageRow.session_id == row.id)
        if upto is not None:
            lines = lines.where(MessageRow.id <= upto)
        messages = [
            {"role": role, "content": content}
            for role, content in (await session.execute(lines.order_by(MessageRow.id))).all()
        ]
        shown = (
            await session.execute(select(ShownRow.name, ShownRow.units).where(ShownRow.session_id == row.id))
        ).all()
        return Session(
            id=row.id,
            principal=row.principal,
            project=row.project,
            conversation=row.conversation,
            system=row.system,
            messages=messages,
            told_date=row.told_date,
            told_notes_at=row.told_notes_at,
            shown=Shown(names=frozenset(name for name, _ in shown), units=sum(units for _, units in shown)),
        )

    async def _end(self, session: AsyncSession, row: SessionRow) -> None:
        row.ended = True
        last = await session.scalar(select(func.max(MessageRow.id)).where(MessageRow.session_id == row.id))
        if last is not None and last > row.extracted_to:
            await self._fall_due(session, session_id=row.id, principal=row.principal, upto=last, turns=0, forced=True)

    async def _fall_due(
        self, session: AsyncSession, *, session_id: int, principal: str, upto: int, turns: int, forced: bool
    ) -> None:
        row = await session.get(DueRow, session_id)
        if row is None:
            row = DueRow(session_id=session_id, principal=principal, turns=0, forced=False)
            session.add(row)
        row.upto, row.turns, row.forced = upto, row.turns + turns, row.forced or forced
        row.attempts, row.not_before = 0, 0.0

    def _now(self) -> float:
        return self._clock().timestamp()


def _open_in(conversation: str) -> Select[SessionRow]:
    return select(SessionRow).where(SessionRow.conversation == conversation, ~SessionRow.ended)
