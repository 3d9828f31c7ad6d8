"""What is proposed to change in a team's memory: shown to people first, and done file by file if they agree."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memory.authorship import bylines, signed
from memory.counts import counted
from memory.errors import Conflict, NoteMissing
from memory.facts import facts
from memory.index import is_index
from memory.notes import Notes, content_hash
from memory.scope import Scope
from memory.survival import left_out
from memory.team.local import conflict_copy, is_conflict_copy, why_not_sent


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One file of T, by its key: `replaces` is the hash of what it takes the place of, empty for no file."""

    key: str
    replaces: str
    text: str | None
    """None: the file is to go."""

    @property
    def is_index(self) -> bool:
        """Whether it is of an index, whose lines are merged and never in the way of each other."""
        return is_index(self.key)

    @property
    def takes_copy(self) -> bool:
        """Whether it takes away a conflict copy, which may lie in several homes."""
        return is_conflict_copy(self.key)

    @property
    def result(self) -> str:
        """The hash of what is there once it is done, empty for no file."""
        return "" if self.text is None else content_hash(self.text)


def changes_between(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    """Return what leads from one state to the other, in an order in which nothing is ever only in a file to come.

    A note that takes over what others held gets their authors too. Raises `WriteRefused` if a header can't be read.
    """
    left = {key: text for key, text in before.items() if after.get(key) != text}
    changes = [
        Change(
            key=key,
            replaces=content_hash(before[key]) if key in before else "",
            text=None if key not in after else _signed(key, after[key], before.get(key, ""), left),
        )
        for key in sorted(left.keys() | after.keys())
        if after.get(key) != before.get(key)
    ]
    # Who is killed half-way has said some things twice, and lost none.
    return tuple(sorted((each for each in changes if each.result != each.replaces), key=_place))


def _place(change: Change) -> tuple[bool, bool, str]:
    return change.text is None, change.is_index, change.key


def _signed(key: str, text: str, old: str, left: Mapping[str, str]) -> str:
    if is_index(key):
        return text
    givers = (each for name, each in left.items() if name != key and _gave(name, each, key=key, old=old, text=text))
    return signed(text, before=old, by=[byline for giver in givers for byline in bylines(giver)])


def _gave(name: str, other: str, *, key: str, old: str, text: str) -> bool:
    """Return whether a note takes over something of another one, or is what that conflict copy was of."""
    if is_index(name):
        return False
    if conflict_copy(key, other) == name:
        return True
    own = left_out(facts(other), facts(old))
    return len(left_out(own, facts(text))) < len(own)


def secrets_in(changes: Iterable[Change]) -> str:
    """Return why texts of these may not be shared, without their names; empty if all may be."""
    found = (why_not_sent(each.key, each.text) for each in changes if each.text is not None)
    return "; ".join(dict.fromkeys(skip.reason for skip in found if skip is not None))


def overtaken(changes: Iterable[Change], present: Mapping[str, str]) -> list[str]:
    """Return the files that hold neither what a change replaces nor what it makes of it.

    An index is merged whatever it holds, and a conflict copy that is gone is in nobody's way.
    """
    hashes = {each.key: content_hash(present[each.key]) if each.key in present else "" for each in changes}
    files = (each for each in changes if not each.is_index)
    return [each.key for each in files if hashes[each.key] not in (each.replaces, each.result)]


async def carry_out(scope: Scope, changes: Sequence[Change], notes: Notes, done: list[str]) -> None:
    """Do the changes in the copy of a scope, those of conflict copies aside, adding each key to `done`.

    What is done already stays as it is. Raises `Conflict`, `PathRefused`, `WriteRefused` or `LeaseLost` at the first
    that can't be done.
    """
    for change in (each for each in changes if not each.takes_copy):
        await _carry_out(scope, change, notes)
        done.append(change.key)


async def _carry_out(scope: Scope, change: Change, notes: Notes) -> None:
    assert scope.team_dir is not None
    path = scope.team_dir / change.key
    try:
        if change.text is None:
            with suppress(NoteMissing):
                await notes.delete(scope, path, expected=change.replaces)
            return
        if change.is_index:
            with suppress(NoteMissing):
                await notes.read(scope, path)  # so that lines that were seen when it was made may go
        await notes.write(scope, path, change.text, expected=change.replaces)
    except Conflict as conflict:
        if conflict.actual != change.result:
            raise


async def remove_copies(scope: Scope, gone: Iterable[tuple[str, str]], notes: Notes) -> int:
    """Remove the conflict copies of these keys and hashes from a scope's copy of T, and return how many there were."""
    removed = 0
    for path, expected in _copies(scope, gone):
        with suppress(NoteMissing, Conflict):
            if (await notes.read(scope, path)).hash == expected:
                await notes.delete(scope, path, expected=expected)
                removed += 1
    return removed


def holds_copies(scope: Scope, gone: Iterable[tuple[str, str]]) -> bool:
    """Return whether a scope's copy of T holds one of these conflict copies; blocking."""
    return any(path.is_file() for path, _ in _copies(scope, gone))


def _copies(scope: Scope, gone: Iterable[tuple[str, str]]) -> list[tuple[Path, str]]:
    team = scope.team_dir
    return [] if team is None else [(team / key, expected) for key, expected in gone if is_conflict_copy(key)]


def title_of(changes: Sequence[Change]) -> str:
    """Return in a few words what is proposed."""
    notes = [each for each in changes if not each.is_index and not each.takes_copy]
    copies = sum(each.takes_copy for each in changes)
    counts = {
        "added": sum(not each.replaces for each in notes),
        "changed": sum(bool(each.replaces) and each.text is not None for each in notes),
        "deleted": sum(each.text is None for each in notes),
    }
    told = [f"{counted(copies, 'conflict copy', 'conflict copies')} settled"] if copies else []
    told += [f"{counted(number, 'note')} {what}" for what, number in counts.items() if number]
    return ", ".join(told) or "the index put in order"
