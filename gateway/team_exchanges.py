"""Team sync, with a memory of how each copy's last exchange went; that lives as long as the process, as rests do."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from memory.errors import LeaseLost
from memory.scope import Scope
from memory.team.client import TeamSync
from memory.team.errors import SyncFailed
from memory.team.local import Skip
from memory.team.report import SyncReport

_REST = timedelta(hours=24)  # so long a push that can't succeed is not tried again; see `memory.team.client`


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """How the last exchange of a copy went; `rests` is the failure for which nothing is pushed any more."""

    at: datetime
    told: str
    skipped: tuple[Skip, ...] = ()
    rests: SyncFailed | None = None
    since: datetime | None = None


class TeamExchanges(TeamSync):
    """A `TeamSync` that can say how the last exchange of a copy went."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._now = parts["clock"]
        self._last: dict[Path, Exchange] = {}

    def last(self, scope: Scope) -> Exchange | None:
        """Return the last exchange of this scope's copy; None if there was none since the start."""
        return self._last.get(scope.memory_dir)

    async def sync(self, scope: Scope) -> SyncReport:
        """Pull, then push; see `TeamSync.sync`."""
        return self._noted(scope, await super().sync(scope))

    async def push(self, scope: Scope, *, wait: float | None = None) -> SyncReport:
        """Only push; see `TeamSync.push`."""
        return self._noted(scope, await super().push(scope, wait=wait))

    def _noted(self, scope: Scope, report: SyncReport) -> SyncReport:
        now, before, failure = self._now(), self._last.get(scope.memory_dir), report.failure
        rests, since = (before.rests, before.since) if before else (None, None)
        if report.pushed or report.deleted or (since is not None and now - since >= _REST):
            rests, since = None, None
        if failure is not None and failure.permanent:
            rests, since = failure, now
        self._last[scope.memory_dir] = Exchange(
            at=now,
            told=f"failed: {failure}" if failure is not None else report.summary(),
            skipped=tuple(report.skipped),
            rests=rests,
            since=since,
        )
        return report


async def exchanged(sync: TeamSync, scope: Scope) -> SyncReport | None:
    """Bring a copy in line now; None if somebody else is at it."""
    try:
        return await sync.sync(scope)
    except LeaseLost:
        return None
