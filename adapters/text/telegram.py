"""Markdown as Telegram takes it without any markup: text and entities."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import regex  # type: ignore[import-untyped, unused-ignore]

from adapters.text.layout import Layout, Mark, Style, lay_out, lay_out_within
from adapters.text.split import split
from adapters.text.tables import without_wide_tables
from adapters.text.tree import Document, parse

PLACEHOLDER = "(empty answer)"
"""What is shown for an answer that has nothing to see; Telegram refuses an empty message."""

HARD_UNITS = 4096
"""What the Bot API allows in one message, in characters; counting UTF-16 units is safe however it counts."""

MAX_UNITS = 4000
"""UTF-16 units in one part: some are left for a label."""

MAX_ENTITIES = 100
"""Entities in one part: Telegram drops what comes after the hundredth without a word."""

MAX_TABLE_COLUMNS = 42
"""What a phone in portrait shows of a line in the fixed-width font."""

_VISIBLE = regex.compile(r"[^\s\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]")


@dataclass(frozen=True, kw_only=True, slots=True)
class TelegramPart:
    """One message: `entities` as the Bot API writes them (`type`, `offset`, `length` in UTF-16 units, …)."""

    text: str
    entities: tuple[dict[str, Any], ...] = ()


def render(markdown: str) -> list[TelegramPart]:
    """Cut Markdown into messages of at most `MAX_UNITS`; at least one, linear time, any input."""
    document = without_wide_tables(parse(markdown), limit=MAX_TABLE_COLUMNS)
    layouts = [lay_out(part) for part in split(document, _fits)]
    parts = [_part(layout) for layout in layouts if _VISIBLE.search(layout.text)]
    return parts or [TelegramPart(text=PLACEHOLDER)]


def utf16_units(text: str) -> int:
    """Return the length of text in UTF-16 units, as Telegram counts offsets."""
    return len(text.encode("utf-16-le")) // 2


def _fits(document: Document) -> bool:
    layout = lay_out_within(document, characters=MAX_UNITS, marks=MAX_ENTITIES)
    return layout is not None and utf16_units(layout.text) <= MAX_UNITS


def _part(layout: Layout) -> TelegramPart:
    text = layout.text.rstrip()
    marks = [mark for mark in (_trimmed(mark, text) for mark in layout.marks) if mark.start < mark.end]
    units = _units_at(text, {place for mark in marks for place in (mark.start, mark.end)})
    return TelegramPart(text=text, entities=tuple(_entity(mark, units) for mark in marks))


def _trimmed(mark: Mark, text: str) -> Mark:
    """Draw a mark in to where there is something to see: Telegram does so too, and may drop what it moved."""
    end = min(mark.end, len(text))
    if mark.style is Style.PRE:
        return Mark(style=mark.style, start=mark.start, end=end, value=mark.value)
    inner = text[mark.start : end]
    start = mark.start + len(inner) - len(inner.lstrip())
    return Mark(style=mark.style, start=start, end=mark.start + len(inner.rstrip()), value=mark.value)


def _units_at(text: str, places: Iterable[int]) -> dict[int, int]:
    """Return for each place, in code points, its offset in UTF-16 units."""
    units: dict[int, int] = {}
    passed, count = 0, 0
    for place in sorted(places):
        count += utf16_units(text[passed:place])
        passed = place
        units[place] = count
    return units


def _entity(mark: Mark, units: dict[int, int]) -> dict[str, Any]:
    start = units[mark.start]
    entity: dict[str, Any] = {"type": str(mark.style), "offset": start, "length": units[mark.end] - start}
    if mark.style is Style.LINK:
        entity["url"] = mark.value
    elif mark.style is Style.PRE and mark.value:
        entity["language"] = mark.value
    return entity
