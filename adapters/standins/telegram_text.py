"""Texts, entities and keyboards as the Bot API checks them; all lengths and offsets are UTF-16 code units."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from telegram.constants import MessageEntityType

from adapters.standins.telegram_wire import Refused

TEXT_LIMIT = 4096
CAPTION_LIMIT = 1024
ENTITIES_LIMIT = 100
_KEYBOARD_BUTTONS = 100
_CALLBACK_BYTES = 64
_NEEDS = {"text_link": "url", "text_mention": "user", "custom_emoji": "custom_emoji_id"}
_OPTIONAL = {"pre": {"language"}, "date_time": {"unix_time", "date_time_format"}}
_MONOSPACE = {"pre", "code"}
_STYLES = {"bold", "italic", "underline", "strikethrough", "spoiler"}
_QUOTES = {"blockquote", "expandable_blockquote"}
_ACTIONS = {
    "url",
    "callback_data",
    "web_app",
    "login_url",
    "switch_inline_query",
    "switch_inline_query_current_chat",
    "switch_inline_query_chosen_chat",
    "copy_text",
    "callback_game",
    "pay",
}
_LOOKS = {"text", "style", "icon_custom_emoji_id"}
_TYPED = re.compile(r"(?<![\w/@])(?:(?P<command>/\w{1,64}(?:@\w{3,32})?)|(?P<mention>@\w{3,32}))(?![\w/])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Formatted:
    """A text that was accepted, with its entities in order, both after trimming."""

    text: str
    entities: tuple[dict[str, Any], ...]
    oddities: tuple[str, ...]
    """What the API would drop in silence."""


def units(text: str) -> int:
    """Count UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def typed_entities(text: str) -> list[dict[str, Any]]:
    """Find the commands and mentions in what a person typed, as the server does."""
    return [
        {
            "type": "bot_command" if found["command"] else "mention",
            "offset": units(text[: found.start()]),
            "length": units(found[0]),
        }
        for found in _TYPED.finditer(text)
    ]


def formatted(text: str, entities: object, *, parse_mode: str | None, limit: int, may_be_empty: bool) -> Formatted:
    """Check and trim a text with its entities; raises `Refused` as the API does.

    `parse_mode` is refused: the stand-in reads no markup, and neither should a bot that sends entities.
    """
    if parse_mode:
        raise Refused.bad(f"can't parse entities: this stand-in reads no parse_mode ({parse_mode}), send entities")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise Refused.bad("strings must be encoded in UTF-8")
    checked = [_entity(entity, text) for entity in _entities(entities)]
    start = units(text) - units(text.lstrip())
    trimmed = text.strip()
    if not trimmed and not may_be_empty:
        raise Refused.bad("message text is empty")
    if units(trimmed) > limit:
        raise Refused.bad("message is too long" if limit == TEXT_LIMIT else "message caption is too long")
    moved = sorted(
        (kept for entity in checked if (kept := _shifted(entity, start, units(trimmed)))),
        key=lambda entity: (entity["offset"], -entity["length"]),
    )
    return Formatted(text=trimmed, entities=tuple(moved), oddities=tuple(_oddities(checked, moved)))


def _entities(entities: object) -> Sequence[object]:
    if entities is None:
        return ()
    if not isinstance(entities, list):
        raise Refused.bad("can't parse entities: array of MessageEntity expected")
    return entities


def _entity(entity: object, text: str) -> dict[str, Any]:
    if not isinstance(entity, dict):
        raise Refused.bad("can't parse entities: object expected as MessageEntity")
    kind, offset, length = entity.get("type"), entity.get("offset"), entity.get("length")
    if kind not in set(MessageEntityType):
        raise Refused.bad(f"can't parse entities: unsupported MessageEntity type {kind!r}")
    if not isinstance(offset, int) or not isinstance(length, int):
        raise Refused.bad('can\'t parse entities: fields "offset" and "length" must be of type Number')
    if offset < 0 or length <= 0 or offset + length > units(text):
        raise Refused.bad(f"can't parse entities: entity at offset {offset} of length {length} is out of the text")
    for edge in (offset, offset + length):
        if _inside_a_pair(text, edge):
            raise Refused.bad(f"can't parse entities: UTF-16 offset {edge} is in the middle of a UTF-16 symbol")
    _fields(entity, str(kind))
    return dict(entity)


def _fields(entity: dict[str, Any], kind: str) -> None:
    needed = _NEEDS.get(kind)
    if needed and not entity.get(needed):
        raise Refused.bad(f'can\'t parse entities: MessageEntity of type {kind} needs the field "{needed}"')
    if kind == "text_link" and not re.match(r"(https?|tg|mailto|ton|tonsite):", str(entity["url"])):
        raise Refused.bad(f"can't parse entities: unsupported URL in {kind}")
    if not isinstance(entity.get("language", ""), str):
        raise Refused.bad('can\'t parse entities: field "language" must be of type String')
    extra = set(entity) - {"type", "offset", "length", needed} - _OPTIONAL.get(kind, set())
    if extra:
        raise Refused.bad(f"can't parse entities: {kind} has no field {sorted(extra)[0]!r}")


def _inside_a_pair(text: str, edge: int) -> bool:
    encoded = text.encode("utf-16-le")[2 * edge : 2 * edge + 2]
    return len(encoded) == 2 and 0xDC <= encoded[1] <= 0xDF


def _shifted(entity: dict[str, Any], start: int, end: int) -> dict[str, Any] | None:
    left = max(0, entity["offset"] - start)
    right = min(end, entity["offset"] + entity["length"] - start)
    return {**entity, "offset": left, "length": right - left} if right > left else None


def _oddities(checked: list[dict[str, Any]], moved: list[dict[str, Any]]) -> list[str]:
    found = []
    if len(moved) < len(checked):
        found.append("an entity covers nothing but trimmed space")
    if len(moved) > ENTITIES_LIMIT:
        found.append(f"{len(moved)} entities, the API keeps {ENTITIES_LIMIT}")
    for index, outer in enumerate(moved):
        for inner in moved[index + 1 :]:
            if inner["offset"] >= outer["offset"] + outer["length"]:
                break
            found += _clash(outer, inner)
    return found


def _clash(outer: dict[str, Any], inner: dict[str, Any]) -> list[str]:
    names = f"{inner['type']} in {outer['type']}"
    if inner["offset"] + inner["length"] > outer["offset"] + outer["length"]:
        return [f"{names} overlaps without being nested"]
    return [] if _may_nest(outer["type"], inner["type"]) else [f"{names} can't be nested"]


def _may_nest(outer: str, inner: str) -> bool:
    if _MONOSPACE & {outer, inner}:
        return outer in _QUOTES
    return bool(_STYLES & {outer, inner}) or (outer in _QUOTES and inner not in _QUOTES)


def check_keyboard(markup: object) -> None:
    """Refuse what the API refuses in an inline keyboard; other kinds of markup only have to be objects."""
    if not isinstance(markup, dict):
        raise Refused.bad("object expected as reply markup")
    rows = markup.get("inline_keyboard")
    if rows is None:
        return
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise Refused.bad("can't parse inline keyboard: array of arrays of InlineKeyboardButton expected")
    buttons = [button for row in rows for button in row]
    if len(buttons) > _KEYBOARD_BUTTONS:
        raise Refused.bad("reply markup is too long")
    for button in buttons:
        _check_button(button)


def _check_button(button: object) -> None:
    if not isinstance(button, dict) or not button.get("text"):
        raise Refused.bad('can\'t parse inline keyboard button: field "text" must be non-empty')
    actions = set(button) - _LOOKS
    if not actions <= _ACTIONS or len(actions) != 1:
        raise Refused.bad("can't parse inline keyboard button: text buttons are unallowed in the inline keyboard")
    data = button.get("callback_data")
    if data is not None and not 1 <= len(str(data).encode()) <= _CALLBACK_BYTES:
        raise Refused.bad("BUTTON_DATA_INVALID")
