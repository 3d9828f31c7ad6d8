"""Whole years in four zones by a fake clock: no local day is lost, none comes twice."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memory.dailylog import day_bounds
from memory.scope import Mode, Scope
from scheduler.clock import SchedulerClock
from scheduler.days import Days
from scheduler.jobs import Due, Every, Firing, Job, JobContext, MemoryWork, Policy, jobs, plan
from scheduler.runs import Outcome, Runs
from scheduler.settings import SchedulerSettings

LENGTHS = {
    "America/New_York": {23.0, 24.0, 25.0},
    "Europe/Berlin": {23.0, 24.0, 25.0},
    "Australia/Lord_Howe": {23.5, 24.0, 24.5},
    "Asia/Kathmandu": {24.0},
}
"""How many hours a day can have."""
ZONES = tuple(LENGTHS)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NIGHTS = [
    datetime.combine(date.fromisoformat(day), time(3), tzinfo=UTC)
    for day in ("2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01")
]
"""When clocks change in one of the zones, or half a day from it."""
SETTINGS = SchedulerSettings(close_day_minutes=30, dream_minutes=30)


class Listed:
    """The scopes, which a test may change."""

    def __init__(self, *scopes: Scope) -> None:
        self.scopes = list(scopes)

    async def active(self) -> Sequence[Scope]:
        return self.scopes


class Remembered:
    """A table of runs in memory: a year of ticks would take a database minutes."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[str, str], tuple[datetime, Outcome]]] = {}

    async def outcomes(self, job: str, *, since: datetime) -> Mapping[tuple[str, str], Outcome | None]:
        newest_first = reversed(self.rows.get(job, {}).items())
        recent = itertools.takewhile(lambda row: row[1][0] >= since, newest_first)
        return {slot: how for slot, (_, how) in recent}

    def add(self, job: str, due: Due, at: datetime, outcome: Outcome) -> None:
        slots = self.rows.setdefault(job, {})
        assert (due.scope_key, due.slot) not in slots, "a slot that is settled is not due"
        slots[due.scope_key, due.slot] = (at, outcome)


class Year:
    """Closes and distils as the clock would, at the moments that it is given."""

    def __init__(self, scopes: Listed) -> None:
        self.record = Remembered()
        self.ran: dict[str, list[Due]] = {Days.CLOSE: [], Days.DISTIL: []}
        self.missed: dict[str, list[Due]] = {Days.CLOSE: [], Days.DISTIL: []}
        self.late: list[Due] = []
        days = Days(SETTINGS, scopes=scopes, runs=self.record)
        self.jobs = [
            job_of(Days.CLOSE, days.to_close, HOUR, Policy.CATCH_UP, reach=timedelta(days=7, hours=2)),
            job_of(Days.DISTIL, days.to_distil, 4 * HOUR, Policy.ONCE),
        ]

    async def tick(self, now: datetime) -> None:
        for job in self.jobs:
            to_run, missed = plan(job, await job.due(Firing(now=now)), now=now)
            for due in to_run:
                self.record.add(job.id, due, now, Outcome.DONE)
                self.late += [due] if now - due.at > job.grace else []
            for due in missed:
                self.record.add(job.id, due, now, Outcome.MISSED)
            self.ran[job.id] += to_run
            self.missed[job.id] += missed

    def days(self, job: str, scope: Scope) -> list[date]:
        return [
            due.day
            for due in self.ran[job]
            if due.scope_key == Due(slot="", at=due.at, scope=scope).scope_key and due.day
        ]


async def nobody(firing: Firing) -> Sequence[Due]:
    return []


async def nothing(context: JobContext) -> str:
    return ""


def job_of(name: str, finder: Any, grace: timedelta, policy: Policy, **more: Any) -> Job:
    return Job(id=name, trigger=Every(period=HOUR), grace=grace, policy=policy, run=nothing, finder=finder, **more)


def moments(start: datetime, end: datetime, step: timedelta) -> Iterator[datetime]:
    while start < end:
        yield start
        start += step


def stretches(dues: Sequence[Due]) -> list[tuple[datetime, datetime]]:
    """Return what belongs to each day, as the work takes it."""
    return [(due.since or day_bounds(due.scope, due.day)[0], due.at) for due in dues if due.scope and due.day]


@pytest.fixture
def scopes(make_scope: Callable[..., Scope]) -> list[Scope]:
    return [make_scope(f"person:{number}", mode=Mode.LOG, timezone=zone) for number, zone in enumerate(ZONES)]


async def test_in_a_year_every_local_day_is_closed_and_distilled_exactly_once_and_on_time(scopes: list[Scope]) -> None:
    year = Year(Listed(*scopes))
    start = datetime(2026, 1, 1, 11, 45, tzinfo=UTC)
    for now in moments(start, start + 365 * DAY, HOUR / 2):
        if now.minute == 15 or any(abs(now - night) < DAY for night in NIGHTS):
            await year.tick(now)
    for scope in scopes:
        closed = [due for due in year.ran[Days.CLOSE] if due.scope == scope]
        days = [due.day for due in closed]
        assert days == [days[0] + timedelta(days=n) for n in range(len(days)) if days[0]]
        assert len(days) >= 365
        assert year.days(Days.DISTIL, scope) == days[: len(year.days(Days.DISTIL, scope))]
        assert len(days) - len(year.days(Days.DISTIL, scope)) <= 1, "the last night may be still to come"
        bounds = stretches(closed)
        assert all(ends == begins for (_, ends), (begins, _) in pairwise(bounds))
        lengths = Counter((ends - begins) / HOUR for begins, ends in bounds)
        assert set(lengths) == LENGTHS[scope.timezone]
    assert year.missed == {Days.CLOSE: [], Days.DISTIL: []}
    first = {due.slot for due in year.late if due.at < start}
    assert {due.slot for due in year.late} == first, "only what was due before the start is late"


@pytest.mark.parametrize("before", ZONES)
@pytest.mark.parametrize("after", [*ZONES, "Pacific/Kiritimati", "Pacific/Pago_Pago"])
async def test_a_change_of_zone_at_any_hour_neither_loses_nor_doubles_a_moment(
    make_scope: Callable[..., Scope], before: str, after: str
) -> None:
    scope = make_scope(mode=Mode.LOG, timezone=before)
    start = datetime(2026, 3, 5, 0, 10, tzinfo=UTC)
    for hour in range(0, 24, 3):
        listed = Listed(scope)
        year = Year(listed)
        for now in moments(start, start + 8 * DAY, HOUR / 2):
            moved = now > datetime(2026, 3, 8, hour, 5, tzinfo=UTC)
            listed.scopes = [replace(scope, timezone=after if moved else before)]
            await year.tick(now)
        bounds = stretches(year.ran[Days.CLOSE])
        assert all(ends == begins for (_, ends), (begins, _) in pairwise(bounds)), (hour, bounds)
        days, nights = year.days(Days.CLOSE, scope), year.days(Days.DISTIL, scope)
        assert (len(set(days)), len(set(nights))) == (len(days), len(nights))
        assert {*nights, *(due.day for due in year.missed[Days.DISTIL])} >= set(days[:-1])


EDGES = ("Pacific/Kiritimati", "Pacific/Pago_Pago", "Etc/GMT+12", "Etc/GMT-14", "UTC", "Australia/Lord_Howe")
"""Zones up to 26 hours apart."""


@pytest.mark.parametrize("seed", range(12))
async def test_several_changes_of_zone_across_the_date_line_leave_each_moment_in_one_day(
    make_scope: Callable[..., Scope], seed: int
) -> None:
    drawn = random.Random(seed)
    start = datetime(2026, drawn.choice([3, 10]), drawn.choice([5, 26]), drawn.randrange(24), 10, tzinfo=UTC)
    changes = sorted(start + HOUR * drawn.randrange(30, 200) for _ in range(3))
    zones = [EDGES[seed % 2], EDGES[1 - seed % 2], *(drawn.choice(EDGES) for _ in range(2))]
    listed = Listed(make_scope(mode=Mode.LOG))
    year = Year(listed)
    for now in moments(start, start + 14 * DAY, HOUR / 2):
        zone = zones[sum(change <= now for change in changes)]
        listed.scopes = [make_scope(mode=Mode.LOG, timezone=zone)]
        await year.tick(now)
    bounds = sorted(each for each in stretches(year.ran[Days.CLOSE]) if each[0] < each[1])
    assert len(bounds) >= 10
    assert all(ends == begins for (_, ends), (begins, _) in pairwise(bounds)), bounds
    days = year.days(Days.CLOSE, listed.scopes[0])
    assert len(set(days)) == len(days)


@dataclass(frozen=True, kw_only=True)
class After:
    """What a downtime that began before midnight leads to."""

    down: timedelta
    closed_late: int = 0
    distilled_late: int = 0
    nights_missed: int = 0
    days_missed: int = 0


@pytest.mark.parametrize(
    "after",
    [
        After(down=timedelta(minutes=1)),
        After(down=timedelta(minutes=40)),
        After(down=timedelta(hours=9), closed_late=1, distilled_late=1),
        After(down=timedelta(days=3), closed_late=3, distilled_late=1, nights_missed=2),
        After(down=timedelta(days=10), closed_late=7, distilled_late=1, nights_missed=9, days_missed=3),
    ],
    ids=["a-minute", "less-than-an-hour", "hours", "three-days", "ten-days"],
)
@pytest.mark.parametrize("zone", ZONES)
async def test_after_a_downtime_days_are_closed_late_and_what_is_left_out_is_missed(
    make_scope: Callable[..., Scope], zone: str, after: After
) -> None:
    year = Year(Listed(make_scope(mode=Mode.LOG, timezone=zone)))
    midnight = day_bounds(make_scope(timezone=zone), date(2026, 3, 6))[0]
    for now in moments(midnight - 3 * DAY + HOUR / 4, midnight - HOUR / 4, HOUR / 2):
        await year.tick(now)
    year.late.clear()
    for now in moments(midnight - HOUR / 4 + after.down, midnight + after.down + 3 * HOUR, HOUR / 2):
        await year.tick(now)
    late = Counter(
        "closed" if due.at in {each.at for each in year.ran[Days.CLOSE]} else "distilled" for due in year.late
    )
    assert (late["closed"], late["distilled"]) == (after.closed_late, after.distilled_late)
    assert (len(year.missed[Days.DISTIL]), len(year.missed[Days.CLOSE])) == (after.nights_missed, after.days_missed)
    bounds = stretches(sorted([*year.ran[Days.CLOSE], *year.missed[Days.CLOSE]], key=lambda due: due.at))
    assert all(ends == begins for (_, ends), (begins, _) in pairwise(bounds))


async def test_around_the_nights_of_daylight_saving_a_scope_dreams_once_a_day_and_never_in_its_quiet_hours(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    scopes = [make_scope(f"person:{number}", timezone=zone) for number, zone in enumerate(ZONES)]
    last = {scope.principal: NIGHTS[0] - 30 * DAY for scope in scopes}
    began: list[tuple[Scope, datetime]] = []

    async def since(scope: Scope) -> datetime:
        return last[scope.principal]

    async def gate(scope: Scope, firing: Firing) -> str:
        return "" if firing.now - last[scope.principal] >= DAY else "too soon"

    async def dream(context: JobContext) -> str:
        last[context.scope.principal] = now()
        began.append((context.scope, now()))
        return "changed"

    work = MemoryWork(
        close_day=nothing, distil=nothing, dream_since=since, dream_gate=gate, dream=dream, sync_team=nothing,
        sync_every=HOUR, tidy_team=nothing, teams=nobody,
    )  # fmt: skip
    clock = SchedulerClock(
        jobs(SETTINGS, scopes=Listed(*scopes), runs=runs, work=work), runs=runs, settings=SETTINGS, clock=now
    )
    for night in NIGHTS:
        began.clear()
        for now.moment in moments(night - 2 * DAY, night + 2 * DAY, HOUR):
            await clock.fire("dream")
        for scope in scopes:
            mine = [at for whose, at in began if whose == scope]
            shown = [at.astimezone(ZoneInfo(scope.timezone)).time() for at in mine]
            assert all(SETTINGS.quiet_until <= clock < SETTINGS.quiet_from for clock in shown)
            assert 3 <= len(mine) <= 4
            assert all(DAY <= after - before <= DAY + 10 * HOUR for before, after in pairwise(mine))
    assert {run.outcome for run in await runs.recent("dream", limit=999)} == {Outcome.DONE}
