"""What the methods of the Bot API that post have in common."""

from collections.abc import Mapping
from typing import Any

from adapters.standins.telegram_chats import Messenger, Room
from adapters.standins.telegram_text import CAPTION_LIMIT, TEXT_LIMIT, check_keyboard, formatted
from adapters.standins.telegram_wire import Given, Oddity, Refused


def post(world: Messenger, room: Room, given: Given, content: Mapping[str, Any]) -> dict[str, Any]:
    """Post what a method has made of its parameters, with what all of them take."""
    world.count_in(room)
    world.check_thread(room, given.get("message_thread_id"))
    content = {**content, **keyboard_of(given)}
    thread = given.get("message_thread_id")
    return world.post(room, world.bot, content, reply_to=_reply(room, given), thread=thread)


def _reply(room: Room, given: Given) -> int | None:
    reply = given.get("reply_parameters")
    if reply is None:
        return None
    if not isinstance(reply, dict) or not isinstance(reply.get("message_id"), int):
        raise Refused.bad('can\'t parse reply parameters: field "message_id" must be of type Number')
    if reply.get("chat_id", room.chat.id) == room.chat.id and reply["message_id"] in room.messages:
        answered = room.messages[reply["message_id"]]
        if reply.get("quote", "") not in answered.get("text", answered.get("caption", "")):
            raise Refused.bad("QUOTE_TEXT_INVALID")
        return int(reply["message_id"])
    if reply.get("allow_sending_without_reply"):
        return None
    raise Refused.bad("message to be replied not found")


def text_of(given: Given, odd: Oddity, *, may_be_empty: bool) -> dict[str, Any]:
    """Return the checked text of a request as fields of a message."""
    checked = formatted(
        given.get("text", ""),
        given.get("entities"),
        parse_mode=given.get("parse_mode"),
        limit=TEXT_LIMIT,
        may_be_empty=may_be_empty,
    )
    for oddity in checked.oddities:
        odd(oddity)
    content: dict[str, Any] = {"text": checked.text}
    if checked.entities:
        content["entities"] = list(checked.entities)
    preview = given.get("link_preview_options")
    if preview is not None and not isinstance(preview, dict):
        raise Refused.bad("can't parse link preview options JSON object")
    return content | ({"link_preview_options": preview} if preview else {})


def caption_of(given: Given, odd: Oddity) -> dict[str, Any]:
    """Return the checked caption of a request as fields of a message."""
    checked = formatted(
        given.get("caption", ""),
        given.get("caption_entities"),
        parse_mode=given.get("parse_mode"),
        limit=CAPTION_LIMIT,
        may_be_empty=True,
    )
    for oddity in checked.oddities:
        odd(oddity)
    content: dict[str, Any] = {"caption": checked.text} if checked.text else {}
    return content | ({"caption_entities": list(checked.entities)} if checked.entities else {})


def keyboard_of(given: Given) -> dict[str, Any]:
    """Return the checked keyboard of a request as a field of a message; other markup is none that is kept."""
    markup = given.get("reply_markup")
    if markup is None:
        return {}
    check_keyboard(markup)
    return {"reply_markup": markup} if "inline_keyboard" in markup else {}
