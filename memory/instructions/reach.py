"""Which places the instruction files of a scope may come from; nothing of another home is among them."""

import os
import unicodedata
from pathlib import Path

from memory.checkout import canonical_root
from memory.errors import PathRefused
from memory.instructions.files import Kind
from memory.paths import TEAM, UNNAMED, Homes, contained, folder_name
from memory.scope import Scope

_LONGEST_LABEL = 300


class Reach:
    """The directories of one scope's layers, and the check that a file may be one of its instructions.

    All may come from the home and from what the scope may read, but for other projects' folders in the home,
    the memory of sub-agents, and the team directory, which others write. The operator's files may also include
    what lies beside them.
    """

    def __init__(self, scope: Scope, *, homes: Homes, managed_dir: Path) -> None:
        self.home = homes.home(scope.principal)
        self.local = _local(scope, self.home)
        self.managed = Path(os.path.realpath(managed_dir))
        self.root = scope.project_root if scope.project_root in scope.readable else None
        self.work = self.root or scope.memory_dir
        self._readable = scope.readable
        self._own = (self.home, *scope.readable)
        self._kept = (self.local, scope.memory_dir)
        self._projects = self.home / "projects"
        self._closed = (
            scope.memory_dir / TEAM,
            self.home / "agent-memory",
            self.local / "agent-memory-local",
            *((self.root / ".claude" / "agent-memory",) if self.root else ()),
        )
        self._stores = tuple(_stores(self.managed, self.home.parent, scope.memory_dir))

    def project_folders(self) -> tuple[Path, ...]:
        """Return the folders from the top down to the project's root, as far as the scope may read them."""
        if self.root is None:
            return ()
        walk = (*reversed(self.root.parents), self.root)
        return tuple(folder for folder in walk if any(folder.is_relative_to(place) for place in self._readable))

    def folders_towards(self, touched: Path) -> tuple[Path, ...]:
        """Return the folders below the project's root down to the one that holds the file."""
        if self.root is None or not touched.is_relative_to(self.root):
            return ()
        return tuple(folder for folder in reversed(touched.parents) if self.root in folder.parents)

    def touched(self, path: Path) -> Path:
        """Return the real path of a file that a tool has used; raises `PathRefused` if the scope can't read it."""
        return contained(str(path), base=self.work, roots=self._readable)

    def real(self, path: str, *, base: Path, kind: Kind) -> Path:
        """Return where a file really lies, `~/` being the home; it need not exist. Raises `PathRefused`."""
        roots = (*self._own, self.managed) if kind is Kind.MANAGED else self._own
        if path.startswith("~/"):
            path, base = path[2:].lstrip("/") or ".", self.home
        real = contained(path, base=base, roots=roots)
        if not self._is_own(real) and not (kind is Kind.MANAGED and self._is_managed(real)):
            raise PathRefused("this file is none that instructions may come from")
        return real

    def anchor(self, real: Path) -> Path:
        """Return the directory from which an allowed path is opened; raises `PathRefused` if it is that itself."""
        for root in (*self._own, self.managed):
            if root in real.parents:
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

    def _is_own(self, real: Path) -> bool:
        if any(_below(real, place) for place in self._closed):
            return False
        if _below(real, self._projects) and not any(real.is_relative_to(place) for place in self._kept):
            return False
        return any(real.is_relative_to(place) for place in self._own)

    def _is_managed(self, real: Path) -> bool:
        return real.is_relative_to(self.managed) and not any(_below(real, store) for store in self._stores)


def _local(scope: Scope, home: Path) -> Path:
    """Return the principal's folder of the project, also where the memory directory has been put elsewhere."""
    usual = scope.memory_dir.parent
    if usual.parent == home / "projects":
        return usual
    if not scope.project:
        return home / "projects" / UNNAMED
    identity = str(canonical_root(scope.project_root)) if scope.project_root else scope.project
    return home / "projects" / folder_name(unicodedata.normalize("NFC", identity))


def _stores(managed: Path, *stores: Path) -> list[Path]:
    """Return what in the operator's folder holds the homes or memory directories, should that lie above them."""
    inside = [store.relative_to(managed).parts for store in stores if store.is_relative_to(managed)]
    return [managed.joinpath(*parts[:1]) for parts in inside]


def _below(path: Path, place: Path) -> bool:
    """Tell whether it lies there, on a file system too that takes different writings of a name for the same."""
    return _folded(path)[: len(place.parts)] == _folded(place)


def _folded(path: Path) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFC", part).casefold() for part in path.parts)
