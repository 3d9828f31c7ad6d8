"""What has changed in a memory since a session's prompt was frozen: to be told at the tail, once."""

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.index import INDEX
from memory.scan import NoteHeader
from memory.scope import Scope


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """Names relative to A: notes and indexes that are newer than what was told, and notes that are gone."""

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def changes(scope: Scope, headers: Sequence[NoteHeader], *, known: Collection[str], since: float) -> Changes:
    """Return what has changed since `since`, in seconds, by the notes that are there now; blocking.

    `known` names what the session has in front of it: it is told if such a note is gone.
    """
    changed = (header.name for header in headers if header.mtime > since)
    gone = _gone(scope, known, {header.name for header in headers}, since=since)
    return Changes(changed=(*changed, *_indexes(scope, since=since)), gone=tuple(gone))


def _gone(scope: Scope, known: Iterable[str], there: Collection[str], *, since: float) -> Iterable[str]:
    touched: dict[Path, bool] = {}
    for name in sorted(set(known).difference(there)):
        path = scope.memory_dir / name
        # A folder is newer once a name has left it: what was missing before that was told then.
        if path.parent not in touched:
            touched[path.parent] = not path.parent.exists() or _newer(path.parent, since)
        if touched[path.parent] and not os.path.lexists(path):
            yield name


def _indexes(scope: Scope, *, since: float) -> Iterable[str]:
    for folder in filter(None, (scope.memory_dir, scope.team_dir)):
        if _newer(folder / INDEX, since):
            yield (folder / INDEX).relative_to(scope.memory_dir).as_posix()


def _newer(path: Path, since: float) -> bool:
    try:
        return path.stat().st_mtime > since
    except OSError:
        return False
