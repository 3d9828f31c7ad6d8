"""An answer shown while it is written: as a draft in private chats, by editing a message in groups."""

import anyio
import telegram
from telegram.error import TelegramError

from adapters.base import Step
from adapters.live import LiveText, Surface
from adapters.telegram.drafts import Draft
from adapters.telegram.errors import is_unchanged, translated
from adapters.telegram.pacing import Pacing
from adapters.telegram.shown import NO_TEXT, Shown

DRAFT_EVERY = 0.7
"""Seconds between two drafts."""

DRAFT_AGAIN = 20.0
"""Seconds after which a draft is sent again without a change: it lives for 30."""

EDIT_EVERY = 3.0
"""Seconds between two edits in a chat: a group takes 20 messages a minute, edits counted."""

LAST_WORD_WITHIN = 10.0
"""Seconds that the last request of a live answer may take."""


class Edited:
    """A message of a group, edited as the text grows; `deliver` puts the final text in its place."""

    def __init__(self, bot: telegram.Bot, *, chat: int, message_id: str, pacing: Pacing) -> None:
        self._bot, self._chat, self.message_id = bot, chat, message_id
        self._pacing = pacing
        self._text = Shown()
        self._turn: float | None = None

    def due_in(self) -> float:
        """Return in how many seconds this message may be edited; it keeps its turn among all that the chat shows."""
        if self._turn is None:
            self._turn = self._pacing.turn(self._chat)
        return max(self._turn - anyio.current_time(), self._pacing.closed_for(self._chat))

    def note(self, step: Step) -> None:
        """Name a step below the text while it goes on."""
        self._text.note(step)

    async def put(self, markdown: str) -> bool:
        """Show the end of the text, where it grows; the final text puts the first part here and posts the others."""
        part = self._text.of(markdown)
        if part is None:
            return True
        self._turn = None
        try:
            with self._pacing.heeding(self._chat):
                await self._bot.edit_message_text(
                    part.text,
                    chat_id=self._chat,
                    message_id=int(self.message_id),
                    entities=telegram.MessageEntity.de_list(list(part.entities)),
                )
        except TelegramError as error:
            if not is_unchanged(error):
                raise translated(error) from error
        return True

    async def finish(self) -> None:
        """Leave the message as it is."""


class Showing(LiveText):
    """A live answer that names its steps; a draft says at once that the bot thinks, and is kept alive."""

    def __init__(
        self,
        surface: Draft | Edited,
        *,
        every: float,
        last_word_within: float = LAST_WORD_WITHIN,
        renew_after: float | None = None,
    ) -> None:
        self._steps = surface
        shown: Surface = surface
        super().__init__(shown, every=every, last_word_within=last_word_within, renew_after=renew_after)
        self._newest = NO_TEXT
        if isinstance(surface, Draft):
            self._changed.set()

    async def show(self, markdown: str) -> None:
        """Take the whole text so far."""
        await super().show(markdown if markdown.strip() else NO_TEXT)

    async def step(self, step: Step) -> None:
        """Take the newest state of a step."""
        self._steps.note(step)
        self._changed.set()

    async def _put(self) -> float | None:
        """Show the newest text when it is this answer's turn in the chat."""
        wait = self._steps.due_in()
        if wait > 0:
            self._changed.set()
            return wait
        return await super()._put()
