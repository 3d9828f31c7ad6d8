"""Team sync, with a memory of how each copy's last exchange went; that lives as long as the process, as rests do."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memory.errors import LeaseLost
from memory.scope import Scope
from memory.team.client import Rest, TeamSync
from memory.team.local import Skip
from memory.team.report import SyncReport
from scheduler.board import local


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """How the last exchange of a copy went."""

    at: datetime
    told: str
    skipped: tuple[Skip, ...] = ()


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
        told = f"failed: {report.failure}" if report.failure is not None else report.counts()
        self._last[scope.memory_dir] = Exchange(at=self._now(), told=told, skipped=tuple(report.skipped))
        return report


def why_resting(rest: Rest, timezone: str) -> str:
    """Return why nothing is pushed, and what helps, to be said after a colon."""
    return (
        f"{rest.failure}. It is tried again once a note is deleted, the token changes or the gateway is restarted, "
        f"at the latest at {local(rest.until, timezone)}"
    )


async def exchanged(sync: TeamSync, scope: Scope) -> SyncReport | None:
    """Bring a copy in line now; None if somebody else is at it."""
    try:
        return await sync.sync(scope)
    except LeaseLost:
        return None
