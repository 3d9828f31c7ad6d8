"""Dividing a text where it can be read apart: what stands before such a place never changes what comes after.

So a text without structure is read without the rules for structure, and of an answer that grows only the end is
read again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

# What can begin a line of prose only, whatever follows; neither a list nor a quotation goes on with it.
_PLAIN = r"(?:[^\s#>`~\-+*_=|:$\\0-9]|\*\*(?=[^\s*])|`{1,2}(?=[^`]))"
_OPENS = r"^(?P<indent>[ ]{0,3})(?P<fence>`{3,}(?=[^`\n]*\n)|~{3,}(?=.*\n))"
_PLACE = re.compile(rf"{_OPENS}|^\#{{1,6}}[ \t]|\n(?:[ \t]*\n)+(?={_PLAIN})", re.MULTILINE)
_PROSE = re.compile(rf"\n*{_PLAIN}[^\n]*+(?:\n{_PLAIN}[^\n]*+)*+\s*")
_CLOSING = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*(?:\n|\Z)", re.MULTILINE)
_OPENING = re.compile(r"(`{3,}|~{3,})([^\n]*)\n")


class Kind(Enum):
    """What a stretch is known to be."""

    PROSE = "one paragraph"
    FENCE = "one fence, up to its end"
    ANY = "any blocks"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text, from `start` to `end`."""

    kind: Kind
    start: int
    end: int


def stretches(text: str, start: int = 0) -> Iterator[Stretch]:
    """Divide a text, from where a stretch begins. All but the last one stay as they are, whatever is appended."""
    place = start
    while found := _PLACE.search(text, place):
        if found["fence"] is None:
            at = found.start() if text[found.start()] == "#" else found.end()
            yield from _before(text, start, at)
            start, place = at, max(at, found.start() + 1)
            continue
        end, surely = _fence_end(text, found)
        if found["indent"]:  # perhaps in a list, whose end would end it, too
            if not surely:
                break
            place = end
        else:
            yield from _before(text, start, found.start())
            yield Stretch(Kind.FENCE, found.start(), end)
            start = place = end
    yield from _before(text, start, len(text))


def fence_of(text: str) -> tuple[str, str]:
    """Return the text of a stretch that is a fence, and what stands behind its opening marks."""
    opening = _OPENING.match(text)
    assert opening is not None
    inside = text[opening.end() :]
    last = inside.removesuffix("\n").rfind("\n") + 1
    closing = _CLOSING.fullmatch(inside, last)
    begun = inside[last:]  # a line of blanks only is none until it ends
    if (closing and _closes(closing, opening[1])) or (not begun.endswith("\n") and not begun.strip(" \t")):
        inside = inside[:last]
    return inside.removesuffix("\n"), opening[2]


def _before(text: str, start: int, end: int) -> Iterator[Stretch]:
    if start < end:
        yield Stretch(Kind.PROSE if _PROSE.fullmatch(text, start, end) else Kind.ANY, start, end)


def _fence_end(text: str, opening: re.Match[str]) -> tuple[int, bool]:
    """Return where a fence ends, and whether it does so whether or not it stands in a list."""
    marks, indent = opening["fence"], len(opening["indent"])
    for closing in _CLOSING.finditer(text, opening.end()):
        if _closes(closing, marks):
            break
    else:
        return len(text), False
    inside = text[opening.end() : closing.end()]
    return closing.end(), not indent or not re.search(rf"^ {{0,{indent - 1}}}[^ \n]", inside, re.MULTILINE)


def _closes(closing: re.Match[str], marks: str) -> bool:
    return closing[1][0] == marks[0] and len(closing[1]) >= len(marks)
