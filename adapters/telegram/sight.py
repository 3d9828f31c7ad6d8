"""What the bot gets to see in a chat."""

from collections import OrderedDict

import structlog
import telegram
from telegram import ChatMember
from telegram.error import TelegramError

from adapters.base import Address
from adapters.telegram.errors import described

_MOST_CHATS = 1000
_PRIVACY = (
    "Privacy mode is on and I am no administrator here: in this group I see only what mentions me, replies to me and "
    "commands."
)
_OUT = "I am not in this chat, and see nothing of it."
_ALL = frozenset({ChatMember.ADMINISTRATOR, ChatMember.OWNER})
_NOT_IN = frozenset({ChatMember.LEFT, ChatMember.BANNED})

_log = structlog.get_logger(__name__)


class Sight:
    """Asks Telegram once per chat, and again after the bot's place there has changed."""

    def __init__(self, bot: telegram.Bot) -> None:
        self._bot = bot
        self._known: OrderedDict[str, str] = OrderedDict()

    async def of(self, address: Address) -> str:
        """Say in a sentence what is seen there; empty if that is all. Raises nothing."""
        if not address.chat.startswith("-") or self._bot.bot.can_read_all_group_messages:
            return ""
        if address.chat not in self._known:
            try:
                member = await self._bot.get_chat_member(int(address.chat), self._bot.id)
            except (TelegramError, ValueError) as error:
                _log.info("telegram_sight_unknown", address=str(address), error=described(error))
                return "Telegram does not say now what I get to see here."
            self._known[address.chat] = _sentence(member.status)
            while len(self._known) > _MOST_CHATS:
                self._known.popitem(last=False)
        return self._known[address.chat]

    def forget(self, chat: Address) -> None:
        """Ask again the next time: the bot's place in the chat has changed."""
        self._known.pop(chat.chat, None)


def _sentence(status: str) -> str:
    if status in _NOT_IN:
        return _OUT
    return "" if status in _ALL else _PRIVACY
