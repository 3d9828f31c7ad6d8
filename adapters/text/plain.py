"""Markdown as plain text: for a terminal, a notification, a screen reader."""

import re
from collections.abc import Callable, Iterator

from adapters.text.reading import parse
from adapters.text.tables import aligned
from adapters.text.tree import (
    Blocks,
    Bullets,
    Fence,
    Heading,
    Paragraph,
    Quote,
    Rule,
    Span,
    Table,
    barred,
)

RULE = "———"
_TASKS = {True: "☑ ", False: "☐ "}

Escaped = Callable[[str], str]


def render(markdown: str) -> str:
    """Return Markdown as text to be read as it is: without its marks, with the addresses of links.

    Headings, emphasis, and the shape of what can't be shown are gone; fences, quotations, lists, aligned tables
    and every word are there.
    """
    return plain(parse(markdown).blocks, as_it_is)


def as_it_is(text: str) -> str:
    """Return the text, where nothing needs to be escaped."""
    return text


def plain(blocks: Blocks, escaped: Escaped) -> str:
    """Return blocks as plain text, in which `escaped` is applied to all that was written in them."""
    return "\n\n".join(_plain(blocks, escaped))


def _plain(blocks: Blocks, escaped: Escaped) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph() | Heading():
                yield escaped("".join([readable(span) for span in barred(block.spans)]))
            case Fence():
                yield _fenced(block.text, block.language, escaped)
            case Bullets():
                yield "\n".join(_items(block, escaped))
            case Quote():
                yield _led(plain(block.blocks, escaped), first="> ", later="> ")
            case Table():
                yield _fenced(aligned(block), "", escaped)
            case Rule():
                yield RULE


def readable(span: Span) -> str:
    """Return a span with its address."""
    if not span.href or span.href.removeprefix("mailto:") == span.text:
        return span.text
    return f"{span.text} ({span.href})"


def _fenced(text: str, language: str, escaped: Escaped) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{escaped(language)}\n{escaped(text)}\n{ticks}"


def _items(bullets: Bullets, escaped: Escaped) -> Iterator[str]:
    for number, item in enumerate(bullets.items):
        first = marker(bullets, number)
        blank = " " * len(first)
        first += "" if item.checked is None or item.continued else _TASKS[item.checked]
        yield _led("\n".join(_plain(item.blocks, escaped)), first=blank if item.continued else first, later=blank)


def marker(bullets: Bullets, number: int) -> str:
    """Return what stands before an item."""
    return "• " if bullets.start is None else f"{bullets.start + number}. "


def _led(text: str, *, first: str, later: str) -> str:
    lines = text.split("\n")
    return "\n".join([first + lines[0], *(later + line if line else later.rstrip() for line in lines[1:])])
