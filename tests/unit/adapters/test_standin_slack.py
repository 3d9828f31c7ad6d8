"""The Slack stand-in's Web API against the real slack-sdk client."""

from collections.abc import AsyncIterator, Awaitable
from typing import Any

import aiohttp
import anyio
import httpx
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.serving import serving
from adapters.standins.slack import SlackStandin
from adapters.standins.slack_values import AgentSession

STREAM: dict[str, Any] = {"channel": "C1", "recipient_team_id": "T1", "recipient_user_id": "U1"}


class Clock:
    def __init__(self) -> None:
        self.time = 1_690_000_000.0001

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def slack(clock: Clock) -> SlackStandin:
    standin = SlackStandin(now=clock)
    ada = standin.person(id="U1", name="ada", real_name="Ada L.", tz="Asia/Tokyo", locale="ja-JP")
    standin.channel(id="C1", name="lab", members=[ada])
    standin.channel(id="C2", name="elsewhere", members=[ada], bot_is_member=False)
    standin.dm(ada)
    return standin


@pytest.fixture
async def base(slack: SlackStandin) -> AsyncIterator[str]:
    async with serving(slack.app) as url:
        yield url


@pytest.fixture
async def client(base: str) -> AsyncWebClient:
    return AsyncWebClient(token="xoxb-stand-in", base_url=f"{base}/api/")


async def refusal(call: Awaitable[Any]) -> str:
    with pytest.raises(SlackApiError) as refused:
        await call
    return str(refused.value.response["error"])


async def test_the_bot_learns_who_it_is(client: AsyncWebClient) -> None:
    me = await client.auth_test()
    assert (me["team_id"], me["user_id"], me["bot_id"]) == ("T1", "UBOT", "BBOT")


async def test_a_wrong_token_is_refused(base: str) -> None:
    stranger = AsyncWebClient(token="xoxb-other", base_url=f"{base}/api/")
    assert await refusal(stranger.auth_test()) == "invalid_auth"
    assert await refusal(AsyncWebClient(base_url=f"{base}/api/").auth_test()) == "not_authed"


async def test_a_socket_is_opened_with_the_apps_token_only(client: AsyncWebClient) -> None:
    opened = await client.apps_connections_open(app_token="xapp-stand-in")
    assert str(opened["url"]).startswith("ws://127.0.0.1:")
    assert await refusal(client.apps_connections_open(app_token="xoxb-stand-in")) == "not_allowed_token_type"


async def test_an_unknown_method_and_an_unknown_parameter_show(client: AsyncWebClient, slack: SlackStandin) -> None:
    assert await refusal(client.api_call("chat.shout")) == "unknown_method"
    await client.chat_postMessage(channel="C1", text="hello", thread="1.2")
    assert slack.faults == ["chat.postMessage: unknown parameter thread"]


async def test_a_post_with_metadata_is_found_in_the_thread_only_if_asked_for(
    client: AsyncWebClient, slack: SlackStandin
) -> None:
    root = slack.say("C1", "U1", "question")
    key = {"event_type": "reply", "event_payload": {"key": "k1"}}
    await client.chat_postMessage(channel="C1", text="answer", thread_ts=root, metadata=key)
    plain = await client.conversations_replies(channel="C1", ts=root)
    asked = await client.conversations_replies(channel="C1", ts=root, include_all_metadata=True)
    assert [m["text"] for m in plain["messages"]] == ["question", "answer"]
    assert "metadata" not in plain["messages"][1]
    assert asked["messages"][1]["metadata"] == key


async def test_history_is_newest_first_in_pages_without_replies(client: AsyncWebClient, slack: SlackStandin) -> None:
    first, second, third = (slack.say("C1", "U1", text) for text in ("one", "two", "three"))
    slack.say("C1", "U1", "a reply", thread_ts=first)
    page = await client.conversations_history(channel="C1", limit=2)
    rest = await client.conversations_history(channel="C1", limit=2, cursor=page["response_metadata"]["next_cursor"])
    ranged = await client.conversations_history(channel="C1", oldest=first, latest=third)
    assert [[m["text"] for m in p["messages"]] for p in (page, rest)] == [["three", "two"], ["one"]]
    assert (page["has_more"], rest["has_more"]) == (True, False)
    assert [m["ts"] for m in ranged["messages"]] == [second]


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({"text": ""}, "no_text"),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"text": "a", "markdown_text": "b"}, "markdown_text_conflict"),
        ({"text": "a", "blocks": [_section("x" * 2_700)] * 5}, "msg_blocks_too_long"),
        ({"text": "a", "blocks": [_section("x" * 3_001)]}, "invalid_blocks"),
        ({"text": "a", "blocks": [_section("")]}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "divider", "block_id": "b"}] * 2}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "paragraph", "text": "b"}]}, "invalid_blocks"),
        ({"text": "a", "blocks": [{"type": "markdown", "text": "x" * 6_001}] * 2}, "invalid_blocks"),
        (
            {"text": "a", "blocks": [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}]},
            "invalid_blocks",
        ),
        ({"text": "a", "metadata": {"event_type": "x"}}, "invalid_metadata_schema"),
        ({"text": "a", "thread_ts": "1.000001"}, "thread_not_found"),
    ],
)
@pytest.mark.filterwarnings("ignore:The top-level `text` argument is missing")
async def test_what_slack_refuses_is_refused_and_not_posted(
    client: AsyncWebClient, slack: SlackStandin, content: dict[str, Any], error: str
) -> None:
    assert await refusal(client.chat_postMessage(channel="C1", **content)) == error
    assert slack.messages("C1") == []


async def test_the_largest_blocks_that_slack_takes_are_posted(client: AsyncWebClient, slack: SlackStandin) -> None:
    blocks = [_section("x" * 3_000), {"type": "markdown", "text": "y" * 9_000}]
    await client.chat_postMessage(channel="C1", text="x" * 40_000, blocks=blocks)
    assert slack.messages("C1")[0].blocks == blocks


async def test_posting_needs_a_channel_that_the_bot_is_in(client: AsyncWebClient) -> None:
    assert await refusal(client.chat_postMessage(channel="C9", text="a")) == "channel_not_found"
    assert await refusal(client.chat_postMessage(channel="C2", text="a")) == "not_in_channel"
    assert await refusal(client.conversations_history(channel="C2")) == "not_in_channel"
    await client.conversations_join(channel="C2")
    await client.chat_postMessage(channel="C2", text="a")


async def test_an_edit_replaces_the_text_and_keeps_the_metadata(client: AsyncWebClient, slack: SlackStandin) -> None:
    key = {"event_type": "reply", "event_payload": {"key": "k1"}}
    posted = await client.chat_postMessage(channel="C1", text="a", blocks=[_section("a")], metadata=key)
    await client.chat_update(channel="C1", ts=posted["ts"], text="b")
    [shown] = slack.messages("C1")
    assert (shown.text, shown.blocks, shown.metadata, shown.edited) == ("b", None, key, True)
    assert await refusal(client.chat_update(channel="C1", ts=posted["ts"], text="x" * 4_001)) == "msg_too_long"
    assert await refusal(client.chat_update(channel="C1", ts="1.000001", text="c")) == "message_not_found"


async def test_only_the_bots_own_messages_can_be_changed(client: AsyncWebClient, slack: SlackStandin) -> None:
    ts = slack.say("C1", "U1", "mine")
    assert await refusal(client.chat_update(channel="C1", ts=ts, text="b")) == "cant_update_message"
    assert await refusal(client.chat_delete(channel="C1", ts=ts)) == "cant_delete_message"
    own = await client.chat_postMessage(channel="C1", text="a")
    await client.chat_delete(channel="C1", ts=own["ts"])
    assert [m.ts for m in slack.messages("C1")] == [ts]


async def test_a_stream_shows_all_that_was_appended(client: AsyncWebClient, slack: SlackStandin) -> None:
    root = slack.say("C1", "U1", "question")
    stream = await client.chat_stream(
        channel="C1", thread_ts=root, recipient_team_id="T1", recipient_user_id="U1", buffer_size=1
    )
    await stream.append(markdown_text="one ")
    await stream.append(chunks=[{"type": "markdown_text", "text": "two "}])
    assert slack.messages("C1", root)[1].streaming
    assert await refusal(client.chat_update(channel="C1", ts=str(stream.ts), text="b")) == "streaming_state_conflict"
    await stream.stop(markdown_text="three", blocks=[{"type": "divider"}])
    shown = slack.messages("C1", root)[1]
    assert (shown.text, shown.blocks, shown.streaming) == ("one two three", [{"type": "divider"}], False)


async def test_a_stream_ends_by_itself_after_five_minutes(
    client: AsyncWebClient, slack: SlackStandin, clock: Clock
) -> None:
    root = slack.say("C1", "U1", "question")
    ts = str((await client.chat_startStream(thread_ts=root, markdown_text="a", **STREAM))["ts"])
    clock.time += 299
    await client.chat_appendStream(channel="C1", ts=ts, markdown_text="b")
    clock.time += 1
    lost = client.chat_appendStream(channel="C1", ts=ts, markdown_text="c")
    assert await refusal(lost) == "message_not_in_streaming_state"
    assert await refusal(client.chat_stopStream(channel="C1", ts=ts)) == "message_not_in_streaming_state"
    await client.chat_update(channel="C1", ts=ts, text="whole")
    assert slack.messages("C1", root)[1].text == "whole"


async def test_a_stream_in_a_channel_needs_a_thread_and_its_reader(client: AsyncWebClient, slack: SlackStandin) -> None:
    root, direct = slack.say("C1", "U1", "question"), slack.say("D1", "U1", "hi")
    start = client.chat_startStream
    assert await refusal(start(channel="C1", thread_ts=root)) == "missing_recipient_user_id"
    only_user = start(channel="C1", thread_ts=root, recipient_user_id="U1")
    assert await refusal(only_user) == "missing_recipient_team_id"
    assert await refusal(start(thread_ts="", **STREAM)) == "invalid_arguments"
    assert await refusal(start(thread_ts=root, markdown_text="x" * 12_001, **STREAM)) == "msg_too_long"
    assert await refusal(start(thread_ts=root, chunks=[{"type": "song"}], **STREAM)) == "invalid_chunks"
    await start(channel="D1", thread_ts=direct, markdown_text="in a direct message nobody need be named")


async def test_people_and_places_can_be_asked_for(client: AsyncWebClient) -> None:
    user = (await client.users_info(user="U1", include_locale=True))["user"]
    opened = (await client.conversations_open(users="U1", return_im=True))["channel"]
    info = (await client.conversations_info(channel="C1", include_num_members=True))["channel"]
    listed = (await client.conversations_list(types="public_channel,im"))["channels"]
    assert (user["tz"], user["locale"], user["profile"]["display_name"]) == ("Asia/Tokyo", "ja-JP", "ada")
    assert (opened["is_im"], opened["user"]) == (True, "U1")
    assert (info["name"], info["num_members"], info["is_member"]) == ("lab", 2, True)
    assert [c["id"] for c in listed] == ["C1", "C2", "D1"]
    assert (await client.conversations_members(channel="C1"))["members"] == ["U1", "UBOT"]
    assert await refusal(client.users_info(user="U9")) == "user_not_found"
    assert (await client.bots_info(bot="BBOT"))["bot"]["user_id"] == "UBOT"


async def test_a_file_is_uploaded_posted_and_read_back(client: AsyncWebClient, slack: SlackStandin) -> None:
    root = slack.say("C1", "U1", "question")
    done = await client.files_upload_v2(
        channel="C1", thread_ts=root, content="a,b", filename="t.csv", initial_comment="here"
    )
    info = (await client.files_info(file=done["file"]["id"]))["file"]
    url = info["url_private_download"]
    async with httpx.AsyncClient() as http:
        got = await http.get(url, headers={"Authorization": "Bearer xoxb-stand-in"})
        stranger = await http.get(url)
    assert (got.content, info["size"]) == (b"a,b", 3)
    assert (stranger.status_code, stranger.headers["content-type"][:9]) == (200, "text/html")
    assert slack.messages("C1", root)[1].text == "here"


async def test_a_stub_of_a_file_becomes_whole_by_asking(client: AsyncWebClient, slack: SlackStandin) -> None:
    file = slack.file("U1", "cat.png", b"png", mimetype="image/png", stub=True)
    slack.say("C1", "U1", "look", files=[file])
    event = slack.deliveries.pending[-1].payload["event"]
    assert (event["subtype"], event["files"][0]["file_access"]) == ("file_share", "check_file_info")
    assert (await client.files_info(file=file))["file"]["mimetype"] == "image/png"


async def test_both_agent_views_keep_what_is_set(client: AsyncWebClient, slack: SlackStandin) -> None:
    root = slack.open_assistant("U1")
    await client.assistant_threads_setStatus(channel_id="D1", thread_ts=root, status="is thinking")
    await client.assistant_threads_setSuggestedPrompts(
        channel_id="D1", thread_ts=root, prompts=[{"title": "a", "message": "b"}]
    )
    await client.assistant_threads_setTitle(channel_id="D1", thread_ts=root, title="Tea")
    await client.agents_sessions_setStatus(channel_id="D1", thread_ts=root, status="processing", title="Tea")
    assert slack.statuses == {("D1", root): "is thinking"}
    assert slack.sessions["D1", root].status == "processing"
    wrong = client.agents_sessions_setStatus(channel_id="D1", thread_ts=root, status="busy")
    assert await refusal(wrong) == "invalid_arguments"
    await client.chat_postMessage(channel="D1", thread_ts=root, text="done")
    assert slack.statuses == {}


async def test_a_home_view_a_reaction_and_a_word_to_one_person_are_kept(
    client: AsyncWebClient, slack: SlackStandin
) -> None:
    ts = slack.say("C1", "U1", "question")
    await client.reactions_add(channel="C1", name="eyes", timestamp=ts)
    assert await refusal(client.reactions_add(channel="C1", name="eyes", timestamp=ts)) == "already_reacted"
    assert slack.messages("C1")[0].reactions == ("eyes",)
    await client.views_publish(user_id="U1", view={"type": "home", "blocks": [_section("hello")]})
    await client.chat_postEphemeral(channel="C1", user="U1", text="psst")
    assert [(e["user"], e["text"]) for e in slack.ephemeral] == [("U1", "psst")]
    assert slack.faults == []


async def test_a_person_can_be_written_to_by_id(client: AsyncWebClient, slack: SlackStandin) -> None:
    posted = await client.chat_postMessage(channel="U1", text="hello")
    assert posted["channel"] == "D1"
    assert [m.text for m in slack.messages("D1")] == ["hello"]


async def test_an_answer_to_a_reply_goes_to_its_thread(client: AsyncWebClient, slack: SlackStandin) -> None:
    root = slack.say("C1", "U1", "question")
    reply = slack.say("C1", "U1", "and another", thread_ts=root)
    posted = await client.chat_postMessage(channel="C1", text="answer", thread_ts=reply)
    assert posted["message"]["thread_ts"] == root
    assert [m.text for m in slack.messages("C1", root)] == ["question", "and another", "answer"]


async def test_a_session_keeps_the_title_it_was_made_with_until_it_is_renamed(
    client: AsyncWebClient, slack: SlackStandin
) -> None:
    root = slack.say("C1", "U1", "question")
    early = client.agents_sessions_rename(channel_id="C1", thread_ts=root, title="Tea")
    assert await refusal(early) == "session_not_found"
    for status, title in (("processing", "Tea"), ("active", "Coffee")):
        await client.agents_sessions_setStatus(channel_id="C1", thread_ts=root, status=status, title=title)
    assert slack.sessions["C1", root] == AgentSession(status="active", title="Tea")
    await client.agents_sessions_rename(channel_id="C1", thread_ts=root, title="Coffee")
    assert slack.sessions["C1", root].title == "Coffee"


async def test_a_file_without_its_bytes_can_not_be_posted(client: AsyncWebClient, slack: SlackStandin) -> None:
    given = await client.files_getUploadURLExternal(filename="a.txt", length=3)
    post = client.files_completeUploadExternal
    async with httpx.AsyncClient() as http:
        assert (await http.post(str(given["upload_url"]), content=b"four")).status_code == 400
        unfinished = post(files=[{"id": given["file_id"], "title": "a"}], channel_id="C1")
        assert await refusal(unfinished) == "file_not_found"
        assert (await http.post(str(given["upload_url"]), content=b"abc")).text == "OK - 3"
    await post(files=[{"id": given["file_id"], "title": "a"}], channel_id="C1")
    assert [m.files for m in slack.messages("C1")] == [(given["file_id"],)]


# failures on demand


async def test_a_rate_limit_says_when_to_come_back(client: AsyncWebClient, slack: SlackStandin) -> None:
    slack.fail("chat.postMessage", times=2, retry_after=7)
    for _ in range(2):
        with pytest.raises(SlackApiError) as limited:
            await client.chat_postMessage(channel="C1", text="a")
        assert limited.value.response.status_code == 429
        assert limited.value.response.headers["Retry-After"] == "7"
    await client.chat_postMessage(channel="C1", text="a")
    assert len(slack.messages("C1")) == 1
    assert [call.ok for call in slack.calls] == [False, False, True]


async def test_a_lost_answer_leaves_the_message_posted(client: AsyncWebClient, slack: SlackStandin) -> None:
    slack.fail("chat.postMessage", status=502, after_acting=True)
    with pytest.raises(SlackApiError):
        await client.chat_postMessage(channel="C1", text="first")
    client.retry_handlers = []
    slack.fail("chat.postMessage", after_acting=True)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await client.chat_postMessage(channel="C1", text="second")
    slack.fail("chat.postMessage", status=0)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await client.chat_postMessage(channel="C1", text="third")
    assert [m.text for m in slack.messages("C1")] == ["first", "second"]


async def test_a_client_that_repeats_a_lost_post_has_posted_twice(client: AsyncWebClient, slack: SlackStandin) -> None:
    slack.fail("chat.postMessage", after_acting=True)
    await client.chat_postMessage(channel="C1", text="a")  # slack-sdk repeats it by default
    assert [m.text for m in slack.messages("C1")] == ["a", "a"]


async def test_a_refusal_and_a_delay_can_be_ordered(client: AsyncWebClient, slack: SlackStandin) -> None:
    slack.fail("chat.postMessage", status=200, error="is_archived")
    assert await refusal(client.chat_postMessage(channel="C1", text="a")) == "is_archived"
    slack.delay("chat.postMessage", 30)
    with anyio.move_on_after(0.2):
        await client.chat_postMessage(channel="C1", text="a")
    assert slack.messages("C1") == []


async def test_all_blocks_of_a_message_count_in_bytes(client: AsyncWebClient) -> None:
    fits, too_long = ([_section("大" * 1000) for _ in range(count)] for count in (4, 5))
    await client.chat_postMessage(channel="C1", text="x", blocks=fits)
    assert await refusal(client.chat_postMessage(channel="C1", text="x", blocks=too_long)) == "msg_blocks_too_long"


@pytest.mark.parametrize(
    "button",
    [
        {"text": {"type": "plain_text", "text": "x" * 76}},
        {"text": {"type": "mrkdwn", "text": "x"}},
        {"text": {"type": "plain_text", "text": "x"}, "value": "v" * 2001},
        {"text": {"type": "plain_text", "text": "x"}, "action_id": "a" * 256},
    ],
)
async def test_a_button_that_slack_has_no_room_for_is_refused(client: AsyncWebClient, button: dict[str, Any]) -> None:
    row = [{"type": "actions", "elements": [{"type": "button", **button}]}]
    assert await refusal(client.chat_postMessage(channel="C1", text="x", blocks=row)) == "invalid_blocks"


async def test_tasks_of_a_stream_show_in_their_newest_state(client: AsyncWebClient, slack: SlackStandin) -> None:
    thread = slack.say("C1", "U1", "question")
    task = {"type": "task_update", "id": "1", "title": "reading"}
    began = await client.chat_startStream(**STREAM, thread_ts=thread, chunks=[{**task, "status": "pending"}])
    done = [{**task, "status": "complete"}, {"type": "markdown_text", "text": "so"}]
    await client.chat_appendStream(channel="C1", ts=began["ts"], chunks=done)
    shown = slack.messages("C1", thread)[-1]
    assert (shown.text, [(each["id"], each["status"]) for each in shown.tasks]) == ("so", [("1", "complete")])
    for odd in ({"status": "done"}, {"status": "complete", "id": ""}, {"status": "complete", "title": "x" * 257}):
        call = client.chat_appendStream(channel="C1", ts=began["ts"], chunks=[{**task, **odd}])
        assert await refusal(call) == "invalid_chunks"


async def test_a_channel_that_is_posted_to_too_fast_must_wait_and_others_need_not(
    client: AsyncWebClient, slack: SlackStandin, clock: Clock
) -> None:
    slack.limit("chat.postMessage", per_second=0.5, burst=2)
    for _ in range(2):
        await client.chat_postMessage(channel="C1", text="x")
    with pytest.raises(SlackApiError) as refused:
        await client.chat_postMessage(channel="C1", text="x")
    assert (refused.value.response.status_code, refused.value.response.headers["Retry-After"]) == (429, "2")
    await client.chat_postMessage(channel=slack.dm("U1").id, text="x")
    clock.time += 2
    await client.chat_postMessage(channel="C1", text="x")
    assert len(slack.messages("C1")) == 3


async def test_a_scope_that_the_token_lacks_is_named_and_files_turn_into_a_page(
    base: str, client: AsyncWebClient, slack: SlackStandin
) -> None:
    file = await client.files_info(file=slack.file("U1", "a.png", b"bytes"))
    slack.withhold("files:read", "reactions:write")
    with pytest.raises(SlackApiError) as refused:
        await client.reactions_add(channel="C1", timestamp="1.1", name="eyes")
    assert (refused.value.response["error"], refused.value.response["needed"]) == ("missing_scope", "reactions:write")
    async with httpx.AsyncClient(headers={"Authorization": "Bearer xoxb-stand-in"}) as http:
        answer = await http.get(file["file"]["url_private"])
    assert (answer.status_code, answer.text[:9]) == (200, "<!DOCTYPE")
    assert slack.downloads == [("a.png", True)]


async def test_where_a_file_was_shared_is_told_by_asking_only(client: AsyncWebClient, slack: SlackStandin) -> None:
    sent = await client.files_upload_v2(content=b"bytes", filename="a.txt", channel="C1")
    assert "shares" not in sent["files"][0]
    asked = await client.files_info(file=sent["files"][0]["id"])
    assert asked["file"]["shares"] == {"public": {"C1": [{"ts": slack.messages("C1")[0].ts}]}}


@pytest.mark.parametrize(
    ("view", "threadless", "kept"), [("classic", False, 1), ("assistant", False, 1), ("agent", True, 0)]
)
async def test_suggestions_belong_to_a_thread_in_one_view_and_to_none_in_the_other(
    client: AsyncWebClient, slack: SlackStandin, view: Any, threadless: bool, kept: int
) -> None:
    slack.workspace.view = view
    dm = slack.dm("U1")
    given: dict[str, Any] = {"channel_id": dm.id, "prompts": [{"title": "a", "message": "b"}]}
    await client.assistant_threads_setSuggestedPrompts(**given, thread_ts=slack.say(dm, "U1", "hello"))
    assert len(slack.workspace.prompts) == kept
    call = client.assistant_threads_setSuggestedPrompts(**given)
    if threadless:
        await call
        assert list(slack.workspace.prompts) == [(dm.id, "")]
    else:
        assert await refusal(call) == "invalid_thread_ts"


async def test_a_bot_is_at_work_until_it_says_that_it_is_not(client: AsyncWebClient, slack: SlackStandin) -> None:
    one, other = (slack.say("C1", "U1", text) for text in ("one", "other"))
    await client.assistant_threads_setStatus(channel_id="C1", thread_ts=one, status="thinking…")
    await client.agents_sessions_setStatus(channel_id="C1", thread_ts=other, status="processing")
    await client.chat_postMessage(channel="C1", thread_ts=other, text="answer")
    assert slack.at_work == [("C1", one), ("C1", other)]
    await client.assistant_threads_setStatus(channel_id="C1", thread_ts=one, status="")
    await client.agents_sessions_setStatus(channel_id="C1", thread_ts=other, status="active")
    assert slack.at_work == []
