"""The facts of notes, so that it can be counted what a rewrite leaves out."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import regex

from memory.metadata import parse

_ITEM = regex.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?=\S)")
_HEADING = regex.compile(r"\s{0,3}(?:#{1,6}\s|(?:[-*_=]\s*){3,}$)")  # or a rule, or an underline
_COMMENT = regex.compile(r"<!--.*?-->", regex.DOTALL)
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
    return [" ".join(fact.split()) for fact in _blocks(_COMMENT.sub("", body)) if _words(fact)]


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
    block: list[str] = []
    for line in body.split("\n"):
        ends = not line.strip() or _HEADING.match(line) or _ITEM.match(line)
        if ends and block:
            yield _joined(block)
            block = []
        if line.strip() and not _HEADING.match(line):
            block.append(line)
    if block:
        yield _joined(block)


def _joined(lines: Iterable[str]) -> str:
    return _ITEM.sub("", " ".join(line.strip() for line in lines), count=1)
