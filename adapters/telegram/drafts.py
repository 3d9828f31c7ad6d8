"""Drafts: an answer in a private chat while it is written, above the input field; they vanish by themselves."""

import zlib
from typing import Any

import structlog
import telegram
from telegram.error import BadRequest, TelegramError

from adapters.base import Address, Step
from adapters.telegram.errors import described, translated
from adapters.telegram.pacing import Pacing
from adapters.telegram.shown import Shown
from adapters.text.telegram import TelegramPart

_log = structlog.get_logger(__name__)

_EMPTY = TelegramPart(text="")


class Drafts:
    """The drafts that are open, and what this server's Bot API has refused of them.

    An empty draft shows "Thinking…" (Bot API 10.0); `can_stop` adds a button of the app's own (10.3), whose press comes
    as an update of its own. Either is asked for until it is refused once. A server that does not know `can_stop` is
    expected to pass over it, as it does with all parameters that it doesn't know.
    """

    def __init__(self, bot: telegram.Bot, pacing: Pacing) -> None:
        self._bot, self._pacing = bot, pacing
        self._open: dict[tuple[int, int], Draft] = {}
        self._can_stop = True
        self._can_be_empty = True

    def open(self, address: Address, *, chat: int, thread: int | None, key: str) -> "Draft":
        """Begin a draft; nothing is shown yet."""
        draft = Draft(self, address=address, chat=chat, thread=thread, key=key)
        self._open[chat, draft.id] = draft
        return draft

    def stop(self, chat: int, draft_id: int) -> Address | None:
        """Show nothing more of a draft, for its person has stopped it; return where it stands, None if it is over."""
        draft = self._open.get((chat, draft_id))
        if draft is None:
            return None
        draft.stopped, draft.shown = True, False
        return draft.address

    def shown_at(self, address: Address) -> bool:
        """Say whether a draft is to be seen in a conversation, which says that the bot is at work."""
        return any(draft.address == address and draft.shown for draft in self._open.values())

    def closed_for(self, draft: "Draft") -> float:
        """Return for how many seconds Telegram wants a draft's chat to be left alone."""
        return self._pacing.closed_for(draft.chat)

    def close(self, draft: "Draft") -> None:
        """Forget a draft."""
        self._open.pop((draft.chat, draft.id), None)

    async def send(self, draft: "Draft", part: TelegramPart) -> bool:
        """Show a draft; False if there is nothing to show that this server takes. Raises our errors."""
        if not part.text and not self._can_be_empty:
            return False
        try:
            with self._pacing.heeding(draft.chat):
                await self._ask(draft, part)
        except TelegramError as error:
            raise translated(error) from error
        return bool(part.text) or self._can_be_empty

    async def _ask(self, draft: "Draft", part: TelegramPart) -> None:
        """Send a draft, and once more without what an older server may not take."""
        try:
            await self._request(draft, part, can_stop=self._can_stop)
        except BadRequest as refused:
            if not self._can_stop and part.text:
                raise
            await self._ask_less(draft, part, refused)

    async def _ask_less(self, draft: "Draft", part: TelegramPart, refused: BadRequest) -> None:
        try:
            await self._request(draft, part, can_stop=False)
        except BadRequest:
            if part.text or "text" not in str(refused).lower():
                raise
            self._can_be_empty = False
        else:
            self._can_stop = False
            _log.info("telegram_drafts_without_stop", error=described(refused))

    async def _request(self, draft: "Draft", part: TelegramPart, *, can_stop: bool) -> None:
        more: dict[str, Any] = {"can_stop": True} if can_stop else {}
        await self._bot.send_message_draft(
            chat_id=draft.chat,
            draft_id=draft.id,
            text=part.text,
            entities=telegram.MessageEntity.de_list(list(part.entities)),
            message_thread_id=draft.thread,
            api_kwargs=more,
        )


class Draft:
    """One answer as a draft. The same key has the same number, also after a restart: so it goes on."""

    message_id = ""

    def __init__(self, drafts: Drafts, *, address: Address, chat: int, thread: int | None, key: str) -> None:
        self.address, self.chat, self.thread = address, chat, thread
        self.id = zlib.crc32(key.encode()) & 0x7FFFFFFF or 1  # not 0, and within what the API takes
        self.shown = self.stopped = False
        self._drafts, self._text = drafts, Shown()

    def due_in(self) -> float:
        """Return in how many seconds it may be sent."""
        return self._drafts.closed_for(self)

    def note(self, step: Step) -> None:
        """Name a step below the text while it goes on."""
        self._text.note(step)

    async def put(self, markdown: str) -> bool:
        """Show the end of the text, where it grows; without text and steps, that the bot thinks."""
        if self.stopped:
            return False
        self.shown = False
        self.shown = await self._drafts.send(self, self._text.of(markdown) or _EMPTY) and not self.stopped
        return not self.stopped

    async def finish(self) -> None:
        """Leave the draft to Telegram, which takes it away with the answer, or after half a minute."""
        self._drafts.close(self)
