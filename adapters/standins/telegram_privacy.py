"""What of a chat reaches a bot: everything, or in privacy mode only what is meant for it."""

from collections.abc import Mapping
from typing import Any

from adapters.standins.telegram_chats import Messenger, Room

_SERVICE = {
    "forum_topic_created",
    "forum_topic_closed",
    "left_chat_member",
    "migrate_from_chat_id",
    "migrate_to_chat_id",
    "new_chat_members",
    "new_chat_title",
    "pinned_message",
}


def reaches_bot(world: Messenger, room: Room, message: Mapping[str, Any]) -> bool:
    """Say whether the bot is given a message."""
    status = room.members[world.bot.id]
    if status in {"kicked", "left"} or room.moved_to is not None:
        return False
    if room.chat.person is not None or not world.privacy or status == "administrator":
        return True
    if not _SERVICE.isdisjoint(message):
        return True
    answered = message.get("reply_to_message", {})
    to_bot = answered.get("from", {}).get("id") == world.bot.id and "forum_topic_created" not in answered
    return to_bot or _is_named(message, world.bot.username)


def _is_named(message: Mapping[str, Any], username: str) -> bool:
    text = message.get("text", message.get("caption", "")).encode("utf-16-le")
    for entity in message.get("entities", message.get("caption_entities", ())):
        start = 2 * entity["offset"]
        typed = text[start : start + 2 * entity["length"]].decode("utf-16-le").lower()
        name, at, target = typed.partition("@")
        named = target == username.lower()
        if entity["type"] == "bot_command" and (named or not at):
            return True
        if entity["type"] == "mention" and not name and named:
            return True
    return False
