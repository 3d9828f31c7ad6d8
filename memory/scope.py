"""The scope: the one frozen value that says whose memory a turn, fork, recall or dream may touch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Self


class Mode(StrEnum):
    """How new memories are written: topic notes at once, or a day log that the night distils."""

    AUTO = "auto"
    LOG = "log"


class Part(StrEnum):
    """What can be left out of memory, by the name of the setting that switches it."""

    MEMORY = "auto_memory_enabled"
    """All of it."""
    RECALL = "recall_enabled"
    EXTRACTION = "extraction_enabled"
    DREAM = "auto_dream_enabled"
    TEAM = "team_memory_enabled"


@dataclass(frozen=True, kw_only=True, slots=True)
class OptOut:
    """A part that those whom the memory belongs to don't want, and the file of theirs that says so."""

    part: Part
    file: str
    """Relative to the principal's home, or to the project's root."""
    fault: str = ""
    """Why the file counts as this wish, if it does not say so itself: a constant name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """Whose memory, which directories, which rights. Made once per turn by `memory.paths`, then only passed on.

    `memory_dir` (A) and `team_dir` (T, always `A/team`) are real paths without links. `team_dir` is None where the
    chat is bound to no project or the person is no member. `readable` and `writable` are directories; A is in both.
    `shared` is true for a group or channel: its facts name their speaker. `enabled` false means: no memory at all.
    """

    principal: str
    project: str
    memory_dir: Path
    team_dir: Path | None
    mode: Mode
    shared: bool
    enabled: bool
    timezone: str
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    repo: str = ""
    project_root: Path | None = None
    closed: tuple[Path, ...] = ()
    """Files of the host, such as its database, that may lie in the project's root: of them nothing is read, nor of what
    lies beside them under a longer name, such as a journal or a copy."""
    opted_out: tuple[OptOut, ...] = ()
    mode_since: datetime | None = None
    """Since when the mode is this one, where somebody has switched it in a chat."""

    @property
    def index(self) -> Path:
        """The index that the memory prompt carries."""
        return self.memory_dir / "MEMORY.md"

    def leaves_out(self, part: Part) -> bool:
        """Return whether somebody to whom this memory belongs has opted out of a part of it."""
        return any(each.part is part for each in self.opted_out)

    def after(self, opted_out: Sequence[OptOut]) -> Self:
        """Return the scope as these wishes leave it: they only ever take away."""
        scope = replace(self, opted_out=tuple(opted_out))
        return replace(
            scope,
            enabled=scope.enabled and not scope.leaves_out(Part.MEMORY),
            team_dir=None if scope.leaves_out(Part.TEAM) else scope.team_dir,
        )
