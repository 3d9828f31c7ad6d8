"""Slots: the moments at which work falls due, the same on every replica whenever it started."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import quote
from zoneinfo import ZoneInfo

from apscheduler.triggers.interval import IntervalTrigger

from memory.paths import UNNAMED
from memory.scope import Scope

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A slot of one scope, or of the gateway as a whole. `at` is when its time came."""

    slot: str
    at: datetime
    scope: Scope | None = None
    day: date | None = None
    since: datetime | None = None
    """From when on things belong to `day`, where that is not its midnight: after a change of the scope's time zone."""
    gate: str = ""
    """What keeps the slot from being run now, in words for people; empty: nothing does."""

    @property
    def scope_key(self) -> str:
        """The scope in the table of runs, in words for people; empty for the gateway as a whole."""
        return "" if self.scope is None else key_of(self.scope)

    def is_of(self, words: str) -> bool:
        """Whether somebody who writes PRINCIPAL (all its projects), PRINCIPAL/PROJECT or the key means its scope."""
        if self.scope is None:
            return False
        principal, project = self.scope.principal, self.scope.project
        return words in {principal, f"{principal}/{project or UNNAMED}", self.scope_key}


def key_of(scope: Scope) -> str:
    """Return the scope's key in the table of runs; no two scopes have the same."""
    # Without a space in the first part no two scopes have the same key, whatever a project is called.
    principal = quote(scope.principal, safe="/:")
    return f"{principal} in {scope.project}" if scope.project else principal


@dataclass(frozen=True, kw_only=True, slots=True)
class Firing:
    """One tick of a job, or somebody's asking."""

    now: datetime
    by_hand: bool = False
    """A person wants it done: no window and no gate of time or number counts."""
    only: str = ""
    """The words for the scope that the person means; empty: all."""
    dry: bool = False
    """A person wants to know what would be done: nothing may be changed, not even what is only remembered."""


Finder = Callable[[Firing], Awaitable[Sequence[Due]]]
"""Says which slots a firing finds; those that are not to be run now have a gate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Every:
    """At fixed distances, counted from the epoch, so that all replicas have the same slots."""

    period: timedelta

    def latest(self, now: datetime) -> Due:
        """Return the slot that the moment lies in."""
        at = now - (now - _EPOCH) % self.period
        return Due(slot=at.isoformat(), at=at)

    def following(self, now: datetime) -> datetime:
        """Return when the next slot begins; needs no running clock."""
        return self.latest(now).at + self.period

    def passed(self, last: datetime, now: datetime) -> Sequence[Due]:
        """Return the first and the last slot that lay between those of two moments; both the same if it was one."""
        first, end = self.following(last), self.latest(now).at - self.period
        return [] if first > end else [self.latest(first), self.latest(end)]

    def apscheduler(self) -> IntervalTrigger:
        """Return the trigger for the clock."""
        return IntervalTrigger(seconds=self.period.total_seconds(), start_date=_EPOCH, timezone=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class QuietHours:
    """The hours of a scope's day in which no work that ends with a word to people is begun.

    They go by what a clock on the wall there shows: of the hour that an autumn night has twice, both are quiet if one
    is, and a window that lies in the hour that a spring night leaves out does not come that night. Those that begin
    later than they end go over midnight; those that begin when they end are none.
    """

    begin: time
    end: time

    def __call__(self, due: Due, now: datetime) -> str:
        """Return why the slot can't be begun at this moment, "" if it can."""
        if due.scope is None:
            return ""
        shown = now.astimezone(ZoneInfo(due.scope.timezone)).time()
        after, before = self.begin <= shown, shown < self.end
        quiet = (after and before) if self.begin <= self.end else (after or before)
        return f"quiet hours until {self.end:%H:%M}" if quiet else ""


def local_moment(day: date, clock: time, *, timezone: str) -> datetime:
    """Return the moment, in UTC, at which a local clock shows a time, or would in a spring night."""
    return datetime.combine(day, clock, tzinfo=ZoneInfo(timezone)).astimezone(UTC)
