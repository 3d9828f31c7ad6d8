"""The files of one copy during one exchange: how they are written, and what lies in the way of that."""

from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath

import anyio.to_thread

from memory.errors import Conflict, PathRefused, WriteRefused
from memory.facts import facts
from memory.index import pointers
from memory.notes import INDEX, Notes, content_hash
from memory.paths import contained
from memory.scope import Scope
from memory.survival import left_out
from memory.team.local import LocalCopy, Skip, conflict_copy, look_of, make_room
from memory.team.report import SyncReport


class Files:
    """Writes into the directory of one copy, and tells the report what it did."""

    def __init__(self, scope: Scope, directory: Path, notes: Notes, report: SyncReport) -> None:
        self.directory = directory
        self.barred: dict[str, str] = {}
        """How the way to each key looked that is to be tried again only once it looks otherwise."""
        self._scope = scope
        self._notes = notes
        self._report = report

    async def put(self, key: str, text: str | None, *, over: LocalCopy) -> None:
        """Put a text in the place of what is known to lie under the key, or nothing."""
        before, expected = over.texts.get(key, ""), over.on_disk(key)
        if text is None:
            await self._notes.delete(self._scope, self._place(key), expected=expected)
            self._report.removed.append(key)
        else:
            await anyio.to_thread.run_sync(make_room, self._place(key))
            await self._notes.write(self._scope, self._place(key), text, expected=expected)
            self._report.written.append(key)
            self._report.shrunk += _shrunk(key, before, text)

    async def keep_beside(self, key: str, text: str) -> None:
        """Keep a text that lost beside the one that won."""
        beside = conflict_copy(key, text)
        try:
            await self._notes.write(self._scope, self._place(beside), text, expected="")
        except Conflict as error:
            if error.actual != content_hash(text):
                raise
        self._report.conflicts.append(beside)

    async def unpoint(self, key: str) -> None:
        """Clear the index lines of a file that is gone."""
        await self._notes.delete(self._scope, self._place(key), expected="")

    async def tried(self, key: str, act: Callable[[], Awaitable[None]]) -> bool:
        """Return whether it could be done, or is to be tried again only once what lies in its way has changed."""
        try:
            await act()
        except Conflict:  # somebody wrote since we looked
            return False
        except (PathRefused, WriteRefused) as error:
            self._report.refuse(Skip(key=key, reason=str(error)))
            look, barred = look_of(self.directory, key)
            if barred:
                self.barred[key] = look
            return barred
        return True

    def _place(self, key: str) -> Path:
        """Return where the key lies; no link may stand in the way, since even one inside A leads out of T."""
        place = self.directory / key
        if contained(str(place), base=self.directory, roots=(self.directory,)) != place:
            raise PathRefused("a link stands in the way")
        return place


def _shrunk(key: str, before: str, after: str) -> list[str]:
    """Return what lost a fact: the note, or of an index the notes whose lines went or say less."""
    if PurePosixPath(key).name != INDEX:
        return [key] if left_out(facts(before), facts(after)) else []
    lines, folder = dict(pointers(before)), PurePosixPath(key).parent
    return [(folder / lines[gone]).as_posix() for gone in left_out(list(lines), [line for line, _ in pointers(after)])]
