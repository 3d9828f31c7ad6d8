"""The stamp of the last consolidation: the mtime of a file in the memory directory says when it was.

It excludes nobody (the database lease does that); its body names who set it, for whoever looks.
"""

import os
import platform
from datetime import datetime
from pathlib import Path

NAME = ".consolidate-lock"

_NANOSECONDS = 1_000_000_000
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def last_consolidated_ns(directory: Path) -> int:
    """Return when the directory was last consolidated, in ns since the epoch; 0 if never or unreadable. Blocks."""
    try:
        return (directory / NAME).lstat().st_mtime_ns
    except OSError:
        return 0


def last_consolidated(directory: Path) -> float:
    """Return when the directory was last consolidated, in seconds since the epoch; 0 if never or unreadable. Blocks."""
    return last_consolidated_ns(directory) / _NANOSECONDS


def stamp(directory: Path, when: datetime, token: int) -> None:
    """Set the time of the last consolidation, and name this host and the lease's token. Blocks; raises `OSError`."""
    _set(directory / NAME, f"{platform.node()} {token}\n", round(when.timestamp() * 1_000_000) * 1_000)


def restore(directory: Path, previous_ns: int) -> None:
    """Put back what `last_consolidated_ns` said before: the time without a body, or no file for 0. Blocks."""
    if previous_ns == 0:
        (directory / NAME).unlink(missing_ok=True)
    else:
        _set(directory / NAME, "", previous_ns)


def _set(path: Path, body: str, moment_ns: int) -> None:
    handle = os.open(path, _FLAGS, 0o600)
    try:
        os.write(handle, body.encode())
        os.utime(handle, ns=(moment_ns, moment_ns))
        os.fsync(handle)
    finally:
        os.close(handle)
