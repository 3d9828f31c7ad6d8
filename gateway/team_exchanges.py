"""Team sync, with a memory of how each copy's last exchange went; that lives as long as the process, as rests do."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memory.errors import LeaseLost
from memory.scope import Scope
from memory.team.client import Rest, TeamSync
from memory.team.local import Skip
from memory.team.report import SyncReport
from memory.team.shared_pull import SharedPull
from memory.team.state import SyncState
from scheduler.board import local

OWN = "gateway"
"""Whose writes, on the server that is this gateway's own, are those of its own chats."""
_LONGEST_KEY = 120


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

    async def sync(self, scope: Scope, *, shared: SharedPull | None = None) -> SyncReport:
        """Pull, then push; see `TeamSync.sync`."""
        return self._noted(scope, await super().sync(scope, shared=shared))

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


def reached(report: SyncReport, state: SyncState, wanted: Mapping[str, str]) -> str:
    """Say whether the others have what an exchange was to bring them.

    `wanted` has by key the hash of each text, empty where there is to be none. The state alone tells that the server
    has agreed to it: an exchange that ended well may have settled it otherwise.
    """
    lines = [line for key, value in wanted.items() if (line := _otherwise(report, state, key, value))]
    return "\n".join(lines) or "The server has it; the team's other chats get it with their next exchange."


def _otherwise(report: SyncReport, state: SyncState, key: str, wanted: str) -> str:
    """Say what became of a text that the server does not have; "" if it has it."""
    name, there = code(key), state.base.get(key, "")
    if skip := next((skip for skip in report.skipped if skip.key == key), None):
        return f"`{name}` did not go to the server: {skip.reason}."
    if there == wanted:
        return ""
    if beside := [each for each in report.conflicts if conflict_of(each) == key]:
        return f"Others had changed `{name}` too: their text stands there, and yours is kept in `{code(beside[0])}`."
    if wanted:
        return f"The server does not have `{name}` as it was meant; `/team` shows how it stands."
    if not state.tombstones:
        return f"`{name}` is gone here only: the team's server keeps no deletions."
    return f"`{name}` is not deleted on the server: others have changed it."


def conflict_of(name: str) -> str:
    """Return the name of the note that a conflict copy lies beside."""
    return f"{name.rpartition('.conflict-')[0]}.md"


def code(text: str) -> str:
    """Return a text that can stand in a code span, whoever has written it: it is on one line, and not long."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text.replace("`", "'"))
    shown = " ".join(plain.split())
    return shown if len(shown) <= _LONGEST_KEY else f"{shown[:_LONGEST_KEY]}…"


async def exchanged(sync: TeamSync, scope: Scope) -> SyncReport | None:
    """Bring a copy in line now; None if somebody else is at it."""
    try:
        return await sync.sync(scope)
    except LeaseLost:
        return None
