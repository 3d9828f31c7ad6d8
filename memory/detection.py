"""Which files are memory: for metrics. Paths are only looked at as text; nothing is opened.

What may be read or written is decided elsewhere (`memory.paths`), on real paths: a name proves nothing there.
"""

import os
import unicodedata
from enum import StrEnum
from pathlib import Path, PurePosixPath

from memory.paths import AGENT_MEMORY, AGENT_MEMORY_LOCAL
from memory.scope import Scope

_AGENT_FOLDERS = frozenset({AGENT_MEMORY, AGENT_MEMORY_LOCAL})


class MemoryKind(StrEnum):
    """Whose memory a file is part of. The values are fit for a metric's label."""

    TEAM = "team"
    PERSONAL = "personal"
    AGENT = "agent"


def kind_of(scope: Scope, path: Path | str) -> MemoryKind | None:
    """Return the memory that a path belongs to as a chat's scope sees it, or None if it is none or memory is off.

    Relative paths count from A. T comes first, since it lies in A; then A; then the directories of agents. What a
    former membership left in `team/`, session records and instruction files are none.
    """
    place = _lexical(path, base=scope.memory_dir) if scope.enabled else None
    if place is None:
        return None
    if scope.team_dir is not None and place.is_relative_to(scope.team_dir):
        return MemoryKind.TEAM
    if place.is_relative_to(scope.memory_dir):
        return None if place.is_relative_to(scope.memory_dir / MemoryKind.TEAM) else MemoryKind.PERSONAL
    return MemoryKind.AGENT if _in_agent_folder(place) else None


def _in_agent_folder(place: PurePosixPath) -> bool:
    """Tell whether a name of the path is that of a folder of agents' memories, with an agent's folder in it."""
    return any(name in _AGENT_FOLDERS for name in place.parts[:-1])


def _lexical(path: Path | str, *, base: Path) -> PurePosixPath | None:
    text = unicodedata.normalize("NFC", str(path))
    if not text or "\0" in text:
        return None
    return PurePosixPath("/" + os.path.normpath(os.path.join(base, text)).lstrip("/"))  # noqa: PTH118  ("..")
