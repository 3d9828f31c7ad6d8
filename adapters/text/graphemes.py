"""Where text may be cut: never inside what a reader sees as one character."""

import regex  # type: ignore[import-untyped, unused-ignore]

LOOK_AHEAD = 256
"""How many characters behind a cut are looked at; a cluster that is still longer is no writing."""

_WINDOW = 256
# A flag is a cluster that \X finds, too, but it looks back to where the row of flags began: quadratic.
_CLUSTER = regex.compile(r"\p{RI}\p{RI}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+|\X")
_LEADING_SPACE = regex.compile(r"(?:(?=\s)\X(?<=\s))*+")  # whole clusters: a space may carry an accent
_GOOD_ENDS = tuple(regex.compile(f"(?r){end}") for end in (r"\n", r"[.!?…؟।]\s|[。！？｡]", r"\s"))
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def boundary(text: str, most: int) -> int:
    """Return where to cut prose so that at most `most` characters, and at least one, come before the cut.

    Prefers, in the second half of what is allowed, the end of a line, a sentence or a word, in this order;
    else the last end of a grapheme cluster. A cluster that is itself longer than `most` is cut at `most`.
    Only the first `most + LOOK_AHEAD` characters of `text` matter.
    """
    if most >= len(text):
        return len(text)
    for good_end in _GOOD_ENDS:
        end = most
        while found := good_end.search(text, most // 2, end):
            if _cluster_end(text, found.end() - 1, most + LOOK_AHEAD) == found.end():
                return int(found.end())
            end = found.end() - 1
    return _last_end(text, most)


def line_boundary(text: str, most: int) -> int:
    """Return where to cut verbatim text: behind the last whole line, else behind a grapheme cluster."""
    if most >= len(text):
        return len(text)
    newline = text.rfind("\n", 0, most)
    return newline + 1 if newline >= 0 else _last_end(text, most)


def leading_space(text: str) -> int:
    """Return how many characters of white space text begins with, counting whole grapheme clusters."""
    match = _LEADING_SPACE.match(text)
    return int(match.end()) if match else 0


def _last_end(text: str, most: int) -> int:
    """Return the last end of a cluster, looking at a window first: there all but the first end are sure."""
    start = len(text[: max(0, most - _WINDOW)].rstrip(_FLAG_LETTERS))
    ends = _ends(text, start, most)[bool(start) :]
    if not ends and start:
        ends = _ends(text, 0, most)
    return ends[-1] if ends else max(most, 1)


def _ends(text: str, start: int, most: int) -> list[int]:
    ends: list[int] = []
    for cluster in _CLUSTER.finditer(text, start, most + LOOK_AHEAD):
        if cluster.end() > most:
            break
        ends.append(cluster.end())
    return ends


def _cluster_end(text: str, start: int, limit: int) -> int:
    match = _CLUSTER.match(text, start, limit)
    return int(match.end()) if match else start
