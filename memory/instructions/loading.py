"""One load of instruction files: what is read, in which order, and what is left out. All of it blocks."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from memory.disk import Folder, Stored
from memory.errors import PathRefused
from memory.instructions import rules
from memory.instructions.exclusion import Exclusion
from memory.instructions.files import InstructionFile, Kind, Skipped
from memory.instructions.includes import MAX_HOPS, includes
from memory.instructions.reach import Reach
from memory.instructions.settings import InstructionSettings
from memory.metadata import parse
from memory.prompt import strip_hidden

_MOST_RULE_FILES = 1000
_DEEPEST_RULES = 12
_OUTSIDE = "it leads outside what this chat may read"
_INCLUDES_OUTSIDE = "it is loaded, but one of its includes leads outside what this chat may read"
_EXCLUDED = "it is excluded by the gateway's settings"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Occasion:
    """Why files are loaded: at the start of a session, or for a file that was `touched`.

    `already` are the paths that the session has been told before; they are not read again. What is told for touched
    files may in a whole session come to as much as its start may, and no more.
    """

    touched: Path | None = None
    already: frozenset[Path] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Raw:
    text: str
    cut: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """How a file in a rules folder is to be taken; `always`: one without `paths` is wanted too."""

    base: Path
    always: bool


class Loading:
    """Collects the files of one load in `files`, with what was left out in `skipped` and `warnings`.

    `unreadable` has the kind of each file or folder that the system does not let be read. A file is taken once,
    whatever paths and links lead to it.
    """

    def __init__(self, reach: Reach, settings: InstructionSettings, occasion: Occasion) -> None:
        self.files: list[InstructionFile] = []
        self.skipped: list[Skipped] = []
        self.warnings: list[str] = []
        self.unreadable: list[Kind] = []
        self._reach = reach
        self._settings = settings
        self._occasion = occasion
        self._excluded = Exclusion(settings.excludes)
        self._seen: set[tuple[int, int]] = set()
        self._files_left, self._bytes_left = settings.max_files, settings.total_max_bytes
        if occasion.touched is not None:
            self._files_left = 2 * settings.max_files - len(occasion.already)
            self._bytes_left = 2 * settings.total_max_bytes - _sizes(occasion.already, each=settings.file_max_bytes)

    def take(self, file: Path, kind: Kind, *, folder: Path | None = None) -> None:
        """Load a file with what it includes, if it is there; `folder` is the one that a project's file stands for."""
        self._take(file, kind, folder=folder)

    def take_rules(self, folder: Path, kind: Kind, *, base: Path, always: bool) -> None:
        """Load the rules below a folder that apply now: those for the touched file, and with `always` those for all."""
        for file in self._markdown(folder, kind, base):
            self._take(file, kind, folder=base, rule=_Rule(base=base, always=always))

    def _take(self, file: Path, kind: Kind, *, folder: Path | None, rule: _Rule | None = None) -> None:
        label = self._reach.label(file)
        try:
            real = self._reach.real(str(file), base=self._reach.work, kind=kind, folder=folder)
        except PathRefused:
            _log.warning("instructions.refused", kind=str(kind))
            if os.path.lexists(file):
                self._skip(label, _OUTSIDE)
            return
        if kind is not Kind.MANAGED and self._excluded.covers(file, real):
            if _identity(real):
                self._skip(label, _EXCLUDED)
            return
        self._load(real, kind, label=label, rule=rule)

    def _include(self, path: str, parent: InstructionFile, *, hops: int) -> None:
        try:
            beside = parent.path.parent
            real = self._reach.real(path, base=beside, kind=parent.kind, folder=beside)
        except PathRefused:
            self._skip(parent.label, _INCLUDES_OUTSIDE)
            return
        label = self._reach.label(real)
        if parent.kind is not Kind.MANAGED and self._excluded.covers(real) and _identity(real):
            self._skip(label, _EXCLUDED)
        elif hops <= MAX_HOPS:
            self._load(real, parent.kind, label=label, parent=parent, hops=hops)
        elif _identity(real):
            self._skip(label, f"includes are followed over {MAX_HOPS} files, no further")

    def _load(
        self,
        real: Path,
        kind: Kind,
        *,
        label: str,
        rule: _Rule | None = None,
        parent: InstructionFile | None = None,
        hops: int = 0,
    ) -> None:
        identity = _identity(real)
        if identity is None or identity in self._seen or real in self._occasion.already:
            return
        if len(self.files) >= self._files_left or self._bytes_left <= 0:
            self._skip(label, "there are too many instructions already")
            self._warn_of_all()
            return
        raw = self._read(real, kind, label)
        if raw is None:
            return
        text = raw.text.replace("\r\n", "\n").replace("\r", "\n")
        if rule is not None:
            text = rules.with_plain_globs(text)
            if not self._applies(rules.patterns(parse(text)[0]), rule, label):
                return
        visible = strip_hidden(text)
        file = InstructionFile(
            path=real,
            label=label,
            kind=kind,
            text=visible,
            parent=parent.path if parent else None,
            partial=raw.cut or visible != raw.text,
        )
        self._seen.add(identity)
        self.files.append(file)
        self._warn_of_size(file)
        for path in includes(visible):
            self._include(path, file, hops=hops + 1)

    def _applies(self, globs: tuple[str, ...], rule: _Rule, label: str) -> bool:
        if not globs:
            return rule.always
        if self._occasion.touched is not None:
            return rules.matches(globs, self._occasion.touched, base=rule.base)
        shown = "".join(char for char in ", ".join(globs) if char.isprintable())[:80]
        self._skip(label, f"it is told when a file is used that matches {shown}")
        return False

    def _read(self, real: Path, kind: Kind, label: str) -> _Raw | None:
        limit = min(self._settings.file_max_bytes, self._bytes_left)
        try:
            with Folder.opened(real.parent, root=self._reach.anchor(real)) as folder:
                stored = folder.read(real.name, limit=limit)
        except FileNotFoundError:
            return None
        except PathRefused:
            self._skip(label, "it is not a plain file")
            return None
        except OSError as error:
            self._closed(kind, label, error)
            return None
        return None if stored is None else self._decoded(stored, limit, label)

    def _decoded(self, stored: Stored, limit: int, label: str) -> _Raw | None:
        data = stored.data[:limit]
        if b"\0" in data:
            self._skip(label, "it is not text")
            return None
        self._bytes_left -= len(data)
        cut = len(stored.data) > limit
        if cut:
            data = data[: data.rfind(b"\n") + 1 or limit]
            self.warnings.append(f"`{label}` is too long: only its first {len(data)} bytes are used.")
            if limit < self._settings.file_max_bytes:
                self._warn_of_all()
        return _Raw(text=data.decode("utf-8-sig", errors="replace"), cut=cut)

    def _warn_of_size(self, file: InstructionFile) -> None:
        length, limit = len(file.text), self._settings.warn_characters
        if length > limit:
            _log.warning("instructions.large", kind=str(file.kind), characters=length)
            self.warnings.append(f"`{file.label}` has {length} characters; over {limit}, answers get worse and dearer.")

    def _warn_of_all(self) -> None:
        files, size = self._settings.max_files, self._settings.total_max_bytes
        warning = f"All instructions together may come to {size} bytes in {files} files: the rest is left out."
        if warning not in self.warnings:
            _log.warning("instructions.too_many", files=len(self.files), limit_files=files, limit_bytes=size)
            self.warnings.append(warning)

    def _markdown(self, folder: Path, kind: Kind, base: Path) -> Iterator[Path]:
        """Yield the Markdown files below a folder in the order of their paths, linked folders of the scope too."""
        waiting, seen, found = [folder], set[tuple[int, int]](), 0
        while waiting:
            place = waiting.pop()
            if os.path.isdir(place):  # noqa: PTH112  (pathlib's raises where a folder on the way is closed)
                identity = self._folder(place, kind, base)
                if identity is None or identity in seen or len(place.relative_to(folder).parts) > _DEEPEST_RULES:
                    continue
                seen.add(identity)
                waiting += sorted(self._entries(place, kind), reverse=True)
            elif place.suffix.lower() == ".md" and found < _MOST_RULE_FILES:
                found += 1
                yield place

    def _folder(self, place: Path, kind: Kind, base: Path) -> tuple[int, int] | None:
        try:
            facts = self._reach.real(str(place), base=self._reach.work, kind=kind, folder=base).stat()
        except PathRefused:
            self._skip(self._reach.label(place), _OUTSIDE)
            return None
        except OSError:  # it has just gone
            return None
        return facts.st_dev, facts.st_ino

    def _entries(self, folder: Path, kind: Kind) -> list[Path]:
        try:
            return list(folder.iterdir())
        except OSError as error:
            self._closed(kind, self._reach.label(folder), error)
            return []

    def _closed(self, kind: Kind, label: str, error: OSError) -> None:
        _log.warning("instructions.unreadable", kind=str(kind), errno=error.errno)
        self.unreadable.append(kind)
        self._skip(label, "it can't be read")

    def _skip(self, label: str, reason: str) -> None:
        skipped = Skipped(label=label, reason=reason)
        if skipped not in self.skipped:
            self.skipped.append(skipped)


def _sizes(paths: Iterable[Path], *, each: int) -> int:
    """Return how much these files may have come to, of none more than `each` bytes; one that is gone counts nothing."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += min(path.lstat().st_size, each)
    return total


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what is the same for all names of a file, or None if there is no plain file."""
    try:
        facts = path.lstat()
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino) if stat.S_ISREG(facts.st_mode) else None
