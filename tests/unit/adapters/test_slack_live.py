"""Answers while they are written, and the word that the bot is at work, against the stand-in."""

import contextlib
import random
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from adapters.base import Account, Address, Outbound, Step, StepState
from adapters.doubles import RecordingInbox
from adapters.errors import Transient
from adapters.serving import serving
from adapters.slack.adapter import SlackAdapter
from adapters.slack.marks import is_post_of, mark
from adapters.slack.settings import Pace, SlackSettings
from adapters.standins.slack import Shown, SlackStandin

ADA = Account(platform="slack", workspace="T1", user="U1")
PACE = Pace(append_every=0.05, edit_every=0.05)


@pytest.fixture
async def slack() -> SlackStandin:
    standin = SlackStandin()
    standin.channel(id="C1", name="lab", members=[standin.person(id="U1", name="ada")])
    return standin


@pytest.fixture
async def api(slack: SlackStandin) -> AsyncIterator[str]:
    async with serving(slack.app) as url:
        yield f"{url}/api/"


@pytest.fixture
async def adapter(slack: SlackStandin, api: str) -> AsyncIterator[SlackAdapter]:
    made = adapter_of(api, PACE)
    async with made.serve(RecordingInbox()):
        yield made
    assert slack.faults == []


@pytest.fixture
def thread(slack: SlackStandin) -> Address:
    return Address(platform="slack", workspace="T1", chat="C1", thread=slack.say("C1", "U1", "question"))


def adapter_of(api: str, pace: Pace) -> SlackAdapter:
    settings = SlackSettings(bot_token=SecretStr("xoxb-stand-in"), signing_secret=SecretStr("s"), api_url=api)
    return SlackAdapter(settings, pace=pace)


def dm_of(slack: SlackStandin) -> Address:
    return Address(platform="slack", workspace="T1", chat=slack.dm("U1").id)


def last(slack: SlackStandin, address: Address) -> Shown:
    return slack.messages(address.chat, address.thread or None)[-1]


def methods(slack: SlackStandin) -> list[str]:
    return [call.method for call in slack.calls if call.method.startswith("chat.")]


async def deliver(adapter: SlackAdapter, address: Address, markdown: str, message_id: str) -> None:
    part = adapter.render(markdown)[0]
    await adapter.deliver(Outbound(address=address, key="k1", part=part, message_id=message_id))


async def test_a_stream_shows_what_is_added_and_ends_as_an_ordinary_message(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
    await live.show("Hello")
    await slack.wait_for(lambda s: last(s, thread).text.endswith("\nHello"))
    await live.show("Hello **wor")
    await live.show("Hello **world** <!channel>")
    await slack.wait_for(lambda s: last(s, thread).text.endswith("Hello **world** <\u2060!channel>"))
    assert last(slack, thread).streaming
    await live.close()
    assert not last(slack, thread).streaming
    await deliver(adapter, thread, "Hello **world** for good", live.message_id)
    assert last(slack, thread).text == "Hello world for good"
    assert methods(slack).count("chat.startStream") == 1
    assert "chat.postMessage" not in methods(slack)


async def test_text_that_changed_its_beginning_ends_the_stream_and_is_shown_in_the_same_message(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
    await live.show("Hello")
    await slack.wait_for(lambda s: last(s, thread).text.endswith("Hello"))
    await live.show("Good morning")
    await slack.wait_for(lambda s: last(s, thread).text == "Good morning")
    await live.close()
    await deliver(adapter, thread, "Good morning, all", live.message_id)
    assert [shown.text for shown in slack.messages("C1", thread.thread)] == ["question", "Good morning, all"]
    assert methods(slack).count("chat.stopStream") == 1


async def test_before_slack_ends_a_stream_the_answer_goes_on_in_the_same_message_and_nothing_is_lost(
    slack: SlackStandin, api: str, thread: Address
) -> None:
    adapter = adapter_of(api, Pace(append_every=0.05, edit_every=0.05, stream_for=0.0))
    async with adapter.serve(RecordingInbox()):
        live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
        await live.show("late, and all of it")
        await slack.wait_for(lambda s: last(s, thread).text == "late, and all of it")
        assert not last(slack, thread).streaming
        await live.close()
    assert "chat.appendStream" not in methods(slack)
    assert len(slack.messages("C1", thread.thread)) == 2


async def test_a_stream_that_slack_has_ended_early_goes_on_as_edits(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
    await live.show("one")
    await slack.wait_for(lambda s: last(s, thread).text.endswith("one"))
    slack.workspace.stream_seconds = 0.0
    await live.show("one two")
    await slack.wait_for(lambda s: last(s, thread).text == "one two")
    await live.close()


async def test_steps_are_shown_as_tasks_with_their_newest_state_before_any_text(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
    await live.step(Step(id="1", title="reading notes"))
    await slack.wait_for(lambda s: [task["status"] for task in last(s, thread).tasks] == ["in_progress"])
    await live.step(Step(id="1", title="reading notes", state=StepState.DONE))
    await live.step(Step(id="2", title="searching " + "x" * 300, state=StepState.FAILED))
    await live.show("Hello")
    await slack.wait_for(lambda s: [task["status"] for task in last(s, thread).tasks] == ["complete", "error"])
    await slack.wait_for(lambda s: last(s, thread).text.endswith("\nHello"))
    await live.close()
    await deliver(adapter, thread, "Hello", live.message_id)
    assert last(slack, thread).text == "Hello"


async def test_a_step_has_no_place_in_a_message_that_is_edited_and_hurts_nothing(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    chat = Address(platform="slack", workspace="T1", chat=slack.dm("U1").id)
    live = await adapter.open_live(chat, key="k1", reply_to="", recipient=ADA)
    await live.step(Step(id="1", title="reading notes"))
    await live.show("Hello")
    await slack.wait_for(lambda s: last(s, chat).text == "Hello")
    await live.close()


async def test_a_stream_that_a_person_stopped_shows_nothing_more_until_the_final_text(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
    await live.show("Hello")
    await slack.wait_for(lambda s: last(s, thread).text.endswith("Hello"))
    slack.press_stop("C1", "U1", thread.thread)
    await live.show("Hello world")
    await slack.wait_for(lambda s: [c.ok for c in s.calls if c.method == "chat.appendStream"] == [True, False])
    await live.close()
    await deliver(adapter, thread, "Stopped.", live.message_id)
    assert last(slack, thread).text == "Stopped."
    assert methods(slack).count("chat.update") == 1


async def test_a_channel_that_slack_closed_for_now_is_not_asked_again_before_its_time(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    slack.fail("chat.postMessage", status=429, retry_after=30)
    for chat, refused in ((thread, True), (thread.whole_chat, True), (dm_of(slack), False)):
        with pytest.raises(Transient) if refused else contextlib.nullcontext():
            await deliver(adapter, chat, "answer", "")
    assert methods(slack).count("chat.postMessage") == 2


async def test_answers_that_are_written_in_one_channel_at_a_time_share_its_edits(slack: SlackStandin, api: str) -> None:
    adapter, chat = adapter_of(api, Pace(edit_every=0.4)), dm_of(slack)
    async with adapter.serve(RecordingInbox()):
        lives = [await adapter.open_live(chat, key=key, reply_to="", recipient=ADA) for key in ("k1", "k2")]
        began = time.monotonic()
        for number in range(40):
            for live in lives:
                await live.show(f"word {number}")
            await anyio.sleep(0.02)
        lasted = time.monotonic() - began
        for live in lives:
            await live.close()
    assert 1 <= methods(slack).count("chat.update") <= 2 + lasted / 0.4


async def until_delivered(adapter: SlackAdapter, address: Address, markdown: str, message_id: str) -> None:
    while True:
        try:
            return await deliver(adapter, address, markdown, message_id)
        except Transient as error:
            await anyio.sleep(error.retry_after or 0)


FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("chat.appendStream", {"status": 429, "retry_after": 0.05}),
    ("chat.appendStream", {"status": 0, "error": "", "after_acting": True}),
    ("chat.appendStream", {"status": 500}),
    ("chat.appendStream", {"status": 200, "error": "msg_too_long"}),
    ("chat.update", {"status": 429, "retry_after": 0.05}),
    ("chat.update", {"status": 0, "error": "", "after_acting": True}),
    ("chat.stopStream", {"status": 0, "error": "", "after_acting": True}),
    ("chat.stopStream", {"status": 200, "error": "message_not_in_streaming_state"}),
]


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_goes_wrong_while_it_is_shown_the_answer_is_one_message_and_exact(
    slack: SlackStandin, api: str, thread: Address, seed: int
) -> None:
    by_chance = random.Random(seed)
    adapter = adapter_of(api, Pace(append_every=0.01, edit_every=0.01, stream_for=by_chance.choice([0.05, 240.0])))
    text, final = "", "The **whole** answer, in the end."
    async with adapter.serve(RecordingInbox()):
        live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
        for number in range(25):
            text = by_chance.choice([text + f" word {number}", text + "x" * 400, f"anew {number}"])
            await live.show(text)
            await live.step(Step(id=by_chance.choice("12"), title=text[:99]))
            if by_chance.random() < 0.3:
                method, fault = by_chance.choice(FAULTS)
                slack.fail(method, **fault)
            await anyio.sleep(0.01)
        await live.close()
        slack.forgive()
        await until_delivered(adapter, thread, final, live.message_id)
    assert [shown.text for shown in slack.messages("C1", thread.thread)] == [
        "question",
        adapter.render(final)[0]["text"],
    ]
    assert not last(slack, thread).streaming


@pytest.mark.parametrize("key", ["k1", "turn-7/part-0"])
def test_a_stream_is_marked_with_its_key_invisibly(key: str) -> None:
    message = {"text": f"{mark(key)}\nHello"}
    assert is_post_of(message, key=key)
    assert not is_post_of(message, key=f"{key}x")
    assert not any(character.isprintable() for character in mark(key))


async def test_a_stream_that_a_crash_left_open_is_found_and_takes_the_final_text(
    slack: SlackStandin, api: str, adapter: SlackAdapter, thread: Address
) -> None:
    before = datetime.now(UTC)
    live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
    after_the_crash = adapter_of(api, PACE)
    async with after_the_crash.serve(RecordingInbox()):
        lost = Outbound(address=thread, key="k1", part={})
        found = await after_the_crash.find(lost, since=before)
        assert found == live.message_id
        await deliver(after_the_crash, thread, "answer", found)
    assert (last(slack, thread).text, last(slack, thread).streaming) == ("answer", False)
    assert len(slack.messages("C1", thread.thread)) == 2


@pytest.mark.parametrize("refusal", ["unknown_method", "missing_scope"])
async def test_without_streams_a_message_is_edited_and_slack_is_not_asked_again(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address, refusal: str
) -> None:
    slack.fail("chat.startStream", status=200, error=refusal)
    for _ in range(2):
        live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
        assert last(slack, thread).text == "…"
        await live.show("Hello")
        await slack.wait_for(lambda s: last(s, thread).text == "Hello")
        await live.close()
    assert methods(slack).count("chat.startStream") == 1
    assert last(slack, thread).metadata == {"event_type": "reverie_post", "event_payload": {"key": "k1"}}


async def test_without_a_thread_a_message_is_edited(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = Address(platform="slack", workspace="T1", chat=slack.dm("U1").id)
    assert adapter.live_stays(chat)
    live = await adapter.open_live(chat, key="k1", reply_to="", recipient=ADA)
    await live.show("Hello")
    await slack.wait_for(lambda s: last(s, chat).text == "Hello")
    await live.close()
    assert "chat.startStream" not in methods(slack)
    found = await adapter.find(Outbound(address=chat, key="k1", part={}), since=datetime.now(UTC))
    assert found == live.message_id


async def test_edits_keep_their_distance_and_show_the_newest_text(slack: SlackStandin, api: str) -> None:
    chat = Address(platform="slack", workspace="T1", chat=slack.dm("U1").id)
    adapter = adapter_of(api, Pace(edit_every=1.0))
    async with adapter.serve(RecordingInbox()):
        live = await adapter.open_live(chat, key="k1", reply_to="", recipient=ADA)
        began = time.monotonic()
        for number in range(30):
            await live.show(f"word {number}")
            await anyio.sleep(0.01)
        await slack.wait_for(lambda s: last(s, chat).text == "word 29")
        lasted = time.monotonic() - began
        await live.close()
    assert methods(slack).count("chat.update") <= 1 + lasted / 1.0


async def test_a_flood_limit_only_delays_what_is_shown(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = Address(platform="slack", workspace="T1", chat=slack.dm("U1").id)
    live = await adapter.open_live(chat, key="k1", reply_to="", recipient=ADA)
    slack.fail("chat.update", status=429, retry_after=0.1)
    await live.show("Hello")
    await slack.wait_for(lambda s: last(s, chat).text == "Hello")
    await live.close()


async def test_closing_waits_for_the_edit_that_is_under_way(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = Address(platform="slack", workspace="T1", chat=slack.dm("U1").id)
    live = await adapter.open_live(chat, key="k1", reply_to="", recipient=ADA)
    slack.delay("chat.update", 0.3)
    await live.show("half an ans")
    await anyio.sleep(0.1)
    await live.close()
    slack.delay("chat.update", 0)
    await deliver(adapter, chat, "the answer", live.message_id)
    await anyio.sleep(0.4)
    assert last(slack, chat).text == "the answer"


async def test_failures_to_show_are_swallowed(slack: SlackStandin, adapter: SlackAdapter, thread: Address) -> None:
    live = await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
    slack.fail("chat.appendStream", status=500)
    slack.fail("chat.stopStream", status=500)
    await live.show("Hello")
    await anyio.sleep(0.1)
    await live.close()
    await deliver(adapter, thread, "answer", live.message_id)
    assert last(slack, thread).text == "answer"


async def test_a_live_answer_that_could_not_begin_is_told(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    slack.fail("chat.startStream", status=429, retry_after=3)
    with pytest.raises(Transient):
        await adapter.open_live(thread, key="k1", reply_to="", recipient=ADA)
    assert "chat.postMessage" not in methods(slack)


async def test_the_status_shows_in_a_thread_and_is_cleared(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    await adapter.working(thread, status="is thinking…")
    assert list(slack.statuses.values()) == ["is thinking…"]
    await adapter.working(thread, status="")
    assert not any(slack.statuses.values())
    await adapter.working(thread.whole_chat, status="is thinking…")
    assert not any(slack.statuses.values())


async def test_where_the_assistant_view_is_gone_the_agent_view_is_used(
    slack: SlackStandin, adapter: SlackAdapter, thread: Address
) -> None:
    slack.fail("assistant.threads.setStatus", status=200, error="method_deprecated")
    for status in ("is thinking…", ""):
        await adapter.working(thread, status=status)
    assert [session.status for session in slack.sessions.values()] == ["active"]
    assert [call.method for call in slack.calls].count("assistant.threads.setStatus") == 1


async def test_a_status_that_fails_hurts_nobody(slack: SlackStandin, adapter: SlackAdapter, thread: Address) -> None:
    slack.fail("assistant.threads.setStatus", status=500)
    await adapter.working(thread, status="is thinking…")
    await adapter.working(thread, status="is reading…")
    assert list(slack.statuses.values()) == ["is reading…"]
