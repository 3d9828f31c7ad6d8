"""What is to be forgotten, and which texts tell it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import regex

from memory.facts import facts, facts_of, is_index, plainly
from memory.metadata import parse
from memory.own_words import OwnWords
from memory.provenance import fact_hash, normal
from memory.rank import FUNCTION_WORDS
from memory.redaction import title_of
from memory.scan import LOGS
from memory.wording import Tellings, Wording, stems, unstamped

FOUND = 5
"""How many notes and facts a search names: what a person can look over before saying yes."""

_ENOUGH = 0.5  # the share of the words looked for that a fact must have, of those that any note has
_TELLING = 3  # letters; shorter words are mostly grammar
_EMPTY = (
    f"{FUNCTION_WORDS} after before being day days done down each fact facts got into may memory much must new note "
    "notes off old one only other over own said say says since still such two under until used user uses very way while"
)
_NOTHING = frozenset(_EMPTY.split())
_GRAMMAR = stems(_EMPTY)
"""Words that tell nothing, even where one fact alone has them."""
_HUMP = regex.compile(r"(?<=[\p{Ll}\p{N}])(?=\p{Lu})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """Something that can be forgotten: a whole note, or one fact wherever it stands if `hash` is given."""

    note: str
    """Relative to the memory directory; of a fact that stands in several, one of them."""
    hash: str = ""
    text: str = ""
    """The fact, or the note's first words: to be shown, never kept."""
    facts: tuple[str, ...] = ()
    """Of a whole note the hashes of the facts that it had when it was shown: no other one is forgotten."""


@dataclass(frozen=True, kw_only=True)
class Gone:
    """What is to be forgotten: the names of whole notes, and facts in their words."""

    notes: frozenset[str]
    texts: tuple[str, ...]
    corpus: tuple[str, ...]
    """All facts of the memory: what is said in many of them tells little of one."""
    staying: tuple[str, ...] | None = None
    """What the facts that stay say plainly, without quotes, code, indexes and day logs; if not given, all that do."""

    @cached_property
    def hashes(self) -> frozenset[str]:
        """The hashes of the facts."""
        return frozenset(map(fact_hash, self.texts))

    @cached_property
    def _tellings(self) -> Tellings:
        return Tellings(Wording(self.corpus), self.texts)

    @cached_property
    def _staying(self) -> frozenset[frozenset[str]]:
        stay = (fact for fact in self.corpus if not self.same(fact)) if self.staying is None else self.staying
        return frozenset(map(stems, stay))

    @cached_property
    def _said(self) -> frozenset[str]:
        """The words of the facts, those of which sentences are made left out."""
        return frozenset[str]().union(*(stems(unstamped(text)) for text in self.texts)) - _GRAMMAR

    @cached_property
    def _own_words(self) -> frozenset[str]:
        own = self._said.difference(*self._staying)
        return frozenset(stem for stem in own if len(stem) >= _TELLING or not stem.isascii())

    @cached_property
    def _whole_words(self) -> OwnWords:
        stay = (fact for fact in self.corpus if not self.same(fact)) if self.staying is None else self.staying
        return OwnWords(map(unstamped, self.texts), staying=stay, grammar=_NOTHING)

    def same(self, fact: str) -> bool:
        """Return whether this is one of the facts."""
        return fact_hash(fact) in self.hashes

    def tells(self, text: str) -> bool:
        """Return whether a text says one of the facts, be it in other words."""
        return self.same(text) or self._tellings.told_by(text)

    def betrays(self, text: str) -> bool:
        """Return whether a name, or what stands around facts, has a word of theirs alone or tells one.

        What it shares with them may as well be of a fact that stays, if that has all these words.
        """
        forms = dict.fromkeys((text, _HUMP.sub(" ", text)))
        return self._whole_words.in_text(text) or any(map(self._betrays, forms))

    def _betrays(self, text: str) -> bool:
        words = stems(text)
        if not self._own_words.isdisjoint(words):
            return True
        if not self.tells(text):
            return False
        shared = words & self._said
        return self._repeats(text) or not any(shared <= staying for staying in self._staying)

    def _repeats(self, text: str) -> bool:
        return any(normal(unstamped(fact)) in normal(text) for fact in self.texts)

    def told_in(self, text: str) -> bool:
        """Return whether a line of a text tells one of the facts."""
        return any(self.tells(line) for line in text.splitlines() if line.strip())

    def hinted_in(self, text: str) -> bool:
        """Return whether a line of a text betrays one of the facts."""
        return any(self.betrays(line) for line in text.splitlines() if line.strip())


def whole(note: str, text: str) -> Item:
    """Return a note as an item, as it stands now."""
    found = facts_of(text, note)
    return Item(note=note, text=next(iter(found), ""), facts=tuple(map(fact_hash, found)))


def find(files: Mapping[str, str], words: str) -> list[Item]:
    """Return what fits the words best, at most `FOUND`; a note of which all facts fit is named as a whole.

    The title of a note helps a fact that has one of the words itself. Where there is none, the whole note is named.
    """
    words = " ".join(word for word in words.split() if word.lower() not in _NOTHING) or words
    split = {note: facts_of(text, note) for note, text in files.items()}
    wording = Wording(fact for found in split.values() for fact in found)
    found = _fitting(files, split, lambda fact, note: _share(wording, words, fact, note))
    return found or _fitting(files, split, lambda _, note: wording.share(words, title_of(note)))


def _share(wording: Wording, words: str, fact: str, note: str) -> float:
    own = wording.share_of_known(words, fact)
    return wording.share_of_known(words, f"{fact} {title_of(note)}") if own else 0.0


def _fitting(
    files: Mapping[str, str], split: Mapping[str, Sequence[str]], share: Callable[[str, str], float]
) -> list[Item]:
    scored: dict[str, tuple[float, Item]] = {}
    for note, found in split.items():
        scores = [share(fact, note) for fact in found]
        if len(found) > 1 and min(scores) >= _ENOUGH and not note.startswith(f"{LOGS}/") and not is_index(note):
            scored.setdefault(note, (max(scores), whole(note, files[note])))
            continue
        for fact, score in zip(found, scores, strict=True):
            item = Item(note=note, hash=fact_hash(fact), text=fact)
            if score >= _ENOUGH:
                scored.setdefault(item.hash, (score, item))
    best = sorted(scored.values(), key=lambda pair: -pair[0])
    return [item for _, item in best[:FOUND]]


def gone(files: Mapping[str, str], items: Iterable[Item]) -> Gone:
    """Return what these items are in the present notes; what is not there any more is left out."""
    split = {note: facts_of(text, note) for note, text in files.items()}
    items = tuple(items)
    hashes = {item.hash for item in items if item.hash}.union(*(item.facts for item in items))
    named = {item.note for item in items if not item.hash and item.note in split and not is_index(item.note)}
    notes = frozenset(note for note in named if hashes.issuperset(map(fact_hash, split[note])))
    everything = tuple(fact for found in split.values() for fact in found)
    texts = [fact for fact in everything if fact_hash(fact) in hashes]
    notes_alone = (each for each in files if not each.startswith(f"{LOGS}/") and not is_index(each))
    spoken = (_plainly(files[note]) for note in notes_alone)
    stay = (plain for each in spoken for fact, plain in each.items() if plain and fact_hash(fact) not in hashes)
    return Gone(notes=notes, texts=tuple(dict.fromkeys(texts)), corpus=everything, staying=tuple(stay))


def _plainly(text: str) -> Mapping[str, str]:
    return plainly(text) if facts(text) else {about: about for about in facts_of(text)}


def mentioning(files: Mapping[str, str], what: Gone) -> list[str]:
    """Return the names of the notes that betray it by name or header and hold no fact that is it: they lose none."""
    notes = (note for note in files if not note.startswith(f"{LOGS}/") and not is_index(note))
    return [note for note in notes if _betrays_around(files[note], note, what)]


def _betrays_around(text: str, note: str, what: Gone) -> bool:
    own = facts_of(text, note)
    values = [value for value in parse(text)[0].values() if isinstance(value, str) and value not in own]
    return not any(map(what.same, own)) and any(map(what.betrays, [title_of(note), *values]))


def holding(files: Mapping[str, str], what: Gone) -> list[str]:
    """Return the names of the notes and indexes that will lose a fact; day logs are not named."""
    notes = (note for note in files if not note.startswith(f"{LOGS}/"))
    return [note for note in notes if note in what.notes or any(map(what.same, facts_of(files[note], note)))]
