"""What tells the directory of a copy from one that was made anew in its place, or put back there from a backup."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from memory.paths import make_private

MARK = ".copy"
"""A file in T; it is hidden, so that it never travels and is no note."""
_BYTES = 64


def mark_of(directory: Path) -> str:
    """Return what marks this directory; blocking. It is made and marked if need be; empty if that can't be.

    The mark is a file with a number of its own, and when that file came about: a number that was copied along, into
    the directory of another disk or out of a backup, came about later there. That this file was only touched may look
    the same. Both cost a pull, and no text.
    """
    with suppress(OSError):
        make_private(directory)
        if stat.S_ISDIR(directory.lstat().st_mode):
            return _read(directory / MARK) or _written(directory / MARK)
    return ""


def _written(file: Path) -> str:
    with suppress(FileExistsError):  # another process was first
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w") as stream:
            stream.write(secrets.token_hex(8))
    return _read(file)


def _read(file: Path) -> str:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    with os.fdopen(handle, "rb") as stream:
        number = stream.read(_BYTES).hex()
        return f"{number}:{os.fstat(handle).st_ctime_ns}"
