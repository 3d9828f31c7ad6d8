"""Who is meant by a message: mentions, commands and replies. Pure functions; all offsets are UTF-16 units."""

from collections.abc import Sequence
from dataclasses import dataclass

from telegram import Message, MessageEntity
from telegram.constants import MessageEntityType

_MENTIONS = frozenset({MessageEntityType.MENTION, MessageEntityType.TEXT_MENTION})


@dataclass(frozen=True, kw_only=True, slots=True)
class Me:
    """What has to be known of the bot to see whether it is meant."""

    id: int
    username: str
    reads_everything: bool = False
    """Privacy mode is off: groups send us all their messages, also commands for other bots."""

    commands: frozenset[str] = frozenset()
    """Our commands, without the slash."""


def is_meant(message: Message, text: str, entities: Sequence[MessageEntity], me: Me) -> bool:
    """Say whether a message in a group is for the bot: a reply to it, its name, or a command that is its own."""
    return (
        answers_me(message, me)
        or any(_names_me(entity, text, me) for entity in entities)
        or any(_is_bare_command(entity, text, me) for entity in entities)
    )


def is_for_another(message: Message, text: str, entities: Sequence[MessageEntity], me: Me) -> bool:
    """Say whether somebody else is called by name: by a mention that comes first, or as the bot of a command.

    A reply to another person is not for them alone: it may name us in words, or be said to all. Nor is the group's own
    name anybody's.
    """
    if is_meant(message, text, entities, me):
        return False
    first = len(_encoded(text)) // 2 - len(_encoded(text.lstrip())) // 2
    for entity in entities:
        name = piece(text, entity).partition("@")[2].casefold()
        if entity.type in _MENTIONS and entity.offset == first:
            return name != (message.chat.username or "").casefold() or not name
        if entity.type == MessageEntityType.BOT_COMMAND and name:
            return True
    return False


def answers_me(message: Message, me: Me) -> bool:
    """Say whether a message is a reply to one of the bot's."""
    answered = message.reply_to_message
    # In a topic each message "answers" the one that opened it, also when a bot did.
    if answered is None or answered.forum_topic_created is not None:
        return False
    return answered.from_user is not None and answered.from_user.id == me.id


def piece(text: str, entity: MessageEntity) -> str:
    """Return the words that an entity marks."""
    encoded = _encoded(text)
    return encoded[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def without_me(text: str, entities: Sequence[MessageEntity], me: Me) -> str:
    """Cut out the bot's own name; of a command only what follows it."""
    mentions = [entity for entity in entities if _names_me(entity, text, me)]
    encoded = _encoded(text)
    for entity in sorted(mentions, key=lambda mention: mention.offset, reverse=True):
        command = piece(text, entity).partition("@")[0] if entity.type == MessageEntityType.BOT_COMMAND else ""
        start, end = 2 * (entity.offset + len(command)), 2 * (entity.offset + entity.length)
        space = b" \x00"
        if not command and encoded[end : end + 2] == space and encoded[start - 2 : start] in {b"", space}:
            end += 2  # or two spaces would be left where one name was
        encoded = encoded[:start] + encoded[end:]
    return encoded.decode("utf-16-le", "replace").strip()


def _encoded(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _names_me(entity: MessageEntity, text: str, me: Me) -> bool:
    if entity.type == MessageEntityType.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    if entity.type not in {MessageEntityType.MENTION, MessageEntityType.BOT_COMMAND}:
        return False
    return piece(text, entity).partition("@")[2].casefold() == me.username.casefold()


def _is_bare_command(entity: MessageEntity, text: str, me: Me) -> bool:
    """Say whether this is a command, at the start, without a bot's name.

    In privacy mode Telegram gives us such a command only if it takes it to be ours. Without privacy mode we
    see those for other bots as well, and take only the ones that we have.
    """
    if entity.type != MessageEntityType.BOT_COMMAND or entity.offset != 0:
        return False
    command = piece(text, entity)
    return "@" not in command and (not me.reads_everything or command[1:].casefold() in me.commands)
