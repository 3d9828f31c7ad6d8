"""Posting one part, once."""

from collections.abc import Mapping
from typing import Any

import structlog
import telegram
from telegram.error import TelegramError

from adapters.base import Address, Outbound
from adapters.errors import Permanent
from adapters.telegram.errors import Target, cured, described, is_unchanged, translated

_NO_PREVIEW = telegram.LinkPreviewOptions(is_disabled=True)

_log = structlog.get_logger()


class Posts:
    """Posts and edits messages."""

    def __init__(self, bot: telegram.Bot) -> None:
        self._bot = bot

    async def deliver(self, post: Outbound) -> str:
        """Post a part, or edit it in, and return its message id; goes round what it can, once each way.

        Only a refusal is gone round: after it nothing was posted, so this never posts twice. Raises our errors.
        """
        target = _target(post)
        while True:
            try:
                return await self._put(post, target)
            except TelegramError as error:
                better = cured(error, target)
                if better is None:
                    raise translated(error) from error
                _log.info("telegram_post_rerouted", address=str(post.address), error=described(error))
                target = better

    async def _put(self, post: Outbound, target: Target) -> str:
        text = str(post.part["text"])
        entities = _entities(post.part) if target.formatted else None
        if target.message_id is not None:
            return await self._edit(text, entities, target.chat, target.message_id)
        message = await self._bot.send_message(
            target.chat,
            text,
            entities=entities,
            message_thread_id=target.thread,
            disable_notification=not post.reply_to,  # what the night has done, and what was saved, rings nobody up
            link_preview_options=_NO_PREVIEW,
            reply_parameters=_reply(target.reply_to),
        )
        return str(message.message_id)

    async def _edit(
        self, text: str, entities: tuple[telegram.MessageEntity, ...] | None, chat: int, message_id: int
    ) -> str:
        try:
            await self._bot.edit_message_text(
                text, chat, message_id, entities=entities, link_preview_options=_NO_PREVIEW
            )
        except TelegramError as error:
            if not is_unchanged(error):
                raise
        return str(message_id)


def chat_and_thread(address: Address) -> tuple[int, int | None]:
    """Return an address as the API wants it; raises `Permanent` for one that can't be Telegram's."""
    try:
        return int(address.chat), int(address.thread) if address.thread else None
    except ValueError as error:
        raise Permanent(f"{address} is no Telegram chat") from error


def _target(post: Outbound) -> Target:
    chat, thread = chat_and_thread(post.address)
    return Target(chat=chat, thread=thread, message_id=_number(post.message_id), reply_to=_number(post.reply_to))


def _number(message_id: str) -> int | None:
    return int(message_id) if message_id.isdecimal() else None


def _entities(part: Mapping[str, Any]) -> tuple[telegram.MessageEntity, ...]:
    return telegram.MessageEntity.de_list(list(part.get("entities", ())))


def _reply(message_id: int | None) -> telegram.ReplyParameters | None:
    # What is answered may have been deleted meanwhile: the answer must arrive all the same.
    return telegram.ReplyParameters(message_id, allow_sending_without_reply=True) if message_id else None
