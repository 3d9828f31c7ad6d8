"""What becomes of a copy of a team's memory when a membership has ended."""

import os
import unicodedata
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import structlog
from anyio import to_thread

from memory.disk import Folder
from memory.errors import Conflict, PathRefused, WriteRefused
from memory.lease_names import exchanging, writing
from memory.notes import INDEX, Notes, content_hash
from memory.ports import Leases
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.team.local import conflict_copy, is_conflict_copy, read_copy
from memory.team.mark import MARK
from memory.team.state import SyncState, SyncStates

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """What was done with a copy: the notes that are kept in private memory, and whether all the rest is gone."""

    kept: tuple[str, ...]
    whole: bool
    gone: tuple[str, ...] = ()
    """The keys of those that are not there any more."""
    stuck: tuple[str, ...] = ()
    """The keys of texts that could not be kept, and are there still."""


async def leave(
    scope: Scope, directory: Path, *, notes: Notes, states: SyncStates, leases: Leases, settings: MemorySettings
) -> Left:
    """Remove the copy in `directory` of a scope that has no part in the team any more.

    What the team has ever had is the team's and goes, with changes to it that were not pushed yet: kept, they would
    hand on the team's words to somebody who may not read them any more. A note that the team never had, and the text
    that lost a conflict, exist nowhere else and were written in this very chat: they move into its own memory under
    the name of a conflict copy, for a dream to merge. What can't be kept so, and what is no note, stays where it is;
    nobody reads it there, as the scope has no team directory.

    Doing it again is safe. Raises `LeaseLost` if an exchange is under way.
    """
    async with leases.hold(exchanging(scope), seconds=settings.lease_seconds, wait=settings.lease_wait):
        state = await states.get(scope.principal, scope.project)
        left = await part(scope, directory, state, notes=notes, leases=leases, settings=settings)
        # Nothing of what was agreed before may speak for what a new membership begins with.
        await (
            states.drop(scope.principal, scope.project)
            if left.whole
            else states.put(scope.principal, scope.project, SyncState())
        )
    return left


async def part(
    scope: Scope, directory: Path, state: SyncState, *, notes: Notes, leases: Leases, settings: MemorySettings
) -> Left:
    """Do so with the files, as far as they are those of this state; whoever calls holds the exchange."""
    copy = await to_thread.run_sync(read_copy, directory)
    own = {key: text for key, text in copy.texts.items() if _never_shared(key, state)}
    kept = {key: name for key, text in own.items() if (name := await _moved(scope, key, text, notes))}
    unread = {skip.key for skip in copy.skipped if _never_shared(skip.key, state)}
    stuck = own.keys() - kept.keys()
    going = copy.names - unread - stuck
    async with leases.hold(writing(scope), seconds=settings.lease_seconds, wait=settings.lease_wait):
        # With its mark a directory stays known as long as there is something to move out of it.
        whole = await to_thread.run_sync(_remove, directory, going if stuck else {*going, MARK})
    _log.info("team_left", principal=scope.principal, project=scope.project, kept=len(kept), whole=whole)
    return Left(kept=tuple(kept.values()), whole=whole, gone=tuple(sorted(going)), stuck=tuple(sorted(stuck)))


def _never_shared(key: str, state: SyncState) -> bool:
    plain = unicodedata.normalize("NFC", key)  # some file systems give a name back in another form
    return is_conflict_copy(key) or (state.base.keys().isdisjoint({key, plain}) and PurePosixPath(key).name != INDEX)


async def _moved(scope: Scope, key: str, text: str, notes: Notes) -> str:
    """Put a text into the scope's own memory and return its name there; empty if it can't be."""
    flat = key.replace("/", "-")  # a folder of this name may mean something else there
    name = flat if is_conflict_copy(flat) else conflict_copy(flat, text)
    try:
        await notes.write(scope, scope.memory_dir / name, text, expected="")
    except Conflict as error:
        return name if error.actual == content_hash(text) else ""
    except (PathRefused, WriteRefused) as error:
        _log.warning("team_note_not_kept", principal=scope.principal, reason=str(error))
        return ""
    return name


def _remove(directory: Path, names: Collection[str]) -> bool:
    """Remove these notes and every folder that is empty then; blocking. Returns whether the directory is gone."""
    for place, _, files in os.walk(directory, topdown=False):
        folder = Path(place)
        for name in files:
            if (folder / name).relative_to(directory).as_posix() in names:
                with Folder.opened(folder, root=directory) as at, suppress(FileNotFoundError):
                    at.remove(name)
        with suppress(OSError):  # something else is in it, or it is a link: then it stays
            folder.rmdir()
    return not os.path.lexists(directory)
