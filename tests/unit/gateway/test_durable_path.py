"""The line from inbox to outbox, cut off again and again at moments that nobody chose, and with two replicas on it."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from adapters.base import Account, Inbound, Outbound
from adapters.doubles import RecordingAdapter
from gateway.agent.events import TextSoFar
from gateway.db.engine import Database, connect
from gateway.db.models import InboxRow, OutboxRow
from gateway.inbox import Claim, Inbox
from gateway.outbox import Outbox, Post
from gateway.reply import live_reply
from gateway.worker import Worker
from tests.waiting import until

QUICK = (".1", ".3")
"""How messages end that are answered before anything of the answer would be shown: the outbox alone posts it."""


class SlowAdapter(RecordingAdapter):
    """A platform that takes its time before and after it has acted, so that a cut can fall on either side.

    `acts` counts what it was asked to do: a cut is set by it, not by a clock, and falls early on a fast machine too.
    """

    acts = 0

    async def deliver(self, post: Outbound) -> str:
        self.acts += 1
        await asyncio.sleep(0.002)
        message_id = await super().deliver(post)
        await asyncio.sleep(0.002)
        return message_id

    async def open_live(self, *args: Any, **kwargs: Any) -> Any:
        self.acts += 1
        await asyncio.sleep(0.002)
        live = await super().open_live(*args, **kwargs)
        await asyncio.sleep(0.002)
        return live


class EchoTurns:
    """Turns that show the answer while it grows, then store it: what `gateway.turn` does, without a model."""

    def __init__(self, database: Database, inbox: Inbox, outbox: Outbox, adapter: RecordingAdapter) -> None:
        self.adapters = {"telegram": adapter}
        self._database = database
        self._inbox = inbox
        self._outbox = outbox

    async def run(self, claim: Claim) -> None:
        adapter = self.adapters["telegram"]
        recipient = Account(platform="telegram", user="42")
        async with live_reply(adapter, self._outbox, self.posts(claim, "…")[0], recipient) as reply:
            if not claim.inbound.text.endswith(QUICK):
                await reply.show(TextSoFar(text="growing"))
            await asyncio.sleep(0.003)
        async with self._database.write() as session:
            await self._inbox.finish(session, claim)
            await self._outbox.enqueue(session, self.posts(claim, f"re {claim.inbound.text}"))
        self._outbox.wake()

    def posts(self, claim: Claim, markdown: str, *, kind: str = "") -> list[Post]:
        address = claim.inbound.address
        return [Post(key=f"{claim.id}{kind}:0", principal="p", address=address, part={"text": markdown})]


async def done(database: Database) -> bool:
    async with database.read() as session:
        waits = await session.scalar(select(InboxRow.id).where(InboxRow.state.in_(("pending", "claimed"))).limit(1))
        posts = await session.scalar(select(OutboxRow.id).where(OutboxRow.state != "sent").limit(1))
    return waits is None and posts is None


@pytest.fixture(autouse=True)
def _shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.reply._STAYS_AFTER", 0.0)


async def ask(inbox: Inbox, said: Callable[..., Inbound], *, times: int) -> dict[str, list[str]]:
    """Store this many messages in each of three chats; return what each chat is to show."""
    for number in range(times):
        for chat in "012":
            await inbox.add(said(f"{chat}.{number}", chat=chat), principal="p")
    return {chat: [f"re {chat}.{number}" for number in range(times)] for chat in "012"}


def seen(adapter: RecordingAdapter) -> dict[str, list[str]]:
    return {chat: [one.text for one in adapter.shown.values() if one.address.chat == chat] for chat in "012"}


def begin(database: Database, adapter: RecordingAdapter, now: Any) -> list["asyncio.Task[None]"]:
    """Start a process's worker and delivery."""
    outbox = Outbox(database, now)
    inbox = Inbox(database, outbox, now, lease=30.0)
    turns = EchoTurns(database, inbox, outbox, adapter)
    worker = Worker(inbox, turns, now, concurrency=3, patience=60.0)
    return [asyncio.create_task(worker.run()), asyncio.create_task(outbox.deliver(turns.adapters))]


async def end(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.parametrize("seed", range(6))
async def test_whenever_it_is_cut_off_each_message_is_answered_once_and_in_order(
    *, database: Database, inbox: Inbox, said: Callable[..., Inbound], now: Any, seed: int
) -> None:
    chance = random.Random(seed)
    adapter = SlowAdapter(can_find=True)
    expected = await ask(inbox, said, times=3)
    lives = 0
    while not await done(database):
        lives += 1
        assert lives < 200
        tasks = begin(database, adapter, now)
        last = adapter.acts + chance.randint(1, 3 + lives)  # more each time, so that it comes to an end
        for _ in range(500):  # no longer: on PostgreSQL a claim that was cut off may still be stored, and holds all up
            if adapter.acts >= last or await done(database):
                break
            await asyncio.sleep(0.001)
        await asyncio.sleep(chance.uniform(0.0, 0.006))
        await end(tasks)
        now.forward(400)  # the leases of the dead run out
    assert seen(adapter) == expected
    assert lives > 1


async def test_two_replicas_answer_each_message_once_and_in_order(
    *, database: Database, database_url: str, inbox: Inbox, said: Callable[..., Inbound], now: Any
) -> None:
    adapter = SlowAdapter()
    expected = await ask(inbox, said, times=5)
    other = connect(database_url)
    tasks = begin(database, adapter, now) + begin(other, adapter, now)
    try:
        await until(lambda: done(database))
    finally:
        await end(tasks)
        await other.engine.dispose()
    assert seen(adapter) == expected
