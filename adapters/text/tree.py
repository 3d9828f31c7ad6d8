"""Markdown, read once into a small frozen tree that every platform renders from.

    Document ── blocks: Paragraph | Heading | Fence | Bullets | Quote | Table | Rule
    Paragraph, Heading, and the cells of a Table ── spans: Span, flat, each with all its styles

What was written is kept: what looks like HTML, or would be the definition of a link, stays text. Left out are
titles of links, what follows a fence's language, and cells beyond the last column of a table's header.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from markdown_it.token import Token

from adapters.text.reader import reader

_MAX_LANGUAGE = 40
_MAX_HREF = 2048  # longer ones are written out: a platform would refuse them as a link
_LINK = re.compile(r"(?:https?://[^/\s?#]|mailto:\S|tg://\S)\S*", re.IGNORECASE)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


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
    """One item of a list; `continued`: the rest of one that began in an earlier part, without a marker."""

    blocks: "Blocks"
    continued: bool = False


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


def parse(markdown: str) -> Document:
    """Read Markdown (CommonMark, tables, strikethrough) in linear time; any text is valid.

    Lone surrogates become U+FFFD. Blank text gives a document without blocks. From where it holds more blocks,
    marks or cells than anybody could read, it stays text as it is written.
    """
    tokens = reader().parse(_LONE_SURROGATE.sub("\ufffd", markdown))
    return Document(blocks=_blocks(iter(tokens)))


def text_of(spans: Spans) -> str:
    """Return the bare text of spans."""
    return "".join(span.text for span in spans)


def _blocks(tokens: Iterator[Token], closing: str = "") -> Blocks:
    blocks: list[Block] = []
    for token in tokens:
        if token.type == closing:
            break
        block = _block(token, tokens)
        if block is not None:
            blocks.append(block)
    return tuple(blocks)


def _block(token: Token, tokens: Iterator[Token]) -> Block | None:
    block: Block | None = Rule()
    match token.type:
        case "paragraph_open":
            spans = _leaf(tokens)
            block = Paragraph(spans=spans) if text_of(spans).strip() else None
        case "heading_open":
            spans = _leaf(tokens)
            block = Heading(level=int(token.tag[1:]), spans=spans) if text_of(spans).strip() else None
        case "fence" | "code_block":
            block = Fence(text=token.content.removesuffix("\n"), language=_language(token.info))
        case "bullet_list_open":
            block = Bullets(items=_items(tokens, "bullet_list_close"))
        case "ordered_list_open":
            start = token.attrGet("start")
            block = Bullets(items=_items(tokens, "ordered_list_close"), start=1 if start is None else int(start))
        case "blockquote_open":
            block = Quote(blocks=_blocks(tokens, "blockquote_close"))
        case "table_open":
            block = _table(tokens)
    return block


def _leaf(tokens: Iterator[Token]) -> Spans:
    """Read the one inline token of a paragraph, heading or cell, and its closing token."""
    inline = next(tokens)
    next(tokens)
    return _spans(inline.children or [])


def _language(info: str) -> str:
    words = info.split(maxsplit=1)
    return words[0] if words and len(words[0]) <= _MAX_LANGUAGE else ""


def _items(tokens: Iterator[Token], closing: str) -> tuple[Item, ...]:
    items: list[Item] = []
    for token in tokens:
        if token.type == closing:
            break
        items.append(Item(blocks=_blocks(tokens, "list_item_close")))
    return tuple(items)


def _table(tokens: Iterator[Token]) -> Table:
    rows: list[list[Spans]] = []
    aligns: list[Align] = []
    for token in tokens:
        match token.type:
            case "table_close":
                break
            case "tr_open":
                rows.append([])
            case "th_open" | "td_open":
                if token.type == "th_open":
                    aligns.append(Align(str(token.attrGet("style") or "text-align:left").rpartition(":")[2]))
                rows[-1].append(_leaf(tokens))
    return Table(header=tuple(rows[0]), rows=tuple(map(tuple, rows[1:])), aligns=tuple(aligns))


class _Inline:
    """The styles that are on at one place of a line, and the spans made so far."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.depth = {"strong": 0, "em": 0, "s": 0}
        self.links: list[str] = []

    def add(self, text: str, *, code: bool = False, href: str = "") -> None:
        if not text:
            return
        self.spans.append(
            Span(
                text=text,
                bold=self.depth["strong"] > 0,
                italic=self.depth["em"] > 0,
                strike=self.depth["s"] > 0,
                code=code,
                href=href or (self.links[-1] if self.links and _linkable(self.links[-1]) else ""),
            )
        )

    def image(self, token: Token) -> None:
        source = str(token.attrGet("src") or "")
        alt = text_of(_spans(token.children or []))
        if _linkable(source):
            self.add(alt or source, href=source)
        else:
            self.add(f"{alt} ({source})" if alt and source else alt or source)

    def close_link(self) -> None:
        href = self.links.pop()
        if href and not _linkable(href):
            self.add(f" ({href})")


def _linkable(href: str) -> bool:
    return len(href) <= _MAX_HREF and _LINK.fullmatch(href) is not None


def _spans(tokens: Sequence[Token]) -> Spans:
    line = _Inline()
    for token in tokens:
        kind, _, side = token.type.partition("_")
        if kind in line.depth:
            line.depth[kind] += token.nesting
        elif token.type == "link_open":
            line.links.append(str(token.attrGet("href") or ""))
        elif token.type == "link_close":
            line.close_link()
        elif token.type == "image":
            line.image(token)
        elif kind in {"softbreak", "hardbreak"}:
            line.add("\n")
        else:
            line.add(token.content, code=side == "inline")
    return tuple(_merged(line.spans))


def _merged(spans: Sequence[Span]) -> Iterator[Span]:
    """Join neighbours of the same styles."""
    run: list[Span] = []
    for span in spans:
        if run and replace(run[0], text="") != replace(span, text=""):
            yield replace(run[0], text=text_of(tuple(run)))
            run = []
        run.append(span)
    if run:
        yield replace(run[0], text=text_of(tuple(run)))
