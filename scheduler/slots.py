"""Slots: the moments at which work falls due, the same on every replica whenever it started."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import quote
from zoneinfo import ZoneInfo

from apscheduler.triggers.interval import IntervalTrigger

from memory.scope import Scope

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A slot to run: of one scope, or of the gateway as a whole. `at` is when its time came."""

    slot: str
    at: datetime
    scope: Scope | None = None
    day: date | None = None

    @property
    def scope_key(self) -> str:
        """The scope in the table of runs, in words for people; empty for the gateway as a whole."""
        if self.scope is None:
            return ""
        # Without a space in the first part no two scopes have the same key, whatever a project is called.
        principal = quote(self.scope.principal, safe="/:")
        return f"{principal} in {self.scope.project}" if self.scope.project else principal


@dataclass(frozen=True, kw_only=True, slots=True)
class Firing:
    """One tick of a job; `by_hand` when a person asked for it, so that no gate and no window counts."""

    now: datetime
    by_hand: bool = False


Finder = Callable[[Firing], Awaitable[Sequence[Due]]]
"""Says which slots a firing finds due."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Every:
    """At fixed distances, counted from the epoch, so that all replicas have the same slots."""

    period: timedelta

    def latest(self, now: datetime) -> Due:
        """Return the slot that the moment lies in."""
        at = now - (now - _EPOCH) % self.period
        return Due(slot=at.isoformat(), at=at)

    def apscheduler(self) -> IntervalTrigger:
        """Return the trigger for the clock."""
        return IntervalTrigger(seconds=self.period.total_seconds(), start_date=_EPOCH, timezone=UTC)


def local_moment(day: date, clock: time, *, timezone: str) -> datetime:
    """Return the moment, in UTC, at which a local clock shows a time, or would in a spring night."""
    return datetime.combine(day, clock, tzinfo=ZoneInfo(timezone)).astimezone(UTC)
