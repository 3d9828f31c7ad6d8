"""Reading Markdown into the tree, the whole of it or what was added to it."""

import re
from collections.abc import Iterator
from dataclasses import replace

from markdown_it.common.utils import mdTrim, unescapeAll
from markdown_it.token import Token

from adapters.text.inline import LineReader
from adapters.text.reader import Budget, read_blocks
from adapters.text.stretches import Kind, Stretch, fence_of, stretches
from adapters.text.tree import (
    Align,
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
    text_of,
)

_MAX_LANGUAGE = 40
_NEWLINE = re.compile(r"\r\n?")
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


def parse(markdown: str) -> Document:
    """Read Markdown (CommonMark, tables, strikethrough, tasks, spoilers, formulas) in linear time; any text is valid.

    Lone surrogates become U+FFFD. Blank text gives a document without blocks. From where it holds more blocks,
    marks or cells than anybody could read, it stays text as it is written.
    """
    return Reading().read(markdown)


class Reading:
    """Reads one text again and again while it grows; what can't change any more is read only once."""

    def __init__(self) -> None:
        self._read = ""
        self._budget = Budget()
        self.finished: list[Block] = []
        """The blocks that no addition to the text changes; always the same objects."""

    def read(self, markdown: str) -> Document:
        """Return what `parse` does; quick if the text goes on from what was read before."""
        text = _UNREADABLE.sub("\ufffd", _NEWLINE.sub("\n", markdown))
        if not text.startswith(self._read):
            self._read, self._budget, self.finished = "", Budget(), []
        last: Stretch | None = None
        for stretch in stretches(text, len(self._read)):
            if last is not None:
                self.finished += _blocks_of(text, last, self._budget)
            last = stretch
            if self._budget.tokens <= 0:
                last = Stretch(Kind.PROSE, stretch.start, len(text))
                break
        if last is None:
            return Document(blocks=tuple(self.finished))
        self._read = text[: last.start]
        return Document(blocks=(*self.finished, *_blocks_of(text, last, replace(self._budget))))


def _blocks_of(text: str, stretch: Stretch, budget: Budget) -> Blocks:
    own = text[stretch.start : stretch.end]
    lines = LineReader(budget)
    if budget.tokens <= 0:
        return _paragraph((Span(text=mdTrim(own)),))
    match stretch.kind:
        case Kind.PROSE:
            budget.tokens -= 3
            return _paragraph(lines.read(mdTrim(own)))
        case Kind.FENCE:
            budget.tokens -= 1
            inside, info = fence_of(own)
            return (Fence(text=inside, language=_language(info)),)
    return blocks_of_tokens(read_blocks(own, budget), budget)


def blocks_of_tokens(tokens: list[Token], budget: Budget) -> Blocks:
    """Return what the reader's tokens stand for, their lines read."""
    return _Builder(tokens, LineReader(budget)).blocks()


def _paragraph(spans: Spans) -> Blocks:
    return (Paragraph(spans=spans),) if text_of(spans).strip() else ()


def _language(info: str) -> str:
    words = unescapeAll(info).split(maxsplit=1)
    return words[0] if words and len(words[0]) <= _MAX_LANGUAGE else ""


class _Builder:
    """Makes blocks of tokens."""

    def __init__(self, tokens: list[Token], lines: LineReader) -> None:
        self._tokens, self._lines = iter(tokens), lines

    def blocks(self, closing: str = "") -> Blocks:
        """Return the blocks up to a closing token, or all."""
        blocks: list[Block] = []
        for token in self._tokens:
            if token.type == closing:
                break
            blocks += self._block(token)
        return tuple(blocks)

    def _block(self, token: Token) -> Blocks:
        block: Block = Rule()
        match token.type:
            case "paragraph_open":
                return _paragraph(self._leaf())
            case "heading_open":
                spans = self._leaf()
                return (Heading(level=int(token.tag[1:]), spans=spans),) if text_of(spans).strip() else ()
            case "fence" | "code_block":
                block = Fence(text=token.content.removesuffix("\n"), language=_language(token.info))
            case "bullet_list_open":
                block = Bullets(items=tuple(self._items("bullet_list_close")))
            case "ordered_list_open":
                start = token.attrGet("start")
                items = tuple(self._items("ordered_list_close"))
                block = Bullets(items=items, start=1 if start is None else int(start))
            case "blockquote_open":
                block = Quote(blocks=self.blocks("blockquote_close"))
            case "table":
                block = self._table(**token.meta)
        return (block,)

    def _leaf(self) -> Spans:
        """Read the one leaf of a paragraph, heading or cell, and its closing token."""
        leaf = next(self._tokens)
        next(self._tokens)
        if leaf.type == "verbatim":
            return (Span(text=leaf.content),) if leaf.content else ()
        return self._lines.read(leaf.content)

    def _items(self, closing: str) -> Iterator[Item]:
        for token in self._tokens:
            if token.type == closing:
                break
            yield Item(blocks=self.blocks("list_item_close"), checked=token.meta.get("checked"))

    def _table(self, rows: list[list[str]], marks: list[str]) -> Table:
        cells = (row[: len(marks)] + [""] * (len(marks) - len(row)) for row in rows)
        header, *body = [tuple(map(self._lines.read, row)) for row in cells]
        return Table(header=header, rows=tuple(body), aligns=tuple(map(_align, marks)))


def _align(mark: str) -> Align:
    if mark.endswith(":"):
        return Align.CENTER if mark.startswith(":") and len(mark) > 1 else Align.RIGHT
    return Align.LEFT
