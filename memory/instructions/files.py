"""The values of instruction files: one file, what was left out, and all that was loaded for a scope."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """Whose instructions these are, in the order in which they are loaded: a later one wins over an earlier."""

    MANAGED = "managed"
    """The operator's, for every chat; no setting leaves them out."""
    USER = "user"
    """The principal's own, for all its chats."""
    PROJECT = "project"
    """The project's, from its root folder and the folders of the checkout above it."""
    LOCAL = "local"
    """The principal's own for this one project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstructionFile:
    """One loaded file. An included file has the kind of the file that includes it."""

    path: Path
    """The real path."""
    label: str
    """The path as it is shown: one line, and nothing of what lies outside the scope."""
    kind: Kind
    text: str
    """The content without frontmatter and block comments."""
    parent: Path | None
    """The file that includes this one."""
    partial: bool
    """The text is not what is on disk, so the file has to be read before it is edited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A file that was found or asked for and is not loaded, with the reason for a person to read."""

    label: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """The instruction files of a scope, least important first, each followed by those that it includes.

    `layers` are those that the settings leave on: none if instruction files are turned off as a whole.
    """

    files: tuple[InstructionFile, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    layers: tuple[Kind, ...]
    shared: bool
    unreadable: tuple[Kind, ...] = ()
    """Of each file or folder that may not be read, whose it is."""
