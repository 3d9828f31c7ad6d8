"""HTML comments, found in linear time whatever a text holds."""

_OPENING = "<!--"
_CLOSING = "-->"


def without_comments(text: str) -> str:
    """Return the text without its HTML comments; one that is never closed stays."""
    kept: list[str] = []
    place = 0
    while (start := text.find(_OPENING, place)) >= 0:
        end = text.find(_CLOSING, start + len(_OPENING))
        if end < 0:  # nor does any later one end
            break
        kept.append(text[place:start])
        place = end + len(_CLOSING)
    kept.append(text[place:])
    return "".join(kept)
