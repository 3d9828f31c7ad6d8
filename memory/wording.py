"""Texts compared by their words: how much of one stands in another, and which facts a text tells.

A word counts the more, the fewer of the texts at hand have it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from memory.fact_stamp import bare
from memory.rank import FUNCTION_WORDS, terms

CARRIED = 0.6
"""How much of a fact's words an older fact must hold to be the same one reworded, or a rewrite for it to survive."""

_STEM = 4
"""Letters of a word that count: inflection stands behind them, and they tell the words of a few sentences apart."""

_PART = 0.8
_PART_STEMS = 3  # fewer words may be a name alone
_ROUNDING = 1e-9  # sums of the same weights in another order differ by less


def stems(text: str) -> frozenset[str]:
    """Return the words of a text as they are compared: their beginnings, or overlapping pairs of unspaced scripts."""
    return frozenset(ordered(text))


def ordered(text: str) -> Iterator[str]:
    """Yield the words of a text as they are compared, each as often as it stands there, in their order."""
    return (term[:_STEM] for term in terms(text))


EMPTY = stems(
    f"{FUNCTION_WORDS} a an am as at be by d do go he i if in is it ll m me my no of on or re s so t to up ve we"
)
"""Words, as `stems` has them, that say nothing of what a text is about."""


class Shares:
    """Weighs words by how many of the known texts, each given as its words, have them."""

    def __init__(self, known: Iterable[Collection[str]]) -> None:
        texts = list(known)
        having = Counter(word for words in texts for word in words)
        self._weights = {word: math.log(1 + (len(texts) + 1) / count) for word, count in having.items()}
        self._unknown = math.log(2 + len(texts))

    def of(self, words: Collection[str], within: Collection[str]) -> float:
        """Return how much of `words` stands in `within`, from 0 to 1."""
        total = sum(map(self.weight, words))
        return sum(self.weight(word) for word in words if word in within) / total if total else 0.0

    def known(self, words: Iterable[str]) -> frozenset[str]:
        """Return those of the words that any of the texts has."""
        return frozenset(word for word in words if word in self._weights)

    def needed(self, words: Collection[str], *, share: float = CARRIED) -> Iterator[str]:
        """Yield the weightiest words: a text that has none of them does not hold `share` of all."""
        weighed = sorted(((self.weight(word), word) for word in words), reverse=True)
        rest = sum(weight for weight, _ in weighed)
        enough = rest * share * (1 - _ROUNDING)
        for weight, word in weighed:
            if rest < enough:
                return
            yield word
            rest -= weight

    def weight(self, word: str) -> float:
        """Return how much a word counts."""
        return self._weights.get(word, self._unknown)


class Holders:
    """Finds those of many texts, each given as its words, that hold most of another one, or are held by it.

    Only those are compared that share one of the needed words, so that thousands can be held against thousands.
    """

    def __init__(self, shares: Shares, among: Sequence[Collection[str]]) -> None:
        self._shares = shares
        self._among = among

    @cached_property
    def _having(self) -> Mapping[str, Sequence[int]]:
        return _places(self._among)

    @cached_property
    def _needing(self) -> Mapping[str, Sequence[int]]:
        return _places(self._shares.needed(words) for words in self._among)

    def holding(self, words: Collection[str], *, share: float = CARRIED) -> dict[int, float]:
        """Return the places of those that hold `share` of the words, with how much they hold."""
        near = {place for word in self._shares.needed(words, share=share) for place in self._having.get(word, ())}
        found = {place: self._shares.of(words, self._among[place]) for place in sorted(near)}
        return {place: held for place, held in found.items() if held >= share}

    def held_by(self, words: Collection[str]) -> list[int]:
        """Return the places of those that the words hold `CARRIED` of."""
        near = {place for word in words for place in self._needing.get(word, ())}
        return [place for place in sorted(near) if self._shares.of(self._among[place], words) >= CARRIED]


def vanished(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the facts that are in none of the facts afterwards, be it in other words."""
    exact = {fact.casefold() for fact in after}
    missing = [fact for fact in before if fact.casefold() not in exact]
    if not missing:
        return []
    words = {fact: stems(fact) for fact in (*before, *after)}
    holders = Holders(Shares(words.values()), [words[fact] for fact in after])
    return [fact for fact in missing if not holders.holding(words[fact])]


class Wording:
    """Compares texts as they are written."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.shares = Shares(map(stems, texts))

    def share(self, text: str, within: str) -> float:
        """Return how much of the words of `text` stand in `within`, from 0 to 1."""
        return self.shares.of(stems(text), stems(within))

    def share_of_new(self, text: str, within: str, *, besides: str) -> float:
        """Return how much of what `text` has and `besides` lacks stands in `within`; 0 if there is nothing new."""
        return self.shares.of(stems(text) - stems(besides), stems(within))

    def share_of_known(self, text: str, within: str) -> float:
        """Return `share` of those words only that any of the texts has."""
        return self.shares.of(self.shares.known(stems(text)), stems(within))


class Tellings:
    """Says which of some facts a text tells: most of a fact, or a part of it and hardly anything else."""

    def __init__(self, wording: Wording, facts: Iterable[str]) -> None:
        facts = list(facts)
        self._bare = Holders(wording.shares, [stems(bare(fact)) for fact in facts])
        self._whole = Holders(wording.shares, list(map(stems, facts)))

    def told_by(self, text: str) -> bool:
        """Return whether a text tells any of the facts."""
        said = stems(text)
        is_part = len(said) >= _PART_STEMS and bool(self._whole.holding(said, share=_PART))
        return is_part or bool(self._bare.held_by(said))


def _places(among: Iterable[Iterable[str]]) -> Mapping[str, Sequence[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for place, words in enumerate(among):
        for word in words:
            found[word].append(place)
    return found
