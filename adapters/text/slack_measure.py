"""What the parts of a Slack message take, as text and as JSON, so that a message is split before it is made."""

import json
import re

from adapters.text.measure import Cost, Place
from adapters.text.plain import RULE, marker, readable
from adapters.text.tree import Block, Bullets, Fence, Heading, Item, Paragraph, Quote, Rule, Span, Table

# Upper bounds of the JSON around what was written, with the separators that the standard library writes.
_BLOCK = len('{"type": "rich_text", "elements": []}, ')
_SECTION = len('{"type": "rich_text_section", "elements": []}, ')
_LIST = len(
    '{"type": "rich_text_list", "style": "ordered", "elements": [], "indent": 8, "offset": 999999999, "border": 1}, '
)
_FENCE = len('{"type": "rich_text_preformatted", "elements": [], "language": "", "border": 1}, ')
_TEXT = len('{"type": "text", "text": ""}, ')
_LINK = len('{"type": "link", "url": "", "text": ""}, ')
_DIVIDER = len('{"type": "divider"}, ')
_BREAK = _TEXT + 4  # between two paragraphs
_STYLE = len(', "style": {}')
_ON = len('"strike": true, ')
_MARK = 4  # of a task

_ENCODED = json.JSONEncoder(ensure_ascii=False).encode

AROUND = Cost(0, _BLOCK + 2, 1)
"""What a message takes before there is anything in it."""


class MessageMeasure:
    """What messages take: `length` in characters of the text, `size` in bytes of JSON, `pieces` in blocks."""

    def gap(self, place: Place) -> Cost:
        """Return what is written between two blocks, with what stands before the second."""
        return Cost(2 + 2 * place.indent, _BREAK, 0)

    def frame(self, block: Block, place: Place) -> Cost:
        """Return what a block takes besides what is in it."""
        section = 0 if place.depth else _SECTION
        match block:
            case Paragraph():
                return Cost(0, section, 0)
            case Heading():
                return Cost(0, section + len(block.spans) * (_STYLE + _ON), 0)
            case Fence() | Table():
                language = block.language if isinstance(block, Fence) else ""
                lines = 2 * (place.indent + 5)  # of ticks
                return Cost(lines + len(escaped(language)), _FENCE + _TEXT + _bytes(language), 0)
            case Bullets():
                return Cost(0, _LIST, 0)
            case Quote():
                return Cost(2, _SECTION, 0)
            case Rule():
                return Cost(len(RULE), max(_DIVIDER + _BLOCK, _SECTION + _TEXT + 9), 2)

    def item(self, bullets: Bullets, number: int, place: Place) -> Cost:
        """Return what an item takes besides its blocks."""
        item = bullets.items[number]
        length = 1 + place.indent + len(marker(bullets, number)) + (0 if item.checked is None else _MARK)
        return Cost(length, _sections(item) + _TEXT + _MARK, 0)

    def inside(self, block: Block, place: Place) -> Place:
        """Return where the blocks of a quotation or of an item stand."""
        if isinstance(block, Bullets):
            return Place(place.indent + len(marker(block, len(block.items))), 1)
        return Place(place.indent + 2, 0)

    def span(self, span: Span, last: Span | None, place: Place) -> Cost:
        """Return what a span takes, wherever it stands."""
        del last
        bars = 4 if span.spoiler else 0
        text = readable(span)
        length = len(escaped(text)) + bars + (text.count("\n") * place.indent if place.indent else 0)
        styles = span.bold + span.italic + span.strike + span.code
        size = _bytes(text) + bars + (_STYLE + styles * _ON if styles else 0)
        return Cost(length, size + (_LINK + _bytes(span.href) if span.href else _TEXT), 0)

    def verbatim(self, text: str, place: Place) -> Cost:
        """Return what the text of a fence, or of an aligned table, takes."""
        ticks = max(map(len, re.findall("`+", text)), default=0)
        return Cost(len(escaped(text)) + text.count("\n") * place.indent + 2 * ticks, _bytes(text), 0)


def _sections(item: Item) -> int:
    """Return what is around the text of an item: one section for each row of paragraphs, a list after the others."""
    size, prose = _SECTION, True
    for block in item.blocks:
        beside = isinstance(block, Paragraph | Heading)
        size += _SECTION if beside and not prose else 0
        prose = beside
    return size + (0 if prose and not item.continued else _LIST)


def escaped(text: str) -> str:
    """Return text as Slack's own markup shows it unchanged."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _bytes(text: str) -> int:
    return len(_ENCODED(text).encode())
