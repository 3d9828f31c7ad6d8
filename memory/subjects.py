"""Whether what was said of one is said of another after a rewrite, in a memory of which nobody knows who is in it.

A claim that names nobody is its owner's: `is allergic to nuts`. It is another's if there is a name before it now, or
above it, that was not there, or a subject that several claims have been given in the same words. Neither counts if it
comes from another claim that was merged with this one, if it names who is on record as having said it, or the user.
What is put below a name that a good part of it spoke of before has been sorted, not given away.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import regex

from memory.fact_stamp import behind, unstamped
from memory.names import WORD, key, plain
from memory.wording import EMPTY, ordered, stems

_APART = regex.compile(
    r"[,;:.!?。、，；：()（）\[\]—–|*_]|\s-\s|\b(?:and|but|und|aber|et|mais|y|pero)\b", regex.IGNORECASE
)
_SENTENCE = regex.compile(r"[:.!?。！？：()（）\n]")
_PROSE = regex.compile(r"\p{L}[\p{L}\p{M}]*+")
_NOUNS = 0.25
"""The share of words with a capital within sentences from which on a language writes all nouns so."""
_DIGITS = regex.compile(r"\p{N}+\Z")
_OWNER = stems("user person i")
"""What the owner of a memory is called in it."""
_SEVERAL = 2
"""Claims to which the same words must have been added before them: of one alone they may be any."""
_OF_IT = 0.25
"""The share of the claims below a name that must have spoken of it before for it to be their topic."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Telling:
    """A claim with what it stood under, who said it, and where it survives: each text with what that stands under."""

    text: str
    under: tuple[str, ...]
    by: tuple[str, ...]
    now: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Added:
    before: frozenset[str]
    """Words that stand before it in its clause."""
    names: frozenset[str]
    above: frozenset[str]
    """Names that stand above it."""


def proper(texts: Iterable[str]) -> frozenset[str]:
    """Return, in lower case, the words that have a capital behind others in a sentence and stand nowhere without.

    Those in a title, where all words have one, do not count; none does in a language that writes all nouns so.
    """
    said = [_PROSE.findall(sentence) for text in texts for sentence in _SENTENCE.split(plain(unstamped(text)))]
    within = [word for words in said for word in words[1:]]
    lower = {word for words in said for word in words if word[0].islower()}
    found = {word.casefold() for words in said for word in _behind_others(words)}
    capital = sum(word[0].isupper() for word in within)
    return frozenset() if capital > _NOUNS * len(within) else frozenset(found - lower)


def _behind_others(words: Sequence[str]) -> Iterator[str]:
    first = next((place for place, word in enumerate(words) if word[0].islower() and not stems(word) <= EMPTY), None)
    if first is not None:
        yield from (word for word in words[first + 1 :] if word[0].isupper())


def others(told: Sequence[Telling], *, proper: Collection[str]) -> frozenset[str]:
    """Return those claims that are said of others now, wherever they survive; `proper` are names, in lower case."""
    merged: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in told:
        for text, _ in each.now:
            merged[text].update(stems(each.text))
    added = {each.text: [_added(each, *now, merged[now[0]], proper) for now in each.now] for each in told}
    topics = _topics(told, proper)
    repeated = Counter(word for each in added.values() for word in frozenset[str]().union(*(a.before for a in each)))

    def gives(one: _Added) -> bool:
        return bool(one.names or one.above - topics or any(repeated[word] >= _SEVERAL for word in one.before))

    return frozenset(text for text, each in added.items() if all(map(gives, each)))


def _added(
    told: Telling, text: str, under: tuple[str, ...], merged: Mapping[str, int], proper: Collection[str]
) -> _Added:
    own = stems(told.text)
    others = {word for word, count in merged.items() if count > (word in own)}
    theirs = stems(" ".join([*told.under, *told.by, *map(key, (*told.by, *behind(told.text)))]))
    known = own | theirs | others | EMPTY | _OWNER
    before = frozenset(word for word in _before(own, told.text, text) if word not in known and not _DIGITS.match(word))
    return _Added(
        before=before,
        names=_new(_ahead(own, text), known, proper),
        above=_new(" ".join(under), known, proper),
    )


def _new(text: str, known: frozenset[str], proper: Collection[str]) -> frozenset[str]:
    words = (word.casefold().removesuffix("'s") for word in WORD.findall(plain(text)) if word[:1].isupper())
    return frozenset(word for word in words if word in proper and not stems(word) <= known)


def _before(own: frozenset[str], claim: str, text: str) -> Iterator[str]:
    """Yield the words before a claim in the clause in which its first word stands, if that is still there."""
    first = next(ordered(unstamped(claim)), "")
    clauses = [list(ordered(clause)) for clause in _APART.split(plain(unstamped(text)))]
    having = [clause for clause in clauses if first in clause]
    if having:
        clause = max(having, key=lambda each: len(own.intersection(each)))
        yield from clause[: clause.index(first)]


def _ahead(own: frozenset[str], text: str) -> str:
    """Return what stands in a text before the first word of a claim."""
    said = plain(unstamped(text))
    for word in WORD.finditer(said):
        if stems(word[0]) - EMPTY and stems(word[0]) <= own:
            return said[: word.start()]
    return ""


def _topics(told: Sequence[Telling], proper: Collection[str]) -> frozenset[str]:
    """Return the names under which claims stand a good part of which spoke of them before."""
    below, of_it = Counter[str](), Counter[str]()
    for each in told:
        names = {name for _, under in each.now for name in _new(" ".join(under), frozenset(), proper)}
        before = stems(" ".join([each.text, *each.under]))
        below.update(names)
        of_it.update(name for name in names if stems(name) <= before)
    return frozenset(name for name in below if of_it[name] >= _OF_IT * below[name])
