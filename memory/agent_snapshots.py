"""Snapshots of agents' memories: what a project hands to whoever runs its agents for the first time.

<root>/.claude/agent-memory-snapshots/<agent>/   the notes, and snapshot.json with `updatedAt`
the agent's directory                            .snapshot-synced.json with `syncedFrom`, once one was taken over
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import structlog
from anyio import to_thread

from memory.agent_memory import snapshot_folder
from memory.agents import Agent, AgentMemory
from memory.disk import Folder
from memory.errors import Conflict, MemoryFault, NoteMissing, PathRefused, WriteRefused
from memory.lease_names import writing
from memory.notes import INDEX, Notes
from memory.ports import Leases
from memory.prompt import read_text
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.team.forgotten import Forgotten, holds_any, known_words, nothing_forgotten, texts_left

METADATA = "snapshot.json"
SYNCED = ".snapshot-synced.json"
_MOST_FILES = 500
_METADATA_BYTES = 16 * 1024
_log = structlog.get_logger(__name__)


class SnapshotState(StrEnum):
    """What is to be done about a snapshot."""

    NONE = "none"
    INITIALISE = "initialise"
    """The agent has no notes yet."""
    OFFER = "offer"
    """The snapshot is newer than what was taken over last, if anything was: a person decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotCheck:
    """The state, and the time that the snapshot gives for itself, as it is written there."""

    state: SnapshotState
    updated_at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotNotes:
    """The names of the notes at the top of an agent's memory and of the snapshot."""

    memory: tuple[str, ...]
    snapshot: tuple[str, ...]
    marks: tuple[str, ...]
    """Differ as soon as one of the files does, in name, size or time."""


class Snapshots:
    """Compares and takes over snapshots. `memory` is the agent's own scope, with a memory that is on.

    What is `forgotten` there is taken out of what a snapshot brings.
    """

    def __init__(
        self,
        notes: Notes,
        leases: Leases,
        settings: MemorySettings | None = None,
        *,
        forgotten: Forgotten = nothing_forgotten,
    ) -> None:
        self._notes = notes.watched(_Unforgotten(forgotten))
        self._leases = leases
        self._settings = settings or MemorySettings()
        self._forgotten = forgotten

    async def check(self, memory: Scope, agent: Agent) -> SnapshotCheck:
        """Compare the project's snapshot with the agent's memory; never raises for what a file holds."""
        return await to_thread.run_sync(_check, memory, agent)

    async def notes(self, memory: Scope, agent: Agent) -> SnapshotNotes:
        """Return what stands against what; never raises for what a folder holds."""
        return await to_thread.run_sync(_notes, memory, agent)

    async def prepare(self, memory: Scope, agent: Agent) -> bool:
        """Initialise a memory without notes if that needs nobody's word: only with `user` memory. Tells whether it did.

        Never raises: a fault is logged, and the agent starts without the snapshot.
        """
        if agent.memory is not AgentMemory.USER or not memory.writable:
            return False
        try:
            found = await self.check(memory, agent)
            if found.state is not SnapshotState.INITIALISE:
                return False
            await self.initialise(memory, agent, found)
        except (MemoryFault, OSError) as error:
            _log.warning("memory.agent_snapshot_failed", error=type(error).__name__)
            return False
        return True

    async def initialise(self, memory: Scope, agent: Agent, found: SnapshotCheck) -> list[str]:
        """Copy the snapshot's notes beside whatever the memory holds, which is never overwritten; see `replace`."""
        passed_over: list[str] = []
        for name, text in (await self._texts(memory, agent)).items():
            try:
                if text is None:
                    passed_over.append(name)
                else:
                    await self._notes.write(memory, memory.memory_dir / name, text, expected="")
            except (PathRefused, WriteRefused, Conflict) as error:
                passed_over.append(name)
                _passed_over(error)
        await self.keep(memory, found)
        return passed_over

    async def replace(self, memory: Scope, agent: Agent, found: SnapshotCheck) -> list[str]:
        """Make the notes at the top of the agent's memory those of the snapshot; folders in it stay.

        Returns the files that could not be copied or removed: they are left as they are, and the snapshot counts as
        taken over all the same. An index that the snapshot lacks is emptied. Raises `WriteRefused` if the memory is
        read-only here or the snapshot can't be read, `LeaseLost` if the directory could not be had.
        """
        texts = await self._texts(memory, agent)
        local = await to_thread.run_sync(_markdown, memory.memory_dir)
        gone = dict.fromkeys(name for name in local if name not in texts)
        there = {name: text for name, text in texts.items() if text is not None}
        passed_over = [name for name, text in texts.items() if text is None]
        for name, text in (gone | there).items():
            try:
                await self._set(memory, memory.memory_dir / name, text)
            except (PathRefused, WriteRefused, Conflict) as error:
                passed_over.append(name)
                _passed_over(error)
        await self.keep(memory, found)
        return passed_over

    async def keep(self, memory: Scope, found: SnapshotCheck) -> None:
        """Note that this snapshot has been dealt with, and change no note."""
        _refuse_read_only(memory)
        data = json.dumps({"syncedFrom": found.updated_at}).encode()
        seconds, wait = self._settings.lease_seconds, self._settings.lease_wait
        async with self._leases.hold(writing(memory), seconds=seconds, wait=wait) as fence:
            await fence.check()
            await to_thread.run_sync(_record, memory.memory_dir, data)

    async def _texts(self, memory: Scope, agent: Agent) -> Mapping[str, str | None]:
        _refuse_read_only(memory)
        texts = await to_thread.run_sync(_snapshot, memory, agent, self._settings.write_max_bytes)
        hashes = await self._forgotten(memory)
        return await to_thread.run_sync(_remembered, texts, hashes) if hashes else texts

    async def _set(self, memory: Scope, path: Path, text: str | None) -> None:
        try:
            before = (await self._notes.read(memory, path)).hash
        except NoteMissing:
            before = ""
        if text is None and path.name != INDEX:
            await self._notes.delete(memory, path, expected=before)
        else:
            await self._notes.write(memory, path, text or "", expected=before)


class _Unforgotten:
    """Lets nothing be written that was forgotten while the snapshot was read: whoever forgets records that first."""

    def __init__(self, forgotten: Forgotten) -> None:
        self._forgotten = forgotten

    async def __call__(self, scope: Scope, path: Path, *, before: str, after: str) -> None:
        """Refuse a text that holds such a fact."""
        if after and holds_any(await self._forgotten(scope), {path.name: after}):
            raise WriteRefused("it holds what was forgotten here")


def _notes(memory: Scope, agent: Agent) -> SnapshotNotes:
    folder = snapshot_folder(memory, agent)
    own, theirs = _markdown(memory.memory_dir), _markdown(folder)[:_MOST_FILES] if folder is not None else []
    files = [memory.memory_dir / name for name in own] + [folder / name for name in theirs if folder is not None]
    return SnapshotNotes(memory=tuple(own), snapshot=tuple(theirs), marks=tuple(map(_mark, files)))


def _mark(file: Path) -> str:
    try:
        facts = file.lstat()
    except OSError:
        return ""
    return f"{file} {facts.st_size} {facts.st_mtime_ns}"


def _remembered(texts: Mapping[str, str | None], hashes: frozenset[str]) -> dict[str, str | None]:
    """Return the snapshot's texts without what was forgotten; a note of which nothing is left is not among them."""
    there = {name: text for name, text in texts.items() if text is not None}
    left = texts_left(there, known_words(hashes, there), renaming=True)
    kept = {name: left.texts.get(name, text) for name, text in there.items()}
    unread = {name: text for name, text in texts.items() if text is None}
    return {**{name: text for name, text in kept.items() if text is not None}, **left.moved, **unread}


def _check(memory: Scope, agent: Agent) -> SnapshotCheck:
    updated_at = _field(memory.project_root, snapshot_folder(memory, agent), METADATA, "updatedAt")
    if not updated_at:
        return SnapshotCheck(state=SnapshotState.NONE)
    if not _markdown(memory.memory_dir):
        return SnapshotCheck(state=SnapshotState.INITIALISE, updated_at=updated_at)
    synced = _field(memory.memory_dir, memory.memory_dir, SYNCED, "syncedFrom")
    state = SnapshotState.OFFER if not synced or _is_newer(updated_at, synced) else SnapshotState.NONE
    return SnapshotCheck(state=state, updated_at=updated_at)


def _field(root: Path | None, folder: Path | None, file: str, key: str) -> str:
    """Return a text out of a small JSON file, or "" if there is none to be read."""
    if root is None or folder is None:
        return ""
    try:
        found = json.loads(read_text(root, folder / file, limit=_METADATA_BYTES))
    except (ValueError, RecursionError):
        return ""
    value = found.get(key) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def _is_newer(one: str, other: str) -> bool:
    try:
        return _moment(one) > _moment(other)
    except (ValueError, OverflowError):
        return False


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _snapshot(memory: Scope, agent: Agent, limit: int) -> dict[str, str | None]:
    """Read the Markdown files at the top of the snapshot, None for one that no note can hold.

    Whatever else lies there is no part of a memory here. Raises `WriteRefused` if the folder can't be read: taken for
    an empty one it would cost the agent all its notes.
    """
    folder = snapshot_folder(memory, agent)
    try:
        if memory.project_root is None or folder is None:
            raise FileNotFoundError
        with Folder.opened(folder, root=memory.project_root) as at:
            return {name: _text(at, name, limit) for name in _markdown(folder)[:_MOST_FILES]}
    except (OSError, PathRefused):
        raise WriteRefused("the snapshot can't be read") from None


def _text(at: Folder, name: str, limit: int) -> str | None:
    """Return the file's text, or None if it can't be read or is larger than a note may be."""
    try:
        stored = at.read(name, limit=limit)
        return stored.data.decode("utf-8-sig") if stored and len(stored.data) <= limit else None
    except (OSError, PathRefused, UnicodeDecodeError) as error:
        _passed_over(error)
        return None


def _markdown(folder: Path) -> list[str]:
    """Return the names of the Markdown files at the top of a folder, without links and hidden ones."""
    try:
        with os.scandir(folder) as listing:
            names = [entry.name for entry in listing if _is_note(entry)]
    except OSError:
        return []
    return sorted(names)


def _is_note(entry: "os.DirEntry[str]") -> bool:
    return entry.name.endswith(".md") and not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)


def _record(directory: Path, data: bytes) -> None:
    try:
        with Folder.opened(directory, root=directory, create=True) as at:
            at.replace(SYNCED, data)
    except OSError as error:
        raise WriteRefused(f"the record of the snapshot can't be written: {error.strerror}") from error


def _refuse_read_only(memory: Scope) -> None:
    if not memory.writable:
        raise WriteRefused("this agent's memory can't be written from here; do it in one of the project's chats")


def _passed_over(error: Exception) -> None:
    _log.warning("memory.agent_snapshot_file_passed_over", error=type(error).__name__)
