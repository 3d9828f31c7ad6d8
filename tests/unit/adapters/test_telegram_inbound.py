from datetime import UTC, datetime
from typing import Any

import pytest
from telegram import Update

from adapters.base import ChatKind, Inbound
from adapters.telegram.inbound import Me, to_inbound

ME = Me(id=99, username="Reverie_Bot", commands=frozenset({"help"}))
ALL_SEEING = Me(id=99, username="Reverie_Bot", reads_everything=True, commands=frozenset({"help"}))
ANN = {"id": 7, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "language_code": "de"}
BOT = {"id": 99, "is_bot": True, "first_name": "R", "username": "reverie_bot"}
PRIVATE = {"id": 7, "type": "private", "first_name": "Ann"}
GROUP = {"id": -1005, "type": "supergroup", "title": "Garden"}


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
    assert (inbound.text, inbound.attachments, inbound.addressed) == ("see", ("photo",), True)


def test_an_animation_is_not_a_document_too() -> None:
    file = {"file_id": "f", "file_unique_id": "u"}
    inbound = got({"document": file, "animation": {**file, "width": 1, "height": 1, "duration": 1}})
    assert inbound.attachments == ("animation",)


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


def test_edits_are_left_out() -> None:
    message = {"message_id": 3, "date": 1, "edit_date": 2, "from": ANN, "chat": PRIVATE, "text": "hi"}
    assert to_inbound(Update.de_json({"update_id": 1, "edited_message": message}), ME) is None
