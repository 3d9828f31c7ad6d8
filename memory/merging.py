"""A change that was made on an older text, made on the present one, line by line where both leave each other be."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

_Change = tuple[int, int, Sequence[str]]
"""The lines from here to there, counted in the older text, became these."""


def rebased(base: str, ours: str, theirs: str) -> str | None:
    """Return `theirs` with what `ours` changed of `base`; None where both changed the same lines, or beside them.

    Of lines that both put into the same place, theirs come first.
    """
    old, mine, other = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    changes = _changes(old, mine)
    if any(_meet(one, another) for one in changes for another in _changes(old, other)):
        return None
    moved = _shifts(old, other)
    lines = list(other)
    for start, end, new in sorted(changes, reverse=True):
        lines[moved[start] : moved[start] + end - start] = new
    return "".join(lines)


def _changes(old: Sequence[str], new: Sequence[str]) -> list[_Change]:
    matched = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(start, end, new[first:last]) for tag, start, end, first, last in matched if tag != "equal"]


def _meet(one: _Change, another: _Change) -> bool:
    both_add = one[:2] == another[:2] and one[0] == one[1]
    return one[0] <= another[1] and another[0] <= one[1] and not both_add


def _shifts(old: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Return where each line that stayed is now, and the end."""
    blocks: Iterable[tuple[int, int, int]] = SequenceMatcher(None, old, other, autojunk=False).get_matching_blocks()
    places = {start + step: there + step for start, there, size in blocks for step in range(size)}
    return places | {len(old): len(other)}
