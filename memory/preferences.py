"""What those whom a memory belongs to may decide about it themselves: to have none, and nothing else.

A principal's home may hold a `settings.toml`, a project's root folder a `.claude/reverie.toml`. Neither is trusted
as the operator's files are: whoever writes into a repository must not choose where memories go.

    [memory]
    auto_memory_enabled = false

A file that is there but can't be understood counts as this wish too: whoever wrote it meant to say something.
"""

import errno
import threading
import tomllib
from collections import OrderedDict
from pathlib import Path

import structlog

from memory.disk import Folder
from memory.errors import PathRefused
from memory.settings import MemorySettings

PRINCIPAL_FILE = Path("settings.toml")
PROJECT_FILE = Path(".claude/reverie.toml")
_SWITCH = "auto_memory_enabled"
_OFF = frozenset({"false", "0", "off", "no"})
_ON = frozenset({"true", "1", "on", "yes"})
_MAX_BYTES = 64 * 1024
_log = structlog.get_logger(__name__)


class Preferences:
    """Reads the two files, each again when it has changed; what is not allowed in them is logged once a change."""

    def __init__(self, *, remembered: int = 4096) -> None:
        """Keep in mind what the last so many files said."""
        self._remembered = remembered
        self._known: OrderedDict[Path, tuple[bytes | str, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def opted_out(self, *, home: Path, project_root: Path | None) -> bool:
        """Return whether one of the files says that there shall be no memory; blocking, never raises `OSError`.

        A file that is a link (none is followed), can't be read, is too long, is no TOML or gives the switch a value
        that is neither on nor off says so too.
        """
        own = self._says_no(home, PRINCIPAL_FILE, source="principal")
        return own or (project_root is not None and self._says_no(project_root, PROJECT_FILE, source="project"))

    def _says_no(self, root: Path, file: Path, *, source: str) -> bool:
        found = _found(root, file)
        with self._lock:  # scopes are made in several threads at once
            before = self._known.pop(root / file, None)
            if found is None:
                return False
            if before is None or before[0] != found:
                before = (found, _judged(found, source=source))
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


def _judged(found: bytes | str, *, source: str) -> bool:
    if isinstance(found, str):
        return _closed(found, source=source)
    try:
        given = tomllib.loads(found.decode("utf-8-sig")).get("memory", {})
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, a number of too many digits
        return _closed(type(error).__name__, source=source)
    if not isinstance(given, dict):
        return _closed("memory_is_no_table", source=source)
    for key in given.keys() - {_SWITCH}:
        # Only names that are ours are logged: the rest is somebody's text.
        known = key if key in MemorySettings.model_fields else "unknown"
        _log.warning("memory.untrusted_setting_ignored", source=source, key=known)
    value = str(given.get(_SWITCH, True)).strip().casefold()
    if value in _OFF | _ON:
        return value in _OFF
    return _closed("switch_neither_on_nor_off", source=source)


def _closed(cause: str, *, source: str) -> bool:
    """Log why the file is taken for an opt-out, and take it for one."""
    _log.warning("memory.preferences_unreadable", source=source, cause=cause)
    return True
