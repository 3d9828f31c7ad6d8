"""Slots: the moments at which work falls due, the same on every replica whenever it started."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol
from urllib.parse import quote
from zoneinfo import ZoneInfo

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from memory.scope import Scope

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOOK_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=8), timedelta(days=32))


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A slot to run: of one scope, or of the gateway as a whole. `at` is when its time came."""

    slot: str
    at: datetime
    scope: Scope | None = None
    day: date | None = None

    @property
    def scope_key(self) -> str:
        """The scope in the table of runs; empty for the gateway as a whole."""
        if self.scope is None:
            return ""
        return f"{quote(self.scope.principal, safe=':')}/{quote(self.scope.project, safe='')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Firing:
    """One tick of a job; `by_hand` when a person asked for it, so that no gate and no window counts."""

    now: datetime
    by_hand: bool = False


Finder = Callable[[Firing], Awaitable[Sequence[Due]]]
"""Says which slots a firing finds due."""


class Trigger(Protocol):
    """When a job fires, and which slot a moment belongs to, the same on every replica."""

    def latest(self, now: datetime) -> Due | None:
        """Return the slot whose time came last; None if none has."""

    def apscheduler(self) -> BaseTrigger:
        """Return the trigger for the clock."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Cron:
    """At the local times of a five-field crontab expression in a named zone."""

    expression: str
    timezone: str

    def latest(self, now: datetime) -> Due | None:
        """Return the last time that the expression named, up to 32 days back."""
        trigger = self.apscheduler()
        for back in _LOOK_BACK:
            found: datetime | None = None
            following: datetime | None = trigger.get_next_fire_time(None, now - back)
            while following is not None and following <= now:
                found = following
                following = trigger.get_next_fire_time(found, found)
            if found is not None:
                return Due(slot=found.astimezone(UTC).isoformat(), at=found.astimezone(UTC))
        return None

    def apscheduler(self) -> CronTrigger:
        """Return the trigger for the clock."""
        return CronTrigger.from_crontab(self.expression, timezone=ZoneInfo(self.timezone))


def local_moment(day: date, clock: time, *, timezone: str) -> datetime:
    """Return the moment, in UTC, at which a local clock shows a time, or would in a spring night."""
    return datetime.combine(day, clock, tzinfo=ZoneInfo(timezone)).astimezone(UTC)
