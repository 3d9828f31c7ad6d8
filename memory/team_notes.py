"""Notes of a run whose changes in T are signed by their authors and, where a person is to be asked, wait for that."""

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Protocol, Self

from anyio import to_thread

from memory.authorship import Byline, signed
from memory.errors import Conflict, NoteMissing, WriteRefused
from memory.notes import INDEX, Note, Notes, Watch, content_hash
from memory.paths import in_team, readable_path
from memory.ports import Fence
from memory.scope import Scope

Authors = Callable[[str, str], Sequence[Byline]]
"""Says who makes of a text (the first) another one (the second)."""


class Shelf(Protocol):
    """Where the changes of one run wait for a person's word; names are relative to T, with `/`."""

    async def view(self, name: str, present: str | None) -> str | None:
        """Return the text that a file would have if all that waits were done; None: there would be none.

        `present` is what it holds now, None if it is not there.
        """

    async def put(self, name: str, text: str | None, *, present: str | None) -> None:
        """Keep a change before returning; a text of None is a deletion. It takes the place of one that waits."""


class TeamNotes(Notes):
    """Notes that can be told who writes into T, and be made to keep changes of T on a shelf."""

    _authors: Authors | None = None
    _shelf: Shelf | None = None

    def signed(self, authors: Authors) -> Self:
        """Return the same notes for one run, with these authors in the headers of what it writes in T."""
        same = copy(self)
        same._authors = authors
        return same

    def staged(self, shelf: Shelf, *, watch: Watch) -> Self:
        """Return the same notes for one run, whose changes in T are checked as ever and then put on a shelf.

        `watch` sees each of them before that.
        """
        same = copy(self)
        same._shelf, same._watch = shelf, watch
        return same

    async def waiting(self, scope: Scope, path: Path) -> Note | None:
        """Return a file of T as it would be if all that waits were done; None if nothing waits for it."""
        shelf = self._shelf_of(scope, path)
        if shelf is None:
            return None
        present = await super()._present(path, scope)
        text = await shelf.view(_name(scope, path), present.text if present else None)
        if text == (present.text if present else None):
            return None
        if text is None:
            raise NoteMissing("the deletion of this file waits for the person's word; till then it is there")
        return self._note(path, text, 0)

    async def read(self, scope: Scope, path: Path) -> Note:
        """Return the file, or what waits for it."""
        if self._shelf is None:
            return await super().read(scope, path)
        real = await to_thread.run_sync(readable_path, scope, str(path))
        return await self.waiting(scope, real) or await super().read(scope, path)

    async def write(self, scope: Scope, path: Path, text: str, *, expected: str | None) -> Note:
        """Put `text` in the place of the file; see `Notes.write`. An index that waits is not merged."""
        real = await self._writable(scope, path)
        waiting = await self.waiting(scope, real)
        if waiting is not None and real.name == INDEX and expected != waiting.hash:
            raise Conflict("lines of this index wait for the person's word: read it first", actual=waiting.hash)
        return await super().write(scope, path, text, expected=expected)

    async def delete(self, scope: Scope, path: Path, *, expected: str | None) -> None:
        """Remove the file; one that waits loses its line in the index when it goes."""
        real = await self._writable(scope, path)
        shelf = self._shelf_of(scope, real)
        if shelf is None:
            await super().delete(scope, path, expected=expected)
            return
        if real.name == INDEX:
            raise WriteRefused("the index itself is never deleted: edit its lines instead")
        async with self._held(scope):
            there = await super()._present(real, scope)
            note = await self._present(real, scope)
            if note is None:
                raise NoteMissing("there is no file at this path")
            if expected is not None and expected != note.hash:
                raise Conflict("the file changed since you read it: read it again", actual=note.hash)
            await self._see(scope, real, before=note.text, after="")
            await shelf.put(_name(scope, real), None, present=there.text if there else None)

    async def _present(self, real: Path, scope: Scope) -> Note | None:
        present = await super()._present(real, scope)
        shelf = self._shelf_of(scope, real)
        if shelf is None:
            return present
        now = present.text if present else None
        text = await shelf.view(_name(scope, real), now)
        if text == now:
            return present
        return None if text is None else self._note(real, text, 0)

    async def _put(self, scope: Scope, real: Path, text: str, *, present: Note | None, fence: Fence) -> Note:
        if self._authors is not None and in_team(scope, real) and real.name != INDEX:
            before = present.text if present else ""
            text = signed(text, before=before, by=self._authors(before, text))
        return await super()._put(scope, real, text, present=present, fence=fence)

    async def _replace(self, scope: Scope, real: Path, text: str, present: Note | None, fence: Fence) -> int:
        shelf = self._shelf_of(scope, real)
        if shelf is None:
            return await super()._replace(scope, real, text, present, fence)
        there = await super()._present(real, scope)
        await shelf.put(_name(scope, real), text, present=there.text if there else None)
        return 0

    def _shelf_of(self, scope: Scope, real: Path) -> Shelf | None:
        return self._shelf if in_team(scope, real) and real.suffix == ".md" else None


def _name(scope: Scope, real: Path) -> str:
    assert scope.team_dir is not None
    return real.relative_to(scope.team_dir).as_posix()


def hash_of(text: str | None) -> str:
    """Return the hash by which a writer names what it replaces; empty for no file."""
    return "" if text is None else content_hash(text)
