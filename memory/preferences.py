"""What those whom a memory belongs to may decide about it themselves: to do without it, or a part, and nothing else.

A principal's home may hold a `settings.toml`, a project's root folder a `.claude/reverie.toml`. Neither is trusted
as the operator's files are: whoever writes into a repository must not choose where memories go.

    [memory]
    auto_memory_enabled = false

`recall_enabled`, `extraction_enabled`, `auto_dream_enabled` and `team_memory_enabled` do without these parts alone.

A value that can't be understood counts as this wish too, and a file that can't be as the wish for no memory at all:
whoever wrote it meant to say something.
"""

import errno
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import structlog

from memory.disk import Folder
from memory.errors import PathRefused
from memory.scope import OptOut, Part
from memory.settings import MemorySettings

PRINCIPAL_FILE = Path("settings.toml")
PROJECT_FILE = Path(".claude/reverie.toml")
_OFF = frozenset({"false", "0", "off", "no"})
_ON = frozenset({"true", "1", "on", "yes"})
_MAX_BYTES = 64 * 1024
_log = structlog.get_logger(__name__)


class Preferences:
    """Reads the two files, each again when it has changed; what is not allowed in them is logged once a change.

    `settings` are the operator's: what these switch off no file switches on.
    """

    def __init__(self, settings: MemorySettings | None = None, *, remembered: int = 4096) -> None:
        """Keep in mind what the last so many files said."""
        self._settings = settings or MemorySettings()
        self._remembered = remembered
        self._known: OrderedDict[Path, tuple[bytes | str, tuple[OptOut, ...]]] = OrderedDict()
        self._lock = threading.Lock()

    def opted_out(self, *, home: Path, project_root: Path | None) -> tuple[OptOut, ...]:
        """Return what the files say that there shall not be; blocking, never raises `OSError`.

        A file that is a link (none is followed), can't be read, is too long or is no TOML opts out of all memory, a
        switch with a value that is neither on nor off out of what it switches.
        """
        own = self._wishes(home, PRINCIPAL_FILE, source="principal")
        return own if project_root is None else (*own, *self._wishes(project_root, PROJECT_FILE, source="project"))

    def _wishes(self, root: Path, file: Path, *, source: str) -> tuple[OptOut, ...]:
        found = _found(root, file)
        with self._lock:  # scopes are made in several threads at once
            before = self._known.pop(root / file, None)
            if found is None:
                return ()
            if before is None or before[0] != found:
                faults = _judged(found, self._settings, source=source)
                wishes = (OptOut(part=part, file=file.as_posix(), fault=fault) for part, fault in faults.items())
                before = (found, tuple(wishes))
            self._known[root / file] = before
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
            return before[1]


def _found(root: Path, file: Path) -> bytes | str | None:
    """Return what the file holds, or in a word why it can't be read, or None if there is none."""
    try:
        if not root.is_dir():  # no home yet, or none can be made: nobody has said anything
            return None
        with Folder.opened((root / file).parent, root=root) as folder:
            stored = folder.read(file.name, limit=_MAX_BYTES)
    except FileNotFoundError:
        return None
    except PathRefused:
        return "link_or_no_plain_file"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    if stored is None:
        return None
    return "too_long" if len(stored.data) > _MAX_BYTES else stored.data


def _judged(found: bytes | str, settings: MemorySettings, *, source: str) -> Mapping[Part, str]:
    """Return what a file opts out of, each with its fault, "" where the file says it in so many words."""
    if isinstance(found, str):
        return _closed(Part.MEMORY, found, source=source)
    try:
        given = tomllib.loads(found.decode("utf-8-sig")).get("memory", {})
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, a number of too many digits
        return _closed(Part.MEMORY, type(error).__name__, source=source)
    if not isinstance(given, dict):
        return _closed(Part.MEMORY, "memory_is_no_table", source=source)
    wishes: dict[Part, str] = {}
    for key, value in given.items():
        if key in list(Part):
            wishes |= _wish(Part(key), value, settings, source=source)
        else:
            _ignored(key, source=source)
    return wishes


def _wish(part: Part, value: object, settings: MemorySettings, *, source: str) -> Mapping[Part, str]:
    known = isinstance(value, str | bool) or value in (0, 1)  # a number may have more digits than can be written out
    said = str(value).strip().casefold() if known else ""
    if said in _OFF:
        return {part: ""}
    if said not in _ON:
        return _closed(part, "switch_neither_on_nor_off", source=source)
    if not getattr(settings, part.value):
        _ignored(part.value, source=source)
    return {}


def _ignored(key: str, *, source: str) -> None:
    """Log that a setting is none that may stand here; by name only if that is ours: the rest is somebody's text."""
    known = key if key in MemorySettings.model_fields else "unknown"
    _log.warning("memory.untrusted_setting_ignored", source=source, key=known)


def _closed(part: Part, cause: str, *, source: str) -> Mapping[Part, str]:
    """Log why what the file says is taken for an opt-out, and take it for one."""
    _log.warning("memory.preferences_unreadable", source=source, key=part.value, cause=cause)
    return {part: cause}
