"""The facts of notes, so that it can be counted what a rewrite leaves out."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import regex

from memory.comments import without_comments
from memory.metadata import parse

_ITEM = regex.compile(r"\s*+(?:[-*+]|\d++[.)])\s++(?=\S)")
_HEADING = regex.compile(r"\s{0,3}(?:#{1,6}\s|(?:[-*_=]\s*+){3,}+$)")  # or a rule, or an underline
# Scripts that are written without blanks count by the character, the others by the word.
_WORD = regex.compile(
    r"(?V1)[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
    r"|[\p{L}\p{N}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]+"
)
_SURVIVES = 0.6
"""The share of a fact's words that one fact afterwards must hold: room for shorter words, none for another subject."""


def facts(text: str) -> list[str]:
    """Return the facts of a note, each list item or paragraph on one line; headings and metadata are none."""
    _, body = parse(text)
    return [" ".join(fact.split()) for fact in _blocks(without_comments(body)) if _words(fact)]


def without(text: str, drop: Callable[[str], bool]) -> str:
    """Return the note without the facts that `drop` says yes to; header and other lines stay as they are."""
    _, body = parse(text)
    lines = body.split("\n")
    gone = {
        place
        for start, end in _spans(lines)
        if _words(fact := " ".join(without_comments(_joined(lines[start:end])).split())) and drop(fact)
        for place in range(start, end)
    }
    kept = "\n".join(line for place, line in enumerate(lines) if place not in gone)
    return text[: len(text) - len(body)] + kept


def vanished(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the facts that are in none of the facts afterwards, be it in other words."""
    exact = {fact.casefold() for fact in after}
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for place, fact in enumerate(after):
        for word in _words(fact):
            holders[word].append(place)
    return [fact for fact in before if fact.casefold() not in exact and not _survives(fact, holders)]


def _survives(fact: str, holders: defaultdict[str, list[int]]) -> bool:
    words = _words(fact)
    shared = Counter(place for word in words if word in holders for place in holders[word])
    return bool(shared) and max(shared.values()) >= _SURVIVES * len(words)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _blocks(body: str) -> Iterator[str]:
    lines = body.split("\n")
    return (_joined(lines[start:end]) for start, end in _spans(lines))


def _spans(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each list item or paragraph begins and ends."""
    start: int | None = None
    for place, line in enumerate(lines):
        heading = _HEADING.match(line)
        if start is not None and (not line.strip() or heading or _ITEM.match(line)):
            yield start, place
            start = None
        if start is None and line.strip() and not heading:
            start = place
    if start is not None:
        yield start, len(lines)


def _joined(lines: Iterable[str]) -> str:
    text = " ".join(line.strip() for line in lines)
    item = _ITEM.match(text)  # searched for in the middle, it would take time by the square of a run of blanks
    return text[item.end() :] if item else text
