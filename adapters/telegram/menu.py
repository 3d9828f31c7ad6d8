"""The menu of commands, per kind of chat and per language of the app."""

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

import structlog
import telegram
from telegram.constants import BotCommandScopeType
from telegram.error import TelegramError

from adapters.telegram.errors import described

Commands = Sequence[tuple[str, str]]
"""Names, without the slash, and what they do."""

_MOST = 100
_MAX_DESCRIPTION = 256
_BUDGET = 5600
"""Characters of all names and descriptions: Telegram refuses more than about 5700, which it does not say anywhere."""

_log = structlog.get_logger(__name__)


class Where(StrEnum):
    """Where a menu is shown; the narrowest that is set for a chat counts."""

    ANYWHERE = BotCommandScopeType.DEFAULT
    PRIVATE = BotCommandScopeType.ALL_PRIVATE_CHATS
    GROUPS = BotCommandScopeType.ALL_GROUP_CHATS
    ADMINISTRATORS = BotCommandScopeType.ALL_CHAT_ADMINISTRATORS


Menus = Mapping[Where, Mapping[str, Commands]]
"""For each place, the commands per language: `""` for all that have none of their own, else two letters."""

_SCOPES: Mapping[Where, telegram.BotCommandScope] = MappingProxyType(
    {
        Where.ANYWHERE: telegram.BotCommandScopeDefault(),
        Where.PRIVATE: telegram.BotCommandScopeAllPrivateChats(),
        Where.GROUPS: telegram.BotCommandScopeAllGroupChats(),
        Where.ADMINISTRATORS: telegram.BotCommandScopeAllChatAdministrators(),
    }
)


def names(menus: Menus) -> frozenset[str]:
    """Return the names of all commands, wherever they are shown."""
    return frozenset(
        name.casefold() for languages in menus.values() for commands in languages.values() for name, _ in commands
    )


async def show(bot: telegram.Bot, menus: Menus) -> None:
    """Set all menus; one that Telegram refuses is a line in the log, and keeps nobody from starting."""
    each = [
        (where, language, commands) for where, languages in menus.items() for language, commands in languages.items()
    ]
    await asyncio.gather(*(_show(bot, where, language, commands) for where, language, commands in each if commands))


async def _show(bot: telegram.Bot, where: Where, language: str, commands: Commands) -> None:
    try:
        await bot.set_my_commands(fitted(commands), scope=_SCOPES[where], language_code=language or None)
    except TelegramError as error:
        _log.warning("telegram_commands_not_shown", where=str(where), language=language, error=described(error))


def fitted(commands: Commands) -> list[tuple[str, str]]:
    """Return the commands as Telegram takes them: the longest descriptions are cut, and only then is one left out."""
    some = list(commands[:_MOST])
    longest = _MAX_DESCRIPTION
    while _size(some, longest) > _BUDGET and longest > 1:
        longest -= 1
    while _size(some, longest) > _BUDGET:
        some.pop()
    return [(name, _cut(description, longest)) for name, description in some]


def _size(commands: Commands, longest: int) -> int:
    return sum(len(name) + min(len(description), longest) for name, description in commands)


def _cut(description: str, longest: int) -> str:
    return description if len(description) <= longest else f"{description[: longest - 1]}…"
