"""The headers of a directory's notes and the manifest that lists them for a model."""

import os
import re
import stat
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio.to_thread

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
_DIRECTORIES = 512
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteHeader:
    """What a manifest says of a note; `name` is relative to the directory, with `/`, `mtime` in seconds."""

    path: Path
    name: str
    mtime: float
    type: str | None
    description: str
    team: bool


_Key = tuple[str, int, int, int]
_Head = tuple[str | None, str]


class Scanner:
    """Scans directories and remembers the headers of files that have not changed since."""

    def __init__(self, *, limit: int | None = 200) -> None:
        self._limit = limit
        self._known: OrderedDict[Path, dict[_Key, _Head]] = OrderedDict()

    async def scan(self, scope: Scope, *, skip: Collection[Path] = ()) -> list[NoteHeader]:
        """Return the headers of A's notes, newest first, with those of T where the scope has it."""
        return await self.scan_directory(scope.memory_dir, skip=skip, team=scope.team_dir)

    async def scan_directory(
        self, directory: Path, *, skip: Collection[Path] = (), team: Path | None = None
    ) -> list[NoteHeader]:
        """Return the headers of the notes below a directory, newest first, `skip` left out, then capped.

        Indexes, day logs, links and files that can't be read are passed over, and `team/` unless it is
        `team`. Never raises: a directory that can't be listed has no notes.
        """
        known = self._known.get(directory, {})
        headers, heads = await anyio.to_thread.run_sync(_scan, directory, known, team)
        self._known[directory] = heads
        self._known.move_to_end(directory)
        while len(self._known) > _DIRECTORIES:
            self._known.popitem(last=False)
        left_out = frozenset(skip)
        return [header for header in headers if header.path not in left_out][: self._limit]


async def scan(
    directory: Path, *, limit: int = 200, skip: Collection[Path] = (), team: Path | None = None
) -> list[NoteHeader]:
    """Scan a directory once, as `Scanner.scan_directory` does, and remember nothing."""
    return await Scanner(limit=limit).scan_directory(directory, skip=skip, team=team)


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


def _scan(directory: Path, known: dict[_Key, _Head], team: Path | None) -> tuple[list[NoteHeader], dict[_Key, _Head]]:
    headers: list[NoteHeader] = []
    heads: dict[_Key, _Head] = {}
    for entry, facts in _files(directory, directory, team):
        key = (entry.path, facts.st_mtime_ns, facts.st_size, facts.st_ino)
        head = known.get(key) or _head(entry.path)
        if head is None:
            continue
        heads[key] = head
        path = Path(entry.path)
        headers.append(
            NoteHeader(
                path=path,
                name=path.relative_to(directory).as_posix(),
                mtime=facts.st_mtime,
                type=head[0],
                description=head[1],
                team=team is not None and path.is_relative_to(team),
            )
        )
    headers.sort(key=lambda header: (-header.mtime, header.name))
    return headers, heads


def _files(directory: Path, top: Path, team: Path | None) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """Walk the Markdown files; a link is neither a file nor a directory here."""
    try:
        with os.scandir(directory) as listing:
            entries = list(listing)
    except OSError:
        return
    for entry in entries:
        if _CONTROL.search(entry.name):  # it would break the manifest's lines
            continue
        if entry.is_dir(follow_symlinks=False):
            place = Path(entry.path)
            hidden = entry.name.startswith(".")
            outside = place.parent == top and (entry.name == LOGS or (entry.name == TEAM and place != team))
            if not hidden and not outside:
                yield from _files(place, top, team)
        elif entry.name.endswith(".md") and entry.name != INDEX and entry.is_file(follow_symlinks=False):
            try:
                yield entry, entry.stat(follow_symlinks=False)
            except OSError:
                continue


def _head(path: str) -> _Head | None:
    """Return type and description out of a file's first 30 lines, or None if it can't be read."""
    try:
        handle = os.open(path, _READ)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            data = stream.read(_HEAD_BYTES)
    except OSError:
        return None
    lines = data.decode("utf-8-sig", "replace").replace("\r", "").split("\n")[:_HEAD_LINES]
    metadata, _ = parse("\n".join(lines))
    kind = metadata.get("type")
    return (kind if isinstance(kind, str) and kind in TYPES else None), _described(metadata.get("description"))


def _described(value: object) -> str:
    if not value:
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 1].rstrip() + "…"
