"""Where text may be cut: never inside what a reader sees as one character."""

import regex  # type: ignore[import-untyped, unused-ignore]

LOOK_AHEAD = 256
"""How many characters behind a cut are looked at; a cluster that is still longer is no writing."""

# A flag is a cluster that \X finds, too, but it looks back to where the row of flags began: quadratic.
_CLUSTER = regex.compile(r"\p{RI}\p{RI}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+|\X")
_LEADING_SPACE = regex.compile(r"(?:(?=\s)\X(?<=\s))*+")  # whole clusters: a space may carry an accent
_SPACED_STOPS = frozenset(".!?…؟।")
_STOPS = frozenset("。！？｡")


def boundary(text: str, most: int) -> int:
    """Return where to cut prose so that at most `most` characters, and at least one, come before the cut.

    Prefers, in the second half of what is allowed, the end of a line, a sentence or a word, in this order;
    else the last end of a grapheme cluster. A cluster that is itself longer than `most` is cut at `most`.
    Only the first `most + LOOK_AHEAD` characters of `text` matter.
    """
    if most >= len(text):
        return len(text)
    ends = _cluster_ends(text, most)
    late = [end for end in ends if end > most // 2]
    for ends_well in (_ends_line, _ends_sentence, _ends_word):
        for end in reversed(late):
            if ends_well(text, end):
                return end
    return ends[-1] if ends else max(most, 1)


def line_boundary(text: str, most: int) -> int:
    """Return where to cut verbatim text: behind the last whole line, else behind a grapheme cluster."""
    if most >= len(text):
        return len(text)
    newline = text.rfind("\n", 0, most)
    if newline >= 0:
        return newline + 1
    ends = _cluster_ends(text, most)
    return ends[-1] if ends else max(most, 1)


def leading_space(text: str) -> int:
    """Return how many characters of white space text begins with, counting whole grapheme clusters."""
    match = _LEADING_SPACE.match(text)
    return int(match.end()) if match else 0


def _cluster_ends(text: str, most: int) -> list[int]:
    ends: list[int] = []
    for cluster in _CLUSTER.finditer(text, 0, most + LOOK_AHEAD):
        if cluster.end() > most:
            break
        ends.append(cluster.end())
    return ends


def _ends_line(text: str, end: int) -> bool:
    return text[end - 1] == "\n"


def _ends_sentence(text: str, end: int) -> bool:
    spaced = text[end - 1].isspace() and text[end - 2 : end - 1] in _SPACED_STOPS
    return spaced or text[end - 1] in _STOPS


def _ends_word(text: str, end: int) -> bool:
    return text[end - 1].isspace()
