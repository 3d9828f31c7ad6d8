"""Posting one part, once."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
import telegram
from telegram.error import TelegramError

from adapters.base import Address, Outbound
from adapters.errors import Permanent
from adapters.telegram.errors import Carrying, Target, cured, described, is_unchanged, translated
from adapters.telegram.pacing import Pacing

_NO_PREVIEW = telegram.LinkPreviewOptions(is_disabled=True)
_PICTURES = frozenset({"image/jpeg", "image/png", "image/webp"})
_PICTURE_BYTES = 10_000_000
_FILE_SECONDS = 120.0

_log = structlog.get_logger()


class Posts:
    """Posts and edits messages; `file_bytes` is what the server takes of a file."""

    def __init__(self, bot: telegram.Bot, pacing: Pacing, *, file_bytes: int) -> None:
        self._bot, self._pacing, self._file_bytes = bot, pacing, file_bytes

    async def deliver(self, post: Outbound) -> str:
        """Post a part, or edit it in, and return its message id; goes round what it can, once each way.

        Only a refusal is gone round: after it nothing was posted, so this never posts twice. Raises our errors.
        """
        target = _target(post)
        content = await self._content(post)
        if content is not None:
            target = replace(target, carrying=_carrying(post, content))
        while True:
            try:
                return await self._put(post, target, content)
            except TelegramError as error:
                better = cured(error, target)
                if better is None:
                    raise translated(error) from error
                _log.info("telegram_post_rerouted", address=str(post.address), error=described(error))
                target = better

    async def _content(self, post: Outbound) -> bytes | None:
        """Read the file that goes along; None if there is none, or none that can be sent."""
        if "file" not in post.part:
            return None
        path = Path(post.part["file"]["path"])
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
            return await asyncio.to_thread(path.read_bytes) if 0 < size <= self._file_bytes else None
        except OSError as error:
            _log.warning("telegram_file_unreadable", address=str(post.address), error=type(error).__name__)
            return None

    async def _put(self, post: Outbound, target: Target, content: bytes | None) -> str:
        with self._pacing.heeding(target.chat):
            if content is not None and target.carrying is not Carrying.NOTHING:
                return await self._send_file(post, target, content)
            part = post.part if "file" not in post.part else _without_file(post.part)
            if target.message_id is not None:
                return await self._edit(part, target, target.message_id)
            return await self._send(post, part, target)

    async def _send(self, post: Outbound, part: Mapping[str, Any], target: Target) -> str:
        message = await self._bot.send_message(
            target.chat,
            str(part["text"]),
            entities=_entities(part) if target.formatted else None,
            link_preview_options=_NO_PREVIEW,
            **_common(post, target),
        )
        self._pacing.turn(target.chat)  # it counts among what the chat takes
        return str(message.message_id)

    async def _edit(self, part: Mapping[str, Any], target: Target, message_id: int) -> str:
        """Put a part in the place of a message; its buttons, if it had any, go away unless the part has some."""
        try:
            await self._bot.edit_message_text(
                str(part["text"]),
                target.chat,
                message_id,
                entities=_entities(part) if target.formatted else None,
                link_preview_options=_NO_PREVIEW,
                reply_markup=_markup(part),
            )
        except TelegramError as error:
            if not is_unchanged(error):
                raise
        return str(message_id)

    async def _send_file(self, post: Outbound, target: Target, content: bytes) -> str:
        """Post a part with its file; a text can't become one, so what it was to replace is taken away afterwards."""
        caption: dict[str, Any] = {
            "caption": str(post.part["text"]) or None,
            "caption_entities": _entities(post.part) if target.formatted else None,
            "filename": post.part["file"]["name"],
            "read_timeout": _FILE_SECONDS,
            "write_timeout": _FILE_SECONDS,
        }
        if target.carrying is Carrying.PICTURE:
            message = await self._bot.send_photo(target.chat, content, **caption, **_common(post, target))
        else:
            message = await self._bot.send_document(target.chat, content, **caption, **_common(post, target))
        self._pacing.turn(target.chat)  # it counts among what the chat takes
        if target.message_id is not None:
            await self._take_away(target.chat, target.message_id)
        return str(message.message_id)

    async def _take_away(self, chat: int, message_id: int) -> None:
        try:
            await self._bot.delete_message(chat, message_id)
        except TelegramError as error:  # the answer is there: this must not look like a failure to post it
            _log.info("telegram_message_not_taken_away", chat=chat, error=described(error))


def chat_and_thread(address: Address) -> tuple[int, int | None]:
    """Return an address as the API wants it; raises `Permanent` for one that can't be Telegram's."""
    try:
        return int(address.chat), int(address.thread) if address.thread else None
    except ValueError as error:
        raise Permanent(f"{address} is no Telegram chat") from error


def number(message_id: str) -> int | None:
    """Return a message's id as the API wants it; None for none."""
    return int(message_id) if message_id.isdecimal() else None


def _target(post: Outbound) -> Target:
    chat, thread = chat_and_thread(post.address)
    return Target(chat=chat, thread=thread, message_id=number(post.message_id), reply_to=number(post.reply_to))


def _carrying(post: Outbound, content: bytes) -> Carrying:
    is_picture = post.part["file"]["media_type"] in _PICTURES and len(content) <= _PICTURE_BYTES
    return Carrying.PICTURE if is_picture else Carrying.DOCUMENT


def _without_file(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part that says that its file could not be sent: the answer must arrive all the same."""
    said = f"(The file {part['file']['name']} can't be sent here.)"
    return {**part, "text": f"{part['text']}\n\n{said}".lstrip() if part["text"] else said}


def _common(post: Outbound, target: Target) -> dict[str, Any]:
    return {
        "message_thread_id": target.thread,
        "disable_notification": not post.reply_to,  # what the night has done, and what was saved, rings nobody up
        "reply_parameters": _reply(target.reply_to),
        "reply_markup": _markup(post.part),
    }


def _entities(part: Mapping[str, Any]) -> tuple[telegram.MessageEntity, ...]:
    return telegram.MessageEntity.de_list(list(part.get("entities", ())))


def _markup(part: Mapping[str, Any]) -> telegram.InlineKeyboardMarkup | None:
    rows = part.get("keyboard")
    if not rows:
        return None
    return telegram.InlineKeyboardMarkup([[telegram.InlineKeyboardButton(**button) for button in row] for row in rows])


def _reply(message_id: int | None) -> telegram.ReplyParameters | None:
    # What is answered may have been deleted meanwhile: the answer must arrive all the same.
    return telegram.ReplyParameters(message_id, allow_sending_without_reply=True) if message_id else None
