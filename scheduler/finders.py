"""Who is due: the scopes, and for each the slots that a firing finds open."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, time, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from memory.scope import Mode, Scope
from scheduler.runs import Runs
from scheduler.settings import SchedulerSettings
from scheduler.slots import Due, Every, Firing, local_moment


class Scopes(Protocol):
    """Who there is to work for."""

    async def active(self) -> Sequence[Scope]:
        """Return the scope of every principal and project whose memory is on."""


DueSince = Callable[[Scope], Awaitable[datetime | None]]
"""Says whether a scope's dream is due: None if not, else the time of its last one, the epoch if it had none."""


class Days:
    """Which local days of the scopes in log mode are to be closed, and which are to be distilled."""

    CLOSE = "close-day"
    DISTIL = "distil"

    def __init__(self, settings: SchedulerSettings, *, scopes: Scopes, runs: Runs) -> None:
        self._settings = settings
        self._scopes = scopes
        self._runs = runs

    async def to_close(self, firing: Firing) -> Sequence[Due]:
        """Return the days to close: yesterday, and before it what is open since the first that was closed."""
        if firing.by_hand:
            return [_ended(scope, now=firing.now, back=1) for scope in await self._logging()]
        back = range(1, self._settings.close_day_back + 1)
        ended = [[_ended(scope, now=firing.now, back=days) for days in back] for scope in await self._logging()]
        settled = await self._runs.settled(self.CLOSE, {due.slot for days in ended for due in days})
        return [due for days in ended for due in _open_days(days, settled)]

    async def to_distil(self, firing: Firing) -> Sequence[Due]:
        """Return the nights whose hour has come and whose day is closed, so that no bullet comes after."""
        nights = [self._night(scope, firing) for scope in await self._logging()]
        if firing.by_hand:
            return nights
        slots = {due.slot for due in nights}
        closed = await self._runs.settled(self.CLOSE, slots)
        ready = closed - await self._runs.settled(self.DISTIL, slots)
        return [due for due in nights if due.at <= firing.now and (due.scope_key, due.slot) in ready]

    def _night(self, scope: Scope, firing: Firing) -> Due:
        ended = _ended(scope, now=firing.now, back=1)
        assert ended.day is not None
        hour = local_moment(ended.day + timedelta(days=1), self._settings.distil_from, timezone=scope.timezone)
        return Due(slot=ended.slot, at=hour, scope=scope, day=ended.day)

    async def _logging(self) -> list[Scope]:
        return [scope for scope in await self._scopes.active() if scope.mode is Mode.LOG]


def _open_days(days: Sequence[Due], settled: Collection[tuple[str, str]]) -> list[Due]:
    """Return which of a scope's days, newest first, are to be closed.

    A scope without any closed day is new to log mode: what lies before yesterday was never logged.
    """
    closed = [due for due in days if (due.scope_key, due.slot) in settled]
    first = min((due.slot for due in closed), default=days[0].slot)
    return [due for due in days if due.slot >= first and due not in closed]


def _ended(scope: Scope, *, now: datetime, back: int) -> Due:
    """Return the local day that ended `back` midnights ago."""
    day = now.astimezone(ZoneInfo(scope.timezone)).date() - timedelta(days=back)
    midnight = local_moment(day + timedelta(days=1), time.min, timezone=scope.timezone)
    return Due(slot=day.isoformat(), at=midnight, scope=scope, day=day)


class Dreamers:
    """The scopes whose gates are open."""

    def __init__(self, every: Every, *, scopes: Scopes, due_since: DueSince) -> None:
        self._every = every
        self._scopes = scopes
        self._due_since = due_since

    async def __call__(self, firing: Firing) -> Sequence[Due]:
        """Return them; by hand, all that could dream.

        A scope's slot stays the same all its local day until a dream has ended well: dreams that don't are counted.
        """
        at = self._every.latest(firing.now).at
        found: list[Due] = []
        for scope in await self._scopes.active():
            if scope.mode is not Mode.AUTO:
                continue
            day = firing.now.astimezone(ZoneInfo(scope.timezone)).date().isoformat()
            if firing.by_hand:
                found.append(Due(slot=day, at=at, scope=scope))
            elif (since := await self._due_since(scope)) is not None:
                found.append(Due(slot=f"{day} after {since.isoformat()}", at=at, scope=scope))
        return found


class Members:
    """The scopes that hold a copy of a team's memory."""

    def __init__(self, every: Every, *, scopes: Scopes) -> None:
        self._every = every
        self._scopes = scopes

    async def __call__(self, firing: Firing) -> Sequence[Due]:
        """Return them all."""
        latest = self._every.latest(firing.now)
        return [
            Due(slot=latest.slot, at=latest.at, scope=scope)
            for scope in await self._scopes.active()
            if scope.team_dir is not None and scope.repo
        ]
