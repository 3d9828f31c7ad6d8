"""A Telegram update as what the gateway knows: a message, an edit, a pressed button, a chat that changed. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from telegram import CallbackQuery, Chat, ChatMember, ChatMemberUpdated, Message, Update
from telegram.constants import ChatType

from adapters.base import Account, Address, Amended, ChatKind, Inbound, Pressed
from adapters.telegram.contents import attachments, in_words
from adapters.telegram.context import answered_attachments, forwarded_from, quoted
from adapters.telegram.mentions import Me, is_for_another, is_meant, without_me
from adapters.text.telegram import utf16_units

PLATFORM = "telegram"

STOPPED = "stopped_message_generation"
"""The update of a draft's own stop button (Bot API 10.3), which the library does not know yet."""

_KINDS = {"private": ChatKind.PRIVATE, "group": ChatKind.SHARED, "supergroup": ChatKind.SHARED}
_CUT = 4000
"""UTF-16 units from which on a text may be a part: the apps cut at 4096, and rather at a space before it."""

_GONE = frozenset({ChatMember.BANNED, ChatMember.LEFT})


def to_inbound(update: Update, me: Me) -> Inbound | None:
    """Return what a person said, or None for what is no message of a person's to us.

    Left out: channels, other bots (two bots would talk for ever), edits, service messages. An anonymous
    administrator, or a channel that speaks in a group, is taken for what it is: the account is that chat's id,
    which is no person.

    The external id is `chat:message`, not the number of the update: a message has one and the same whether it
    is polled or pushed, so that a switch between the two can't double it.
    """
    message = update.message
    if message is None or (kind := _KINDS.get(str(message.chat.type))) is None:
        return None
    sender = _sender(message)
    text, entities = message.text or message.caption or "", message.entities or message.caption_entities
    said, came = _said(message, me), attachments(message)
    if sender is None or not (text or said or came):
        return None
    account, name, language = sender
    return Inbound(
        external_id=_external_id(message),
        address=_address(message),
        kind=kind,
        account=account,
        name=name,
        text=said,
        message_id=str(message.message_id),
        sent_at=message.date,
        addressed=kind is ChatKind.PRIVATE or is_meant(message, text, entities, me),
        chat_title=message.chat.title or "",
        language=language,
        attachments=came or answered_attachments(message),
        for_another=kind is ChatKind.SHARED and is_for_another(message, text, entities, me),
        quoted=quoted(message, me),
        forwarded_from=forwarded_from(message),
        batch=message.media_group_id or "",
        more_may_follow=bool(message.media_group_id) or utf16_units(text) >= _CUT,
    )


def to_amended(update: Update, me: Me) -> Amended | None:
    """Return what a person's message says now; None for what is none of theirs.

    A location that is shared live is "edited" with each step of whoever shares it: that amends nothing.
    """
    message = update.edited_message
    if message is None or str(message.chat.type) not in _KINDS or message.location:
        return None
    sender = _sender(message)
    if sender is None:
        return None
    text = _said(message, me)
    return Amended(external_id=_external_id(message), address=_address(message), account=sender[0], text=text)


def to_pressed(query: CallbackQuery) -> Pressed | None:
    """Return a press of a button under a message of ours, also if Telegram shows us that message no more."""
    message, user = query.message, query.from_user
    if message is None or not query.data or (kind := _KINDS.get(str(message.chat.type))) is None:
        return None
    whole_chat = Address(platform=PLATFORM, chat=str(message.chat.id))
    return Pressed(
        external_id=f"{message.chat.id}:press:{query.id}",
        address=_address(message) if isinstance(message, Message) else whole_chat,
        kind=kind,
        account=Account(platform=PLATFORM, user=str(user.id)),
        name=user.full_name,
        token=query.data,
        message_id=str(message.message_id),
        language=user.language_code or "",
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """Whether the bot can post in a chat, after somebody changed that."""

    chat: Address
    reachable: bool


def to_reach(changed: ChatMemberUpdated) -> Reach | None:
    """Return what a change of the bot's own membership means; None for channels.

    Blocked is `kicked` in a private chat. A restricted bot may be out, or in and forbidden to write.
    """
    if str(changed.chat.type) not in _KINDS:
        return None
    now = changed.new_chat_member
    out = getattr(now, "is_member", True) is False or getattr(now, "can_send_messages", True) is False
    chat = Address(platform=PLATFORM, chat=str(changed.chat.id))
    return Reach(chat=chat, reachable=now.status not in _GONE and not out)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """A draft whose stop button was pressed. Telegram names nobody: in a private chat there is one who can."""

    chat: Chat
    thread: str
    draft: int


def to_stopped(update: Update) -> Stopped | None:
    """Return the draft that was stopped, else None. Raises what is wrong with an update of another form."""
    told: dict[str, Any] | None = update.api_kwargs.get(STOPPED)
    if told is None:
        return None
    chat = Chat.de_json(told["chat"])
    return Stopped(chat=chat, thread=str(told.get("message_thread_id") or ""), draft=int(told["draft_id"]))


def stop_said(stopped: Stopped, address: Address, *, update_id: int, now: datetime) -> Inbound:
    """Return the /stop that a press of a draft's button stands for; it comes without a time of its own."""
    chat = stopped.chat
    return Inbound(
        external_id=f"{chat.id}:stop:{update_id}",
        address=address,
        kind=ChatKind.PRIVATE,
        account=Account(platform=PLATFORM, user=str(chat.id)),
        name=chat.full_name or "",
        text="/stop",
        message_id="",
        sent_at=now,
        addressed=True,
    )


def _external_id(message: Message) -> str:
    return f"{message.chat.id}:{message.message_id}"


def _address(message: Message) -> Address:
    # Replies in ordinary groups carry a thread id, too; only a topic's can be posted to.
    thread = str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else ""
    return Address(platform=PLATFORM, chat=str(message.chat.id), thread=thread)


def _said(message: Message, me: Me) -> str:
    """Return the text without our name, and in words what is neither text nor file."""
    text, entities = message.text or message.caption or "", message.entities or message.caption_entities
    return "\n".join(filter(None, (without_me(text, entities, me), in_words(message))))


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
