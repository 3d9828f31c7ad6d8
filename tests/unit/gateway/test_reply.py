import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from adapters.base import Account
from adapters.doubles import Fault, RecordingAdapter
from adapters.errors import Transient, Unsure
from gateway.agent.events import TextSoFar, ToolStarted
from gateway.db.engine import Database
from gateway.db.models import OutboxRow
from gateway.outbox import Outbox, Post
from gateway.reply import LiveReply, live_reply
from tests.unit.gateway.test_outbox import deliver_what_waits
from tests.waiting import HANGS, until

MakePost = Callable[..., Post]
ANN = Account(platform="telegram", user="42")


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.reply._STAYS_AFTER", 0.0)


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
        for words in ("  ", "once", "once upon"):
            await reply.show(TextSoFar(text=words))
    assert adapter.texts == ["once upon"]
    kept = await row(database)
    assert kept is not None
    assert (kept.state, kept.message_id, kept.unsure) == ("live", "1", False)


@pytest.mark.usefixtures("_at_once")
async def test_a_rerun_after_a_crash_shows_nothing_of_its_own(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    for words in ("first", "second"):
        async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
            await reply.show(TextSoFar(text=words))
    assert adapter.texts == ["first"]


@pytest.mark.usefixtures("_at_once")
async def test_an_answer_is_shown_once_all_that_came_before_it_is_posted(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    await outbox.send([post("1:0", "earlier")])
    async with live_reply(adapter, outbox, post("2:0"), ANN) as reply:
        await reply.show(TextSoFar(text="once"))
        assert adapter.texts == []
        await deliver_what_waits(outbox, adapter)
        await reply.show(TextSoFar(text="once upon"))
    assert adapter.texts == ["earlier", "once upon"]


@pytest.mark.usefixtures("_at_once")
async def test_an_answer_waits_for_no_other_chat_and_for_no_edit_of_what_is_there(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    await outbox.send([post("0:0", chat="43")])
    for number in (1, 2):
        async with live_reply(adapter, outbox, post(f"{number}:0"), ANN) as reply:
            await reply.show(TextSoFar(text=f"growing {number}"))
        await outbox.send([post(f"{number}:0", f"final {number}")])
    assert adapter.texts == ["growing 1", "growing 2"]


async def test_a_draft_leaves_no_row(database: Database, outbox: Outbox, post: MakePost) -> None:
    adapter = RecordingAdapter(live_stays=False)
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        await reply.show(TextSoFar(text="once"))
    assert (adapter.texts, await row(database)) == ([], None)


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(("error", "unsure"), [(Transient("away"), False), (Unsure("lost"), True)])
async def test_an_answer_that_can_not_be_shown_fails_no_turn_and_the_outbox_knows_whether_it_is_there(
    *, database: Database, outbox: Outbox, post: MakePost, error: Any, unsure: bool
) -> None:
    adapter = RecordingAdapter()
    adapter.live_faults = [Fault(error=error, acts=unsure)]
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        await reply.show(TextSoFar(text="once"))
        await reply.show(TextSoFar(text="once upon"))
    kept = await row(database)
    assert kept is not None
    assert (kept.state, kept.message_id, kept.unsure) == ("live", "", unsure)


async def test_people_see_what_it_works_on_until_it_ends(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.reply._TYPING_SECONDS", 0.01)
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        await until(lambda: len(adapter.statuses) > 1)
        await reply.show(ToolStarted(name="grep"))
    seen = list(adapter.statuses)
    await asyncio.sleep(0.03)
    assert adapter.statuses == seen
    assert seen[:2] == ["thinking…", "thinking…"]
    assert "searching notes…" in seen


async def test_a_typing_sign_that_breaks_fails_no_turn(
    outbox: Outbox, post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = asyncio.Event()

    async def broken(*_: Any, **__: Any) -> None:
        tried.set()
        raise ZeroDivisionError

    adapter = RecordingAdapter()
    monkeypatch.setattr(adapter, "working", broken)
    async with live_reply(adapter, outbox, post("1:0"), ANN) as reply:
        await asyncio.wait_for(tried.wait(), HANGS)
    assert isinstance(reply, LiveReply)
