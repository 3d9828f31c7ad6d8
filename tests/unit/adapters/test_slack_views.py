"""The sign that the bot is at work, in each of Slack's views, and what else they are told."""

from collections.abc import AsyncIterator

import anyio
import pytest

from adapters.base import Address
from adapters.doubles import RecordingInbox
from adapters.slack.adapter import SlackAdapter
from adapters.standins.slack import SlackStandin
from tests.unit.adapters.slack_stage import ADA, place, posts, serve, standin


@pytest.fixture
async def inbox() -> RecordingInbox:
    return RecordingInbox()


@pytest.fixture
async def slack(request: pytest.FixtureRequest) -> SlackStandin:
    return standin(view=getattr(request, "param", "classic"))


@pytest.fixture
async def adapter(slack: SlackStandin, inbox: RecordingInbox) -> AsyncIterator[SlackAdapter]:
    async with serve(slack, inbox) as made:
        yield made


in_agent_view = pytest.mark.parametrize("slack", ["agent"], indirect=True)
in_assistant_view = pytest.mark.parametrize("slack", ["assistant"], indirect=True)


async def said_directly(slack: SlackStandin, inbox: RecordingInbox, text: str, thread: str | None = None) -> Address:
    before = len(inbox.got)
    slack.say(slack.dm("U1"), "U1", text, thread_ts=thread)
    await inbox.until(lambda: len(inbox.got) > before)
    return inbox.got[-1].address


async def answer(adapter: SlackAdapter, address: Address, markdown: str = "answer") -> None:
    live = await adapter.open_live(address, key="k1:0", reply_to="", recipient=ADA)
    await live.show(markdown)
    await adapter.working(address, status="thinking…")
    await live.close()
    (post,) = posts(adapter, address, markdown, message_id=live.message_id)
    await adapter.deliver(post)


@pytest.mark.parametrize("slack", ["classic", "assistant", "agent"], indirect=True)
async def test_after_the_answer_nothing_says_any_more_that_the_bot_is_at_work(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    thread = place("C1", slack.say("C1", "U1", "<@UBOT> question"))
    direct = await said_directly(slack, inbox, "hello")
    for address in (thread, direct):
        await adapter.working(address, status="thinking…")
        await answer(adapter, address)
        await slack.wait_for(lambda s: not s.at_work)
    await slack.wait_for(lambda s: not any(shown.reactions for shown in s.messages(direct.chat)))


async def test_without_a_thread_the_newest_message_is_marked_until_the_work_is_done(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    for text in ("first", "second"):
        chat = await said_directly(slack, inbox, text)
    await adapter.working(chat, status="thinking…")
    assert [shown.reactions for shown in slack.messages(chat.chat)] == [(), ("eyes",)]
    await said_directly(slack, inbox, "third")
    await adapter.working(chat, status="reading…")
    await adapter.working(chat, status="")
    assert not any(shown.reactions for shown in slack.messages(chat.chat))


async def test_a_command_marks_no_message_that_it_has_nothing_to_do_with(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    chat = await said_directly(slack, inbox, "first")
    slack.command(chat.chat, "U1", "/reverie", "status")
    await inbox.until(lambda: len(inbox.got) == 2)
    await adapter.working(chat, status="thinking…")
    assert [shown.reactions for shown in slack.messages(chat.chat)] == [()]


async def test_a_sign_whose_caller_has_given_up_is_not_carried_out_after_it_was_cleared(
    slack: SlackStandin, adapter: SlackAdapter
) -> None:
    thread = place("C1", slack.say("C1", "U1", "<@UBOT> question"))
    slack.delay("assistant.threads.setStatus", 0.2)
    with anyio.move_on_after(0.05):
        await adapter.working(thread, status="thinking…")
    await adapter.working(thread, status="")
    assert [call.arguments["status"] for call in slack.calls if call.method == "assistant.threads.setStatus"] == [
        "thinking…",
        "",
    ]
    assert slack.at_work == []


async def test_nothing_is_cleared_where_nothing_was_shown(slack: SlackStandin, adapter: SlackAdapter) -> None:
    thread = place("C1", slack.say("C1", "U1", "question"))
    await adapter.working(thread, status="")
    (post,) = posts(adapter, thread, "answer")
    await adapter.deliver(post)
    assert {call.method for call in slack.calls} & {"assistant.threads.setStatus", "agents.sessions.setStatus"} == set()


@in_agent_view
async def test_in_the_agent_view_each_direct_message_begins_a_conversation_with_a_session_and_a_stream(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    one = await said_directly(slack, inbox, "How do I prune an apple tree without doing it any harm, in a cold spring?")
    other = await said_directly(slack, inbox, "and then", one.thread)
    assert one == other
    assert one.thread
    assert (await said_directly(slack, inbox, "something else")).thread not in {"", one.thread}
    await adapter.working(one, status="thinking…")
    session = slack.sessions[one.chat, one.thread]
    assert (session.status, session.title) == (
        "processing",
        "How do I prune an apple tree without doing it any harm, in…",
    )
    assert slack.statuses[one.chat, one.thread] == "thinking…"
    await answer(adapter, one)
    assert [call.method for call in slack.calls].count("chat.startStream") == 1
    await slack.wait_for(lambda s: s.sessions[one.chat, one.thread].status == "active")


@in_agent_view
async def test_in_the_agent_view_something_is_suggested_to_who_opens_it(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    slack.open_home("U1", tab="messages")
    await slack.wait_for(lambda s: s.workspace.prompts)
    ((place_, prompts),) = slack.workspace.prompts.items()
    assert place_ == (slack.dm("U1").id, "")
    assert 1 <= len(prompts) <= 4
    slack.command(slack.dm("U1"), "U1", "/reverie", "stop")
    await inbox.until(lambda: bool(inbox.got))
    assert not inbox.got[0].in_conversation


@in_assistant_view
async def test_in_the_assistant_view_a_thread_gets_suggestions_and_the_first_words_for_its_title(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    thread = slack.open_assistant("U1")
    await slack.wait_for(lambda s: s.workspace.prompts)
    for text in ("Plan  my\nweek", "and my month"):
        address = await said_directly(slack, inbox, text, thread)
    assert address.thread == thread
    await slack.wait_for(lambda s: not s.deliveries.pending)
    assert slack.workspace.titles == {(address.chat, thread): "Plan my week"}
    assert [call.method for call in slack.calls].count("assistant.threads.setTitle") == 1
    assert inbox.amendments == []


async def test_an_app_without_a_view_keeps_one_conversation_and_is_asked_once(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    places = {await said_directly(slack, inbox, text) for text in ("one", "two", "three")}
    assert {address.thread for address in places} == {""}
    assert [call.method for call in slack.calls].count("assistant.threads.setSuggestedPrompts") == 1


async def test_a_channel_has_its_title_and_a_person_their_language(
    slack: SlackStandin, adapter: SlackAdapter, inbox: RecordingInbox
) -> None:
    root = slack.say("C1", "U1", "<@UBOT> hello")
    slack.say("C1", "U2", "<@U1> not for the bot", thread_ts=root)
    await inbox.until(lambda: len(inbox.got) == 3)
    first, last = inbox.got[0], inbox.got[-1]
    assert (first.chat_title, first.language, first.addressed, first.for_another) == ("lab", "de-DE", True, False)
    assert (last.name, last.language, last.addressed, last.for_another) == ("bo", "zh-CN", False, True)
    assert last.address == first.address
    assert [call.method for call in slack.calls].count("conversations.info") == 1
