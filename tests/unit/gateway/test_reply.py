import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from adapters.base import Account, Step, StepState
from adapters.doubles import Fault, RecordingAdapter, RecordingLive
from adapters.errors import Transient, Unsure
from gateway.agent.events import TextSoFar, ToolEnded, ToolStarted
from gateway.db.engine import Database
from gateway.db.models import OutboxRow
from gateway.outbox import Outbox, Post
from gateway.reply import footer, live_reply
from tests.unit.gateway.test_outbox import deliver_what_waits
from tests.waiting import until

MakePost = Callable[..., Post]
ANN = Account(platform="telegram", user="42")


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.reply._STAYS_AFTER", 0.0)


@pytest.fixture
def lives(adapter: RecordingAdapter, monkeypatch: pytest.MonkeyPatch) -> list[RecordingLive]:
    """Return the live answers that were opened."""
    found: list[RecordingLive] = []
    opened = adapter.open_live

    async def seen(*args: Any, **given: Any) -> RecordingLive:
        found.append(await opened(*args, **given))
        return found[-1]

    monkeypatch.setattr(adapter, "open_live", seen)
    return found


async def row(database: Database) -> OutboxRow | None:
    async with database.read() as session:
        return await session.scalar(select(OutboxRow))


async def test_a_quick_answer_is_posted_once_and_never_edited(
    database: Database, outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        await reply.show(TextSoFar(text="done"))
    assert (adapter.texts, await row(database), reply.text) == ([], None, "done")


@pytest.mark.usefixtures("_at_once")
async def test_a_slow_answer_grows_in_one_message_that_the_outbox_knows(
    database: Database, outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        for words in ("  ", "once"):
            await reply.show(TextSoFar(text=words))
        await until(lambda: adapter.texts == ["once"])
        await reply.show(TextSoFar(text="once upon"))
    assert adapter.texts == ["once upon"]
    kept = await row(database)
    assert kept is not None
    assert (kept.state, kept.message_id, kept.unsure) == ("live", "1", False)


async def test_a_text_that_pauses_is_shown_all_the_same(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.reply._STAYS_AFTER", 0.05)
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        for words in ("once", "once upon"):
            await reply.show(TextSoFar(text=words))
        assert adapter.texts == []
        await until(lambda: adapter.texts == ["once upon"])


@pytest.mark.usefixtures("_at_once")
async def test_whoever_writes_the_answer_does_not_wait_for_the_platform(
    outbox: Outbox, post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, opening, go = RecordingAdapter(), asyncio.Event(), asyncio.Event()
    opened = adapter.open_live

    async def slowly(*args: Any, **given: Any) -> RecordingLive:
        opening.set()
        await go.wait()
        return await opened(*args, **given)

    monkeypatch.setattr(adapter, "open_live", slowly)
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        for words in ("once", "once upon"):
            await reply.show(TextSoFar(text=words))
            await opening.wait()
        go.set()
    assert adapter.texts == ["once upon"]


@pytest.mark.usefixtures("_at_once")
async def test_a_rerun_after_a_crash_shows_nothing_of_its_own(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    for words in ("first", "second"):
        async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
            await reply.show(TextSoFar(text=words))
            await until(lambda: reply._opening is not None and reply._opening.done())
    assert adapter.texts == ["first"]


@pytest.mark.usefixtures("_at_once")
async def test_an_answer_is_shown_once_all_that_came_before_it_is_posted(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    await outbox.send([post("1:0", "earlier")])
    async with live_reply(adapter, outbox, post("2:0"), ANN) as reply:
        await reply.show(TextSoFar(text="once"))
        await asyncio.sleep(0.03)
        assert adapter.texts == []
        await deliver_what_waits(outbox, adapter)
        await until(lambda: adapter.texts == ["earlier", "once"])


@pytest.mark.usefixtures("_at_once")
async def test_an_answer_waits_for_no_other_chat_and_for_no_edit_of_what_is_there(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    await outbox.send([post("0:0", chat="43")])
    for number in (1, 2):
        async with live_reply(adapter, outbox, post(f"{number}:0"), ANN) as reply:
            await reply.show(TextSoFar(text=f"growing {number}"))
            await until(lambda: reply._live)
        await outbox.send([post(f"{number}:0", f"final {number}")])
    assert adapter.texts == ["growing 1", "growing 2"]


async def test_a_draft_leaves_no_row(database: Database, outbox: Outbox, post: MakePost) -> None:
    adapter = RecordingAdapter(live_stays=False)
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        await reply.show(TextSoFar(text="once"))
        await until(lambda: reply._live)
    assert (adapter.texts, await row(database)) == ([], None)


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize("changes", [{"only_for": ANN}, {"message_id": "7"}])
async def test_what_one_person_sees_or_what_replaces_a_message_is_not_shown_before_it_is_done(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost, changes: dict[str, Any]
) -> None:
    async with live_reply(adapter, outbox, replace(post("1:0"), **changes), ANN) as reply:
        await reply.show(TextSoFar(text="once"))
        await asyncio.sleep(0.03)
    assert adapter.texts == []


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(("error", "unsure"), [(Transient("away"), False), (Unsure("lost"), True)])
async def test_an_answer_that_can_not_be_shown_fails_no_turn_and_the_outbox_knows_whether_it_is_there(
    *, database: Database, outbox: Outbox, post: MakePost, error: Any, unsure: bool
) -> None:
    adapter = RecordingAdapter()
    adapter.live_faults = [Fault(error=error, acts=unsure)]
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        await reply.show(TextSoFar(text="once"))
        await until(lambda: reply._opening is not None and reply._opening.done())
        await reply.show(TextSoFar(text="once upon"))
    kept = await row(database)
    assert kept is not None
    assert (kept.state, kept.message_id, kept.unsure) == ("live", "", unsure)


async def test_the_steps_before_the_text_are_told_in_words_and_shown_with_it(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost, lives: list[RecordingLive]
) -> None:
    said: list[str] = []
    async with live_reply(adapter, outbox, post("1:0"), ANN, says=said.append) as reply:
        for call, name in (("1.1", "grep"), ("1.2", "Agent")):
            await reply.show(ToolStarted(name=name, call=call))
            await reply.show(ToolEnded(name=name, call=call, failed=name == "grep", turn=1))
        assert lives == []
        reply._stays_from = 0.0
        await reply.show(TextSoFar(text="once"))
        await until(lambda: adapter.texts == ["once"])
        await reply.show(ToolStarted(name="no such tool", call="2.1"))
    assert said == [
        "thinking…",
        "searching notes…",
        "thinking…",
        "letting an agent work on it…",
        "thinking…",
        "working…",
    ]
    assert lives[0].steps == [
        Step(id="1.1", title="Searching notes", state=StepState.FAILED),
        Step(id="1.2", title="Letting an agent work on it", state=StepState.DONE),
        Step(id="2.1", title="Working", state=StepState.RUNNING),
        Step(id="2.1", title="Working", state=StepState.FAILED),  # the answer was cut off
    ]


async def test_a_draft_shows_the_steps_before_there_is_any_text(
    outbox: Outbox, post: MakePost, lives: list[RecordingLive], adapter: RecordingAdapter
) -> None:
    adapter._stays = False
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        await reply.show(ToolStarted(name="read", call="1.1"))
        await until(lambda: lives and lives[0].steps)
    assert (lives[0].texts, lives[0].steps[0].title) == ([], "Reading notes")


def test_a_footer_says_what_an_answer_took() -> None:
    assert footer(model="m", tokens=12345, notes=1, seconds=4.16) == "m · 12,345 tokens · 1 note · 4.2 s"
