"""The Bot API's methods for the menu of commands."""

import re

from telegram.constants import BotCommandScopeType

from adapters.standins.telegram_chats import Messenger
from adapters.standins.telegram_text import units
from adapters.standins.telegram_wire import Given, Oddity, Refused

_COMMANDS_LIMIT = 100
_MENU_CHARACTERS = 5700
"""The API refuses longer menus although it documents only the 100 commands; the figure is an observed one."""
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")


def set_my_commands(world: Messenger, given: Given, _: Oddity) -> bool:
    """Set the menu for a scope and language."""
    commands = given.get("commands")
    if not isinstance(commands, list):
        raise Refused.bad("can't parse commands: array of BotCommand expected")
    menu = [_command(command) for command in commands]
    characters = sum(len(item["command"]) + len(item["description"]) for item in menu)
    if len(menu) > _COMMANDS_LIMIT or characters > _MENU_CHARACTERS:
        raise Refused.bad("BOT_COMMANDS_TOO_MUCH")
    world.commands[_menu_key(world, given)] = menu
    return True


def _command(command: object) -> dict[str, str]:
    if not isinstance(command, dict):
        raise Refused.bad("can't parse BotCommand: object expected")
    name = str(command.get("command", "")).removeprefix("/")
    description = str(command.get("description", "")).strip()
    if not _COMMAND.fullmatch(name):
        raise Refused.bad("BOT_COMMAND_INVALID")
    if not 1 <= units(description) <= 256:
        raise Refused.bad("BOT_COMMAND_DESCRIPTION_INVALID")
    return {"command": name, "description": description}


def get_my_commands(world: Messenger, given: Given, _: Oddity) -> list[dict[str, str]]:
    """Return the menu of exactly this scope and language."""
    return world.commands.get(_menu_key(world, given), [])


def delete_my_commands(world: Messenger, given: Given, _: Oddity) -> bool:
    """Drop the menu of exactly this scope and language."""
    world.commands.pop(_menu_key(world, given), None)
    return True


def _menu_key(world: Messenger, given: Given) -> str:
    scope, language = given.get("scope") or {"type": "default"}, given.get("language_code", "")
    if not isinstance(scope, dict) or scope.get("type") not in set(BotCommandScopeType):
        raise Refused.bad("can't parse BotCommandScope: unsupported type specified")
    if language and not re.fullmatch(r"[a-z]{2}", language):
        raise Refused.bad("LANG_CODE_INVALID")
    if scope["type"].startswith("chat"):
        world.room(scope.get("chat_id"))
    return f"{scope['type']}/{scope.get('chat_id', '')}/{scope.get('user_id', '')}/{language}"
