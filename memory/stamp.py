"""The stamp of the last consolidation: the mtime of a file in the memory directory says when it was.

It excludes nobody (the database lease does that); its body names who set it, for whoever looks. It is set once a
consolidation has ended well, to the moment at which that began: one that failed, or was killed, was none.
"""

import errno
import os
import platform
import stat
from datetime import UTC, datetime
from pathlib import Path

NAME = ".consolidate-lock"
NEVER = datetime.fromtimestamp(0, UTC)
"""The time of the last consolidation where there was none."""

# Without O_NONBLOCK a pipe in its place would be waited on for ever.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def last_consolidated(directory: Path) -> datetime:
    """Return when the directory was last consolidated; `NEVER` if it was not or that can't be read. Blocks."""
    try:
        return datetime.fromtimestamp((directory / NAME).lstat().st_mtime, UTC)
    except OSError:
        return NEVER


def is_obstructed(directory: Path) -> bool:
    """Return whether something is in the stamp's place that can't be stamped: no plain file, or read-only. Blocks."""
    place = directory / NAME
    try:
        facts = place.lstat()
    except OSError:
        return False
    return not stat.S_ISREG(facts.st_mode) or not os.access(place, os.W_OK)


def stamp(directory: Path, when: datetime, token: int) -> None:
    """Set the time of the last consolidation, and name this host and the lease's token. Blocks; raises `OSError`."""
    moment_ns = round(when.timestamp() * 1_000_000) * 1_000
    handle = os.open(directory / NAME, _FLAGS, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, f"{NAME} is no plain file: remove it")
        os.ftruncate(handle, 0)
        os.write(handle, f"{platform.node()} {token}\n".encode())
        os.utime(handle, ns=(moment_ns, moment_ns))
        os.fsync(handle)
    finally:
        os.close(handle)
