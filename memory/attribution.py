"""Whose each fact is, before and after a rewrite: in a shared chat no fact may end up with another person.

A fact belongs to whoever said it (behind it in brackets, before it with a colon, or in the host's record) and to those
it names; where it names nobody, to those that the heading above it or its note is named after. Only names of people
who have spoken are known as such, and whatever stands where a speaker does. Names are left out when wordings are
compared, so that giving a fact another name, or other words as well, hides nothing. What stands around facts (headings,
comments, a description, a line of the index) is nobody's source, but may not say of a person what others are known for.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import regex

from memory import comments
from memory.facts import described, facts, is_index
from memory.index import around, pointers, without_pointers
from memory.metadata import parse
from memory.people import People
from memory.provenance import Moved
from memory.scan import LOGS
from memory.wording import Holders, Shares

_HEADING = regex.compile(r"^\s{0,3}#{1,6}\s+(.*)$", regex.MULTILINE)
_FEWEST = 2
"""Words that what stands around facts must have to be compared: one alone is a subject."""
_TELLING = 3
"""Words that a fact must have to be known again among others that were added to it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Fact:
    note: str
    text: str
    people: frozenset[str]
    """Whose it is as it reads."""
    owners: frozenset[str]
    """All whose it may be, by the host's record as well."""
    words: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    facts: tuple[_Fact, ...]
    around: tuple[_Fact, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """What a rewrite did to people's facts: `moved` stand with somebody else now, `lost` only with other people."""

    moved: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def compared(
    before: Mapping[str, str], after: Mapping[str, str], said_by: Mapping[str, Collection[str]]
) -> Attribution:
    """Compare two states of a memory, each file's text by its name.

    A fact is taken for another person's if somebody it is ascribed to had nothing like it, while others had; or if it
    is gone, and all that is like it belongs to others, and some of that is new.
    """
    people = People(before, said_by)
    read = {note: _read(people, note, text) for note, text in before.items()}
    reread = {
        note: read[note] if text == before.get(note) else _read(people, note, text) for note, text in after.items()
    }
    return _Comparison(list(read.values()), list(reread.values())).result()


def kept_apart(moves: Sequence[Moved], said_by: Mapping[str, Collection[str]]) -> list[Moved]:
    """Return those moves that give no fact which names its speaker the source of somebody else."""
    people = People({}, said_by)

    def fits(move: Moved) -> bool:
        was, now = people.possibly(people.recorded(move.old.fact)), people.of(move.new.fact)
        return not was or not now or bool(was & now)

    return [move for move in moves if fits(move)]


class _Comparison:
    def __init__(self, before: Sequence[_Read], after: Sequence[_Read]) -> None:
        self._old = [fact for each in before for fact in each.facts]
        self._new = [fact for each in after for fact in each.facts]
        there = {(fact.note, fact.text, fact.people) for fact in self._old}
        self._fresh = [fact for fact in self._new if (fact.note, fact.text, fact.people) not in there]
        told = {(each.words, each.people) for read in before for each in read.around}
        self._around = [each for read in after for each in read.around if (each.words, each.people) not in told]
        self._shares = Shares(fact.words for fact in (*self._old, *self._new))

    def result(self) -> Attribution:
        gone = _gone(self._old, self._new)
        moved: list[str] = []
        lost: list[str] = []
        given = self._given()
        holders = Holders(self._shares, [fact.words for fact in self._new] if gone else ())
        fresh = set(self._fresh)
        for fact in gone:
            like = {self._new[place] for place in holders.holding(fact.words)}
            if not fact.owners or not like or any(not each.people or each.people & fact.owners for each in like):
                continue
            (lost if like.isdisjoint(fresh) else moved).append(fact.text)
            given = [each for each in given if each not in like]  # the same fact, as it reads now
        moved += [fact.text for fact in given]
        return Attribution(moved=tuple(dict.fromkeys(moved)), lost=tuple(dict.fromkeys(lost)))

    def _given(self) -> list[_Fact]:
        """Return what is ascribed to somebody now who had nothing like it, while others had."""
        theirs = {(fact.text, person) for fact in self._old for person in fact.owners}
        doubtful = [fact for fact in self._fresh if any((fact.text, person) not in theirs for person in fact.people)]
        if not doubtful and not self._around:
            return []
        holders = Holders(self._shares, [fact.words for fact in self._old])
        blamed = [each for each in self._around if self._is_blamed(each, holders)]
        return [*(fact for fact in doubtful if self._is_anothers(fact, holders)), *blamed]

    def _is_anothers(self, fact: _Fact, holders: Holders) -> bool:
        held = [self._old[place] for place in holders.held_by(fact.words)]
        if self._takes_in(fact, held, holders):
            return True
        found = [(share, self._old[place]) for place, share in holders.holding(fact.words).items()]
        for person in fact.people:
            own = max((share for share, each in found if person in each.owners), default=0.0)
            others = max((share for share, each in found if each.owners and person not in each.owners), default=0.0)
            if own < others and not any(person in each.owners for each in held):
                return True
        return False

    def _takes_in(self, fact: _Fact, held: Sequence[_Fact], holders: Holders) -> bool:
        """Return whether it holds, with more besides, what is known of none of its people but of others."""
        strange = (each for each in held if each.owners and not each.owners & fact.people)
        return any(
            not any(self._old[place].owners & fact.people for place in holders.holding(each.words))
            for each in strange
            if fact.people and len(each.words) >= _TELLING
        )

    def _is_blamed(self, told: _Fact, holders: Holders) -> bool:
        """Return whether a line beside the facts says of people what is known of others, and not of them."""
        if not told.people or len(told.words) < _FEWEST:
            return False
        if self._takes_in(told, [self._old[place] for place in holders.held_by(told.words)], holders):
            return True
        others = [
            share
            for place, share in holders.holding(told.words).items()
            if self._old[place].owners and not self._old[place].owners & told.people
        ]
        if not others:
            return False
        theirs = (fact.words for fact in (*self._old, *self._new) if fact.owners & told.people)
        return self._shares.of(told.words, frozenset[str]().union(*theirs)) < max(others)


def _gone(old: Sequence[_Fact], new: Sequence[_Fact]) -> list[_Fact]:
    """Return the facts that do not stand anywhere in their own words as the same people's; logs never go."""
    whose: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for fact in new:
        whose[fact.text].append(fact.people)
    notes = (fact for fact in old if not fact.note.startswith(f"{LOGS}/"))
    return [fact for fact in notes if not any(not now or now & fact.owners for now in whose[fact.text])]


def _read(people: People, note: str, text: str) -> _Read:
    """Return what a file says, with whose it is."""

    def read(context: str, said: str, *, labelled: frozenset[str] = frozenset()) -> _Fact:
        whose, recorded = people.of(said, context=context), people.recorded(said)
        return _Fact(
            note=note,
            text=said,
            people=whose or labelled,
            owners=people.possibly(whose | recorded or labelled),
            words=people.words(said),
        )

    return _Read(
        facts=tuple(read(above, fact, labelled=people.labelled(fact)) for above, fact in _in_context(note, text)),
        around=tuple(read(above, line) for above, line in _beside(note, text)),
    )


def _in_context(note: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield each fact with what it stands under: the nearest heading that names something, else the note's names."""
    title, body = _titled(note, text)
    starts = [(match.start(), match[1]) for match in _HEADING.finditer(body)]
    edges = [(0, ""), *starts]
    for (start, heading), (end, _) in zip(edges, [*edges[1:], (len(body), "")], strict=True):
        for fact in facts(body[start:end]):
            yield f"{heading} {title}", fact


def _beside(note: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield what stands around the facts, each with what it stands under."""
    title, body = _titled(note, text)
    if is_index(note):
        yield from _pointing(text)
    else:
        yield from ((title, line) for line in (*described(text), str(parse(text)[0].get("name") or "")))
    for piece, is_comment in comments.parts(body):
        lines = piece.split("\n") if is_comment else (match[1] for match in _HEADING.finditer(piece))
        yield from ((title, line) for line in lines if line.strip())


def _pointing(index: str) -> Iterator[tuple[str, str]]:
    """Yield the pointers without their targets, each with the heading above it and what its file is named after."""
    heading = ""
    for part in index.split("\n"):
        above = _HEADING.match(part)
        heading = above[1] if above else heading
        yield from ((f"{heading} {_of_file(target)}", around(line)) for line, target in pointers(part))


def _titled(note: str, text: str) -> tuple[str, str]:
    """Return the names of a file, and its text without its header or, of an index, its pointers."""
    if is_index(note):
        return "", "\n".join(without_pointers(text))
    metadata, body = parse(text)
    return f"{_of_file(note)} {metadata.get('name') or ''}", body


def _of_file(note: str) -> str:
    return PurePosixPath(note).stem.replace("-", " ").replace("_", " ").title()  # names of files have no capitals
