"""Which claims of a memory a rewrite has left out.

A claim survives in one that says the same, or in those that hold most of its words near one another, rare ones counting
more, if

- together they hold all its numbers: a number that is nowhere with its words is a loss, though another one stands there
  (dates and times may be written in another way, `in 3 days` may become a date);
- one of them denies nothing that it said plainly, or still denies what it denied, and has the same names in it: none
  instead of another one, nor two the other way round;
- that one says it of nobody else (`memory.subjects`).

What a claim stands under counts as well, if that is told: words of a heading may have been its own, and what stands
under `No longer true` is denied.

A name is a word that the memory never writes without a capital: that of a person, in German any noun, or what begins a
sentence and stands nowhere else. Nothing cleverer is tried, as what is taken for left out is only counted.

One that stood there all along says something of its own: it stands for another one only if it holds nearly all of it.
A fact that a newer one contradicts counts as left out like any other when it goes; the bound leaves room for that.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import regex

from memory import numerals, relative_days, subjects
from memory.fact_stamp import unstamped
from memory.names import plain
from memory.subjects import Telling, proper
from memory.wording import CARRIED, EMPTY, Holders, Shares, ordered, stems

_REPEATED = 0.8
"""The share of a claim's words that another one must hold that stood beside it before."""
_DENIED = 0.25
"""The share of a claim's words under a denial from which on it is denied itself."""
_SPREAD = 2
"""Times its own length over which the words of a claim may be spread in a longer one."""
_BESIDE = 4
"""Words over which they may be spread besides."""
_OWN = 0.3
"""The share of a claim's words that another one must hold itself, the rest standing above it."""
_ABOVE = 12
"""Words that something above may have for them to count: a heading is short."""
_ROUNDING = 1e-9  # sums of the same weights in another order differ by less
_DIGITS = regex.compile(r"\p{N}+\Z")
_PROSE = regex.compile(r"(?<!\p{L})\p{L}\p{M}*(?:\p{Ll}\p{M}*)+")
_CLAUSE = regex.compile(r"[,;.!?。、，；()（）\[\]—–]|\s-\s|\b(?:and|but|und|aber|et|mais|y|pero)\b", regex.IGNORECASE)
_DENIAL = (
    r"\b(?:not(?!\s+only)|no(?!\.?\s*\d)|never|none|nobody|nothing|neither|nor|cannot|without|\p{L}+n['’]t|kein\p{L}*|nie"
    r"|niemals|ohne|jamais|sans|nunca)\b"
)
_ONWARD = regex.compile(_DENIAL, regex.IGNORECASE)
_FALSE = (
    r"wrong|false|untrue|incorrect|outdated|obsolete|retracted|disproved|falsch|unwahr|überholt|veraltet|widerrufen"
    r"|faux|fausse|périmée?|falsa|falso|obsoleto"
)
_WHOLE = regex.compile(rf"\b(?:nicht|pas|{_FALSE})\b|[不没沒無]|ない|ません", regex.IGNORECASE)
"""Denials that stand behind what they deny as well."""
_NAY = EMPTY | stems(
    f"{_FALSE.replace('|', ' ')} never none nothing no not nicht pas kein true truth right correct valid so case long "
    "longer anymore still ever hold wahr richtig mehr vrai vero verdad fact note statement information claim memory"
)
"""Words that say of something else whether it is so, and nothing besides."""
_LOOSE = regex.compile(
    rf"{_DENIAL}|{_WHOLE.pattern}|\b(?:avoid|dislik|hat(?:e|ing)|refus|lack|free|except|stop|quit|allerg|only)\p{{L}}*",
    regex.IGNORECASE,
)
"""Words by which what was denied may still be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Claim:
    text: str
    order: tuple[str, ...]
    """Its words in their order, as often as they stand there."""
    words: frozenset[str]
    lasting: frozenset[str]
    """The words without those that count from the day on which it was said."""
    numbers: frozenset[str]
    lasting_numbers: frozenset[str]
    held: frozenset[str]
    days: frozenset[str]
    denies: bool
    denies_twice: bool
    """Whether what it stands under or a sentence of it denies what it denies itself."""
    denied: frozenset[str]
    """The words that stand under a denial and nowhere else."""
    denying: frozenset[str]
    """The words of the clauses that deny something, in whatever words."""
    names: tuple[str, ...]
    """In their order."""
    in_lower_case: frozenset[str]
    """Those of the words that stand there without a capital."""
    above: frozenset[str]
    """The words of what it stands under."""
    under: tuple[str, ...]


Under = Mapping[str, Sequence[tuple[str, ...]]]
"""What each claim stands under, wherever it stands, by the claim in lower case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What is known of claims besides their words."""

    was: Under = field(default_factory=dict)
    now: Under = field(default_factory=dict)
    said_by: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names of those who are on record as having said a claim, by the claim in lower case."""
    sentences: Sequence[str] = ()
    """What else shows how names are written."""


def left_out(before: Sequence[str], after: Sequence[str], *, context: Context | None = None) -> list[str]:
    """Return the claims of `before` that have not survived in `after`."""
    context = context or Context()
    exact = {claim.casefold() for claim in after}
    stood = {claim.casefold() for claim in before}
    if stood <= exact and all(_stays(form, context) for form in stood):
        return []
    names = _names([*before, *after])
    known = [_read(text, names, (*chain(*context.was.get(text.casefold(), ())),)) for text in before]
    there = [_read(text, names, under) for text in after for under in context.now.get(text.casefold(), [()])]
    sure = proper((*before, *after, *context.sentences))
    survivors = _Survivors(known, there, stood, sure)
    kept: dict[str, Sequence[_Claim]] = {}
    for claim in known:
        form = claim.text.casefold()
        if form not in exact or not _stays(form, context):
            kept[claim.text] = survivors.of(claim)
    others = _others(known, kept, context, sure) if context.now else frozenset()
    return [claim.text for claim in known if claim.text in kept and (not kept[claim.text] or claim.text in others)]


def _stays(form: str, context: Context) -> bool:
    """Return whether a claim that stands there word for word does so where it stood."""
    was, now = context.was.get(form, [()]), context.now.get(form, [()])
    return any(under in was for under in now)


def _others(
    known: Sequence[_Claim], kept: Mapping[str, Sequence[_Claim]], context: Context, sure: Collection[str]
) -> frozenset[str]:
    """Return the claims that are said of somebody else now."""
    told = [
        Telling(
            text=claim.text,
            under=claim.under,
            by=tuple(context.said_by.get(claim.text.casefold(), ())),
            now=tuple((each.text, each.under) for each in kept[claim.text]),
        )
        for claim in known
        if kept.get(claim.text)
    ]
    return subjects.others(told, proper=sure)


class _Survivors:
    def __init__(
        self, known: Sequence[_Claim], there: Sequence[_Claim], stood: set[str], sure: Collection[str]
    ) -> None:
        self._there = there
        self._sure = sure
        self._shares = Shares(each.words for each in known)
        self._holders = Holders(self._shares, [each.words | each.above for each in there])
        self._stood = [each.text.casefold() in stood for each in there]

    def of(self, claim: _Claim) -> Sequence[_Claim]:
        """Return those in which a claim survives; none if it is left out."""
        holding = list(self._holding(claim))
        numbers = frozenset[str]().union(*(each.held for each in holding))
        dated = any(each.days - claim.days for each in holding)
        missing = (claim.lasting_numbers if dated else claim.numbers) - numbers
        return [] if missing else [each for each in holding if self._agrees(claim, each)]

    def _holding(self, claim: _Claim) -> Iterator[_Claim]:
        """Yield those that hold most of its words; what counted from a day may have become a date."""
        found = self._holders.holding(claim.words)
        dated = self._holders.holding(claim.lasting)
        dated = {place: share for place, share in dated.items() if self._there[place].days - claim.days}
        for place in sorted({**found, **dated}):
            share, other = max(found.get(place, 0.0), dated.get(place, 0.0)), self._there[place]
            needed = claim.lasting if place in dated else claim.words
            same = other.text.casefold() == claim.text.casefold()
            if same or ((share >= _REPEATED or not self._stood[place]) and self._is_near(needed, other)):
                yield other

    def _is_near(self, words: frozenset[str], other: _Claim) -> bool:
        """Return whether most of the words stand near one another, or right above those that do."""
        weights = {word: self._shares.weight(word) for word in words}
        total = sum(weights.values()) * (1 - _ROUNDING)
        above = sum(weight for word, weight in weights.items() if word in other.above)
        within = deque[tuple[int, str]]()
        times = Counter[str]()
        own = both = 0.0
        for place, word in ((place, word) for place, word in enumerate(other.order) if word in words):
            within.append((place, word))
            times[word] += 1
            if times[word] == 1:
                own, both = own + weights[word], both + weights[word] * (word not in other.above)
            while place - within[0][0] >= _SPREAD * len(words) + _BESIDE:
                _, past = within.popleft()
                times[past] -= 1
                if not times[past]:
                    own, both = own - weights[past], both - weights[past] * (past not in other.above)
            if own >= _OWN * total and above + both >= CARRIED * total:
                return True
        return False

    def _agrees(self, claim: _Claim, other: _Claim) -> bool:
        if _renamed(claim, other, self._sure) or claim.denies_twice != other.denies_twice:
            return False
        if claim.denies:
            return bool((claim.denied or claim.words) & other.denying)
        return self._shares.of(claim.words, other.denied) < _DENIED


def _renamed(claim: _Claim, other: _Claim, sure: Collection[str]) -> bool:
    """Return whether there are other names in it now, or the same in another order.

    What has a capital as it begins a sentence may be any word: it stands there still if its like is within one now.
    """
    was, now = set(claim.names), set(other.names)
    gone = {name for name in was - now if not stems(name) <= other.above}
    if now - was and any(name.casefold() in sure or not stems(name) <= other.in_lower_case for name in gone):
        return True
    turned = [name for name in other.names if name in was] != [name for name in claim.names if name in now]
    return turned and claim.words == other.words


def _names(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that stand with a capital, and never without."""
    words = {word for text in texts for word in _PROSE.findall(plain(unstamped(text)))}
    return frozenset(word for word in words if word[0].isupper() and word.casefold() not in words | EMPTY)


def _read(text: str, names: Collection[str], under: tuple[str, ...]) -> _Claim:
    said = numerals.in_figures(plain(unstamped(text)))
    lasting = relative_days.without(said)
    clauses = [(_undenied(clause), clause) for clause in _CLAUSE.split(said)]
    is_false = any(map(_is_verdict, (*under, *(clause for _, clause in clauses))))
    denying = sum(part != clause and not _is_verdict(clause) for part, clause in clauses)
    if is_false:
        clauses = [("", clause) for _, clause in clauses]
    plainly = _words(" ".join(part for part, _ in clauses))
    denied = _words(" ".join(clause[len(part) :] for part, clause in clauses))
    loose = [clause for part, clause in clauses if not part or _LOOSE.search(clause)]
    near = [level for level in under if len(stems(level)) <= _ABOVE]
    return _Claim(
        text=text,
        order=tuple(ordered(said)),
        words=_words(said),
        lasting=_words(lasting),
        numbers=numerals.numbers(said),
        lasting_numbers=numerals.numbers(lasting),
        held=numerals.held(" ".join([said, *near])),
        days=numerals.days(text),
        denies=any(part != clause for part, clause in clauses),
        denies_twice=is_false and denying > 0,
        denied=denied - plainly,
        denying=_words(" ".join(loose)),
        names=tuple(dict.fromkeys(name for name in _PROSE.findall(said) if name in names)),
        in_lower_case=stems(" ".join(word for word in _PROSE.findall(said) if word[0].islower())),
        above=stems(" ".join(near)) - EMPTY,
        under=under,
    )


def _is_verdict(text: str) -> bool:
    """Return whether a text says nothing but that something else is not so."""
    return stems(text) <= _NAY and _undenied(text) != text


def _words(text: str) -> frozenset[str]:
    """Return the words that say something, or all of them if none does; numbers are compared by themselves."""
    found = stems(text)
    return frozenset(word for word in found if word not in EMPTY and not _DIGITS.match(word)) or found


def _undenied(clause: str) -> str:
    """Return what stands in a clause before it denies something; nothing if the denial may be of all of it."""
    return "" if _WHOLE.search(clause) else _ONWARD.split(clause, maxsplit=1)[0]
