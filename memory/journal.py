"""What a consolidation writes, noted before it does so beside its snapshot: after a kill it is known what was its own.

Beside `before` there are: `journal` (a line for each change that was about to be made: the hash of the file's name and
that of its text), `after` (the texts), `progress.json` while the run is under way, `stop` if somebody wants it to end,
and `record.json` once it has ended. Neither a name nor a word of a note is outside of the two states, which are
cleared when something is forgotten.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memory import snapshot as snapshots
from memory.disk import synced
from memory.notes import content_hash
from memory.paths import make_private
from memory.scope import Scope

AFTER = "after"
_JOURNAL = "journal"
_RECORD = "record.json"
_PROGRESS = "progress.json"
_STOP = "stop"
_NOTHING = "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Survival:
    """How much of a memory was left: facts, as `memory.claims` counts them, notes without indexes and logs, and bytes.

    Bytes are those of all files, as UTF-8.
    """

    facts_before: int
    facts_kept: int
    notes_before: int
    notes_after: int
    bytes_before: int
    bytes_after: int

    @property
    def share(self) -> float:
        """The share of the facts that survived, from 0 to 1; 1 where there were none."""
        return self.facts_kept / self.facts_before if self.facts_before else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Settling:
    """What is noted in A once a run has ended well: the stamp of a dream, or that day logs are sorted."""

    began_at: datetime | None = None
    """The time that a dream's stamp is set to."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """The day logs that were sorted, by their paths in A (which hold nothing but a date), with their hashes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What a consolidation that has ended left, in numbers; of one that was not kept there is no survival."""

    files: int
    survival: Survival | None = None
    undone_at: datetime | None = None
    settling: Settling = field(default_factory=Settling)
    settled: bool = True
    """Whether that was noted; else whoever comes next does so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Underway:
    """How far a run is: model turns and tools so far, and how many files it has written, at least.

    `host` and `token` name the holder of the lease; when that runs out stands in the database.
    """

    host: str = ""
    token: int = 0
    turn: int = 0
    tools: int = 0
    files: int = 0

    @property
    def phase(self) -> str:
        """`starting` before the first tool, `updating` from the first write on, `looking` between."""
        return "updating" if self.files else "looking" if self.tools else "starting"


@dataclass(frozen=True, slots=True)
class Written:
    """What a run has put into one file: every version by its hash ("" is a deletion), and the last one's text."""

    hashes: frozenset[str] = field(default_factory=frozenset)
    text: str | None = None


class Journal:
    """The journal of one snapshot. Everything blocks."""

    def __init__(self, scope: Scope, folder: Path) -> None:
        self._scope = scope
        self.folder = folder

    def begin(self) -> None:
        """Say that from now on the run may write; before this, a kill has changed nothing."""
        self._append("")
        synced(self.folder)

    def note(self, path: Path, text: str) -> None:
        """Note that a file is about to become `text`, or to be deleted if that is empty."""
        kept = self.folder / AFTER / path.relative_to(self._scope.memory_dir)
        if text:
            make_private(kept.parent)
            kept.touch(mode=0o600)
            kept.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        else:
            kept.unlink(missing_ok=True)
            self.touch(path, "")
        self.touch(path, content_hash(text))

    def touch(self, path: Path, version: str) -> None:
        """Note that the run may have given a file this content, by its hash."""
        self._append(f"{self._name(path)} {version or _NOTHING}\n")

    def written(self, besides: Iterable[Path] = ()) -> dict[Path, Written]:
        """Return what the run wrote, of the files that are or were there; `besides` are more that it may be."""
        after = snapshots.state(self._scope, self.folder / AFTER)
        before = snapshots.load(self._scope, self.folder).files
        noted = self._noted()
        inside = (path for path in besides if path.is_relative_to(self._scope.memory_dir))
        known = {*before, *after, *snapshots.read_all(self._scope), *inside}
        return {
            path: Written(noted[name], after[path].text if path in after else None)
            for path in sorted(known)
            if (name := self._name(path)) in noted
        }

    def _noted(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        with suppress(FileNotFoundError):
            for line in (self.folder / _JOURNAL).read_text().splitlines():
                name, _, version = line.partition(" ")
                if version:  # else the line itself was cut off, and nothing was written after it
                    found.setdefault(name, set()).add("" if version == _NOTHING else version)
        return {name: frozenset(versions) for name, versions in found.items()}

    def _name(self, path: Path) -> str:
        return snapshots.name_hash(self._scope, path)

    def _append(self, line: str) -> None:
        handle = os.open(self.folder / _JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, line.encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def tell(self, underway: Underway) -> None:
        """Keep how far the run is, for whoever asks."""
        _replaced(self.folder / _PROGRESS, asdict(underway))

    def stopped(self) -> bool:
        """Return whether somebody wants the run to end."""
        return (self.folder / _STOP).exists()

    def stop(self) -> None:
        """Ask the run to end, wherever it is."""
        (self.folder / _STOP).touch(mode=0o600)

    def end(self, record: Record) -> None:
        """Record how the run ended."""
        _replaced(self.folder / _RECORD, asdict(record))
        (self.folder / _PROGRESS).unlink(missing_ok=True)
        synced(self.folder)


def unfinished(scope: Scope) -> list[Path]:
    """Return the snapshots of runs that have not ended, oldest first: one runs, or was killed. Blocks."""
    return [folder for folder in snapshots.folders(scope) if not (folder / _RECORD).exists()]


def has_begun(folder: Path) -> bool:
    """Return whether the run of a snapshot may have written. Blocks."""
    return (folder / _JOURNAL).exists()


def underway(folder: Path) -> Underway:
    """Return how far a run is. Blocks."""
    try:
        return Underway(**json.loads((folder / _PROGRESS).read_text()))
    except (OSError, ValueError, TypeError):  # it has told nothing yet, or ends just now
        return Underway()


def records(scope: Scope) -> list[tuple[Path, Record]]:
    """Return the runs that have ended and are kept, oldest first. Blocks."""
    return [
        (folder, record) for folder in snapshots.folders(scope) if (record := _record(folder / _RECORD)) is not None
    ]


def unsettled(scope: Scope) -> list[tuple[Path, Record]]:
    """Return the runs that ended well, stand, and of which that is not noted yet, oldest first. Blocks."""
    return [each for each in records(scope) if not each[1].settled and each[1].undone_at is None]


def last_change(scope: Scope) -> tuple[Path, Record] | None:
    """Return the latest run that changed something, also if it was taken back since. Blocks."""
    changed = [each for each in records(scope) if each[1].survival is not None]
    return changed[-1] if changed else None


def undone(scope: Scope, folder: Path, record: Record, when: datetime) -> None:
    """Record that what a run did was taken back. Blocks."""
    Journal(scope, folder).end(replace(record, undone_at=when))


def _record(path: Path) -> Record | None:
    try:
        kept = json.loads(path.read_text())
        survival = kept["survival"] and Survival(**_known(Survival, kept["survival"]))
        undone_at = kept["undone_at"] and datetime.fromisoformat(kept["undone_at"])
        settling = _settling(kept.get("settling") or {})
        return Record(**{**_known(Record, kept), "survival": survival, "undone_at": undone_at, "settling": settling})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _known(form: type[Record | Survival], kept: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is kept of such a record, without what older versions kept as well."""
    return {each.name: kept[each.name] for each in fields(form) if each.name in kept}


def _settling(kept: Mapping[str, Any]) -> Settling:
    began_at = kept.get("began_at")
    return Settling(began_at=began_at and datetime.fromisoformat(began_at), logs=dict(kept.get("logs") or {}))


def _replaced(path: Path, value: Mapping[str, object]) -> None:
    beside = path.with_suffix(".tmp")
    beside.touch(mode=0o600)
    beside.write_text(json.dumps(value, default=str))
    beside.replace(path)
