"""Markdown as bare text, for a terminal, a log of what was said, or a platform's fallback text."""

from dataclasses import replace

from adapters.text.layout import lay_out
from adapters.text.tables import without_wide_tables
from adapters.text.tree import (
    Block,
    Blocks,
    Bullets,
    Document,
    Heading,
    Paragraph,
    Quote,
    Span,
    Spans,
    Table,
    parse,
)

_MAX_TABLE_COLUMNS = 100


def render(markdown: str) -> str:
    """Return Markdown without its markup; links are followed by their address. Empty for blank text."""
    document = Document(blocks=_with_addresses(parse(markdown).blocks))
    text = lay_out(without_wide_tables(document, limit=_MAX_TABLE_COLUMNS)).text
    return text.replace("\u00a0", " ").strip("\n")


def _with_addresses(blocks: Blocks) -> Blocks:
    return tuple(_block(block) for block in blocks)


def _block(block: Block) -> Block:
    match block:
        case Paragraph() | Heading():
            return replace(block, spans=_spans(block.spans))
        case Quote():
            return Quote(blocks=_with_addresses(block.blocks))
        case Bullets():
            items = tuple(replace(item, blocks=_with_addresses(item.blocks)) for item in block.items)
            return replace(block, items=items)
        case Table():
            rows = tuple(tuple(map(_spans, row)) for row in block.rows)
            return replace(block, header=tuple(map(_spans, block.header)), rows=rows)
    return block


def _spans(spans: Spans) -> Spans:
    written: list[Span] = []
    for number, span in enumerate(spans):
        written.append(span)
        ends = number + 1 == len(spans) or spans[number + 1].href != span.href
        if span.href and ends and span.href.removeprefix("mailto:") not in span.text:
            written.append(Span(text=f" ({span.href})"))
    return tuple(written)
