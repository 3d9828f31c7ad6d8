"""Names in a memory: what a person is known by, what may be a name, and a text in one form to look for them in."""

import unicodedata

import regex

WORD = regex.compile(r"[\p{L}\p{N}\p{M}_]+(?:['\-][\p{L}\p{N}\p{M}_]+)*")
_ALIKE = str.maketrans("’‘‐‑", "''--")
_LETTER = regex.compile(r"\p{L}")
MADE_UP = regex.compile(r"[\p{N}_]")
_UNSEEN = regex.compile(r"[\p{Cf}\u034f]+|(?<=\p{L})(?:[*`~]+|</?\p{L}[^<>\n]{0,40}>)(?=\p{L})")  # or markup in a word


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
