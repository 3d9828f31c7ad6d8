"""Whether what a consolidation did may stand: how much it removed, where it wrote, with whom each fact ended up."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import unquote

import regex

from memory import snapshot as snapshots
from memory.attribution import Attribution, compared, kept_apart
from memory.claims import Claims, all_of, claims
from memory.counts import counted
from memory.facts import described, facts
from memory.index import is_index, pointers
from memory.journal import Survival
from memory.paths import TEAM
from memory.ports import Outcome, RunReport
from memory.prompt import MAX_LINES
from memory.provenance import Ledger, Moved, NoLedger, Source, fact_hash, moves
from memory.scan import LOGS
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.snapshot import Saved
from memory.survival import Context, left_out

_LINKED = regex.compile(r"\]\(<?([^<>()\s]++)>?\)")
_FULL = 0.75
"""The share of the lines that an index may have from which on it may have been cut for its length."""
_GROWTH = 0.5
_ROOM = 16 * 1024
"""What a run may add to a memory: half of all that is there, day logs with it, or so many bytes if that is more. It is
to make it shorter; but logs are sorted into notes, dates take the place of days, and a small memory may grow."""


class Ending(StrEnum):
    """How a consolidation ended. Only after the first two does what it wrote stand."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    """It went beyond what a run may do: too much removed or added, a write where it has none to do, a fact given to
    another."""
    SPENT = "spent"
    """There were no tokens left for it, or not enough."""
    FAILED = "failed"
    STOPPED = "stopped"
    """Somebody wanted it to end."""
    ABORTED = "aborted"
    GATED = "gated"
    """There was nothing to do, or it was not the time for it."""
    BUSY = "busy"
    """Another holder has the lease, or took it over."""

    @property
    def good(self) -> bool:
        """Whether the run counts as done."""
        return self in {Ending.CHANGED, Ending.UNCHANGED}


class Sources(Ledger, Protocol):
    """The host's record of who said what, as a consolidation needs it."""

    async def sources(self, scope: Scope, hashes: Iterable[str]) -> Mapping[str, tuple[Source, ...]]:
        """Return who said these facts, by hash, as far as that is known."""


class NoSources(NoLedger):
    """A ledger for a memory of which no record is kept."""

    async def sources(self, scope: Scope, hashes: Iterable[str]) -> Mapping[str, tuple[Source, ...]]:
        """Know of nobody."""
        return {}


_ENDED_BADLY = {
    Outcome.ABORTED: (Ending.ABORTED, "it was stopped"),
    Outcome.REFUSED: (Ending.FAILED, "the model refuses the run"),
    Outcome.FAILED: (Ending.FAILED, "the model gave no usable answer"),
    # Half of a merge is worse than none: the new note may repeat what is still in the old ones.
    Outcome.TURN_CAP: (Ending.FAILED, "it did not come to its end within its turns"),
    Outcome.SPENT: (Ending.SPENT, "it used up its tokens before its end"),
}


def _ended_badly(report: RunReport) -> tuple[Ending, str] | None:
    if report.outcome is not Outcome.COMPLETED:
        return _ENDED_BADLY[report.outcome]
    if report.failed:  # of a merge the deletion may have worked, and the new text not
        return Ending.FAILED, f"{counted(len(report.failed), 'file')} could not be written"
    return None


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Compares a memory before and after a run. What it returns is worked out once, and blocks."""

    scope: Scope
    before: Mapping[Path, Saved]
    after: Mapping[Path, Saved]
    said_by: Mapping[str, Collection[str]]
    """The names of those who said a fact, by its hash."""

    @cached_property
    def removed(self) -> tuple[str, ...]:
        """The claims that are left out (`memory.survival`), or the facts left as nobody's or only other people's.

        Of a memory that has grown too much all that does not stand there word for word: to compare it would take long.
        """
        if self._overgrown():
            before, after = ([claim.casefold() for claim in all_of(each)] for each in self._said)
            there = frozenset(after)
            return tuple(claim for claim in before if claim not in there)
        return tuple(dict.fromkeys([*self._plainly_removed, *self._removed_beside]))

    @cached_property
    def survival(self) -> Survival:
        """The figures."""
        count = len(all_of(self._said[0]))
        notes = [[path for path in files if self._is_note(path)] for files in (self.before, self.after)]
        return Survival(
            facts_before=count,
            facts_kept=max(0, count - len(self.removed)),
            notes_before=len(notes[0]),
            notes_after=len(notes[1]),
            bytes_before=self._sizes[0],
            bytes_after=self._sizes[1],
        )

    def verdict(
        self, written: Iterable[Path], report: RunReport | None, settings: MemorySettings
    ) -> tuple[Ending, str]:
        """Return how it ended, and why if not well; `report` is None if it was cut off for its time."""
        if report is None:
            return Ending.FAILED, f"it took more than {settings.dream_max_minutes:g} minutes"
        if (badly := _ended_badly(report)) is not None:
            return badly
        stray = [path for path in written if not _may_write(self.scope, path)]
        if stray:
            return Ending.REFUSED, f"it wrote {len(stray)} of the files that are not its to write"
        refused = self._overgrown() or self._given() or self._emptied(settings.dream_max_removed)
        return (Ending.REFUSED, refused) if refused else (Ending.CHANGED, "")

    def _overgrown(self) -> str:
        before, after = self._sizes
        added = after - before
        return f"it would have added {added} bytes to {before}" if added > max(_ROOM, _GROWTH * before) else ""

    def _given(self) -> str:
        count = counted(len(self._attribution.moved), "fact")
        return f"it would have given {count} to another person" if self._attribution.moved else ""

    def _emptied(self, most: float) -> str:
        said, _ = self._said
        # The facts by themselves as well: else a long table makes room for all of them to go.
        for total, gone in ((len(said.plain), self._plainly_removed), (len(all_of(said)), self.removed)):
            if len(gone) > max(1, most * total):  # a contradicted one may go from the smallest
                return f"it would have removed {len(gone)} of {total} facts"
        led_to, _ = self._pointed
        gone_from = self._out_of_index
        if len(gone_from) > max(1, most * len(led_to)):
            return f"it would have left {len(gone_from)} of {len(led_to)} notes out of the index"
        return ""

    def moves(self) -> list[Moved]:
        """Return where facts went, so that who said them goes along; never to somebody else's words."""
        found = moves_between(self.scope, self.before, self.after)
        return kept_apart(found, self.said_by) if self.scope.shared else found

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        before, after = (sum(len(each.text.encode()) for each in files.values()) for files in (self.before, self.after))
        return before, after

    @cached_property
    def _pointed(self) -> tuple[frozenset[str], frozenset[str]]:
        """The notes to which the index leads, before and after, of those that are there all along."""
        texts = [_texts(self.scope, files) for files in (self.before, self.after)]
        stay = texts[0].keys() & texts[1].keys()
        before, after = (_led_to(each) & stay for each in texts)
        return before, after

    @property
    def _out_of_index(self) -> frozenset[str]:
        """The notes to which the index leads no more; an index may be cut to what is shown of it."""
        before, after = self._pointed
        return before - after if len(after) < MAX_LINES * _FULL else frozenset()

    @cached_property
    def _attribution(self) -> Attribution:
        if not self.scope.shared:
            return Attribution()
        return compared(_texts(self.scope, self.before), _texts(self.scope, self.after), self.said_by)

    @cached_property
    def _said(self) -> tuple[Claims, Claims]:
        before, after = (
            {name: text for name, text in _texts(self.scope, files).items() if not name.startswith(f"{LOGS}/")}
            for files in (self.before, self.after)
        )
        return claims(before), claims(after)

    @cached_property
    def _plainly_removed(self) -> tuple[str, ...]:
        before, after = self._said
        gone = left_out(before.plain, [*after.plain, *after.lined], context=self._context)
        return tuple(dict.fromkeys([*gone, *self._attribution.lost]))

    @cached_property
    def _removed_beside(self) -> tuple[str, ...]:
        before, after = self._said
        lined = left_out(before.lined, [*after.plain, *after.lined], context=self._context)
        return (*lined, *left_out(before.beside, all_of(after)))

    @cached_property
    def _context(self) -> Context:
        before, after = self._said
        files = (*self.before.values(), *self.after.values())
        said_by = {claim.casefold(): self.said_by.get(fact_hash(claim), ()) for claim in (*before.plain, *before.lined)}
        about = tuple(dict.fromkeys(line for each in files for line in described(each.text)))
        return Context(was=before.under, now=after.under, said_by=said_by, sentences=about)

    def _is_note(self, path: Path) -> bool:
        """Whether it is one of those that a run has to keep in order."""
        return not is_index(path.name) and not snapshots.is_log(self.scope, path)


async def speakers(scope: Scope, ledger: Sources, before: Mapping[Path, Saved]) -> Mapping[str, Collection[str]]:
    """Return who said each fact of a memory, by name, as far as that is on record."""
    hashes = {fact_hash(fact) for each in _by_note(scope, before).values() for fact in each}
    found = await ledger.sources(scope, hashes)
    return {fact: frozenset(source.speaker for source in said if source.speaker) for fact, said in found.items()}


def moves_between(scope: Scope, before: Mapping[Path, Saved], after: Mapping[Path, Saved]) -> list[Moved]:
    """Return where facts went from one state of a memory to another."""
    return moves(_by_note(scope, before), _by_note(scope, after))


def _may_write(scope: Scope, path: Path) -> bool:
    inside = path.is_relative_to(scope.memory_dir) and not path.is_relative_to(scope.memory_dir / TEAM)
    return inside and not snapshots.is_log(scope, path)


def _texts(scope: Scope, files: Mapping[Path, Saved]) -> dict[str, str]:
    return {path.relative_to(scope.memory_dir).as_posix(): saved.text for path, saved in files.items()}


def _led_to(texts: Mapping[str, str]) -> frozenset[str]:
    """Return the files that the indexes among these name, be it several in one line."""
    found = set[str]()
    for index in filter(is_index, texts):
        folder = PurePosixPath(index).parent
        named = {target for _, target in pointers(texts[index])} | set(_LINKED.findall(texts[index]))
        found.update((folder / unquote(target)).as_posix() for target in named)
    return frozenset(found)


def _by_note(scope: Scope, files: Mapping[Path, Saved]) -> dict[str, list[str]]:
    return {name: facts(text) for name, text in _texts(scope, files).items() if not is_index(name)}
