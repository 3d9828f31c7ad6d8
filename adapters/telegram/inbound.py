"""A Telegram update as an `Inbound`: who is meant, what was said, where the answer goes. Pure functions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from telegram import Message, MessageEntity, Update
from telegram.constants import ChatType, MessageEntityType

from adapters.base import Account, Address, ChatKind, Inbound

PLATFORM = "telegram"

_KINDS = {"private": ChatKind.PRIVATE, "group": ChatKind.SHARED, "supergroup": ChatKind.SHARED}
_ATTACHMENTS = (
    "photo",
    "voice",
    "audio",
    "video",
    "video_note",
    "animation",
    "document",
    "sticker",
    "location",
    "contact",
    "poll",
    "dice",
    "story",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Me:
    """What has to be known of the bot to see whether it is meant."""

    id: int
    username: str
    reads_everything: bool = False
    """Privacy mode is off: groups send us all their messages, also commands for other bots."""

    commands: frozenset[str] = frozenset()
    """Our commands, without the slash."""


def to_inbound(update: Update, me: Me) -> Inbound | None:
    """Return what a person said, or None for what is no message of a person's to us.

    Left out: channels, other bots (two bots would talk for ever), edits, service messages. An anonymous
    administrator, or a channel that speaks in a group, is taken for what it is: the account is that chat's id,
    which is no person. Forwarded text is kept like any other: it is data.

    The external id is `chat:message`, not the number of the update: a message has one and the same whether it
    is polled or pushed, so that a switch between the two can't double it.
    """
    message = update.message
    if message is None or (kind := _KINDS.get(str(message.chat.type))) is None:
        return None
    sender = _sender(message)
    text, entities = message.text or message.caption or "", message.entities or message.caption_entities
    attachments = tuple(_attachments(message))
    if sender is None or not (text or attachments):
        return None
    account, name, language = sender
    return Inbound(
        external_id=f"{message.chat.id}:{message.message_id}",
        address=Address(platform=PLATFORM, chat=str(message.chat.id), thread=_thread(message)),
        kind=kind,
        account=account,
        name=name,
        text=_without(text, [part for part in entities if _names_me(part, text, me)]),
        message_id=str(message.message_id),
        sent_at=message.date,
        addressed=kind is ChatKind.PRIVATE or _is_meant(message, text, entities, me),
        chat_title=message.chat.title or "",
        language=language,
        attachments=attachments,
    )


def to_move(update: Update) -> tuple[Address, Address] | None:
    """Return the old and the new address of a group that became a supergroup, else None; both chats report it."""
    message = update.message
    if message is None or message.chat.type not in (ChatType.GROUP, ChatType.SUPERGROUP):
        return None
    here = message.chat.id
    old, new = message.migrate_from_chat_id or here, message.migrate_to_chat_id or here
    if old == new or not (old < 0 and new < 0):  # groups have negative ids; a person's chat never moves
        return None
    return Address(platform=PLATFORM, chat=str(old)), Address(platform=PLATFORM, chat=str(new))


def _sender(message: Message) -> tuple[Account, str, str] | None:
    """Return account, name and language of who speaks, or None for a bot."""
    if message.sender_chat is not None and message.chat.type != ChatType.PRIVATE:
        if message.is_automatic_forward:  # a channel's post, copied to its discussion group by Telegram
            return None
        chat = message.sender_chat
        return Account(platform=PLATFORM, user=str(chat.id)), chat.title or chat.username or "", ""
    user = message.from_user
    if user is None or user.is_bot:
        return None
    return Account(platform=PLATFORM, user=str(user.id)), user.full_name, user.language_code or ""


def _thread(message: Message) -> str:
    # Replies in ordinary groups carry a thread id, too; only a topic's can be posted to.
    return str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else ""


def _attachments(message: Message) -> Iterator[str]:
    for kind in _ATTACHMENTS:
        if getattr(message, kind) and not (kind == "document" and message.animation):
            yield kind


def _is_meant(message: Message, text: str, entities: Sequence[MessageEntity], me: Me) -> bool:
    return (
        _answers_me(message, me)
        or any(_names_me(entity, text, me) for entity in entities)
        or any(_is_bare_command(entity, text, me) for entity in entities)
    )


def _answers_me(message: Message, me: Me) -> bool:
    answered = message.reply_to_message
    # In a topic each message "answers" the one that opened it, also when a bot did.
    if answered is None or answered.forum_topic_created is not None:
        return False
    return answered.from_user is not None and answered.from_user.id == me.id


def _names_me(entity: MessageEntity, text: str, me: Me) -> bool:
    if entity.type == MessageEntityType.TEXT_MENTION:
        return entity.user is not None and entity.user.id == me.id
    if entity.type not in {MessageEntityType.MENTION, MessageEntityType.BOT_COMMAND}:
        return False
    return _piece(text, entity).partition("@")[2].casefold() == me.username.casefold()


def _is_bare_command(entity: MessageEntity, text: str, me: Me) -> bool:
    """Say whether this is a command, at the start, without a bot's name.

    In privacy mode Telegram gives us such a command only if it takes it to be ours. Without privacy mode we
    see those for other bots as well, and take only the ones that we have.
    """
    if entity.type != MessageEntityType.BOT_COMMAND or entity.offset != 0:
        return False
    command = _piece(text, entity)
    return "@" not in command and (not me.reads_everything or command[1:].casefold() in me.commands)


def _piece(text: str, entity: MessageEntity) -> str:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")


def _without(text: str, mentions: Sequence[MessageEntity]) -> str:
    """Cut out the bot's own name; of a command only what follows it."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    for entity in sorted(mentions, key=lambda mention: mention.offset, reverse=True):
        command = _piece(text, entity).partition("@")[0] if entity.type == MessageEntityType.BOT_COMMAND else ""
        start, end = 2 * (entity.offset + len(command)), 2 * (entity.offset + entity.length)
        space = b" \x00"
        if not command and encoded[end : end + 2] == space and encoded[start - 2 : start] in {b"", space}:
            end += 2  # or two spaces would be left where one name was
        encoded = encoded[:start] + encoded[end:]
    return encoded.decode("utf-16-le", "replace").strip()
