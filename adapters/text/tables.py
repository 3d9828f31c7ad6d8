"""Tables for places that have none: aligned in a fixed-width font, or as a list where they are too wide."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from wcwidth import wcswidth

from adapters.text.tree import (
    Align,
    Block,
    Bullets,
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
_HOLDING = (Table, Quote, Bullets)


def aligned(table: Table) -> str:
    """Return the table as lines of equal columns, counted as a terminal does: CJK and emoji take two."""
    texts = _texts(table)
    measured = [[_width(text) for text in row] for row in texts]
    widths = [max(column) for column in zip(*measured, strict=True)]
    header, *rows = (
        " | ".join(map(_padded, row, taken, widths, table.aligns)).rstrip()
        for row, taken in zip(texts, measured, strict=True)
    )
    return "\n".join((header, "-+-".join("-" * width for width in widths), *rows))


def columns(table: Table) -> int:
    """Return how many columns `aligned` takes."""
    widths = (max(map(_width, column)) for column in zip(*_texts(table), strict=True))
    return sum(widths) + 3 * (len(table.header) - 1)


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


def narrowed(block: Block, is_wide: Callable[[Table], bool]) -> Block:
    """Return the block with each table in it that is too wide as a list."""
    match block:
        case Table() if is_wide(block):
            return table_as_list(block)
        case Quote():
            return Quote(blocks=tuple(narrowed(inner, is_wide) for inner in block.blocks))
        case Bullets() if any(isinstance(inner, _HOLDING) for item in block.items for inner in item.blocks):
            items = (
                replace(item, blocks=tuple(narrowed(inner, is_wide) for inner in item.blocks)) for item in block.items
            )
            return replace(block, items=tuple(items))
    return block


def _texts(table: Table) -> list[list[str]]:
    return [[text_of(cell).replace("\n", " ") for cell in row] for row in (table.header, *table.rows)]


def _width(text: str) -> int:
    # Wide beyond any screen, or plain: the library's time is quadratic in a row of flags.
    if len(text) > _MEASURED or (text.isascii() and text.isprintable()):
        return len(text)
    measured = wcswidth(text)
    return measured if measured >= 0 else len(text)  # -1: it holds control characters


def _padded(text: str, taken: int, width: int, align: Align) -> str:
    room = width - taken
    before = {Align.LEFT: 0, Align.CENTER: room // 2, Align.RIGHT: room}[align]
    return " " * before + text + " " * (room - before)
