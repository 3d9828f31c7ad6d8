"""What a copy of a team's memory has to remember between two exchanges with the server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from memory.team.local import Skip


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncState:
    """Where a copy stands. Hashes are by key, as `memory.notes.content_hash` makes them.

    `checksum` is the tag of the server's state that the copy is in line with; None forces a full answer.
    `base` holds what both sides had when they last agreed, which tells who changed a key since.
    """

    pulled: bool = False
    """Whether a pull has ever succeeded; without it nothing is pushed."""
    checksum: str | None = None
    server: Mapping[str, str] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    """The deletions that both sides know of, each with its last text's hash: what is there again was written anew."""
    tombstones: bool = False
    """Whether the server has said that it keeps deletions."""
    open: Mapping[str, str] = field(default_factory=dict)
    """What could not be taken, each with what lay in its way: once that has changed everything is asked for again."""
    refused: tuple[Skip, ...] = ()
    """What was not taken of the server's state when it was last looked through: so it is until that changes."""
    forgotten: str = ""
    """Stands for all that was forgotten when the server's texts were last looked through for it."""
    repo: str = ""
    """Whose notes these are; another repo's are never pushed to it."""
    source: str = ""
    """The address of the server that agreed to `base`; another one has agreed to nothing."""
    version: int = 0
    """Of the server's state, where it counts them: one that runs backwards was put back from a backup."""
    place: str = ""
    """Marks the directory that all this is about (`memory.team.mark`): what lacks in another one was not deleted."""


class SyncStates(Protocol):
    """Keeps the state of each copy, one per principal and project, durably."""

    async def get(self, principal: str, project: str) -> SyncState:
        """Return the state of a copy; of one that was never stored, `SyncState()`."""

    async def put(self, principal: str, project: str, state: SyncState) -> None:
        """Store the state of a copy before returning."""

    async def drop(self, principal: str, project: str) -> None:
        """Forget a copy that is no more, before returning."""


class LocalSyncStates:
    """States in memory: for tests, and for a single process that may pull everything again after a restart."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], SyncState] = {}

    async def get(self, principal: str, project: str) -> SyncState:
        """Return the state of a copy; of one that was never stored, `SyncState()`."""
        return self._states.get((principal, project), SyncState())

    async def put(self, principal: str, project: str, state: SyncState) -> None:
        """Keep the state of a copy."""
        self._states[principal, project] = state

    async def drop(self, principal: str, project: str) -> None:
        """Forget a copy that is no more."""
        self._states.pop((principal, project), None)
