"""The people of a shared chat: who is known by which name, and whom a text of its memory names."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import regex

from memory import fact_stamp, names
from memory.facts import facts
from memory.provenance import fact_hash
from memory.rank import FUNCTION_WORDS
from memory.scan import LOGS
from memory.wording import EMPTY, stems

_NUMBERED = regex.compile(r"[\p{L}\p{M}]+ \d{1,9}")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|\p{Hangul}{2}")
_ORDINARY = frozenset(
    f"{FUNCTION_WORDS} amber angel art bill chance chase chip dawn dean don drew earl faith frank gene grace grant guy "
    "hope hunter iris ivy jack jasmine joy june lily mark mason max may miles olive pat penny ray rich rob robin rose "
    "ruby sandy sky stew sue summer victor violet wade".split()
)
"""Names that are words as well: in lower case they are taken for those."""
_CLAUSE = regex.compile(r"[,;.!?。、，；]|\b(?:and|but|und|aber|et|mais|y|pero)\b", regex.IGNORECASE)
_LONGEST = 400  # characters of names alone that belong to what follows them
_SHORTEST = 3  # letters of a name that is known in lower case: `al` and `ed` stand for much else


class People:
    """Knows the people of a shared chat by name, and whose each fact is.

    `said_by` holds the names of those who said a fact, by its hash, as far as the host has a record of it. A person is
    known by the first word of their name; where several begin with the same one, by all of it, and what names only the
    first word may be of any of them.
    """

    def __init__(self, before: Mapping[str, str], said_by: Mapping[str, Collection[str]]) -> None:
        self._said_by = said_by
        # A fact that is cut into parts is asked for with each, and a heading with all that stands under it.
        self._recorded: dict[str, frozenset[str]] = {}
        self._named: dict[str, frozenset[str]] = {}
        by_note = {note: list(map(names.plain, facts(text))) for note, text in before.items()}
        speakers = [names.plain(name) for each in said_by.values() for name in each]
        written = [name for each in by_note.values() for fact in each for name in fact_stamp.behind(fact)]
        logs = (each for note, each in by_note.items() if note.startswith(f"{LOGS}/"))
        logged = [name for each in logs for fact in each for name in fact_stamp.spoke(fact)]
        alike = _alike([*speakers, *written, *logged])
        self._whole = _one_word([*alike, *filter(_NUMBERED.fullmatch, speakers)])
        self._speakers = frozenset(map(self._key, speakers))
        self._known = self._speakers.union(filter(names.may_name, map(self._key, written)), map(self._key, logged))
        self._kin: defaultdict[str, set[str]] = defaultdict(set)
        for name in alike:
            self._kin[names.key(name)].add(self._key(name))
            self._kin[self._key(name)].add(names.key(name))
        self._known = self._known.union(self._kin)
        self._unspaced = _by_length(filter(_UNSPACED.search, self._known))
        titled = set(map(self._key, (*speakers, *logged, *(name for name in written if not name[:1].islower()))))
        self._in_lower_case = frozenset(key for key in titled if len(key) >= _SHORTEST) - _ORDINARY
        self._titled = frozenset(titled)
        self._name_stems = frozenset[str]().union(*map(stems, (*speakers, *written, *logged)))

    def of(self, text: str, *, context: str = "") -> frozenset[str]:
        """Return whose a fact is; by `context` if it names nobody itself."""
        text = names.plain(text)
        named = self._mentioned(text)
        behind = {
            key
            for name in fact_stamp.behind(text)
            if (key := self._key(name)) in self._speakers
            or (names.may_name(key) and not (named and name[:1].islower()))
        }
        return named | behind or self._mentioned(names.plain(context))

    def named(self, text: str) -> frozenset[str]:
        """Return whom a text names, wherever in it."""
        if text not in self._named:
            self._named[text] = self._mentioned(names.plain(text))
        return self._named[text]

    def sure(self, people: frozenset[str]) -> frozenset[str]:
        """Return those of these who are people, and not words such as `by` that stand before a date in brackets."""
        return people & (self._titled | self._kin.keys())

    def speakers(self, text: str) -> frozenset[str]:
        """Return who said a fact, as far as that stands behind it in the exact form."""
        stamp = fact_stamp.stamped(names.plain(text))
        return self.sure(frozenset(map(self._key, fact_stamp.several(stamp.name)))) if stamp else frozenset()

    def spoken_of(self, texts: Iterable[str]) -> frozenset[str]:
        """Return whom some texts name otherwise than as those who said it."""
        named = (self._mentioned(fact_stamp.unstamped(names.plain(text))) for text in texts)
        return self.sure(frozenset[str]().union(*named))

    def labelled(self, text: str) -> frozenset[str]:
        """Return what stands where a speaker does: of a fact that is nobody's it is taken for one."""
        return frozenset(map(self._key, fact_stamp.before(names.plain(text))))

    def recorded(self, text: str) -> frozenset[str]:
        """Return who said a fact, by the host's record."""
        if text not in self._recorded:
            said_by = self._said_by.get(fact_hash(text), ())
            self._recorded[text] = frozenset(map(self._key, map(names.plain, said_by)))
        return self._recorded[text]

    def possibly(self, people: frozenset[str]) -> frozenset[str]:
        """Return all whom these may be: with a whole name the first word that others have too, and the reverse."""
        return people.union(*(self._kin[person] for person in people if person in self._kin))

    def words(self, text: str) -> frozenset[str]:
        """Return what a fact says, without names: its own words as they are compared."""
        text = names.plain(text)
        # A label that mentions somebody is part of a sentence.
        labels = (label for label in fact_stamp.before(text) if not self._mentioned(label))
        found = stems(fact_stamp.unstamped(text)) - self._name_stems - stems(" ".join(labels))
        return found - EMPTY or found

    def clauses(self, text: str) -> list[tuple[frozenset[str], frozenset[str]]]:
        """Return whom each clause of a fact names, with its words; names alone belong to the clause that follows."""
        found: list[tuple[frozenset[str], frozenset[str]]] = []
        waiting = ""
        for clause in _CLAUSE.split(fact_stamp.unstamped(names.plain(text))):
            waiting += f" {clause}"
            if len(waiting) > _LONGEST or self.words(waiting) - self._name_stems:
                found.append((self._mentioned(waiting), self.words(waiting)))
                waiting = ""
        return found

    def _mentioned(self, text: str) -> frozenset[str]:
        whole = self._joined(text)
        words = {
            name
            for word in names.WORD.findall(whole)
            for name in (word.casefold(), word.casefold().removesuffix("'s"), word.casefold().strip("_"))
            if not word.lstrip("_")[:1].islower() or names.MADE_UP.search(word) or name in self._in_lower_case
        }
        return self._known.intersection(words) | self._within(whole.casefold())

    def _within(self, text: str) -> frozenset[str]:
        """Return those known who stand anywhere in a text, as their script has no blanks."""
        return frozenset(
            part
            for length, keys in self._unspaced.items()
            for start in range(len(text) - length + 1)
            if (part := text[start : start + length]) in keys
        )

    def _key(self, name: str) -> str:
        return names.key(self._joined(name))

    def _joined(self, text: str) -> str:
        """Return a plain text in which names that are not to be shortened, such as `Guest 1`, are one word."""
        return self._whole.sub(lambda found: regex.sub(r"\W", "_", found[0]), text) if self._whole else text


def _alike(known: Iterable[str]) -> list[str]:
    """Return those names of several words whose first word other such names have too."""
    by_first: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for name in known:
        if regex.search(r"\w\W+\w", name):
            by_first[names.key(name)].setdefault(name.casefold(), name)
    return [name for each in by_first.values() if len(each) > 1 for name in each.values()]


def _one_word(whole: Iterable[str]) -> regex.Pattern[str] | None:
    parts = sorted({regex.escape(name) for name in whole}, key=lambda part: (-len(part), part))
    return regex.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)", regex.IGNORECASE) if parts else None


def _by_length(keys: Iterable[str]) -> Mapping[int, frozenset[str]]:
    found: defaultdict[int, set[str]] = defaultdict(set)
    for key in keys:
        found[len(key)].add(key)
    return {length: frozenset(each) for length, each in found.items()}
