"""A text, read once into a small frozen tree that every platform renders from.

    Document ── blocks: Paragraph | Heading | Fence | Bullets | Quote | Table | Rule
    Paragraph, Heading, and the cells of a Table ── spans: Span, flat, each with all its styles

What was written is kept: what looks like HTML, or would be the definition of a link, stays text. Left out are
titles of links, what follows a fence's language, and cells beyond the last column of a table's header.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A run of text with the same styles all through; a line break is a newline in `text`.

    `href` is empty or an http, https, mailto or tg address of at most 2048 characters. With `code` the text
    is verbatim; other styles may be set too, and the renderer says which ones the platform can combine.
    """

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    spoiler: bool = False
    code: bool = False
    href: str = ""


Spans = tuple[Span, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    """A paragraph; never empty when parsed."""

    spans: Spans


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """A heading of level 1 to 6."""

    level: int
    spans: Spans


@dataclass(frozen=True, kw_only=True, slots=True)
class Fence:
    """A block of verbatim text, without the newline at its end. `language` is empty or one word."""

    text: str
    language: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One item of a list; `continued`: the rest of one that began in an earlier part, without a marker.

    `checked` says of a task whether it is done; None of any other item.
    """

    blocks: "Blocks"
    continued: bool = False
    checked: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bullets:
    """A list. `start` is the number of the first item, or None for a list without numbers."""

    items: tuple[Item, ...]
    start: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """A quotation."""

    blocks: "Blocks"


class Align(StrEnum):
    """On which side a table's column is ragged."""

    LEFT = "left"
    CENTER = "center"
    RIGHT = "right"


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table: every row, and `aligns`, is as long as `header`."""

    header: tuple[Spans, ...]
    rows: tuple[tuple[Spans, ...], ...]
    aligns: tuple[Align, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A thematic break."""


Block = Paragraph | Heading | Fence | Bullets | Quote | Table | Rule
Blocks = tuple[Block, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A whole text, or one part of a text that was split."""

    blocks: Blocks


def text_of(spans: Spans) -> str:
    """Return the bare text of spans."""
    return spans[0].text if len(spans) == 1 else "".join([span.text for span in spans])


def barred(spans: Spans) -> Spans:
    """Return spans with the bars of spoilers written out, for where nothing can be hidden."""
    if not any(span.spoiler for span in spans):
        return spans
    hidden = [False, *(span.spoiler for span in spans), False]
    return tuple(
        replace(span, text=f"{'' if before else '||'}{span.text}{'' if after else '||'}") if span.spoiler else span
        for before, span, after in zip(hidden, spans, hidden[2:], strict=False)
    )
