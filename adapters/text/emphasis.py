"""Which `*`, `_`, `~~` and `||` belong together: CommonMark's rules, with the amendment for CJK.

By the rules of CommonMark alone `**重要：**请` isn't bold, because no space stands behind its closing marks; where
no script of spaces is near, none can be asked for (github.com/tats-u/markdown-cjk-friendly).
"""

import re
import unicodedata
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache

import regex  # type: ignore[import-untyped, unused-ignore]

_RUN = {mark: re.compile(re.escape(mark) + "+") for mark in "*_~|"}
_DRAWN = regex.compile(r"\p{Emoji_Presentation}")
_HANGUL = regex.compile(r"\p{Script_Extensions=Hangul}")


class _Kind(Enum):
    SPACE = 1
    PUNCTUATION = 2
    CJK_PUNCTUATION = 3
    CJK = 4
    OTHER = 5


_PUNCTUATION = frozenset({_Kind.PUNCTUATION, _Kind.CJK_PUNCTUATION})


def _kind(character: str) -> _Kind:
    """Say what stands beside a mark; nothing, at an end of the line, counts as a space."""
    if not character or character.isspace():
        return _Kind.SPACE
    wide = unicodedata.east_asian_width(character) in "WFH" or _HANGUL.match(character)
    cjk = wide and not _DRAWN.match(character)
    if unicodedata.category(character)[0] in "PS":
        return _Kind.CJK_PUNCTUATION if cjk else _Kind.PUNCTUATION
    return _Kind.CJK if cjk else _Kind.OTHER


class Run:
    """A run of one mark: `count` of it are text, the others begin and end styles."""

    __slots__ = ("begins", "closes", "count", "ends", "length", "mark", "opens")

    def __init__(self, mark: str, length: int, *, opens: bool, closes: bool) -> None:
        self.mark, self.length, self.count = mark, length, length
        self.opens, self.closes = opens, closes
        self.begins: tuple[str, ...] = ()
        self.ends: tuple[str, ...] = ()


def run_at(text: str, at: int) -> Run:
    """Return the run that begins at a place."""
    mark, end = text[at], at + 1
    if text.startswith(mark, end):
        found = _RUN[mark].match(text, at)
        assert found is not None
        end = found.end()
    opens, closes = _sides(mark, end - at, text[at - 1 : at], text[end : end + 1])
    return Run(mark, end - at, opens=opens, closes=closes)


@lru_cache(maxsize=4096)
def _sides(mark: str, length: int, before: str, after: str) -> tuple[bool, bool]:
    """Say whether a run may open and may close, by the characters beside it."""
    if mark in "~|" and length != 2:
        return False, False  # about 5, a cell's border
    outer, inner = _kind(before), _kind(after)
    if mark == "|":  # also "or" in many languages: `a||b`, `a || b`
        opens = inner is not _Kind.SPACE and outer is not _Kind.OTHER
        return opens, outer is not _Kind.SPACE and inner is not _Kind.OTHER
    left, right = _flanks(outer, inner), _flanks(inner, outer)
    if mark != "_":
        return left, right
    return left and (not right or outer in _PUNCTUATION), right and (not left or inner in _PUNCTUATION)


def _flanks(outer: _Kind, inner: _Kind) -> bool:
    if inner is _Kind.SPACE:
        return False
    return inner is not _Kind.PUNCTUATION or outer is not _Kind.OTHER


def pair(runs: Sequence[Run]) -> None:
    """Match what opens with what closes, in linear time; what finds no partner stays text."""
    openers: list[tuple[int, Run]] = []
    lowest: dict[tuple[str, bool, int], int] = {}  # below this number nothing matches: it was looked through
    for number, run in enumerate(runs):
        while run.closes and run.count:
            key = (run.mark, run.opens, run.length % 3)
            floor = lowest.get(key, 0)
            place = len(openers) - 1
            while place >= 0 and openers[place][0] >= floor and not _match(openers[place][1], run):
                place -= 1
            if place < 0 or openers[place][0] < floor:
                lowest[key] = number
                break
            opener = openers[place][1]
            _style(opener, run)
            del openers[place + 1 if opener.count else place :]
        if run.opens and run.count:
            openers.append((number, run))


def _match(opener: Run, closer: Run) -> bool:
    if opener.mark != closer.mark:
        return False
    if opener.mark in "~|":
        return True
    both = opener.closes or closer.opens
    return not both or (opener.length + closer.length) % 3 != 0 or (opener.length % 3 == 0 and closer.length % 3 == 0)


_STYLES = {"**": "bold", "__": "bold", "*": "italic", "_": "italic", "~~": "strike", "||": "spoiler"}


def _style(opener: Run, closer: Run) -> None:
    count = 2 if opener.count >= 2 and closer.count >= 2 else 1
    style = _STYLES[opener.mark * count]
    opener.begins += (style,)
    closer.ends += (style,)
    opener.count -= count
    closer.count -= count
