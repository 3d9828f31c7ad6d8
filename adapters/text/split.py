"""Splitting a document into parts that fit, by whatever measure the platform has.

The tree is cut, not its rendered text: a fence that runs on is a fence in both parts, with its language,
a list keeps its depth and goes on counting, a table repeats its header; no renderer ever sees half a style.
Each block is measured once, and only near a cut is it looked at more closely: the time is linear.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from adapters.text.graphemes import LOOK_AHEAD, boundary, line_boundary
from adapters.text.measure import Cost, Measure, Place
from adapters.text.spans import before, behind, without_leading_space
from adapters.text.tables import aligned, table_as_list
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

_TOP = Place()
_MOST_KEPT = 20_000  # costs
_LINE_END = re.compile(r"\n|\Z")


def split(document: Document, measure: Measure, limit: Cost, *, first: Cost | None = None) -> list[Document]:
    """Cut a document into parts that fit: between blocks if possible, else lines, sentences, words, clusters.

    `first` is the limit of the first part, if it has its own. A grapheme cluster is cut only if it alone does not
    fit, a code point never. Only white space is lost. Each part holds at least one code point, also where the
    limit allows none: so it ends for any limit. No part comes of a document without blocks.
    """
    splitter, rest = Splitter(measure, limit), document.blocks
    parts: list[Document] = []
    while rest:
        head, rest = splitter.cut(rest, first=None if parts else first)
        parts += [Document(blocks=head)] if head else []
    return parts


class Splitter:
    """Cuts what fits off the beginning of blocks, and remembers what they take."""

    def __init__(self, measure: Measure, limit: Cost) -> None:
        self._measure, self._limit = measure, limit
        self._known: dict[tuple[int, Place], tuple[Block | Item, Cost]] = {}
        self._asked: tuple[int, Place, Spans, list[Cost]] = (0, _TOP, (), [])

    def cut(self, blocks: Blocks, *, first: Cost | None = None) -> tuple[Blocks, Blocks]:
        """Return what fits, and what is left, which is less; nothing comes first only where there is nothing.

        `first` is the limit of this part, if it is lower than that of the others.
        """
        limit = first or self._limit
        while blocks:
            head, tail = self._cut_blocks(blocks, limit, limit, _TOP)
            if head:
                return head, tail
            simpler = _simplified(blocks[0])
            if simpler is None:
                return _first_code_point(blocks)
            blocks = (*simpler, *blocks[1:])
        return (), ()

    # --- what blocks take; what takes more than a part may is not measured to its end ---

    def _cost(self, block: Block, place: Place) -> Cost:
        known = self._known.get((id(block), place))
        return known[1] if known else self._remember(block, place, self._measured(block, place))

    def _item_cost(self, bullets: Bullets, number: int, place: Place) -> Cost:
        item = bullets.items[number]
        known = self._known.get((id(item), place))
        if known:
            return known[1]
        inside = self._measure.inside(bullets, place)
        own = self._measure.item(bullets, number, place)
        return self._remember(item, place, self._sum((own, *self._flow_costs(item.blocks, inside))))

    def _remember(self, measured: Block | Item, place: Place, cost: Cost) -> Cost:
        if len(self._known) > _MOST_KEPT:
            self._known.clear()
        self._known[id(measured), place] = (measured, cost)  # it is kept, so that nothing else gets its id
        return cost

    def _measured(self, block: Block, place: Place) -> Cost:
        measure = self._measure
        frame = measure.frame(block, place)
        match block:
            case Paragraph() | Heading():
                return self._sum(chain((frame,), self._span_costs(block.spans, place)))
            case Fence():
                return frame.plus(measure.verbatim(block.text[: self._limit.length + 1], place))
            case Table():
                return frame.plus(measure.verbatim(aligned(block), place))
            case Quote():
                return self._sum(chain((frame,), self._flow_costs(block.blocks, measure.inside(block, place))))
            case Bullets():
                items = (self._item_cost(block, number, place) for number in range(len(block.items)))
                return self._sum(chain((frame,), items))
            case Rule():
                return frame

    def _span_costs(self, spans: Spans, place: Place) -> Iterator[Cost]:
        """Yield what the spans take; those that were asked about last are asked about again when they are cut."""
        if self._asked[:2] != (id(spans), place):
            self._asked = (id(spans), place, spans, [])
        known = self._asked[3]
        yield from known
        most = self._limit.length + 1  # of a longer text only this beginning is measured: it is too long already
        for number in range(len(known), len(spans)):
            span = spans[number]
            beginning = span if len(span.text) <= most else replace(span, text=span.text[:most])
            known.append(self._measure.span(beginning, spans[number - 1] if number else None, place))
            yield known[-1]

    def _flow_costs(self, blocks: Blocks, place: Place) -> Iterator[Cost]:
        gap = self._measure.gap(place)
        for number, block in enumerate(blocks):
            if number:
                yield gap
            yield self._cost(block, place)

    def _sum(self, costs: Iterable[Cost]) -> Cost:
        length = size = count = 0
        most_length, most_size, most_count = self._limit
        for cost in costs:
            length, size, count = length + cost[0], size + cost[1], count + cost[2]
            if length > most_length or size > most_size or count > most_count:
                break
        return Cost(length, size, count)

    # --- cutting: `room` is what this part still has, `fresh` what an empty one would have here ---

    def _cut_blocks(self, blocks: Blocks, room: Cost, fresh: Cost, place: Place) -> tuple[Blocks, Blocks]:
        gap = self._measure.gap(place)
        for count, block in enumerate(blocks):
            room = room.minus(gap) if count else room
            cost = self._cost(block, place)
            if not cost.fits(room):
                break
            room = room.minus(cost)
        else:
            return blocks, ()
        if cost.fits(fresh):
            heads_next = count > 1 and isinstance(blocks[count - 1], Heading)
            count -= heads_next and not isinstance(block, Heading)  # a heading goes with what it heads
            return blocks[:count], blocks[count:]
        head, tail = self._cut_block(block, room, fresh, place)
        return (*blocks[:count], *head), (*tail, *blocks[count + 1 :])

    def _cut_block(self, block: Block, room: Cost, fresh: Cost, place: Place) -> tuple[Blocks, Blocks]:
        match block:
            case Paragraph() | Heading():
                return self._cut_text(block, room, place)
            case Fence():
                return self._cut_fence(block, room, place)
            case Bullets():
                return self._cut_list(block, room, fresh, place)
            case Quote():
                frame = self._measure.frame(block, place)
                inside = self._measure.inside(block, place)
                head, tail = self._cut_blocks(block.blocks, room.minus(frame), fresh.minus(frame), inside)
                return _quoted(head), _quoted(tail)
            case Table():
                return self._cut_table(block, room, fresh, place)
            case Rule():
                return (), (block,)

    def _cut_text(self, block: Paragraph | Heading, room: Cost, place: Place) -> tuple[Blocks, Blocks]:
        spans = without_leading_space(block.spans)
        room = room.minus(self._measure.frame(block, place))
        most, last = 0, None
        for span, cost in zip(spans, self._span_costs(spans, place), strict=True):
            if not cost.fits(room):
                most += self._most_of(span, last, room, place)
                break
            room = room.minus(cost)
            most, last = most + len(span.text), span
        if not most:
            return (), _filled(block, spans)
        at = boundary(text_of(before(spans, most + LOOK_AHEAD)), most)
        return _filled(block, before(spans, at)), _filled(block, without_leading_space(behind(spans, at)))

    def _most_of(self, span: Span, last: Span | None, room: Cost, place: Place) -> int:
        def fits(count: int) -> bool:
            return self._measure.span(replace(span, text=span.text[:count]), last, place).fits(room)

        return _most(min(len(span.text), max(room.length, 0)), room.length, fits)

    def _cut_fence(self, fence: Fence, room: Cost, place: Place) -> tuple[Blocks, Blocks]:
        room, text = room.minus(self._measure.frame(fence, place)), fence.text
        most = _most(
            min(len(text), max(room.length, 0)),
            room.length,
            lambda n: self._measure.verbatim(text[:n], place).fits(room),
        )
        if not most:
            return (), (fence,)
        at = line_boundary(text, most)
        head, tail = text[:at].removesuffix("\n"), text[at:]
        return (replace(fence, text=head),), (replace(fence, text=tail),) if tail else ()

    def _cut_list(self, bullets: Bullets, room: Cost, fresh: Cost, place: Place) -> tuple[Blocks, Blocks]:
        items, frame = bullets.items, self._measure.frame(bullets, place)
        room, fresh = room.minus(frame), fresh.minus(frame)
        for count in range(len(items)):
            cost = self._item_cost(bullets, count, place)
            if not cost.fits(room):
                break
            room = room.minus(cost)
        else:
            return (bullets,), ()
        kept, item = items[:count], items[count]
        head: Blocks = ()
        if not cost.fits(fresh):
            lead, inside = self._measure.item(bullets, count, place), self._measure.inside(bullets, place)
            head, tail = self._cut_blocks(item.blocks, room.minus(lead), fresh.minus(lead), inside)
        if not head:
            return _listed(bullets, 0, kept), _listed(bullets, count, items[count:])
        began = _listed(bullets, 0, (*kept, replace(item, blocks=head)))
        if not tail:
            return began, _listed(bullets, count + 1, items[count + 1 :])
        return began, _listed(bullets, count, (Item(blocks=tail, continued=True), *items[count + 1 :]))

    def _cut_table(self, table: Table, room: Cost, fresh: Cost, place: Place) -> tuple[Blocks, Blocks]:
        frame = self._measure.frame(table, place)
        text = aligned(table)  # its lines are at least as long as those of a part of it
        ends = [found.start() for found in _LINE_END.finditer(text)][1:]  # behind each row, the header taken as one

        def fits(rows: int) -> bool:
            return self._measure.verbatim(text[: ends[rows]], place).fits(room.minus(frame))

        count = _most(len(table.rows), len(table.rows) * room.length // len(text), fits)
        if count:
            rest = table.rows[count:]
            return (replace(table, rows=table.rows[:count]),), (replace(table, rows=rest),) if rest else ()
        if table.rows and self._measured(replace(table, rows=table.rows[:1]), place).fits(fresh):
            return (), (table,)
        return self._cut_block(table_as_list(table), room, fresh, place)


def _most(count: int, guess: int, ok: Callable[[int], bool]) -> int:
    """Return the largest number up to `count` that is ok, 0 if not even 1 is; the nearer the guess, the sooner."""
    good, bad, step = 0, count + 1, 1
    at = max(1, min(guess, count))
    while bad - good > 1:
        if ok(at):
            good, at = at, at + step
        else:
            bad, at = at, at - step
        step *= 2
        if not good < at < bad:
            at = (good + bad) // 2
    return good


def _quoted(blocks: Blocks) -> Blocks:
    return (Quote(blocks=blocks),) if blocks else ()


def _listed(bullets: Bullets, at: int, items: tuple[Item, ...]) -> Blocks:
    """Return these of a list's items as one that counts on from the item's number."""
    start = None if bullets.start is None else bullets.start + at
    return (Bullets(items=items, start=start),) if items else ()


def _filled(block: Paragraph | Heading, spans: Spans) -> Blocks:
    return (replace(block, spans=spans),) if spans else ()


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
    tail = without_leading_space(behind(paragraph.spans, 1))
    return _filled(paragraph, before(paragraph.spans, 1)), (*_filled(paragraph, tail), *blocks[1:])
