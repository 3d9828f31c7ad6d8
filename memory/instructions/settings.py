"""The switches of instruction files, which belong to the operator."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from memory.instructions.exclusion import Exclusion
from memory.instructions.files import Kind

Droppable = Literal[Kind.USER, Kind.PROJECT, Kind.LOCAL]


class InstructionSettings(BaseModel):
    """Every switch of instruction files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    """False: no instruction file is read at all, not even the operator's."""
    without: frozenset[Droppable] = frozenset()
    """Layers that are left out."""
    excludes: tuple[str, ...] = ()
    """Globs in the form of .gitignore, on absolute paths; the operator's own files are never excluded."""
    warn_characters: int = Field(default=40_000, ge=1)
    file_max_bytes: int = Field(default=100_000, ge=1024)
    """A longer file is cut here."""
    total_max_bytes: int = Field(default=100_000, ge=1024)
    """What a session begins with; what files that it uses bring up later may come to as much again, together."""
    max_files: int = Field(default=200, ge=1)

    @field_validator("excludes")
    @classmethod
    def _can_be_read(cls, excludes: tuple[str, ...]) -> tuple[str, ...]:
        Exclusion(excludes)
        return excludes

    @property
    def layers(self) -> tuple[Kind, ...]:
        """The layers that are on, in their order."""
        return tuple(kind for kind in Kind if self.enabled and kind not in self.without)
