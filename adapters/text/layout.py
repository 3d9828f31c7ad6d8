"""A document laid out as plain lines, with marks that say where which style applies.

What a chat can't show as structure is written: bullets and numbers, indentation, rules, aligned tables.
"""

import sys
from dataclasses import dataclass
from enum import StrEnum

from adapters.text.tables import aligned
from adapters.text.tree import (
    Block,
    Blocks,
    Bullets,
    Document,
    Fence,
    Heading,
    Item,
    Paragraph,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
)

_INDENT = "\u00a0\u00a0"  # no-break: Telegram strips ordinary spaces from the start of a message
_BULLETS = "•◦▪"
_RULE = "———"


class Style(StrEnum):
    """What a mark stands for; the values are Telegram's names."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strikethrough"
    CODE = "code"
    LINK = "text_link"
    PRE = "pre"
    QUOTE = "blockquote"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A style from `start` to `end`, in code points; `value` is a link's address or a fence's language."""

    style: Style
    start: int
    end: int
    value: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The text and its marks, by start, the longer first. CODE and PRE overlap no other style but QUOTE."""

    text: str
    marks: tuple[Mark, ...]


def lay_out(document: Document) -> Layout:
    """Lay a document out, in linear time."""
    layout = lay_out_within(document, characters=_NO_LIMIT, marks=_NO_LIMIT)
    assert layout is not None
    return layout


def lay_out_within(document: Document, *, characters: int, marks: int) -> Layout | None:
    """Lay a document out, or return None as soon as it needs more code points or marks than it may have."""
    page = _Page(characters=characters, marks=marks)
    try:
        page.flow(document.blocks, gap="\n\n")
    except _PageFull:
        return None
    by_start = sorted(page.marks, key=lambda mark: (mark.start, -mark.end))
    return Layout(text="".join(page.pieces), marks=tuple(by_start))


_NO_LIMIT = sys.maxsize


class _PageFull(Exception):
    pass


class _Page:
    def __init__(self, *, characters: int, marks: int) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self.marks: list[Mark] = []
        self._characters = characters
        self._marks = marks

    def flow(self, blocks: Blocks, *, gap: str, lead: str = "", indent: str = "", depth: int = 0) -> None:
        """Write blocks below one another; `lead` stands before the first line, `indent` before all others."""
        for number, block in enumerate(blocks):
            if number:
                self._write(gap)
            self._block(block, lead=lead if number == 0 else indent, indent=indent, depth=depth)

    def _block(self, block: Block, *, lead: str, indent: str, depth: int) -> None:
        match block:
            case Paragraph():
                self._write(lead)
                self._spans(block.spans, indent, frozenset())
            case Heading():
                self._write(lead)
                self._spans(block.spans, indent, frozenset({Style.BOLD}))
            case Fence():
                self._verbatim(block.text, block.language, lead)
            case Table():
                if len(block.rows) > self._characters:
                    raise _PageFull  # before a long table is measured
                self._verbatim(aligned(block), "", lead)
            case Rule():
                self._write(lead + _RULE)
            case Bullets():
                self._list(block, lead=lead, indent=indent, depth=depth)
            case Quote():
                self._quote(block, lead=lead, indent=indent, depth=depth)

    def _list(self, bullets: Bullets, *, lead: str, indent: str, depth: int) -> None:
        for number, item in enumerate(bullets.items):
            if number:
                self._write("\n")
            before = lead if number == 0 else indent
            marker = _marker(bullets, number, item, depth)
            if not item.blocks:
                self._write(before + marker)
            self.flow(item.blocks, gap="\n", lead=before + marker, indent=indent + _INDENT, depth=depth + 1)

    def _quote(self, quote: Quote, *, lead: str, indent: str, depth: int) -> None:
        if lead or indent or depth:  # quotations can't be nested, nor begin in the middle of a line
            self.flow(quote.blocks, gap="\n", lead=lead + "> ", indent=indent + "> ", depth=depth + 1)
            return
        start = self.length
        self.flow(quote.blocks, gap="\n", depth=1)
        self._mark(Style.QUOTE, start)

    def _verbatim(self, text: str, language: str, lead: str) -> None:
        if lead.strip():
            self._write(lead.rstrip() + "\n")  # it takes whole lines, so a bullet stands above it
        start = self.length
        self._write(text)
        self._mark(Style.PRE, start, language)

    def _spans(self, spans: Spans, indent: str, also: frozenset[Style]) -> None:
        running: dict[Style, tuple[int, str]] = {}
        for span in spans:
            wanted = _styles(span, also)
            for style in [style for style, (_, value) in running.items() if wanted.get(style) != value]:
                start, value = running.pop(style)
                self._mark(style, start, value)
            for style, value in wanted.items():
                running.setdefault(style, (self.length, value))
            self._write(span.text.replace("\n", "\n" + indent))
        for style, (start, value) in running.items():
            self._mark(style, start, value)

    def _write(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)
        if self.length > self._characters:
            raise _PageFull

    def _mark(self, style: Style, start: int, value: str = "") -> None:
        if self.length > start:
            self.marks.append(Mark(style=style, start=start, end=self.length, value=value))
        if len(self.marks) > self._marks:
            raise _PageFull


def _marker(bullets: Bullets, number: int, item: Item, depth: int) -> str:
    if item.continued:
        return _INDENT
    if bullets.start is None:
        return _BULLETS[depth % len(_BULLETS)] + " "
    return f"{bullets.start + number}. "


def _styles(span: Span, also: frozenset[Style]) -> dict[Style, str]:
    """Return the styles of a span that can be combined: a link before code, code before the rest."""
    if span.code and not span.href:
        return {Style.CODE: ""}
    wanted = dict.fromkeys(also, "")
    wanted |= {Style.LINK: span.href} if span.href else {}
    wanted |= {Style.BOLD: ""} if span.bold else {}
    wanted |= {Style.ITALIC: ""} if span.italic else {}
    return wanted | ({Style.STRIKE: ""} if span.strike else {})
