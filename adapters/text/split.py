"""Splitting a document into parts that fit, by whatever measure the platform has.

The tree is cut, not its rendered text: a fence that runs on is a fence in both parts, with its language,
a list keeps its depth and goes on counting, a table repeats its header; no renderer ever sees half a style.
"""

from collections.abc import Callable
from dataclasses import replace

from adapters.text.graphemes import LOOK_AHEAD, boundary, leading_space, line_boundary
from adapters.text.tables import table_as_list
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
    text_of,
)

Fits = Callable[[Document], bool]
"""Whether a document fits into one part. Must be monotone: what fits, fits with its end cut off, too.

It is asked some 30 times per part, now and then about all that is left: it must give up on a long document as
soon as it has seen too much, or splitting is not linear."""

_ANY = 1 << 40  # more characters than any text has
_FitsBlocks = Callable[[Blocks], bool]
_FitsBlock = Callable[[Block], bool]


def split(document: Document, fits: Fits) -> list[Document]:
    """Cut a document into parts that fit: between blocks if possible, else lines, sentences, words, clusters.

    A grapheme cluster is cut only if it alone does not fit, a code point never. Only white space is lost.
    Each part holds at least one code point, also where `fits` allows none: so it ends for any `fits`.
    No part comes of a document without blocks.
    """

    def fresh(blocks: Blocks) -> bool:
        return fits(Document(blocks=blocks))

    parts: list[Document] = []
    rest = document.blocks
    while rest:
        head, tail = _cut_blocks(rest, fresh, fresh)
        if head:
            parts.append(Document(blocks=head))
            rest = tail
        elif (simpler := _simplified(rest[0])) is not None:
            rest = (*simpler, *rest[1:])
        else:
            head, tail = _first_code_point(rest)
            parts.append(Document(blocks=head))
            rest = tail
    return parts


def _most(count: int, ok: Callable[[int], bool]) -> int:
    """Return the largest number up to `count` that is ok, 0 if not even 1 is; asks about twice it at most."""
    good, bad = 0, 1
    while bad <= count and ok(bad):
        good, bad = bad, bad * 2
    bad = min(bad, count + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if ok(middle) else (good, middle)
    return good


def _cut_blocks(blocks: Blocks, fits: _FitsBlocks, fresh: _FitsBlocks) -> tuple[Blocks, Blocks]:
    """Cut a row of blocks; `fits` knows what precedes them in this part, `fresh` asks about an empty part."""
    count = _most(len(blocks), lambda n: fits(blocks[:n]))
    if count == len(blocks):
        return blocks, ()
    if fresh(blocks[count : count + 1]):
        heads_next = count > 1 and isinstance(blocks[count - 1], Heading)
        count -= heads_next and not isinstance(blocks[count], Heading)  # a heading goes with what it heads
        return blocks[:count], blocks[count:]
    kept = blocks[:count]
    head, tail = _cut(blocks[count], lambda block: fits((*kept, block)), lambda block: fresh((block,)))
    return (*kept, *head), (*tail, *blocks[count + 1 :])


def _cut(block: Block, fits: _FitsBlock, fresh: _FitsBlock) -> tuple[Blocks, Blocks]:
    match block:
        case Paragraph() | Heading():
            return _cut_text(block, fits)
        case Fence():
            return _cut_fence(block, fits)
        case Bullets():
            return _cut_list(block, fits, fresh)
        case Quote():
            head, tail = _cut_blocks(block.blocks, lambda b: fits(Quote(blocks=b)), lambda b: fresh(Quote(blocks=b)))
            return _quoted(head), _quoted(tail)
        case Table():
            return _cut_table(block, fits, fresh)
        case Rule():
            return (), (block,)


def _quoted(blocks: Blocks) -> Blocks:
    return (Quote(blocks=blocks),) if blocks else ()


def _cut_text(block: Paragraph | Heading, fits: _FitsBlock) -> tuple[Blocks, Blocks]:
    spans = _without_leading_space(block.spans)
    most = _most(_ANY, lambda n: fits(replace(block, spans=_before(spans, n))))
    if not most:
        return (), _filled(block, spans)
    at = boundary(text_of(_before(spans, most + LOOK_AHEAD)), most)
    return _filled(block, _before(spans, at)), _filled(block, _without_leading_space(_behind(spans, at)))


def _filled(block: Paragraph | Heading, spans: Spans) -> Blocks:
    return (replace(block, spans=spans),) if spans else ()


def _without_leading_space(spans: Spans) -> Spans:
    while spans and (space := leading_space(text_of(_before(spans, LOOK_AHEAD)))):
        spans = _behind(spans, space)
    return spans


def _before(spans: Spans, at: int) -> Spans:
    taken: list[Span] = []
    for span in spans:
        if at <= 0:
            break
        taken.append(span if len(span.text) <= at else replace(span, text=span.text[:at]))
        at -= len(span.text)
    return tuple(taken)


def _behind(spans: Spans, at: int) -> Spans:
    for number, span in enumerate(spans):
        if at < len(span.text):
            return (replace(span, text=span.text[at:]), *spans[number + 1 :])
        at -= len(span.text)
    return ()


def _cut_fence(fence: Fence, fits: _FitsBlock) -> tuple[Blocks, Blocks]:
    most = _most(len(fence.text), lambda n: fits(replace(fence, text=fence.text[:n])))
    if not most:
        return (), (fence,)
    at = line_boundary(fence.text, most)
    head, tail = fence.text[:at].removesuffix("\n"), fence.text[at:]
    return (replace(fence, text=head),), (replace(fence, text=tail),) if tail else ()


def _cut_list(bullets: Bullets, fits: _FitsBlock, fresh: _FitsBlock) -> tuple[Blocks, Blocks]:
    items = bullets.items

    def lists(*kept: Item) -> Bullets:
        return replace(bullets, items=kept)

    def later(at: int, *kept: Item) -> Blocks:
        start = bullets.start if bullets.start is None else bullets.start + at
        return (Bullets(items=kept, start=start),) if kept else ()

    count = _most(len(items), lambda n: fits(lists(*items[:n])))
    kept = items[:count]
    if count == len(items) or fresh(lists(items[count])):
        return ((lists(*kept),) if kept else ()), later(count, *items[count:])
    item = items[count]
    head, tail = _cut_blocks(
        item.blocks,
        lambda blocks: fits(lists(*kept, replace(item, blocks=blocks))),
        lambda blocks: fresh(lists(replace(item, blocks=blocks))),
    )
    if not head:
        return ((lists(*kept),) if kept else ()), later(count, *items[count:])
    began = lists(*kept, replace(item, blocks=head))
    if not tail:
        return (began,), later(count + 1, *items[count + 1 :])
    return (began,), later(count, Item(blocks=tail, continued=True), *items[count + 1 :])


def _cut_table(table: Table, fits: _FitsBlock, fresh: _FitsBlock) -> tuple[Blocks, Blocks]:
    count = _most(len(table.rows), lambda n: fits(replace(table, rows=table.rows[:n])))
    if count:
        rest = table.rows[count:]
        return (replace(table, rows=table.rows[:count]),), (replace(table, rows=rest),) if rest else ()
    if table.rows and fresh(replace(table, rows=table.rows[:1])):
        return (), (table,)
    return _cut(table_as_list(table), fits, fresh)


def _simplified(block: Block) -> Blocks | None:
    """Return the block with one layer less around its text, for where not even one character of it fits."""
    simpler: Blocks | None = None
    match block:
        case Bullets():
            simpler = tuple(inner for item in block.items for inner in item.blocks)
        case Quote():
            simpler = block.blocks
        case Table():
            simpler = (table_as_list(block),)
        case Rule():
            simpler = ()
        case Fence():
            simpler = (Paragraph(spans=(Span(text=block.text),)),) if block.text.strip() else ()
        case Heading():
            simpler = (Paragraph(spans=block.spans),)
        case Paragraph(spans=(first, *others)) if first != (bare := Span(text=first.text)):
            simpler = (Paragraph(spans=(bare, *others)),)
    return simpler


def _first_code_point(blocks: Blocks) -> tuple[Blocks, Blocks]:
    """Take one code point although it does not fit, because the end must come nearer."""
    paragraph = blocks[0]
    assert isinstance(paragraph, Paragraph)
    tail = _without_leading_space(_behind(paragraph.spans, 1))
    return _filled(paragraph, _before(paragraph.spans, 1)), (*_filled(paragraph, tail), *blocks[1:])
