"""Whose a copy is: what was agreed with another repo's team, or with another server, does not speak for this one."""

from dataclasses import replace
from pathlib import Path

from anyio import to_thread

from memory.notes import Notes, content_hash
from memory.ports import Leases
from memory.settings import MemorySettings
from memory.team.copy import Copy
from memory.team.errors import SyncFailed
from memory.team.leave import part
from memory.team.local import read_copy
from memory.team.mark import mark_of
from memory.team.state import SyncState


async def claim(copy: Copy, source: str, *, notes: Notes, leases: Leases, settings: MemorySettings) -> None:
    """Make sure that a copy stands for its repo on the server at this address, before anything is asked or sent.

    Of another repo's notes none is ever sent to this one: they go, as if the membership had ended there. Another
    server has agreed to nothing, so that where it differs both texts are kept. Raises `SyncFailed` if notes of the
    other repo can't be moved away.
    """
    if copy.state.repo not in {"", copy.repo}:
        if await to_thread.run_sync(_is_of, copy.state, copy.files.directory):
            left = await part(
                copy.scope, copy.files.directory, copy.state, notes=notes, leases=leases, settings=settings
            )
            copy.report.removed += left.gone
            if left.stuck:
                what = "a note" if len(left.stuck) == 1 else f"{len(left.stuck)} notes"
                raise SyncFailed(f"{what} of the team that the project belonged to before can't be moved away")
        copy.state = SyncState()
    if copy.state.source not in {"", source}:
        copy.compare_anew()
    copy.state = replace(copy.state, repo=copy.repo, source=source)


def _is_of(state: SyncState, directory: Path) -> bool:
    """Return whether a directory is the one that a state is about, or holds a text of it at least; blocking."""
    if mark_of(directory) == state.place:
        return True
    texts = read_copy(directory).texts
    return any(content_hash(text) == state.base.get(key) for key, text in texts.items())
