"""The operator's globs of instruction files that are not to be loaded."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

_GLOB = re.compile(r"[*?\[\\]")


class Exclusion:
    """Tells which paths are excluded. Raises `ValueError` for a glob that can't be read."""

    def __init__(self, globs: Sequence[str]) -> None:
        forms = [form for glob in globs for form in _forms(glob)]
        self._spec = GitIgnoreSpec.from_lines(forms, backend="simple")

    def covers(self, *paths: Path) -> bool:
        """Return whether one of the absolute paths of a file is excluded."""
        return any(self._spec.match_file(str(path)) for path in paths)


def _forms(glob: str) -> Iterator[str]:
    """Yield an absolute glob also with its folders' links followed: the paths of files are real paths."""
    yield glob
    if not glob.startswith("/"):
        return
    fixed = glob[: match.start()] if (match := _GLOB.search(glob)) else glob
    folder = fixed.rpartition("/")[0]
    real = os.path.realpath(folder or "/")
    if real != folder:
        yield real.rstrip("/") + glob[len(folder) :]
