"""The methods of the Bot API: each a function of what the server knows and the decoded parameters."""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from telegram.constants import ChatAction, ReactionEmoji

from adapters.standins.telegram_chats import Messenger, Room
from adapters.standins.telegram_menu import delete_my_commands, get_my_commands, set_my_commands
from adapters.standins.telegram_text import CAPTION_LIMIT, TEXT_LIMIT, check_keyboard, formatted, units
from adapters.standins.telegram_wire import Given, Oddity, Refused, Upload

_PHOTO_BYTES = 10_000_000
_UPLOAD_BYTES = 50_000_000
_DOWNLOAD_BYTES = 20_000_000
_NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)


def get_me(world: Messenger, _: Given, __: Oddity) -> dict[str, Any]:
    """Say who the bot is."""
    return {
        **world.bot.api(),
        "can_join_groups": True,
        "can_read_all_group_messages": not world.privacy,
        "supports_inline_queries": False,
        "can_connect_to_business": False,
        "has_main_web_app": False,
        "has_topics_enabled": any(room.topics for room in world.rooms.values() if room.chat.person),
        "allows_users_to_create_topics": False,
    }


def send_message(world: Messenger, given: Given, odd: Oddity) -> dict[str, Any]:
    """Post a text."""
    room = world.room(given.get("chat_id"))
    return _post(world, room, given, _text(given, odd, may_be_empty=False))


def send_message_draft(world: Messenger, given: Given, odd: Oddity) -> bool:
    """Show a text that is being written; it goes away by itself."""
    room = world.room(given.get("chat_id"))
    if room.chat.person is None:
        raise Refused.bad("method is available only in private chats")
    if not given.get("draft_id"):
        raise Refused.bad("TEXTDRAFT_ID_INVALID")
    world.check_thread(room, given.get("message_thread_id"))
    room.draft = _text(given, odd, may_be_empty=True)["text"]
    return True


def edit_message_text(world: Messenger, given: Given, odd: Oddity) -> dict[str, Any]:
    """Put another text in place; a keyboard that is not sent again goes away."""
    if "inline_message_id" in given:
        raise Refused.bad("MESSAGE_ID_INVALID")
    room = world.room(given.get("chat_id"))
    message = room.messages.get(_message_id(given))
    if message is None:
        raise Refused.bad("message to edit not found")
    if message["from"]["id"] != world.bot.id:
        raise Refused.bad("message can't be edited")
    if "text" not in message:
        raise Refused.bad("there is no text in the message to edit")
    content = _text(given, odd, may_be_empty=False) | _keyboard(given)
    shown = ("text", "entities", "reply_markup", "link_preview_options")
    if {k: message[k] for k in shown if k in message} == content:
        raise Refused.bad(_NOT_MODIFIED)
    for name in shown:
        message.pop(name, None)
    message |= content | {"edit_date": world.now()}
    return message


def delete_message(world: Messenger, given: Given, _: Oddity) -> bool:
    """Take a message away."""
    room = world.room(given.get("chat_id"))
    message = room.messages.get(_message_id(given))
    if message is None:
        raise Refused.bad("message to delete not found")
    mine = message["from"]["id"] == world.bot.id
    if not mine and room.chat.person is None and room.members[world.bot.id] != "administrator":
        raise Refused.bad("message can't be deleted")
    del room.messages[message["message_id"]]
    return True


def send_chat_action(world: Messenger, given: Given, _: Oddity) -> bool:
    """Show that the bot is at work."""
    room = world.room(given.get("chat_id"))
    action = given.get("action", "")
    if action not in set(ChatAction):
        raise Refused.bad("wrong parameter action in request")
    world.check_thread(room, given.get("message_thread_id"))
    room.actions.append(action)
    return True


def set_message_reaction(world: Messenger, given: Given, _: Oddity) -> bool:
    """React to a message; a bot has one reaction per message."""
    room = world.room(given.get("chat_id"))
    message_id = _message_id(given)
    if message_id not in room.messages:
        raise Refused.bad("message to react not found")
    reactions = given.get("reaction") or []
    if not isinstance(reactions, list) or not all(isinstance(each, dict) for each in reactions):
        raise Refused.bad("can't parse reaction types JSON object")
    if len(reactions) > 1:
        raise Refused.bad("REACTIONS_TOO_MANY")
    emojis = tuple(str(each.get("emoji", "")) for each in reactions)
    if not set(emojis) <= set(ReactionEmoji) or any(each.get("type") != "emoji" for each in reactions):
        raise Refused.bad("REACTION_INVALID")
    room.reactions[message_id] = emojis
    return True


def answer_callback_query(world: Messenger, given: Given, _: Oddity) -> bool:
    """Answer a pressed button, once."""
    if units(given.get("text", "")) > 200:
        raise Refused.bad("MESSAGE_TOO_LONG")
    if given.get("callback_query_id") not in world.queries:
        raise Refused.bad("query is too old and response timeout expired or query ID is invalid")
    world.queries.discard(given["callback_query_id"])
    return True


def get_file(world: Messenger, given: Given, _: Oddity) -> dict[str, Any]:
    """Say where a file can be fetched."""
    file_id = given.get("file_id", "")
    upload = world.files.get(file_id)
    if upload is None:
        raise Refused.bad("wrong file_id or the file is temporarily unavailable")
    if len(upload.content) > _DOWNLOAD_BYTES:
        raise Refused.bad("file is too big")
    unique = file_id.rpartition("-")[2]
    return {
        "file_id": file_id,
        "file_unique_id": unique,
        "file_size": len(upload.content),
        "file_path": f"files/{file_id}",
    }


def get_chat(world: Messenger, given: Given, _: Oddity) -> dict[str, Any]:
    """Describe a chat."""
    return {
        **world.room(given.get("chat_id")).chat.api(),
        "accent_color_id": 0,
        "max_reaction_count": 11,
        "accepted_gift_types": {
            "unlimited_gifts": False,
            "limited_gifts": False,
            "unique_gifts": False,
            "premium_subscription": False,
            "gifts_from_channels": False,
        },
    }


def get_chat_member(world: Messenger, given: Given, _: Oddity) -> dict[str, Any]:
    """Say what somebody is in a chat."""
    room = world.room(given.get("chat_id"))
    person = world.people.get(given.get("user_id", 0))
    if person is None:
        raise Refused.bad("invalid user_id specified")
    status = room.members.get(person.id, "left")
    more = {"creator": {"is_anonymous": False}, "administrator": _ADMINISTRATOR, "kicked": {"until_date": 0}}
    return {"status": status, "user": person.api(), **more.get(status, {})}


_RIGHTS = (
    "can_manage_chat can_delete_messages can_manage_video_chats can_restrict_members can_promote_members "
    "can_change_info can_invite_users can_post_stories can_edit_stories can_delete_stories"
)
_ADMINISTRATOR: Mapping[str, bool] = {
    "can_be_edited": False,
    "is_anonymous": False,
    **dict.fromkeys(_RIGHTS.split(), True),
}


def send_document(world: Messenger, given: Given, odd: Oddity) -> dict[str, Any]:
    """Post a file."""
    room = world.room(given.get("chat_id"))
    upload = _file(world, given.get("document"), limit=_UPLOAD_BYTES)
    document = {**world.store(upload), "file_name": upload.name, "mime_type": upload.mime_type}
    return _post(world, room, given, {"document": document, **_caption(given, odd)})


def send_photo(world: Messenger, given: Given, odd: Oddity) -> dict[str, Any]:
    """Post a picture."""
    room = world.room(given.get("chat_id"))
    upload = _file(world, given.get("photo"), limit=_PHOTO_BYTES)
    return _post(world, room, given, {"photo": picture(world, upload), **_caption(given, odd)})


def picture(world: Messenger, upload: Upload) -> list[dict[str, Any]]:
    """Keep a picture and return its sizes; what is no PNG, JPEG, GIF or WebP is refused."""
    head = upload.content[:32]
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        width, height = struct.unpack(">II", head[16:24])
    elif head.startswith((b"\xff\xd8\xff", b"GIF8")) or head[8:12] == b"WEBP":
        width, height = 640, 480
    else:
        raise Refused.bad("IMAGE_PROCESS_FAILED")
    return [{**world.store(upload), "width": width, "height": height}]


def _file(world: Messenger, value: object, *, limit: int) -> Upload:
    if isinstance(value, Upload):
        if len(value.content) > limit:
            raise Refused(413, "Request Entity Too Large")
        if not value.content:
            raise Refused.bad("file must be non-empty")
        return value
    if isinstance(value, str) and value in world.files:
        return world.files[value]
    raise Refused.bad("wrong file identifier/HTTP URL specified" if value else "there is no file in the request")


def _post(world: Messenger, room: Room, given: Given, content: Mapping[str, Any]) -> dict[str, Any]:
    world.check_thread(room, given.get("message_thread_id"))
    content = {**content, **_keyboard(given)}
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


def _text(given: Given, odd: Oddity, *, may_be_empty: bool) -> dict[str, Any]:
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


def _caption(given: Given, odd: Oddity) -> dict[str, Any]:
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


def _keyboard(given: Given) -> dict[str, Any]:
    markup = given.get("reply_markup")
    if markup is None:
        return {}
    check_keyboard(markup)
    return {"reply_markup": markup} if "inline_keyboard" in markup else {}


def _message_id(given: Given) -> int:
    if "message_id" not in given:
        raise Refused.bad("message identifier is not specified")
    return int(given["message_id"])


HANDLERS: Mapping[str, Callable[[Messenger, Given, Oddity], Any]] = {
    "getMe": get_me,
    "sendMessage": send_message,
    "sendMessageDraft": send_message_draft,
    "editMessageText": edit_message_text,
    "deleteMessage": delete_message,
    "sendChatAction": send_chat_action,
    "setMyCommands": set_my_commands,
    "getMyCommands": get_my_commands,
    "deleteMyCommands": delete_my_commands,
    "setMessageReaction": set_message_reaction,
    "answerCallbackQuery": answer_callback_query,
    "getFile": get_file,
    "getChat": get_chat,
    "getChatMember": get_chat_member,
    "sendDocument": send_document,
    "sendPhoto": send_photo,
}
"""The methods that only concern chats; those about updates belong to the queue."""
