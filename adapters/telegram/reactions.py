"""The mark on a person's message that it was seen, while it waits."""

from collections import OrderedDict

import anyio
import structlog
import telegram
from telegram.constants import ReactionEmoji
from telegram.error import BadRequest, Forbidden, TelegramError

from adapters.base import Address
from adapters.errors import Permanent
from adapters.telegram.errors import described
from adapters.telegram.pacing import Pacing
from adapters.telegram.posts import chat_and_thread, number

_ASKED_AGAIN = 3600.0
"""Seconds after which a chat that allows no reactions is asked again: its administrators may have changed that."""

_MOST_CHATS = 1000
_GONE = "not found"

_log = structlog.get_logger(__name__)


class Reactions:
    """Puts the mark, the one reaction that a bot has, and takes it away."""

    def __init__(self, bot: telegram.Bot, pacing: Pacing) -> None:
        self._bot, self._pacing = bot, pacing
        self._none_until: OrderedDict[int, float] = OrderedDict()

    async def mark(self, address: Address, message_id: str, *, seen: bool) -> None:
        """Mark a message as seen, or take the mark away. Raises nothing."""
        message = number(message_id)
        if message is None or self._is_left_alone(address):
            return
        chat = int(address.chat)
        try:
            with self._pacing.heeding(chat):
                await self._bot.set_message_reaction(chat, message, ReactionEmoji.EYES if seen else ())
        except TelegramError as error:
            _log.info("telegram_not_marked", address=str(address), error=described(error))
            if isinstance(error, BadRequest | Forbidden) and _GONE not in str(error).lower():
                self._none_until[chat] = anyio.current_time() + _ASKED_AGAIN
                self._none_until.move_to_end(chat)
                while len(self._none_until) > _MOST_CHATS:
                    self._none_until.popitem(last=False)

    def _is_left_alone(self, address: Address) -> bool:
        try:
            chat, _ = chat_and_thread(address)
        except Permanent:
            return True
        return self._none_until.get(chat, 0.0) > anyio.current_time() or self._pacing.closed_for(chat) > 0
