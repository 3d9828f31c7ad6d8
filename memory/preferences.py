"""What those whom a memory belongs to may decide about it themselves: to have none, and nothing else.

A principal's home may hold a `settings.toml`, a project's root folder a `.claude/reverie.toml`. Neither is trusted
as the operator's files are: whoever writes into a repository must not choose where memories go.

    [memory]
    auto_memory_enabled = false
"""

import threading
import tomllib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import structlog

from memory.disk import Folder
from memory.errors import PathRefused
from memory.settings import MemorySettings

PRINCIPAL_FILE = Path("settings.toml")
PROJECT_FILE = Path(".claude/reverie.toml")
_SWITCH = "auto_memory_enabled"
_MAX_BYTES = 64 * 1024
_log = structlog.get_logger(__name__)


class Preferences:
    """Reads the two files, each again when it has changed; what is not allowed in them is logged once a change."""

    def __init__(self, *, remembered: int = 4096) -> None:
        """Keep in mind what the last so many files said."""
        self._remembered = remembered
        self._known: OrderedDict[Path, tuple[bytes, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def opted_out(self, *, home: Path, project_root: Path | None) -> bool:
        """Return whether one of the files says that there shall be no memory; blocking, never raises `OSError`.

        A file that can't be read or is no TOML says nothing. Links are not followed.
        """
        own = self._says_no(home, PRINCIPAL_FILE, source="principal")
        return own or (project_root is not None and self._says_no(project_root, PROJECT_FILE, source="project"))

    def _says_no(self, root: Path, file: Path, *, source: str) -> bool:
        data = _bytes(root, file, source=source)
        with self._lock:  # scopes are made in several threads at once
            before = self._known.pop(root / file, None)
            if not data:
                return False
            if before is None or before[0] != data:
                before = (data, _judged(data, source=source))
            self._known[root / file] = before
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)
            return before[1]


def _bytes(root: Path, file: Path, *, source: str) -> bytes:
    try:
        with Folder.opened((root / file).parent, root=root) as folder:
            stored = folder.read(file.name, limit=_MAX_BYTES)
    except FileNotFoundError:
        return b""
    except (OSError, PathRefused) as error:
        _log.warning("memory.preferences_unreadable", source=source, error=type(error).__name__)
        return b""
    return stored.data if stored else b""


def _judged(data: bytes, *, source: str) -> bool:
    try:
        given = tomllib.loads(data.decode("utf-8-sig")).get("memory", {})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        _log.warning("memory.preferences_unreadable", source=source, error=type(error).__name__)
        return False
    memory: dict[str, Any] = given if isinstance(given, dict) else {}
    for key, value in memory.items():
        if key != _SWITCH or not isinstance(value, bool):
            # Only names that are ours are logged: the rest is somebody's text.
            known = key if key in MemorySettings.model_fields else "unknown"
            _log.warning("memory.untrusted_setting_ignored", source=source, key=known)
    return memory.get(_SWITCH) is False
