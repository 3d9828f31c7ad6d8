"""What was said, read backwards and by the day: the transcripts as the works of the night ask for them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, exists, select

from gateway.db.engine import Database
from gateway.db.models import ErasureRow, IgnoredRow, MessageRow, SessionRow
from gateway.db.rows import of_scope
from memory.ports import Clock, Said
from memory.scope import Scope

_SITTING = timedelta(hours=1)  # memory specification, section 0: a sitting ends with an hour's silence


class Transcripts:
    """The stored messages of each memory. Implements `memory.ports.History`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def sittings_since(self, scope: Scope, since: datetime, *, enough: int) -> Sequence[datetime]:
        """Return when stretches without an hour's silence ended, per conversation, after `since`; at most `enough`.

        One that still goes on does not count: whoever is in the middle of a talk is not to be dreamt about yet.

        Reads from the newest message backwards, no further than it has to.
        """
        times = (
            select(SessionRow.conversation, MessageRow.at)
            .join(SessionRow, MessageRow.session_id == SessionRow.id)
            .where(*of_scope(SessionRow, scope))
            .where(MessageRow.principal == scope.principal)
            .where(MessageRow.said != "", MessageRow.at > since.timestamp())
            .order_by(MessageRow.at.desc())
        )
        ends: list[float] = []
        going_on = (self._clock() - _SITTING).timestamp()
        began: dict[str, float] = {}  # of the sitting that is being read, per conversation
        async with self._database.read() as session, (await session.connection()).stream(times) as rows:
            while len(ends) < enough and (row := await rows.fetchone()) is not None:
                conversation, at = row
                after = began.get(conversation)
                if at <= going_on if after is None else after - at > _SITTING.total_seconds():
                    ends.append(at)
                began[conversation] = at
        return [datetime.fromtimestamp(at, UTC) for at in ends]

    async def said_between(self, scope: Scope, start: datetime, end: datetime) -> Sequence[Said]:
        """Return what people and the bot said in [start, end) in this scope, oldest first, and was not forgotten.

        Nothing of it was said while memory is left aside in its conversation.
        """
        said = (
            select(MessageRow)
            .join(SessionRow, MessageRow.session_id == SessionRow.id)
            .where(*_remembered(scope), MessageRow.at >= start.timestamp(), MessageRow.at < end.timestamp())
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

    async def unseen(self, scope: Scope, since: datetime) -> datetime | None:
        """Return when the first was said in this scope, from `since` on, that no extraction has looked at."""
        first = (
            select(MessageRow.at)
            .join(SessionRow, MessageRow.session_id == SessionRow.id)
            .where(*_remembered(scope), MessageRow.at >= since.timestamp(), MessageRow.id > SessionRow.extracted_to)
            .order_by(MessageRow.at)
        )
        async with self._database.read() as session:
            at = await session.scalar(first.limit(1))
        return None if at is None else datetime.fromtimestamp(at, UTC)

    async def extracted_between(self, scope: Scope, start: datetime, end: datetime) -> frozenset[int]:
        """Return the ids of what was said in [start, end) in this scope and extraction has looked at."""
        extracted = (
            select(MessageRow.id)
            .join(SessionRow, MessageRow.session_id == SessionRow.id)
            .where(*of_scope(SessionRow, scope))
            .where(MessageRow.principal == scope.principal, MessageRow.id <= SessionRow.extracted_to)
            .where(MessageRow.said != "", MessageRow.at >= start.timestamp(), MessageRow.at < end.timestamp())
        )
        async with self._database.read() as session:
            return frozenset((await session.scalars(extracted)).all())

    async def latest_conversation(self, scope: Scope) -> str | None:
        """Return where this scope was last talked to, for notices."""
        latest = select(SessionRow.conversation).where(*of_scope(SessionRow, scope)).order_by(SessionRow.last_at.desc())
        async with self._database.read() as session:
            return await session.scalar(latest.limit(1))


def _remembered(scope: Scope) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions by which a message, joined with its session, is one that this memory may hold."""
    forgotten = select(ErasureRow.message_id).where(*of_scope(ErasureRow, scope), ErasureRow.message_id.is_not(None))
    aside = exists().where(
        IgnoredRow.conversation == SessionRow.conversation,
        IgnoredRow.principal == SessionRow.principal,
        IgnoredRow.since <= SessionRow.started_at,
    )
    mine = *of_scope(SessionRow, scope), MessageRow.principal == scope.principal
    return *mine, MessageRow.said != "", MessageRow.id.not_in(forgotten), ~aside
