"""What a memory directory held before a consolidation, kept beside it: to compare, to put back, to undo.

A consolidation that ended well has an `after` beside its `before`. One that was killed has none: its files stay as it
left them until somebody copies `before` back, and the next one takes a snapshot of its own.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memory.disk import Folder, walk
from memory.errors import PathRefused
from memory.notes import content_hash
from memory.paths import TEAM, make_private
from memory.scan import LOGS
from memory.scope import Scope

_KEPT = 7
_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A file as it was."""

    text: str
    mtime_ns: int

    @property
    def hash(self) -> str:
        """The hash of the text, as notes have it."""
        return content_hash(self.text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The files of a memory directory by their absolute paths, without T; `folder` holds them on disk."""

    folder: Path
    files: Mapping[Path, Saved]

    def hash(self, path: Path) -> str:
        """Return the hash that the file had; empty if there was none."""
        saved = self.files.get(path)
        return saved.hash if saved else ""


def kept_beside(scope: Scope) -> Path:
    """Return the folder of a scope's snapshots: beside A and not in it, so that no run reads what it removed."""
    return scope.memory_dir.with_name(f".{scope.memory_dir.name}-dreams")


def take(scope: Scope, now: datetime) -> Snapshot:
    """Copy the files of A, without T, to a new folder, and forget the oldest snapshots. Blocks."""
    home = kept_beside(scope)
    folder = home / now.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    files = read_all(scope)
    _copy(folder / "before", scope, files)
    for old in sorted(path for path in home.iterdir() if path.is_dir())[:-_KEPT]:
        shutil.rmtree(old)
    return Snapshot(folder=folder, files=files)


def keep_after(snapshot: Snapshot, scope: Scope, touched: Iterable[Path]) -> None:
    """Keep beside the snapshot what the touched files hold now. Blocks."""
    now = read_all(scope)
    _copy(snapshot.folder / "after", scope, {path: now[path] for path in touched if path in now})


def reread(snapshot: Snapshot, scope: Scope) -> Snapshot:
    """Return the snapshot as it lies on disk now, where what was forgotten since is no longer in it. Blocks."""
    folder = snapshot.folder / "before"
    texts = {path: folder / path.relative_to(scope.memory_dir) for path in snapshot.files}
    files = {
        path: Saved(text=kept.read_bytes().decode(), mtime_ns=snapshot.files[path].mtime_ns)
        for path, kept in texts.items()
        if kept.is_file()
    }
    return Snapshot(folder=snapshot.folder, files=files)


def discard(snapshot: Snapshot) -> None:
    """Forget a snapshot that differs from nothing. Blocks."""
    shutil.rmtree(snapshot.folder, ignore_errors=True)


def read_all(scope: Scope) -> dict[Path, Saved]:
    """Read every Markdown file of A, without T and hidden folders; what can't be read as text is left out. Blocks."""
    return {path: saved for path in _files(scope) if (saved := read_one(scope, path)) is not None}


def is_empty(scope: Scope) -> bool:
    """Return whether A holds no Markdown file at all, without T and hidden folders. Blocks."""
    return next(_files(scope), None) is None


def read_one(scope: Scope, path: Path) -> Saved | None:
    """Read one file of A, following no link; None if there is none or it is no text. Blocks."""
    if not path.is_relative_to(scope.memory_dir):
        return None
    try:
        with Folder.opened(path.parent, root=scope.memory_dir) as at:
            stored = at.read(path.name, limit=_LARGEST)
    except (OSError, PathRefused):
        return None
    if stored is None or len(stored.data) > _LARGEST:
        return None
    try:
        return Saved(text=stored.data.decode("utf-8-sig"), mtime_ns=stored.mtime_ns)
    except UnicodeDecodeError:
        return None


def is_log(scope: Scope, path: Path) -> bool:
    """Return whether a path is that of a day log."""
    return path.is_relative_to(scope.memory_dir / LOGS)


def _files(scope: Scope) -> Iterator[Path]:
    def own(folder: str) -> bool:
        return folder != TEAM and not folder.rpartition("/")[2].startswith(".")

    for name in sorted(folder + entry.name for _, folder, entry in walk(scope.memory_dir, enter=own)):
        if not name.rpartition("/")[2].startswith("."):
            yield scope.memory_dir / name


def _copy(folder: Path, scope: Scope, files: Mapping[Path, Saved]) -> None:
    make_private(folder)
    for path, saved in files.items():
        place = folder / path.relative_to(scope.memory_dir)
        make_private(place.parent)
        place.touch(mode=0o600)
        place.write_text(saved.text, encoding="utf-8", newline="")
