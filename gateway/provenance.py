"""Who said each fact of the notes, and which notes shaped an answer. Implements `memory.provenance.Ledger`."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account
from gateway.db.engine import Database
from gateway.db.models import NOT_RECALLED, RULE_PREFIX, ErasureRow, FactRow, InboxRow, MessageRow, SessionRow, ShownRow
from gateway.db.rows import add_missing, of_scope, some
from memory.provenance import Moved, Placed, Source, Spoken, Witness, fact_hash, goes_by, named_in, source
from memory.scope import Scope

_LATEST = 20  # "remember that" may mean what was said a while ago in the conversation, hardly more than this
_LONG_AGO = 200  # where somebody is named as who said it
_PERSON = "person:"

Hears = Callable[[], Awaitable[Sequence[Spoken]]]
"""Returns what a run acts on: what humans have said, oldest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shaping:
    """What of memory stood before the model when it gave an answer, by the notes' names.

    `read` are the paths that it opened itself, as it wrote them.
    """

    recalled: tuple[str, ...]
    read: tuple[str, ...]
    earlier: tuple[str, ...]
    """Recalled for an earlier message of the same session, and still in it."""


class Provenance:
    """The record of sources. A fact that was written by hand has none."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def heard(self, session_id: int, *, principal: str, upto: int) -> list[Spoken]:
        """Return what humans said in a session and extraction has not looked at yet, oldest first."""
        new = (MessageRow.id > SessionRow.extracted_to, MessageRow.id <= upto)
        async with self._database.read() as session:
            return await _spoken(session, principal, MessageRow.session_id == session_id, *new)

    async def said(self, session_id: int, now: Spoken, *, principal: str) -> list[Spoken]:
        """Return what humans said last in a session, oldest first, and then what is being said in it `now`."""
        async with self._database.read() as session:
            here = MessageRow.session_id == session_id
            return [*await _spoken(session, principal, here, latest=_LONG_AGO), now]

    async def keep(self, scope: Scope, hears: Hears, witness: Witness, came: Sequence[Placed]) -> None:
        """Record who said facts that are about to be written, where none is recorded for them there yet.

        What the run has written in sum is recorded once more when it ends, in place of this; see `Witness.kept`.
        """
        heard = await hears()
        async with self._database.write() as session:
            rows = await _rows(session, scope, {fact.hash for fact in (*witness.gone, *came)})
            known = {(row.note, row.fact_hash): row for row in rows}
            new = {(fact.note, fact.hash): fact for fact in came if (fact.note, fact.hash) not in known}
            for key in sorted(new):
                who = _found(new[key], witness, heard, known)
                if who is not None and await add_missing(session, _row(scope, new[key], who)):
                    witness.kept.add(key)

    async def record_turn(
        self,
        session: AsyncSession,
        session_id: int,
        scope: Scope,
        witness: Witness,
        *,
        forgotten: Collection[str] = (),
        back: Collection[str] = (),
    ) -> None:
        """Record what a turn itself has written, inside the transaction that has stored the turn's messages.

        `forgotten` are the facts that it has forgotten, by hash, and `back` those of them that it has written again.
        """
        if witness.added or witness.gone or witness.kept:
            here = MessageRow.session_id == session_id
            heard = await _spoken(session, scope.principal, here, latest=_LATEST)
            await _record(session, scope, witness, heard)
        for row in await _rows(session, scope, set(forgotten).difference(back)):
            await session.delete(row)  # who says it again is the one who said it
        if back:  # the rows stay, as they are counted (`gateway.db.marks`), but a fact that only moved is not forgotten
            moved = update(ErasureRow).where(*of_scope(ErasureRow, scope), ErasureRow.fact_hash.in_(list(back)))
            await session.execute(moved.values(fact_hash=""))

    async def record(self, scope: Scope, witness: Witness, heard: Sequence[Spoken]) -> None:
        """Record what an extraction run has written."""
        if witness.added or witness.gone or witness.kept:
            async with self._database.write() as session:
                await _record(session, scope, witness, heard)

    async def sources(self, scope: Scope, hashes: Iterable[str]) -> dict[str, tuple[Source, ...]]:
        """Return who said these facts, by hash; one that stands in several notes may have several sources."""
        found: dict[str, tuple[Source, ...]] = {}
        async with self._database.read() as session:
            for row in await _rows(session, scope, hashes):
                found[row.fact_hash] = (*found.get(row.fact_hash, ()), _source(row))
        return found

    async def named(self, scope: Scope, found: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the accounts of those who stand with these facts as the ones who said them, by the facts' hashes.

        A name under which several have spoken in this memory is nobody's: anybody can take any name.
        """
        names = {fact_hash(fact): named_in(fact) for fact in found}
        spoken = await self._speakers(scope) if any(names.values()) else []
        called = {
            name: {account for speaker, account in spoken if goes_by(speaker, name)}
            for name in frozenset[str]().union(*names.values())
        }
        return {
            each: frozenset[str]().union(*(called[name] for name in those if len(called[name]) == 1))
            for each, those in names.items()
        }

    async def _speakers(self, scope: Scope) -> list[tuple[str, str]]:
        """Return under which names which accounts have spoken; of what is too long ago the account is empty."""
        account = [InboxRow.payload["account"][part].as_string() for part in ("platform", "workspace", "user")]
        here = (*of_scope(SessionRow, scope), MessageRow.principal == scope.principal, MessageRow.role == "user")
        spoke = (
            select(MessageRow.speaker, *account)
            .join(SessionRow, SessionRow.id == MessageRow.session_id)
            .outerjoin(InboxRow, InboxRow.id == MessageRow.inbox_id)
            .where(*here, MessageRow.speaker != "")
            .distinct()
        )
        async with self._database.read() as session:
            rows = (await session.execute(spoke)).all()
        return [
            (name, str(Account(platform=platform, workspace=workspace or "", user=user)) if user else "")
            for name, platform, workspace, user in rows
        ]

    async def carry(self, scope: Scope, moves: Sequence[Moved]) -> None:
        """Give each new fact the source of the old one, where none is recorded for it yet."""
        if not moves:
            return
        async with self._database.write() as session:
            rows = await _rows(session, scope, {fact.hash for move in moves for fact in (move.old, move.new)})
            known = {(row.note, row.fact_hash): row for row in rows}
            for move in moves:
                old = known.get((move.old.note, move.old.hash))
                if old is not None and (move.new.note, move.new.hash) not in known:
                    row = _row(scope, move.new, _source(old))
                    known[row.note, row.fact_hash] = row
                    await add_missing(session, row)

    async def logged(self, scope: Scope, lines: Mapping[int, Placed]) -> None:
        """Give each line of a log, by the message that it repeats, that message as its source."""
        async with self._database.write() as session:
            known = {(row.note, row.fact_hash) for row in await _rows(session, scope, (f.hash for f in lines.values()))}
            for spoken in await _spoken(session, scope.principal, MessageRow.id.in_(lines)):
                line = lines[spoken.message_id]
                if (line.note, line.hash) not in known:
                    known.add((line.note, line.hash))
                    await add_missing(session, _row(scope, line, source(spoken)))

    async def erased_since(self, scope: Scope, moment: datetime, *, besides: Collection[str] = ()) -> bool:
        """Return whether anything of this scope, besides the facts of these hashes, was forgotten since `moment`.

        What is being forgotten at this moment counts, whenever that was begun.
        """
        since = (*of_scope(ErasureRow, scope), ErasureRow.at >= moment.timestamp())
        other = select(ErasureRow.id).where(*since, ErasureRow.fact_hash.not_in(list(besides))).limit(1)
        async with self._database.read() as session:
            return await session.scalar(other) is not None

    async def shaping(self, scope: Scope, conversation: str) -> Shaping | None:
        """Return what shaped the last answer in a conversation; None if there is none, or it was forgotten."""
        erased = select(ErasureRow.message_id).where(*of_scope(ErasureRow, scope), ErasureRow.message_id.is_not(None))
        answers = (
            select(MessageRow)
            .join(SessionRow, SessionRow.id == MessageRow.session_id)
            .where(*of_scope(SessionRow, scope), SessionRow.conversation == conversation)
            .where(MessageRow.role == "assistant", MessageRow.said != "", MessageRow.id.not_in(erased))
            .order_by(MessageRow.id.desc())
        )
        async with self._database.read() as session:
            last = await session.scalar(answers.limit(1))
            if last is None:
                return None
            turn = (MessageRow.session_id == last.session_id, MessageRow.inbox_id == last.inbox_id)
            lines = (await session.scalars(select(MessageRow).where(*turn).order_by(MessageRow.id))).all()
            is_note = (ShownRow.name.not_like(f"{RULE_PREFIX}%"), ShownRow.message_id != NOT_RECALLED)
            shown = select(ShownRow).where(ShownRow.session_id == last.session_id, *is_note).order_by(ShownRow.name)
            notes = (await session.scalars(shown)).all()
        first = lines[0].id
        return Shaping(
            recalled=tuple(note.name for note in notes if note.message_id == first),
            read=tuple(dict.fromkeys(path for line in lines for path in _read(line.content))),
            earlier=tuple(note.name for note in notes if note.message_id < first),
        )


async def _spoken(
    session: AsyncSession, principal: str, *where: ColumnElement[bool], latest: int | None = None
) -> list[Spoken]:
    said = (
        select(MessageRow, InboxRow.payload)
        .join(SessionRow, SessionRow.id == MessageRow.session_id)
        .outerjoin(InboxRow, InboxRow.id == MessageRow.inbox_id)
        .where(MessageRow.principal == principal, MessageRow.role == "user", MessageRow.said != "", *where)
        .order_by(MessageRow.id.desc())
        .limit(latest)
    )
    return [
        Spoken(
            message_id=row.id,
            account=_account(payload, principal),
            speaker=row.speaker,
            text=row.said,
            at=datetime.fromtimestamp(row.at, UTC),
        )
        for row, payload in reversed((await session.execute(said)).all())
    ]


async def _record(session: AsyncSession, scope: Scope, witness: Witness, heard: Sequence[Spoken]) -> None:
    gone = witness.gone
    rows = await _rows(
        session, scope, {*(fact.hash for fact in (*gone, *witness.added)), *(h for _, h in witness.kept)}
    )
    known = {(row.note, row.fact_hash): row for row in rows}
    kept = {key: known.pop(key) for key in witness.kept if key in known}  # its own: by now it may be known better
    new = {(fact.note, fact.hash): fact for fact in witness.added}
    found = {
        key: _found(fact, witness, heard, known) or (_source(kept[key]) if key in kept else None)
        for key, fact in new.items()
    }
    stale = [known[key].id for key in (*new, *((fact.note, fact.hash) for fact in gone)) if key in known]
    stale += [row.id for row in kept.values()]
    await session.execute(delete(FactRow).where(*of_scope(FactRow, scope), FactRow.id.in_(stale)))
    for key in sorted(found):  # in one order, so that two writers never wait for each other
        if (who := found[key]) is not None:
            await add_missing(session, _row(scope, new[key], who))


def _found(
    fact: Placed, witness: Witness, heard: Sequence[Spoken], known: dict[tuple[str, str], FactRow]
) -> Source | None:
    there = next((row for row in known.values() if row.fact_hash == fact.hash), None)
    if there is not None:  # a copy is its author's, whoever had it made: else two steps would make it somebody else's
        return _source(there)
    stems_from = witness.origin(fact, heard=heard)
    match stems_from:
        case Spoken():
            return source(stems_from)
        case Placed():
            row = known.get((stems_from.note, stems_from.hash))
            return _source(row) if row is not None else None
    return stems_from


async def _rows(session: AsyncSession, scope: Scope, hashes: Iterable[str]) -> list[FactRow]:
    found: list[FactRow] = []
    for wanted in some(sorted(set(hashes))):
        rows = select(FactRow).where(*of_scope(FactRow, scope), FactRow.fact_hash.in_(wanted)).order_by(FactRow.id)
        found += (await session.scalars(rows)).all()
    return found


def _row(scope: Scope, fact: Placed, who: Source) -> FactRow:
    return FactRow(
        principal=scope.principal,
        project=scope.project,
        note=fact.note,
        fact_hash=fact.hash,
        account=who.account,
        speaker=who.speaker,
        message_id=who.message_id,
        said_at=who.at.timestamp(),
    )


def _source(row: FactRow) -> Source:
    at = datetime.fromtimestamp(row.said_at, UTC)
    return Source(account=row.account, speaker=row.speaker, message_id=row.message_id, at=at)


def _account(payload: dict[str, Any] | None, principal: str) -> str:
    if payload is not None:
        return str(Account(**payload["account"]))
    return principal.removeprefix(_PERSON) if principal.startswith(_PERSON) else ""


def _read(content: Sequence[dict[str, Any]]) -> list[str]:
    calls = (block for block in content if block.get("type") == "tool_use" and block.get("name") == "read")
    return [str(call["input"].get("file_path", "")) for call in calls]
