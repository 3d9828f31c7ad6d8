"""What waits for a person's word before it is shared with a team.

    draft --settle--> pending --close--> published | discarded | dead
                       claim: confirmed, and being written; no longer to be discarded
      ^ one per file     `--a newer change of the file--> replaced

A draft is stored with the tool call that makes it. When its run ends it gets a number, in the transaction that puts
the question to the person. A number stands for one change for good: nobody says yes to what they have not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account
from gateway.db.engine import Database
from gateway.db.marks import in_line
from gateway.db.models import MessageRow
from gateway.db.staged import OPEN, SHARING, close
from gateway.db.team_models import StagedRow
from memory.errors import WriteRefused
from memory.index import is_index, lines_of, pointers, rewritten, with_pointer, without
from memory.ports import Clock
from memory.scope import Scope
from memory.team.local import why_not_kept
from memory.team_notes import hash_of

KEPT_DAYS = 30
"""How long a change waits, and how long it is known what became of it."""
_LEFT_BEHIND = 3600.0  # a draft of a run that came to no end is taken up by the next one


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """One change: `text` is what the file is to hold, None to delete it; `base` what it held, None for no file."""

    number: int
    state: str
    name: str
    text: str | None
    base: str | None
    replaces: str
    pointer: str
    account: str
    speaker: str
    conversation: str
    message_id: int | None
    at: float
    outcome: str

    @property
    def is_index(self) -> bool:
        """Whether it is of an index, and not of a note."""
        return is_index(self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Which run stages, for whom: the person, where they talk, and what they said."""

    run: str
    conversation: str
    account: Account
    speaker: str
    inbox_id: int | None = None
    message_id: int | None = None


class Staging:
    """The rows of what waits. Everything is within one memory: a person's, in one project."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def shelf(self, scope: Scope, origin: Origin) -> "RunShelf":
        """Return where one run puts its changes."""
        return RunShelf(self._database, self._clock, scope, origin)

    async def has_drafts(self, session: AsyncSession, scope: Scope) -> bool:
        """Return whether there is anything to settle: of this run or of one that came to no end."""
        drafts = select(StagedRow.id).where(*_of(scope), StagedRow.state == "draft").limit(1)
        return await session.scalar(drafts) is not None

    async def settle(self, session: AsyncSession, scope: Scope, run: str) -> list[Staged]:
        """Number what a run has staged, inside the caller's transaction, and return it: to be shown, and asked of."""
        await in_line(session, scope.principal, scope.project)
        rows = await _open(session, scope)
        stale = self._now() - _LEFT_BEHIND
        mine = [row for row in rows if row.state == "draft" and (row.run == run or row.staged_at < stale)]
        for index in [row for row in mine if is_index(row.name)]:
            mine += await _share_out(session, index, rows)
        asked = [await self._numbered(session, scope, row) for row in mine if not await _is_void(session, row, rows)]
        await session.flush()
        return sorted(map(_staged, asked), key=lambda each: each.number)

    async def _numbered(self, session: AsyncSession, scope: Scope, row: StagedRow) -> StagedRow:
        last = await session.scalar(select(func.max(StagedRow.number)).where(*_of(scope))) or 0
        row.number = last + 1
        older = await session.scalar(
            select(StagedRow).where(*_of(scope), StagedRow.name == row.name, StagedRow.state == "pending")
        )
        if older is not None:
            close(older, "replaced", f"number {row.number} has taken its place")
            await session.flush()  # before the other is pending: there is only ever one
        row.state = "pending"
        if row.message_id is None and row.inbox_id is not None:
            said = select(MessageRow.id).where(MessageRow.inbox_id == row.inbox_id, MessageRow.role == "user")
            row.message_id = await session.scalar(said.order_by(MessageRow.id).limit(1))
        await session.flush()
        return row

    async def pending(self, scope: Scope) -> list[Staged]:
        """Return what the person was asked of and has not answered, by number."""
        waits = (*_of(scope), StagedRow.state == "pending", StagedRow.staged_at > self._expired())
        async with self._database.read() as session:
            rows = await session.scalars(select(StagedRow).where(*waits).order_by(StagedRow.number))
            return [_staged(row) for row in rows]

    async def all_for(self, scope: Scope, run: str) -> list[int]:
        """Return the numbers of all that waits when a turn first asks for it, whatever has become of it since.

        A turn that is run again after a crash so means what it meant, and no more: what it has done already is told,
        and what took a change's place meanwhile, which nobody has seen, is not answered with it.
        """
        settled = (*_of(scope), StagedRow.run == run, StagedRow.number > 0)
        waits = (*_of(scope), StagedRow.state == "pending", StagedRow.staged_at > self._expired())
        async with self._database.write() as session:
            await in_line(session, scope.principal, scope.project)
            numbers = (await session.scalars(select(StagedRow.number).where(*settled))).all()
            if not numbers:
                rows = (await session.scalars(select(StagedRow).where(*waits))).all()
                for row in rows:
                    row.run = run
                numbers = [row.number for row in rows]
        return sorted(numbers)

    async def of(self, scope: Scope, number: int) -> Staged | None:
        """Return the change with this number, whatever became of it; None if there is none."""
        this = (*_of(scope), StagedRow.number == number, StagedRow.number > 0)
        async with self._database.read() as session:
            row = await session.scalar(select(StagedRow).where(*this, StagedRow.staged_at > self._expired()))
            return _staged(row) if row is not None else None

    async def close(self, scope: Scope, number: int, state: str, outcome: str) -> bool:
        """Note what became of a change that waited; False if it did not wait any more. Its texts are kept no longer."""
        async with self._database.write() as session:
            row = await self._waiting(session, scope, number)
            if row is None:
                return False
            close(row, state, outcome)
            return True

    async def claim(self, scope: Scope, number: int) -> Staged | None:
        """Note before returning that a change is being shared, and return it; None if it waits no more.

        It may be claimed again: whoever did so first may have been stopped.
        """
        async with self._database.write() as session:
            row = await self._waiting(session, scope, number)
            if row is None or row.staged_at <= self._expired():
                return None
            row.outcome = SHARING
            return _staged(row)

    async def release(self, scope: Scope, number: int) -> None:
        """Let a change that was claimed wait as before: nothing of it was shared."""
        async with self._database.write() as session:
            row = await self._waiting(session, scope, number)
            if row is not None:
                row.outcome = ""

    async def discard(self, scope: Scope, number: int, outcome: str) -> bool:
        """Drop a change that waits and that nobody has claimed, and return whether it was one."""
        async with self._database.write() as session:
            row = await self._waiting(session, scope, number)
            if row is None or row.outcome:
                return False
            close(row, "discarded", outcome)
            return True

    async def renew(
        self, scope: Scope, number: int, *, text: str | None, base: str | None, pointer: str
    ) -> Staged | None:
        """Give a change that waits a new text on a new base, and with that a new number; None if it waits no more."""
        async with self._database.write() as session:
            row = await self._waiting(session, scope, number)
            if row is None:
                return None
            newer = _copy(row)
            newer.run = ""
            newer.body, newer.base, newer.replaces, newer.pointer = text, base, hash_of(base), pointer
            session.add(newer)
            return _staged(await self._numbered(session, scope, newer))

    async def _waiting(self, session: AsyncSession, scope: Scope, number: int) -> StagedRow | None:
        await in_line(session, scope.principal, scope.project)
        this = (*_of(scope), StagedRow.number == number, StagedRow.state == "pending")
        return await session.scalar(select(StagedRow).where(*this))

    def _expired(self) -> float:
        return self._now() - KEPT_DAYS * 86_400.0

    def _now(self) -> float:
        return self._clock().timestamp()


class RunShelf:
    """Where one run puts its changes; a `memory.team_notes.Shelf`."""

    def __init__(self, database: Database, clock: Clock, scope: Scope, origin: Origin) -> None:
        self._database = database
        self._clock = clock
        self._scope = scope
        self._origin = origin

    async def view(self, name: str, present: str | None) -> str | None:
        """Return the text that a file would have if all that waits were done; None: there would be none."""
        async with self._database.read() as session:
            rows = await _open(session, self._scope)
        own = _newest(rows, name)
        text = own.body if own is not None else present
        if not is_index(name):
            return text
        for row in rows:
            if row is _newest(rows, row.name) and _beside(row.name, name):
                text = _with_line(text, row, _target(row.name, name))
        return text

    async def put(self, name: str, text: str | None, *, present: str | None) -> None:
        """Keep a change before returning; it takes the place of a draft of the same file.

        Raises `WriteRefused` for a name under which nothing ever reaches the others: nobody is asked of that.
        """
        if text is not None and (reason := why_not_kept(name)):
            raise WriteRefused(f"nothing with this name is shared with the team, as {reason}: give it another")
        now = self._clock().timestamp()
        async with self._database.write() as session:
            await in_line(session, self._scope.principal, self._scope.project)
            await session.execute(
                delete(StagedRow).where(*_of(self._scope), StagedRow.staged_at < now - KEPT_DAYS * 86_400.0)
            )
            rows = await _open(session, self._scope)
            before = _newest(rows, name)
            if before is not None and before.state == "pending" and before.body == text:
                return
            draft = before if before is not None and before.state == "draft" else self._draft(name)
            if before is not None and before is not draft:
                draft.base, draft.replaces, draft.pointer = before.base, before.replaces, before.pointer
            elif before is None:
                draft.base, draft.replaces = present, hash_of(present)
            draft.body, draft.run, draft.staged_at = text, self._origin.run, now
            session.add(draft)

    def _draft(self, name: str) -> StagedRow:
        origin = self._origin
        return StagedRow(
            principal=self._scope.principal,
            project=self._scope.project,
            number=0,
            state="draft",
            run=origin.run,
            conversation=origin.conversation,
            name=name,
            body=None,
            base=None,
            replaces="",
            pointer="",
            account=str(origin.account),
            speaker=origin.speaker,
            inbox_id=origin.inbox_id,
            message_id=origin.message_id,
            outcome="",
            staged_at=0.0,
        )


def _with_line(index: str | None, row: StagedRow, file: str) -> str | None:
    """Return an index as it would be once a note is what was staged."""
    if row.body is None:
        return without(index, lambda _, target: target == file) if index is not None else None
    return with_pointer(index or "", row.pointer, file) if row.pointer else index


async def _share_out(session: AsyncSession, index: StagedRow, rows: list[StagedRow]) -> list[StagedRow]:
    """Give each note that waits its line of a staged index, and leave the index what is left of it.

    Returns the drafts that this has made: of notes that the person was asked of already, without this line.
    """
    old, new = ({target: line for line, target in pointers(text or "")} for text in (index.base, index.body))
    made: list[StagedRow] = []
    given: set[str] = set()
    for row in [row for row in rows if _beside(row.name, index.name) and row is _newest(rows, row.name)]:
        target = _target(row.name, index.name)
        if row.body is None or target not in new or new[target] == old.get(target):
            given |= {target} if row.body is None else set()
            continue
        given.add(target)
        if row.pointer == new[target]:
            continue
        if row.state == "pending":
            row = _copy(row)  # noqa: PLW2901  (what the person was shown stays as it is)
            row.run = index.run
            session.add(row)
            rows.append(row)
            made.append(row)
        row.pointer = new[target]
    rest = rewritten(index.body or "", lambda line, target: old.get(target) if target in given else line)
    for target in given & (old.keys() - new.keys()):
        rest = with_pointer(rest, old[target], target)
    index.body = index.base if _same_lines(rest, index.base or "") else rest
    return made


async def _is_void(session: AsyncSession, row: StagedRow, rows: Sequence[StagedRow]) -> bool:
    """Drop a draft that changes nothing, with what waited for the same file: it was taken back."""
    if hash_of(row.body) != row.replaces or (row.pointer and row.body is not None):
        return False
    for each in rows:
        if each.name == row.name and each is not row:
            close(each, "discarded", "it was taken back")
    await session.delete(row)
    return True


async def _open(session: AsyncSession, scope: Scope) -> list[StagedRow]:
    waits = select(StagedRow).where(*_of(scope), StagedRow.state.in_(OPEN)).order_by(StagedRow.id)
    return list((await session.scalars(waits)).all())


def _newest(rows: Sequence[StagedRow], name: str) -> StagedRow | None:
    same = [row for row in rows if row.name == name and row.state in OPEN]
    return max(same, key=lambda row: row.state == "draft") if same else None


def _copy(row: StagedRow) -> StagedRow:
    same = {column.key: getattr(row, column.key) for column in StagedRow.__table__.columns if column.key != "id"}
    return StagedRow(**same | {"state": "draft", "number": 0, "outcome": ""})


def _staged(row: StagedRow) -> Staged:
    return Staged(
        number=row.number,
        state=row.state,
        name=row.name,
        text=row.body,
        base=row.base,
        replaces=row.replaces,
        pointer=row.pointer,
        account=row.account,
        speaker=row.speaker,
        conversation=row.conversation,
        message_id=row.message_id,
        at=row.staged_at,
        outcome=row.outcome,
    )


def _of(scope: Scope) -> tuple[ColumnElement[bool], ...]:
    return StagedRow.principal == scope.principal, StagedRow.project == scope.project


def _beside(name: str, index: str) -> bool:
    """Whether it is a note that this index may have a line for."""
    return not is_index(name) and PurePosixPath(name).is_relative_to(PurePosixPath(index).parent)


def _target(name: str, index: str) -> str:
    return PurePosixPath(name).relative_to(PurePosixPath(index).parent).as_posix()


def _same_lines(one: str, other: str) -> bool:
    return sorted(filter(None, lines_of(one))) == sorted(filter(None, lines_of(other)))
