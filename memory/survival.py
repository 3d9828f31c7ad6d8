"""Which claims of a memory a rewrite has left out.

A claim survives in one that says the same, or in those that hold most of its words, rare ones counting more, if

- together they hold all its numbers: a number that is nowhere with its words is a loss, though another one stands there
  (dates and times may be written in another way, `in 3 days` may become a date);
- one of them denies nothing that it said plainly, or still denies what it denied, and has the same names in it: none
  instead of another one, nor two the other way round.

A name is a word that the memory never writes without a capital: that of a person, in German any noun, or what begins a
sentence and stands nowhere else. Nothing cleverer is tried, as what is taken for left out is only counted.

One that stood there all along says something of its own: it stands for another one only if it holds nearly all of it.
A fact that a newer one contradicts counts as left out like any other when it goes; the bound leaves room for that.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import regex

from memory import numerals
from memory.names import plain, unstamped
from memory.wording import EMPTY, Holders, Shares, stems

_REPEATED = 0.8
"""The share of a claim's words that another one must hold that stood beside it before."""
_DENIED = 0.25
"""The share of a claim's words under a denial from which on it is denied itself."""
_DIGITS = regex.compile(r"\p{N}+\Z")
_UNIT = r"(?:days?|weeks?|months?|years?|hours?|minutes?|tage?n?|wochen?|monate?n?|jahre?n?|stunden?|minuten?)"
_RELATIVE = regex.compile(
    rf"(?i)\b(?:today|tonight|tomorrow|yesterday|now|currently|recently|soon|heute|morgen|gestern|\d+\s+{_UNIT}|ago"
    r"|(?:this|next|last|coming|nächste[nrsm]?|letzte[nrsm]?)\s+\p{L}+"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?)\b"
)
_PROSE = regex.compile(r"(?<!\p{L})\p{L}\p{M}*(?:\p{Ll}\p{M}*)+")
_CLAUSE = regex.compile(r"[,;.!?。、，；()（）—–]|\b(?:and|but|und|aber|et|mais|y|pero)\b", regex.IGNORECASE)
_DENIAL = (
    r"\b(?:not(?!\s+only)|no(?!\.?\s*\d)|never|none|nobody|nothing|neither|nor|cannot|without|\p{L}+n['’]t|kein\p{L}*|nie"
    r"|niemals|ohne|jamais|sans|nunca)\b"
)
_ONWARD = regex.compile(_DENIAL, regex.IGNORECASE)
_WHOLE = regex.compile(r"\b(?:nicht|pas)\b|[不没沒無]|ない|ません", regex.IGNORECASE)
"""Denials that stand behind what they deny as well."""
_LOOSE = regex.compile(
    rf"{_DENIAL}|{_WHOLE.pattern}|\b(?:avoid|dislik|hat(?:e|ing)|refus|lack|free|except|stop|quit|allerg|only)\p{{L}}*",
    regex.IGNORECASE,
)
"""Words by which what was denied may still be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Claim:
    text: str
    words: frozenset[str]
    lasting: frozenset[str]
    """The words without those that count from the day on which it was said."""
    numbers: frozenset[str]
    lasting_numbers: frozenset[str]
    held: frozenset[str]
    days: frozenset[str]
    denies: bool
    denied: frozenset[str]
    """The words that stand under a denial and nowhere else."""
    denying: frozenset[str]
    """The words of the clauses that deny something, in whatever words."""
    names: tuple[str, ...]
    """In their order."""


def left_out(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the claims of `before` that have not survived in `after`."""
    exact = {claim.casefold() for claim in after}
    stood = {claim.casefold() for claim in before}
    if stood <= exact:
        return []
    names = _names([*before, *after])
    known, there = ([_read(text, names) for text in texts] for texts in (before, after))
    survivors = _Survivors(there, Shares(each.words for each in known), stood)
    return [claim.text for claim in known if claim.text.casefold() not in exact and not survivors.has(claim)]


class _Survivors:
    def __init__(self, there: Sequence[_Claim], shares: Shares, stood: set[str]) -> None:
        self._there = there
        self._shares = shares
        self._holders = Holders(shares, [each.words for each in there])
        self._stood = [each.text.casefold() in stood for each in there]

    def has(self, claim: _Claim) -> bool:
        holding = list(self._holding(claim))
        numbers = frozenset[str]().union(*(each.held for each in holding))
        dated = any(each.days - claim.days for each in holding)
        missing = (claim.lasting_numbers if dated else claim.numbers) - numbers
        return not missing and any(self._agrees(claim, each) for each in holding)

    def _holding(self, claim: _Claim) -> Iterator[_Claim]:
        """Yield those that hold most of its words; what counted from a day may have become a date."""
        found = self._holders.holding(claim.words)
        dated = self._holders.holding(claim.lasting)
        dated = {place: share for place, share in dated.items() if self._there[place].days - claim.days}
        for place in sorted({**found, **dated}):
            share = max(found.get(place, 0.0), dated.get(place, 0.0))
            if share >= _REPEATED or not self._stood[place]:
                yield self._there[place]

    def _agrees(self, claim: _Claim, other: _Claim) -> bool:
        if _renamed(claim, other):
            return False
        if claim.denies:
            return bool((claim.denied or claim.words) & other.denying)
        return self._shares.of(claim.words, other.denied) < _DENIED


def _names(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that stand with a capital, and never without."""
    words = {word for text in texts for word in _PROSE.findall(plain(unstamped(text)))}
    return frozenset(word for word in words if word[0].isupper() and word.casefold() not in words | EMPTY)


def _renamed(claim: _Claim, other: _Claim) -> bool:
    was, now = set(claim.names), set(other.names)
    if was - now and now - was:
        return True
    turned = [name for name in other.names if name in was] != [name for name in claim.names if name in now]
    return turned and claim.words == other.words


def _read(text: str, names: Collection[str]) -> _Claim:
    said = numerals.in_figures(plain(unstamped(text)))
    lasting = _RELATIVE.sub(" ", said)
    clauses = [(_undenied(clause), clause) for clause in _CLAUSE.split(said)]
    plainly = _words(" ".join(part for part, _ in clauses))
    denied = _words(" ".join(clause[len(part) :] for part, clause in clauses))
    return _Claim(
        text=text,
        words=_words(said),
        lasting=_words(lasting),
        numbers=numerals.numbers(said),
        lasting_numbers=numerals.numbers(lasting),
        held=numerals.held(said),
        days=numerals.days(text),
        denies=any(part != clause for part, clause in clauses),
        denied=denied - plainly,
        denying=_words(" ".join(clause for _, clause in clauses if _LOOSE.search(clause))),
        names=tuple(dict.fromkeys(name for name in _PROSE.findall(said) if name in names)),
    )


def _words(text: str) -> frozenset[str]:
    """Return the words that say something, or all of them if none does; numbers are compared by themselves."""
    found = stems(text)
    return frozenset(word for word in found if word not in EMPTY and not _DIGITS.match(word)) or found


def _undenied(clause: str) -> str:
    """Return what stands in a clause before it denies something; nothing if the denial may be of all of it."""
    return "" if _WHOLE.search(clause) else _ONWARD.split(clause, maxsplit=1)[0]
