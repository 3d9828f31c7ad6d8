"""Files of notes, reached by directory handles so that no link is ever followed. All of it blocks."""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from memory.errors import PathRefused
from memory.paths import make_private

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
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
        handles: list[int] = []
        try:
            handles.append(os.open(root, _DIRECTORY))
            for name in path.relative_to(root).parts:
                handles.append(_step(handles[-1], name, create=create))
            yield cls(handles[-1])
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                raise PathRefused("a link or a file stands where this path needs a folder") from None
            raise
        finally:
            for handle in handles:
                os.close(handle)

    def read(self, name: str, *, limit: int) -> Stored | None:
        """Return the file, or None if there is none; reads at most `limit` + 1 bytes, to tell too much."""
        try:
            handle = os.open(name, _READ, dir_fd=self._handle)
        except FileNotFoundError:
            return None
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            os.close(handle)
            raise PathRefused("this is not a plain file")
        with os.fdopen(handle, "rb") as stream:
            return Stored(
                data=stream.read(limit + 1),
                mtime_ns=facts.st_mtime_ns,
                read_only=not facts.st_mode & stat.S_IWUSR,
            )

    def replace(self, name: str, data: bytes) -> int:
        """Put `data` in the place of `name`, all or nothing, durable on return; returns its mtime in ns."""
        self._sweep()
        temporary = f".{secrets.token_hex(8)}.tmp"
        handle = os.open(temporary, _CREATE, 0o600, dir_fd=self._handle)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(handle)
                written = os.fstat(handle).st_mtime_ns
            os.rename(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except OSError:
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
