"""The words that only some facts have, and which texts have one of them: also inflected, in a compound or in marks."""

import html
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator

import regex

from memory.rank import UNSPACED

_HANGUL = r"\p{Hangul}"
_PIECE = regex.compile(
    rf"[{UNSPACED}]+|{_HANGUL}+|\p{{Regional_Indicator}}{{2}}|\p{{Extended_Pictographic}}"
    rf"|[[\p{{L}}\p{{N}}\p{{M}}]--[{UNSPACED}{_HANGUL}]]+",
    regex.V1,
)
_UNSPACED = regex.compile(rf"[{UNSPACED}]+", regex.V1)
_IS_HANGUL = regex.compile(rf"{_HANGUL}+")
_ACCENT = regex.compile(r"(?<=\p{Latin}\p{M}*)\p{M}")
_HIDDEN = regex.compile(r"[\p{Cf}\ufe0e\ufe0f\p{Emoji_Modifier}]")
_MARKS = regex.compile(r"[*`~]+|</?[A-Za-z][^<>\n]{0,200}>")
_JOINT = regex.compile(r"(?<=[\p{L}\p{N}])[-_\u2010\u2011.'\u2019](?=[\p{L}\p{N}])")
_HUMP = regex.compile(r"(?<=[\p{Ll}\p{N}])(?=\p{Lu})")

_TELLING = 3  # letters; shorter words are mostly grammar
_BEGINNING = 4
_ENDING = 3
_COMPOUND = 5


class OwnWords:
    """The words of some facts that no fact that stays has; `grammar` are words that tell nothing."""

    def __init__(self, said: Iterable[str], *, staying: Iterable[str], grammar: Iterable[str]) -> None:
        self._staying = frozenset(_all_words(staying))
        words = frozenset(_all_words(said)) - self._staying - frozenset(grammar)
        self._own = frozenset(word for word in words if _tells(word))
        self._long = tuple(word for word in self._own if len(word) >= _COMPOUND)
        self._alike: defaultdict[str, list[str]] = defaultdict(list)
        for word in self._own:
            self._alike[word[:2]].append(word)
        self._known: dict[str, bool] = {}

    def in_text(self, text: str) -> bool:
        """Return whether a text has one of the words, or one that is made of it."""
        return any(map(self._is_own, _all_words([text])))

    def _is_own(self, word: str) -> bool:
        if word not in self._known:
            self._known[word] = word in self._own or (
                word not in self._staying
                and (
                    any(_inflected(word, own) for own in self._alike.get(word[:2], ()))
                    or any(own in word for own in self._long)
                )
            )
        return self._known[word]


def _all_words(texts: Iterable[str]) -> Iterator[str]:
    return (word for text in texts for form in _forms(text) for word in _words(form))


def _forms(text: str) -> Iterator[str]:
    """Yield a text as it stands, without marks inside words, and with the parts of compounds apart and joined."""
    plain = _MARKS.sub("", html.unescape(text))
    yield from dict.fromkeys((text, plain, _HUMP.sub(" ", plain), _JOINT.sub("", plain)))


def _words(text: str) -> Iterator[str]:
    plain = _HIDDEN.sub("", unicodedata.normalize("NFKD", text).casefold())
    for piece in _PIECE.findall(unicodedata.normalize("NFKC", _ACCENT.sub("", plain))):
        if _UNSPACED.fullmatch(piece) and len(piece) > 1:
            yield from (piece[place : place + 2] for place in range(len(piece) - 1))
        else:
            yield piece


def _tells(word: str) -> bool:
    return len(word) >= _TELLING or not word.isascii() or any(sign.isdigit() for sign in word)


def _inflected(one: str, other: str) -> bool:
    """Return whether two words have a beginning in common, and differ by no more than their endings."""
    short, long = sorted((one, other), key=len)
    if _IS_HANGUL.fullmatch(short):
        return len(short) > 1 and short[:2] == long[:2]
    if any(sign.isdigit() for sign in short):
        return False
    same = next((place for place, sign in enumerate(short) if sign != long[place]), len(short))
    if same >= _BEGINNING:
        return len(long) - same <= _ENDING
    return same == len(short) == _TELLING and len(long) - same <= _ENDING - 1
