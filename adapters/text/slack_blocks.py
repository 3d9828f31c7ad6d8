"""A document as the blocks of a Slack message."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from adapters.text.plain import RULE
from adapters.text.tables import aligned
from adapters.text.tree import (
    Block,
    Blocks,
    Bullets,
    Fence,
    Heading,
    Item,
    Paragraph,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
    barred,
)

_MAX_INDENT = 8
_TASKS = {True: "☑ ", False: "☐ "}
_LINKS = ("http://", "https://", "mailto:")

Element = dict[str, Any]


def message_blocks(blocks: Blocks) -> Iterator[Element]:
    """Yield the blocks of a message."""
    for ruled, run in groupby(blocks, key=lambda block: isinstance(block, Rule)):
        if ruled:
            yield from ({"type": "divider"} for _ in run)
        else:
            yield {"type": "rich_text", "elements": list(_elements(tuple(run), border=False))}


def _elements(blocks: Blocks, *, border: bool) -> Iterator[Element]:
    """Yield rich text for blocks; with `border` they stand in a quotation."""
    for prose, run in groupby(blocks, key=lambda block: isinstance(block, Paragraph | Heading)):
        if prose:
            inner = list(_inline(_joined(_leaf(block) for block in run)))
            yield {"type": "rich_text_quote" if border else "rich_text_section", "elements": inner}
        else:
            for block in run:
                yield from _other(block, border=border)


def _other(block: Block, *, border: bool) -> Iterator[Element]:
    match block:
        case Fence():
            yield _preformatted(block.text, language=block.language, border=border)
        case Bullets():
            yield from _list(block, indent=0, border=border)
        case Quote():
            yield from _elements(block.blocks, border=True)
        case Table():
            yield _preformatted(aligned(block), language="", border=border)
        case Rule():
            yield from _elements((said(RULE),), border=border)


def _preformatted(text: str, *, language: str, border: bool) -> Element:
    element: Element = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text or " "}]}
    return element | ({"language": language} if language else {}) | ({"border": 1} if border else {})


def _list(bullets: Bullets, *, indent: int, border: bool) -> Iterator[Element]:
    """Yield a list as Slack has it: flat, in stretches of one depth, what else the items hold in between."""
    number = bullets.start
    waiting: list[Element] = []
    first = number

    def flush() -> Iterator[Element]:
        if waiting:
            yield _stretch(tuple(waiting), first=first, indent=indent, border=border)
            waiting.clear()

    for item in bullets.items:
        lead, rest = _lead(item)
        if item.continued:
            yield from flush()
            yield from _elements(item.blocks, border=border)
        else:
            first = first if waiting else number
            waiting.append({"type": "rich_text_section", "elements": list(_inline(lead)) or [text_element(" ")]})
            if rest:
                yield from flush()
                yield from _nested(rest, indent=indent, border=border)
        number = None if number is None else number + 1
    yield from flush()


def _stretch(items: tuple[Element, ...], *, first: int | None, indent: int, border: bool) -> Element:
    element: Element = {
        "type": "rich_text_list",
        "style": "bullet" if first is None else "ordered",
        "elements": list(items),
        "indent": min(indent, _MAX_INDENT),
    }
    return element | ({"offset": first - 1} if first and first > 1 else {}) | ({"border": 1} if border else {})


def _nested(blocks: Blocks, *, indent: int, border: bool) -> Iterator[Element]:
    for block in blocks:
        if isinstance(block, Bullets):
            yield from _list(block, indent=indent + 1, border=border)
        else:
            yield from _elements((block,), border=border)


def _lead(item: Item) -> tuple[Spans, Blocks]:
    """Divide an item into the text beside its marker and what follows below."""
    prose = 0
    while prose < len(item.blocks) and isinstance(item.blocks[prose], Paragraph | Heading):
        prose += 1
    lead = _joined((_leaf(block) for block in item.blocks[:prose]), gap="\n")
    if item.checked is not None and not item.continued:
        lead = (Span(text=_TASKS[item.checked]), *lead)
    return lead, item.blocks[prose:]


def _leaf(block: Block) -> Spans:
    match block:
        case Heading():
            return tuple(replace(span, bold=True) for span in block.spans)
        case Paragraph():
            return block.spans
    return ()


def _joined(leaves: Iterable[Spans], *, gap: str = "\n\n") -> Spans:
    spans: list[Span] = []
    for leaf in leaves:
        spans += [*([Span(text=gap)] if spans else []), *leaf]
    return tuple(spans)


def _inline(spans: Spans) -> Iterator[Element]:
    for span in barred(spans):
        names = [name for name in ("bold", "italic", "strike", "code") if getattr(span, name)]
        style: Element = {"style": dict.fromkeys(names, True)} if names else {}
        if span.href.lower().startswith(_LINKS):
            yield {"type": "link", "url": span.href, "text": span.text, **style}
        else:
            yield {**text_element(span.text + (f" ({span.href})" if span.href else "")), **style}


def text_element(text: str) -> Element:
    """Return text without a style."""
    return {"type": "text", "text": text}


def said(text: str) -> Paragraph:
    """Return text as a paragraph without a style."""
    return Paragraph(spans=(Span(text=text),))
