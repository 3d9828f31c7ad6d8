"""The Telegram adapter against the stand-in, over real HTTP."""

import asyncio
import contextlib
import logging
import traceback
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import anyio
import httpx
import pytest
from pydantic import SecretStr, ValidationError
from starlette.applications import Starlette
from structlog.testing import capture_logs

from adapters.base import Account, Adapter, Address, Identity, Outbound
from adapters.doubles import RecordingInbox
from adapters.errors import Misconfigured, Permanent, Transient, Unsure
from adapters.serving import serving
from adapters.standins.telegram import DROPPED, Chat, Person, TelegramStandin
from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.settings import TelegramSettings
from tests.waiting import HANGS

GROUP = -1005
ANN = Person(id=7, first_name="Ann")


class Inbox(RecordingInbox):
    """Waits no longer than a test may hang."""

    async def first(self, count: int) -> list[str]:
        with anyio.fail_after(HANGS):
            return await super().first(count)


@pytest.fixture
def standin() -> TelegramStandin:
    return TelegramStandin()


@pytest.fixture
def ann(standin: TelegramStandin) -> Chat:
    return standin.private(ANN)


@pytest.fixture
def group(standin: TelegramStandin) -> Chat:
    return standin.group(GROUP, title="Garden", topics={4: "Roses"})


@pytest.fixture
async def url(standin: TelegramStandin) -> AsyncIterator[str]:
    async with serving(standin.app) as base:
        yield base


def adapter_at(url: str, token: str = "4200000000:stand-in") -> TelegramAdapter:
    settings = TelegramSettings(token=SecretStr(token), api_url=url)
    return TelegramAdapter(
        settings, commands=[("help", "what I can do")], first_pause=0.01, draft_every=0.02, edit_every=0.02
    )


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def adapter(url: str) -> TelegramAdapter:
    return adapter_at(url)


@pytest.fixture
async def bot(adapter: TelegramAdapter, inbox: Inbox) -> AsyncIterator[Identity]:
    async with adapter.serve(inbox) as identity:
        yield identity


def post(chat: int, text: str = "hi", *, thread: str = "", reply_to: str = "", message_id: str = "") -> Outbound:
    address = Address(platform="telegram", chat=str(chat), thread=thread)
    return Outbound(address=address, key="k", part={"text": text}, reply_to=reply_to, message_id=message_id)


def texts(standin: TelegramStandin, chat: Chat) -> list[str]:
    return [shown.text for shown in standin.messages(chat) if shown.text]


async def test_it_is_an_adapter(adapter: TelegramAdapter) -> None:
    as_adapter: Adapter = adapter
    assert as_adapter.platform == "telegram"
    assert not as_adapter.capabilities.can_find


class TestReceiving:
    async def test_the_operator_learns_who_the_bot_is_and_what_it_cannot_see(self, bot: Identity) -> None:
        assert bot.name == "@reverie_bot"
        assert "privacy" in bot.note

    async def test_messages_come_in_order(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, bot: Identity
    ) -> None:
        for number in range(5):
            standin.say(ann, ANN, str(number))
        assert await inbox.first(5) == ["0", "1", "2", "3", "4"]

    async def test_nothing_is_confirmed_before_it_is_stored_and_order_is_kept(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        inbox.broken = 3
        standin.say(ann, ANN, "one")
        standin.say(ann, ANN, "two")
        async with adapter.serve(inbox):
            assert await inbox.first(2) == ["one", "two"]
        assert inbox.tried == 5

    async def test_what_was_not_stored_comes_again_after_a_restart(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, url: str
    ) -> None:
        inbox.broken = 10**6
        standin.say(ann, ANN, "one")
        async with adapter_at(url).serve(inbox):
            await standin.wait_for(lambda: inbox.tried or None)
        inbox.broken = 0
        async with adapter_at(url).serve(inbox):
            assert await inbox.first(1) == ["one"]

    @pytest.mark.parametrize("status", [409, 429, 500, 502, DROPPED])
    async def test_a_failed_poll_is_tried_again(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter, status: int
    ) -> None:
        standin.fail("getUpdates", status=status, times=2 if status != 429 else 1)
        standin.say(ann, ANN, "hi")
        async with adapter.serve(inbox):
            assert await inbox.first(1) == ["hi"]

    async def test_an_unreadable_update_does_not_hold_up_the_next(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        standin.send(ann, ANN, {"text": "odd", "entities": [{"type": 5}]})
        standin.send(ann, ANN, {"text": "odder", "entities": "x"})
        standin.say(ann, ANN, "next")
        async with adapter.serve(inbox):
            await inbox.first(1)
            await standin.wait_for(lambda: not standin.pending or None)
        assert [inbound.text for inbound in inbox.got] == ["next"]

    async def test_a_webhook_of_another_life_is_dropped_and_what_waits_is_kept(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, url: str, adapter: TelegramAdapter
    ) -> None:
        async with httpx.AsyncClient() as client:
            await client.post(f"{url}/bot{standin.token}/setWebhook", json={"url": "https://127.0.0.1:1/x"})
        standin.say(ann, ANN, "waiting")
        async with adapter.serve(inbox):
            assert await inbox.first(1) == ["waiting"]

    async def test_an_upgraded_group_is_told_from_both_sides_before_what_is_said_there(
        self, standin: TelegramStandin, inbox: Inbox, bot: Identity
    ) -> None:
        inbox.broken = 1
        new = standin.migrate(standin.group(-50), to=-1006)
        standin.say(new, ANN, "@reverie_bot hello")
        assert await inbox.first(1) == ["hello"]
        assert inbox.moves == [("telegram:-50", "telegram:-1006")] * 2

    async def test_readiness_follows_the_last_answered_poll(self, url: str, inbox: Inbox, ann: Chat) -> None:
        now = [datetime(2026, 1, 1, tzinfo=UTC)]
        settings = TelegramSettings(token=SecretStr("4200000000:stand-in"), api_url=url)
        adapter = TelegramAdapter(settings, clock=lambda: now[0])
        assert not adapter.health().ok
        async with adapter.serve(inbox):
            assert adapter.health().ok
            now[0] += timedelta(minutes=5)
            assert not adapter.health().ok

    async def test_the_menu_of_commands_is_set(self, standin: TelegramStandin, bot: Identity) -> None:
        (call,) = [call for call in standin.calls if call.method == "setMyCommands"]
        assert call.params["commands"] == [{"command": "help", "description": "what I can do"}]

    async def test_a_refused_menu_keeps_nobody_from_starting(
        self, standin: TelegramStandin, adapter: TelegramAdapter, inbox: Inbox
    ) -> None:
        standin.fail("setMyCommands", status=400)
        async with adapter.serve(inbox) as identity:
            assert identity.name == "@reverie_bot"


class TestEntering:
    async def test_a_wrong_token_is_named_with_its_cure_and_not_repeated(self, url: str, inbox: Inbox) -> None:
        token = "123:wrong"
        with pytest.raises(Misconfigured, match="BotFather") as caught:
            async with adapter_at(url, token).serve(inbox):
                pytest.fail("entered")
        assert token not in "".join(traceback.format_exception(caught.value))

    async def test_a_server_that_is_not_there_is_no_fault_of_the_settings(self, inbox: Inbox) -> None:
        with pytest.raises(Transient, match=r"http://127\.0\.0\.1:9"):
            async with adapter_at("http://127.0.0.1:9").serve(inbox):
                pytest.fail("entered")

    async def test_one_failure_is_one_try_and_no_line_of_its_own_for_whoever_serves_says_it(
        self, standin: TelegramStandin, adapter: TelegramAdapter, inbox: Inbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        standin.fail("getMe", status=502, times=4)
        with capture_logs() as lines, pytest.raises(Transient):
            async with adapter.serve(inbox):
                pytest.fail("entered")
        assert [call.method for call in standin.calls] == ["getMe"]
        assert (lines, caplog.records) == ([], [])

    async def test_it_can_be_entered_again_after_a_failure_and_after_it_was_left(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        standin.fail("getMe", status=502)
        with pytest.raises(Transient):
            async with adapter.serve(inbox):
                pytest.fail("entered")
        for _ in range(2):
            async with adapter.serve(inbox):
                await adapter.deliver(post(7, "here"))
        assert texts(standin, ann) == ["here", "here"]

    async def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(
        self, url: str, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        async with adapter_at(url).serve(inbox) as identity:
            assert identity.name == "@reverie_bot"

    @pytest.mark.parametrize("token", ["", "two words", "a/b"])
    def test_what_can_be_no_token_is_refused_at_once(self, token: str) -> None:
        with pytest.raises(ValidationError, match="BotFather"):
            TelegramSettings(token=SecretStr(token))

    async def test_no_token_gets_into_the_log(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        standin.fail("getUpdates", status=DROPPED)
        standin.say(ann, ANN, "hi")
        async with adapter_at(url).serve(inbox):
            await inbox.first(1)
        assert "stand-in" not in caplog.text


class TestDelivering:
    async def test_a_rendered_answer_arrives_with_its_entities(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        (part,) = adapter.render("**hello** <id> [x](https://a.b)")
        address = Address(platform="telegram", chat="7")
        await adapter.deliver(Outbound(address=address, key="k", part=part))
        (shown,) = standin.messages(ann)
        assert shown.text == "hello <id> x"
        assert [entity["type"] for entity in shown.entities] == ["bold", "text_link"]
        assert standin.faults == []

    async def test_a_label_is_one_more_line_also_of_the_longest_part(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        part = adapter.labelled(adapter.render("😀" * 2000)[0], "may be there twice" * 10)
        await adapter.deliver(Outbound(address=Address(platform="telegram", chat="7"), key="k", part=part))
        assert texts(standin, ann)[0].splitlines()[1].startswith("may be there twice")

    async def test_an_answer_goes_to_its_topic_and_names_what_it_answers(
        self, standin: TelegramStandin, group: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        asked = standin.say(group, ANN, "@reverie_bot hi", thread=4)
        await adapter.deliver(post(GROUP, thread="4", reply_to=str(asked)))
        sent = next(call for call in reversed(standin.calls) if call.method == "sendMessage")
        assert sent.params["message_thread_id"] == 4
        assert sent.params["reply_parameters"]["message_id"] == asked

    async def test_an_answer_rings_and_what_answers_nothing_does_not(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        await adapter.deliver(post(7, "answer", reply_to=str(standin.say(ann, ANN, "hi"))))
        await adapter.deliver(post(7, "Improved 2 memories"))
        sent = [call.params for call in standin.calls if call.method == "sendMessage"]
        assert [bool(params.get("disable_notification")) for params in sent] == [False, True]

    async def test_a_question_that_was_deleted_is_answered_all_the_same(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        await adapter.deliver(post(7, "answer", reply_to="12345"))
        assert texts(standin, ann) == ["answer"]

    async def test_an_edit_takes_the_place_and_saying_the_same_again_is_no_error(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        first = await adapter.deliver(post(7, "one"))
        assert await adapter.deliver(post(7, "two", message_id=first)) == first
        assert await adapter.deliver(post(7, "two", message_id=first)) == first
        assert texts(standin, ann) == ["two"]

    async def test_a_message_that_is_gone_is_posted_anew(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        await adapter.deliver(post(7, "two", message_id="12345"))
        assert texts(standin, ann) == ["two"]

    async def test_an_upgraded_group_is_followed(
        self, standin: TelegramStandin, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        new = standin.migrate(standin.group(-50), to=-1006)
        await adapter.deliver(post(-50, "here"))
        assert texts(standin, new) == ["here"]

    async def test_after_an_upgrade_no_message_is_taken_for_the_one_that_had_its_number_before(
        self, standin: TelegramStandin, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        old = standin.group(-50)
        shown = await adapter.deliver(post(-50, "…"))
        new = standin.migrate(old, to=-1006)
        while int(await adapter.deliver(post(-1006, "another answer"))) < int(shown):
            pass
        before = texts(standin, new)
        await adapter.deliver(post(-50, "the answer", message_id=shown, reply_to=shown))
        assert texts(standin, new) == [*before, "the answer"]
        assert standin.messages(new)[-1].reply_to is None

    async def test_the_answer_to_a_deleted_topic_goes_to_the_group(
        self, standin: TelegramStandin, group: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        await adapter.deliver(post(GROUP, "here", thread="999"))
        assert texts(standin, group)[-1] == "here"

    async def test_a_closed_topic_stays_closed(
        self, standin: TelegramStandin, group: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        standin.close_topic(group, 4)
        with pytest.raises(Permanent):
            await adapter.deliver(post(GROUP, thread="4"))

    async def test_a_flood_limit_says_how_long_to_wait(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        standin.fail("sendMessage", status=429, parameters={"retry_after": 17})
        with pytest.raises(Transient) as caught:
            await adapter.deliver(post(7))
        assert caught.value.retry_after == 17
        assert texts(standin, ann) == []

    async def test_a_person_who_blocked_the_bot_is_not_tried_again(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        standin.set_bot_status(ann, "kicked", by=ANN)
        with pytest.raises(Permanent):
            await adapter.deliver(post(7))

    @pytest.mark.parametrize("status", [500, 502, DROPPED])
    async def test_a_lost_answer_is_unsure(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity, status: int
    ) -> None:
        standin.fail("sendMessage", status=status, after_acting=True)
        with pytest.raises(Unsure):
            await adapter.deliver(post(7))
        assert texts(standin, ann) == ["hi"]

    async def test_a_server_that_cannot_be_reached_has_surely_posted_nothing(
        self, standin: TelegramStandin, adapter: TelegramAdapter, inbox: Inbox
    ) -> None:
        async with contextlib.AsyncExitStack() as running:
            async with serving(standin.app) as url:
                adapter = adapter_at(url)
                await running.enter_async_context(adapter.serve(inbox))
            with pytest.raises(Transient):
                await adapter.deliver(post(7))

    async def test_before_it_is_served_nothing_is_posted(self, adapter: TelegramAdapter) -> None:
        with pytest.raises(Transient):
            await adapter.deliver(post(7))

    async def test_an_address_of_another_platform_is_refused(self, adapter: TelegramAdapter, bot: Identity) -> None:
        with pytest.raises(Permanent):
            await adapter.deliver(Outbound(address=Address(platform="x", chat="C1"), key="k", part={"text": "t"}))


class TestShowing:
    async def test_typing_shows_and_its_failure_is_nobodys_trouble(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        address = Address(platform="telegram", chat="7")
        await adapter.working(address, status="thinking")
        await adapter.working(address, status="")
        standin.fail("sendChatAction", status=403)
        await adapter.working(address, status="thinking")
        assert standin.actions(ann) == ("typing",)

    async def test_a_private_answer_grows_as_a_draft_that_leaves_nothing(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        address = Address(platform="telegram", chat="7")
        assert not adapter.live_stays(address)
        live = await adapter.open_live(address, key="k", reply_to="", recipient=Account(platform="telegram", user="7"))
        await live.show("one")
        await live.show("one **two**")
        await standin.wait_for(lambda: standin.draft(ann) == "one two" or None)
        await live.close()
        assert (live.message_id, standin.messages(ann)) == ("", [])

    async def test_a_group_answer_is_posted_at_once_and_edited(
        self, standin: TelegramStandin, group: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        address = Address(platform="telegram", chat=str(GROUP), thread="4")
        assert adapter.live_stays(address)
        live = await adapter.open_live(address, key="k", reply_to="", recipient=Account(platform="telegram", user="7"))
        assert texts(standin, group) == ["…"]
        await live.show("so far")
        await standin.wait_for(lambda: texts(standin, group) == ["so far"] or None)
        await live.close()
        await adapter.deliver(post(GROUP, "final", thread="4", message_id=live.message_id))
        assert texts(standin, group) == ["final"]

    async def test_a_late_edit_never_overwrites_the_final_text(
        self, standin: TelegramStandin, group: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        address = Address(platform="telegram", chat=str(GROUP))
        live = await adapter.open_live(address, key="k", reply_to="", recipient=Account(platform="telegram", user="7"))
        standin.delay("editMessageText", 0.2)
        await live.show("half")
        await asyncio.sleep(0.05)
        await live.close()
        standin.delay("editMessageText", 0)
        await adapter.deliver(post(GROUP, "final", message_id=live.message_id))
        await asyncio.sleep(0.3)
        assert texts(standin, group) == ["final"]

    async def test_failures_to_show_are_swallowed_and_a_flood_limit_is_waited_out(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, bot: Identity
    ) -> None:
        address = Address(platform="telegram", chat="7")
        live = await adapter.open_live(address, key="k", reply_to="", recipient=Account(platform="telegram", user="7"))
        standin.fail("sendMessageDraft", status=429, parameters={"retry_after": 1})
        await live.show("after the wait")
        await standin.wait_for(lambda: standin.draft(ann) == "after the wait" or None)
        standin.fail("sendMessageDraft", status=500)
        await live.show("lost")
        await live.show("shown")
        await live.close()
        drafts = [call.at for call in standin.calls if call.method == "sendMessageDraft"]
        assert drafts[1] - drafts[0] >= 1


class TestWebhook:
    SECRET = "s3cret"

    @contextlib.asynccontextmanager
    async def served(self, standin: TelegramStandin, inbox: Inbox) -> AsyncIterator[tuple[TelegramAdapter, str]]:
        """Yield the adapter and the address at which Telegram calls it."""
        async with contextlib.AsyncExitStack() as stack:
            api = await stack.enter_async_context(serving(standin.app))
            settings = TelegramSettings(
                token=SecretStr(standin.token),
                api_url=api,
                webhook_url="https://bot.example.org/telegram/in",
                webhook_secret=SecretStr(self.SECRET),
            )
            adapter = TelegramAdapter(settings)
            gateway = await stack.enter_async_context(serving(Starlette(routes=list(adapter.routes()))))
            await stack.enter_async_context(adapter.serve(inbox))
            yield adapter, f"{gateway}/telegram/in"

    async def call(self, url: str, secret: str, number: int = 1, **message: object) -> int:
        chat = {"id": 7, "type": "private"}
        user = {"id": 7, "is_bot": False, "first_name": "Ann"}
        whole = {"message_id": number, "date": 1, "chat": chat, "from": user, "text": "hi", **message}
        async with httpx.AsyncClient() as client:
            answer = await client.post(
                url,
                json={"update_id": number, "message": whole},
                headers={"X-Telegram-Bot-Api-Secret-Token": secret},
            )
        return answer.status_code

    async def test_it_is_registered_with_its_secret_on_one_connection(
        self, standin: TelegramStandin, inbox: Inbox
    ) -> None:
        async with self.served(standin, inbox):
            (call,) = [call for call in standin.calls if call.method == "setWebhook"]
        assert (call.params["secret_token"], call.params["max_connections"]) == (self.SECRET, 1)

    async def test_only_who_knows_the_secret_gets_in(self, standin: TelegramStandin, inbox: Inbox) -> None:
        async with self.served(standin, inbox) as (_, url):
            assert await self.call(url, "wrong") == 403
            assert await self.call(url, "") == 403
            assert await self.call(url, self.SECRET) == 200
        assert [inbound.external_id for inbound in inbox.got] == ["7:1"]

    async def test_a_message_that_was_not_stored_is_not_acknowledged(
        self, standin: TelegramStandin, inbox: Inbox
    ) -> None:
        inbox.broken = 1
        async with self.served(standin, inbox) as (_, url):
            assert await self.call(url, self.SECRET) == 503
            assert await self.call(url, self.SECRET) == 200
        assert len(inbox.got) == 1

    async def test_what_cannot_be_read_is_taken_or_it_would_come_for_ever(
        self, standin: TelegramStandin, inbox: Inbox
    ) -> None:
        async with self.served(standin, inbox) as (adapter, url):
            assert await self.call(url, self.SECRET, entities="x") == 200
            assert adapter.health().ok

    async def test_an_address_that_telegram_refuses_is_misconfigured(
        self, standin: TelegramStandin, inbox: Inbox
    ) -> None:
        standin.fail("setWebhook", status=400, description="Bad Request: bad webhook: HTTPS url must be provided")
        with pytest.raises(Misconfigured, match="webhook_url"):
            async with self.served(standin, inbox):
                pytest.fail("entered")

    def test_a_webhook_without_a_secret_is_refused(self) -> None:
        with pytest.raises(ValidationError, match="webhook_secret"):
            TelegramSettings(token=SecretStr("1:a"), webhook_url="https://a.b/telegram/x")
