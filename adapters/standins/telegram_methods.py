"""The methods of the Bot API: each a function of what the server knows and the decoded parameters."""

from collections.abc import Callable, Mapping
from typing import Any

from telegram.constants import ChatAction, ReactionEmoji

from adapters.standins.telegram_chats import DRAFT_SECONDS, Draft, Messenger
from adapters.standins.telegram_files import get_file, send_document, send_photo
from adapters.standins.telegram_members import member
from adapters.standins.telegram_menu import delete_my_commands, get_my_commands, set_my_commands
from adapters.standins.telegram_posting import keyboard_of, post, text_of
from adapters.standins.telegram_text import units
from adapters.standins.telegram_wire import Given, Oddity, Refused

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
    return post(world, room, given, text_of(given, odd, may_be_empty=False))


def send_message_draft(world: Messenger, given: Given, odd: Oddity) -> bool:
    """Show a text that is being written, or without one that the bot thinks; it goes away by itself."""
    room = world.room(given.get("chat_id"))
    if room.chat.person is None:
        raise Refused.bad("method is available only in private chats")
    if not given.get("draft_id"):
        raise Refused.bad("TEXTDRAFT_ID_INVALID")
    thread = given.get("message_thread_id")
    world.check_thread(room, thread)
    room.drafts[thread] = Draft(
        id=given["draft_id"],
        text=text_of(given, odd, may_be_empty=True)["text"],
        can_stop=bool(given.get("can_stop")),
        until=world.clock() + DRAFT_SECONDS,
    )
    return True


def edit_message_text(world: Messenger, given: Given, odd: Oddity) -> dict[str, Any]:
    """Put another text in place; a keyboard that is not sent again goes away."""
    if "inline_message_id" in given:
        raise Refused.bad("MESSAGE_ID_INVALID")
    room = world.room(given.get("chat_id"))
    world.count_in(room)
    message = room.messages.get(_message_id(given))
    if message is None:
        raise Refused.bad("message to edit not found")
    if message["from"]["id"] != world.bot.id:
        raise Refused.bad("message can't be edited")
    if "text" not in message:
        raise Refused.bad("there is no text in the message to edit")
    content = text_of(given, odd, may_be_empty=False) | keyboard_of(given)
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
    if not room.allows_reactions:
        raise Refused.bad("REACTION_INVALID")
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
    return member(person, room.members.get(person.id, "left"))


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
