"""Texts compared by their words: how much of one stands in another, and which facts a text tells."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator

import regex

from memory.rank import terms

CARRIED = 0.6
"""How much of a fact's words an older fact must hold to be the same one reworded; the share by which `memory.facts`
counts what survives."""

_STEM = 4
"""Letters of a word that count: inflection stands behind them, and they tell the words of a few sentences apart."""

_PART = 0.8
_PART_STEMS = 3  # fewer words may be a name alone
_ROUNDING = 1e-9  # sums of the same weights in another order differ by less
_CLOCK = regex.compile(r"\A\d{1,2}:\d{2}\s+")
_STAMP = regex.compile(r"\s*\([^()]*\d{4}-\d{2}-\d{2}\)[.。]?\s*\Z")


class Wording:
    """Compares texts by their words; a word counts the more, the fewer of the given texts have it."""

    def __init__(self, texts: Iterable[str]) -> None:
        known = [stems(text) for text in texts]
        self._total = len(known)
        self._having = Counter(stem for each in known for stem in each)
        self._weights: dict[int, float] = {}

    def share(self, text: str, within: str) -> float:
        """Return how much of the words of `text` stand in `within`, from 0 to 1."""
        return self.share_of_stems(stems(text), stems(within))

    def share_of_new(self, text: str, within: str, *, besides: str) -> float:
        """Return how much of what `text` has and `besides` lacks stands in `within`; 0 if there is nothing new."""
        return self.share_of_stems(stems(text) - stems(besides), stems(within))

    def share_of_known(self, text: str, within: str) -> float:
        """Return `share` of those words only that any of the texts has."""
        return self.share_of_stems(frozenset(stem for stem in stems(text) if stem in self._having), stems(within))

    def share_of_stems(self, words: Collection[str], within: Collection[str]) -> float:
        """Return `share` of words that are stems already."""
        total = sum(map(self.weight, words))
        return sum(self.weight(stem) for stem in words if stem in within) / total if total else 0.0

    def weight(self, stem: str) -> float:
        """Return how much a word counts; always more than 0."""
        having = self._having[stem] or 1
        weight = self._weights.get(having)
        if weight is None:
            weight = self._weights[having] = math.log(1 + (self._total + 1) / having)
        return weight


class Tellings:
    """Says which of some facts a text tells: most of a fact, or a part of it and hardly anything else.

    A text is compared only with those facts that share a word with it without which too little would be shared, so
    that thousands of texts can be held against hundreds of facts.
    """

    def __init__(self, wording: Wording, facts: Iterable[str]) -> None:
        self._wording = wording
        self._facts = [(stems(fact), stems(unstamped(fact))) for fact in facts]
        self._having: defaultdict[str, list[int]] = defaultdict(list)
        self._telling: defaultdict[str, list[int]] = defaultdict(list)
        for place, (full, bare) in enumerate(self._facts):
            for stem in full:
                self._having[stem].append(place)
            for stem in self._needed(bare, share=CARRIED):
                self._telling[stem].append(place)

    def told_by(self, text: str) -> bool:
        """Return whether a text tells any of the facts."""
        said = stems(text)
        return any(self._carries(said, place) for place in self._near(said, self._telling)) or (
            len(said) >= _PART_STEMS and self._is_part(said)
        )

    def _carries(self, said: frozenset[str], place: int) -> bool:
        return self._wording.share_of_stems(self._facts[place][1], said) >= CARRIED

    def _is_part(self, said: frozenset[str]) -> bool:
        near = self._near(self._needed(said, share=_PART), self._having)
        return any(self._wording.share_of_stems(said, self._facts[place][0]) >= _PART for place in near)

    def _needed(self, words: Collection[str], *, share: float) -> Iterator[str]:
        """Yield the weightiest of the words, up to where the rest of them is less than `share` of all."""
        weighed = sorted(((self._wording.weight(stem), stem) for stem in words), reverse=True)
        rest = sum(weight for weight, _ in weighed)
        enough = rest * share * (1 - _ROUNDING)
        for weight, stem in weighed:
            if rest < enough:
                return
            yield stem
            rest -= weight

    @staticmethod
    def _near(words: Iterable[str], places: "defaultdict[str, list[int]]") -> set[int]:
        return {place for stem in words if stem in places for place in places[stem]}


def stems(text: str) -> frozenset[str]:
    """Return the words of a text as they are compared: their beginnings, or overlapping pairs of unspaced scripts."""
    return frozenset(term[:_STEM] for term in terms(text))


def unstamped(fact: str) -> str:
    """Take off the name and date behind a fact: they are about it, not in it."""
    return _STAMP.sub("", _CLOCK.sub("", fact))
