"""What was forgotten in one chat leaves another chat's copy of the team's notes at once, before any exchange."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from anyio import to_thread

from memory.errors import Conflict, NoteMissing
from memory.gone import Gone
from memory.lease_names import writing
from memory.notes import Notes, content_hash
from memory.ports import Leases
from memory.scope import Scope
from memory.team.forgotten import Left, known_words, texts_left
from memory.team.local import read_copy

_TRIES = 5
_LEASE_SECONDS = 30.0


async def clear_copy(scope: Scope, what: Gone, notes: Notes, leases: Leases) -> None:
    """Take it out of this copy's notes, their names and indexes, as forgetting does in its own chat.

    What else the chat has changed there stays, and what is left is the same in every copy, so that their exchanges
    agree. What is left of notes goes first, and the notes last. Called when it is on record that it was forgotten.
    Raises what `Notes` raises.
    """
    assert scope.team_dir is not None
    async with leases.hold(writing(scope), seconds=_LEASE_SECONDS, wait=_LEASE_SECONDS):
        pass  # whoever was let through before that has written now
    for tried in range(1, _TRIES + 1):
        texts = (await to_thread.run_sync(read_copy, scope.team_dir)).texts
        left = await to_thread.run_sync(_left, texts, what)
        try:
            await _put(scope, scope.team_dir, texts, left, notes)
        except Conflict:  # somebody wrote since it was read
            if tried == _TRIES:
                raise
            continue
        return


def _left(texts: Mapping[str, str], what: Gone) -> Left:
    """Return what is left of these texts, by whose own words it is decided what tells it; blocking."""
    here = known_words(what.hashes, texts)
    return texts_left(texts, replace(here, texts=tuple(dict.fromkeys((*what.texts, *here.texts)))), renaming=True)


async def _put(scope: Scope, directory: Path, texts: Mapping[str, str], left: Left, notes: Notes) -> None:
    for name, text in left.moved.items():
        try:
            await notes.write(scope, directory / name, text, expected="")
        except Conflict as conflict:
            if conflict.actual != content_hash(text):
                raise
    for name, kept in sorted(left.texts.items(), key=lambda each: each[1] is None):
        path, expected = directory / name, content_hash(texts[name])
        try:
            if kept is None:
                await notes.delete(scope, path, expected=expected)
            else:
                await notes.write(scope, path, kept, expected=expected)
        except NoteMissing:
            continue
