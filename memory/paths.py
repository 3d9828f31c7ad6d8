"""Where memory lies: the homes, each scope's memory directory, and the check that a path stays inside."""

import errno
import hashlib
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

import structlog

from memory.checkout import canonical_root
from memory.errors import MemoryFault, PathRefused
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

UNNAMED = "_chat"
"""The project folder of a chat that is bound to none; no cleaned name has an underscore."""
TEAM = "team"
AGENT_MEMORY = "agent-memory"
AGENT_MEMORY_LOCAL = "agent-memory-local"
_PRINCIPAL = "{principal}"
_PROJECT = "{project}"
_LONGEST_NAME = 60
_HASHED = re.compile(r"-[0-9a-f]{16}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_DRIVE = re.compile(r"[A-Za-z]:\Z")
_log = structlog.get_logger()


class SharedDirectory(MemoryFault):
    """The configured directory would hold the memory of several principals."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectRef:
    """A named project as memory sees it: its root folder, if it has one, and its id for team sync."""

    name: str
    root: Path | None = None
    repo: str = ""


def folder_name(raw: str) -> str:
    """Return a readable folder name of [a-z0-9-], at most 77 characters, that no other id shares.

    A hash of the whole id is added whenever the readable part differs from the id, or could be taken for one
    with a hash; so two ids never meet, even where the file system ignores case or folds Unicode forms.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", raw.lower()).strip("-")[-_LONGEST_NAME:].strip("-")
    if readable and readable == raw and not _HASHED.search(raw):
        return raw
    digest = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{readable or 'x'}-{digest}"


class Homes:
    """Makes scopes: which directories belong to a principal in a project.

    `override` (the host's environment) goes before the settings' directory, that before the homes; an invalid
    one is logged and passed over. Raises `SharedDirectory` if the directory that is left would hold several
    principals.
    """

    def __init__(
        self,
        root: Path,
        *,
        settings: MemorySettings,
        override: str | None = None,
        enabled: bool = True,
        kept: Sequence[Path] = (),
    ) -> None:
        """`kept` are the host's own directories and files, besides the directories of memory.

        No project's root may lie in such a directory or hold one; such files are closed wherever they lie.
        """
        self._root = _real(root)
        hosts = [_real(each) for each in kept]
        self._kept = [each for each in hosts if each.is_dir()]
        self._files = [each for each in hosts if not each.is_dir()]
        self._settings = settings
        self._enabled = enabled
        self._overridden = _configured(override, home=None) is not None
        self._template = self._choose(override)
        self._store = Path(*takewhile(lambda part: not _holds_placeholder(part), self._template.parts))
        self._per_project = any(_PROJECT in part for part in self._template.parts)
        if not self._per_project and settings.team_memory_enabled:
            _log.warning("memory.team_off", reason="the memory directory does not differ by project")
        self._directory = lru_cache(maxsize=4096)(self._find_directory)
        self._project_root = lru_cache(maxsize=1024)(self._find_project_root)

    @property
    def overridden(self) -> bool:
        """Whether the environment names the directory: writes there are nothing that goes without saying."""
        return self._overridden

    def home(self, principal: str) -> Path:
        """Return the principal's folder."""
        return self._root / folder_name(principal)

    def scope(
        self,
        *,
        principal: str,
        project: ProjectRef | None,
        member: bool,
        shared: bool,
        mode: Mode,
        timezone: str,
        enabled: bool = True,
    ) -> Scope:
        """Make the scope of one turn or job; nothing is created on disk.

        `member`: the principal belongs to the project, as checked just now; without it there is neither team
        memory nor a look at the project's root folder. Raises `PathRefused` if the directory is reached
        through a link.
        """
        directory = self._directory(principal, project)
        root = self._project_root(project) if project is not None and member else None
        team = project is not None and member and self._per_project and self._settings.team_memory_enabled
        return Scope(
            principal=principal,
            project=project.name if project else "",
            memory_dir=directory,
            team_dir=directory / TEAM if team else None,
            mode=mode,
            shared=shared,
            enabled=self._enabled and enabled,
            timezone=timezone,
            readable=(directory, root) if root else (directory,),
            writable=(directory,),
            repo=project.repo if project else "",
            project_root=root,
            closed=tuple(self._files) if root else (),
        )

    def overlapping(self, root: Path) -> Path | None:
        """Return the directory, memory's or the host's, for whose sake a project can't have this root; None if none."""
        real = _real(root)
        stores = (self._root, _real(self._store), *self._kept)
        return next((store for store in stores if store.is_relative_to(real) or real.is_relative_to(store)), None)

    def closed_below(self, root: Path) -> tuple[Path, ...]:
        """Return the host's files below a root, of which nothing may be read from there."""
        return tuple(file for file in self._files if file.is_relative_to(_real(root)))

    def _choose(self, override: str | None) -> Path:
        sources = (
            ("REVERIE_MEMORY_PATH_OVERRIDE", override, None),
            ("auto_memory_directory", self._settings.auto_memory_directory, self._root / _PRINCIPAL),
        )
        for source, raw, home in sources:
            chosen = _configured(raw, home=home)
            if chosen is not None:
                _refuse_shared(chosen, source)
                return chosen
            if raw:
                _log.warning("memory.directory_ignored", source=source)
        return self._root / _PRINCIPAL / "projects" / _PROJECT / "memory"

    def _find_directory(self, principal: str, project: ProjectRef | None) -> Path:
        own = folder_name(principal)
        work = project_folder(project.name, root=project.root, repo=project.repo) if project else UNNAMED
        below = self._template.parts[len(self._store.parts) :]
        directory = _real(self._store).joinpath(
            *(part.replace(_PRINCIPAL, own).replace(_PROJECT, work) for part in below)
        )
        if Path(os.path.realpath(directory)) != directory:  # such a link could lead into another principal's memory
            raise PathRefused("the memory directory is reached through a link; put a real directory in its place")
        return directory

    def _find_project_root(self, project: ProjectRef) -> Path | None:
        if project.root is None:
            return None
        if self.overlapping(project.root) is not None:
            _log.warning("memory.project_root_ignored", project=project.name, reason="it holds the gateway's own")
            return None
        return _real(project.root)


def ensure(scope: Scope) -> bool:
    """Make A, and T where there is one; blocking. Returns whether they are there; never raises `OSError`."""
    try:
        for directory in (scope.memory_dir, scope.team_dir):
            if directory is not None:
                make_private(directory)
    except OSError as error:
        _log.warning("memory.directory_not_made", errno=error.errno)
        return False
    return True


def make_private(directory: Path) -> None:
    """Make the directory and its missing parents, for their owner only; one that exists keeps its mode."""
    if directory.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "a link stands where a directory should")
    if not directory.exists():
        make_private(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)


def contained(path: str, *, base: Path, roots: Sequence[Path]) -> Path:
    """Return where `path`, absolute or relative to `base`, really lies; the file itself need not exist.

    `roots` and `base` are real paths. Links may be followed inside the roots and never out of them. Raises
    `PathRefused` with a reason for the model, which repeats no path.
    """
    real = _resolve(_lexical(path, base))
    if not any(real.is_relative_to(root) for root in roots):
        raise PathRefused(
            "this path leads outside the directories that may be used here; "
            "give one relative to the memory directory, such as topic.md"
        )
    return real


def readable_path(scope: Scope, path: str) -> Path:
    """Return the real place of a path that the scope may read, relative to A; raises `PathRefused`.

    Of A that is notes and folders: what is no note is in no list of notes, and could not be forgotten.
    """
    real = _of_memory(scope, contained(path, base=scope.memory_dir, roots=scope.readable))
    _refuse_agents(scope, real)
    if is_closed(scope, real):
        raise PathRefused("this file is the gateway's own: nothing of it can be read")
    if real.is_relative_to(scope.memory_dir) and real.suffix != ".md" and real.is_file():
        raise PathRefused("this file is no note: in memory only files whose names end in .md can be read")
    return real


def writable_path(scope: Scope, path: str) -> Path:
    """Return the real place of a path that the scope may write, relative to A; raises `PathRefused`."""
    return _of_memory(scope, contained(path, base=scope.memory_dir, roots=scope.writable))


def is_closed(scope: Scope, real: Path) -> bool:
    """Return whether a real path leads to one of the host's files, be it by a hard link from the project's root."""
    shown = str(real).casefold()  # some file systems don't know letter case
    return any(shown.startswith(str(file).casefold()) for file in scope.closed) or _is_linked(real, scope.closed)


def _is_linked(real: Path, files: Sequence[Path]) -> bool:
    """Tell whether a path is another name of one of the files, or of what lies beside these under a longer name."""
    try:
        facts = real.stat()
        there = [entry for file in files for entry in os.scandir(file.parent)] if facts.st_nlink > 1 else []
    except OSError:  # nothing is there to be read
        return False
    linked = [entry.name for entry in there if entry.inode() == facts.st_ino]
    return any(name.startswith(file.name) for name in linked for file in files)


def _refuse_agents(scope: Scope, real: Path) -> None:
    """Refuse what agents keep below the project's root if memory is off, and if it belongs to a project within it."""
    root = scope.project_root
    if root is None or real.is_relative_to(scope.memory_dir) or not real.is_relative_to(root):
        return
    names = [name.casefold() for name in real.relative_to(root).parts]
    if not scope.enabled and any(name.startswith(AGENT_MEMORY) for name in names):
        raise PathRefused("memory is off here, and so is what agents keep")
    if any(name in {AGENT_MEMORY, AGENT_MEMORY_LOCAL} for name in names[2:-1]):
        raise PathRefused("this is what the agents of another project keep")


def in_team(scope: Scope, path: Path) -> bool:
    """Return whether a real path lies in the scope's team directory."""
    return scope.team_dir is not None and path.is_relative_to(scope.team_dir)


def _of_memory(scope: Scope, real: Path) -> Path:
    """Hide what a former membership left under A until sync has removed it, and what has a dot in front of its name."""
    inside = real.relative_to(scope.memory_dir).parts if real.is_relative_to(scope.memory_dir) else ()
    if any(part.startswith(".") for part in inside):
        raise PathRefused("no name in memory begins with a dot: such a note would be in no list, nor be forgotten")
    if scope.team_dir is None and real.is_relative_to(scope.memory_dir / TEAM):
        raise PathRefused("this chat has no team memory: nothing under team/ can be used here")
    return real


def _lexical(path: str, base: Path) -> str:
    if not path or _CONTROL.search(path):
        raise PathRefused("a path is plain text without control characters")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise PathRefused("the path is not valid Unicode text") from None
    joined = os.path.join(base, path)  # noqa: PTH118  (pathlib keeps "..", which has to go before links are looked at)
    if os.path.lexists(joined):
        return "/" + os.path.normpath(joined).lstrip("/")
    if "\\" in path or path.startswith("~"):  # only a file that a person named so by hand is reached by such a name
        raise PathRefused("a path has / between its names: no backslash, no ~ in front")
    # A file that came from elsewhere may have its name in another Unicode form.
    joined = unicodedata.normalize("NFC", joined)
    return "/" + os.path.normpath(joined).lstrip("/")


def _resolve(path: str) -> Path:
    """Resolve the deepest ancestor that exists and put the missing names behind it."""
    place, missing = Path(path), list[str]()
    while True:
        try:
            return Path(os.path.realpath(place, strict=True)).joinpath(*reversed(missing))
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG} or os.path.islink(place):  # noqa: PTH114  (never raises)
                raise PathRefused("this path goes through a link or a folder that can't be followed") from None
        missing.append(place.name)
        place = place.parent


def _real(path: Path) -> Path:
    return Path(os.path.realpath(unicodedata.normalize("NFC", str(path))))


def project_folder(name: str, *, root: Path | None, repo: str) -> str:
    """Return the folder name of a project: worktrees of one checkout share it, projects with a team of their own never.

    Else a chat that is bound to another project of the same checkout would find the former one's team memory there.
    """
    identity = name if root is None else f"{canonical_root(root)}#{repo or name}"
    return folder_name(unicodedata.normalize("NFC", identity))


def _configured(raw: str | None, *, home: Path | None) -> Path | None:
    """Return a configured directory in its normal form, or None if it is unset or not allowed."""
    if not raw or "\0" in raw:
        return None
    if home is not None and raw[:2] in {"~/", "~\\"}:
        rest = os.path.normpath(raw[2:])
        if rest in {".", ".."}:
            return None
        raw = f"{home}/{rest}"
    path = os.path.normpath(raw).rstrip("/\\")
    if not path.startswith("/") or path.startswith("//") or len(path) < 3 or _DRIVE.match(path):
        return None
    return Path(unicodedata.normalize("NFC", path))


def _holds_placeholder(part: str) -> bool:
    return _PRINCIPAL in part or _PROJECT in part


def _refuse_shared(template: Path, source: str) -> None:
    alone = [part for part in template.parts if _PRINCIPAL in part and _PROJECT not in part]
    if not alone:
        raise SharedDirectory(
            f"{source} would put several people's and chats' memories into one directory: "
            f"add {_PRINCIPAL} as a folder of its own, for example /srv/memory/{_PRINCIPAL}/{_PROJECT}"
        )
