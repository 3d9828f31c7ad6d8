"""Notes in A that a consolidation has ended well; done after its record, so that a kill between is made up for."""

from dataclasses import replace
from pathlib import Path

from memory import stamp as stamps
from memory.dailylog import Log, mark_processed, mark_waiting
from memory.journal import Journal, Record, Settling
from memory.scope import Scope


def settle(scope: Scope, what: Settling, token: int) -> None:
    """Set the stamp, unless there is a later one, and mark the logs. Blocks; raises `OSError`; may be repeated."""
    if what.began_at is not None and stamps.last_consolidated(scope.memory_dir) < what.began_at:
        stamps.stamp(scope.memory_dir, what.began_at, token)
    if what.logs:
        mark_processed(scope, [Log(path=path, hash=what.logs[name]) for name, path in _paths(scope, what).items()])


def settle_record(scope: Scope, folder: Path, record: Record, token: int) -> None:
    """Do so for a run that has a record, and note there that it is done. Blocks; raises `OSError`."""
    settle(scope, record.settling, token)
    Journal(scope, folder).end(replace(record, settled=True))


def unsettle(scope: Scope, what: Settling) -> None:
    """Let the logs wait again; the stamp stays. Blocks; raises `OSError`."""
    if what.logs:
        mark_waiting(scope, list(_paths(scope, what).values()))


def has_lost_logs(scope: Scope, what: Settling) -> bool:
    """Return whether a log that was sorted is gone by now, so that what came of it stands in notes only. Blocks."""
    return not all(path.is_file() for path in _paths(scope, what).values())


def _paths(scope: Scope, what: Settling) -> dict[str, Path]:
    return {name: scope.memory_dir / name for name in what.logs}
