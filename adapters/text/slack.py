"""Markdown as Slack messages: rich text blocks for the eye, plain text for notifications and screen readers.

Rich text is typed, so nothing in it needs escaping and nothing in it can ping: a user id or `<!channel>` that
a model wrote stays the characters that it is. The `markdown` block is not used, since Slack parses its own
subset of Markdown in it (no tables) and does not document whether mentions ping. Both forms hold the whole
part: who sees only one of them misses nothing.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, chain, groupby
from typing import Any

from adapters.text.split import split
from adapters.text.tables import aligned, columns, table_as_list
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
    parse,
)

MAX_TEXT = 3900
"""Characters of `text`: Slack cuts near 4000 in view and refuses more in an edit."""

MAX_BLOCKS = 12_000
"""UTF-8 bytes of all blocks of a message as JSON: Slack refuses somewhat above (not documented)."""

MAX_BLOCK_COUNT = 49
"""Blocks of a message: one less than Slack takes, for a label."""

_MAX_TABLE = 72  # columns of monospace that a desktop window shows without wrapping
_MAX_INDENT = 8
_EMPTY = "(empty message)"
_LINKS = ("http://", "https://", "mailto:")

Element = dict[str, Any]


def render(markdown: str) -> list[dict[str, Any]]:
    """Cut Markdown into messages `{"text": …, "blocks": […]}` within Slack's limits; at least one."""
    documents = split(parse(markdown), _fits)
    parts = [part for part in map(_part, documents) if _visible(part["text"])]
    return parts or [_part(Document(blocks=(_said(_EMPTY),)))]


def labelled(part: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the message with a short line of plain text below it; `render` leaves room for some 90 characters."""
    element = {"type": "rich_text_section", "elements": [_text(label)]}
    return {
        "text": f"{part['text']}\n{_escaped(label)}",
        "blocks": [*part["blocks"], {"type": "rich_text", "elements": [element]}],
    }


def streamable(markdown: str) -> str:
    """Return Markdown for Slack's streams, in which no mention pings; a beginning of it gives a beginning.

    A stream takes Markdown only, and Slack may read `<@U1>` and `<!channel>` in it. An invisible word joiner
    behind the bracket leaves the characters to be seen and takes the meaning away.
    """
    return _MENTION.sub("<\u2060", _LONE_SURROGATE.sub("\ufffd", markdown))


_MENTION = re.compile(r"<(?=[@!#])")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _part(document: Document) -> dict[str, Any]:
    return {"text": _text_of(document), "blocks": list(_message_blocks(document.blocks))}


def _text_of(document: Document) -> str:
    return "\n\n".join(_plain(document.blocks))


def _fits(document: Document) -> bool:
    if any(total > MAX_TEXT for total in accumulate(_lengths(document.blocks))):
        return False  # before a long text is rendered
    if len(_text_of(document)) > MAX_TEXT:
        return False
    blocks = list(_message_blocks(document.blocks))
    size = len(json.dumps(blocks, ensure_ascii=False).encode())
    return size <= MAX_BLOCKS and len(blocks) <= MAX_BLOCK_COUNT


def _lengths(blocks: Blocks) -> Iterator[int]:
    """Yield lengths of text that together are at most those of the rendered one; tables are left out."""
    for block in blocks:
        match block:
            case Paragraph() | Heading():
                yield from (len(span.text) for span in block.spans)
            case Fence():
                yield len(block.text)
            case Quote():
                yield from _lengths(block.blocks)
            case Bullets():
                for item in block.items:
                    yield from _lengths(item.blocks)


def _visible(text: str) -> bool:
    return any(unicodedata.category(character)[0] not in "CZ" for character in text)


def _said(text: str) -> Paragraph:
    return Paragraph(spans=(Span(text=text),))


# --- rich text ---


def _message_blocks(blocks: Blocks) -> Iterator[Element]:
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
            text = _monospaced(block)
            if text is None:
                yield from _list(table_as_list(block), indent=0, border=border)
            else:
                yield _preformatted(text, language="", border=border)
        case Rule():
            yield from _elements((_said("———"),), border=border)


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
            waiting.append({"type": "rich_text_section", "elements": list(_inline(lead)) or [_text(" ")]})
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
    return _joined((_leaf(block) for block in item.blocks[:prose]), gap="\n"), item.blocks[prose:]


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
    for span in spans:
        names = [name for name in ("bold", "italic", "strike", "code") if getattr(span, name)]
        style: Element = {"style": dict.fromkeys(names, True)} if names else {}
        if span.href.lower().startswith(_LINKS):
            yield {"type": "link", "url": span.href, "text": span.text, **style}
        else:
            yield {**_text(span.text + (f" ({span.href})" if span.href else "")), **style}


def _text(text: str) -> Element:
    return {"type": "text", "text": text}


# --- tables: in columns of a fixed-width font, or as a list where they would be too wide or lose a link ---


def _monospaced(table: Table) -> str | None:
    cells = chain(table.header, *table.rows)
    if columns(table) > _MAX_TABLE or any(span.href for cell in cells for span in cell):
        return None
    return aligned(table)


# --- plain text ---


def _plain(blocks: Blocks) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph() | Heading():
                yield _escaped("".join(_readable(span) for span in block.spans))
            case Fence():
                yield _fenced(block.text, language=block.language)
            case Bullets():
                yield "\n".join(_plain_items(block))
            case Quote():
                yield _led("\n\n".join(_plain(block.blocks)), first="> ", later="> ")
            case Table():
                text = _monospaced(block)
                if text is None:
                    yield from _plain((table_as_list(block),))
                else:
                    yield _fenced(text, language="")
            case Rule():
                yield "———"


def _readable(span: Span) -> str:
    if not span.href or span.href.removeprefix("mailto:") == span.text:
        return span.text
    return f"{span.text} ({span.href})"


def _fenced(text: str, *, language: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{_escaped(language)}\n{_escaped(text)}\n{ticks}"


def _plain_items(bullets: Bullets) -> Iterator[str]:
    for at, item in enumerate(bullets.items):
        marker = "• " if bullets.start is None else f"{bullets.start + at}. "
        blank = " " * len(marker)
        yield _led("\n".join(_plain(item.blocks)), first=blank if item.continued else marker, later=blank)


def _led(text: str, *, first: str, later: str) -> str:
    lines = text.split("\n")
    return "\n".join([first + lines[0], *(later + line if line else later.rstrip() for line in lines[1:])])


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
