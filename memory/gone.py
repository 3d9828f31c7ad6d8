"""What is to be forgotten, and which texts tell it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import regex

from memory.blocks import without_telling
from memory.fact_stamp import bare
from memory.facts import above, facts, facts_of, forgettable, parted
from memory.index import is_index
from memory.metadata import parse
from memory.own_words import OwnWords
from memory.provenance import fact_hash, normal
from memory.rank import FUNCTION_WORDS
from memory.redaction import neutral, title_of
from memory.scan import LOGS
from memory.wording import Tellings, Wording, stems

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
    """What the facts that stay say plainly, without quotes, code, indexes and day logs; if not given, all that do.

    Of another person's fact it is all that it says, so that none of it betrays anything.
    """
    asides: tuple[tuple[str, ...], ...] = ()
    """The lines of the quotes, tables, code and the like of facts that stay, each as far as it tells nothing itself."""
    said: frozenset[str] = frozenset()
    """The hashes of descriptions that somebody is known to have said: they are facts, also where a note has others."""

    @cached_property
    def hashes(self) -> frozenset[str]:
        """The hashes of the facts."""
        return frozenset(map(fact_hash, self.texts))

    @cached_property
    def _tellings(self) -> Tellings:
        return Tellings(Wording(self.corpus), self.texts)

    @cached_property
    def _plain(self) -> tuple[str, ...]:
        if self.staying is not None:
            return self.staying
        return tuple(fact for fact in self.corpus if not self.same(fact))

    @cached_property
    def _plain_stems(self) -> frozenset[frozenset[str]]:
        return frozenset(map(stems, self._plain))

    @cached_property
    def _beside(self) -> tuple[str, ...]:
        """What is said beside the plain words of facts that stay, but for the lines that tell what is forgotten."""
        left = (without_telling(lines, self._tells_alone) for lines in self.asides)
        return tuple("\n".join(lines) for lines in left if lines)

    @cached_property
    def _staying(self) -> frozenset[frozenset[str]]:
        return self._plain_stems.union(map(stems, self._beside))

    @cached_property
    def _cores(self) -> tuple[frozenset[str], ...]:
        """Of each fact the words that no fact which stays says plainly, if they are half of what it says at least."""
        common = frozenset[str]().union(*self._plain_stems)
        words = (stems(bare(text)) - _GRAMMAR for text in self.texts)
        cores = ((each - common, each) for each in words)
        return tuple(core for core, each in cores if core and len(core) * 2 >= len(each))

    @cached_property
    def _said(self) -> frozenset[str]:
        """The words of the facts, those of which sentences are made left out."""
        return frozenset[str]().union(*(stems(bare(text)) for text in self.texts)) - _GRAMMAR

    @cached_property
    def _own_words(self) -> frozenset[str]:
        own = self._said.difference(*self._staying)
        return frozenset(stem for stem in own if len(stem) >= _TELLING or not stem.isascii())

    @cached_property
    def _whole_words(self) -> OwnWords:
        return OwnWords(map(bare, self.texts), staying=(*self._plain, *self._beside), grammar=_NOTHING)

    def same(self, fact: str) -> bool:
        """Return whether this is one of the facts."""
        return fact_hash(fact) in self.hashes

    def stays(self, description: str) -> bool:
        """Return whether a description is a fact, so that its note stays for it when all other facts have gone."""
        return fact_hash(description) in self.said and not self.same(description)

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
        return self._has_core(words) or self._tells_beside(text, self._staying)

    def _tells_alone(self, text: str) -> bool:
        """Return whether a line of a quote or the like tells one of the facts itself, rather than shares words."""
        return self._has_core(stems(text)) or self._tells_beside(text, self._plain_stems)

    def _has_core(self, words: frozenset[str]) -> bool:
        return any(core <= words for core in self._cores)

    def _tells_beside(self, text: str, staying: frozenset[frozenset[str]]) -> bool:
        if not self.tells(text):
            return False
        shared = stems(text) & self._said
        return self._repeats(text) or not any(shared <= each for each in staying)

    def _repeats(self, text: str) -> bool:
        return any(normal(bare(fact)) in normal(text) for fact in self.texts)

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

    The title of a note helps a fact that has one of the words itself. A description above facts is named if it would
    stay when what else was found is forgotten. Where there is nothing, the whole note is named.
    """
    words = " ".join(word for word in words.split() if word.lower() not in _NOTHING) or words
    split = {note: facts_of(text, note) for note, text in files.items()}
    wording = Wording(fact for found in split.values() for fact in found)
    scored = _fitting(files, split, lambda fact, note: _share(wording, words, fact, note))
    scored += _fitting_headers(files, split, words, [item for _, item in scored])
    scored = scored or _fitting(files, split, lambda _, note: wording.share(words, title_of(note)))
    return [item for _, item in sorted(scored, key=lambda pair: -pair[0])[:FOUND]]


def _fitting_headers(
    files: Mapping[str, str], split: Mapping[str, Sequence[str]], words: str, found: Sequence[Item]
) -> list[tuple[float, Item]]:
    asked = stems(words)
    heads = {
        note: [about for about in above(text, note, split[note]) if not asked.isdisjoint(stems(about))]
        for note, text in files.items()
    }
    if not any(heads.values()):
        return []
    wording = Wording(fact for each in (*split.values(), *heads.values()) for fact in each)
    scored = _fitting(files, heads, lambda about, note: _share(wording, words, about, note))
    if not scored or not found:
        return scored
    what = gone(files, found)
    return [(score, item) for score, item in scored if item.note not in what.notes and not what.betrays(item.text)]


def _share(wording: Wording, words: str, fact: str, note: str) -> float:
    own = wording.share_of_known(words, fact)
    return wording.share_of_known(words, f"{fact} {title_of(note)}") if own else 0.0


def _fitting(
    files: Mapping[str, str], split: Mapping[str, Sequence[str]], share: Callable[[str, str], float]
) -> list[tuple[float, Item]]:
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
    return list(scored.values())


def gone(
    files: Mapping[str, str], items: Iterable[Item], *, said: Collection[str] = (), others: Collection[str] = ()
) -> Gone:
    """Return what these items are in the present notes; what is not there any more is left out.

    `said` are the hashes of descriptions that somebody is known to have said, `others` those of all that somebody else
    has said than who has it forgotten: of these nothing betrays it that does not repeat it.
    """
    split = {note: facts_of(text, note) for note, text in files.items()}
    items = tuple(items)
    hashes = {item.hash for item in items if item.hash}.union(*(item.facts for item in items))
    named = {item.note for item in items if not item.hash and item.note in split and not is_index(item.note)}
    notes = frozenset(note for note in named if hashes.issuperset(map(fact_hash, split[note])))
    heads = [about for note, text in files.items() for about in above(text, note, split[note])]
    meant = (about for about in heads if fact_hash(about) in hashes)
    everything = tuple(chain(chain.from_iterable(split.values()), meant))
    texts = [fact for fact in everything if fact_hash(fact) in hashes]
    notes_alone = (each for each in files if not each.startswith(f"{LOGS}/") and not is_index(each))
    spoken = [said_of for note in notes_alone for said_of in _spoken(files[note]) if said_of[0] not in hashes]
    stay = (fact if each in others else plain for each, fact, plain, _ in spoken)
    stay_above = (about for about in heads if fact_hash(about) in {*said, *others} - hashes)
    return Gone(
        notes=notes,
        texts=tuple(dict.fromkeys(texts)),
        corpus=everything,
        staying=(*filter(None, stay), *stay_above),
        asides=tuple(lines for each, _, _, lines in spoken if lines and each not in others),
        said=frozenset(said),
    )


def _spoken(text: str) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Return of each fact of a note its hash, its words, those that it says plainly, and the lines beside these."""
    if not facts(text):
        return [(fact_hash(about), about, about, ()) for about in facts_of(text)]
    return [(fact_hash(fact), fact, plain, beside) for fact, plain, beside in parted(text)]


def mentioning(files: Mapping[str, str], what: Gone, *, starts: Collection[str] = ("",)) -> list[str]:
    """Return the names of the notes that betray it by name, folder or header and hold no fact that is it.

    `starts` are what the names of notes begin with where agents keep them (`memory.places.places`): those stay.
    """
    notes = (note for note in files if not note.startswith(f"{LOGS}/") and not is_index(note))
    return [note for note in notes if _betrays_around(files[note], note, what) or renamed(note, what, starts)]


def renamed(note: str, what: Gone, starts: Collection[str] = ("",)) -> bool:
    """Return whether a note has to get another name, or to lie in another folder, as its own betrays it."""
    start = max((start for start in starts if note.startswith(start)), key=len, default="")
    name = note.removeprefix(start)
    return next(neutral(name, what.betrays)) != name


def _betrays_around(text: str, note: str, what: Gone) -> bool:
    own = facts_of(text, note)
    values = [value for value in parse(text)[0].values() if isinstance(value, str) and value not in own]
    return not any(map(what.same, forgettable(text, note))) and any(map(what.betrays, values))


def holding(files: Mapping[str, str], what: Gone) -> list[str]:
    """Return the names of the notes and indexes that will lose a fact, or go; day logs are not named."""

    def loses(note: str) -> bool:
        goes = note in what.notes and all(map(what.same, facts_of(files[note], note)))
        return goes or any(map(what.same, forgettable(files[note], note)))

    return [note for note in files if not note.startswith(f"{LOGS}/") and loses(note)]
