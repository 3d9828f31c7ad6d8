"""Markdown as Slack messages: rich text blocks for the eye, plain text for notifications and screen readers.

Rich text is typed, so nothing in it needs escaping and nothing in it can ping: a user id or `<!channel>` that
a model wrote stays the characters that it is. The `markdown` block is not used, since Slack parses its own
subset of Markdown in it (no tables) and does not document whether mentions ping. Both forms hold the whole
part: who sees only one of them misses nothing.
"""

import re
import unicodedata
from collections.abc import Mapping
from itertools import chain
from typing import Any

from adapters.text.growing import Rendering
from adapters.text.measure import Cost
from adapters.text.plain import plain
from adapters.text.slack_blocks import message_blocks, said, text_element
from adapters.text.slack_measure import AROUND, MessageMeasure, escaped
from adapters.text.tables import columns, narrowed
from adapters.text.tree import Block, Document, Table

MAX_TEXT = 3900
"""Characters of `text`: Slack cuts near 4000 in view and refuses more in an edit."""

MAX_BLOCKS = 12_000
"""UTF-8 bytes of all blocks of a message as JSON: Slack refuses somewhat above (not documented)."""

MAX_BLOCK_COUNT = 49
"""Blocks of a message: one less than Slack takes, for a label."""

_MAX_TABLE = 72  # columns of monospace that a desktop window shows without wrapping
_EMPTY = "(empty message)"


def render(markdown: str) -> list[dict[str, Any]]:
    """Cut Markdown into messages `{"text": …, "blocks": […]}` within Slack's limits; at least one, in linear time."""
    return Growing().render(markdown)


class Growing(Rendering[dict[str, Any]]):
    """Renders an answer while it is written: `render` gives what the function gives, for the price of what is new."""

    def __init__(self) -> None:
        limit = Cost(MAX_TEXT, MAX_BLOCKS, MAX_BLOCK_COUNT).minus(AROUND)
        super().__init__(MessageMeasure(), limit, first=limit)

    def prepared(self, block: Block) -> Block:
        """Return a block without tables that are too wide for a window, or would lose a link."""
        return narrowed(block, _needs_list)

    def shown(self, document: Document) -> dict[str, Any] | None:
        """Return a message, or None if there is nothing to see."""
        part = _part(document)
        return part if _visible(part["text"]) else None

    def placeholder(self) -> dict[str, Any]:
        """Return what is shown where there is nothing to see."""
        return _part(Document(blocks=(said(_EMPTY),)))


def _needs_list(table: Table) -> bool:
    cells = chain(table.header, *table.rows)
    return columns(table) > _MAX_TABLE or any(span.href for cell in cells for span in cell)


def labelled(part: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the message with a short line of plain text below it; `render` leaves room for some 90 characters."""
    element = {"type": "rich_text_section", "elements": [text_element(label)]}
    return {
        "text": f"{part['text']}\n{escaped(label)}",
        "blocks": [*part["blocks"], {"type": "rich_text", "elements": [element]}],
    }


def streamable(markdown: str) -> str:
    """Return Markdown for Slack's streams, in which no mention pings; a beginning of it gives a beginning.

    A stream takes Markdown only, and Slack may read `<@U1>` and `<!channel>` in it. An invisible word joiner
    behind the bracket leaves the characters to be seen and takes the meaning away.
    """
    return _MENTION.sub("<\u2060", _LONE_SURROGATE.sub("\ufffd", markdown))


_MENTION = re.compile(r"<(?=[@!#])")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _part(document: Document) -> dict[str, Any]:
    return {"text": plain(document.blocks, escaped), "blocks": list(message_blocks(document.blocks))}


def _visible(text: str) -> bool:
    return any(unicodedata.category(character)[0] not in "CZ" for character in text)
