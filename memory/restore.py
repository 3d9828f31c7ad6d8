"""Puts back what a run wrote, and nothing else: what others changed since is merged where that is safe, or left."""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import structlog

from memory import snapshot as snapshots
from memory.disk import Folder
from memory.errors import Conflict, LeaseLost, PathRefused, WriteRefused
from memory.index import INDEX, merged, pointers
from memory.journal import Written
from memory.metadata import parse
from memory.notes import Notes
from memory.ports import Leases
from memory.scope import Scope
from memory.snapshot import Saved, Snapshot, hash_of

_log = structlog.get_logger(__name__)
_TRIES = 5
_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """Which files are as they were again, which hold besides what others have added, and which were left."""

    back: tuple[Path, ...] = ()
    merged: tuple[Path, ...] = ()
    left: tuple[Path, ...] = ()


async def put_back(
    scope: Scope, before: Snapshot, written: Mapping[Path, Written], *, notes: Notes, leases: Leases
) -> Restored:
    """Put back the run's files, indexes last: then lines that point to its new notes have lost their files.

    Doing it again changes nothing, so that one that was cut short can be repeated.
    """
    back, mixed, left = list[Path](), list[Path](), list[Path]()
    inside = (path for path in written if path.is_relative_to(scope.memory_dir))
    for path in sorted(inside, key=lambda path: (path.name == INDEX, path)):
        end = await _Putting(scope, path, before, written[path], notes, leases)()
        if end is not None:
            {"back": back, "merged": mixed, "left": left}[end].append(path)
    return Restored(back=tuple(back), merged=tuple(mixed), left=tuple(left))


@dataclass(frozen=True, slots=True)
class _Putting:
    """The putting back of one file."""

    scope: Scope
    path: Path
    before: Snapshot
    run: Written
    notes: Notes
    leases: Leases

    @property
    def saved(self) -> Saved | None:
        return self.before.files.get(self.path)

    async def __call__(self) -> str | None:
        """Return what became of it; None if it was as before already."""
        for _ in range(_TRIES):
            present = await anyio.to_thread.run_sync(snapshots.read_one, self.scope, self.path)
            if hash_of(present) == hash_of(self.saved):
                await self._set_time()
                return None
            text = _wanted(self.path, self.before, self.run, present)
            if text is None:
                _log.warning("consolidation_file_left", reason="somebody else has changed it since")
                return "left"
            try:
                await self._put(text, hash_of(present))
            except Conflict:
                continue
            except (LeaseLost, PathRefused, WriteRefused) as error:
                _log.warning("consolidation_file_left", reason=str(error))
                return "left"
            return "back" if text == (self.saved.text if self.saved else "") else "merged"
        return "left"

    async def _put(self, text: str, expected: str) -> None:
        if text or self.saved is not None:
            note = await self.notes.write(self.scope, self.path, text, expected=expected)
            if self.saved is not None and note.text == self.saved.text:
                await self._set_time()
        elif self.path.name == INDEX:  # which nobody else ever deletes
            async with self.leases.hold(f"memory:{self.scope.memory_dir}", seconds=_SECONDS, wait=_SECONDS):
                await anyio.to_thread.run_sync(_remove, self.scope, self.path, expected)
        else:
            await self.notes.delete(self.scope, self.path, expected=expected)

    async def _set_time(self) -> None:
        if self.saved is not None:
            await anyio.to_thread.run_sync(_set_time, self.path, self.saved.mtime_ns)


def _wanted(path: Path, before: Snapshot, run: Written, present: Saved | None) -> str | None:
    """Return what the file should hold, "" for nothing; None if it has to stay as it is."""
    saved = before.files.get(path)
    text, there = (each.text if each else "" for each in (saved, present))
    if path.name == INDEX:
        # A line of the run's goes as well, unless it names a new note that had to be left.
        ours = {line for line, to in pointers(run.text or "") if path.parent / to in before.files}
        seen = ours.union(line for line, _ in pointers(text))
        return merged(there, text, seen=seen, exists=lambda to: _exists(path, to))
    if hash_of(present) in run.hashes:
        return text
    if saved is None or present is None or run.text is None:
        return None
    return with_changes(text, base=run.text, theirs=there)


def with_changes(text: str, *, base: str, theirs: str) -> str | None:
    """Return `text` with the lines that somebody added to `base` or took from it; None if that is not safe.

    What they took must stand in `text` as well, and what is above the text of a note must be as it was.
    """
    (base_head, base_body), (their_head, their_body) = parse(base), parse(theirs)
    if base_head != their_head:
        return None
    old, new = base_body.splitlines(), their_body.splitlines()
    added, gone = _more(new, old), Counter(line for line in _more(old, new) if line.strip())
    lines = text.splitlines()
    if gone - Counter(lines):
        return None
    kept = []
    for line in lines:
        if gone[line]:
            gone[line] -= 1
        else:
            kept.append(line)
    more = [line for line in added if line.strip() and line not in kept]
    return "\n".join([*kept, *more, ""])


def _more(these: list[str], than: list[str]) -> list[str]:
    left = Counter(than)
    more = []
    for line in these:
        if left[line]:
            left[line] -= 1
        else:
            more.append(line)
    return more


def _exists(index: Path, target: str) -> bool:
    return (index.parent / target).is_file()


def _remove(scope: Scope, path: Path, expected: str) -> None:
    if (actual := hash_of(snapshots.read_one(scope, path))) != expected:
        raise Conflict("the index was changed just now", actual=actual)
    with Folder.opened(path.parent, root=scope.memory_dir) as at:
        at.remove(path.name)


def _set_time(path: Path, moment_ns: int) -> None:
    with suppress(FileNotFoundError):  # somebody may take the file away at any time
        os.utime(path, ns=(moment_ns, moment_ns), follow_symlinks=False)
