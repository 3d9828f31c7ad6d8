"""What a memory directory held before a consolidation, kept beside it: to compare, to put back, to undo.

A consolidation that ended has a record beside its `before`, and what it wrote in `after`. One that was killed has only
the journal (`memory.journal`); whoever takes the lease next puts back what it wrote.
"""

import codecs
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Generator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from memory.decoding import decoded_exactly
from memory.disk import Folder, synced, walk
from memory.errors import PathRefused
from memory.notes import content_hash
from memory.paths import TEAM, make_private
from memory.scan import LOGS
from memory.scope import Scope

BEFORE = "before"
PRIVATE = 0o600
"""The mode that every file gets that is written through notes."""
_FORMS = "forms.json"
_GONE = ".gone-"
"""Stands before the name of a folder that is being thrown away."""
_KEPT = 7
LARGEST = 4 * 1024 * 1024
"""The bytes of the largest file that is kept."""
_WIDE = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
_OLDER = {True: "utf-8-sig", False: "utf-8"}
"""What stood in the forms of a snapshot instead of an encoding: whether there was a byte order mark."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A file as it was: its `data` can be written again to the byte, of which the text is a view."""

    text: str
    mtime_ns: int
    mode: int = PRIVATE
    encoding: str = "utf-8"
    """That of the file, with its byte order mark if it has one; what is kept is UTF-8, so that it can be scrubbed."""

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return _WIDE.get(self.encoding, b"") + self.text.encode(self.encoding)

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
        return hash_of(self.files.get(path))


def hash_of(saved: Saved | None) -> str:
    """Return the hash of a file, empty if there is none."""
    return saved.hash if saved else ""


def kept_beside(scope: Scope) -> Path:
    """Return the folder of a scope's snapshots: beside A and not in it, so that no run reads what it removed."""
    return scope.memory_dir.with_name(f".{scope.memory_dir.name}-dreams")


def folders(scope: Scope) -> list[Path]:
    """Return the folders of all snapshots that are kept, oldest first. Blocks."""
    return [path for path in _beside(scope) if not path.name.startswith(_GONE)]


def _beside(scope: Scope) -> list[Path]:
    home = kept_beside(scope)
    return sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []


def take(scope: Scope, now: datetime) -> Snapshot:
    """Copy the files and folders of A, without T, to a new folder, and forget the oldest snapshots. Blocks."""
    folder = _next_folder(scope, now)
    files = read_all(scope)
    make_private(folder / BEFORE)
    for name in _folders(scope):
        make_private(folder / BEFORE / name)
    for path, saved in files.items():
        _copy(folder / BEFORE / path.relative_to(scope.memory_dir), saved)
    _keep_forms(folder, {name_hash(scope, path): (saved.mode, saved.encoding) for path, saved in files.items()})
    for old in [each for each in folders(scope)[:-_KEPT] if each != folder]:
        discard(old)
    _sweep(scope)
    return Snapshot(folder=folder, files=files)


def _next_folder(scope: Scope, now: datetime) -> Path:
    """Return a folder whose name comes after those of all others, also where the clock was set back since."""
    name, last = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%fZ"), [folder.name for folder in folders(scope)][-1:]
    if not last or name > last[0]:
        return kept_beside(scope) / name
    moment, _, number = last[0].partition("-")
    return kept_beside(scope) / f"{moment}-{int(number or 0) + 1:06}"


def load(scope: Scope, folder: Path) -> Snapshot:
    """Return a snapshot as it lies on disk now, where what was forgotten since is no longer in it. Blocks."""
    forms, files = _forms(folder), state(scope, folder / BEFORE)
    known = {path: forms.get(name_hash(scope, path), (PRIVATE, "utf-8")) for path in files}
    return Snapshot(
        folder=folder,
        files={path: replace(saved, mode=known[path][0], encoding=known[path][1]) for path, saved in files.items()},
    )


def _forms(folder: Path) -> Mapping[str, tuple[int, str]]:
    """Return the mode and the encoding of each file, by the hash of its name."""
    try:
        kept = json.loads((folder / _FORMS).read_text()).items()
        return {name: (int(mode), _OLDER.get(form, form)) for name, (mode, form) in kept}
    except (OSError, ValueError):  # it was taken by an older version, or killed just then
        return {}


def _keep_forms(folder: Path, forms: Mapping[str, tuple[int, str]]) -> None:
    beside = folder / f"{_FORMS}.tmp"
    beside.touch(mode=PRIVATE)
    beside.write_text(json.dumps(forms))
    beside.replace(folder / _FORMS)


def name_hash(scope: Scope, path: Path) -> str:
    """Return what stands for the name of a file where no name may stand."""
    name = path.relative_to(scope.memory_dir).as_posix()
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()


def state(scope: Scope, folder: Path) -> dict[Path, Saved]:
    """Return the files of a state that is kept, by the paths that they have in A. Blocks."""
    kept = sorted(path for path in folder.rglob("*.md") if path.is_file()) if folder.is_dir() else []
    return {
        scope.memory_dir / path.relative_to(folder): Saved(
            text=path.read_bytes().decode(), mtime_ns=path.stat().st_mtime_ns
        )
        for path in kept
    }


def saved_in(scope: Scope, folder: Path, path: Path) -> Saved | None:
    """Return one file of a snapshot as it lies on disk now; None if it was not there. Blocks."""
    kept = folder / BEFORE / path.relative_to(scope.memory_dir)
    return Saved(text=kept.read_bytes().decode(), mtime_ns=kept.stat().st_mtime_ns) if kept.is_file() else None


def keep(scope: Scope, folder: Path, path: Path, text: str) -> None:
    """Have a snapshot hold a file as others have made it since, with the time that it has now. Blocks.

    A kill leaves the one or the other.
    """
    present = read_one(scope, path) or Saved(text="", mtime_ns=time.time_ns())
    _keep_forms(folder, {**_forms(folder), name_hash(scope, path): (present.mode, present.encoding)})
    place = folder / BEFORE / path.relative_to(scope.memory_dir)
    beside = place.with_suffix(".tmp")
    _copy(beside, replace(present, text=text))
    beside.replace(place)


def discard(folder: Path) -> None:
    """Throw away a snapshot that nobody needs: it is old, nothing differs from it, or all is put back. Blocks.

    It is no snapshot any more before the first of its files goes: one that has lost its record would be taken for that
    of a run that was killed, and put back.
    """
    gone = folder.with_name(f"{_GONE}{folder.name}-{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        folder.rename(gone)
        synced(folder.parent)
    shutil.rmtree(gone, ignore_errors=True)


def _sweep(scope: Scope) -> None:
    """Clear what is left of folders that were being thrown away when somebody was killed."""
    for left in _beside(scope):
        if left.name.startswith(_GONE):
            shutil.rmtree(left, ignore_errors=True)


def read_all(scope: Scope) -> dict[Path, Saved]:
    """Read every Markdown file of A, without T and hidden folders; what can't be read as text is left out. Blocks."""
    return {path: saved for path in sorted(_files(scope)) if (saved := read_one(scope, path)) is not None}


def is_empty(scope: Scope) -> bool:
    """Return whether A holds no Markdown file at all, without T and hidden folders. Blocks."""
    with closing(_files(scope)) as files:
        return next(files, None) is None


def had_folder(folder: Path, name: str) -> bool:
    """Return whether there was a folder of this name, given relative to A, when a snapshot was taken. Blocks."""
    return (folder / BEFORE / name).is_dir()


def read_one(scope: Scope, path: Path) -> Saved | None:
    """Read one file of A, following no link; None if there is none or it is no text. Blocks."""
    if not path.is_relative_to(scope.memory_dir):
        return None
    try:
        with Folder.opened(path.parent, root=scope.memory_dir) as at:
            stored = at.read(path.name, limit=LARGEST)
    except (OSError, PathRefused):
        return None
    if stored is None or len(stored.data) > LARGEST:
        return None
    try:
        text, mode = decoded_exactly(stored.data), stat.S_IMODE(path.lstat().st_mode)
    except (UnicodeDecodeError, OSError):
        return None
    return Saved(text=text, mtime_ns=stored.mtime_ns, mode=mode, encoding=_encoding(stored.data))


def _encoding(data: bytes) -> str:
    marks = {**_WIDE, "utf-8-sig": codecs.BOM_UTF8}
    return next((name for name, mark in marks.items() if data.startswith(mark)), "utf-8")


def is_log(scope: Scope, path: Path) -> bool:
    """Return whether a path is that of a day log."""
    return path.is_relative_to(scope.memory_dir / LOGS)


def _files(scope: Scope) -> Generator[Path]:
    for _, folder, entry in walk(scope.memory_dir, enter=_is_own):
        if not entry.name.startswith("."):
            yield scope.memory_dir / folder / entry.name


def _folders(scope: Scope) -> list[str]:
    """Return the names of all folders, also of those that hold nothing."""
    found: list[str] = []

    def enter(folder: str) -> bool:
        found.extend([folder] if _is_own(folder) else [])
        return _is_own(folder)

    for _ in walk(scope.memory_dir, enter=enter):
        pass
    return found


def _is_own(folder: str) -> bool:
    return folder != TEAM and not folder.rpartition("/")[2].startswith(".")


def _copy(place: Path, saved: Saved) -> None:
    """Write a copy that is on the disk when this returns, with the time of the original."""
    make_private(place.parent)
    place.touch(mode=0o600)
    with place.open("w", encoding="utf-8", newline="") as stream:
        stream.write(saved.text)
        stream.flush()
        os.fsync(stream.fileno())
    os.utime(place, ns=(saved.mtime_ns, saved.mtime_ns))
