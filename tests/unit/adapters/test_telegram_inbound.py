from datetime import UTC, datetime
from typing import Any

import pytest
from telegram import Update

from adapters.base import Attachment, ChatKind, Inbound, Quoted
from adapters.telegram.inbound import to_amended, to_inbound
from adapters.telegram.mentions import Me

ME = Me(id=99, username="Reverie_Bot", commands=frozenset({"help"}))
ALL_SEEING = Me(id=99, username="Reverie_Bot", reads_everything=True, commands=frozenset({"help"}))
ANN = {"id": 7, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "language_code": "de"}
BOT = {"id": 99, "is_bot": True, "first_name": "R", "username": "reverie_bot"}
PRIVATE = {"id": 7, "type": "private", "first_name": "Ann"}
GROUP = {"id": -1005, "type": "supergroup", "title": "Garden"}

FILE = {"file_unique_id": "u"}
VOICE = {**FILE, "file_id": "v", "duration": 1}
STICKER = {
    **FILE,
    "file_id": "s",
    "type": "regular",
    "width": 1,
    "height": 1,
    "is_animated": False,
    "is_video": False,
    "emoji": "🙂",
}
PLACE = {"latitude": 52.5, "longitude": 13.4}
POLL = {
    "id": "1",
    "question": "Tea?",
    "options": [{"text": text, "voter_count": 0, "persistent_id": text} for text in ("yes", "no")],
    "total_voter_count": 0,
    "is_closed": False,
    "is_anonymous": True,
    "type": "regular",
    "allows_multiple_answers": False,
    "allows_revoting": True,
    "members_only": False,
}
ORIGINS: dict[str, dict[str, Any]] = {
    "user": {"type": "user", "date": 1, "sender_user": ANN},
    "hidden": {"type": "hidden_user", "date": 1, "sender_user_name": "Zoe"},
    "nobody": {"type": "hidden_user", "date": 1, "sender_user_name": ""},
    "chat": {"type": "chat", "date": 1, "sender_chat": GROUP},
    "channel": {"type": "channel", "date": 1, "message_id": 1, "chat": {"id": -9, "type": "channel", "title": "News"}},
}


def understood(message: dict[str, Any], me: Me = ME) -> Inbound | None:
    common = {"message_id": 3, "date": 1_700_000_000, "from": ANN, "chat": GROUP}
    return to_inbound(Update.de_json({"update_id": 1, "message": {**common, **message}}), me)


def said(text: str, *entities: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    kinds = [{"type": kind, "offset": offset, "length": length} for kind, offset, length in entities]
    return {"text": text, "entities": kinds, **more}


def got(message: dict[str, Any], me: Me = ME) -> Inbound:
    inbound = understood(message, me)
    assert inbound is not None
    return inbound


def test_a_private_message_is_for_the_bot() -> None:
    inbound = got({"text": "hi", "chat": PRIVATE})
    assert (inbound.external_id, str(inbound.address), str(inbound.account)) == ("7:3", "telegram:7", "telegram:7")
    assert (inbound.kind, inbound.addressed, inbound.text) == (ChatKind.PRIVATE, True, "hi")
    assert (inbound.name, inbound.language, inbound.message_id) == ("Ann Lee", "de", "3")
    assert inbound.sent_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_group_talk_is_not_for_the_bot() -> None:
    inbound = got({"text": "hi all"})
    assert (inbound.kind, inbound.addressed, inbound.chat_title) == (ChatKind.SHARED, False, "Garden")


@pytest.mark.parametrize(
    ("text", "offset", "left"),
    [
        ("@reverie_bot hello", 0, "hello"),
        ("😀 @reverie_bot hello", 3, "😀 hello"),
        ("well, @reverie_bot, hello", 6, "well, , hello"),
        ("hello @reverie_bot", 6, "hello"),
        ("@reverie_bot", 0, ""),
    ],
)
def test_a_mention_addresses_the_bot_and_is_cut_out(text: str, offset: int, left: str) -> None:
    inbound = got(said(text, ("mention", offset, 12)))
    assert (inbound.addressed, inbound.text) == (True, left)


def test_another_ones_mention_or_plain_text_is_no_mention() -> None:
    assert not got(said("@reverie_bots hi", ("mention", 0, 13))).addressed
    assert not got(said("mail me at x@reverie_bot")).addressed


def test_a_mention_by_id_addresses_the_bot() -> None:
    entity = {"type": "text_mention", "offset": 0, "length": 7, "user": BOT}
    inbound = got({"text": "Reverie hi", "entities": [entity]})
    assert (inbound.addressed, inbound.text) == (True, "hi")


def test_a_reply_to_the_bot_addresses_it() -> None:
    answered = {"message_id": 2, "date": 1, "chat": GROUP, "from": BOT, "text": "yes?"}
    assert got({"text": "go on", "reply_to_message": answered}).addressed
    assert not got({"text": "go on", "reply_to_message": {**answered, "from": ANN}}).addressed


def test_writing_in_a_topic_that_the_bot_opened_is_no_reply() -> None:
    opened = {
        "message_id": 2,
        "date": 1,
        "chat": GROUP,
        "from": BOT,
        "forum_topic_created": {"name": "t", "icon_color": 1},
    }
    topic = {"message_thread_id": 2, "is_topic_message": True, "reply_to_message": opened}
    inbound = got({"text": "hi", **topic})
    assert (inbound.addressed, inbound.address.thread) == (False, "2")


def test_a_thread_of_replies_is_no_topic() -> None:
    assert got({"text": "hi", "message_thread_id": 2}).address.thread == ""


@pytest.mark.parametrize(
    ("text", "length", "me", "addressed", "left"),
    [
        ("/help me", 5, ME, True, "/help me"),
        ("/help@Reverie_Bot me", 17, ME, True, "/help me"),
        ("/help@other_bot me", 15, ME, False, "/help@other_bot me"),
        ("/help me", 5, ALL_SEEING, True, "/help me"),
        ("/ban him", 4, ALL_SEEING, False, "/ban him"),
        ("/ban him", 4, ME, True, "/ban him"),
    ],
)
def test_commands_address_the_bot_if_they_can_be_its_own(
    text: str, length: int, me: Me, addressed: bool, left: str
) -> None:
    inbound = got(said(text, ("bot_command", 0, length)), me)
    assert (inbound.addressed, inbound.text) == (addressed, left)


def test_a_caption_is_the_text_and_attachments_are_named_by_kind() -> None:
    photo = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]
    inbound = got(
        {
            "photo": photo,
            "caption": "@reverie_bot see",
            "caption_entities": [{"type": "mention", "offset": 0, "length": 12}],
        }
    )
    assert (inbound.text, [each.kind for each in inbound.attachments], inbound.addressed) == ("see", ["photo"], True)


def test_an_animation_is_not_a_document_too() -> None:
    file = {"file_id": "f", "file_unique_id": "u"}
    inbound = got({"document": file, "animation": {**file, "width": 1, "height": 1, "duration": 1}})
    assert [each.kind for each in inbound.attachments] == ["animation"]


def test_an_anonymous_administrator_is_no_person() -> None:
    inbound = got({"text": "hi", "from": {**BOT, "id": 1087968824}, "sender_chat": GROUP})
    assert (str(inbound.account), inbound.name) == ("telegram:-1005", "Garden")


@pytest.mark.parametrize(
    "message",
    [
        {"text": "hi", "from": {**BOT, "id": 5}},
        {"text": "news", "chat": {"id": -1, "type": "channel", "title": "c"}},
        {"text": "news", "sender_chat": {"id": -1, "type": "channel", "title": "c"}, "is_automatic_forward": True},
        {"new_chat_members": [ANN]},
        {"migrate_to_chat_id": -1006},
    ],
)
def test_what_no_person_said_to_us_is_left_out(message: dict[str, Any]) -> None:
    assert understood(message) is None


def test_an_edit_is_no_new_message_but_amends_the_one_that_it_is_of() -> None:
    message = {"message_id": 3, "date": 1, "edit_date": 2, "from": ANN, "chat": PRIVATE, "text": "hi"}
    update = Update.de_json({"update_id": 1, "edited_message": message})
    assert to_inbound(update, ME) is None
    assert (amended := to_amended(update, ME)) is not None
    assert (amended.external_id, amended.text) == ("7:3", "hi")


@pytest.mark.parametrize(
    "message",
    [
        {"from": {**BOT, "id": 5}, "text": "hi"},
        {"chat": {"id": -1, "type": "channel", "title": "c"}, "text": "hi"},
        {"location": {"latitude": 1.0, "longitude": 2.0, "live_period": 900}},
    ],
)
def test_what_bots_and_channels_edit_and_a_live_location_amend_nothing(message: dict[str, Any]) -> None:
    whole = {"message_id": 3, "date": 1, "edit_date": 2, "from": ANN, "chat": PRIVATE, **message}
    assert to_amended(Update.de_json({"update_id": 1, "edited_message": whole}), ME) is None


@pytest.mark.parametrize(
    ("message", "another"),
    [
        (said("@bob what now?", ("mention", 0, 4)), True),
        (said(" @bob what now?", ("mention", 1, 4)), True),
        (said("what does @bob say?", ("mention", 10, 4)), False),
        (said("@bob @reverie_bot hi", ("mention", 0, 4), ("mention", 5, 12)), False),
        (said("/help@other_bot", ("bot_command", 0, 15)), True),
        (said("/help", ("bot_command", 0, 5)), False),
        (said("@garden hi", ("mention", 0, 7), chat={**GROUP, "username": "garden"}), False),
        (said("@bob hi", ("mention", 0, 4), chat=PRIVATE), False),
        ({"text": "go on", "reply_to_message": {"message_id": 2, "date": 1, "chat": GROUP, "from": ANN}}, False),
        ({"text": "Bob hi", "entities": [{"type": "text_mention", "offset": 0, "length": 3, "user": ANN}]}, True),
        ({"text": "R hi", "entities": [{"type": "text_mention", "offset": 0, "length": 1, "user": BOT}]}, False),
    ],
)
def test_who_is_called_by_name_first_is_meant_and_nobody_else(message: dict[str, Any], another: bool) -> None:
    assert got(message).for_another is another


ANSWERED = {"message_id": 2, "date": 1, "chat": GROUP, "from": ANN}


@pytest.mark.parametrize(
    ("message", "quoted"),
    [
        ({"reply_to_message": {**ANSWERED, "text": "all of it"}}, Quoted(name="Ann Lee", text="all of it")),
        (
            {"reply_to_message": {**ANSWERED, "text": "all of it"}, "quote": {"text": "of", "position": 4}},
            Quoted(name="Ann Lee", text="of"),
        ),
        (
            {"reply_to_message": {**ANSWERED, "from": BOT, "text": "yes?"}},
            Quoted(name="R", text="yes?", mine=True),
        ),
        ({"reply_to_message": {**ANSWERED, "voice": VOICE}}, Quoted(name="Ann Lee", text="(voice)")),
        ({"reply_to_message": {**ANSWERED, "sender_chat": GROUP, "text": "x"}}, Quoted(name="Garden", text="x")),
        ({"reply_to_message": {**ANSWERED, "new_chat_title": "x"}}, None),
        (
            {"external_reply": {"origin": ORIGINS["hidden"], "voice": VOICE}, "quote": {"text": "of", "position": 4}},
            Quoted(name="Zoe", text="of"),
        ),
        ({"external_reply": {"origin": ORIGINS["user"], "voice": VOICE}}, Quoted(name="Ann Lee", text="(voice)")),
        ({"reply_to_story": {"id": 1, "chat": GROUP}}, Quoted(name="Garden", text="(a story, which bots can't see)")),
        ({}, None),
    ],
)
def test_what_a_message_answers_is_told_with_who_said_it(message: dict[str, Any], quoted: Quoted | None) -> None:
    assert got({"text": "why?", **message}).quoted == quoted


def test_the_file_of_what_is_answered_elsewhere_comes_along() -> None:
    inbound = got({"text": "why?", "external_reply": {"origin": ORIGINS["user"], "voice": VOICE}})
    assert [(each.kind, each.file_id) for each in inbound.attachments] == [("voice", "v")]
    assert inbound.attachments[0].of_quoted


@pytest.mark.parametrize(
    ("origin", "name"),
    [("user", "Ann Lee"), ("hidden", "Zoe"), ("nobody", "somebody"), ("chat", "Garden"), ("channel", "News")],
)
def test_whose_words_are_passed_on_is_told(origin: str, name: str) -> None:
    assert got({"text": "hi", "forward_origin": ORIGINS[origin]}).forwarded_from == name
    assert got({"text": "hi"}).forwarded_from == ""


def test_of_a_photo_the_largest_size_is_named_whatever_their_order() -> None:
    sizes = [
        {"file_id": str(side), "file_unique_id": "u", "width": side, "height": side, "file_size": 2 * side}
        for side in (90, 1280, 320)
    ]
    (came,) = got({"photo": sizes}).attachments
    assert came == Attachment(kind="photo", file_id="1280", media_type="image/jpeg", size=2560)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"location": PLACE}, "(A location: latitude 52.50000, longitude 13.40000)"),
        ({"contact": {"phone_number": "+49", "first_name": "Bo", "last_name": "Y"}}, "(A contact: Bo Y, +49)"),
        ({"dice": {"emoji": "🎲", "value": 6}}, "(Thrown: 🎲 6)"),
        ({"sticker": {**STICKER, "is_animated": True}}, "(A moving sticker: 🙂)"),
        ({"story": {"id": 1, "chat": GROUP}}, "(A story of Garden, which bots can't see)"),
    ],
)
def test_what_is_no_file_is_told_in_words(message: dict[str, Any], words: str) -> None:
    inbound = got(message)
    assert (inbound.text, inbound.attachments) == (words, ())


def test_a_place_and_a_poll_are_told_in_words_too() -> None:
    venue = {"location": PLACE, "title": "Zoo", "address": "Street 1"}
    inbound = got({"venue": venue, "location": PLACE})
    assert inbound.text == "(A place: Zoo, Street 1, latitude 52.50000, longitude 13.40000)"
    assert got({"poll": POLL}).text == "(A poll: Tea?)\n- yes\n- no"


def test_a_sticker_that_stands_still_is_a_picture() -> None:
    (came,) = got({"sticker": STICKER}).attachments
    assert (came.kind, came.media_type) == ("sticker", "image/webp")


@pytest.mark.parametrize(("text", "more"), [("x" * 3999, False), ("x" * 4000, True), ("😀" * 2000, True)])
def test_a_text_that_an_app_may_have_cut_may_go_on(text: str, more: bool) -> None:
    assert got({"text": text}).more_may_follow is more


def test_a_topic_of_a_private_chat_is_a_thread() -> None:
    inbound = got({"text": "hi", "chat": PRIVATE, "message_thread_id": 9, "is_topic_message": True})
    assert (str(inbound.address), inbound.addressed) == ("telegram:7/9", True)
