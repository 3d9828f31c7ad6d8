"""Which days of which scopes are to be closed, and which nights are due: time cut into days, each seen to once."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

from anyio import to_thread

from memory.dailylog import may_wait
from memory.errors import MemoryFault
from memory.scope import Mode, Scope
from scheduler.finders import Scopes
from scheduler.runs import Outcome
from scheduler.settings import SchedulerSettings
from scheduler.slots import Due, Firing, key_of, local_moment

_REACH = timedelta(days=31)
"""A scope that has closed no day for longer is taken for one whose log mode was off, not for one that was down."""
_OVER = (Outcome.DONE, Outcome.MISSED)
_NO_LOGS = "keeps no day logs"
_AGAIN = ",once-more"
"""Ends the slot of a day that was seen to before its end, by a clock that was ahead: that slot is settled."""
_APART = timedelta(minutes=1)
"""How far ahead a record may lie that another replica has made, whose clock differs a little."""
_SOON = timedelta(days=2)
"""More than a day lasts; to a clock that is years behind, as of a machine without a battery, no day ends soon."""


Unseen = Callable[[Scope, datetime], Awaitable[datetime | None]]
"""Says when the first was said, from a moment on, that no extraction has looked at in a scope; None: nothing."""


async def nothing_unseen(scope: Scope, since: datetime) -> None:
    """Say that nothing waits to be logged, where nobody knows."""


class Record(Protocol):
    """What has become of slots; see `scheduler.runs.Runs`."""

    async def outcomes(self, job: str, *, since: datetime) -> Mapping[tuple[str, str], Outcome | None]:
        """Return the outcome of each (scope, slot) that was begun since then; None where it has none yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Day:
    """A local day as it was closed, or is to be."""

    day: date
    timezone: str

    @property
    def slot(self) -> str:
        """The slot: of a day that was closed it must be known in which zone, when the scope has moved since."""
        return f"{self.day.isoformat()} {self.timezone}"

    @property
    def ends(self) -> datetime:
        return local_moment(self.day + timedelta(days=1), time.min, timezone=self.timezone)

    @property
    def begins(self) -> datetime:
        return local_moment(self.day, time.min, timezone=self.timezone)


@lru_cache(maxsize=4096)  # of every scope the same few slots are read at every tick
def _parsed(slot: str, *, timezone: str) -> _Day | None:
    """Read a slot; `timezone` is that of slots that name none. None if it is no day's, as of a run by hand."""
    day, _, zone = slot.removesuffix(_AGAIN).partition(" ")
    try:
        return None if " " in zone else _Day(day=date.fromisoformat(day), timezone=zone or timezone)
    except ValueError:
        return None


class Days:
    """Which local days of the scopes in log mode are to be closed, and which are to be distilled.

    Time is cut into days without a gap and without an overlap, also where a scope changes its zone: a date is closed
    once, and a day begins where the last one before it ended. So what a move west adds to the day that it makes longer
    goes to the day that is closed next, and after a move east a day may be short, or have nothing left. A day whose
    close was begun keeps the zone of then. What a clock has recorded that was ahead, and was set back since, counts for
    nothing: the day had not ended, and is seen to in its time, as doing it again does no harm.
    """

    CLOSE = "close-day"
    DISTIL = "distil"

    def __init__(
        self, settings: SchedulerSettings, *, scopes: Scopes, runs: Record, unseen: Unseen = nothing_unseen
    ) -> None:
        self._settings = settings
        self._scopes = scopes
        self._runs = runs
        self._unseen = unseen
        self._ahead: dict[str, set[tuple[str, str]]] = {self.CLOSE: set(), self.DISTIL: set()}

    async def to_close(self, firing: Firing) -> Sequence[Due]:
        """Return the days to close, oldest first: all since the first that was, also those whose close has failed.

        Of a scope that has closed none, all since something was said that is in no log yet, and yesterday. Of a scope
        that was switched to log mode, none that had ended by then, and of that day what came after.
        """
        closed, early = await self._seen_to(self.CLOSE, firing.now)
        found: list[Due] = []
        for scope in await self._scopes.active():
            if scope.mode is not Mode.LOG:
                found.append(_logless(scope, firing))
                continue
            over = _days(scope, closed, over=_OVER)
            wanted = await self._wanted(scope, firing.now, over, begun=_days(scope, closed))
            known = [*over, *wanted]
            if firing.by_hand:
                yesterday = _yesterday(scope, firing.now)
                wanted = _of_log_mode(scope, [next((each for each in known if each.day == yesterday.day), yesterday)])
            found += _cut(scope, wanted, known) or [_closed_already(scope, firing)]
        return [_once_more(due, early) for due in found]

    async def unclosed(self, scope: Scope, now: datetime) -> Sequence[Due]:
        """Return the days of a scope in log mode that are not closed yet, oldest first; the last is today."""
        closed, _ = await self._seen_to(self.CLOSE, now)
        over = _days(scope, closed, over=_OVER)
        today = _Day(day=_yesterday(scope, now).day + timedelta(days=1), timezone=scope.timezone)
        wanted = [*await self._wanted(scope, now, over, begun=_days(scope, closed)), today]
        return _cut(scope, wanted, [*over, *wanted])

    async def _wanted(self, scope: Scope, now: datetime, over: Sequence[_Day], *, begun: Sequence[_Day]) -> list[_Day]:
        """Return the days that are not over, oldest first; `begun` are those and others whose close was begun."""
        newest = _yesterday(scope, now).day
        dates = {each.day for each in over}
        first = min([*(each.day for each in begun), await self._first(scope, now, new=not begun)])
        days = (newest - timedelta(days=back) for back in range(_REACH.days))
        found = {day: _Day(day=day, timezone=scope.timezone) for day in days if day >= first}
        found |= {each.day: each for each in begun}
        return _of_log_mode(scope, [found[day] for day in sorted(found) if day not in dates])

    async def _first(self, scope: Scope, now: datetime, *, new: bool) -> date:
        """Return the first day of which something may have to be logged, if no close says so; at most yesterday."""
        yesterday = _yesterday(scope, now).day
        began = scope.mode_since
        if began is None and new:
            began = await self._unseen(scope, now - _REACH)
        return yesterday if began is None else min(began.astimezone(ZoneInfo(scope.timezone)).date(), yesterday)

    async def to_distil(self, firing: Firing) -> Sequence[Due]:
        """Return the nights whose day is closed, so that no bullet comes after, oldest first; one run does for all."""
        closed, _ = await self._seen_to(self.CLOSE, firing.now)
        tried, early = await self._seen_to(self.DISTIL, firing.now)
        scopes = await self._scopes.active()
        left = await _with_logs_left(scopes, firing.now)
        found: list[Due] = []
        for scope in scopes:
            if scope.mode is not Mode.LOG and scope not in left:
                found.append(_logless(scope, firing))
            elif firing.by_hand:
                found.append(self._night(scope, _yesterday(scope, firing.now)))
            elif scope.mode is Mode.LOG:
                found += self._nights(scope, firing, closed, tried)
            else:
                found.append(self._last_night(scope, firing, tried))
        return [_once_more(due, early) for due in found]

    async def _seen_to(self, job: str, now: datetime) -> tuple["_Slots", Collection[tuple[str, str]]]:
        """Return what has become of slots, and apart from that those of which a clock that was ahead says so.

        Of a day that is soon over that is remembered: its record may lie behind the first look after its end.
        """
        begun = await self._runs.outcomes(job, since=now - _REACH)
        ahead = (await self._runs.outcomes(job, since=now + _APART)).keys()
        self._ahead[job] |= {key for key in ahead if _ends_soon(key[1], now)}
        early = {*ahead, *self._ahead[job]}
        return _by_scope({slot: outcome for slot, outcome in begun.items() if slot not in early}), early

    def _last_night(self, scope: Scope, firing: Firing, tried: "_Slots") -> Due:
        """Return the latest night of a scope that keeps no log any more: its days were closed when it was switched."""
        night = self._night(scope, _yesterday(scope, firing.now))
        if night.day in {each.day for each in _days(scope, tried, over=_OVER)}:
            return replace(night, gate="distilled already")
        return night if night.at <= firing.now else replace(night, gate=self._early)

    def _nights(self, scope: Scope, firing: Firing, closed: "_Slots", tried: "_Slots") -> list[Due]:
        done = {each.day for each in _days(scope, tried, over=_OVER)}
        had = {each.day for each in _days(scope, tried)}
        days = {each.day for each in _days(scope, closed, over=_OVER)}
        latest = max(days, default=date.min)
        first = min(had, default=latest)
        # A night before the latest has had its chance once it was tried: what it left, the latest takes up.
        wanted = sorted(day for day in days if day >= first and day not in (done if day == latest else had))
        if not wanted:
            newest = self._night(scope, _yesterday(scope, firing.now))
            return [replace(newest, gate="distilled already" if newest.day in done else "its day is not closed yet")]
        nights = [self._night(scope, _Day(day=day, timezone=scope.timezone)) for day in wanted]
        return [night if night.at <= firing.now else replace(night, gate=self._early) for night in nights]

    @property
    def _early(self) -> str:
        return f"not before {self._settings.distil_from:%H:%M}"

    def _night(self, scope: Scope, ended: _Day) -> Due:
        hour = local_moment(ended.day + timedelta(days=1), self._settings.distil_from, timezone=scope.timezone)
        return Due(slot=ended.slot, at=hour, scope=scope, day=ended.day)

    async def next_close(self, now: datetime) -> datetime | None:
        """Return the next midnight of a scope in log mode; None if there is no such scope."""
        return await self._next(now, time.min, [each for each in await self._scopes.active() if each.mode is Mode.LOG])

    async def next_distil(self, now: datetime) -> datetime | None:
        """Return when the next night's hour comes for a scope that has logs; None if there is no such scope."""
        scopes = await self._scopes.active()
        left = await _with_logs_left(scopes, now)
        logging = [each for each in scopes if each.mode is Mode.LOG or each in left]
        return await self._next(now, self._settings.distil_from, logging)

    async def _next(self, now: datetime, clock: time, scopes: Sequence[Scope]) -> datetime | None:
        moments: list[datetime] = []
        for scope in scopes:
            today = now.astimezone(ZoneInfo(scope.timezone)).date()
            days = (today, today + timedelta(days=1))
            coming = (local_moment(day, clock, timezone=scope.timezone) for day in days)
            moments.append(next(moment for moment in coming if moment > now))
        return min(moments, default=None)


_Slots = Mapping[str, Mapping[str, Outcome | None]]
"""By scope, what has become of its slots."""


def _by_scope(outcomes: Mapping[tuple[str, str], Outcome | None]) -> _Slots:
    found: dict[str, dict[str, Outcome | None]] = {}
    for (scope, slot), outcome in outcomes.items():
        found.setdefault(scope, {})[slot] = outcome
    return found


def _days(scope: Scope, slots: _Slots, *, over: Sequence[Outcome] | None = None) -> list[_Day]:
    """Return the days of a scope that have one of these outcomes, or any record at all."""
    mine = slots.get(key_of(scope), {})
    named = (slot for slot, outcome in mine.items() if over is None or outcome in over)
    return [day for slot in named if (day := _parsed(slot, timezone=scope.timezone)) is not None]


async def _with_logs_left(scopes: Sequence[Scope], now: datetime) -> frozenset[Scope]:
    """Return those that keep no log any more, but have logs of before that wait."""
    quiet = [scope for scope in scopes if scope.mode is not Mode.LOG]
    if not quiet:
        return frozenset()
    return await to_thread.run_sync(lambda: frozenset(scope for scope in quiet if _may_wait(scope, now)))


def _may_wait(scope: Scope, now: datetime) -> bool:
    try:
        return may_wait(scope, now)
    except (OSError, MemoryFault):  # the distillation will fail of it too, which is recorded, and the others can sort
        return True


def _of_log_mode(scope: Scope, days: Sequence[_Day]) -> list[_Day]:
    """Return the days in which the scope was in log mode: before that, extraction has seen to them."""
    return [each for each in days if scope.mode_since is None or each.ends > scope.mode_since]


def _cut(scope: Scope, wanted: Sequence[_Day], known: Sequence[_Day]) -> list[Due]:
    """Return the wanted days as slots, each from where those known before it end, and none from before log mode."""
    dues: list[Due] = []
    for each in wanted:
        after = max((before.ends for before in known if before.day <= each.day and before != each), default=each.begins)
        since = None if after == each.begins else min(after, each.ends)
        if scope.mode_since is not None and scope.mode_since > (since or each.begins):
            since = scope.mode_since
        dues.append(replace(_due(scope, each), since=since))
    return dues


def _ends_soon(slot: str, now: datetime) -> bool:
    """Return whether a slot is of a day that ends in these days, whatever its zone, and was not seen to once more."""
    day = None if slot.endswith(_AGAIN) else _parsed(slot, timezone="UTC")
    return day is not None and day.ends - now < _SOON


def _once_more(due: Due, early: Collection[tuple[str, str]]) -> Due:
    return replace(due, slot=due.slot + _AGAIN) if (due.scope_key, due.slot) in early else due


def _due(scope: Scope, day: _Day) -> Due:
    return Due(slot=day.slot, at=day.ends, scope=scope, day=day.day)


def _yesterday(scope: Scope, now: datetime) -> _Day:
    day = now.astimezone(ZoneInfo(scope.timezone)).date() - timedelta(days=1)
    return _Day(day=day, timezone=scope.timezone)


def _closed_already(scope: Scope, firing: Firing) -> Due:
    yesterday = _yesterday(scope, firing.now)
    gate = "closed already" if _of_log_mode(scope, [yesterday]) else "it was not in log mode yet"
    return replace(_due(scope, yesterday), gate=gate)


def _logless(scope: Scope, firing: Firing) -> Due:
    return Due(slot="", at=firing.now, scope=scope, gate=_NO_LOGS)
