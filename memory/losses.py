"""How much of a note one run may take out: a rewrite that forgets most of what stood there is a slip, not a wish."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from anyio import to_thread

from memory.errors import WriteRefused
from memory.facts import facts_of
from memory.index import is_index, pointers
from memory.prompt import NOTE_BYTES, read_text
from memory.scope import Scope
from memory.wording import vanished

_FEW = 3
_MANY = 10
_SHARE = 1 / 3
"""What may go at once: always a few facts, for a passage put in order; else a third of the note, but never more than
many, as no message of a person corrects more. Larger notes are not rewritten at all but changed in places."""
_LONG = 500
"""A fact counts once more for so many characters: else a page that is one paragraph, or one fence, could go as one."""
_MERGED = 3
"""How many facts may become one: entries of a kind, such as those of a diary, have most of their words in common."""
_COMPARED = 500
"""Where more than so many facts are not left word for word, no others are looked for that say the same: it is slow."""


class _File:
    """What stood in a file that others than the run have put there, and what the run has left there."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self.facts = facts_of(text, path.name)
        self.pointed = _targets(path, text)
        self._left = self._held = _forms(self.facts)

    def found(self, before: str) -> None:
        """Take note of what others have changed since the run did."""
        there = {fact.casefold(): fact for fact in facts_of(before, self._path.name)}
        kept = [fact for fact in self.facts if fact.casefold() in there or fact.casefold() not in self._left]
        known = self._left | _forms(kept)
        self.facts = [*kept, *(fact for form, fact in there.items() if form not in known)]
        self._held = _forms(self.facts)

    def has_held(self, fact: str) -> bool:
        """Return whether a fact stood there without the run: it is like another one by chance."""
        return fact.casefold() in self._held

    def left(self, after: str) -> None:
        """Take note of what the run leaves there."""
        self._left = _forms(facts_of(after, self._path.name))


class Losses:
    """Refuses a change by which a run has taken more than a few facts out of a file without putting them elsewhere.

    What counts is all that it has done to the file, not one change alone; a deletion counts like a write of nothing. In
    an index the pointers to notes that are there count as well. It is a `memory.notes.Watch` for whatever writes; a
    deletion that somebody has asked for need not be shown to it.
    """

    def __init__(self) -> None:
        self._files: dict[Path, _File] = {}

    async def __call__(self, scope: Scope, path: Path, *, before: str, after: str) -> None:
        """Refuse the change with `WriteRefused`, or let it pass."""
        await to_thread.run_sync(partial(self._look, scope, path, before, after))

    def _look(self, scope: Scope, path: Path, before: str, after: str) -> None:
        file = self._files.setdefault(path, _File(path, before))
        file.found(before)
        others = [each for each in self._files if each != path and each.is_relative_to(scope.memory_dir)]
        now = {each: read_text(scope.memory_dir, each, limit=NOTE_BYTES) for each in others}
        for each in (path, *others):
            self._bound(each, {**now, path: before}, {**now, path: after})
        file.left(after)

    def _bound(self, path: Path, before: Mapping[Path, str], after: Mapping[Path, str]) -> None:
        gone, lost = self._lost(path, after)
        was = [*self._files[path].facts, *(lost | _targets(path, before[path]))]
        if _weight(gone) <= max(_FEW, min(_MANY, int(_weight(was) * _SHARE))):
            return
        if len(gone) > len(self._lost(path, before)[0]):  # else it is no worse than it was
            raise WriteRefused(
                f"this would take {len(gone)} of {len(was)} facts out of {path.name}, with all that this run has taken "
                "out of it before: keep what stands there, or write it into another note first, and change single "
                "entries with `edit`; `delete` takes a whole note only where a person has asked for that"
            )

    def _lost(self, path: Path, now: Mapping[Path, str]) -> tuple[list[str], frozenset[str]]:
        """Return what is lost of a file, and the pointers in that."""
        file = self._files[path]
        gone = _gone(file.facts, facts_of(now[path], path.name))
        if _weight(gone) > _FEW:
            elsewhere = [(each, fact) for each in now if each != path for fact in facts_of(now[each], each.name)]
            exact = {fact.casefold() for _, fact in elsewhere}
            put = [fact for each, fact in elsewhere if not self._files[each].has_held(fact)]
            gone = _gone([fact for fact in gone if fact.casefold() not in exact], put)
        pointers_lost = _there(path, file.pointed) - _targets(path, now[path])
        return [*gone, *pointers_lost], pointers_lost


def _forms(found: Iterable[str]) -> frozenset[str]:
    return frozenset(fact.casefold() for fact in found)


def _gone(was: Sequence[str], left: Sequence[str]) -> list[str]:
    there = {fact.casefold() for fact in left}
    missing = [fact for fact in was if fact.casefold() not in there]
    if len(missing) > _COMPARED:
        return missing
    new = len(there.difference(fact.casefold() for fact in was))
    return max(vanished(missing, left), missing[_MERGED * new :], key=len)


def _targets(path: Path, text: str) -> frozenset[str]:
    """Return the notes that an index points to, as far as they are there."""
    return _there(path, [target for _, target in pointers(text)] if is_index(path.name) else [])


def _there(path: Path, named: Iterable[str]) -> frozenset[str]:
    return frozenset(target for target in named if os.path.isfile(path.parent / target))  # noqa: PTH113  (never raises)


def _weight(found: Iterable[str]) -> int:
    return sum(1 + len(fact) // _LONG for fact in found)
