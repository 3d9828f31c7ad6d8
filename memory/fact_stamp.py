"""Who said a fact and on which day, as it stands with it: in brackets behind it, or before it with a colon.

There are two notions of what stands behind. The exact one is the form that the prompt asks for, a name and a day or a
day alone, with brackets and commas of either width: by it is decided whose a fact is and when it was said. The lenient
one is any bracket with a date in it, as people and models write them: it says what is not part of the fact.
"""

from dataclasses import dataclass

import regex

from memory.names import key, may_name

_TAIL = 400
"""Characters at a fact's end where a stamp stands, at most."""
_DATE = r"\d{4}-\d{2}-\d{2}"
_OPEN = "[(（]"
_INSIDE = rf"(?:[^()（）]|{_OPEN}[^()（）]*[)）])"  # of a bracket: names may hold brackets themselves, as `Ann (work)`
_NAME = rf"((?:(?!{_DATE}){_INSIDE}){{1,160}}?)"
_UNPAIRED_NAME = rf"((?:(?!{_DATE}).){{1,160}}?)"  # as `Ann :)`
_COMMA = r"\s*[,;，；、]\s*"
_END = r"[)）][.。]?\s*\Z"

_BEGIN = rf"(?:(?<=\S)\s+{_OPEN}|(?<=\S)（|(?<=[^\p{{Latin}}\p{{N}}\s])\()\s*"  # of `f(x, 2031-05-02)` it is none
_EXACT = regex.compile(rf"({_BEGIN}(?:{_NAME}{_COMMA})?({_DATE})\s*{_END})")
_EXACT_UNPAIRED = regex.compile(rf".*({_BEGIN}{_UNPAIRED_NAME}{_COMMA}({_DATE})\s*{_END})", regex.DOTALL)

_APART = rf"(?:{_COMMA}|\s+)"
_CLOSED = rf"[^()（）]*{_END}"
_BEHIND = regex.compile(rf"{_OPEN}{_NAME}{_APART}{_DATE}{_CLOSED}")
_UNPAIRED = regex.compile(rf".*(\s{_OPEN}{_UNPAIRED_NAME}{_APART}{_DATE}{_CLOSED})", regex.DOTALL)
_ANY = regex.compile(rf"\s*{_OPEN}{_INSIDE}*{_DATE}{_CLOSED}")

_CLOCK = r"\d{1,2}:\d{2}\s{1,8}"
_TIMED = regex.compile(rf"\A{_CLOCK}")
_COLON = r"[:：](?=\s|\p{Han}|\p{Hiragana}|\p{Katakana})"
_BEFORE = regex.compile(rf"\A(?:{_CLOCK})?((?:[^:：.!?()]|\([^()]*\)){{1,40}}){_COLON}")
_LABEL = regex.compile(rf"\A({_CLOCK})?(.{{1,160}}?){_COLON}\s*")
_AND = regex.compile(r"\s*(?:,|;|&|/|\+|，|；|、|\band\b|\bund\b|\bet\b|\by\b)\s*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """A name ("" if there is none), a day in ISO form, and where in the fact the stamp begins."""

    name: str
    day: str
    start: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """What stands before a fact with a colon: a name where `timed` says so, as in a log; else it may be any words."""

    name: str
    timed: bool
    end: int
    """Where in the fact its own words begin."""


def stamped(fact: str) -> Stamp | None:
    """Return the stamp behind a fact; None if there is none."""
    tail = fact[-_TAIL:]
    found = _EXACT.search(tail) or _EXACT_UNPAIRED.match(tail)
    if found is None:
        return None
    return Stamp(name=(found[2] or "").strip(), day=found[3], start=len(fact) - len(found[1]))


def behind(fact: str) -> list[str]:
    """Return the names that stand in any bracket with a date behind a fact, before the date."""
    tail = fact[-_TAIL:]
    found = _BEHIND.search(tail)
    if found and (names := several(found[1])):
        return names
    unpaired = _UNPAIRED.match(tail)
    return several(unpaired[2]) if unpaired else []


def unstamped(fact: str) -> str:
    """Return a fact without the brackets behind it that hold a date."""
    tail = fact[-_TAIL:]
    paired, unpaired = _ANY.search(tail), _UNPAIRED.match(tail)
    stamps = [paired[0]] if paired else []
    stamps += [unpaired[1]] if unpaired else []
    return fact[: len(fact) - max(map(len, stamps), default=0)]


def bare(fact: str) -> str:
    """Return a fact without these brackets, and without a log's time before it: they are about it, not in it."""
    return unstamped(_TIMED.sub("", fact))


def labelled(fact: str) -> Label | None:
    """Return what stands before a fact with a colon; None if there is none."""
    found = _LABEL.match(fact)
    return None if found is None else Label(name=found[2], timed=found[1] is not None, end=found.end())


def before(fact: str) -> list[str]:
    """Return the names that stand before a fact, with a colon."""
    found = _BEFORE.match(fact)
    return [name for name in several(found[1]) if may_name(key(name))] if found else []


def spoke(fact: str) -> list[str]:
    """Return who a day log's line says has spoken: there that is a name, whatever it looks like."""
    label = labelled(fact)
    return several(label.name) if label is not None and label.timed else before(fact)


def several(name: str) -> list[str]:
    """Return each of the names that stand where one may stand, such as `Ann and Bob`."""
    return [each for part in _AND.split(name) if (each := part.strip())]
