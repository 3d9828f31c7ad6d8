"""Names in a memory: where they stand with a fact, what a person is known by, and a text without either."""

import unicodedata
from collections.abc import Iterable

import regex

_INSIDE = r"(?:[^()（）]|[(（][^()（）]*[)）])"  # of a bracket: names may hold brackets themselves, as `Ann (work)`
_DATE = r"\d{4}-\d{2}-\d{2}"
_CLOSED = r"[^()（）]*[)）][.。]?\s*\Z"
_APART = r"(?:\s*[,;，、；]\s*|\s+)"
_BEHIND = regex.compile(rf"[(（]((?:(?!{_DATE}){_INSIDE}){{1,160}}?){_APART}{_DATE}{_CLOSED}")
_UNPAIRED = regex.compile(
    rf"\A.*(\s[(（]((?:(?!{_DATE}).){{1,160}}?){_APART}{_DATE}{_CLOSED})", regex.DOTALL
)  # as `Ann :)`
_STAMP = regex.compile(rf"\s*[(（]{_INSIDE}*{_DATE}{_CLOSED}")
_TAIL = 400
"""Characters at a fact's end where a stamp stands, at most."""
_LABEL = r"[:：](?=\s|\p{Han}|\p{Hiragana}|\p{Katakana})"
_BEFORE = regex.compile(rf"\A(?:\d{{1,2}}:\d{{2}}\s{{1,8}})?((?:[^:：.!?()]|\([^()]*\)){{1,40}}){_LABEL}")
_SPOKE = regex.compile(rf"\A\d{{1,2}}:\d{{2}}\s{{1,8}}(.{{1,160}}?){_LABEL}")
_AND = regex.compile(r"\s*(?:,|;|&|/|\+|，|；|、|\band\b|\bund\b|\bet\b|\by\b)\s*")
WORD = regex.compile(r"[\p{L}\p{N}\p{M}_]+(?:['\-][\p{L}\p{N}\p{M}_]+)*")
_ALIKE = str.maketrans("’‘‐‑", "''--")
_LETTER = regex.compile(r"\p{L}")
MADE_UP = regex.compile(r"[\p{N}_]")
_UNSEEN = regex.compile(r"[\p{Cf}\u034f]+|(?<=\p{L})(?:[*`~]+|</?\p{L}[^<>\n]{0,40}>)(?=\p{L})")  # or markup in a word


def behind(fact: str) -> list[str]:
    """Return the names that stand in brackets behind a fact, before a date."""
    tail = fact[-_TAIL:]
    found = _BEHIND.search(tail)
    if found and (names := _names([found[1]])):
        return names
    unpaired = _UNPAIRED.match(tail)
    return _names([unpaired[2]]) if unpaired else []


def unstamped(fact: str) -> str:
    """Return a fact without the brackets behind it that hold a date."""
    tail = fact[-_TAIL:]
    paired, unpaired = _STAMP.search(tail), _UNPAIRED.match(tail)
    stamps = [paired[0]] if paired else []
    stamps += [unpaired[1]] if unpaired else []
    return fact[: len(fact) - max(map(len, stamps), default=0)]


def before(fact: str) -> list[str]:
    """Return the names that stand before a fact, with a colon."""
    found = _BEFORE.match(fact)
    return [name for name in _names([found[1]]) if may_name(key(name))] if found else []


def spoke(fact: str) -> list[str]:
    """Return who a day log's line says has spoken: there that is a name, whatever it looks like."""
    found = _SPOKE.match(fact)
    return _names([found[1]]) if found else before(fact)


def _names(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for part in _AND.split(text) if (name := part.strip())]


def key(name: str) -> str:
    """Return what a person is known by: the first word of the name, as people shorten it, or all if it has no word."""
    whole = plain(name)
    word = WORD.search(whole)
    return (word[0] if word else whole).casefold()


def may_name(known_by: str) -> bool:
    """Return whether this may be a name though nobody of that name is on record: a number, say of a room, is none."""
    return _LETTER.search(known_by) is not None or not MADE_UP.search(known_by)


def plain(text: str) -> str:
    """Return a text in which signs that look alike are written in one way, and those that nobody sees are left out."""
    return _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).translate(_ALIKE)
