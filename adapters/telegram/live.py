"""An answer shown while it is written: as a draft in private chats, by editing a message in groups."""

import zlib

import telegram
from telegram.error import TelegramError

from adapters.telegram.errors import is_unchanged, translated
from adapters.text.telegram import TelegramPart, render

DRAFT_EVERY = 0.7
"""Seconds between two drafts."""

EDIT_EVERY = 3.0
"""Seconds between two edits: a group takes 20 messages a minute, edits counted."""

LAST_WORD_WITHIN = 10.0
"""Seconds that the last request of a live answer may take."""


class Draft:
    """A draft above the input field of a private chat; it vanishes by itself."""

    message_id = ""

    def __init__(self, bot: telegram.Bot, *, chat: int, thread: int | None, key: str) -> None:
        self._bot, self._chat, self._thread = bot, chat, thread
        self._id = zlib.crc32(key.encode()) & 0x7FFFFFFF or 1  # not 0, and within what the API takes

    async def put(self, markdown: str) -> bool:
        """Show the end of the text, where it grows."""
        part = render(markdown)[-1]
        try:
            await self._bot.send_message_draft(
                chat_id=self._chat,
                draft_id=self._id,
                text=part.text,
                entities=_entities(part),
                message_thread_id=self._thread,
            )
        except TelegramError as error:
            raise translated(error) from error
        return True

    async def finish(self) -> None:
        """Leave the draft to Telegram."""


class Edited:
    """A message of a group, edited as the text grows; `deliver` puts the final text in its place."""

    def __init__(self, bot: telegram.Bot, *, chat: int, message_id: str) -> None:
        self._bot, self._chat, self.message_id = bot, chat, message_id

    async def put(self, markdown: str) -> bool:
        """Show the beginning of the text: the message will be the first part of the answer."""
        part = render(markdown)[0]
        try:
            await self._bot.edit_message_text(
                part.text, chat_id=self._chat, message_id=int(self.message_id), entities=_entities(part)
            )
        except TelegramError as error:
            if not is_unchanged(error):
                raise translated(error) from error
        return True

    async def finish(self) -> None:
        """Leave the message as it is."""


def _entities(part: TelegramPart) -> tuple[telegram.MessageEntity, ...]:
    return telegram.MessageEntity.de_list(list(part.entities))
