"""The outbox: everything that is posted, delivered in order per conversation, once.

    pending --claim--> sending --sent--> sent
       ^                  |---dead-----> dead     (refused for good, or too old)
       +------retry-------+
    live: the message in which an answer is being shown; `enqueue` under its key makes it pending with the final part

A row may hold Markdown, and the buttons below it, instead of a part. It is rendered when it is delivered, and stays
first in its line, pending again after each part, until its last one is sent.

`unsure` is set before a request goes out and cleared when its outcome is known. A row that is found unsure is looked
for first, where the platform can tell; where it can't, the part is posted again with a label that says so.
"""

import asyncio
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account, Adapter, Address, Button, Inbound, Outbound
from adapters.errors import AdapterError, Misconfigured, Permanent, Transient
from gateway.consumer import Consumer
from gateway.db.addresses import moved, within
from gateway.db.engine import Database
from gateway.db.line import Line
from gateway.db.marks import answers_cleared
from gateway.db.models import OutboxRow
from gateway.db.rows import add_missing
from gateway.errors import ClaimLost
from memory.ports import Clock

log = structlog.get_logger(__name__)

MAYBE_TWICE = "↻ This may reach you twice: the first attempt was interrupted."
_LEASE_SECONDS = 90.0  # longer than any adapter waits for its platform
_LONGEST_BACKOFF = 300.0
_MAX_AGE_SECONDS = 24 * 3600.0  # an answer older than a day puzzles more than it helps


@dataclass(frozen=True, kw_only=True, slots=True)
class Post:
    """One part that is to be posted. The same `key` again replaces the part, it never posts a second time.

    With `message_id` it takes the place of what that message shows; with `only_for` nobody else is to see it.
    """

    key: str
    principal: str
    address: Address
    part: Mapping[str, Any]
    reply_to: str = ""
    message_id: str = ""
    only_for: Account | None = None


def posts_for(
    inbound: Inbound,
    parts: Iterable[Mapping[str, Any]],
    *,
    key: str,
    principal: str,
    reply_to: str = "",
    message_id: str = "",
) -> list[Post]:
    """Return the rendered parts of what a message causes as posts, for those who may see it: `key:0`, `key:1`, …

    The first of them answers `reply_to` and takes the place of `message_id`.
    """
    return [
        Post(
            key=f"{key}:{number}",
            principal=principal,
            address=inbound.address,
            part=part,
            reply_to="" if number else reply_to,
            message_id="" if number else message_id,
            only_for=inbound.account if inbound.only_for_sender else None,
        )
        for number, part in enumerate(parts)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rendered:
    """What of a row is to be posted now; `rest` is what stays in it after that."""

    key: str
    part: Mapping[str, Any]
    rest: Mapping[str, Any] | None = None


_MARKDOWN, _BUTTONS, _NEXT = "unrendered", "below", "next"  # what a part holds until its Markdown is rendered


def unrendered(markdown: str, buttons: Sequence[Button] = ()) -> Mapping[str, Any]:
    """Return what stands for the parts of a Markdown text, with buttons, until an adapter renders it."""
    below = {_BUTTONS: [asdict(each) for each in buttons]} if buttons else {}
    return {_MARKDOWN: markdown, _NEXT: 0, **below}


class Outbox:
    """The line of outbound parts."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._line = Line(OutboxRow, running="sending")
        self._arrived = asyncio.Event()
        self._consumer: Consumer[OutboxRow] | None = None
        self._platforms: Collection[str] = ()

    def wake(self) -> None:
        """Look at the line now; called after a transaction with `enqueue` has committed."""
        self._arrived.set()

    def close(self) -> None:
        """End `deliver` once what can be delivered now is delivered."""
        if self._consumer is not None:
            self._consumer.close()

    async def enqueue(self, session: AsyncSession, posts: Sequence[Post]) -> None:
        """Add posts inside the caller's transaction. A key that is known and not live any more is left as it is."""
        for post in posts:
            known = await session.scalar(select(OutboxRow).where(OutboxRow.key == post.key))
            if known is None:
                session.add(self._row(post, state="pending"))
            elif known.state == "live":
                known.part, known.state, known.not_before = dict(post.part), "pending", 0.0
        await session.flush()

    async def send(self, posts: Sequence[Post]) -> None:
        """Add posts in a transaction of their own."""
        async with self._database.write() as session:
            await self.enqueue(session, posts)
        self.wake()

    async def holds_back(self, address: Address) -> bool:
        """Return whether a part waits here that is yet to be posted: what is shown past the line would overtake it."""
        mine = (self._line.is_open(OutboxRow), OutboxRow.conversation == str(address))
        unposted = select(OutboxRow.id).where(*mine, OutboxRow.message_id == "").limit(1)
        async with self._database.read() as session:
            return await session.scalar(unposted) is not None

    async def begin_live(self, post: Post) -> str | None:
        """Note that `post` is about to be shown while it grows.

        Returns None the first time; on a rerun the id of the message that was posted then, empty if that is unknown.
        Not to be called while the conversation `holds_back` what is shown.
        """
        async with self._database.write() as session:
            if await add_missing(session, self._row(post, state="live", unsure=True)):
                return None
            return await session.scalar(select(OutboxRow.message_id).where(OutboxRow.key == post.key))

    async def live_posted(self, key: str, message_id: str) -> None:
        """Keep the id of the message that shows the live answer; empty: it was surely not posted."""
        async with self._database.write() as session:
            live = update(OutboxRow).where(OutboxRow.key == key, OutboxRow.state == "live")
            await session.execute(live.values(message_id=message_id, unsure=False))

    async def move(self, session: AsyncSession, old: Address, new: Address) -> None:
        """Let what waits for a chat wait for its new place, inside the caller's transaction.

        There the platform's message ids mean other messages, so nothing is edited or answered by them any more.
        """
        waits = update(OutboxRow).where(OutboxRow.state.in_(("live", "pending")), within(OutboxRow.conversation, old))
        there = moved(OutboxRow.conversation, old, new)
        await session.execute(waits.values(conversation=there, message_id="", reply_to=""))

    async def take_over(self) -> None:
        """Claim at once what a dead process held: right only where no other process runs on this database."""
        async with self._database.write() as session:
            await self._line.expire_all(session)

    async def oldest_waiting(self) -> float | None:
        """Return when the oldest part that is still to be delivered was made (Unix seconds); None if there is none."""
        waits = (self._line.is_open(OutboxRow), OutboxRow.platform.in_(sorted(self._platforms)))
        async with self._database.read() as session:
            return await session.scalar(select(func.min(OutboxRow.created_at)).where(*waits))

    async def deliver(self, adapters: Mapping[str, Adapter], *, concurrency: int = 16) -> None:
        """Deliver until `close`; conversations in parallel, each in its order.

        What is for a platform that is not among `adapters` waits until it is on again, or too old.
        """
        self._platforms = frozenset(adapters)
        self._consumer = Consumer(
            self._claim,
            lambda row: self._deliver_one(row, adapters[row.platform]),
            arrived=self._arrived,
            concurrency=concurrency,
        )
        await self._consumer.run()

    async def _claim(self) -> OutboxRow | None:
        async with self._database.write() as session:
            row = await self._line.claim(session, platforms=self._platforms, now=self._now(), lease=_LEASE_SECONDS)
            if row is None:
                return None
            session.expunge(row)
            await session.execute(update(OutboxRow).where(OutboxRow.id == row.id).values(unsure=not row.message_id))
            return row  # still says whether it was unsure before this attempt

    async def _deliver_one(self, row: OutboxRow, adapter: Adapter) -> None:
        try:
            if self._now() - row.created_at > _MAX_AGE_SECONDS:
                await self._bury(row, "too old")
                return
            rendered = await _rendered(row, adapter)
            message_id = await self._post(row, adapter, rendered)
            if rendered.rest is not None:
                await self._change(row, state="pending", part=dict(rendered.rest), unsure=False, attempts=0)
                return
            await self._change(row, state="sent", message_id=message_id, unsure=False, sent_at=self._now(), error="")
        except Transient as error:
            await self._again(row, error, after=error.retry_after, unsure=row.unsure)
        except Misconfigured as error:  # credentials that went bad: the operator can still mend them
            await self._again(row, error, after=None, unsure=row.unsure)
        except Permanent as error:
            await self._bury(row, str(error))
        except ClaimLost:
            log.warning("outbox_claim_lost", outbox_id=row.id)
        except AdapterError as error:
            await self._again(row, error, after=None, unsure=True)
        except Exception as error:  # edge: one row must not end delivery for all
            log.exception("outbox_fault", outbox_id=row.id)
            await self._again(row, error, after=None, unsure=True)

    async def _post(self, row: OutboxRow, adapter: Adapter, rendered: _Rendered) -> str:
        post = Outbound(
            address=Address.parse(row.conversation),
            key=rendered.key,
            part=rendered.part,
            reply_to=row.reply_to,
            message_id=row.message_id,
            only_for=Account.parse(row.only_for) if row.only_for else None,
        )
        if not row.unsure or post.message_id:
            return await adapter.deliver(post)
        if not adapter.capabilities.can_find:
            labelled = adapter.labelled(post.part, MAYBE_TWICE)
            return await adapter.deliver(replace(post, part=labelled))
        found = await adapter.find(post, since=datetime.fromtimestamp(row.created_at, UTC))
        return await adapter.deliver(replace(post, message_id=found or ""))

    async def _again(self, row: OutboxRow, error: Exception, *, after: float | None, unsure: bool) -> None:
        backoff = min(2.0 ** min(row.attempts, 10), _LONGEST_BACKOFF) * random.uniform(0.5, 1.0)  # noqa: S311
        delay = after if after is not None else backoff
        log.warning("outbox_retry", outbox_id=row.id, platform=row.platform, after=round(delay, 1), error=error)
        with suppress(ClaimLost):
            await self._change(row, state="pending", not_before=self._now() + delay, unsure=unsure, error=str(error))

    async def _bury(self, row: OutboxRow, reason: str) -> None:
        log.error("outbox_dead", outbox_id=row.id, platform=row.platform, reason=reason)
        with suppress(ClaimLost):
            await self._change(row, state="dead", error=reason)

    async def _change(self, row: OutboxRow, **values: object) -> None:
        async with self._database.write() as session:
            if values["state"] in ("sent", "dead") and await answers_cleared(session, row.key):
                values["part"] = {}  # something was forgotten while it was answered, which the answer may tell
            await self._line.change(session, row.id, row.claim, **values)

    def _row(self, post: Post, *, state: str, unsure: bool = False) -> OutboxRow:
        return OutboxRow(
            key=post.key,
            principal=post.principal,
            platform=post.address.platform,
            conversation=str(post.address),
            part=dict(post.part),
            only_for=str(post.only_for or ""),
            reply_to=post.reply_to,
            message_id=post.message_id,
            state=state,
            unsure=unsure,
            attempts=0,
            not_before=0.0,
            claim="",
            claimed_until=0.0,
            error="",
            created_at=self._now(),
            sent_at=0.0,
        )

    def _now(self) -> float:
        return self._clock().timestamp()


async def _rendered(row: OutboxRow, adapter: Adapter) -> _Rendered:
    if _MARKDOWN not in row.part:
        return _Rendered(key=row.key, part=row.part)
    number = row.part[_NEXT]
    buttons = [Button(**each) for each in row.part.get(_BUTTONS, ())]
    # A long one would hold up all others.
    parts = await asyncio.to_thread(adapter.render, row.part[_MARKDOWN], buttons=buttons)
    rest = {**row.part, _NEXT: number + 1} if number + 1 < len(parts) else None
    return _Rendered(key=f"{row.key}:{number}", part=parts[number], rest=rest)
