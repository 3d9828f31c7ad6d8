"""The facts of notes, so that it can be counted what a rewrite leaves out."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import regex

from memory.blocks import blocks, cleared, texts
from memory.index import INDEX, without_pointers
from memory.metadata import head_of, parse

# Scripts that are written without blanks count by the character, the others by the word.
_WORD = regex.compile(
    r"(?V1)[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
    r"|[\p{L}\p{N}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]+"
)
_SURVIVES = 0.6
"""The share of a fact's words that one fact afterwards must hold: room for shorter words, none for another subject."""


def facts(text: str) -> list[str]:
    """Return the facts of a note, each list item or paragraph on one line; headings and metadata are none."""
    return _facts_in(parse(text)[1])


def _facts_in(body: str) -> list[str]:
    return [fact for fact in texts(body) if _says(fact)]


def facts_of(text: str, name: str = "") -> list[str]:
    """Return what a file says as facts: those of its body, or else its description.

    Of an index, which is known by its `name`, they are all that stands between its pointer lines.
    """
    if is_index(name):
        return [fact for lines in without_pointers(text) for fact in _facts_in(lines)]
    return facts(text) or described(text)


def described(text: str) -> list[str]:
    """Return the description in a note's header, if there is one: it is a fact where the note has no other."""
    about = str(parse(text)[0].get("description") or "")
    return [about] if about else []


def forgettable(text: str, name: str = "") -> list[str]:
    """Return what somebody may have forgotten of a file: its facts, and the description that stands above them.

    No such description is counted among the facts elsewhere, as most of them only sum these up.
    """
    return [*(found := facts_of(text, name)), *above(text, name, found)]


def above(text: str, name: str, found: Sequence[str]) -> list[str]:
    """Return the description that stands in a file above the facts that were `found` there, if it is none of them."""
    return [] if is_index(name) else [about for about in described(text) if about not in found]


def is_index(name: str) -> bool:
    """Return whether a file of this name is an index."""
    return name.rpartition("/")[2] == INDEX


def parted(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return each fact, the words that it has as a list item or in a paragraph, and the lines that stand beside these.

    Such lines are quotes, tables, code and the like, as they may tell of other facts; a header that can't be read is
    left out.
    """
    found = blocks(text[len(head_of(text)) :])
    return [(block.text, block.bare, block.beside) for block in found if _says(block.text)]


def without(text: str, drop: Callable[[str], bool], *, betrays: Callable[[str], bool] | None = None) -> str:
    """Return the note without what `pruned` takes out of its body; the header stays as it is."""
    _, body = parse(text)
    left = pruned(body, drop, betrays=betrays)
    whole = text[: len(text) - len(body)] + left
    return whole if parse(whole)[1] == left else f"\n{whole}"  # a rule that is the first line now begins no header


def pruned(body: str, drop: Callable[[str], bool], *, betrays: Callable[[str], bool] | None = None) -> str:
    """Return a note's body without the facts that `drop` says yes to, and without what else there `betrays` them.

    `betrays` is asked of what stands around facts, such as a heading, a comment or a line of a quote.
    """
    return cleared(blocks(body), lambda fact: _says(fact) and drop(fact), betrays=betrays)


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


def _says(text: str) -> bool:
    """Return whether a text has a word at all."""
    return _WORD.search(text.casefold()) is not None
