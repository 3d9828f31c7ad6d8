"""The scope: the one frozen value that says whose memory a turn, fork, recall or dream may touch."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Mode(StrEnum):
    """How new memories are written: topic notes at once, or a day log that the night distils."""

    AUTO = "auto"
    LOG = "log"


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

    @property
    def index(self) -> Path:
        """The index that the memory prompt carries."""
        return self.memory_dir / "MEMORY.md"
