"""Whose facts a run may take out of the notes of a shared chat, whose it may put there, and what leaves for good.

All see each change under the lease of the memory, right before it is made; see `memory.notes.Watch`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from anyio import to_thread

from adapters.base import Account
from memory import snapshot as snapshots
from memory.citations import Citations
from memory.errors import WriteRefused
from memory.fact_stamp import stamped
from memory.facts import described, facts_of
from memory.index import is_index
from memory.notes import Notes, Watch
from memory.paths import in_team
from memory.provenance import (
    Erased,
    Keep,
    Placed,
    Source,
    Spoken,
    Witness,
    called,
    came_and_went,
    fact_hash,
    named_in,
)
from memory.scope import Scope

Sources = Callable[[Scope, Iterable[str]], Awaitable[Mapping[str, Sequence[Source]]]]
"""Returns who said these facts, by hash."""
Hears = Callable[[], Awaitable[Sequence[Spoken]]]
"""Returns what humans have said in a session, oldest first, and last what is being answered."""
Record = Callable[[Scope, Collection[str]], Awaitable[None]]
"""Keeps for good that the facts of these hashes were forgotten."""
Replaces = Callable[[str, str], str | None]
"""Returns the account whose word it is that the second fact holds now instead of the first; None: nobody's."""

_SHOWN = 80


async def unrecorded(scope: Scope, hashes: Collection[str]) -> None:
    """Record nothing, for a memory of which no record is kept."""


def watched(notes: Notes, *watches: Watch) -> Notes:
    """Return the notes with these watches; each sees the changes that those before it let pass."""

    async def each(scope: Scope, path: Path, *, before: str, after: str) -> None:
        for watch in watches:
            await watch(scope, path, before=before, after=after)

    return notes.watched(each)


def nobody(old: str, new: str) -> str | None:
    """Know of nobody who has corrected anything."""
    return None


def author_guard(
    scope: Scope,
    sources: Sources,
    *,
    speakers: Iterable[str],
    owners: Iterable[Account],
    replaces: Replaces = nobody,
) -> "AuthorGuard | None":
    """Return the guard of a run that acts on what these accounts said; None in a private chat, and for owners alone."""
    speaking, owning = frozenset(speakers), frozenset(map(str, owners))
    if not scope.shared or (speaking and speaking <= owning):
        return None
    return AuthorGuard(scope, sources, speaking - owning, replaces)


class AuthorGuard:
    """Refuses a change by which a fact goes that not each of the `speakers` may have forgotten, as `/forget` has it.

    That is a fact which somebody else said, or of which nobody knows who did: one in a note, a description of which
    the same is true, or a line of an index that is no pointer. A run that acts on the words of several
    people can't tell which of them asked, so that it has the rights that all of them have. A fact in other words is
    another fact. What stands word for word in another note may go, and so may what the run itself has put there. So may
    what all who have said it correct: each of them is the source of a fact that comes in its place in the same change.
    What a sub-agent keeps outside the chat's memory is its own to put in order: nobody is known to have said any of it.
    """

    def __init__(self, scope: Scope, sources: Sources, speakers: Collection[str], replaces: Replaces = nobody) -> None:
        self._memory = scope.memory_dir
        self._replaces = replaces
        self._sources = sources
        self._speakers = speakers
        self._put: set[tuple[Path, str]] = set()
        self._descriptions: set[str] = set()  # that were all their notes said

    async def __call__(self, scope: Scope, path: Path, *, before: str, after: str) -> None:
        """Refuse the change with `WriteRefused`, or let it pass."""
        if not path.is_relative_to(self._memory):
            return
        came, went = _changes(path, before, after)
        lost = went | await self._described(scope, path, before, after)
        foreign = await self._foreign(scope, path, lost, came)
        if foreign:
            raise WriteRefused(_refusal(foreign[0]))
        self._put |= {(path, each) for each in came}

    async def _described(self, scope: Scope, path: Path, before: str, after: str) -> dict[str, str]:
        """Return the description that goes, if it was a fact before others came into the note."""
        if is_index(path.name):
            return {}
        about = _by_hash(described(before))
        self._descriptions |= about.keys() & _by_hash(facts_of(before)).keys()
        gone = {
            each: fact for each, fact in about.items() if each not in _by_hash([*described(after), *facts_of(after)])
        }
        said = await self._sources(scope, gone) if gone else {}
        return {each: fact for each, fact in gone.items() if each in said or each in self._descriptions}

    async def _foreign(self, scope: Scope, path: Path, lost: Mapping[str, str], came: Mapping[str, str]) -> list[str]:
        if not lost:
            return []
        sources = await self._sources(scope, lost)
        others = {each for each in lost if not self._may_go(path, each, sources.get(each, ()))}
        others -= self._corrected({each: lost[each] for each in lost if each in others}, sources, came)
        if not others:
            return []
        there = others & await to_thread.run_sync(partial(standing, scope, besides=path))
        # The last copy of what another run or person wrote is not this run's, whoever made it.
        self._put = {(place, each) for place, each in self._put if each not in there}
        return [lost[each] for each in lost if each in others - there]

    def _corrected(
        self, lost: Mapping[str, str], sources: Mapping[str, Sequence[Source]], came: Mapping[str, str]
    ) -> set[str]:
        """Return those facts in whose place all who said them have put another; each new one takes one place."""
        left, found = dict(came), set[str]()
        for each, old in lost.items():
            said = {source.account for source in sources.get(each, ())}
            by = {account: key for key, new in left.items() if (account := self._replaces(old, new)) in said}
            if said and said == by.keys():
                found.add(each)
                left = {key: new for key, new in left.items() if key not in by.values()}
        return found

    def _may_go(self, path: Path, fact: str, sources: Sequence[Source]) -> bool:
        if not sources:
            return (path, fact) in self._put
        said = {source.account for source in sources}
        return bool(self._speakers) and all(said == {speaker} for speaker in self._speakers)


class TurnWitness(Witness):
    """Sees what a turn notes; in a shared chat it puts nothing into the mouth of somebody who has not said it.

    Who stands with a fact as the one who said it has to be the one whom the turn answers, or somebody of whom it is
    known: by what they said in this session (`hears` returns that, and last what the turn answers), by the record, by
    an older wording that goes with the same change, or because the fact stands in another note already.
    """

    def __init__(
        self,
        hears: Hears,
        sources: Sources,
        *,
        erased: Erased | None = None,
        today: str = "",
        keep: Keep | None = None,
    ) -> None:
        super().__init__(erased, today=today, keep=keep)
        self._hears = hears
        self._sources = sources

    def origin(self, fact: Placed, *, heard: Sequence[Spoken]) -> Placed | Spoken | Source | None:
        """Return what a fact stems from; of one that names who said it only what they said counts."""
        names = _speakers(fact.fact, heard)
        if not names or any(old.hash == fact.hash for old in self.gone):
            return super().origin(fact, heard=heard)
        theirs = [spoken for name in names for spoken in called(heard, name)]
        return super().origin(fact, heard=[spoken for spoken in heard if spoken in theirs])

    async def _check(self, scope: Scope, fresh: Sequence[Placed], went: Sequence[Placed]) -> None:
        if not scope.shared or not any(named_in(placed.fact) for placed in fresh):
            return
        heard = await self._hears()
        for placed in fresh:
            for name in _speakers(placed.fact, heard):
                if not await self._has_said(scope, name, placed, [*went, *self.gone], heard):
                    raise WriteRefused(_unsaid(name, placed.fact, heard[-1].speaker))

    async def _has_said(
        self, scope: Scope, name: str, fact: Placed, gone: Sequence[Placed], heard: Sequence[Spoken]
    ) -> bool:
        theirs = called(heard, name)
        older = [old for old in gone if name in named_in(old.fact)]
        said = Citations(theirs, timezone=scope.timezone)
        if heard[-1] in theirs or said.origin(fact.fact, gone=older) is not None:
            return True
        known = (await self._sources(scope, [fact.hash])).get(fact.hash, ())
        if any(each.account in {spoken.account for spoken in theirs} or each.speaker == name for each in known):
            return True
        place = scope.memory_dir / fact.note
        return not known and fact.hash in await to_thread.run_sync(partial(standing, scope, besides=place))


class Removals:
    """Records the facts that a turn takes out of memory for good, before they go, so that no crash comes between.

    Those are facts that a change takes out without putting one in their place, and that stand in no other note. Where
    a new one comes with the same change, it corrects them: then the old wording is out of date, and not forgotten.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self.recorded: set[str] = set()
        """The hashes of what this turn has had recorded."""
        self.back: set[str] = set()
        """Those among them that it has put somewhere else since: they only moved."""

    async def __call__(self, scope: Scope, path: Path, *, before: str, after: str) -> None:
        """Record what goes with a change."""
        came, gone = map(set, _changes(path, before, after))
        self.back |= came & self.recorded
        if came or not gone:
            return
        gone -= await to_thread.run_sync(partial(standing, scope, besides=path))
        self.back -= gone
        fresh = gone - self.recorded
        if fresh:
            self.recorded |= fresh
            await self._record(scope, fresh)


def standing(scope: Scope, *, besides: Path) -> set[str]:
    """Return the hashes of the facts in all notes but one; blocking.

    Day logs don't count, as no later conversation sees them, nor do indexes, which are to point only; and for a note
    of T only others of T do, as the rest of A is nothing to the other chats of the project.
    """
    team = None if scope.team_dir is None else replace(scope, memory_dir=scope.team_dir)
    own = () if in_team(scope, besides) else (scope,)
    places = (*own, *((team,) if team is not None else ()))
    return {
        each
        for place in places
        for path, saved in snapshots.read_all(place).items()
        if path != besides and not is_index(path.name) and not snapshots.is_log(scope, path)
        for each in map(fact_hash, facts_of(saved.text))
    }


def _speakers(fact: str, heard: Sequence[Spoken]) -> list[str]:
    """Return who stands with a fact as those who said it; what looks like several may be the one name of somebody."""
    stamp = stamped(fact)
    return [stamp.name] if stamp is not None and called(heard, stamp.name) else named_in(fact)


def _changes(path: Path, before: str, after: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return by hash what comes into a file and was not there, and what goes from it and is not there any more."""
    came, went = came_and_went(path.name, before, after)
    was, left = (_by_hash(facts_of(text, path.name)) for text in (before, after))
    return (
        {each.hash: each.fact for each in came if each.hash not in was},
        {each.hash: each.fact for each in went if each.hash not in left},
    )


def _by_hash(found: Iterable[str]) -> dict[str, str]:
    return {fact_hash(fact): fact for fact in found}


def _unsaid(name: str, fact: str, sender: str) -> str:
    return (
        f"{name} is not known to have said this, and stands with it as the one who did: {_shown(fact)!r}. Say in the "
        f"fact who tells it of whom, and put the name of who told you behind it, as `({sender}, 2031-05-02)`; or leave "
        "it out"
    )


def _shown(fact: str) -> str:
    return fact if len(fact) <= _SHOWN else f"{fact[: _SHOWN - 1]}…"


def _refusal(fact: str) -> str:
    shown = _shown(fact)
    return (
        f"this would take out a fact that those you act for are not known to have said, or not they alone: {shown!r}. "
        "In this chat only who said it, or an owner of this bot, may have it forgotten; they write `/forget` and some "
        "of its words. If that was asked for, say so. Else leave it word for word: a correction goes beside it, as a "
        "fact of its own with name and date, unless its author makes it, and it comes in its place in one step; and to "
        "move it, write it in its new place before you take it out here"
    )
