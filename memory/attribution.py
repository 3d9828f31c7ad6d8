"""Whose each fact is, before and after a rewrite: in a shared chat no fact may end up with another person.

A fact belongs to whoever said it (behind it in brackets, before it with a colon, or in the host's record) and to those
it names; where it names nobody, to those that the heading above it or its note is named after. Only names of people
who have spoken are known as such, and whatever stands where a speaker does. Names are left out when wordings are
compared, so that giving a fact another name, or other words as well, hides nothing.
"""

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import regex

from memory.facts import facts
from memory.metadata import parse
from memory.provenance import Moved, fact_hash
from memory.scan import LOGS
from memory.wording import CARRIED, stems

_HEADING = regex.compile(r"^\s{0,3}#{1,6}\s+(.*)$", regex.MULTILINE)
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
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}_]+(?:['\-\u200c\u200d][\p{L}\p{N}\p{M}_]+)*")
_ALIKE = str.maketrans("’‘‐‑", "''--")
_NUMBERED = regex.compile(r"[\p{L}\p{M}]+ \d{1,9}")
_LETTER = regex.compile(r"\p{L}")
_MADE_UP = regex.compile(r"[\p{N}_]")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|\p{Hangul}{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fact:
    note: str
    text: str
    people: frozenset[str]
    words: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """What a rewrite did to people's facts: `moved` stand with somebody else now, `lost` only with other people."""

    moved: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class People:
    """Knows the people of a shared chat by name, and whose each fact is.

    `said_by` holds the names of those who said a fact, by its hash, as far as the host has a record of it.
    """

    def __init__(self, before: Mapping[str, str], said_by: Mapping[str, Collection[str]]) -> None:
        self._said_by = said_by
        speakers = [name for names in said_by.values() for name in names]
        written = [name for text in before.values() for fact in facts(text) for name in _behind(fact)]
        logged = [
            name
            for note, text in before.items()
            if note.startswith(f"{LOGS}/")
            for fact in facts(text)
            for name in _spoke(fact)
        ]
        numbered = {regex.escape(plain) for plain in map(_plain, speakers) if _NUMBERED.fullmatch(plain)}
        self._numbered = regex.compile(rf"(?<!\w)(?:{'|'.join(sorted(numbered))})(?!\w)") if numbered else None
        self._speakers = frozenset(map(self._key, speakers))
        self._known = self._speakers.union(filter(_may_name, map(self._key, written)), map(self._key, logged))
        self._name_stems = frozenset[str]().union(*map(stems, (*speakers, *written, *logged)))

    def of(self, text: str, *, context: str = "") -> frozenset[str]:
        """Return whose a fact is; by `context` if it names nobody itself."""
        named = self._mentioned(text)
        behind = {
            key
            for name in _behind(text)
            if (key := self._key(name)) in self._speakers or (_may_name(key) and not (named and name[:1].islower()))
        }
        return named | behind or self._mentioned(context)

    def recorded(self, text: str) -> frozenset[str]:
        """Return who said a fact, by the host's record."""
        return frozenset(map(self._key, self._said_by.get(fact_hash(text), ())))

    def read(self, notes: Mapping[str, str], *, recorded: bool) -> list[_Fact]:
        """Return all facts of some notes; with `recorded` they are their speakers' as well."""
        return [
            _Fact(
                note=note,
                text=fact,
                people=self._whose(fact, context, self.recorded(fact) if recorded else frozenset()),
                words=self.words(fact),
            )
            for note, text in notes.items()
            for context, fact in _in_context(note, text)
        ]

    def _whose(self, text: str, context: str, recorded: frozenset[str]) -> frozenset[str]:
        """Return whose a fact is; of one that is nobody's what stands where a speaker does is taken for one."""
        return self.of(text, context=context) | recorded or frozenset(map(self._key, _before(text)))

    def words(self, text: str) -> frozenset[str]:
        """Return what a fact says, without names: its own words as they are compared."""
        return stems(_unstamped(text)) - self._name_stems - stems(" ".join(_before(text)))

    def _mentioned(self, text: str) -> frozenset[str]:
        whole = self._joined(text)
        words = {word.casefold() for word in _WORD.findall(whole) if not word[:1].islower() or _MADE_UP.search(word)}
        spoken = words | {word.removesuffix("'s") for word in words}
        whole = whole.casefold()
        return frozenset(key for key in self._known if (key in whole if _UNSPACED.search(key) else key in spoken))

    def _key(self, name: str) -> str:
        return _key(self._joined(name))

    def _joined(self, text: str) -> str:
        """Return a text in which a speaker's name such as `Guest 1` is one word: nobody shortens it."""
        plain = _plain(text)
        return self._numbered.sub(lambda found: found[0].replace(" ", "_"), plain) if self._numbered else plain


def compared(
    before: Mapping[str, str], after: Mapping[str, str], said_by: Mapping[str, Collection[str]]
) -> Attribution:
    """Compare two states of a memory, each note's text by its name; indexes are to be left out.

    A fact is taken for another person's if somebody it is ascribed to had nothing like it, while others had; or if it
    is gone, and all that is like it belongs to others, and some of that is new.
    """
    people = People(before, said_by)
    old, new = people.read(before, recorded=True), people.read(after, recorded=False)
    there = {(fact.note, fact.text, fact.people) for fact in people.read(before, recorded=False)}
    fresh = [fact for fact in new if (fact.note, fact.text, fact.people) not in there]
    gone = _gone(old, new)
    shares = _Shares([*old, *new])
    theirs = {(fact.text, person) for fact in old for person in fact.people}
    doubtful = [fact for fact in fresh if any((fact.text, person) not in theirs for person in fact.people)]
    given = [fact for fact in doubtful if _is_anothers(fact, shares, old)]
    moved: list[str] = []
    lost: list[str] = []
    for fact in gone:
        like = shares.holding(fact, new)
        if not fact.people or not like or any(not each.people or each.people & fact.people for each in like):
            continue
        (moved if any(each in fresh for each in like) else lost).append(fact.text)
        given = [each for each in given if each not in like]  # the same fact, as it reads now
    moved += [fact.text for fact in given]
    return Attribution(moved=tuple(dict.fromkeys(moved)), lost=tuple(dict.fromkeys(lost)))


def kept_apart(moves: Sequence[Moved], said_by: Mapping[str, Collection[str]]) -> list[Moved]:
    """Return those moves that give no fact which names its speaker the source of somebody else."""
    people = People({}, said_by)

    def fits(move: Moved) -> bool:
        was, now = people.recorded(move.old.fact), people.of(move.new.fact)
        return not was or not now or bool(was & now)

    return [move for move in moves if fits(move)]


def _gone(old: Sequence[_Fact], new: Sequence[_Fact]) -> list[_Fact]:
    """Return the facts that do not stand anywhere in their own words as the same people's; logs never go."""
    whose: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for fact in new:
        whose[fact.text].append(fact.people)
    notes = (fact for fact in old if not fact.note.startswith(f"{LOGS}/"))
    return [fact for fact in notes if not any(not now or now & fact.people for now in whose[fact.text])]


def _is_anothers(fact: _Fact, shares: "_Shares", old: Sequence[_Fact]) -> bool:
    found = [(shares.of(fact.words, each.words), each) for each in shares.near(fact, old)]
    for person in fact.people:
        own = max((share for share, each in found if person in each.people), default=0.0)
        others = max((share for share, each in found if each.people and person not in each.people), default=0.0)
        carried = any(
            person in each.people and shares.of(each.words, fact.words) >= CARRIED for _, each in found if each.words
        )
        if others >= CARRIED and own < others and not carried:
            return True
    return False


class _Shares:
    """How much of one fact's words stands in another; a word counts the more, the fewer facts have it."""

    def __init__(self, known: Sequence[_Fact]) -> None:
        having = Counter(word for fact in known for word in fact.words)
        self._weights = {word: math.log(1 + (len(known) + 1) / count) for word, count in having.items()}
        self._places: dict[int, defaultdict[str, list[_Fact]]] = {}

    def of(self, words: frozenset[str], within: frozenset[str]) -> float:
        total = sum(map(self._weights.__getitem__, words))
        return sum(map(self._weights.__getitem__, words & within)) / total if total else 0.0

    def near(self, fact: _Fact, among: Sequence[_Fact]) -> list[_Fact]:
        """Return those that share a word with a fact."""
        places = self._places.get(id(among))
        if places is None:
            places = self._places[id(among)] = defaultdict(list)
            for each in among:
                for word in each.words:
                    places[word].append(each)
        return list(dict.fromkeys(each for word in sorted(fact.words) for each in places.get(word, ())))

    def holding(self, fact: _Fact, among: Sequence[_Fact]) -> list[_Fact]:
        """Return those that hold most of a fact."""
        return [each for each in self.near(fact, among) if self.of(fact.words, each.words) >= CARRIED]


def _in_context(note: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield each fact with what it stands under: the nearest heading that names something, else the note's names."""
    metadata, body = parse(text)
    stem = PurePosixPath(note).stem.replace("-", " ").replace("_", " ").title()  # names of files have no capitals
    title = f"{stem} {metadata.get('name') or ''}"
    starts = [(match.start(), match[1]) for match in _HEADING.finditer(body)]
    edges = [(0, ""), *starts]
    for (start, heading), (end, _) in zip(edges, [*edges[1:], (len(body), "")], strict=True):
        for fact in facts(body[start:end]):
            yield f"{heading} {title}", fact


def _behind(fact: str) -> list[str]:
    tail = fact[-_TAIL:]
    found = _BEHIND.search(tail)
    if found and (names := _names([found[1]])):
        return names
    unpaired = _UNPAIRED.match(tail)
    return _names([unpaired[2]]) if unpaired else []


def _unstamped(fact: str) -> str:
    tail = fact[-_TAIL:]
    paired, unpaired = _STAMP.search(tail), _UNPAIRED.match(tail)
    stamps = [paired[0]] if paired else []
    stamps += [unpaired[1]] if unpaired else []
    return fact[: len(fact) - max(map(len, stamps), default=0)]


def _before(fact: str) -> list[str]:
    found = _BEFORE.match(fact)
    return [name for name in _names([found[1]]) if _may_name(_key(name))] if found else []


def _spoke(fact: str) -> list[str]:
    """Return who a day log's line says has spoken: there that is a name, whatever it looks like."""
    found = _SPOKE.match(fact)
    return _names([found[1]]) if found else _before(fact)


def _names(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for part in _AND.split(text) if (name := part.strip())]


def _key(name: str) -> str:
    """Return what a person is known by: the first word of the name, as people shorten it, or all if it has no word."""
    plain = _plain(name)
    word = _WORD.search(plain)
    return (word[0] if word else plain).casefold()


def _may_name(key: str) -> bool:
    """Return whether it may be a name though nobody of that name is on record: a number, say of a room, is none."""
    return _LETTER.search(key) is not None or not _MADE_UP.search(key)


def _plain(text: str) -> str:
    """Return a text in which signs that look alike, and letters with marks, are written in one way."""
    return unicodedata.normalize("NFC", text).translate(_ALIKE)
