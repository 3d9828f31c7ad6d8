"""The headers of a directory's notes and the manifest that lists them for a model."""

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio.to_thread
import structlog

from memory.decoding import decoded
from memory.disk import open_plain, walk
from memory.index import INDEX
from memory.metadata import parse
from memory.paths import TEAM
from memory.scope import Scope

TYPES = ("user", "feedback", "project", "reference")
"""What a note may say of its kind; any other value counts as none."""
LOGS = "logs"
_HEAD_LINES = 30
_HEAD_BYTES = 64 * 1024
_DESCRIPTION = 300
_REMEMBERED_NOTES = 200_000
_SETTLED_NS = 100_000_000
"""How old a change must be before its time stamp tells it from a later one; kernels stamp in steps of up to 10 ms."""
_UNLISTABLE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteHeader:
    """What a manifest says of a note; `name` is relative to the directory, with `/`, `mtime` in seconds."""

    path: Path
    name: str
    mtime: float
    type: str | None
    description: str
    team: bool


_Mark = tuple[int, int, int, int]
_Head = tuple[str | None, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Listing:
    """What a scan found: by name for the next scan, newest first for the caller; `began` is monotonic time."""

    began: float
    notes: dict[str, tuple[_Mark | None, NoteHeader]] = field(default_factory=dict)
    headers: Sequence[NoteHeader] = ()
    passed_over: int = 0


class Scans(Protocol):
    """Lists the notes of a scope, newest first; the port of whoever needs no more of `Scanner`."""

    async def scan(self, scope: Scope) -> list[NoteHeader]:
        """Return the headers, without the index and the day logs."""


class Scanner:
    """Scans directories and remembers the headers of files that have not changed since.

    A file counts as unchanged while its change times, size and inode stay; one that was changed within the last
    tenth of a second is read again by the next scan, since a second change could bear the same time.
    """

    def __init__(self, *, limit: int | None = 200, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._limit = limit
        self._now_ns = now_ns
        self._known: OrderedDict[tuple[Path, Path | None], _Listing] = OrderedDict()

    async def scan(self, scope: Scope, *, skip: Collection[Path] = (), since: float | None = None) -> list[NoteHeader]:
        """Return the headers of A's notes, newest first, with those of T where the scope has it.

        With `since`, a moment of `time.monotonic()`, the last scan stands if it began no earlier: whoever looks
        several times within one turn walks the directory once.
        """
        return await self.scan_directory(scope.memory_dir, skip=skip, team=scope.team_dir, since=since)

    async def scan_directory(
        self,
        directory: Path,
        *,
        skip: Collection[Path] = (),
        team: Path | None = None,
        since: float | None = None,
    ) -> list[NoteHeader]:
        """Return the headers of the notes below a directory, newest first, `skip` left out, then capped.

        Indexes, day logs, what is hidden, links and files that can't be read are passed over, and `team/` unless it
        is `team`. Never raises: a directory that can't be listed has no notes. A caller that is cancelled does not
        wait for the disk.
        """
        key = (directory, team)
        listing = self._known.get(key)
        if listing is None or since is None or listing.began < since:
            look = partial(_scan, directory, team, listing, began=time.monotonic(), now_ns=self._now_ns())
            found = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
            self._remember(key, found, before=listing)
            listing = found
        if not skip:
            return list(listing.headers[: self._limit])
        left_out = frozenset(skip)
        return [header for header in listing.headers if header.path not in left_out][: self._limit]

    def _remember(self, key: tuple[Path, Path | None], found: _Listing, *, before: _Listing | None) -> None:
        if found.passed_over != (before.passed_over if before else 0):
            _log.warning("memory.files_passed_over", count=found.passed_over)
        later = self._known.get(key)
        if later is None or later.began <= found.began:  # scans of one directory may overtake each other
            self._known[key] = found
            self._known.move_to_end(key)
        while len(self._known) > 1 and sum(len(each.headers) for each in self._known.values()) > _REMEMBERED_NOTES:
            self._known.popitem(last=False)


def manifest(headers: Sequence[NoteHeader]) -> str:
    """Return one line per note: type tag, name, time of the last change in UTC, description if any."""
    return "\n".join(_line(header) for header in headers)


def _line(header: NoteHeader) -> str:
    tag = f"[{header.type}] " if header.type else ""
    tail = f": {header.description}" if header.description else ""
    return f"- {tag}{header.name} ({_iso(header.mtime)}){tail}"


def _iso(mtime: float) -> str:
    try:
        moment = datetime.fromtimestamp(mtime, UTC)
    except (ValueError, OverflowError, OSError):  # a file may carry a time that no calendar has
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _scan(directory: Path, team: Path | None, before: _Listing | None, *, began: float, now_ns: int) -> _Listing:
    known = before.notes if before else {}
    notes: dict[str, tuple[_Mark | None, NoteHeader]] = {}
    same, passed_over = True, 0
    for handle, folder, entry in walk(directory, enter=partial(_entered, shared=team == directory / TEAM)):
        name = folder + entry.name
        try:
            facts = entry.stat(follow_symlinks=False)
        except OSError:  # it has vanished since it was listed
            continue
        mark = (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino)
        old = known.get(name)
        if old is not None and old[0] == mark:
            notes[name] = old
            continue
        if entry.name == INDEX:
            continue
        head = None if _UNLISTABLE.search(entry.name) else _head_or_none(entry.name, handle)
        if head is None:
            passed_over += 1
            continue
        same = False
        header = _header(directory, name, facts.st_mtime_ns / 1e9, head, team=team)
        notes[name] = (mark if facts.st_ctime_ns < now_ns - _SETTLED_NS else None, header)
    if before is not None and same and len(notes) == len(known):
        return _Listing(began=began, notes=known, headers=before.headers, passed_over=passed_over)
    headers = sorted((header for _, header in notes.values()), key=lambda header: (-header.mtime, header.name))
    return _Listing(began=began, notes=notes, headers=headers, passed_over=passed_over)


def _entered(folder: str, *, shared: bool) -> bool:
    if folder == LOGS or folder.rpartition("/")[2].startswith("."):
        return False
    return (folder != TEAM or shared) and not _UNLISTABLE.search(folder)


def _header(directory: Path, name: str, mtime: float, head: _Head, *, team: Path | None) -> NoteHeader:
    path = directory / name
    inside = team is not None and path.is_relative_to(team)
    return NoteHeader(path=path, name=name, mtime=mtime, type=head[0], description=head[1], team=inside)


def _head_or_none(name: str, folder: int) -> _Head | None:
    """Return what `_head` does, or None whatever goes wrong: one bad file must not take all others with it."""
    try:
        return _head(name, folder)
    except Exception as error:  # noqa: BLE001  (an edge: these are anybody's files)
        _log.warning("memory.file_failed", error=type(error).__name__)
        return None


def _head(name: str, folder: int) -> _Head | None:
    """Return type and description out of a file's first 30 lines, or None if it can't be read."""
    try:
        with os.fdopen(open_plain(name, folder), "rb", buffering=0) as stream:
            data = stream.read(_HEAD_BYTES)
    except OSError:
        return None
    lines = decoded(data).replace("\r", "").split("\n", _HEAD_LINES)[:_HEAD_LINES]
    metadata, _ = parse("\n".join(lines))
    kind = metadata.get("type")
    return (kind if isinstance(kind, str) and kind in TYPES else None), _described(metadata.get("description"))


def _described(value: object) -> str:
    if not value:
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = _INVISIBLE.sub(" ", text[: _DESCRIPTION * 10])
    text = " ".join(text.split())
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 1].rstrip() + "…"
