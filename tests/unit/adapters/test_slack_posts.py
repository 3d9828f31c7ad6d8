"""What goes out: buttons, what only one person sees, edits whose message is gone, marks."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.base import Button
from adapters.doubles import RecordingInbox
from adapters.errors import Permanent, Unsure
from adapters.slack.adapter import SlackAdapter
from adapters.slack.parts import parts_of
from adapters.standins.slack import SlackStandin
from adapters.standins.slack_blocks import Limits, check_blocks
from tests.unit.adapters.slack_stage import ADA, place, posts, serve, standin

YES, NO = Button(label="Yes", token="tok-yes"), Button(label="No", token="tok-no")


@pytest.fixture
async def slack() -> SlackStandin:
    return standin()


@pytest.fixture
async def inbox() -> RecordingInbox:
    return RecordingInbox()


@pytest.fixture
async def adapter(slack: SlackStandin, inbox: RecordingInbox) -> AsyncIterator[SlackAdapter]:
    async with serve(slack, inbox) as made:
        yield made


def asked(slack: SlackStandin, method: str) -> int:
    return [call.method for call in slack.calls].count(method)


# buttons


async def test_buttons_stand_under_the_last_part_and_go_with_the_edit_that_has_none(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    ts = ""
    for post in posts(adapter, place("C1"), "word " * 2000 + "Sure?", buttons=[YES, NO]):
        ts = await adapter.deliver(post)
    *before, last = slack.messages("C1")
    assert len(before) >= 2
    assert [
        [e["value"] for e in (m.blocks or [])[-1].get("elements", []) if "value" in e] for m in (before[0], last)
    ] == [
        [],
        ["tok-yes", "tok-no"],
    ]
    (done,) = posts(adapter, place("C1"), "Done.", message_id=ts)
    await adapter.deliver(done)
    assert all(block["type"] != "actions" for block in slack.messages("C1")[-1].blocks or [])


TOKENS = st.integers(min_value=0, max_value=10**12).map(lambda number: f"{number:064d}")
BUTTONS = st.lists(
    st.builds(Button, label=st.text(max_size=120), token=TOKENS), max_size=60, unique_by=lambda button: button.token
)


@settings(max_examples=40, deadline=None)
@given(markdown=st.text(max_size=400).map(lambda text: text * 40), buttons=BUTTONS)
def test_parts_with_any_buttons_are_such_as_slack_takes_and_none_is_lost(markdown: str, buttons: list[Button]) -> None:
    parts = parts_of(markdown, buttons=buttons, file=None)
    for part in parts:
        check_blocks(part["blocks"], Limits())
        assert 0 < len(part["text"]) <= Limits().update_text
    assert [value for part in parts for value in values(part)] == [button.token for button in buttons]
    assert all(not values(part) for part in parts[:-1])


def values(part: dict[str, Any]) -> list[str]:
    rows = [block for block in part["blocks"] if block["type"] == "actions"]
    return [element["value"] for row in rows for element in row["elements"]]


# for one person


async def test_what_is_for_one_person_is_seen_by_nobody_else_and_an_edit_of_it_is_a_new_one(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    root = slack.say("C1", "U1", "question")
    (post,) = posts(adapter, place("C1", root), "**psst**", only_for=ADA)
    ts = await adapter.deliver(post)
    await adapter.deliver(replace(post, message_id=ts))
    assert [(word["user"], word["text"], word["thread_ts"]) for word in slack.ephemeral] == [("U1", "psst", root)] * 2
    assert len(slack.messages("C1", root)) == 1


async def test_in_direct_messages_there_is_nobody_else(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = place(slack.dm("U1").id)
    (post,) = posts(adapter, chat, "psst", only_for=ADA)
    await adapter.deliver(post)
    assert ([shown.text for shown in slack.messages(chat.chat)], slack.ephemeral) == (["psst"], [])


async def test_a_command_from_where_the_bot_is_not_is_answered_where_slack_says(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    (post,) = posts(adapter, place("C2"), "All is well.", only_for=ADA)
    with pytest.raises(Permanent, match="invite"):
        await adapter.deliver(post)
    slack.command("C2", "U1", "/reverie", "status")
    await inbox.until(lambda: bool(inbox.got))
    assert (inbox.got[0].only_for_sender, inbox.got[0].language) == (True, "de-DE")
    await adapter.deliver(post)
    assert [(word["channel"], word["user"], word["text"]) for word in slack.ephemeral] == [("C2", "U1", "All is well.")]
    assert slack.messages("C2") == []


async def test_the_answer_to_a_button_that_one_person_sees_takes_its_place_and_stays_theirs(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    root = slack.say("C1", "U1", "question")
    (post,) = posts(adapter, place("C1", root), "Sure?", buttons=[YES], only_for=ADA)
    ts = await adapter.deliver(post)
    slack.press_aside(ts, YES.token)
    await inbox.until(lambda: bool(inbox.presses))
    assert (inbox.presses[0].message_id, inbox.presses[0].address) == (ts, place("C1", root))
    (done,) = posts(adapter, place("C1", root), "Done.", key="k2", message_id=ts)
    assert await adapter.deliver(done) == ts
    assert [(word["user"], word["text"]) for word in slack.ephemeral] == [("U1", "Done.")]
    assert [shown.text for shown in slack.messages("C1")] == ["question"]


# edits of what is gone


async def test_an_edit_whose_message_is_gone_is_posted_anew_and_only_once(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    (post,) = posts(adapter, place("C1"), "draft")
    ts = await adapter.deliver(post)
    slack.delete("C1", ts)
    (final,) = posts(adapter, place("C1"), "final", message_id=ts)
    slack.fail("chat.postMessage", status=0, error="", after_acting=True)
    with pytest.raises(Unsure):
        await adapter.deliver(final)
    new = await adapter.deliver(final)
    assert [(shown.ts, shown.text) for shown in slack.messages("C1")] == [(new, "final")]


async def test_a_message_that_slack_lets_nobody_edit_any_more_is_followed_by_a_new_one(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    ts = slack.say("C1", "U1", "a person's")
    slack.fail("chat.update", times=1, status=200, error="edit_window_closed")
    (post,) = posts(adapter, place("C1"), "final", message_id=ts)
    assert await adapter.deliver(post) != ts
    assert [shown.text for shown in slack.messages("C1")] == ["a person's", "final"]


async def test_an_edit_that_is_refused_for_another_reason_is_not_posted(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    (post,) = posts(adapter, place("C1"), "draft")
    ts = await adapter.deliver(post)
    slack.fail("chat.update", status=200, error="is_archived")
    with pytest.raises(Permanent):
        await adapter.deliver(replace(post, message_id=ts))
    assert asked(slack, "chat.postMessage") == 1


# marks


async def test_a_message_is_marked_as_seen_and_the_mark_is_taken_away_as_often_as_it_is_said(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    ts = slack.say("C1", "U1", "question")
    for seen, shown in ((True, ("eyes",)), (True, ("eyes",)), (False, ()), (False, ())):
        await adapter.acknowledge(place("C1", ts), ts, seen=seen)
        assert slack.messages("C1")[0].reactions == shown


async def test_a_token_that_may_not_mark_is_asked_once_and_a_bad_moment_forgotten(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    ts = slack.say("C1", "U1", "question")
    slack.fail("reactions.add", status=500)
    for _ in range(2):
        await adapter.acknowledge(place("C1", ts), ts, seen=True)
    assert slack.messages("C1")[0].reactions == ("eyes",)
    slack.withhold("reactions:write")
    for _ in range(3):
        await adapter.acknowledge(place("C1", ts), ts, seen=False)
    assert asked(slack, "reactions.remove") == 1


# sight


async def test_what_the_bot_sees_is_said_and_changes_when_it_is_let_in_or_taken_out(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    assert "mentions me" in await adapter.sight(place("C1", "1.1"))
    assert "invites me" in await adapter.sight(place("C2"))
    assert await adapter.sight(place(slack.dm("U1").id)) == ""
    assert await adapter.sight(place("C404")) == ""
    slack.join("C2", "UBOT")
    await inbox.until(lambda: bool(inbox.reached))
    assert "mentions me" in await adapter.sight(place("C2"))
