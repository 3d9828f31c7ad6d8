"""Tables for places that have none: aligned in a fixed-width font, or as a list where they are too wide."""

from collections.abc import Sequence
from dataclasses import replace

from wcwidth import wcswidth

from adapters.text.tree import (
    Align,
    Block,
    Blocks,
    Bullets,
    Document,
    Item,
    Paragraph,
    Quote,
    Span,
    Spans,
    Table,
    text_of,
)

_MAX_LABEL = 40
_MEASURED = 256


def aligned(table: Table) -> str:
    """Return the table as lines of equal columns, counted as a terminal does: CJK and emoji take two."""
    widths = _widths(table)
    header, *rows = (
        " | ".join(_padded(cell, width, align) for cell, width, align in zip(row, widths, table.aligns, strict=True))
        for row in _texts(table)
    )
    return "\n".join(line.rstrip() for line in (header, "-+-".join("-" * width for width in widths), *rows))


def columns(table: Table) -> int:
    """Return how many columns `aligned` takes."""
    return sum(_widths(table)) + 3 * (len(table.header) - 1)


def without_wide_tables(document: Document, *, limit: int) -> Document:
    """Return the document with each table that takes more than `limit` columns as a list."""
    return Document(blocks=_narrowed(document.blocks, limit))


def table_as_list(table: Table) -> Bullets:
    """Return the table as a list with one item per row, each cell led by its column's heading.

    Where a heading is too long to be repeated in every row (the result would not be linear), the headings
    become an item of their own.
    """
    labels = tuple(text_of(cell) for cell in table.header)
    if not table.rows or any(len(label) > _MAX_LABEL for label in labels):
        return Bullets(items=tuple(_row_item(row, ("",) * len(row)) for row in (table.header, *table.rows)))
    return Bullets(items=tuple(_row_item(row, labels) for row in table.rows))


def _row_item(row: tuple[Spans, ...], labels: Sequence[str]) -> Item:
    lines: list[Span] = []
    for number, (cell, label) in enumerate(zip(row, labels, strict=True)):
        if not text_of(cell).strip():
            continue
        lines += [Span(text="\n")] if lines else []
        if number == 0:
            lines += [replace(span, bold=True) for span in cell]
        else:
            lines += [*([Span(text=f"{label}: ")] if label else []), *cell]
    return Item(blocks=(Paragraph(spans=tuple(lines)),) if lines else ())


def _narrowed(blocks: Blocks, limit: int) -> Blocks:
    return tuple(_narrow(block, limit) for block in blocks)


def _narrow(block: Block, limit: int) -> Block:
    match block:
        case Table() if columns(block) > limit:
            return table_as_list(block)
        case Quote():
            return Quote(blocks=_narrowed(block.blocks, limit))
        case Bullets():
            items = tuple(replace(item, blocks=_narrowed(item.blocks, limit)) for item in block.items)
            return replace(block, items=items)
    return block


def _texts(table: Table) -> list[list[str]]:
    return [[text_of(cell).replace("\n", " ") for cell in row] for row in (table.header, *table.rows)]


def _widths(table: Table) -> list[int]:
    return [max(map(_width, column)) for column in zip(*_texts(table), strict=True)]


def _width(text: str) -> int:
    # Wide beyond any screen, or plain: the library's time is quadratic in a row of flags.
    if len(text) > _MEASURED or (text.isascii() and text.isprintable()):
        return len(text)
    measured = wcswidth(text)
    return measured if measured >= 0 else len(text)  # -1: it holds control characters


def _padded(text: str, width: int, align: Align) -> str:
    room = width - _width(text)
    before = {Align.LEFT: 0, Align.CENTER: room // 2, Align.RIGHT: room}[align]
    return " " * before + text + " " * (room - before)
