"""Files of notes, reached by directory handles so that no link is ever followed. All of it blocks."""

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from memory.errors import PathRefused
from memory.paths import make_private

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DEEPEST = 32
"""How many folders within one another are looked into; with a thousand of them neither paths nor recursion cope."""
_LEFT_BEHIND = re.compile(r"\.[0-9a-f]{16}\.tmp\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """The bytes of a file, when they were written, and whether its owner may change them."""

    data: bytes
    mtime_ns: int
    read_only: bool


class Folder:
    """An open directory: what is done through it happens there, whatever its path means by then."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    @contextmanager
    def opened(cls, path: Path, *, root: Path, create: bool = False) -> Iterator[Self]:
        """Open `path` under the real path `root`, name by name; with `create` missing ones are made 0700.

        Raises `FileNotFoundError`, or `PathRefused` if a link or a file stands in the way.
        """
        if create:
            make_private(root)
        try:
            handle = _descended(path, root, create=create)
            try:
                yield cls(handle)
            finally:
                os.close(handle)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                raise PathRefused("a link or a file stands where this path needs a folder") from None
            raise

    def read(self, name: str, *, limit: int) -> Stored | None:
        """Return the file, or None if there is none; reads at most `limit` + 1 bytes, to tell too much."""
        try:
            handle = open_plain(name, self._handle)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise PathRefused("this is not a plain file") from None
            raise
        facts = os.fstat(handle)
        with os.fdopen(handle, "rb") as stream:
            return Stored(
                data=stream.read(limit + 1),
                mtime_ns=facts.st_mtime_ns,
                read_only=not facts.st_mode & stat.S_IWUSR,
            )

    def replace(self, name: str, data: bytes, *, unless: Callable[[], None] = lambda: None) -> int:
        """Put `data` in the place of `name`, all or nothing, durable on return; returns its mtime in ns.

        `unless` is called at the last moment, when the data is on the disk already; if it raises, nothing is replaced.
        """
        self._sweep()
        temporary = f".{secrets.token_hex(8)}.tmp"
        handle = os.open(temporary, _CREATE, 0o600, dir_fd=self._handle)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(handle)
                written = os.fstat(handle).st_mtime_ns
            unless()
            os.rename(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._handle)
            raise
        os.fsync(self._handle)
        return written

    def remove(self, name: str) -> None:
        """Remove the file, durable on return."""
        os.unlink(name, dir_fd=self._handle)
        os.fsync(self._handle)

    def holds(self, relative: str) -> bool:
        """Return whether a plain file is at this path below the folder."""
        parts = PurePosixPath(relative).parts
        if not parts or ".." in parts or parts[0] == "/" or "\0" in relative:
            return False
        try:
            facts = os.stat(relative, dir_fd=self._handle, follow_symlinks=False)
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(facts.st_mode)

    def _sweep(self) -> None:
        """Clear what a writer left who died or lost its lease; only the holder of the lease comes here."""
        for name in os.listdir(self._handle):  # noqa: PTH208  (pathlib can not list a handle)
            if _LEFT_BEHIND.match(name):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._handle)


def walk(top: Path, *, enter: Callable[[str], bool]) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
    """Yield the Markdown files below a directory: an open handle of their folder, its path and `/`, the entry.

    `enter` is asked about each folder by its path from the top. Links and hidden files are passed over, and so is what
    can't be listed or lies deeper than 32 folders. The handle is closed when the next one is asked for.
    """
    with suppress(OSError):
        handle = os.open(top, _DIRECTORY)
        try:
            yield from _below(handle, "", enter, DEEPEST)
        finally:
            os.close(handle)


def _below(
    handle: int, folder: str, enter: Callable[[str], bool], depth: int
) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
    with os.scandir(handle) as listing:
        entries = list(listing)
    for entry in entries:
        name = entry.name
        if name.endswith(".md") and not name.startswith(".") and entry.is_file(follow_symlinks=False):
            yield handle, folder, entry
        elif depth and entry.is_dir(follow_symlinks=False) and enter(folder + name):
            with suppress(OSError):
                inner = os.open(name, _DIRECTORY, dir_fd=handle)
                try:
                    yield from _below(inner, f"{folder}{name}/", enter, depth - 1)
                finally:
                    os.close(inner)


def synced(folder: Path) -> None:
    """Have what was made, renamed or removed in a folder on the disk."""
    handle = os.open(folder, _DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_plain(name: str, folder: int) -> int:
    """Open a plain file in an open folder and return its handle; EINVAL for anything else. Never waits on a pipe."""
    handle = os.open(name, _READ, dir_fd=folder)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "not a plain file")


def _descended(path: Path, root: Path, *, create: bool) -> int:
    """Open the folder name by name, with one handle at a time: a path may have more names than a process files."""
    handle = os.open(root, _DIRECTORY)
    for name in path.relative_to(root).parts:
        outer = handle
        try:
            handle = _step(outer, name, create=create)
        finally:
            os.close(outer)
    return handle


def _step(parent: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
        os.fsync(parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)
