"""Edits, deletions, presses, stops and the bot's own comings, over a real socket and over HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.base import Button, ChatKind
from adapters.doubles import RecordingInbox
from adapters.slack.adapter import SlackAdapter
from adapters.slack.changes import REACHABLE, changed_message, read_change
from adapters.slack.inbound import Bot, Scene
from adapters.slack.manifest import EVENTS
from adapters.standins.slack import SlackStandin
from adapters.standins.slack_values import AgentSession
from tests.unit.adapters.slack_stage import place, posts, serve, standin
from tests.waiting import until

BOT = Bot(team="T1", user="UBOT", bot="BBOT", name="reverie")
OLD = {"type": "message", "user": "U1", "text": "one", "ts": "1.1"}
EDIT = {"user": "U1", "ts": "1.2"}


@pytest.fixture
async def slack() -> SlackStandin:
    return standin()


@pytest.fixture
async def inbox() -> RecordingInbox:
    return RecordingInbox()


@pytest.fixture(params=["socket", "http"])
async def adapter(
    slack: SlackStandin, inbox: RecordingInbox, request: pytest.FixtureRequest
) -> AsyncIterator[SlackAdapter]:
    async with serve(slack, inbox, http=request.param == "http") as made:
        yield made


async def told(slack: SlackStandin) -> None:
    await slack.wait_for(lambda s: not s.deliveries.pending)


async def test_an_edit_and_a_deletion_name_the_message_that_they_are_about(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    ts = slack.say("C1", "U1", "<@UBOT> hello")
    await inbox.until(lambda: len(inbox.got) == 2)
    slack.edit("C1", ts, "<@UBOT> hello &amp; good day to <@U2>")
    slack.delete("C1", ts)
    await inbox.until(lambda: len(inbox.amendments) == 2)
    assert [change.text for change in inbox.amendments] == ["hello & good day to @bo", None]
    assert {change.external_id for change in inbox.amendments} == {inbox.got[0].external_id}
    assert {(change.address, str(change.account)) for change in inbox.amendments} == {
        (inbox.got[0].address, "slack:T1/U1")
    }


async def test_previews_of_links_and_the_bots_own_edits_amend_nothing(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    ts = slack.say("C1", "U1", "see https://a.example")
    slack.edit("C1", ts, "see https://b.example")
    slack.unfurl("C1", ts, "https://b.example")
    (post,) = posts(adapter, place("C1", ts), "answer")
    for text in ("more", "most"):
        message_id = await adapter.deliver(post)
        (post,) = posts(adapter, place("C1", ts), text, message_id=message_id)
    slack.delete("C1", message_id)
    await told(slack)
    assert [change.text for change in inbox.amendments] == ["see https://b.example"]


@pytest.mark.parametrize(
    "now",
    [
        {**OLD, "attachments": [{"id": 1}]},
        {**OLD, "edited": EDIT},
        {**OLD, "text": "two"},
        {**OLD, "text": "two", "edited": {"user": "U9", "ts": "1.2"}},
        {**OLD, "text": "two", "edited": EDIT, "bot_id": "B9"},
        {**OLD, "text": "A title", "edited": EDIT, "subtype": "assistant_app_thread"},
    ],
    ids=["preview", "same text", "no edit", "by another", "a bot's", "a title"],
)
def test_a_change_that_its_author_did_not_make_is_no_edit(now: dict[str, Any]) -> None:
    event = {"subtype": "message_changed", "channel": "C1", "message": now, "previous_message": OLD}
    assert changed_message(event, bot=BOT) is None


def test_a_preview_of_what_was_edited_before_is_no_second_edit() -> None:
    edited = {**OLD, "edited": EDIT, "text": "two"}
    event = {"message": {**edited, "attachments": [{"id": 1}]}, "previous_message": edited, "channel": "C1"}
    assert changed_message(event, bot=BOT) is None


def test_a_deleted_message_that_had_replies_is_deleted_too() -> None:
    stone = {"subtype": "tombstone", "user": "USLACKBOT", "ts": "1.1", "text": "This message was deleted."}
    event = {"subtype": "message_changed", "channel": "C1", "message": stone, "previous_message": OLD}
    amended = read_change(event, scene=Scene(bot=BOT, people={}))
    assert amended is not None
    assert (amended.external_id, amended.text) == ("T1:C1:1.1", None)


async def test_an_edit_that_could_not_be_stored_comes_again(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    slack.deliveries.ack_timeout = 0.3
    ts = slack.say("C1", "U1", "one")
    await inbox.until(lambda: len(inbox.got) == 1)
    inbox.broken = 1
    slack.edit("C1", ts, "two")
    await inbox.until(lambda: len(inbox.amendments) >= 1)
    assert inbox.amendments[0].text == "two"


async def test_a_pressed_button_says_what_it_holds_and_where_it_stands(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    root = slack.say("C1", "U1", "question")
    (post,) = posts(adapter, place("C1", root), "Sure?", buttons=[Button(label="Yes", token="tok-1")])
    ts = await adapter.deliver(post)
    inbox.toast = "This is not for you."
    slack.press("C1", "U2", ts, "tok-1")
    await slack.wait_for(lambda s: s.ephemeral)
    (press,) = inbox.presses
    assert (press.token, press.message_id, press.address) == ("tok-1", ts, place("C1", root))
    assert (press.name, str(press.account), press.language, press.kind) == (
        "bo",
        "slack:T1/U2",
        "zh-CN",
        ChatKind.SHARED,
    )
    (word,) = slack.ephemeral
    assert (word["user"], word["text"], word["thread_ts"]) == ("U2", "This is not for you.", root)


@pytest.mark.parametrize("answered", [False, True])
async def test_a_button_in_no_thread_is_in_none_even_if_others_have_answered_there(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox, answered: bool
) -> None:
    (post,) = posts(adapter, place("C1"), "Sure?", buttons=[Button(label="Yes", token="tok-1")])
    ts = await adapter.deliver(post)
    if answered:
        slack.say("C1", "U1", "hm", thread_ts=ts)
    slack.press("C1", "U1", ts, "tok-1")
    await inbox.until(lambda: len(inbox.presses) == 1)
    assert inbox.presses[0].address == place("C1")
    await told(slack)
    assert slack.ephemeral == []


async def test_the_stop_button_is_the_command_stop_in_its_conversation_and_the_session_is_left(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    root = slack.say("C1", "U1", "<@UBOT> write a book")
    await adapter.working(place("C1", root), status="thinking…")
    slack.workspace.sessions["C1", root] = AgentSession(status="processing")  # as an earlier process left it
    slack.press_stop("C1", "U1", root)
    await inbox.until(lambda: any(inbound.text == "/stop" for inbound in inbox.got))
    (stop,) = [inbound for inbound in inbox.got if inbound.text == "/stop"]
    assert (stop.address, stop.addressed, stop.in_conversation) == (place("C1", root), True, True)
    assert stop.external_id not in {each.external_id for each in inbox.got if each is not stop}
    await slack.wait_for(lambda s: not s.at_work)


async def test_where_the_bot_was_taken_out_or_a_channel_was_archived_it_is_not_reached(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    slack.leave("C1", "U2")
    slack.archive("C1")
    slack.archive("C1", back=True)
    slack.leave("C1", "UBOT")
    slack.join("C1", "UBOT")
    slack.join("C1", "U2")
    await told(slack)
    await until(lambda: len(inbox.reached) == 4)
    assert inbox.reached == [("slack:T1/C1", yes) for yes in (False, True, False, True)]


async def test_a_home_tab_is_shown_to_whoever_opens_it_and_only_their_own_page(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    inbox.page = "# Notes\n" + "\n\n---\n\n".join(f"note {number}" for number in range(300))
    slack.open_home("U1")
    await slack.wait_for(lambda s: s.home_views)
    assert list(slack.home_views) == ["U1"]
    assert len(slack.home_views["U1"]["blocks"]) == 100
    inbox.page = ""
    slack.open_home("U2")
    await told(slack)
    assert list(slack.home_views) == ["U1"]


def test_slack_is_asked_for_every_event_that_is_listened_to() -> None:
    wanted = {*REACHABLE, "app_mention", "app_home_opened", "agent_session_stopped", "message.im"}
    assert wanted <= set(EVENTS)
