"""An answer in Telegram while it is written: drafts, edits, their pace, and what stands there while no text comes."""

from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise

import anyio
import pytest

from adapters.base import Step, StepState
from adapters.standins.telegram import Chat, TelegramStandin
from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.live import EDIT_EVERY, Showing
from adapters.telegram.pacing import Pacing
from adapters.telegram.shown import NO_TEXT, Shown
from adapters.text.telegram import HARD_UNITS, render, utf16_units
from tests.unit.adapters.telegram_stage import ANN, ANN_THERE, GROUP, Inbox, place, say, serve
from tests.waiting import until

READING = Step(id="1", title="Reading notes")


@pytest.fixture
def now() -> list[float]:
    return [1_800_000_000.0]


@pytest.fixture
def standin(now: list[float]) -> TelegramStandin:
    return TelegramStandin(clock=lambda: now[0])


@pytest.fixture
def ann(standin: TelegramStandin) -> Chat:
    return standin.private(ANN)


@pytest.fixture
def group(standin: TelegramStandin) -> Chat:
    return standin.group(GROUP, topics={4: "Roses", 5: "Tulips"})


@pytest.fixture
async def adapter(standin: TelegramStandin) -> AsyncIterator[TelegramAdapter]:
    async with serve(standin, Inbox()) as made:
        yield made


async def opened(adapter: TelegramAdapter, chat: int, *, thread: str = "") -> Showing:
    live = await adapter.open_live(place(chat, thread), key=f"k{thread}", reply_to="", recipient=ANN_THERE)
    assert isinstance(live, Showing)
    return live


def drafts(standin: TelegramStandin) -> list[dict[str, object]]:
    return [dict(call.params) for call in standin.calls if call.method == "sendMessageDraft"]


async def shows(standin: TelegramStandin, chat: Chat, live: Showing, text: str) -> None:
    """Let an answer say something, and wait until it is to be seen."""

    def seen() -> bool | None:
        shown = standin.draft(chat) if chat.person else standin.messages(chat)[-1].text
        return (shown or "").endswith(text) or None

    await live.show(text)
    await standin.wait_for(seen)


async def thought(live: Showing) -> None:
    """Wait until it was tried to say that the bot thinks."""
    await until(lambda: not live._changed.is_set())


class TestDrafts:
    async def test_it_says_at_once_that_the_bot_thinks_and_offers_to_stop(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        live = await opened(adapter, 7)
        await standin.wait_for(lambda: standin.draft(ann) == "" or None)
        await live.close()
        assert drafts(standin)[0]["can_stop"] is True

    async def test_it_is_kept_alive_while_nothing_new_comes(
        self, standin: TelegramStandin, ann: Chat, now: list[float]
    ) -> None:
        async with serve(standin, Inbox(), draft_again=0.02) as adapter:
            live = await opened(adapter, 7)
            await live.show("thinking hard")
            await standin.wait_for(lambda: standin.draft(ann) or None)
            now[0] += 31
            assert standin.draft(ann) is None
            await standin.wait_for(lambda: standin.draft(ann) == "thinking hard" or None)
            await live.close()

    async def test_typing_is_left_out_where_a_draft_is_seen_and_comes_back_after_it(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        live = await opened(adapter, 7)
        await standin.wait_for(lambda: drafts(standin) or None)
        await until(lambda: adapter._drafts.shown_at(place(7)))
        await adapter.working(place(7), status="thinking")
        assert standin.actions(ann) == ()
        await live.close()
        await adapter.working(place(7), status="thinking")
        assert standin.actions(ann) == ("typing",)

    async def test_a_server_that_refuses_the_stop_button_is_asked_once(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        standin.fail("sendMessageDraft", status=400, description="Bad Request: can_stop is not allowed")
        for number in range(2):
            live = await opened(adapter, 7)
            await shows(standin, ann, live, f"text {number}")
            await live.close()
        assert ["can_stop" in draft for draft in drafts(standin)].count(True) == 1

    async def test_a_server_without_empty_drafts_is_asked_once_and_shows_texts_all_the_same(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        standin.fail("sendMessageDraft", times=2, status=400, description="Bad Request: text must be non-empty")
        for number in range(2):
            live = await opened(adapter, 7)
            await thought(live)
            if number == 0:
                await until(lambda: len(drafts(standin)) == 2)
            await shows(standin, ann, live, f"text {number}")
            await live.close()
        assert [draft["text"] for draft in drafts(standin)][:2] == ["", ""]
        assert all(draft["text"] and "can_stop" in draft for draft in drafts(standin)[2:])

    async def test_a_step_is_named_below_the_text_while_it_goes_on(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        live = await opened(adapter, 7)
        await live.step(READING)
        await standin.wait_for(lambda: standin.draft(ann) == "· reading notes…" or None)
        await live.show("I look.")
        await standin.wait_for(lambda: standin.draft(ann) == "I look.\n\n· reading notes…" or None)
        await live.step(Step(id="1", title="Reading notes", state=StepState.DONE))
        await standin.wait_for(lambda: standin.draft(ann) == "I look." or None)
        await live.close()

    async def test_topics_of_a_private_chat_have_drafts_of_their_own(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        one, two = (standin.open_topic(ann, name, by=ANN) for name in ("One", "Two"))
        shown = [await opened(adapter, 7, thread=str(topic)) for topic in (one, two)]
        for live, text in zip(shown, ("first", "second"), strict=True):
            await live.show(text)
        await standin.wait_for(lambda: standin.draft(ann, thread=one) == "first" or None)
        await standin.wait_for(lambda: standin.draft(ann, thread=two) == "second" or None)
        for live in shown:
            await live.close()


class TestEdits:
    async def test_a_long_answer_goes_on_growing_and_is_exact_in_the_end(
        self, standin: TelegramStandin, group: Chat, adapter: TelegramAdapter
    ) -> None:
        def ends(words: str) -> bool | None:
            return standin.messages(group)[-1].text.endswith(words) or None

        answer = " ".join(f"word{number}" for number in range(1000))
        live = await opened(adapter, GROUP)
        for end in (3000, 5000, len(answer)):
            await live.show(answer[:end])
            await standin.wait_for(partial(ends, answer[:end].rsplit(" ", 1)[-1]))
        assert standin.messages(group)[-1].text.startswith("…\n")
        await live.close()
        await say(adapter, GROUP, answer, message_id=live.message_id)
        texts = [shown.text for shown in standin.messages(group) if shown.from_bot]
        assert texts == [part.text for part in render(answer)]

    async def test_a_step_is_named_below_what_is_there(
        self, standin: TelegramStandin, group: Chat, adapter: TelegramAdapter
    ) -> None:
        live = await opened(adapter, GROUP)
        await live.show("I look.")
        await live.step(READING)
        await standin.wait_for(lambda: standin.messages(group)[-1].text.endswith("· reading notes…") or None)
        await live.close()

    async def test_a_chat_that_wants_to_be_left_alone_is_in_all_its_topics(
        self, standin: TelegramStandin, group: Chat, adapter: TelegramAdapter
    ) -> None:
        one, two = await opened(adapter, GROUP, thread="4"), await opened(adapter, GROUP, thread="5")
        standin.fail("editMessageText", status=429, parameters={"retry_after": 60})
        await one.show("refused")
        await until(lambda: adapter._pacing.closed_for(GROUP))
        await two.show("kept back")
        await adapter.working(place(GROUP, "5"), status="thinking")
        for live in (one, two):
            await live.close()
        assert [call.method for call in standin.calls].count("editMessageText") == 1
        assert standin.actions(group) == ()


class TestPacing:
    async def test_a_chat_is_never_written_to_more_than_twenty_times_in_any_minute(self) -> None:
        pacing, start = Pacing(every=EDIT_EVERY), anyio.current_time()
        turns = [pacing.turn(1) - start for _ in range(200)]
        assert all(later >= earlier for earlier, later in pairwise(turns))
        assert all(sum(at <= other < at + 60 for other in turns) <= 20 for at in turns)

    async def test_a_quiet_chat_takes_the_first_turns_at_once_and_no_other_waits_for_it(self) -> None:
        pacing = Pacing(every=EDIT_EVERY)
        now = anyio.current_time()
        assert [pacing.turn(1) - now < 1 for _ in range(4)] == [True, True, True, False]
        assert pacing.turn(2) - now < 1


class TestShown:
    def test_the_end_of_a_long_text_keeps_its_style_and_fits_with_a_step(self) -> None:
        shown = Shown()
        shown.note(Step(id="1", title="A very long title " * 20))
        text = "**bold** 😀 " * 1500
        part = shown.of(text)
        assert part is not None
        assert part.text.startswith("…\n")
        assert utf16_units(part.text) <= HARD_UNITS
        encoded = part.text.encode("utf-16-le")
        marked = {encoded[2 * e["offset"] : 2 * (e["offset"] + e["length"])].decode("utf-16-le") for e in part.entities}
        assert marked == {"bold"}

    def test_of_several_steps_the_last_that_goes_on_is_named(self) -> None:
        shown = Shown()
        assert shown.of(NO_TEXT) is None
        for each in (READING, Step(id="2", title="Searching"), Step(id="2", title="Searching", state=StepState.FAILED)):
            shown.note(each)
        part = shown.of(NO_TEXT)
        assert part is not None
        assert part.text == "· reading notes…"
