"""Whose each fact is, before and after a rewrite: in a shared chat no fact may end up with another person.

A fact belongs to whoever said it (behind it in brackets, before it with a colon, or in the host's record) and to those
it names; where it names nobody, to those named by the nearest of what it stands under (`memory.contexts`). Only names
of people who have spoken are known as such, and whatever stands where a speaker does. Names are left out when wordings
are compared, so that giving a fact another name, or other words as well, hides nothing. What stands around facts
(headings, comments, a description, a line of the index) is nobody's source, but may not say of a person what others are
known for. A fact that named somebody has lost them if it names nobody any more; where its note speaks of other people,
it is taken for theirs.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import regex

from memory import comments
from memory.contexts import Part, called, parts
from memory.facts import described
from memory.index import around, is_index, pointers, without_pointers
from memory.metadata import parse
from memory.people import People
from memory.provenance import Moved
from memory.scan import LOGS
from memory.wording import Holders, Shares

_HEADING = regex.compile(r"^\s{0,3}#{1,6}\s+(.*)$", regex.MULTILINE)
_SAYING = regex.compile(r"[\p{L}\p{N}]")
_FEWEST = 2
"""Words that what stands around facts must have to be compared: one alone is a subject."""
_NEARLY = 0.8
"""The share of a fact's words that a clause must have to tell it: of a shorter one the rest may stand before it."""
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
    named: frozenset[str] = frozenset()
    """Those of its people who are known, and not only by a label before it."""
    by_itself: bool = True
    """Whether it says so itself, not only what it stands under."""
    speakers: frozenset[str] = frozenset()
    """Who said it, as it says itself."""
    near: frozenset[str] = frozenset()
    """All whom it or anything that it stands under names."""
    beside: frozenset[str] = frozenset()
    """All of whom its note speaks otherwise than as of those who said its facts."""
    clauses: Sequence[tuple[frozenset[str], frozenset[str]]] = ()
    """Of a fact that names several, whom each of its clauses names, with its words."""

    @property
    def blamed(self) -> Collection[frozenset[str]]:
        """To whom it is ascribed: each of those it names, or one of those that what it stands under names."""
        return [frozenset({person}) for person in self.people] if self.by_itself else [self.people]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    facts: tuple[_Fact, ...]
    around: tuple[_Fact, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """What a rewrite did to people's facts: `moved` stand with somebody else now, `lost` with nobody or only others."""

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
            if not fact.owners or not like or any(_is_still_theirs(fact, each) for each in like):
                continue
            taken = not like.isdisjoint(fresh) and all(_is_taken(fact, each) for each in like)
            (moved if taken else lost).append(fact.text)
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
        for people in fact.blamed:
            own = max((share for share, each in found if people & each.owners), default=0.0)
            others = max((share for share, each in found if each.owners and not people & each.owners), default=0.0)
            if own < others and not any(people & each.owners for each in held):
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
    now: defaultdict[str, list[_Fact]] = defaultdict(list)
    for fact in new:
        now[fact.text].append(fact)
    notes = (fact for fact in old if not fact.note.startswith(f"{LOGS}/"))
    return [fact for fact in notes if not any(_is_still_theirs(fact, each) for each in now[fact.text])]


def _is_still_theirs(fact: _Fact, now: _Fact) -> bool:
    """Return whether a fact, as it reads now, names whom it named, if anybody, and not others as well by chance."""
    if not fact.named:
        return not now.people or bool(now.people & fact.owners)
    if not now.people & fact.owners or (not now.by_itself and fact.by_itself and now.people - fact.owners):
        return False
    return not _is_turned(fact, now) and (not fact.speakers or bool(now.near & fact.speakers))


def _is_turned(fact: _Fact, now: _Fact) -> bool:
    """Return whether what one of several said stands in the clause of another: Ann sings, Bob is allergic to nuts."""
    said = [who for who, words in now.clauses if len(fact.words & words) >= _NEARLY * len(fact.words)]
    alone = any(len(who) == 1 and who.isdisjoint(fact.owners) for who in said)
    return alone and not any(not who or who & fact.owners for who in said)


def _is_taken(fact: _Fact, now: _Fact) -> bool:
    """Return whether a fact reads as another's now: it names others, or nobody in a note that speaks of others."""
    return now.people.isdisjoint(fact.owners) if now.people else bool(now.beside - fact.owners)


def _read(people: People, note: str, text: str) -> _Read:
    """Return what a file says, with whose it is."""
    under, body = _called(note, text)
    found = [part for each in parts(body, under) for part in _by_column(people, each)]
    around = list(_beside(note, text, " ".join(under)))
    spoken_of = people.spoken_of([*(part.text for part in found), *(line for _, line in around), *under])
    return _Read(
        facts=tuple(_fact(people, note, part, spoken_of) for part in found if _SAYING.search(part.text)),
        around=tuple(_line(people, note, above, line) for above, line in around),
    )


def _fact(people: People, note: str, part: Part, spoken_of: frozenset[str]) -> _Fact:
    own, recorded = people.of(part.text), people.recorded(part.whole)
    above = [people.named(level) for level in part.under]
    whose = own or next(filter(None, above), frozenset())
    speakers = people.possibly(people.speakers(part.text))
    return _Fact(
        note=note,
        text=part.text,
        people=whose or people.labelled(part.text),
        owners=people.possibly(whose | recorded or people.labelled(part.text)),
        words=people.words(part.text),
        named=people.sure(whose),
        by_itself=bool(own) or not whose,
        speakers=speakers,
        near=people.possibly(own.union(*above)),
        beside=spoken_of,
        clauses=people.clauses(part.text) if len(own) > 1 else (),
    )


def _line(people: People, note: str, above: str, line: str) -> _Fact:
    whose = people.of(line, context=above)
    return _Fact(note=note, text=line, people=whose, owners=people.possibly(whose), words=people.words(line))


def _by_column(people: People, part: Part) -> Iterator[Part]:
    """Yield the cells of a row whose columns are named after people, each under its head; else the row as it is."""
    if not any(people.named(head) for head, _ in part.cells):
        yield part
        return
    for place, (head, cell) in enumerate(part.cells):
        text = f"{part.cells[0][1]} {cell}" if place and not people.named(part.cells[0][0]) else cell
        yield Part(text=text, whole=part.whole, under=(head, *part.under))


def _beside(note: str, text: str, title: str) -> Iterator[tuple[str, str]]:
    """Yield what stands around the facts, each with what it stands under."""
    if is_index(note):
        yield from _pointing(text)
    else:
        yield from ((title, line) for line in (*described(text), str(parse(text)[0].get("name") or "")))
    for piece, is_comment in comments.parts(_called(note, text)[1]):
        lines = piece.split("\n") if is_comment else (match[1] for match in _HEADING.finditer(piece))
        yield from ((title, line) for line in lines if line.strip())


def _pointing(index: str) -> Iterator[tuple[str, str]]:
    """Yield the pointers without their targets, each with the heading above it and what its file is named after."""
    heading = ""
    for part in index.split("\n"):
        above = _HEADING.match(part)
        heading = above[1] if above else heading
        yield from ((f"{heading} {called(target, {})[0]}", around(line)) for line, target in pointers(part))


def _called(note: str, text: str) -> tuple[tuple[str, ...], str]:
    """Return what a file is called, and its text without its header or, of an index, its pointers."""
    if is_index(note):
        return (), "\n".join(without_pointers(text))
    metadata, body = parse(text)
    return called(note, metadata), body
