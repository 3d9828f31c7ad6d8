"""How long day logs are kept: those that were distilled may go after a while, if the operator says so."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from anyio import to_thread

from memory.dailylog import Log, local_day, look, processed_logs
from memory.disk import Folder
from memory.lease_names import dreaming, writing
from memory.ports import Leases
from memory.scope import Scope


async def old_logs(scope: Scope, *, keep_days: int, now: datetime) -> Sequence[Log]:
    """Return what `delete_old_logs` would delete."""
    return await to_thread.run_sync(processed_logs, scope, local_day(scope, now) - timedelta(days=keep_days))


async def delete_old_logs(scope: Scope, *, keep_days: int, now: datetime, leases: Leases, seconds: float) -> int:
    """Delete the logs whose day ended more than `keep_days` days ago, and return how many.

    Only a log goes that is processed as it stands: what waits, or was changed since, stays. Copies in the snapshots of
    dreams go when those go. Raises `LeaseLost` while a dream or distillation is under way, or somebody writes for long.
    """
    old = await old_logs(scope, keep_days=keep_days, now=now)
    if not old:
        return 0
    async with (
        leases.hold(dreaming(scope), seconds=seconds, wait=0),
        leases.hold(writing(scope), seconds=seconds, wait=seconds) as fence,
    ):
        await fence.check()
        return await to_thread.run_sync(_delete, scope, old)


def _delete(scope: Scope, logs: Iterable[Log]) -> int:
    as_they_were = [log for log in logs if look(scope, log.path) == log]
    for log in as_they_were:
        with Folder.opened(log.path.parent, root=scope.memory_dir) as folder:
            folder.remove(log.path.name)
    return len(as_they_were)
