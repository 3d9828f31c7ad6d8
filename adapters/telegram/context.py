"""What a message stands in: what it answers, and whose words it passes on. Pure functions."""

from dataclasses import replace

from telegram import (
    Message,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
)

from adapters.base import Attachment, Quoted
from adapters.telegram.contents import Holder, attachments, in_words
from adapters.telegram.mentions import Me, answers_me

SOMEBODY = "somebody"
"""Who said it, where Telegram does not tell."""


def quoted(message: Message, me: Me) -> Quoted | None:
    """Return what a message answers, or the part of it that was marked; also what stands in another chat.

    None if it answers nothing, or something that says nothing, such as the message that opened its topic.
    """
    marked = message.quote.text if message.quote else ""
    if answered := message.reply_to_message:
        text = marked or answered.text or answered.caption or _described(answered)
        return Quoted(name=_speaker(answered), text=text, mine=answers_me(message, me)) if text else None
    if outside := message.external_reply:
        text = marked or _described(outside)
        return Quoted(name=_origin(outside.origin), text=text) if text else None
    if story := message.reply_to_story:
        return Quoted(name=story.chat.effective_name or SOMEBODY, text="(a story, which bots can't see)")
    return None


def answered_attachments(message: Message) -> tuple[Attachment, ...]:
    """Return the files of what a message answers: who asks about a picture answers it, and sends none."""
    answered = message.reply_to_message or message.external_reply
    return tuple(replace(each, of_quoted=True) for each in attachments(answered)) if answered else ()


def forwarded_from(message: Message) -> str:
    """Return the name of whoever said it elsewhere; empty if the sender says it."""
    return _origin(message.forward_origin) if message.forward_origin else ""


def _described(holder: Holder) -> str:
    kinds = ", ".join(each.kind.replace("_", " ") for each in attachments(holder))
    return f"({kinds})" if kinds else in_words(holder)


def _speaker(message: Message) -> str:
    if message.sender_chat is not None:
        return message.sender_chat.effective_name or SOMEBODY
    return message.from_user.full_name if message.from_user else SOMEBODY


def _origin(origin: MessageOrigin) -> str:
    match origin:
        case MessageOriginUser(sender_user=user):
            return user.full_name
        case MessageOriginHiddenUser(sender_user_name=name):
            return name or SOMEBODY
        case MessageOriginChat(sender_chat=chat) | MessageOriginChannel(chat=chat):
            return chat.effective_name or SOMEBODY
    return SOMEBODY
