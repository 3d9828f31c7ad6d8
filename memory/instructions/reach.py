"""Which places the instruction files of a scope may come from; nothing of another home is among them."""

import os
import unicodedata
from pathlib import Path

from memory.checkout import canonical_root
from memory.errors import PathRefused
from memory.instructions.files import Kind
from memory.paths import (
    AGENT_MEMORY,
    AGENT_MEMORY_LOCAL,
    TEAM,
    UNNAMED,
    Homes,
    contained,
    is_closed,
    project_folder,
)
from memory.scope import Scope

_LONGEST_LABEL = 300
_GIT = frozenset({".git"})
"""What git keeps for itself, tokens of remote repositories among it."""


class Reach:
    """The directories of one scope's layers, and the check that a file may be one of its instructions.

    All may come from the home and from what the scope may read, but for other projects' folders in the home,
    the memory of sub-agents, and the team directory, which others write. The operator's files may also include
    what lies beside them. Of a checkout around the project's root the instruction files of the folders from its top
    down to the root count too, with what they include from below their own folders; no tool reads anything there.
    """

    def __init__(self, scope: Scope, *, homes: Homes, managed_dir: Path) -> None:
        self._scope = scope
        self.home = homes.home(scope.principal)
        self.local = _local(scope, self.home)
        self.managed = Path(os.path.realpath(managed_dir))
        self.root = scope.project_root if scope.project_root in scope.readable else None
        self.work = self.root or scope.memory_dir
        self._readable = scope.readable
        self._own = (self.home, *scope.readable)
        self._kept = (self.local, scope.memory_dir)
        self._projects = self.home / "projects"
        self._team = scope.memory_dir / TEAM
        self._stores = tuple(_stores(self.managed, self.home.parent, scope.memory_dir))
        self._top = _top(self.root, self.home.parent, scope.memory_dir) if self.root else None

    def project_folders(self) -> tuple[Path, ...]:
        """Return the folders down to the project's root: those of its checkout, and those that the scope may read."""
        if self.root is None or self._top is None:
            return ()
        walk = (*reversed(self.root.parents), self.root)
        places = (self._top, *self._readable)
        return tuple(folder for folder in walk if any(folder.is_relative_to(place) for place in places))

    def folders_towards(self, touched: Path) -> tuple[Path, ...]:
        """Return the folders below the project's root down to the one that holds the file."""
        if self.root is None or not touched.is_relative_to(self.root):
            return ()
        return tuple(folder for folder in reversed(touched.parents) if self.root in folder.parents)

    def touched(self, path: Path) -> Path:
        """Return the real path of a file that a tool has used; raises `PathRefused` if the scope can't read it."""
        return contained(str(path), base=self.work, roots=self._readable)

    def real(self, path: str, *, base: Path, kind: Kind, folder: Path | None = None) -> Path:
        """Return where a file really lies, `~/` being the home; it need not exist. Raises `PathRefused`.

        `folder` is that of the layer whose file this is, or of the file that includes it: of the checkout around the
        project's root nothing but what lies below it is reached.
        """
        roots = (*self._own, self.managed) if kind is Kind.MANAGED else self._own
        beside = folder if kind is Kind.PROJECT and folder is not None and self._in_checkout(folder) else None
        if beside is not None:
            roots = (*roots, beside)
        if path.startswith("~/"):
            path, base = path[2:].lstrip("/") or ".", self.home
        real = contained(path, base=base, roots=roots)
        if self._is_closed(real) or is_closed(self._scope, real):
            raise PathRefused("this file is none that instructions may come from")
        is_beside = beside is not None and real.is_relative_to(beside) and not _GIT.intersection(_folded(real))
        if not is_beside and not self._is_own(real) and not (kind is Kind.MANAGED and self._is_managed(real)):
            raise PathRefused("this file is none that instructions may come from")
        return real

    def anchor(self, real: Path) -> Path:
        """Return the directory from which an allowed path is opened; raises `PathRefused` if it is that itself."""
        for root in (*self._own, self.managed, self._top):
            if root is not None and root in real.parents:
                return root
        raise PathRefused("this is a directory")

    def label(self, path: Path) -> str:
        """Return a path as it is shown: from `~` or `managed` on, or in full if it is the project's."""
        shown = str(path)
        for folder, name in ((self.root, str(self.root)), (self.home, "~"), (self.managed, "managed")):
            if folder is not None and folder in path.parents:
                shown = f"{name}/{path.relative_to(folder)}"
                break
        return "".join(char if char.isprintable() and char != "`" else "?" for char in shown)[-_LONGEST_LABEL:]

    def _in_checkout(self, folder: Path) -> bool:
        return self._top is not None and folder.is_relative_to(self._top)

    def _is_closed(self, real: Path) -> bool:
        """Tell whether others write there: the team, or agents, whose project may be another one of the checkout."""
        places = (self.home, self._top, *self._readable)
        inside = [real.relative_to(place).parts for place in places if place is not None and real.is_relative_to(place)]
        agents = any(name.casefold() in {AGENT_MEMORY, AGENT_MEMORY_LOCAL} for parts in inside for name in parts)
        return agents or _below(real, self._team)

    def _is_own(self, real: Path) -> bool:
        if _below(real, self._projects) and not any(real.is_relative_to(place) for place in self._kept):
            return False
        return any(real.is_relative_to(place) for place in self._own)

    def _is_managed(self, real: Path) -> bool:
        return real.is_relative_to(self.managed) and not any(_below(real, store) for store in self._stores)


def _top(root: Path, *stores: Path) -> Path:
    """Return the top folder of the checkout that the root lies in; the root itself if there is none to be believed.

    A `.git` file is believed under the rules of `canonical_root`: anybody could make one up. A checkout that holds
    memory is none, as a project's root that does.
    """
    for place in (root, *root.parents):
        mark = str(place / ".git")
        if os.path.isdir(mark) or os.path.isfile(mark):  # noqa: PTH112, PTH113  (pathlib's raise in a closed folder)
            believed = os.path.isdir(mark) or canonical_root(place) != place  # noqa: PTH112
            return place if believed and not any(store.is_relative_to(place) for store in stores) else root
    return root


def _local(scope: Scope, home: Path) -> Path:
    """Return the principal's folder of the project, also where the memory directory has been put elsewhere."""
    usual = scope.memory_dir.parent
    if usual.parent == home / "projects":
        return usual
    if not scope.project:
        return home / "projects" / UNNAMED
    return home / "projects" / project_folder(scope.project, root=scope.project_root, repo=scope.repo)


def _stores(managed: Path, *stores: Path) -> list[Path]:
    """Return what in the operator's folder holds the homes or memory directories, should that lie above them."""
    inside = [store.relative_to(managed).parts for store in stores if store.is_relative_to(managed)]
    return [managed.joinpath(*parts[:1]) for parts in inside]


def _below(path: Path, place: Path) -> bool:
    """Tell whether it lies there, on a file system too that takes different writings of a name for the same."""
    return _folded(path)[: len(place.parts)] == _folded(place)


def _folded(path: Path) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFC", part).casefold() for part in path.parts)
