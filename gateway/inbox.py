"""The inbox: what people sent, stored before it is acknowledged, worked on in order per conversation.

pending --claim--> claimed --finish--> done
   ^                  |----bury------> dead      (set aside with a word to the person)
   +------retry-------+
refused: stored only so that a repeat is recognised; nothing works on it
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import and_, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account, Address, ChatKind, Inbound
from gateway.db.addresses import within
from gateway.db.engine import Database
from gateway.db.line import Line
from gateway.db.models import InboxRow
from gateway.outbox import Outbox, Post
from memory.ports import Clock

log = structlog.get_logger(__name__)


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
        """Store a message with the replies it causes at once; False, and nothing done, if it was stored before."""
        try:
            async with self._database.write() as session:
                session.add(self._row(inbound, principal=principal, state=state))
                await session.flush()
                await self._outbox.enqueue(session, replies)
        except IntegrityError:
            if await self.knows(inbound):
                return False
            raise
        self.arrived.set()
        self._outbox.wake()
        return True

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
            payload=_to_json(inbound),
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
        inbound=_from_json(row.payload),
        principal=row.principal,
        attempts=row.attempts,
        stopped=row.stop,
        received_at=row.received_at,
    )


def _to_json(inbound: Inbound) -> dict[str, Any]:
    return asdict(inbound) | {"kind": inbound.kind.value, "sent_at": inbound.sent_at.timestamp()}


def _from_json(payload: dict[str, Any]) -> Inbound:
    return Inbound(
        **payload
        | {
            "address": Address(**payload["address"]),
            "account": Account(**payload["account"]),
            "kind": ChatKind(payload["kind"]),
            "sent_at": datetime.fromtimestamp(payload["sent_at"], UTC),
            "attachments": tuple(payload["attachments"]),
        }
    )
