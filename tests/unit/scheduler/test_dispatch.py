from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from gateway.db.engine import Database, connect
from memory.scope import Scope
from scheduler.clock import SchedulerClock
from scheduler.errors import UnknownScope
from scheduler.jobs import Due, Every, Firing, Job, JobContext, Policy
from scheduler.runs import Outcome, Runs
from scheduler.settings import SchedulerSettings
from scheduler.slots import QuietHours
from tests.waiting import until

SETTINGS = SchedulerSettings(concurrency=2)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LEASE = timedelta(seconds=SETTINGS.lease)


def job(run: Callable[[JobContext], Awaitable[str]], **changes: Any) -> Job:
    given = {"id": "work", "trigger": Every(period=HOUR), "grace": HOUR, "policy": Policy.CATCH_UP, **changes}
    return Job(run=run, **given)


def clock_of(runs: Runs, now: Any, *jobs: Job) -> SchedulerClock:
    return SchedulerClock(jobs, runs=runs, settings=SETTINGS, clock=now)


def finding(*scopes: Scope, days: int = 1) -> Callable[[Firing], Awaitable[Sequence[Due]]]:
    async def due(firing: Firing) -> Sequence[Due]:
        return [
            Due(slot=f"day {days - back}", at=firing.now - back * DAY, scope=scope)
            for scope in scopes
            for back in range(days)
        ]

    return due


class Held:
    """Work that waits until it is let go; knows who is at it, and who was."""

    def __init__(self) -> None:
        self.at_it: list[str] = []
        self.order: list[tuple[str, str]] = []
        self.most = 0
        self._slow: dict[str, anyio.Event] = {}

    def hold(self, principal: str) -> anyio.Event:
        return self._slow.setdefault(principal, anyio.Event())

    async def __call__(self, context: JobContext) -> str:
        principal = context.scope.principal
        self.at_it.append(principal)
        self.order.append((principal, context.due.slot))
        self.most = max(self.most, len(self.at_it))
        await anyio.lowlevel.checkpoint()
        if principal in self._slow:
            await self._slow[principal].wait()
        self.at_it.remove(principal)
        return "did it"


async def test_no_more_scopes_are_worked_for_at_once_than_the_cap_also_over_jobs_of_one_lane(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    work, scopes = Held(), [make_scope(f"p{n}") for n in range(6)]
    held = [work.hold(scope.principal) for scope in scopes]
    two = [job(work, id=name, lane="model", finder=finding(*scopes)) for name in ("dream", "distil")]
    clock = clock_of(runs, now, *two)
    async with anyio.create_task_group() as group:
        for each in two:
            group.start_soon(clock.fire, each.id)
        await until(lambda: len(work.at_it) == 2)
        for go_on in held:
            go_on.set()
    assert (len(work.order), work.most) == (12, 2)


async def test_a_slow_scope_holds_up_neither_the_others_nor_the_next_firing(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    work, scopes = Held(), [make_scope(f"p{n}") for n in range(4)]
    go_on = work.hold("p0")
    clock = clock_of(runs, now, job(work, finder=finding(*scopes)), job(work, id="other", finder=finding(scopes[1])))
    async with anyio.create_task_group() as group:
        group.start_soon(clock.fire, "work")
        await until(lambda: len(work.order) == 4 and work.at_it == ["p0"])
        assert len(await clock.fire("other")) == 1
        assert await clock.fire("work") == [], "what an earlier firing is at is not begun again"
        go_on.set()
    assert len(work.order) == 5


async def test_the_days_of_a_scope_are_caught_up_one_after_the_other(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    work, scopes = Held(), [make_scope(f"p{n}") for n in range(3)]
    ran = await clock_of(runs, now, job(work, finder=finding(*scopes, days=3))).fire("work")
    for scope in scopes:
        assert [slot for whose, slot in work.order if whose == scope.principal] == ["day 1", "day 2", "day 3"]
    assert [each.detail for each in ran if each.scope.startswith("p0")] == [
        "2 d 0:00 h late: did it", "1 d 0:00 h late: did it", "did it",
    ]  # fmt: skip


async def test_the_next_day_waits_for_one_that_failed_or_is_another_replicas_until_that_is_over(
    replica: Callable[[str], Runs], now: Any, make_scope: Callable[..., Scope]
) -> None:
    tried: list[str] = []

    async def work(context: JobContext) -> str:
        tried.append(context.due.slot)
        if context.due.slot == "day 1":
            raise ValueError("refused")
        return "did it"

    scope = make_scope()
    clock = clock_of(replica("r1"), now, job(work, finder=finding(scope, days=2)))
    held = await replica("r2").claim("work", f"{scope.principal} in tea", "day 1", lease=LEASE, attempts=9)
    assert held is not None
    await clock.fire("work")
    assert tried == []
    await replica("r2").release(held)
    now.moment += timedelta(seconds=1)
    for _ in range(4):
        await clock.fire("work")
    assert tried == ["day 1"] * SETTINGS.attempts + ["day 2"]


async def test_a_slot_with_tries_of_its_own_holds_up_no_later_one_for_long_and_is_given_up_with_the_reason(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    tried: list[str] = []

    async def work(context: JobContext) -> str:
        tried.append(context.due.slot)
        if context.due.slot == "day 1":
            raise ValueError("no disk")
        return "did it"

    found = await finding(make_scope(), days=2)(Firing(now=now()))

    async def finder(firing: Firing) -> Sequence[Due]:
        return found

    clock = clock_of(runs, now, job(work, finder=finder, pause=HOUR, attempts=5, reach=8 * DAY))
    for _ in range(40):
        await clock.fire("work")
        now.moment += HOUR
    assert tried == ["day 1"] * SETTINGS.attempts + ["day 2"] + ["day 1"] * 2
    now.moment += 8 * DAY
    await clock.fire("work")
    given_up = await runs.find("work", found[0].scope_key, "day 1")
    assert given_up is not None
    assert given_up.outcome is Outcome.MISSED
    assert "it had failed: " in given_up.detail
    assert "no disk" in given_up.detail


async def test_one_scope_that_can_not_be_claimed_does_not_stop_the_others(
    runs: Runs, now: Any, make_scope: Callable[..., Scope], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, claim = Held(), runs.claim

    async def broken(name: str, scope: str, slot: str, **more: Any) -> Any:
        if scope.startswith("p0"):
            raise OSError("no database")
        return await claim(name, scope, slot, **more)

    monkeypatch.setattr(runs, "claim", broken)
    clock = clock_of(runs, now, job(work, finder=finding(make_scope("p0"), make_scope("p1"))))
    with pytest.raises(OSError, match="no database"):
        await clock.fire("work")
    assert [whose for whose, _ in work.order] == ["p1"]


QUIET = QuietHours(begin=time(22), end=time(7))


@pytest.mark.parametrize(
    ("zone", "moment", "quiet"),
    [
        ("UTC", "2026-05-01T21:59", False),
        ("UTC", "2026-05-01T22:00", True),
        ("UTC", "2026-05-02T00:00", True),
        ("UTC", "2026-05-02T06:59", True),
        ("UTC", "2026-05-02T07:00", False),
        ("Asia/Kathmandu", "2026-05-01T16:14", False),
        ("Asia/Kathmandu", "2026-05-01T16:15", True),
        ("America/New_York", "2026-03-08T10:59", True),  # the night has an hour less: seven comes at eleven
        ("America/New_York", "2026-03-08T11:00", False),
        ("Europe/Berlin", "2026-10-25T05:59", True),
        ("Europe/Berlin", "2026-10-25T06:00", False),
        ("Australia/Lord_Howe", "2026-04-04T20:29", True),
        ("Australia/Lord_Howe", "2026-04-04T20:30", False),
    ],
)
def test_quiet_hours_go_by_the_scopes_own_clock_over_midnight_and_daylight_saving(
    make_scope: Callable[..., Scope], zone: str, moment: str, quiet: bool
) -> None:
    now = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    said = QUIET(Due(slot="", at=now, scope=make_scope(timezone=zone)), now)
    assert said == ("quiet hours until 07:00" if quiet else "")


def test_quiet_hours_may_lie_within_a_day_be_none_and_are_not_for_the_gateway(
    make_scope: Callable[..., Scope], now: Any
) -> None:
    due = Due(slot="", at=now(), scope=make_scope())
    assert QuietHours(begin=time(12), end=time(13))(due, now())
    assert not QuietHours(begin=time(13), end=time(14))(due, now())
    assert not QuietHours(begin=time(12, 3), end=time(12, 3))(due, now())
    assert not QuietHours(begin=time(12), end=time(13))(Due(slot="", at=now()), now())


async def test_in_quiet_hours_nothing_is_begun_unless_by_hand_and_nothing_is_recorded(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    work, quiet = Held(), QuietHours(begin=time(12), end=time(13))
    clock = clock_of(runs, now, job(work, finder=finding(make_scope()), hold=quiet))
    assert (await clock.fire("work"), await runs.recent()) == ([], [])
    assert len(await clock.run_now("work")) == 1
    now.moment += HOUR
    assert len(await clock.fire("work")) == 1


async def test_what_waits_for_its_turn_into_the_quiet_hours_is_not_begun(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    work, quiet = Held(), QuietHours(begin=time(13), end=time(14))
    slow = [work.hold("p0"), work.hold("p1")]
    scopes = [make_scope(f"p{n}") for n in range(3)]
    clock = clock_of(runs, now, job(work, finder=finding(*scopes), hold=quiet))
    async with anyio.create_task_group() as group:
        group.start_soon(clock.fire, "work")
        await until(lambda: len(work.at_it) == 2)
        now.moment += HOUR
        for each in slow:
            each.set()
    assert len(work.order) == 2


async def test_ticks_that_nothing_ran_for_are_recorded_in_one_row_by_a_job_that_skips(runs: Runs, now: Any) -> None:
    async def work(context: JobContext) -> str:
        return "did it"

    chore = job(work, policy=Policy.SKIP)
    clock = clock_of(runs, now, chore)
    await clock.fire("work")
    now.moment += HOUR
    await clock.fire("work")
    assert {run.outcome for run in await runs.recent()} == {Outcome.DONE}
    now.moment += 3 * DAY
    for again in (clock_of(runs, now, chore), clock, clock_of(runs, now, chore)):
        await again.fire("work")
    (missed,) = [run for run in await runs.recent() if run.outcome is Outcome.MISSED]
    assert missed.detail == "missed: nothing ran for 71 slots, 2026-05-01 14:00 to 2026-05-04 12:00 UTC"
    assert missed.slot == "2026-05-01T14:00:00+00:00 to 2026-05-04T12:00:00+00:00"
    assert len(await runs.recent()) == 4


async def test_a_look_that_failed_is_recorded_and_comes_right_with_the_next_that_works(runs: Runs, now: Any) -> None:
    broken = True

    async def due(firing: Firing) -> Sequence[Due]:
        if broken:
            raise OSError("no disk")
        return []

    clock = clock_of(runs, now, job(Held(), finder=due))
    with pytest.raises(OSError, match="no disk"):
        await clock.fire("work")
    broken = False
    await clock.fire("work")
    (record,) = await runs.recent()
    assert (record.outcome, record.detail) == (Outcome.DONE, "right again; OSError: no disk")


async def test_a_dry_run_names_what_would_run_and_each_gate_and_changes_nothing(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    names = ("open", "shut", "logs", "done", "failed", "spent", "running")

    async def due(firing: Firing) -> Sequence[Due]:
        gates = {"logs": "log mode"} | ({} if firing.by_hand else {"shut": "too soon"})
        return [Due(slot="s", at=now(), scope=make_scope(name), gate=gates.get(name, "")) for name in names]

    for name, tries in (("done", 1), ("failed", 1), ("spent", SETTINGS.attempts), ("running", 1)):
        for _ in range(tries):
            run = await runs.claim("work", f"{name} in tea", "s", lease=LEASE, attempts=9)
            assert run is not None
            if name != "running":
                await runs.finish(run, Outcome.DONE if name == "done" else Outcome.FAILED, "")
    before = await runs.recent()
    looked = await clock_of(runs, now, job(Held(), finder=due, pause=HOUR)).dry_run("work")
    assert {each.scope.split()[0]: (each.gate, each.by_hand) for each in looked} == {
        "open": ("", True),
        "shut": ("too soon", True),
        "logs": ("log mode", False),
        "done": ("done already", True),
        "failed": ("rests after a failure for 1:00 h", True),
        "spent": ("given up after 3 tries", True),
        "running": ("it is running", True),
    }
    assert await runs.recent() == before


async def test_a_dry_run_heeds_quiet_hours_and_what_is_too_late(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    quiet = job(Held(), finder=finding(make_scope()), hold=QuietHours(begin=time(12), end=time(13)))
    [looked] = await clock_of(runs, now, quiet).dry_run("work")
    assert looked.gate == "quiet hours until 13:00"
    late = job(Held(), finder=finding(make_scope(), days=2), policy=Policy.ONCE)
    gates = {each.slot: each.gate for each in await clock_of(runs, now, late).dry_run("work")}
    assert gates == {"day 1": "too late: it would be recorded as missed", "day 2": ""}


async def test_a_run_by_hand_can_be_for_one_principal_or_one_of_its_scopes(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    scopes = [make_scope("person:a"), make_scope("person:b"), make_scope("chat:slack:T1/C1")]
    scopes += [replace(scopes[0], project="")]
    clock = clock_of(runs, now, job(Held(), finder=finding(*scopes)))
    for words, expected in {
        "person:a": ["person:a", "person:a in tea"],
        "person:a/tea": ["person:a in tea"],
        "person:a/_chat": ["person:a"],
        "person:a in tea": ["person:a in tea"],
        "chat:slack:T1/C1": ["chat:slack:T1/C1 in tea"],
    }.items():
        assert sorted(each.scope for each in await clock.dry_run("work", only=words)) == expected
        assert [each.scope for each in await clock.run_now("work", only=words)] == expected
        now.moment += HOUR
    with pytest.raises(UnknownScope, match="nobody"):
        await clock.run_now("work", only="nobody")


async def test_of_replicas_with_connections_of_their_own_each_slot_runs_on_one(
    database: Database, database_url: str, now: Any, make_scope: Callable[..., Scope]
) -> None:
    done: list[tuple[str, str]] = []

    async def work(context: JobContext) -> str:
        done.append((context.due.scope_key, context.due.slot))
        return "did it"

    slots = job(work, finder=finding(*(make_scope(f"p{n}") for n in range(3)), days=3))
    others = [connect(database_url) for _ in range(4)]
    replicas = [Runs(each, clock=now, holder=f"r{n}") for n, each in enumerate([database, *others])]
    for _ in range(3):  # a day that another replica is at is left to it, and looked at again at the next tick
        async with anyio.create_task_group() as group:
            for runs in replicas:
                group.start_soon(clock_of(runs, now, slots).fire, "work")
    for each in others:
        await each.engine.dispose()
    assert (len(done), len(set(done))) == (9, 9)
    assert {run.outcome for run in await replicas[0].recent(limit=99)} == {Outcome.DONE}
