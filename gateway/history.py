"""Sessions and their transcripts, stored exactly as they stand in requests, so that a prefix stays the same bytes."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Address
from gateway.db.addresses import moved, within
from gateway.db.engine import Database
from gateway.db.marks import clear_inbox, in_line, mark_of
from gateway.db.models import NOT_RECALLED, DirectWriteRow, DueRow, IgnoredRow, MessageRow, SessionRow, ShownRow
from gateway.db.redaction import blank
from gateway.db.rows import some
from gateway.db.sessions import end, fall_due
from gateway.db.transcripts import Transcripts
from gateway.errors import OutOfDate
from memory.ports import Clock
from memory.recall import Recalled, Shown
from memory.scope import Mode, Scope

_HOLDS_UP = 3
"""So many failures, some minutes in all, and an extraction is no longer waited for by what was said later."""


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
    mark: int = 0
    """See `gateway.db.marks`: as it was when this was loaded."""


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
    opened: Mapping[str, float] = field(default_factory=dict)
    """The notes that the model has read or written, with their mtime then: recall need not show them as they are."""
    broke_off: bool = False
    """The turn was stopped or cut short: the next one's extraction takes it up, or that of the session's end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """An extraction that waits: which session, up to which message, and what has piled up since the last one."""

    session_id: int
    upto: int
    turns: int
    forced: bool
    attempts: int
    new_messages: int
    talks: int
    direct_writes: tuple[Path, ...]


class History(Transcripts):
    """Sessions, messages, what recall has shown, which extractions are due."""

    def __init__(self, database: Database, clock: Clock, *, silence: float) -> None:
        """Take the parts; a session that nobody speaks in for `silence` seconds is over."""
        super().__init__(database, clock)
        self._silence = silence

    async def open_session(self, scope: Scope, conversation: str) -> Session | None:
        """Return the conversation's open session; None if there is none, or it ended by silence or a new binding.

        In log mode no silence ends it.
        """
        async with self._database.read() as session:
            row = await session.scalar(_open_in(conversation))
            if row is None:
                return None
            silent = scope.mode is not Mode.LOG and self._now() - row.last_at > self._silence
            if not silent and (row.principal, row.project) == (scope.principal, scope.project):
                lines = select(MessageRow.role, MessageRow.content).where(MessageRow.session_id == row.id)
                stored = (await session.execute(lines.order_by(MessageRow.id))).all()
                return await self._load(session, row, [{"role": role, "content": content} for role, content in stored])
        async with self._database.write() as session:
            await self.end_session(session, conversation)
        return None

    async def mark(self, scope: Scope) -> int:
        """Return the mark of a memory as it is now, to be taken before a session's prompt is read."""
        async with self._database.read() as session:
            return await mark_of(session, scope.principal, scope.project)

    async def start_session(
        self, scope: Scope, conversation: str, *, system: list[dict[str, Any]], today: str, mark: int | None = None
    ) -> Session:
        """Begin a session with the system prompt that stays frozen in it.

        Raises `OutOfDate` if that was read when something was forgotten (`mark` is no longer the memory's), or before
        memory was left aside here: it may hold what must be in no later request.
        """
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
            await in_line(session, scope.principal, scope.project)
            ignored = await session.get(IgnoredRow, (conversation, scope.principal)) is not None
            if scope.enabled and ignored:
                raise OutOfDate("memory is left aside here since its index was read")
            if mark is not None and mark != await mark_of(session, scope.principal, scope.project):
                raise OutOfDate("something was forgotten since the index was read")
            session.add(row)
            await session.flush()
            return await self._load(session, row, [])

    async def end_session(self, session: AsyncSession, conversation: str) -> int | None:
        """End the conversation's session inside the caller's transaction and return its id; None if there is none.

        What is not extracted yet falls due.
        """
        row = await session.scalar(_open_in(conversation).with_for_update())
        if row is None:
            return None
        await end(session, row)
        return row.id

    async def take_back(self, session: AsyncSession, conversation: str, former: int | None) -> None:
        """Let a session that was ended a moment ago go on, in place of the one that was begun after it."""
        newer = await session.scalar(_open_in(conversation))
        if newer is not None:
            newer.ended = True
            await session.flush()  # before the other is open again: there is only ever one
        row = await session.get(SessionRow, former) if former is not None else None
        if row is not None and row.system:  # else something was forgotten meanwhile, and it was cleared
            row.ended = False

    async def end_silent(self, *, mode_of: Callable[[Address, str], Mode]) -> int:
        """End every session that has been silent for too long, so that its last turns are extracted.

        Not in log mode, which `mode_of` a conversation and its principal tells: there the close of the day sees to
        what is not extracted.
        """
        count = 0
        for ids in some(await self.silent(mode_of=mode_of)):
            # What another holds is being spoken in, or ended.
            still = select(SessionRow).where(*self._fell_silent(), SessionRow.id.in_(ids))
            still = still.with_for_update(skip_locked=True)
            async with self._database.write() as session:
                rows = (await session.scalars(still)).all()
                for row in rows:
                    await end(session, row)
            count += len(rows)
        return count

    async def silent(self, *, mode_of: Callable[[Address, str], Mode]) -> Sequence[int]:
        """Return the sessions that `end_silent` would end now."""
        places = select(SessionRow.id, SessionRow.conversation, SessionRow.principal).where(*self._fell_silent())
        async with self._database.read() as session:
            found = (await session.execute(places)).all()
        return [id_ for id_, place, who in found if mode_of(Address.parse(place), who) is not Mode.LOG]

    def _fell_silent(self) -> tuple[ColumnElement[bool], ...]:
        return ~SessionRow.ended, SessionRow.last_at < self._now() - self._silence

    async def move(self, session: AsyncSession, old: Address, new: Address) -> None:
        """Let a chat's sessions go on in its new place, inside the caller's transaction.

        Where a session is open there already, the old one ends.
        """
        here, there = within(SessionRow.conversation, old), moved(SessionRow.conversation, old, new)
        begun = select(SessionRow.conversation).where(~SessionRow.ended, within(SessionRow.conversation, new))
        taken = (await session.scalars(begun)).all()
        double = select(SessionRow).where(here, ~SessionRow.ended, there.in_(taken)).with_for_update()
        for row in (await session.scalars(double)).all():
            await end(session, row)
        await session.flush()
        await session.execute(update(SessionRow).where(here).values(conversation=there))
        # Where somebody has said that memory is to be left aside, it is left aside still.
        for ignored in (await session.scalars(select(IgnoredRow).where(within(IgnoredRow.conversation, old)))).all():
            place = str(new) + ignored.conversation.removeprefix(str(old))
            await session.merge(IgnoredRow(conversation=place, principal=ignored.principal, since=ignored.since))
            await session.delete(ignored)

    async def add_turn(self, session: AsyncSession, to: Session, turned: Turned) -> None:
        """Store a turn inside the caller's transaction and mark its extraction due.

        Of a turn whose session was ended because something was forgotten while it ran, nothing is kept but that it
        was: it has seen that, and may tell it in any words. What else is due of its session stays due.
        """
        await in_line(session, to.principal, to.project)
        row = await session.get_one(SessionRow, to.id, with_for_update=True)  # see `fall_due`
        if row.ended and await mark_of(session, to.principal, to.project) != to.mark:
            lines = [replace(line, content=blank(), said="") for line in turned.lines]
            turned = replace(turned, lines=lines, recalled=(), rules=(), written=())
            if turned.inbox_id is not None:
                await clear_inbox(session, turned.inbox_id)
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
        await _show(session, to.id, turned, message_id=first)
        session.add_all(DirectWriteRow(session_id=to.id, message_id=last, path=str(path)) for path in turned.written)
        row.last_at, row.told_date, row.told_notes_at = self._now(), turned.told_date, turned.told_notes_at
        # A session that ended while this turn ran has no later turn that would take up what is held back.
        # What the turn itself has noted is not looked at again.
        if row.ended or turned.written or not turned.broke_off:
            await fall_due(session, session_id=to.id, principal=to.principal, upto=last, turns=1, forced=row.ended)

    # -- extractions that are due

    async def due(self) -> Sequence[int]:
        """Return the sessions whose extraction may run now: of each memory only the one that was said first.

        So what was said later is also written later, whichever session it was said in. One that has failed again and
        again holds up no other any more.
        """
        first = (
            select(func.min(DueRow.upto))
            .join(SessionRow, SessionRow.id == DueRow.session_id)
            .where(DueRow.not_before < math.inf, DueRow.attempts < _HOLDS_UP)
            .group_by(SessionRow.principal, SessionRow.project)
        )
        ready = (
            select(DueRow.session_id)
            .where(DueRow.upto.in_(first) | (DueRow.attempts >= _HOLDS_UP), DueRow.not_before <= self._now())
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
            stored = select(MessageRow).where(MessageRow.session_id == session_id, MessageRow.id <= due.upto)
            lines = _left((await session.scalars(stored.order_by(MessageRow.id))).all())
            said = [line for line in lines if line.id > row.extracted_to and (line.said or line.content == blank())]
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
                new_messages=len(said),
                talks=len({line.inbox_id for line in said}),
                direct_writes=tuple(Path(path) for path in paths),
            )
            messages = [{"role": line.role, "content": line.content} for line in lines]
            return found, await self._load(session, row, messages)

    async def close_due(self, due: Due, *, move_cursor: bool) -> None:
        """Take the extraction off; turns that came meanwhile stay due, and their run ignores the throttle."""
        async with self._database.write() as session:
            owner = await session.get(SessionRow, due.session_id, with_for_update=True)  # see `fall_due`
            if owner is not None and move_cursor:
                owner.extracted_to = due.upto
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

    async def _load(self, session: AsyncSession, row: SessionRow, messages: list[dict[str, Any]]) -> Session:
        shown = (await session.scalars(select(ShownRow).where(ShownRow.session_id == row.id))).all()
        return Session(
            id=row.id,
            principal=row.principal,
            project=row.project,
            conversation=row.conversation,
            system=row.system,
            messages=messages,
            told_date=row.told_date,
            told_notes_at=row.told_notes_at,
            mark=await mark_of(session, row.principal, row.project),
            shown=Shown(
                names=frozenset(each.name for each in shown),
                mtimes={each.name: each.mtime for each in shown if each.mtime is not None},
                units=sum(each.units for each in shown),
            ),
        )

    def _now(self) -> float:
        return self._clock().timestamp()


async def _show(session: AsyncSession, session_id: int, turned: Turned, *, message_id: int) -> None:
    """Note what a turn has put before the model."""
    names = {*turned.rules, *(note.name for note in turned.recalled)}
    if not names and not turned.opened:
        return
    stored = select(ShownRow).where(ShownRow.session_id == session_id, ShownRow.name.in_(names | turned.opened.keys()))
    rows = {row.name: row for row in (await session.scalars(stored)).all()}
    for name in names - rows.keys():
        rows[name] = ShownRow(session_id=session_id, name=name, units=0)
        session.add(rows[name])
    for name in names:
        rows[name].message_id = message_id
    for note in turned.recalled:
        rows[note.name].units += note.units
        rows[note.name].mtime = note.mtime
    for name, mtime in turned.opened.items():
        if name not in rows:
            rows[name] = ShownRow(session_id=session_id, name=name, units=0, message_id=NOT_RECALLED)
            session.add(rows[name])
        rows[name].mtime = mtime


def _left(lines: Sequence[MessageRow]) -> list[MessageRow]:
    """Return a transcript without the turns of which nothing is left, so that its last messages are those that tell."""
    kept = {line.inbox_id for line in lines if line.content != blank()}
    return [line for line in lines if line.inbox_id in kept]


def _open_in(conversation: str) -> Select[SessionRow]:
    return select(SessionRow).where(SessionRow.conversation == conversation, ~SessionRow.ended)
