"""Buttons, files, edits and marks in Telegram, as people see them, over real HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.base import Button, Outbound, OutFile
from adapters.errors import Permanent, Transient
from adapters.standins.telegram import Chat, Shown, TelegramStandin
from adapters.telegram.adapter import TelegramAdapter
from tests.unit.adapters.telegram_stage import ANN, GROUP, Inbox, a_file, picture, place, say, serve

YES = Button(label="Yes", token="t1")
NO = Button(label="No", token="t2")


@pytest.fixture
def standin() -> TelegramStandin:
    return TelegramStandin()


@pytest.fixture
def ann(standin: TelegramStandin) -> Chat:
    return standin.private(ANN)


@pytest.fixture
async def adapter(standin: TelegramStandin) -> AsyncIterator[TelegramAdapter]:
    async with serve(standin, Inbox()) as made:
        yield made


def last(standin: TelegramStandin, chat: Chat) -> Shown:
    return standin.messages(chat)[-1]


def rows(standin: TelegramStandin) -> list[list[str]]:
    """The labels of the last keyboard that was sent."""
    call = next(call for call in reversed(standin.calls) if call.params.get("reply_markup"))
    return [[button["text"] for button in row] for row in call.params["reply_markup"]["inline_keyboard"]]


def asked(standin: TelegramStandin) -> list[str]:
    return [call.method for call in standin.calls if call.method.startswith(("send", "edit"))]


class TestButtons:
    async def test_they_stand_under_the_last_part_and_hold_their_tokens(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        await say(adapter, 7, "word " * 1000, buttons=[YES, NO])
        assert [shown.buttons for shown in standin.messages(ann)] == [(), ("t1", "t2")]

    async def test_short_labels_share_a_row_and_long_ones_have_one_each(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        long = [Button(label=f"{number}: {'a long answer ' * 9}", token=str(number)) for number in range(2)]
        await say(adapter, 7, "?", buttons=[YES, NO, *long, Button(label=" ", token="t3")])
        assert [[label[:6] for label in row] for row in rows(standin)] == [["Yes", "No"], ["0: a l"], ["1: a l"], ["…"]]
        assert all(len(label) <= 60 for row in rows(standin) for label in row)

    async def test_more_than_one_message_takes_are_all_there(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        many = [Button(label=str(number), token=f"t{number}") for number in range(150)]
        await say(adapter, 7, "?", buttons=many)
        assert [len(shown.buttons) for shown in standin.messages(ann)] == [100, 50]

    async def test_an_edit_drops_the_buttons_or_keeps_those_that_it_has(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        (shown,) = await say(adapter, 7, "Sure?", buttons=[YES, NO])
        await say(adapter, 7, "Really?", buttons=[YES], message_id=shown)
        assert last(standin, ann).buttons == ("t1",)
        await say(adapter, 7, "Done.", message_id=shown)
        assert (last(standin, ann).text, last(standin, ann).buttons) == ("Done.", ())


class TestReplacing:
    async def test_what_cannot_be_edited_is_posted_anew(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, tmp_path: Path
    ) -> None:
        theirs = standin.say(ann, ANN, "hi")
        (shown,) = await say(adapter, 7, "", file=a_file(tmp_path / "a.txt", b"x"))
        for message_id in ("99", str(theirs), shown):
            (anew,) = await say(adapter, 7, f"instead of {message_id}", message_id=message_id)
            assert (last(standin, ann).text, last(standin, ann).message_id) == (f"instead of {message_id}", int(anew))

    async def test_a_file_takes_the_place_of_a_text_by_taking_it_away(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, tmp_path: Path
    ) -> None:
        (shown,) = await say(adapter, 7, "…")
        await say(adapter, 7, "here", file=a_file(tmp_path / "a.txt", b"x"), message_id=shown)
        assert [each.text for each in standin.messages(ann)] == ["here"]

    async def test_a_text_that_could_not_be_taken_away_is_no_reason_to_send_the_file_twice(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, tmp_path: Path
    ) -> None:
        (shown,) = await say(adapter, 7, "…")
        standin.fail("deleteMessage", status=502)
        await say(adapter, 7, "here", file=a_file(tmp_path / "a.txt", b"x"), message_id=shown)
        assert asked(standin).count("sendDocument") == 1


class TestFiles:
    async def test_pictures_are_shown_and_everything_else_is_a_document(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, tmp_path: Path
    ) -> None:
        large = picture(more=10_000_000)
        for content, media_type in (
            (picture(), "image/png"),
            (b"GIF89a", "image/gif"),
            (large, "image/png"),
            (b"a", "text/csv"),
        ):
            await say(adapter, 7, "**see**", file=a_file(tmp_path / "a.x", content, media_type=media_type))
        assert asked(standin) == ["sendPhoto", *["sendDocument"] * 3]
        for shown in standin.messages(ann):
            assert (shown.text, [each["type"] for each in shown.entities]) == ("see", ["bold"])

    @pytest.mark.parametrize("content", [b"no picture", picture(width=9000, height=2000), picture(width=2100)])
    async def test_what_telegram_takes_for_no_picture_is_a_document(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, tmp_path: Path, content: bytes
    ) -> None:
        await say(adapter, 7, "see", file=a_file(tmp_path / "a.png", content, media_type="image/png"))
        assert asked(standin) == ["sendPhoto", "sendDocument"]

    async def test_a_long_answer_with_a_file_has_its_beginning_as_the_caption_and_loses_nothing(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, tmp_path: Path
    ) -> None:
        answer = " ".join(f"word{number}" for number in range(1000))
        await say(adapter, 7, answer, file=a_file(tmp_path / "a.txt", b"x"), buttons=[YES])
        shown = standin.messages(ann)
        assert [bool(each.file_id) for each in shown] == [True] + [False] * (len(shown) - 1)
        assert [each.buttons for each in shown] == [()] * (len(shown) - 1) + [("t1",)]
        assert " ".join(each.text for each in shown) == answer

    async def test_a_label_fits_below_a_caption_too(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, tmp_path: Path
    ) -> None:
        part = adapter.render("x" * 5000, file=a_file(tmp_path / "a.txt", b"x"))[0]
        labelled = adapter.labelled(part, "may be there twice" * 10)
        await adapter.deliver(Outbound(address=place(7), key="k", part=labelled))
        assert last(standin, ann).text.splitlines()[1].startswith("may be there twice")

    async def test_where_no_files_may_be_sent_the_answer_arrives_all_the_same_and_says_so(
        self, standin: TelegramStandin, adapter: TelegramAdapter, tmp_path: Path
    ) -> None:
        group = standin.group(GROUP)
        standin.allow(group, forbidden=["photos", "documents"])
        file = a_file(tmp_path / "a.png", picture(), media_type="image/png")
        await say(adapter, GROUP, "see", file=file)
        assert asked(standin) == ["sendPhoto", "sendDocument", "sendMessage"]
        assert last(standin, group).text == "see\n\n(The file a.png can't be sent here.)"

    async def test_a_file_that_is_gone_or_too_large_takes_no_answer_with_it(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, tmp_path: Path
    ) -> None:
        await say(adapter, 7, "one", file=OutFile(path=tmp_path / "gone", name="gone", media_type="a/b"))
        standin.fail("sendDocument", status=413, description="Request Entity Too Large")
        await say(adapter, 7, "two", file=a_file(tmp_path / "large", b"x"))
        assert [each.text.partition("\n")[0] for each in standin.messages(ann)] == ["one", "two"]


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "description"),
        [
            (403, "Forbidden: bot was blocked by the user"),
            (403, "Forbidden: bot was kicked from the supergroup chat"),
            (403, "Forbidden: user is deactivated"),
            (400, "Bad Request: chat not found"),
            (400, "Bad Request: TOPIC_CLOSED"),
            (400, "Bad Request: not enough rights to send text messages to the chat"),
            (400, "Bad Request: CHAT_WRITE_FORBIDDEN"),
        ],
    )
    async def test_what_a_person_decided_is_asked_once_and_never_again(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, status: int, description: str
    ) -> None:
        standin.fail("sendMessage", status=status, description=description)
        with pytest.raises(Permanent):
            await say(adapter, 7, "hi")
        assert asked(standin) == ["sendMessage"]

    @pytest.mark.parametrize("gone", ["message to be replied not found", "TOPIC_DELETED", "message thread not found"])
    async def test_an_answer_goes_where_there_is_still_a_place_for_it(
        self, standin: TelegramStandin, adapter: TelegramAdapter, gone: str
    ) -> None:
        group = standin.group(GROUP, topics={4: "Roses"})
        standin.fail("sendMessage", status=400, description=f"Bad Request: {gone}")
        await say(adapter, GROUP, "hi", thread="4", reply_to="4")
        assert last(standin, group).text == "hi"
        sent = standin.calls[-1].params
        assert ("reply_parameters" in sent) is ("TOPIC" in gone or "thread" in gone)


class TestMarks:
    async def test_a_message_that_waits_has_eyes_until_it_waits_no_more(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        said = standin.say(ann, ANN, "hi")
        await adapter.acknowledge(place(7), str(said), seen=True)
        assert last(standin, ann).reactions == ("👀",)
        await adapter.acknowledge(place(7), str(said), seen=False)
        assert last(standin, ann).reactions == ()

    async def test_a_chat_that_allows_no_reactions_is_not_asked_again_and_others_are(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        group = standin.group(GROUP)
        standin.allow(group, reactions=False)
        there, here = standin.say(group, ANN, "@reverie_bot"), standin.say(ann, ANN, "hi")
        for _ in range(2):
            await adapter.acknowledge(place(GROUP), str(there), seen=True)
        await adapter.acknowledge(place(7), str(here), seen=True)
        assert [call.params["chat_id"] for call in standin.calls if call.method == "setMessageReaction"] == [GROUP, 7]

    @pytest.mark.parametrize("message_id", ["99", "", "x"])
    async def test_a_message_that_is_gone_or_none_is_nobodys_trouble(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter, message_id: str
    ) -> None:
        await adapter.acknowledge(place(7), message_id, seen=True)
        said = standin.say(ann, ANN, "hi")
        await adapter.acknowledge(place(7), str(said), seen=True)
        assert last(standin, ann).reactions == ("👀",)

    async def test_a_chat_that_wants_to_be_left_alone_gets_no_marks_and_no_typing(
        self, standin: TelegramStandin, ann: Chat, adapter: TelegramAdapter
    ) -> None:
        standin.fail("sendMessage", status=429, parameters={"retry_after": 60})
        with pytest.raises(Transient):
            await say(adapter, 7, "hi")
        await adapter.acknowledge(place(7), str(standin.say(ann, ANN, "hi")), seen=True)
        await adapter.working(place(7), status="thinking")
        assert (last(standin, ann).reactions, standin.actions(ann)) == ((), ())
        await say(adapter, 7, "what is posted for good waits for its own line")
        assert last(standin, ann).from_bot


class TestSight:
    async def test_in_a_group_it_is_said_what_is_not_seen_and_again_after_the_bots_place_has_changed(
        self, standin: TelegramStandin
    ) -> None:
        group, inbox = standin.group(GROUP), Inbox()
        async with serve(standin, inbox) as adapter:
            assert "mentions me" in await adapter.sight(place(GROUP))
            assert "mentions me" in await adapter.sight(place(GROUP, "4"))
            standin.set_bot_status(group, "administrator", by=ANN)
            await inbox.until(lambda: bool(inbox.reached))
            assert await adapter.sight(place(GROUP)) == ""
        assert [call.method for call in standin.calls].count("getChatMember") == 2

    async def test_in_a_private_chat_there_is_nothing_to_say(self, ann: Chat, adapter: TelegramAdapter) -> None:
        assert await adapter.sight(place(7)) == ""

    async def test_without_privacy_mode_neither(self) -> None:
        standin = TelegramStandin(privacy=False)
        standin.group(GROUP)
        async with serve(standin, Inbox()) as adapter:
            assert await adapter.sight(place(GROUP)) == ""

    async def test_a_question_that_fails_is_asked_again(
        self, standin: TelegramStandin, adapter: TelegramAdapter
    ) -> None:
        standin.group(GROUP)
        standin.fail("getChatMember", status=502)
        assert "does not say" in await adapter.sight(place(GROUP))
        assert "mentions me" in await adapter.sight(place(GROUP))
