"""The Slack adapter against the stand-in, over real HTTP and a real socket."""

import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import anyio
import httpx
import pytest
from pydantic import SecretStr
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from starlette.applications import Starlette
from structlog.testing import capture_logs

from adapters.base import Account, Address, ChatKind, Identity, Inbound, Outbound
from adapters.doubles import RecordingInbox
from adapters.errors import Misconfigured, Permanent, Transient, Unsure
from adapters.serving import serving
from adapters.slack.adapter import SlackAdapter
from adapters.slack.connection import open_socket
from adapters.slack.sdk_log import sdk_logger
from adapters.slack.settings import Pace, SlackSettings
from adapters.standins.slack import SlackStandin
from tests.waiting import HANGS, until

SECRET = "stand-in-signing-secret"
PACE = Pace(ping_every=5, name_within=HANGS, connect_within=HANGS, drain_within=HANGS)
HASTY = replace(PACE, name_within=0.1, connect_within=2)
WATCHFUL = replace(PACE, ping_every=0.2)  # on a slow machine it also takes a live socket for dead, now and then
LONG_AGO = timedelta(hours=1)


class Inbox(RecordingInbox):
    """While `gate` is closed, a put waits."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = anyio.Event()
        self.gate = anyio.Event()
        self.gate.set()

    async def put(self, inbound: Inbound) -> None:
        self.begun.set()
        await self.gate.wait()
        await super().put(inbound)

    async def messages(self, count: int = 1) -> list[Inbound]:
        with anyio.fail_after(HANGS):
            await self.first(count)
        return self.got


@pytest.fixture
async def slack() -> SlackStandin:
    standin = SlackStandin(ack_timeout=60, retry_delays=(0.01, 0.05, 0.05))
    ada = standin.person(id="U1", name="ada", real_name="Ada L.")
    standin.channel(id="C1", name="lab", members=[ada])
    standin.channel(id="C2", name="elsewhere", members=[ada], bot_is_member=False)
    return standin


@pytest.fixture
async def api(slack: SlackStandin) -> AsyncIterator[str]:
    async with serving(slack.app) as url:
        yield f"{url}/api/"


@pytest.fixture
async def inbox() -> Inbox:
    return Inbox()


def settings(api: str, *, bot: str = "xoxb-stand-in", app: str | None = "xapp-stand-in") -> SlackSettings:
    return SlackSettings(
        bot_token=SecretStr(bot),
        app_token=SecretStr(app) if app else None,
        signing_secret=SecretStr(SECRET),
        api_url=api,
    )


@pytest.fixture
async def adapter(slack: SlackStandin, api: str, inbox: Inbox) -> AsyncIterator[SlackAdapter]:
    made = SlackAdapter(settings(api), pace=PACE)
    async with made.serve(inbox):
        yield made
    assert slack.faults == []


@contextlib.asynccontextmanager
async def over_http(slack: SlackStandin, api: str, inbox: Inbox) -> AsyncIterator[SlackAdapter]:
    made = SlackAdapter(settings(api, app=None), pace=PACE)
    async with made.serve(inbox), serving(Starlette(routes=list(made.routes()))) as url:
        assert await slack.use_events_url(f"{url}/slack/events")
        yield made


@contextlib.asynccontextmanager
async def by(transport: str, slack: SlackStandin, api: str, inbox: Inbox) -> AsyncIterator[SlackAdapter]:
    if transport == "http":
        async with over_http(slack, api, inbox) as made:
            yield made
    else:
        made = SlackAdapter(settings(api), pace=PACE)
        async with made.serve(inbox):
            yield made


both = pytest.mark.parametrize("transport", ["socket", "http"])
THREAD = Address(platform="slack", workspace="T1", chat="C1", thread="1.1")


def post(address: Address, key: str, markdown: str = "**hi** <@U1>", message_id: str = "") -> Outbound:
    part = SlackAdapter(settings("http://127.0.0.1:9/api/")).render(markdown)[0]
    return Outbound(address=address, key=key, part=part, message_id=message_id)


# in


@both
async def test_a_mention_comes_in_once_per_event_with_one_id(
    transport: str, slack: SlackStandin, api: str, inbox: Inbox
) -> None:
    async with by(transport, slack, api, inbox):
        ts = slack.say("C1", "U1", "<@UBOT> hello &amp; welcome")
        one, other = await inbox.messages(2)
        assert one == other
        assert (one.text, one.name, one.addressed) == ("hello & welcome", "ada", True)
        assert str(one.address) == f"slack:T1/C1/{ts}"
        assert (one.external_id, str(one.account)) == (f"T1:C1:{ts}", "slack:T1/U1")


@both
async def test_an_event_is_acknowledged_only_after_it_was_put(
    transport: str, slack: SlackStandin, api: str, inbox: Inbox
) -> None:
    async with by(transport, slack, api, inbox):
        inbox.gate = anyio.Event()
        slack.say(slack.dm("U1"), "U1", "hello")
        await inbox.begun.wait()
        await anyio.sleep(0.1)
        assert (len(slack.deliveries.acknowledged), len(slack.deliveries.pending)) == (0, 1)
        inbox.gate.set()
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
        assert len(inbox.got) == 1


@both
async def test_an_event_that_could_not_be_put_comes_again(
    transport: str, slack: SlackStandin, api: str, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    inbox.broken = 1
    slack.deliveries.ack_timeout = 1 if transport == "socket" else 60
    async with by(transport, slack, api, inbox):
        slack.say(slack.dm("U1"), "U1", "hello")
        (inbound, *_) = await inbox.messages()
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
        assert (inbound.text, inbound.kind) == ("hello", ChatKind.PRIVATE)
        assert slack.deliveries.acknowledged[0].attempts > 1
    assert "secret words" not in caplog.text


@both
async def test_edits_and_the_bots_own_posts_are_acknowledged_and_ignored(
    transport: str, slack: SlackStandin, api: str, inbox: Inbox
) -> None:
    async with by(transport, slack, api, inbox) as adapter:
        ts = slack.say("C1", "U1", "first")
        slack.edit("C1", ts, "second")
        reply = Address(platform="slack", workspace="T1", chat="C1", thread=ts)
        await adapter.deliver(post(reply, "k1"))
        slack.say("C1", "U1", "last")
        await inbox.messages(2)
        await slack.wait_for(lambda s: not s.deliveries.pending)
        assert [inbound.text for inbound in inbox.got] == ["first", "last"]
        assert slack.deliveries.lost == []


@both
async def test_an_event_that_nobody_asked_for_is_acknowledged(
    transport: str, slack: SlackStandin, api: str, inbox: Inbox
) -> None:
    async with by(transport, slack, api, inbox):
        event = {"type": "emoji_changed", "event_ts": "1.1"}
        slack.deliveries.add(
            "events_api", {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event}
        )
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
    assert inbox.got == []


@both
async def test_an_event_of_another_workspace_is_not_taken_for_ours(
    transport: str, slack: SlackStandin, api: str, inbox: Inbox
) -> None:
    async with by(transport, slack, api, inbox):
        event = {"type": "message", "channel": "C1", "user": "U1", "ts": "1.1", "text": "x"}
        slack.deliveries.add(
            "events_api", {"type": "event_callback", "team_id": "T2", "event_id": "Ev1", "event": event}
        )
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
    assert inbox.got == []


async def test_what_somebody_of_another_workspace_says_in_a_shared_channel_is_heard_as_theirs(
    slack: SlackStandin, adapter: SlackAdapter, inbox: Inbox
) -> None:
    event = {"type": "app_mention", "channel": "C1", "user": "U9", "user_team": "T2", "ts": "1.1", "text": "<@UBOT> x"}
    outer = {"type": "event_callback", "team_id": "T2", "context_team_id": "T1", "event_id": "Ev1"}
    slack.deliveries.add("events_api", {**outer, "event": event})
    (inbound,) = await inbox.messages()
    assert (str(inbound.account), str(inbound.address)) == ("slack:T2/U9", "slack:T1/C1/1.1")


@both
async def test_a_slash_command_is_a_text_command(transport: str, slack: SlackStandin, api: str, inbox: Inbox) -> None:
    async with by(transport, slack, api, inbox):
        slack.command("C1", "U1", "/reverie", "status")
        (inbound,) = await inbox.messages()
        await slack.wait_for(lambda s: s.deliveries.acknowledged)
        assert (inbound.text, inbound.name, str(inbound.address)) == ("/status", "ada", "slack:T1/C1")


ODD = [{"thread_ts": "1/1"}, {"user": " U1"}, {"channel": "C/1"}, {"ts": "soon"}, {"user": ["U1"]}, {"files": 7}]


@both
@pytest.mark.parametrize("changes", ODD, ids=str)
async def test_an_event_that_can_not_be_understood_is_dropped_with_a_line_and_the_next_one_comes(
    transport: str, changes: dict[str, Any], slack: SlackStandin, api: str, inbox: Inbox
) -> None:
    event = {"type": "app_mention", "channel": "C1", "user": "U1", "ts": "1.1", "text": "x", **changes}
    async with by(transport, slack, api, inbox):
        with capture_logs() as lines:
            slack.deliveries.add(
                "events_api", {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event}
            )
            await slack.wait_for(lambda s: s.deliveries.acknowledged)
            slack.say("C1", "U1", "<@UBOT> next")
            assert [inbound.text for inbound in await inbox.messages(2)] == ["next", "next"]
    assert [line["event"] for line in lines] == ["slack.event_not_understood"]


async def test_a_command_that_can_not_be_understood_is_dropped_too(
    slack: SlackStandin, adapter: SlackAdapter, inbox: Inbox
) -> None:
    slack.deliveries.add("slash_commands", {"command": "/reverie", "channel_id": "C1", "text": "help"})
    await slack.wait_for(lambda s: s.deliveries.acknowledged)
    slack.command("C1", "U1", "/reverie", "help")
    assert [inbound.text for inbound in await inbox.messages(1)] == ["/help"]


async def test_a_name_that_does_not_come_in_time_holds_nothing_up(slack: SlackStandin, api: str, inbox: Inbox) -> None:
    slack.delay("users.info", 600)
    async with SlackAdapter(settings(api), pace=HASTY).serve(inbox):
        slack.say(slack.dm("U1"), "U1", "hello")
        (inbound, *_) = await inbox.messages()
    assert inbound.name == "U1"


async def test_a_request_with_a_wrong_signature_is_refused(slack: SlackStandin, api: str, inbox: Inbox) -> None:
    made = SlackAdapter(settings(api, app=None), pace=PACE)
    async with made.serve(inbox), serving(Starlette(routes=list(made.routes()))) as url:
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{url}/slack/events", json={"type": "event_callback"})
        assert answer.status_code == 401
    assert inbox.got == []


@pytest.mark.parametrize("stamp", ["abc", "nan", "", "１"])
async def test_a_request_with_an_odd_timestamp_is_refused_before_anything_else(
    api: str, inbox: Inbox, stamp: str
) -> None:
    made = SlackAdapter(settings(api, app=None), pace=PACE)
    headers = {b"x-slack-request-timestamp": stamp.encode(), b"x-slack-signature": b"v0=0"}
    async with made.serve(inbox), serving(Starlette(routes=list(made.routes()))) as url:
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{url}/slack/events", json={"type": "event_callback"}, headers=headers)
        assert answer.status_code == 401
    assert inbox.got == []


async def test_http_events_are_not_taken_while_nobody_serves(api: str) -> None:
    made = SlackAdapter(settings(api, app=None), pace=PACE)
    async with serving(Starlette(routes=list(made.routes()))) as url, httpx.AsyncClient() as client:
        answer = await client.post(f"{url}/slack/events", json={"type": "event_callback"})
    assert answer.status_code == 503


async def test_leaving_waits_for_what_is_being_put(slack: SlackStandin, api: str, inbox: Inbox) -> None:
    inbox.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        async with SlackAdapter(settings(api), pace=PACE).serve(inbox):
            slack.say(slack.dm("U1"), "U1", "hello")
            await inbox.begun.wait()
            tasks.start_soon(open_later, inbox.gate)
        assert [inbound.text for inbound in inbox.got] == ["hello"]


async def open_later(gate: anyio.Event) -> None:
    await anyio.sleep(0.1)
    gate.set()


# the connection


async def test_who_the_bot_is_comes_from_slack(api: str, inbox: Inbox) -> None:
    async with SlackAdapter(settings(api), pace=PACE).serve(inbox) as identity:
        assert identity == Identity(id="T1/UBOT", name="reverie")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"bot": "xoxb-other"}, "SLACK_BOT_TOKEN"), ({"app": "xapp-other"}, "SLACK_APP_TOKEN")],
)
async def test_a_wrong_token_is_named_with_its_cure(api: str, inbox: Inbox, wrong: dict[str, str], named: str) -> None:
    with pytest.raises(Misconfigured, match=named):
        async with SlackAdapter(settings(api, **wrong), pace=PACE).serve(inbox):
            pass


async def test_without_a_way_in_both_are_named(api: str, inbox: Inbox) -> None:
    bare = SlackSettings(bot_token=SecretStr("xoxb-stand-in"), api_url=api)
    with pytest.raises(Misconfigured, match=r"SLACK_APP_TOKEN.*SLACK_SIGNING_SECRET"):
        async with SlackAdapter(bare, pace=PACE).serve(inbox):
            pass


async def test_slack_out_of_reach_is_no_fault_of_the_settings(inbox: Inbox) -> None:
    with pytest.raises(Transient):
        async with SlackAdapter(settings("http://127.0.0.1:9/api/"), pace=PACE).serve(inbox):
            pass


async def test_a_dropped_socket_is_opened_again_and_nothing_is_lost(
    slack: SlackStandin, api: str, inbox: Inbox
) -> None:
    async with SlackAdapter(settings(api), pace=WATCHFUL).serve(inbox):
        await slack.drop_sockets()
        slack.say(slack.dm("U1"), "U1", "said meanwhile")
        (inbound, *_) = await inbox.messages()
        assert inbound.text == "said meanwhile"
        before = slack.deliveries.connected_in_all
        await slack.refresh_sockets()
        await slack.wait_for(lambda s: s.deliveries.connected_in_all > before)
        slack.say(slack.dm("U1"), "U1", "and after")
        await until(lambda: "and after" in [inbound.text for inbound in inbox.got])


async def test_of_an_outage_one_line_tells_less_and_less_often_and_the_sdk_says_nothing(
    slack: SlackStandin, api: str, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    async with SlackAdapter(settings(api), pace=replace(PACE, ping_every=0.1)).serve(inbox):
        caplog.clear()
        with capture_logs() as lines:
            slack.fail("apps.connections.open", times=12, status=503)
            await slack.drop_sockets()
            await slack.wait_for(lambda s: s.deliveries.connected_in_all >= 2)
            await anyio.sleep(0.3)
    told = [line for line in lines if line["event"] == "slack.socket_down"]
    assert 1 <= len(told) <= 5
    assert {line["log_level"] for line in told} == {"warning"}
    assert [line["event"] for line in lines].count("slack.socket_up") == 1
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


class FirstAddressIsUsedUp(AsyncWebClient):
    """Slack as it is when the socket's address has run out before it could be used."""

    async def apps_connections_open(self, **given: Any) -> AsyncSlackResponse:
        answer = await super().apps_connections_open(**given)
        if not hasattr(self, "asked"):
            self.asked = True
            answer.data = {**cast("dict[str, Any]", answer.data), "url": "ws://127.0.0.1:9/used-up"}
        return answer


async def test_an_address_that_leads_nowhere_is_not_tried_for_ever(slack: SlackStandin, api: str) -> None:
    client = FirstAddressIsUsedUp(token="xoxb-stand-in", base_url=api, retry_handlers=[])
    app = AsyncApp(client=client)
    async with open_socket(
        app, app_token="xapp-stand-in", client=client, pace=PACE, now=lambda: datetime.now(UTC)
    ) as socket:
        assert slack.deliveries.sockets == 1
        await until(lambda: socket.health().ok)


async def test_a_socket_that_never_opens_is_told_in_time(slack: SlackStandin, api: str, inbox: Inbox) -> None:
    slack.fail("apps.connections.open", times=99, status=503)
    with pytest.raises(Transient):
        async with SlackAdapter(settings(api), pace=HASTY).serve(inbox):
            pass


async def test_one_adapter_can_serve_again(slack: SlackStandin, api: str, inbox: Inbox) -> None:
    adapter = SlackAdapter(settings(api), pace=PACE)
    for said in ("first", "second"):
        async with adapter.serve(inbox):
            slack.say(slack.dm("U1"), "U1", said)
            await inbox.messages(1 if said == "first" else 2)
            await slack.wait_for(lambda s: not s.deliveries.pending)
    assert [inbound.text for inbound in inbox.got] == ["first", "second"]


async def test_health_comes_from_signs_of_life_and_not_from_a_flag(api: str, inbox: Inbox) -> None:
    now = datetime.now(UTC)
    adapter = SlackAdapter(settings(api), pace=PACE, now=lambda: now)
    assert not adapter.health().ok
    async with adapter.serve(inbox):
        assert adapter.health().ok
        now += timedelta(seconds=30)
        assert not adapter.health().ok
        assert "silent for" in adapter.health().detail
    assert not adapter.health().ok


# out


async def test_a_post_is_found_again_by_its_key_and_only_by_it(slack: SlackStandin, adapter: SlackAdapter) -> None:
    thread = Address(platform="slack", workspace="T1", chat="C1", thread=slack.say("C1", "U1", "question"))
    since = datetime.now(UTC)
    ts = await adapter.deliver(post(thread, "k1"))
    assert await adapter.find(post(thread, "k1"), since=since) == ts
    assert await adapter.find(post(thread, "k2"), since=since) is None
    assert await adapter.find(post(thread.whole_chat, "k1"), since=since) is None
    (_, shown) = slack.messages("C1", thread.thread)
    assert shown.text == "hi &lt;@U1&gt;"
    assert shown.metadata == {"event_type": "reverie_post", "event_payload": {"key": "k1"}}


async def test_a_post_in_a_direct_chat_is_found_on_a_later_page(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = Address(platform="slack", workspace="T1", chat=slack.dm("U1").id)
    ts = await adapter.deliver(post(chat, "k1"))
    for number in range(210):
        slack.say(chat.chat, "U1", str(number))
    assert await adapter.find(post(chat, "k1"), since=datetime.now(UTC) - LONG_AGO) == ts


async def test_an_edit_replaces_text_and_blocks(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = Address(platform="slack", workspace="T1", chat="C1")
    ts = await adapter.deliver(post(chat, "k1", "draft"))
    again = post(chat, "k1", "final", message_id=ts)
    assert await adapter.deliver(again) == ts
    (shown,) = slack.messages("C1")
    assert shown.text == "final"
    assert shown.blocks == again.part["blocks"]


async def test_refused_blocks_leave_the_words(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = Address(platform="slack", workspace="T1", chat="C1")
    odd = Outbound(address=chat, key="k", part={"text": "words", "blocks": [{"type": "no_such_block"}]})
    await adapter.deliver(odd)
    (shown,) = slack.messages("C1")
    assert (shown.text, shown.blocks) == ("words", None)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [(429, "ratelimited", Transient), (500, "", Unsure), (0, "", Unsure), (200, "is_archived", Permanent)],
)
async def test_a_failed_post_says_what_is_known_and_is_not_repeated(
    slack: SlackStandin, adapter: SlackAdapter, status: int, error: str, expected: type[Exception]
) -> None:
    slack.fail("chat.postMessage", status=status, error=error, retry_after=7)
    with pytest.raises(expected) as failed:
        await adapter.deliver(post(Address(platform="slack", workspace="T1", chat="C1"), "k1"))
    assert len([call for call in slack.calls if call.method == "chat.postMessage"]) == 1
    if isinstance(failed.value, Transient):
        assert failed.value.retry_after == 7.0


async def test_a_post_whose_answer_was_lost_is_found(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = Address(platform="slack", workspace="T1", chat="C1")
    slack.fail("chat.postMessage", status=0, error="", after_acting=True)
    with pytest.raises(Unsure):
        await adapter.deliver(post(chat, "k1"))
    assert await adapter.find(post(chat, "k1"), since=datetime.now(UTC)) == slack.messages("C1")[0].ts


async def test_a_search_that_fails_is_no_absence(slack: SlackStandin, adapter: SlackAdapter) -> None:
    chat = Address(platform="slack", workspace="T1", chat="C1")
    for status, error, expected in [(503, "", Transient), (200, "channel_not_found", Permanent)]:
        slack.fail("conversations.history", status=status, error=error)
        with pytest.raises(expected):
            await adapter.find(post(chat, "k1"), since=datetime.now(UTC))


async def test_before_it_is_connected_nothing_is_posted_and_nothing_counts_as_absent(api: str) -> None:
    adapter, chat = SlackAdapter(settings(api), pace=PACE), Address(platform="slack", workspace="T1", chat="C1")
    with pytest.raises(Transient, match="not connected"):
        await adapter.deliver(post(chat, "k1"))
    with pytest.raises(Transient, match="not connected"):
        await adapter.find(post(chat, "k1"), since=datetime.now(UTC))


class UnevenInbox(Inbox):
    """Takes longer for the first message."""

    async def put(self, inbound: Inbound) -> None:
        await anyio.sleep(0.05 if inbound.text == "0" else 0)
        await super().put(inbound)


async def test_messages_are_stored_in_the_order_in_which_they_came(slack: SlackStandin, api: str) -> None:
    inbox = UnevenInbox()
    async with SlackAdapter(settings(api), pace=PACE).serve(inbox):
        dm = slack.dm("U1")
        for number in range(5):
            slack.say(dm, "U1", str(number))
        assert [inbound.text for inbound in await inbox.messages(5)] == ["0", "1", "2", "3", "4"]


async def test_a_post_where_the_bot_is_no_member_is_for_good(adapter: SlackAdapter) -> None:
    with pytest.raises(Permanent, match="invite"):
        await adapter.deliver(post(Address(platform="slack", workspace="T1", chat="C2"), "k1"))


async def test_no_token_shows_in_a_log(
    slack: SlackStandin, api: str, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    slack.fail("apps.connections.open", times=1, status=200, error="internal_error")
    with pytest.raises(Transient):
        async with SlackAdapter(settings(api), pace=PACE).serve(inbox):
            pass
    async with SlackAdapter(settings(api), pace=WATCHFUL).serve(inbox):
        await slack.drop_sockets()
        await slack.wait_for(lambda s: s.deliveries.connected_in_all >= 2)
    sdk_logger().error("failed: wss://x.example/link/?ticket=abc&app_id=1 xapp-1-A-2-b xoxb-1-2-c")
    assert not {"xoxb-stand-in", "xapp-stand-in", "ticket=abc", "xapp-1-A-2-b", "xoxb-1-2-c"} & set(caplog.text.split())
    for secret in ("xoxb-stand", "xapp-stand", "ticket=abc", "xapp-1", "xoxb-1"):
        assert secret not in caplog.text


def test_an_account_reads_as_the_settings_write_it() -> None:
    assert str(Account(platform="slack", workspace="T1", user="U1")) == "slack:T1/U1"
