"""Which writes of a run failed for no fault of whoever asked for them, and were not made good since."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog

from memory.errors import LeaseLost

_PIECES = {"write": "", "delete": "", "append": "content", "edit": "new_string"}
"""The tools that write; of those that change a part of a file, the argument that says which part it becomes."""
_OF_THE_PATH = frozenset({
    errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.ENXIO,
})  # fmt: skip
"""What the file system says of a path that is no note; of all else whoever named the path is innocent."""

log = structlog.get_logger(__name__)


class Failures:
    """Keeps what could not be written: the disk is full, the folder read-only, the lease lost and the like.

    A write that is denied, or badly formed, is none. What is written whole afterwards is made good, and a part of a
    file if the same part is; another one says nothing of it.
    """

    def __init__(self, base: Path) -> None:
        """Take the folder that paths are relative to."""
        self._base = base
        self._left: dict[tuple[Path, str], None] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that could not be written or deleted, each once, in order."""
        return tuple(dict.fromkeys(path for path, _ in self._left))

    @contextmanager
    def noting(self, tool: str, given: Mapping[str, Any]) -> Iterator[None]:
        """Note whether the call of a tool fails, or makes good what has failed."""
        try:
            yield
        except Exception as error:
            if tool in _PIECES and is_the_hosts(error):
                log.warning("tool_write_failed", tool=tool, kind=type(error).__name__, errno=_number(error))
                self._left[self._what(tool, given)] = None
            raise
        if tool in _PIECES:
            self._made_good(*self._what(tool, given))

    def _what(self, tool: str, given: Mapping[str, Any]) -> tuple[Path, str]:
        path = os.path.normpath(self._base / str(given.get("file_path")))
        return Path(path), str(given.get(_PIECES[tool], ""))

    def _made_good(self, path: Path, piece: str) -> None:
        """Forget the failures of a file that was written; of its other parts not those, if only one was."""
        good = {(path, piece), (path, "")} if piece else {each for each in self._left if each[0] == path}
        self._left = {each: None for each in self._left if each not in good}


def is_the_hosts(error: Exception) -> bool:
    """Return whether a call failed for no fault of whoever asked for it."""
    number = _number(error)
    return isinstance(error, LeaseLost) or (number is not None and number not in _OF_THE_PATH)


def _number(error: Exception) -> int | None:
    """Return what the file system said, also where memory tells it in words of its own; 0 if it has no number."""
    said = error if isinstance(error, OSError) else error.__cause__ or error.__context__
    return (said.errno or 0) if isinstance(said, OSError) else None
