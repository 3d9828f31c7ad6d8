"""Markdown as Telegram takes it without any markup: text and entities."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import regex  # type: ignore[import-untyped, unused-ignore]

from adapters.text.growing import Rendering
from adapters.text.layout import Layout, LayoutMeasure, Mark, Style, lay_out
from adapters.text.layout import utf16_units as utf16_units
from adapters.text.measure import Cost
from adapters.text.tables import columns, narrowed
from adapters.text.tree import Block, Document, Table

PLACEHOLDER = "(empty answer)"
"""What is shown for an answer that has nothing to see; Telegram refuses an empty message."""

HARD_UNITS = 4096
"""What the Bot API allows in one message, in characters; counting UTF-16 units is safe however it counts."""

MAX_UNITS = 4000
"""UTF-16 units in one part: some are left for a label."""

MAX_CAPTION = 1024
"""UTF-16 units of what stands below a picture or a file."""

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


def render(markdown: str, *, first: int = MAX_UNITS) -> list[TelegramPart]:
    """Cut Markdown into messages of at most `MAX_UNITS`; at least one, linear time, any input.

    `first` is the limit of the first one if it is less, for a caption: `render(markdown, first=MAX_CAPTION)`.
    """
    return Growing(first=first).render(markdown)


class Growing(Rendering[TelegramPart]):
    """Renders an answer while it is written: `render` gives what the function gives, for the price of what is new."""

    def __init__(self, *, first: int = MAX_UNITS) -> None:
        limit = Cost(MAX_UNITS, 0, MAX_ENTITIES)
        super().__init__(LayoutMeasure(), limit, first=limit._replace(length=first))

    def prepared(self, block: Block) -> Block:
        """Return a block without tables that are wider than a phone."""
        return narrowed(block, _is_wide)

    def shown(self, document: Document) -> TelegramPart | None:
        """Return a message, or None if there is nothing to see."""
        layout = lay_out(document)
        return _part(layout) if _VISIBLE.search(layout.text) else None

    def placeholder(self) -> TelegramPart:
        """Return what is shown where there is nothing to see."""
        return TelegramPart(text=PLACEHOLDER)


def _is_wide(table: Table) -> bool:
    return columns(table) > MAX_TABLE_COLUMNS


def _part(layout: Layout) -> TelegramPart:
    text = layout.text.rstrip()
    marks = [mark for mark in (_trimmed(mark, text) for mark in layout.marks) if mark.start < mark.end]
    units = _units_at(text, {place for mark in marks for place in (mark.start, mark.end)})
    return TelegramPart(text=text, entities=tuple(_entity(mark, units) for mark in marks))


def _trimmed(mark: Mark, text: str) -> Mark:
    """Draw a mark in to where there is something to see: Telegram does so too, and may drop what it moved."""
    start, end = mark.start, min(mark.end, len(text))
    if end == mark.end and not text[start].isspace() and not text[end - 1].isspace():
        return mark
    if mark.style is not Style.PRE:
        inner = text[start:end]
        start += len(inner) - len(inner.lstrip())
        end = mark.start + len(inner.rstrip())
    return Mark(style=mark.style, start=start, end=end, value=mark.value)


def _units_at(text: str, places: Iterable[int]) -> dict[int, int]:
    """Return for each place, in code points, its offset in UTF-16 units."""
    if utf16_units(text) == len(text):
        return {place: place for place in places}
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
