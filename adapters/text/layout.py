"""A document laid out as plain lines, with marks that say where which style applies.

What a chat can't show as structure is written: bullets and numbers, indentation, rules, aligned tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from adapters.text.measure import Cost, Place
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
_TASKS = {True: "☑ ", False: "☐ "}
_RULE = "———"


class Style(StrEnum):
    """What a mark stands for; the values are Telegram's names."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strikethrough"
    SPOILER = "spoiler"
    CODE = "code"
    LINK = "text_link"
    PRE = "pre"
    QUOTE = "blockquote"


_HEADING: Mapping[Style, str] = MappingProxyType({Style.BOLD: ""})
_CODE: Mapping[Style, str] = MappingProxyType({Style.CODE: ""})


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
    page = _Page()
    page.flow(document.blocks, gap="\n\n")
    by_start = sorted(page.marks, key=lambda mark: (mark.start, -mark.end))
    return Layout(text="".join(page.pieces), marks=tuple(by_start))


class _Page:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self.marks: list[Mark] = []

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
                self._spans(block.spans, indent, {})
            case Heading():
                self._write(lead)
                self._spans(block.spans, indent, _HEADING)
            case Fence():
                self._verbatim(block.text, block.language, lead)
            case Table():
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

    def _spans(self, spans: Spans, indent: str, also: Mapping[Style, str]) -> None:
        running: dict[Style, tuple[int, str]] = {}
        for span in spans:
            wanted = _styles(span, also)
            for style, (start, value) in list(running.items()):
                if wanted.get(style) != value:
                    del running[style]
                    self._mark(style, start, value)
            for style, value in wanted.items():
                running.setdefault(style, (self.length, value))
            self._write(span.text.replace("\n", "\n" + indent) if indent else span.text)
        for style, (start, value) in running.items():
            self._mark(style, start, value)

    def _write(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def _mark(self, style: Style, start: int, value: str = "") -> None:
        if self.length > start:
            self.marks.append(Mark(style=style, start=start, end=self.length, value=value))


def _marker(bullets: Bullets, number: int, item: Item, depth: int) -> str:
    if item.continued:
        return _INDENT
    task = "" if item.checked is None else _TASKS[item.checked]
    if bullets.start is None:
        return task or _BULLETS[depth % len(_BULLETS)] + " "
    return f"{bullets.start + number}. {task}"


def _styles(span: Span, also: Mapping[Style, str]) -> Mapping[Style, str]:
    """Return the styles of a span that can be combined: a link before code, code before the rest."""
    if span.code and not span.href:
        return _CODE
    wanted = dict(also)
    if span.href:
        wanted[Style.LINK] = span.href
    if span.bold:
        wanted[Style.BOLD] = ""
    if span.italic:
        wanted[Style.ITALIC] = ""
    if span.strike:
        wanted[Style.STRIKE] = ""
    if span.spoiler:
        wanted[Style.SPOILER] = ""
    return wanted


class LayoutMeasure:
    """What layouts take: `length` in UTF-16 units, `pieces` in marks."""

    def gap(self, place: Place) -> Cost:
        """Return what is written between two blocks, with what stands before the second."""
        return Cost((1 if place.depth else 2) + place.indent, 0, 0)

    def frame(self, block: Block, place: Place) -> Cost:
        """Return what a block takes besides what is in it."""
        match block:
            case Heading():
                return Cost(0, 0, 1)
            case Fence() | Table():
                return Cost(1, 0, 1)  # perhaps a line's end, behind a bullet
            case Quote():
                return Cost(0, 0, 1) if place == Place() else Cost(2, 0, 0)
            case Rule():
                return Cost(len(_RULE), 0, 0)
        return Cost(0, 0, 0)

    def item(self, bullets: Bullets, number: int, place: Place) -> Cost:
        """Return what an item takes besides its blocks."""
        return Cost(1 + place.indent + len(_marker(bullets, number, bullets.items[number], place.depth)), 0, 0)

    def inside(self, block: Block, place: Place) -> Place:
        """Return where the blocks of a quotation or of an item stand."""
        if place == Place() and isinstance(block, Quote):
            return Place(0, 1)
        return Place(place.indent + len(_INDENT), place.depth + 1)

    def span(self, span: Span, last: Span | None, place: Place) -> Cost:
        """Return what a span takes, behind another one of the same paragraph."""
        text = span.text
        length = utf16_units(text) + (text.count("\n") * place.indent if place.indent else 0)
        if span.code and not span.href:
            return Cost(length, 0, 1)
        if last is None or last.code:
            last = _BARE
        count = (span.bold and not last.bold) + (span.italic and not last.italic) + (span.strike and not last.strike)
        return Cost(length, 0, count + (span.spoiler and not last.spoiler) + (span.href not in {"", last.href}))

    def verbatim(self, text: str, place: Place) -> Cost:
        """Return what the text of a fence, or of an aligned table, takes."""
        del place  # it can't be indented
        return Cost(utf16_units(text), 0, 0)


_BARE = Span(text="")


def utf16_units(text: str) -> int:
    """Return the length of text in UTF-16 units, as Telegram counts offsets."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
