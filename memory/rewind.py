"""What files have to hold so that a run's writes are taken back, and that no fact is lost by it."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from pathlib import Path

from memory import snapshot as snapshots
from memory.facts import facts_of, without
from memory.index import INDEX
from memory.journal import Written
from memory.metadata import parse
from memory.notes import content_hash
from memory.scope import Scope
from memory.snapshot import Saved, Snapshot, hash_of

_LONGEST_STEM = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A note that is to be written, or to go; `expected` is the hash of what it holds now."""

    path: Path
    text: str
    expected: str
    end: str
    """What becomes of it: `back`, `merged` or `beside`."""
    removes: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is to be done with the notes; indexes are left to the end, when it is known which files there are."""

    steps: Sequence[Step]
    same: Sequence[Path]
    left: Sequence[Path]
    needed: frozenset[str]
    """The facts from before that nobody has taken away since: each has to stand somewhere, at any time."""
    holds: dict[Path, frozenset[str]] = field(default_factory=dict)
    """The facts of each note as it is now."""

    def is_safe(self, step: Step) -> bool:
        """Return whether every fact that the note loses by this step stands in another note by now."""
        losing = (self.holds.get(step.path, frozenset()) & self.needed) - _facts(step.text)
        standing = Counter(fact for held in self.holds.values() for fact in held & losing) if losing else Counter()
        return all(standing[fact] > 1 for fact in losing)

    def done(self, step: Step) -> None:
        """Note that a step was taken."""
        self.holds[step.path] = _facts(step.text)


def plan(scope: Scope, before: Snapshot, written: Mapping[Path, Written]) -> Plan:
    """Return how to put back what was written; a note that others have changed is merged if that is safe. Blocks.

    A fact from before that would then stand nowhere is kept: under the note's own name if that is free by now, else
    beside it.
    """
    present = snapshots.read_all(scope)
    paths = sorted(path for path in written if path.is_relative_to(scope.memory_dir) and path.name != INDEX)
    steps, same, left = list[Step](), list[Path](), list[Path]()
    for path in paths:
        there, saved = present.get(path), before.files.get(path)
        if hash_of(there) == hash_of(saved):
            same.append(path)
        elif (text := _wanted(saved, written[path], there)) is None:
            left.append(path)
        else:
            end = "back" if text == (saved.text if saved else "") else "merged"
            steps.append(Step(path=path, text=text, expected=hash_of(there), end=end, removes=saved is None))
    holds = {path: _facts(saved.text) for path, saved in present.items() if path.name != INDEX}
    old = {path: before.files[path].text for path in paths if path in before.files}
    foreign = (written[path].text or "" for path in [*left, *(step.path for step in steps if step.end == "merged")])
    taken_away = _all(map(_facts, foreign)) - _all(holds.values())
    needed = _all(map(_facts, old.values())) - taken_away
    lost = needed - _all({**holds, **{step.path: _facts(step.text) for step in steps}}.values())
    beside = list(_beside(old, lost))
    return Plan(
        steps=[*beside, *sorted(steps, key=lambda step: step.removes)],
        same=same,
        left=[path for path in left if path not in {step.path for step in beside}],
        needed=needed,
        holds=holds,
    )


def _beside(old: Mapping[Path, str], lost: frozenset[str]) -> Iterator[Step]:
    for path, text in old.items():
        ours = _facts(text) & lost
        if not ours:
            continue
        lost -= ours
        part = without(text, partial(_is_none_of, ours))
        kept = part if ours <= _facts(part) else text
        yield Step(path=next(_free(path, kept)), text=kept, expected="", end="beside")


def _is_none_of(these: frozenset[str], fact: str) -> bool:
    return fact.casefold() not in these


def _free(path: Path, text: str) -> Iterator[Path]:
    mark = content_hash(text).partition(":")[2][:8]
    names = (f"{path.stem[:_LONGEST_STEM]}.before-{mark}{f'-{number}' if number else ''}.md" for number in count())
    places = chain([path], map(path.with_name, names))
    return (place for place in places if not os.path.lexists(place))


def _wanted(saved: Saved | None, run: Written, there: Saved | None) -> str | None:
    """Return what a note should hold, "" for nothing; None if it has to stay as it is."""
    if hash_of(there) in run.hashes:
        return saved.text if saved else ""
    if saved is None or there is None or run.text is None:
        return None
    return with_changes(saved.text, base=run.text, theirs=there.text)


def with_changes(text: str, *, base: str, theirs: str) -> str | None:
    """Return `text` with the lines that somebody added to `base` or took from it; None if that is not safe.

    What they took must stand in `text` as well, and what is above the text of a note must be as it was.
    """
    (base_head, base_body), (their_head, their_body) = parse(base), parse(theirs)
    if base_head != their_head:
        return None
    old, new = base_body.splitlines(), their_body.splitlines()
    added, gone = more(new, old), Counter(line for line in more(old, new) if line.strip())
    lines = text.splitlines()
    if gone - Counter(lines):
        return None
    kept = []
    for line in lines:
        if gone[line]:
            gone[line] -= 1
        else:
            kept.append(line)
    extra = [line for line in added if line.strip() and line not in kept]
    return "\n".join([*kept, *extra, ""])


def more(these: Sequence[str], than: Sequence[str]) -> list[str]:
    """Return the lines of the first that the second does not have, or not as often."""
    left = Counter(than)
    found = []
    for line in these:
        if left[line]:
            left[line] -= 1
        else:
            found.append(line)
    return found


def _facts(text: str) -> frozenset[str]:
    return frozenset(fact.casefold() for fact in facts_of(text))


def _all(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)
