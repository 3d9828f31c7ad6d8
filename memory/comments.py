"""HTML comments, found in linear time whatever a text holds."""

from collections.abc import Iterator

_OPENING = "<!--"
_CLOSING = "-->"
EMPTY = _OPENING + _CLOSING
"""What takes the place of a comment that must go: with nothing there, what stands around it could become one."""


def parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, each with whether it is a comment; one that is never closed is none."""
    place = 0
    while (start := text.find(_OPENING, place)) >= 0:
        end = text.find(_CLOSING, start + len(_OPENING))
        if end < 0:  # nor does any later one end
            break
        yield text[place:start], False
        place = end + len(_CLOSING)
        yield text[start:place], True
    yield text[place:], False


def without_comments(text: str) -> str:
    """Return the text without its HTML comments; one that is never closed stays."""
    return "".join(piece for piece, is_comment in parts(text) if not is_comment)
