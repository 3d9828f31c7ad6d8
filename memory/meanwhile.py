"""What others put into a file while a run rewrites it: it is put back with the rest, and so lost by no putting back."""

from collections.abc import Sequence
from pathlib import Path

from memory import snapshot as snapshots
from memory.errors import WriteRefused
from memory.index import INDEX, without
from memory.metadata import parse
from memory.rewind import more, with_changes
from memory.scope import Scope


class Meanwhile:
    """Compares what a run is about to replace with what it has last put there, or with its snapshot. It blocks."""

    def __init__(self, scope: Scope, folder: Path) -> None:
        self._scope = scope
        self._folder = folder
        self._put: dict[Path, str] = {}

    def see(self, path: Path, *, before: str, after: str) -> None:
        """Take into the snapshot what others have changed in a file that the run is about to give another text.

        Called under the lease of the memory directory, so that nobody else comes between. Raises `WriteRefused` for a
        file that is no text: of that no state is kept, and what can be read of it is not what could be put back.
        """
        if before and snapshots.read_one(self._scope, path) is None:
            raise WriteRefused("the file is not UTF-8 text, so it could not be put back: leave it as it is")
        saved = snapshots.saved_in(self._scope, self._folder, path)
        own, self._put[path] = self._put.get(path), after
        old = saved.text if saved is not None else ""
        if before in (old, own):
            return
        text = before if own is None else _with_theirs(old, own, before)
        if text != old:
            snapshots.keep(self._scope, self._folder, path, text)

    def see_gone(self, path: Path) -> None:
        """Do so for the indexes whose lines for a file are cleared on its way when the run deletes it."""
        for index in {path.with_name(INDEX), self._scope.index}:
            name = path.relative_to(index.parent).as_posix()
            if (there := snapshots.read_one(self._scope, index)) is not None:
                without_it = without(there.text, lambda _, target, name=name: target == name)  # type: ignore[misc]
                self.see(index, before=there.text, after=without_it)


def _with_theirs(old: str, own: str, theirs: str) -> str:
    """Return the old text with what others have made of the run's own; where that is not safe, with all they added."""
    merged = with_changes(old, base=own, theirs=theirs)
    if old and merged is not None:
        return merged
    (_, own_body), (_, body) = parse(own), parse(theirs)
    lines = (old or theirs.removesuffix(body)).splitlines()
    return "\n".join([*lines, *_new(more(body.splitlines(), own_body.splitlines()), lines), ""])


def _new(these: Sequence[str], lines: Sequence[str]) -> list[str]:
    return [line for line in these if line.strip() and line not in lines]
