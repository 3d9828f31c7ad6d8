import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import select

from adapters.base import Inbound
from adapters.doubles import RecordingAdapter
from gateway.db.engine import Database
from gateway.db.models import InboxRow, OutboxRow
from gateway.errors import ModelRefused, ModelUnavailable
from gateway.inbox import Claim, Inbox
from gateway.outbox import Outbox, Post
from gateway.turn import STOP
from gateway.worker import Worker
from tests.waiting import HANGS, until

Say = Callable[..., Inbound]
Act = Callable[[Claim], Awaitable[None]]


class ScriptedTurns:
    """Turns that do what the script says, one entry per run, then answer with the message's own words."""

    def __init__(self, database: Database, inbox: Inbox, outbox: Outbox) -> None:
        self.adapters = {"telegram": RecordingAdapter()}
        self.script: list[Act] = []
        self.seen: list[str] = []
        self.running = 0
        self.idle = asyncio.Event()
        self.most = 0
        self._database = database
        self._inbox = inbox
        self._outbox = outbox

    async def run(self, claim: Claim) -> None:
        if claim.stopped:
            await self._inbox.bury(claim, error=STOP, replies=[])
            return
        self.seen.append(claim.inbound.text)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.script:
                await self.script.pop(0)(claim)
            await asyncio.sleep(0)
        finally:
            self.running -= 1
            self.idle.set()
        async with self._database.write() as session:
            await self._inbox.finish(session, claim)
            await self._outbox.enqueue(session, self.posts(claim, claim.inbound.text))

    def posts(self, claim: Claim, markdown: str, *, kind: str = "") -> list[Post]:
        key = f"{claim.id}{kind and '-' + kind}:0"
        address = claim.inbound.address
        return [Post(key=key, principal=claim.principal, address=address, part={"text": markdown})]


def fail(error: Exception) -> Act:
    async def act(_: Claim) -> None:
        raise error

    return act


class Held:
    """A turn that begins and then waits; `before` is set when it has begun, `go` lets it end."""

    def __init__(self) -> None:
        self.before = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, _: Claim) -> None:
        self.before.set()
        await self.go.wait()


@pytest.fixture
def turns(database: Database, inbox: Inbox, outbox: Outbox) -> ScriptedTurns:
    return ScriptedTurns(database, inbox, outbox)


@pytest.fixture
def worker(inbox: Inbox, turns: ScriptedTurns, now: Any) -> Worker:
    return Worker(inbox, turns, now, concurrency=4, patience=600.0, beat=0.05)


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.close()
        async with asyncio.timeout(HANGS):
            await task


async def rows(database: Database) -> Sequence[InboxRow]:
    async with database.read() as session:
        return (await session.scalars(select(InboxRow).order_by(InboxRow.id))).all()


async def told(database: Database) -> list[str]:
    async with database.read() as session:
        return [row.part["text"] for row in (await session.scalars(select(OutboxRow).order_by(OutboxRow.id))).all()]


async def until_states(database: Database, *states: str, error: str = "") -> None:
    async def holds() -> bool:
        found = await rows(database)
        return [row.state for row in found] == [*states] and error in [row.error for row in found] + [""]

    await until(holds)


async def ran(turns: ScriptedTurns, times: int) -> None:
    await until(lambda: len(turns.seen) >= times)


async def test_every_message_is_answered_once_in_its_conversations_order(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    for number in range(6):
        await inbox.add(said(f"m{number}", chat=str(number % 2)), principal="p")
    async with working(worker):
        await until_states(database, *["done"] * 6)
    assert sorted(turns.seen) == [f"m{number}" for number in range(6)]
    assert [m for m in turns.seen if int(m[1]) % 2] == ["m1", "m3", "m5"]


async def test_conversations_run_beside_one_another_up_to_the_limit(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    held = [Held() for _ in range(6)]
    turns.script = list(held)
    for number in range(6):
        await inbox.add(said(chat=str(number)), principal="p")
    async with working(worker):
        await asyncio.wait_for(held[3].before.wait(), HANGS)
        await asyncio.sleep(0.05)
        assert turns.running == 4
        for one in held:
            one.go.set()
        await until_states(database, *["done"] * 6)
    assert turns.most == 4


async def test_a_model_that_is_away_gets_one_word_and_the_answer_when_it_is_back(
    *, database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say, now: Any
) -> None:
    turns.script = [fail(ModelUnavailable("529 from 10.0.0.1", public="it is overloaded"))] * 3
    await inbox.add(said("hello"), principal="p")
    async with working(worker):
        for round_ in range(1, 4):
            await ran(turns, round_)
            await until_states(database, "pending", error="529 from 10.0.0.1")
            now.forward(60)
        await until_states(database, "done")
    first, last = await told(database)
    assert first.startswith("I can't think right now: it is overloaded. Your message is kept")
    assert last == "hello"


async def test_a_models_pause_is_kept(
    *, database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say, now: Any
) -> None:
    turns.script = [fail(ModelUnavailable("busy", retry_after=120))]
    await inbox.add(said(), principal="p")
    async with working(worker):
        await until_states(database, "pending", error="busy")
    assert (await rows(database))[0].not_before == now().timestamp() + 120


async def test_patience_with_the_model_is_bounded_and_the_end_is_said(
    *, database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say, now: Any
) -> None:
    turns.script = [fail(ModelUnavailable("busy", retry_after=86_400, public="it is busy"))] * 2
    await inbox.add(said(), principal="p")
    async with working(worker):
        await until_states(database, "pending", error="busy")
        now.forward(600)
        await until_states(database, "dead")
    assert (await told(database))[-1] == "I could not answer this: it is busy. Please send it again later."


async def test_while_one_chat_waits_for_the_model_others_are_served(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    turns.script = [fail(ModelUnavailable("busy", retry_after=300))]
    await inbox.add(said(chat="1"), principal="p")
    await inbox.add(said("fine", chat="2"), principal="p")
    async with working(worker):
        await until_states(database, "pending", "done")


async def test_a_request_that_the_model_refuses_is_set_aside_with_its_reason(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    turns.script = [fail(ModelRefused("400: no such block", public="it holds what the model can't take"))]
    await inbox.add(said(), principal="p")
    async with working(worker):
        await until_states(database, "dead")
    assert await told(database) == ["I can't answer this: it holds what the model can't take."]


async def test_a_message_that_fails_three_times_is_set_aside_and_the_next_is_answered(
    *, database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say, now: Any
) -> None:
    turns.script = [fail(ZeroDivisionError())] * 3
    await inbox.add(said("bad"), principal="p")
    await inbox.add(said("good"), principal="p")
    async with working(worker):
        for round_ in (1, 2):
            await ran(turns, round_)
            await until_states(database, "pending", "pending")
            now.forward(60)
        await until_states(database, "dead", "done")
    assert turns.seen == ["bad", "bad", "bad", "good"]
    assert (await told(database))[0].startswith("Something went wrong on my side")


async def test_waiting_for_the_model_does_not_use_up_the_attempts(
    *, database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say, now: Any
) -> None:
    turns.script = [*[fail(ModelUnavailable("busy"))] * 4, fail(ZeroDivisionError())]
    await inbox.add(said("hello"), principal="p")
    async with working(worker):
        for round_ in range(1, 6):
            await ran(turns, round_)
            await until_states(database, "pending")
            now.forward(60)
        await until_states(database, "done")
    assert (await told(database))[-1] == "hello"


async def test_a_message_that_kills_the_process_each_time_is_given_up(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    await inbox.add(said("deadly"), principal="p")
    for _ in range(20):
        assert await inbox.claim(("telegram",)) is not None
        await inbox.take_over()
    async with working(worker):
        await until_states(database, "dead")
    assert turns.seen == []
    assert (await told(database))[0].startswith("Something went wrong on my side")


async def test_stop_cancels_the_running_turn_and_not_the_next(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    held = Held()
    turns.script = [held]
    await inbox.add(said("long"), principal="p")
    await inbox.add(said("next"), principal="p")
    async with working(worker):
        await asyncio.wait_for(held.before.wait(), HANGS)
        token = await inbox.add_stop(said("/stop"), principal="p", replies=lambda _: [])
        assert token is not None
        worker.stop(token)
        worker.stop(token)
        await until_states(database, "dead", "done", "done")
        worker.stop(token)
    assert await told(database) == ["(stopped)", "next"]


async def test_a_stop_from_another_process_is_noticed_by_the_heartbeat(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    held = Held()
    turns.script = [held]
    await inbox.add(said("long"), principal="p")
    async with working(worker):
        await asyncio.wait_for(held.before.wait(), HANGS)
        await inbox.add_stop(said("/stop"), principal="p", replies=lambda _: [])
        await until_states(database, "dead", "done")


async def test_a_second_stop_does_not_disturb_a_turn_that_stores_what_it_had(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    began, stopping = asyncio.Event(), asyncio.Event()

    async def stoppable(_: Claim) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopping.set()
            await asyncio.sleep(0.3)  # some beats, each of which sees the stop again

    turns.script = [stoppable]
    await inbox.add(said("what I had"), principal="p")
    async with working(worker):
        await asyncio.wait_for(began.wait(), HANGS)
        token = await inbox.add_stop(said("/stop"), principal="p", replies=lambda _: [])
        assert token is not None
        worker.stop(token)
        await asyncio.wait_for(stopping.wait(), HANGS)
        await until_states(database, "done", "done")
    assert await told(database) == ["what I had"]


async def test_the_heartbeat_keeps_a_long_turn(
    *, database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say, now: Any
) -> None:
    async def renewed() -> bool:
        return bool((await rows(database))[0].claimed_until == now().timestamp() + 30)

    held = Held()
    turns.script = [held]
    await inbox.add(said("long"), principal="p")
    async with working(worker):
        await asyncio.wait_for(held.before.wait(), HANGS)
        for _ in range(3):
            now.forward(20)
            await until(renewed)
            assert await inbox.claim(("telegram",)) is None
        held.go.set()
        await until_states(database, "done")
    assert turns.seen == ["long"]


async def test_a_turn_whose_claim_was_lost_is_cancelled_and_answers_nothing(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    held = Held()
    turns.script = [held]
    await inbox.add(said("contested"), principal="p")
    async with working(worker):
        await asyncio.wait_for(held.before.wait(), HANGS)
        worker.close()  # so that nobody but the other process claims it
        await inbox.take_over()
        other = await inbox.claim(("telegram",))
        assert other is not None
        await turns.idle.wait()
        assert await told(database) == []
        await turns.run(other)
    assert await told(database) == ["contested"]


async def test_close_lets_a_turn_end_and_begins_no_other(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    held = Held()
    turns.script = [held]
    await inbox.add(said("one"), principal="p")
    await inbox.add(said("two"), principal="p")
    async with working(worker):
        await asyncio.wait_for(held.before.wait(), HANGS)
        worker.close()
        held.go.set()
    assert [row.state for row in await rows(database)] == ["done", "pending"]


async def test_a_message_that_waits_for_the_model_is_answered_by_stop(
    database: Database, inbox: Inbox, worker: Worker, turns: ScriptedTurns, said: Say
) -> None:
    turns.script = [fail(ModelUnavailable("busy", retry_after=500))]
    await inbox.add(said(), principal="p")
    async with working(worker):
        await until_states(database, "pending", error="busy")
        assert await inbox.add_stop(said("/stop"), principal="p", replies=lambda _: [])
        await until_states(database, "dead", "done")


async def test_a_database_that_is_away_for_a_moment_ends_nothing(
    database: Database, inbox: Inbox, worker: Worker, said: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.consumer._DATABASE_AWAY_SECONDS", 0.01)
    away = [True]
    claim = inbox.claim

    async def flaky(platforms: Any) -> Claim | None:
        if away.pop() if away else False:
            raise OSError("away")
        return await claim(platforms)

    monkeypatch.setattr(inbox, "claim", flaky)
    await inbox.add(said(), principal="p")
    async with working(worker):
        await until_states(database, "done")
