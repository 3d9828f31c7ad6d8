"""What people do in Telegram, as the inbox is told of it: over real HTTP, from the stand-in."""

from collections.abc import AsyncIterator

import pytest

from adapters.base import Button, ChatKind
from adapters.standins.telegram import Chat, TelegramStandin
from adapters.telegram.adapter import TelegramAdapter
from tests.unit.adapters.telegram_stage import ANN, ANN_THERE, BO, GROUP, Inbox, picture, place, say, serve
from tests.waiting import until


@pytest.fixture
def standin() -> TelegramStandin:
    return TelegramStandin(privacy=False)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def ann(standin: TelegramStandin) -> Chat:
    return standin.private(ANN)


@pytest.fixture
def group(standin: TelegramStandin) -> Chat:
    return standin.group(GROUP, title="Garden", topics={4: "Roses"})


@pytest.fixture
async def adapter(standin: TelegramStandin, inbox: Inbox) -> AsyncIterator[TelegramAdapter]:
    async with serve(standin, inbox) as made:
        yield made


def answered(standin: TelegramStandin) -> list[str]:
    """The words that pressed buttons have brought."""
    return [call.params.get("text", "") for call in standin.calls if call.method == "answerCallbackQuery"]


class TestAmending:
    async def test_an_edit_says_what_the_message_says_now_without_our_name(
        self, standin: TelegramStandin, group: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        said = standin.say(group, ANN, "@reverie_bot one", thread=4)
        standin.edit(group, said, "@reverie_bot two")
        await inbox.until(lambda: bool(inbox.amendments))
        (amended,) = inbox.amendments
        assert (amended.external_id, amended.text) == (inbox.got[0].external_id, "two")
        assert (amended.address, amended.account) == (place(GROUP, "4"), ANN_THERE)

    async def test_an_edit_of_a_caption_is_one_too(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        standin.edit(ann, standin.photo(ann, ANN, picture(), caption="a cat"), "a dog")
        await inbox.until(lambda: bool(inbox.amendments))
        assert inbox.amendments[0].text == "a dog"

    async def test_an_edit_that_was_not_stored_comes_again(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        said = standin.say(ann, ANN, "one")
        await inbox.until(lambda: bool(inbox.got))
        inbox.broken = 1
        standin.edit(ann, said, "two")
        await inbox.until(lambda: bool(inbox.amendments))
        assert inbox.tried == 3


class TestPressing:
    async def press(self, standin: TelegramStandin, adapter: TelegramAdapter, chat: Chat, *, gone: bool = False) -> int:
        """Ann presses the one button of a message of ours."""
        (shown,) = await say(adapter, chat.id, "Sure?", buttons=[Button(label="Yes", token="t1")])
        if gone:
            standin.delete(chat, int(shown))
        standin.press(chat, ANN, int(shown), "t1")
        return int(shown)

    async def test_a_press_is_told_with_its_token_and_answered_with_the_word_that_it_brings(
        self, standin: TelegramStandin, group: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        inbox.toast = "Not for you."
        shown = await self.press(standin, adapter, group)
        await until(lambda: answered(standin))
        (pressed,) = inbox.presses
        assert (pressed.token, pressed.message_id, pressed.kind) == ("t1", str(shown), ChatKind.SHARED)
        assert (pressed.account, pressed.name, pressed.language) == (ANN_THERE, "Ann", "de")
        assert answered(standin) == ["Not for you."]

    async def test_a_press_under_a_message_that_is_shown_no_more_is_one_too(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        shown = await self.press(standin, adapter, ann, gone=True)
        await until(lambda: answered(standin))
        assert [(each.message_id, each.address) for each in inbox.presses] == [(str(shown), place(7))]

    async def test_a_press_that_was_not_stored_is_not_answered_before_it_is(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        inbox.broken = 2
        await self.press(standin, adapter, ann)
        await until(lambda: answered(standin))
        assert (inbox.tried, len(inbox.presses), len(answered(standin))) == (3, 1, 1)

    async def test_an_answer_that_telegram_refuses_holds_up_nothing(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        standin.fail("answerCallbackQuery", status=400, description="Bad Request: query is too old")
        await self.press(standin, adapter, ann)
        standin.say(ann, ANN, "next")
        assert await inbox.first(1) == ["next"]


class TestReach:
    async def test_being_let_in_silenced_or_put_out_of_a_group_is_told(
        self, standin: TelegramStandin, group: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        for status in ("restricted", "administrator", "kicked", "member", "left"):
            standin.set_bot_status(group, status, by=ANN)
        await inbox.until(lambda: len(inbox.reached) == 5)
        assert {chat for chat, _ in inbox.reached} == {f"telegram:{GROUP}"}
        assert [reached for _, reached in inbox.reached] == [False, True, False, True, False]

    async def test_a_person_who_blocks_the_bot_and_lets_it_in_again_is_told_both_times(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        inbox.broken = 1
        for status in ("kicked", "member"):
            standin.set_bot_status(ann, status, by=ANN)
        await inbox.until(lambda: len(inbox.reached) == 2)
        assert inbox.reached == [("telegram:7", False), ("telegram:7", True)]


class TestStopping:
    async def test_the_button_of_a_draft_says_stop_in_its_conversation_and_ends_the_draft(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        topic = standin.open_topic(ann, "Plans", by=ANN)
        live = await adapter.open_live(place(7, str(topic)), key="k", reply_to="", recipient=ANN_THERE)
        await live.show("so far")
        await standin.wait_for(lambda: standin.draft(ann, thread=topic) == "so far" or None)
        standin.stop(ann, thread=topic)
        assert await inbox.first(1) == ["/stop"]
        (stop,) = inbox.got
        assert (stop.address, stop.account, stop.addressed) == (place(7, str(topic)), ANN_THERE, True)
        await live.show("so far and on")
        await live.close()
        assert standin.draft(ann, thread=topic) is None

    async def test_a_press_that_comes_when_the_answer_is_over_does_not_stop_the_next(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        live = await adapter.open_live(place(7), key="k", reply_to="", recipient=ANN_THERE)
        await standin.wait_for(lambda: standin.draft(ann) == "" or None)
        await live.close()
        standin.stop(ann)
        standin.say(ann, ANN, "next")
        assert await inbox.first(1) == ["next"]

    async def test_it_is_asked_for_by_its_name(self, standin: TelegramStandin, adapter: TelegramAdapter) -> None:
        standin.say(standin.private(ANN), ANN, "hi")
        poll = await standin.wait_for(
            lambda: next((call for call in standin.calls if call.method == "getUpdates"), None)
        )
        assert "stopped_message_generation" in poll.params["allowed_updates"]


class TestParts:
    async def test_all_pictures_of_an_album_are_for_the_bot_if_the_first_names_it(
        self, standin: TelegramStandin, group: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        standin.album(group, ANN, [picture(), picture(), picture()], caption="@reverie_bot which one?")
        standin.album(group, BO, [picture(), picture()])
        await inbox.first(5)
        assert [inbound.addressed for inbound in inbox.got] == [True, True, True, False, False]
        assert len({inbound.batch for inbound in inbox.got}) == 2
        assert all(inbound.more_may_follow for inbound in inbox.got)

    async def test_the_rest_of_a_text_that_was_cut_is_for_the_bot_as_its_beginning_is(
        self, standin: TelegramStandin, group: Chat, inbox: Inbox, adapter: TelegramAdapter
    ) -> None:
        standin.say(group, ANN, "@reverie_bot " + "x" * 4050)
        standin.say(group, BO, "hello Ann")
        standin.say(group, ANN, "the end")
        standin.say(group, ANN, "hello Bo")
        await inbox.first(4)
        assert [inbound.addressed for inbound in inbox.got] == [True, False, True, False]
        assert [inbound.more_may_follow for inbound in inbox.got] == [True, False, False, False]
