"""The inbox: what people sent, stored before it is acknowledged, worked on in order per conversation.

pending --claim--> claimed --finish--> done
   ^                  |----bury------> dead      (set aside with a word to the person)
   +--retry, amend----+
refused: stored only so that a repeat is recognised; nothing works on it

A further part of a message that waits joins it, and is stored as done at once. An edit changes a message that waits;
one that is being answered is put back with it, and answered anew under the same keys.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

import structlog
from sqlalchemy import and_, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Address, Amended, Inbound
from gateway.db.addresses import within
from gateway.db.engine import Database
from gateway.db.line import Line
from gateway.db.marks import one_by_one
from gateway.db.models import InboxRow, SessionRow
from gateway.db.payloads import wordless
from gateway.inbound_rows import amend, belongs, from_json, is_behind, put_behind, ready_at, take_up, to_json
from gateway.outbox import Outbox, Post
from memory.ports import Clock

log = structlog.get_logger(__name__)

_JOINED = "joined:"  # and the id of the message, in the error of a row that is a part of it


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A message that this worker, and no other, is to answer."""

    id: int
    token: str
    inbound: Inbound
    principal: str
    attempts: int
    stopped: bool
    """The person said /stop, and the process that ran the turn died before it could end it."""
    received_at: float
    behind: bool = False
    """It came while another message of its conversation was open."""


class Standing(StrEnum):
    """What has become of a message."""

    NEXT = "next"
    """It waits, and nothing of its conversation comes before it."""
    BEHIND = "behind"
    BEGUN = "begun"
    OVER = "over"
    """It was answered, taken back, or has joined another one; or it was never stored."""


class Inbox:
    """The line of inbound messages."""

    def __init__(self, database: Database, outbox: Outbox, clock: Clock, *, lease: float) -> None:
        self._database = database
        self._outbox = outbox
        self._clock = clock
        self._lease = lease
        self._line = Line(InboxRow, running="claimed")
        self.arrived = asyncio.Event()

    async def add(
        self, inbound: Inbound, *, principal: str, state: str = "pending", replies: Sequence[Post] = ()
    ) -> bool:
        """Store a message with the replies it causes at once; False, and nothing done, if it was stored before.

        Of one that is refused no word is kept.
        """
        try:
            async with self._database.write() as session:
                if state == "pending":  # two parts that come at once must see each other
                    await one_by_one(session, f"inbox {inbound.address}")
                row = self._row(inbound, principal=principal, state=state)
                session.add(row)
                await session.flush()
                if state == "pending":
                    await self._gather(session, row, inbound)
                await self._outbox.enqueue(session, replies)
        except IntegrityError:
            if await self.knows(inbound):
                return False
            raise
        asyncio.get_running_loop().call_later(max(row.not_before - self._now(), 0.0), self.arrived.set)
        self._outbox.wake()
        return True

    async def _gather(self, session: AsyncSession, row: InboxRow, inbound: Inbound) -> None:
        """Let a message wait if more of it may follow, or join the one that waits for it."""
        now = self._now()
        row.not_before = ready_at(inbound, now=now)
        before = select(InboxRow).where(
            self._line.is_open(InboxRow), InboxRow.conversation == row.conversation, InboxRow.id < row.id
        )
        # Others may speak in between, and between the pictures of an album so may its sender.
        mine = [InboxRow.payload["account"]["user"].as_string() == inbound.account.user]
        if inbound.batch:
            mine.append(InboxRow.payload["batch"].as_string() == inbound.batch)
        head = await session.scalar(before.where(*mine).order_by(InboxRow.id.desc()).limit(1).with_for_update())
        if head is not None and head.state == "pending" and not head.claim and belongs(inbound, head, now=now):
            take_up(head, inbound, now=now)
            row.state, row.payload, row.error = "done", {}, f"{_JOINED}{head.id}"
            row.not_before = head.not_before
        elif head is not None or await session.scalar(before.limit(1)) is not None:
            put_behind(row)

    async def amend(self, amended: Amended) -> str | None:
        """Change a message that waits, or take it away; returns the token of its claim if it is being answered.

        That answer is to be stopped if the message was taken away, and has lost its claim if it was changed: the
        message waits again, without an attempt counted. None if there is nothing to end.
        """
        async with self._database.write() as session:
            row = await self._amendable(session, amended)
            if row is None:
                return None
            claim, claimed = row.claim, row.state == "claimed"
            if amended.text is None and claimed:
                row.stop = True
            elif amended.text is None:
                row.state, row.payload, row.error = "done", {}, "withdrawn"
            elif not amend(row, amended.external_id, amended.text):
                return None
            elif claimed:
                row.state, row.claim, row.attempts, row.not_before = "pending", "", row.attempts - 1, 0.0
        self.arrived.set()
        return claim if claimed else None

    async def _amendable(self, session: AsyncSession, amended: Amended) -> InboxRow | None:
        """Return the open message that an edit is of, by its author; of a part, the message that it has joined."""
        known = (InboxRow.platform == amended.address.platform, InboxRow.external_id == amended.external_id)
        row = await session.scalar(select(InboxRow).where(*known).with_for_update())
        if row is not None and row.error.startswith(_JOINED):
            row = await session.get(InboxRow, int(row.error.removeprefix(_JOINED)), with_for_update=True)
        if row is None or row.state not in ("pending", "claimed"):
            return None
        return row if row.payload["account"] == asdict(amended.account) else None

    async def takes_part(self, address: Address) -> bool:
        """Whether the bot is, or is about to be, part of a conversation: a session is open, or a message waits."""
        open_session = select(SessionRow.id).where(SessionRow.conversation == str(address), ~SessionRow.ended)
        waits = select(InboxRow.id).where(self._line.is_open(InboxRow), InboxRow.conversation == str(address))
        async with self._database.read() as session:
            for found in (open_session, waits):
                if await session.scalar(found.limit(1)) is not None:
                    return True
        return False

    async def standing(self, inbound: Inbound) -> Standing:
        """Return what has become of a message."""
        of = (InboxRow.platform == inbound.address.platform, InboxRow.external_id == inbound.external_id)
        async with self._database.read() as session:
            row = (await session.execute(select(InboxRow.state, InboxRow.claim, InboxRow.payload).where(*of))).first()
        if row is None or row.state not in ("pending", "claimed"):
            return Standing.OVER
        if row.claim:
            return Standing.BEGUN
        return Standing.BEHIND if is_behind(row.payload) else Standing.NEXT

    async def claim(self, platforms: Collection[str]) -> Claim | None:
        """Take the next message of these platforms; None if nobody waits who may be served now."""
        async with self._database.write() as session:
            while row := await self._line.claim(session, platforms=platforms, now=self._now(), lease=self._lease):
                try:
                    return _claim(row)
                except (KeyError, TypeError, ValueError):
                    # Stored by another version of this program: it must not hold up everybody else.
                    log.exception("inbox_row_unreadable", inbox_id=row.id)
                    row.state, row.error = "dead", "unreadable"
                    await session.flush()
            return None

    async def renew(self, claim: Claim) -> bool:
        """Hold the message longer and return whether its person said /stop; raises `ClaimLost`."""
        async with self._database.write() as session:
            await self._line.renew(session, claim.id, claim.token, until=self._now() + self._lease)
            stop = await session.scalar(select(InboxRow.stop).where(InboxRow.id == claim.id))
        return bool(stop)

    async def finish(self, session: AsyncSession, claim: Claim, *, state: str = "done", error: str = "") -> None:
        """Close the message inside the caller's transaction; raises `ClaimLost`, which must roll that back."""
        await self._line.change(session, claim.id, claim.token, state=state, error=error)

    async def retry(
        self, claim: Claim, *, after: float, error: str, attempts: int, replies: Sequence[Post] = ()
    ) -> None:
        """Put the message back for `after` seconds; its conversation waits with it. `attempts` counts from then on."""
        async with self._database.write() as session:
            back = {"state": "pending", "not_before": self._now() + after, "attempts": attempts, "error": error}
            await self._line.change(session, claim.id, claim.token, **back)
            await self._outbox.enqueue(session, replies)
        self._outbox.wake()

    async def bury(self, claim: Claim, *, error: str, replies: Sequence[Post]) -> None:
        """Set the message aside for good, with a word to the person."""
        async with self._database.write() as session:
            await self.finish(session, claim, state="dead", error=error)
            await self._outbox.enqueue(session, replies)
        self._outbox.wake()

    async def add_stop(
        self, inbound: Inbound, *, principal: str, replies: Callable[[bool], Sequence[Post]]
    ) -> str | None:
        """Store a /stop and mark the message that is being answered, in one step; returns the token of its claim.

        A message that was begun and waits for the model counts too. None if there is nothing to stop. A repeat of the
        same /stop does nothing, so that it can't touch the next message.
        """
        begun = or_(InboxRow.state == "claimed", and_(InboxRow.state == "pending", InboxRow.claim != ""))
        mine = (self._line.is_open(InboxRow), InboxRow.conversation == str(inbound.address), begun)
        running = update(InboxRow).where(*mine).values(stop=True, not_before=0.0).returning(InboxRow.claim)
        try:
            async with self._database.write() as session:
                session.add(self._row(inbound, principal=principal, state="done"))
                await session.flush()
                found = await session.scalar(running)
                await self._outbox.enqueue(session, replies(found is not None))
        except IntegrityError:
            if await self.knows(inbound):
                return None
            raise
        self.arrived.set()
        self._outbox.wake()
        return found

    async def move(self, session: AsyncSession, old: Address, new: Address, *, principal: str) -> None:
        """Let what waits in a chat, and the answers that wait, wait in its new place, inside the caller's transaction.

        What is being answered at this moment is left where it is: the platform knows both ids.
        """
        waits = (self._line.is_open(InboxRow), InboxRow.state == "pending")
        for row in (await session.scalars(select(InboxRow).where(*waits, within(InboxRow.conversation, old)))).all():
            address = replace(Address(**row.payload["address"]), chat=new.chat)
            row.payload = row.payload | {"address": asdict(address)}
            row.conversation = str(address)
        early = update(InboxRow).where(*waits, within(InboxRow.conversation, new))
        await session.execute(early.values(principal=principal))
        await self._outbox.move(session, old, new)

    async def take_over(self) -> None:
        """Claim at once what a dead process held: right only where no other process runs on this database."""
        async with self._database.write() as session:
            await self._line.expire_all(session)

    async def knows(self, inbound: Inbound) -> bool:
        """Whether the message has been stored before."""
        known = select(InboxRow.id).where(
            InboxRow.platform == inbound.address.platform, InboxRow.external_id == inbound.external_id
        )
        async with self._database.read() as session:
            return await session.scalar(known) is not None

    def _row(self, inbound: Inbound, *, principal: str, state: str) -> InboxRow:
        return InboxRow(
            platform=inbound.address.platform,
            external_id=inbound.external_id,
            principal=principal,
            conversation=str(inbound.address),
            payload=wordless(to_json(inbound)) if state == "refused" else to_json(inbound),
            state=state,
            attempts=0,
            not_before=0.0,
            claim="",
            claimed_until=0.0,
            stop=False,
            error="",
            received_at=self._now(),
        )

    def _now(self) -> float:
        return self._clock().timestamp()


def _claim(row: InboxRow) -> Claim:
    return Claim(
        id=row.id,
        token=row.claim,
        inbound=from_json(row.payload),
        principal=row.principal,
        attempts=row.attempts,
        stopped=row.stop,
        received_at=row.received_at,
        behind=is_behind(row.payload),
    )
