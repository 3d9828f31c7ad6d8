"""An answer shown while it is written: as a draft in private chats, by editing a message in groups."""

import asyncio
import contextlib
import zlib
from typing import Protocol

import structlog
import telegram
from telegram.error import RetryAfter, TelegramError

from adapters.telegram.errors import described, is_unchanged, seconds_to_wait
from adapters.text.telegram import TelegramPart, render

DRAFT_EVERY = 0.7
"""Seconds between two drafts."""

EDIT_EVERY = 3.0
"""Seconds between two edits: a group takes 20 messages a minute, edits counted."""

_LAST_WORD_WITHIN = 10.0

_log = structlog.get_logger()


class Surface(Protocol):
    """Where a live answer is shown."""

    message_id: str
    """The message that stays, or empty."""

    async def put(self, markdown: str) -> None:
        """Show the text; raises the library's errors."""


class Draft:
    """A draft above the input field of a private chat; it vanishes by itself."""

    message_id = ""

    def __init__(self, bot: telegram.Bot, *, chat: int, thread: int | None, key: str) -> None:
        self._bot, self._chat, self._thread = bot, chat, thread
        self._id = zlib.crc32(key.encode()) & 0x7FFFFFFF or 1  # not 0, and within what the API takes

    async def put(self, markdown: str) -> None:
        """Show the end of the text, where it grows."""
        part = render(markdown)[-1]
        await self._bot.send_message_draft(
            chat_id=self._chat,
            draft_id=self._id,
            text=part.text,
            entities=_entities(part),
            message_thread_id=self._thread,
        )


class Edited:
    """A message of a group, edited as the text grows; `deliver` puts the final text in its place."""

    def __init__(self, bot: telegram.Bot, *, chat: int, message_id: str) -> None:
        self._bot, self._chat, self.message_id = bot, chat, message_id

    async def put(self, markdown: str) -> None:
        """Show the beginning of the text: the message will be the first part of the answer."""
        part = render(markdown)[0]
        try:
            await self._bot.edit_message_text(
                part.text, chat_id=self._chat, message_id=int(self.message_id), entities=_entities(part)
            )
        except TelegramError as error:
            if not is_unchanged(error):
                raise


class TelegramLive:
    """Shows the latest text, not oftener than every `every` seconds; what came in between is skipped.

    A task of its own sends, so `show` returns at once and raises nothing. When Telegram asks to wait, it waits.
    """

    def __init__(self, surface: Surface, *, every: float) -> None:
        self.message_id = surface.message_id
        self._surface, self._every = surface, every
        self._latest = ""
        self._stirred = asyncio.Event()
        self._closed = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def show(self, markdown: str) -> None:
        """Take the whole text so far."""
        self._latest = markdown
        self._stirred.set()

    async def close(self) -> None:
        """Stop, once a request on its way has come back: a late one would overwrite the final text."""
        self._closed.set()
        self._stirred.set()
        try:
            async with asyncio.timeout(_LAST_WORD_WITHIN):
                await asyncio.shield(self._task)
        except TimeoutError:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            if self._closed.is_set():
                return
            await self._rest(await self._put())

    async def _put(self) -> float:
        """Show the latest text; return for how long to rest."""
        if not self._latest.strip():
            return 0
        try:
            await self._surface.put(self._latest)
        except RetryAfter as error:
            self._stirred.set()  # this text is still to be shown
            return max(self._every, seconds_to_wait(error))
        except TelegramError as error:
            _log.info("telegram_live_failed", error=described(error))
        return self._every

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()


def _entities(part: TelegramPart) -> tuple[telegram.MessageEntity, ...]:
    return telegram.MessageEntity.de_list(list(part.entities))
