"""What the Slack stand-in sends: events by Socket Mode, to the real clients, and by signed HTTP requests."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import anyio
import httpx
import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from adapters.serving import serving
from adapters.standins.slack import SlackStandin

SECRET = "a-signing-secret"
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
    standin = SlackStandin(signing_secret=SECRET, ack_timeout=60, retry_delays=(0.01, 0.01), now=clock)
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


Handle = Callable[[SocketModeClient, SocketModeRequest], Awaitable[None]]


@contextlib.asynccontextmanager
async def socket_of(base: str, handle: Handle) -> AsyncIterator[SocketModeClient]:
    web = AsyncWebClient(base_url=f"{base}/api/")
    socket = SocketModeClient(app_token="xapp-stand-in", web_client=web, ping_interval=0.2)
    socket.socket_mode_request_listeners.append(handle)  # type: ignore[arg-type]
    await socket.connect()  # type: ignore[no-untyped-call]
    try:
        yield socket
    finally:
        await socket.close()  # type: ignore[no-untyped-call]


def events(slack: SlackStandin) -> list[dict[str, Any]]:
    return [envelope.payload["event"] for envelope in slack.deliveries.pending]


@pytest.mark.parametrize("order", ["message_first", "mention_first"])
async def test_a_mention_causes_two_events_of_one_timestamp(slack: SlackStandin, order: Any) -> None:
    slack.mention_order = order
    ts = slack.say("C1", "U1", "<@UBOT> hello")
    types = [event["type"] for event in events(slack)]
    assert types == (["message", "app_mention"] if order == "message_first" else ["app_mention", "message"])
    assert {(event["channel"], event["ts"]) for event in events(slack)} == {("C1", ts)}
    assert len({envelope.payload["event_id"] for envelope in slack.deliveries.pending}) == 2


async def test_a_direct_message_causes_one_event(slack: SlackStandin) -> None:
    slack.say("D1", "U1", "<@UBOT> hello")
    slack.say("C2", "U1", "<@UBOT> you are not here")
    [event] = events(slack)
    assert (event["type"], event["channel_type"], event["user"]) == ("message", "im", "U1")


async def test_what_is_not_a_new_message_comes_as_a_subtype(client: AsyncWebClient, slack: SlackStandin) -> None:
    ts = slack.say("C1", "U1", "helo")
    slack.edit("C1", ts, "hello")
    slack.unfurl("C1", ts, "https://example.org")
    slack.delete("C1", ts)
    slack.join("C1", slack.person(id="U2", name="bob"))
    posted = await client.chat_postMessage(channel="C1", text="a")
    await client.chat_update(channel="C1", ts=posted["ts"], text="b")
    seen = [(e["type"], e.get("subtype", "")) for e in events(slack)]
    assert seen == [
        ("message", ""),
        ("message", "message_changed"),
        ("message", "message_changed"),
        ("message", "message_deleted"),
        ("message", "channel_join"),
        ("member_joined_channel", ""),
        ("message", ""),
        ("message", "message_changed"),
    ]
    assert events(slack)[6]["bot_id"] == events(slack)[7]["message"]["bot_id"] == "BBOT"


async def test_a_message_is_passed_on_with_its_author_and_a_stub_of_a_file_without_its_name(
    slack: SlackStandin,
) -> None:
    rain = slack.say("C1", "U1", "rain")
    file = slack.file("U1", "a.png", b"x", mimetype="image/png", stub=True)
    slack.say("C1", "U1", "see", shares=rain, files=[file])
    *_, event = events(slack)
    (shared,) = event["attachments"]
    assert (shared["is_share"], shared["author_id"], shared["text"]) == (True, "U1", "rain")
    assert event["files"] == [{"id": file, "mode": "file_access", "file_access": "check_file_info"}]


async def test_a_bot_is_told_where_it_was_taken_out_and_what_was_archived(slack: SlackStandin) -> None:
    slack.archive("C1")
    slack.archive("C1", back=True)
    slack.leave("C1", "U1")
    slack.leave("C1", "UBOT")
    slack.say("C2", "U1", "not for the bot")
    assert [event["type"] for event in events(slack)] == [
        "channel_archive",
        "channel_unarchive",
        "member_left_channel",
        "channel_left",
    ]


async def test_the_title_of_an_assistants_thread_comes_as_a_change(client: AsyncWebClient, slack: SlackStandin) -> None:
    thread = slack.open_assistant("U1")
    await client.assistant_threads_setTitle(channel_id="D1", thread_ts=thread, title="Rain")
    changed = events(slack)[-1]
    assert (changed["subtype"], changed["message"]["subtype"]) == ("message_changed", "assistant_app_thread")
    assert (changed["message"]["text"], "edited" in changed["message"]) == ("Rain", True)


async def test_timestamps_are_unique_and_rise_with_the_clock(slack: SlackStandin, clock: Clock) -> None:
    first, second = slack.say("C1", "U1", "a"), slack.say("C1", "U1", "b")
    clock.time += 60
    assert [first, second, slack.say("C1", "U1", "c")] == [
        "1690000000.000100",
        "1690000000.000200",
        "1690000060.000100",
    ]


# Socket Mode


async def test_bolt_gets_mentions_and_its_answer_shows_in_the_thread(
    client: AsyncWebClient, base: str, slack: SlackStandin
) -> None:
    app = AsyncApp(client=client)
    app.event("message")(_nothing)

    async def answer(event: dict[str, Any], say: Any) -> None:
        await say(text=f"heard {event['text']}", thread_ts=event["ts"])

    app.event("app_mention")(answer)
    handler = AsyncSocketModeHandler(app, "xapp-stand-in", web_client=client)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    try:
        ts = slack.say("C1", "U1", "<@UBOT> tea")
        await slack.wait_for(lambda s: len(s.messages("C1", ts)) == 2)
        await slack.wait_for(lambda s: not s.deliveries.pending)  # also the bot's own message is acknowledged
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
    assert slack.messages("C1", ts)[1].text == "heard <@UBOT> tea"
    assert slack.deliveries.lost == []


async def _nothing() -> None:
    return None


async def test_an_event_without_acknowledgement_is_sent_again(base: str, slack: SlackStandin) -> None:
    seen: list[SocketModeRequest] = []

    async def late(socket: SocketModeClient, request: SocketModeRequest) -> None:
        seen.append(request)
        if len(seen) == 2:
            await socket.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    slack.deliveries.ack_timeout = 0.2
    async with socket_of(base, late):
        slack.say("C1", "U1", "hello")
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
    assert [(r.retry_attempt, r.retry_reason) for r in seen[:2]] == [(0, ""), (1, "timeout")]
    assert seen[0].payload == seen[1].payload
    assert slack.deliveries.pending == []


async def test_an_event_waits_for_an_app_that_was_killed_and_started_again(base: str, slack: SlackStandin) -> None:
    got = anyio.Event()

    async def die(_: SocketModeClient, __: SocketModeRequest) -> None:
        got.set()

    slack.say("C1", "U1", "hello")
    async with socket_of(base, die):
        await got.wait()
    again: list[SocketModeRequest] = []
    async with socket_of(base, _acknowledging(again)):
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
    assert [(r.payload["event"]["text"], r.retry_attempt) for r in again] == [("hello", 1)]


def _acknowledging(into: list[SocketModeRequest]) -> Handle:
    async def handle(socket: SocketModeClient, request: SocketModeRequest) -> None:
        into.append(request)
        await socket.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    return handle


async def test_what_a_closed_socket_held_goes_to_another_at_once(
    client: AsyncWebClient, base: str, slack: SlackStandin
) -> None:
    slack.deliveries.ack_timeout = 60
    url = str((await client.apps_connections_open(app_token="xapp-stand-in"))["url"])
    taken: list[SocketModeRequest] = []
    async with aiohttp.ClientSession() as session:
        dying = await session.ws_connect(url)
        slack.say("C1", "U1", "hello")
        assert [(await dying.receive_json())["type"] for _ in range(2)] == ["hello", "events_api"]
        async with socket_of(base, _acknowledging(taken)):
            await slack.wait_for(lambda s: s.deliveries.sockets == 2)
            await dying.close()
            await slack.wait_for(lambda s: s.deliveries.acknowledged)
    assert [(r.retry_attempt, r.retry_reason) for r in taken] == [(1, "connection_closed")]


async def test_an_event_that_was_given_enough_tries_rests_until_a_socket_connects(
    base: str, slack: SlackStandin
) -> None:
    seen: list[SocketModeRequest] = []

    async def deaf(_: SocketModeClient, request: SocketModeRequest) -> None:
        seen.append(request)

    slack.deliveries.ack_timeout = 0.05
    async with socket_of(base, deaf):
        slack.say("C1", "U1", "hello")
        await slack.wait_for(lambda _: len(seen) == 3)
        await anyio.sleep(0.2)
        again: list[SocketModeRequest] = []
        assert len(seen) == 3
    slack.deliveries.ack_timeout = 60
    async with socket_of(base, _acknowledging(again)):
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
    assert [r.retry_attempt for r in seen + again] == [0, 1, 2, 3]


async def test_of_several_sockets_each_event_goes_to_one(base: str, slack: SlackStandin) -> None:
    one: list[SocketModeRequest] = []
    other: list[SocketModeRequest] = []
    async with socket_of(base, _acknowledging(one)), socket_of(base, _acknowledging(other)):
        await slack.wait_for(lambda s: s.deliveries.sockets == 2)
        for number in range(6):
            slack.say("C1", "U1", str(number))
        await slack.wait_for(lambda s: len(s.deliveries.acknowledged) == 6)
    assert (len(one), len(other)) == (3, 3)
    assert {r.payload["event"]["text"] for r in one + other} == set("012345")


async def test_a_client_comes_back_after_its_socket_was_dropped_or_refreshed(base: str, slack: SlackStandin) -> None:
    seen: list[SocketModeRequest] = []
    async with socket_of(base, _acknowledging(seen)):
        await slack.wait_for(lambda s: s.deliveries.connected_in_all == 1)
        await slack.drop_sockets()
        await slack.wait_for(lambda s: s.deliveries.connected_in_all >= 2 and s.deliveries.sockets == 1)
        before = slack.deliveries.connected_in_all
        await slack.refresh_sockets()
        await slack.wait_for(lambda s: s.deliveries.connected_in_all > before)
        slack.say("C1", "U1", "still there?")
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
    assert seen


async def test_a_ticket_opens_one_socket(client: AsyncWebClient) -> None:
    url = str((await client.apps_connections_open(app_token="xapp-stand-in"))["url"])
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(url) as socket:
            assert (await socket.receive_json())["type"] == "hello"
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(url)


async def test_a_command_and_a_button_reach_bolt_and_are_answered(client: AsyncWebClient, slack: SlackStandin) -> None:
    app = AsyncApp(client=client)
    app.event("message")(_nothing)

    async def status(ack: Any, respond: Any, command: dict[str, Any]) -> None:
        await ack(f"you asked {command['text']}")
        await respond(text="all well", response_type="in_channel")

    async def pressed(ack: Any, respond: Any, action: dict[str, Any]) -> None:
        await ack()
        await respond(text=f"chose {action['value']}", replace_original=False)

    app.command("/status")(status)
    app.action("yes")(pressed)
    handler = AsyncSocketModeHandler(app, "xapp-stand-in", web_client=client)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    try:
        slack.command("C1", "U1", "/status", "how")
        await slack.wait_for(lambda s: [m.text for m in s.messages("C1")] == ["all well"])
        button = {
            "type": "button",
            "action_id": "yes",
            "value": "y",
            "text": {"type": "plain_text", "text": "Y"},
        }
        blocks = [{"type": "actions", "elements": [button]}]
        posted = await client.chat_postMessage(channel="C1", text="sure?", blocks=blocks)
        slack.press("C1", "U1", str(posted["ts"]), "yes")
        await slack.wait_for(lambda s: len(s.ephemeral) == 2)
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
    assert [e["text"] for e in slack.ephemeral] == ["you asked how", "chose y"]


async def test_a_command_is_not_sent_again(base: str, slack: SlackStandin) -> None:
    seen: list[SocketModeRequest] = []

    async def deaf(_: SocketModeClient, request: SocketModeRequest) -> None:
        seen.append(request)

    slack.deliveries.ack_timeout = 0.2
    async with socket_of(base, deaf):
        slack.command("C1", "U1", "/status")
        await slack.wait_for(lambda s: s.deliveries.lost)
    assert len(seen) == 1
    assert (seen[0].accepts_response_payload, seen[0].retry_attempt) == (True, None)


async def test_the_stop_button_ends_the_stream_and_tells_the_app(client: AsyncWebClient, slack: SlackStandin) -> None:
    root = slack.say("C1", "U1", "question")
    ts = str((await client.chat_startStream(thread_ts=root, markdown_text="a", **STREAM))["ts"])
    slack.press_stop("C1", "U1", root)
    stopped = events(slack)[-1]
    assert (stopped["type"], stopped["streaming_message_ts"]) == ("agent_session_stopped", [ts])
    assert await refusal(client.chat_appendStream(channel="C1", ts=ts, markdown_text="b")) == "stopped_by_user"


# Events over HTTP


class Receiver:
    """An app that takes events over HTTP and checks who sent them."""

    def __init__(self, answers: list[int], **headers: str) -> None:
        self.answers, self.headers = answers, headers
        self.taken: list[tuple[str | None, str | None, dict[str, Any]]] = []
        self.app = Starlette(routes=[Route("/slack/events", self.take, methods=["POST"])])

    async def take(self, request: Request) -> Response:
        body = await request.body()
        assert SignatureVerifier(SECRET).is_valid_request(body, dict(request.headers))
        event = json.loads(body)
        if event["type"] == "url_verification":
            return PlainTextResponse(event["challenge"])
        retry = request.headers.get("x-slack-retry-num"), request.headers.get("x-slack-retry-reason")
        self.taken.append((*retry, event))
        return Response(status_code=self.answers.pop(0), headers=self.headers)


async def test_signed_events_over_http_are_sent_again_until_they_are_taken(base: str, slack: SlackStandin) -> None:
    receiver = Receiver([500, 200])
    async with serving(receiver.app) as there:
        assert await slack.use_events_url(f"{there}/slack/events")
        slack.say("C1", "U1", "hello")
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
    assert [taken[:2] for taken in receiver.taken] == [(None, None), ("1", "http_error")]
    assert receiver.taken[0][2] == receiver.taken[1][2]


async def test_an_event_that_nobody_takes_is_given_up_after_the_last_retry(base: str, slack: SlackStandin) -> None:
    receiver = Receiver([500] * 9)
    async with serving(receiver.app) as there:
        await slack.use_events_url(f"{there}/slack/events")
        slack.say("C1", "U1", "hello")
        await slack.wait_for(lambda s: s.deliveries.lost)
    assert len(receiver.taken) == 3


async def test_an_app_can_ask_not_to_be_sent_an_event_again(base: str, slack: SlackStandin) -> None:
    receiver = Receiver([500] * 9, **{"x-slack-no-retry": "1"})
    async with serving(receiver.app) as there:
        await slack.use_events_url(f"{there}/slack/events")
        slack.say("C1", "U1", "hello")
        await slack.wait_for(lambda s: s.deliveries.lost)
    assert len(receiver.taken) == 1


async def test_a_url_that_does_not_answer_the_challenge_is_not_used(base: str, slack: SlackStandin) -> None:
    async with serving(Starlette()) as there:
        assert not await slack.use_events_url(f"{there}/slack/events")
    assert slack.deliveries.events_url == ""


# the control API


async def test_another_process_can_play_the_people(base: str, client: AsyncWebClient) -> None:
    async with httpx.AsyncClient(base_url=f"{base}/control") as control:
        await control.post("/person", json={"id": "U7", "name": "eve"})
        await control.post("/channel", json={"id": "C7", "name": "den", "members": ["U7"]})
        said = (await control.post("/say", json={"channel": "C7", "person": "U7", "text": "hi"})).json()
        await control.post("/fail", json={"method": "chat.postMessage", "status": 200, "error": "fatal_error"})
        assert await refusal(client.chat_postMessage(channel="C7", text="a")) == "fatal_error"
        await client.chat_postMessage(channel="C7", text="answer", thread_ts=said["ts"])
        shown = (await control.get("/messages", params={"channel": "C7"})).json()
        calls = (await control.get("/calls", params={"method": "chat.postMessage"})).json()
        state = (await control.get("/state")).json()
        wrong = await control.post("/say", json={"channel": "C0", "person": "U7", "text": "hi"})
    assert [(m["text"], m["thread_ts"]) for m in shown] == [("hi", ""), ("answer", said["ts"])]
    assert [call["arguments"]["text"] for call in calls] == ["a", "answer"]
    assert (state["pending"], state["sockets"], wrong.status_code) == (2, 0, 400)


@pytest.mark.parametrize(
    ("order", "body", "said"),
    [
        ("say", b'{"channel": "C1"}', "say needs person and text"),
        ("person", b"{}", "person needs id and name"),
        ("say", b'{"channel": "C0", "person": "U1", "text": "a"}', "there is no C0 here"),
        ("say", b"oops", "the body is no JSON"),
        ("say", b"[]", "the body is no JSON object"),
    ],
)
async def test_an_order_that_cannot_be_followed_says_what_is_missing_and_how_it_looks(
    base: str, order: str, body: bytes, said: str
) -> None:
    async with httpx.AsyncClient(base_url=f"{base}/control") as control:
        wrong = await control.post(f"/{order}", content=body)
        assert (wrong.status_code, said in wrong.json()["error"]) == (400, True), wrong.text
        assert "needs" not in (await control.post(f"/{order}", json=wrong.json()["example"])).text


async def test_another_process_can_press_a_button_stop_an_answer_and_set_a_rate(
    base: str, client: AsyncWebClient, slack: SlackStandin
) -> None:
    button = {"type": "button", "text": {"type": "plain_text", "text": "Yes"}, "action_id": "yes", "value": "1"}
    posted = await client.chat_postMessage(
        channel="C1", text="Sure?", blocks=[{"type": "actions", "elements": [button]}]
    )
    ts = posted["ts"]
    async with httpx.AsyncClient(base_url=f"{base}/control") as http:
        await http.post("/press", json={"channel": "C1", "person": "U1", "ts": ts, "action_id": "yes"})
        await http.post("/stop", json={"channel": "C1", "person": "U1", "thread_ts": ts})
        await http.post("/limit", json={"method": "chat.postMessage", "per_second": 0.1})
    pressed, stopped = slack.deliveries.pending[-2:]
    assert (pressed.kind, pressed.payload["actions"][0]["value"]) == ("interactive", "1")
    assert stopped.payload["event"]["type"] == "agent_session_stopped"
    await client.chat_postMessage(channel="C1", text="x")
    assert await refusal(client.chat_postMessage(channel="C1", text="x")) == "ratelimited"


async def test_waiting_in_vain_says_what_there_was(slack: SlackStandin) -> None:
    slack.say("C1", "U1", "hello")
    with pytest.raises(TimeoutError, match="0 sockets, 1 pending"):
        await slack.wait_for(lambda s: s.calls, timeout=0.01)
