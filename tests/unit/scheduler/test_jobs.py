from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.dailylog import log_of, mark_processed, waiting_logs
from memory.scope import Mode, OptOut, Part, Scope
from scheduler.days import Days
from scheduler.finders import Dreamers
from scheduler.jobs import (
    Chore,
    Due,
    Every,
    Firing,
    Job,
    JobContext,
    MemoryWork,
    Policy,
    jobs,
    plan,
)
from scheduler.runs import Outcome, Runs
from scheduler.settings import SchedulerSettings
from scheduler.slots import local_moment

NOON = datetime(2026, 5, 1, 12, 3, tzinfo=UTC)


class Listed:
    def __init__(self, *scopes: Scope) -> None:
        self.scopes = scopes

    async def active(self) -> Sequence[Scope]:
        return self.scopes


async def nobody(firing: Firing) -> Sequence[Due]:
    return []


async def nothing(context: JobContext) -> str:
    return context.due.slot


def table(
    runs: Runs,
    *scopes: Scope,
    awake: Sequence[str] = (),
    chores: Sequence[Chore] = (),
    dreamed: datetime = NOON - timedelta(days=2),
) -> dict[str, Job]:
    async def since(scope: Scope) -> datetime:
        return dreamed

    async def gate(scope: Scope, firing: Firing) -> str:
        return "" if scope.principal in awake else "too soon"

    work = MemoryWork(
        close_day=nothing,
        distil=nothing,
        dream_since=since,
        dream_gate=gate,
        dream=nothing,
        sync_team=nothing,
        sync_every=timedelta(minutes=15),
        tidy_team=nothing,
        teams=nobody,
    )
    declared = jobs(SchedulerSettings(), scopes=Listed(*scopes), runs=runs, work=work, chores=chores)
    return {job.id: job for job in declared}


async def settle(runs: Runs, job: str, due: Due) -> None:
    run = await runs.claim(job, due.scope_key, due.slot, lease=timedelta(minutes=1), attempts=1)
    assert run is not None
    await runs.finish(run, Outcome.DONE, "")


def test_the_slots_of_an_interval_are_the_same_wherever_and_whenever_a_replica_started() -> None:
    every = Every(period=timedelta(minutes=10))
    slots = {every.latest(NOON + timedelta(minutes=minutes)).slot for minutes in (0, 3, 6)}
    assert slots == {"2026-05-01T12:00:00+00:00"}
    assert every.apscheduler().get_next_fire_time(None, NOON) == datetime(2026, 5, 1, 12, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "day", "midnight"),
    [
        ("America/New_York", date(2026, 3, 8), "2026-03-08T05:00"),
        ("America/New_York", date(2026, 3, 9), "2026-03-09T04:00"),
        ("Europe/Berlin", date(2026, 10, 25), "2026-10-24T22:00"),
        ("Europe/Berlin", date(2026, 10, 26), "2026-10-25T23:00"),
        ("Australia/Lord_Howe", date(2026, 4, 6), "2026-04-05T13:30"),
        ("Asia/Kathmandu", date(2026, 5, 1), "2026-04-30T18:15"),
    ],
)
def test_local_midnight_is_right_on_both_nights_of_daylight_saving(zone: str, day: date, midnight: str) -> None:
    assert local_moment(day, time.min, timezone=zone) == datetime.fromisoformat(midnight + "+00:00")


def job_with(policy: Policy) -> Job:
    every = Every(period=timedelta(days=1))
    return Job(id="j", trigger=every, grace=timedelta(hours=1), policy=policy, run=nothing)


@pytest.mark.parametrize(
    ("policy", "run", "missed"),
    [
        (Policy.SKIP, ["3"], ["1", "2"]),
        (Policy.ONCE, ["3"], ["1", "2"]),
        (Policy.CATCH_UP, ["1", "2", "3"], []),
    ],
)
def test_slots_that_are_late_go_by_their_jobs_policy(policy: Policy, run: list[str], missed: list[str]) -> None:
    dues = [Due(slot=str(3 - back), at=NOON - timedelta(hours=24 * back)) for back in (0, 1, 2)]
    planned = plan(job_with(policy), dues, now=NOON)
    assert [[due.slot for due in part] for part in planned] == [run, missed]


def test_a_lone_late_slot_is_run_once_or_skipped_and_missed_by_all_when_it_is_out_of_reach() -> None:
    due = Due(slot="1", at=NOON - timedelta(hours=5))
    assert plan(job_with(Policy.ONCE), [due], now=NOON) == ([due], [])
    assert plan(job_with(Policy.SKIP), [due], now=NOON) == ([], [due])
    for policy in Policy:
        near = replace(job_with(policy), reach=timedelta(hours=4))
        assert plan(near, [due], now=NOON) == ([], [due])


async def test_a_day_is_closed_at_the_scopes_own_midnight_and_only_in_log_mode(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    log = make_scope("ann", mode=Mode.LOG, timezone="Asia/Kathmandu")
    job = table(runs, log, make_scope("bob"))["close-day"]
    before = await job.due(Firing(now=datetime(2026, 5, 1, 18, 14, tzinfo=UTC)))
    after = await job.due(Firing(now=datetime(2026, 5, 1, 18, 15, tzinfo=UTC)))
    assert [(due.slot, due.scope) for due in before] == [("2026-04-30 Asia/Kathmandu", log)]
    assert [(due.slot, due.day, due.at) for due in after] == [
        ("2026-05-01 Asia/Kathmandu", date(2026, 5, 1), datetime(2026, 5, 1, 18, 15, tzinfo=UTC))
    ]


async def test_days_that_a_downtime_left_open_are_closed_oldest_first(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    job = table(runs, make_scope(mode=Mode.LOG))["close-day"]
    [first] = await job.due(Firing(now=NOON))
    await settle(runs, job.id, first)
    assert await job.due(Firing(now=NOON)) == []
    found = await job.due(Firing(now=NOON + timedelta(days=3)))
    to_run, missed = plan(job, found, now=NOON + timedelta(days=3))
    assert [due.slot for due in to_run] == ["2026-05-01 UTC", "2026-05-02 UTC", "2026-05-03 UTC"]
    assert missed == []


async def test_a_log_is_distilled_in_the_night_after_its_day_was_closed(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    declared = table(runs, make_scope(mode=Mode.LOG, timezone="Europe/Berlin"))
    close, distil = declared["close-day"], declared["distil"]
    one_o_clock = datetime(2026, 5, 1, 23, tzinfo=UTC)
    assert await distil.due(Firing(now=one_o_clock)) == []
    [day] = await close.due(Firing(now=one_o_clock))
    await settle(runs, close.id, day)
    assert await distil.due(Firing(now=one_o_clock - timedelta(seconds=1))) == []
    [night] = await distil.due(Firing(now=one_o_clock))
    assert night.slot == day.slot == "2026-05-01 Europe/Berlin"
    await settle(runs, distil.id, night)
    assert await distil.due(Firing(now=one_o_clock)) == []


async def test_after_a_switch_to_log_mode_no_earlier_day_is_closed_and_of_that_day_what_came_after(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    log, switched = make_scope(mode=Mode.LOG), NOON - timedelta(days=2)
    job = table(runs, log)["close-day"]
    earlier = NOON - timedelta(days=8)
    [first] = await job.due(Firing(now=earlier))
    await settle(runs, job.id, first)  # log mode was on then, and off in between
    job = table(runs, replace(log, mode_since=switched))["close-day"]
    assert [due.gate for due in await job.candidates(Firing(now=switched))] == ["it was not in log mode yet"]
    found = await job.due(Firing(now=NOON))
    assert [(due.day, due.since) for due in found] == [(date(2026, 4, 29), switched), (date(2026, 4, 30), None)]


async def test_a_new_log_that_a_downtime_left_open_is_closed_from_its_first_day(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    log = replace(make_scope(mode=Mode.LOG), mode_since=NOON)
    found = await table(runs, log)["close-day"].due(Firing(now=NOON + timedelta(days=3)))
    assert [due.day for due in found] == [date(2026, 5, day) for day in (1, 2, 3)]


@pytest.mark.parametrize("back", [1, 3, 9])
async def test_a_chat_that_is_new_when_the_gateway_goes_down_is_closed_from_its_first_words(
    runs: Runs, make_scope: Callable[..., Scope], back: int
) -> None:
    async def unseen(scope: Scope, since: datetime) -> datetime | None:
        return NOON - timedelta(days=back) if scope.principal == "ann" else None

    scopes = [make_scope(name, mode=Mode.LOG) for name in ("ann", "bob")]
    found = await Days(SchedulerSettings(), scopes=Listed(*scopes), runs=runs, unseen=unseen).to_close(Firing(now=NOON))
    days = [NOON.date() - timedelta(days=each) for each in range(back, 0, -1)]
    assert [due.day for due in found if due.scope == scopes[0]] == days
    assert [due.day for due in found if due.scope == scopes[1]] == [days[-1]]
    to_run, missed = plan(table(runs)["close-day"], found, now=NOON)
    assert len(missed) == max(0, back - 7)
    assert len(to_run) == min(back, 7) + 1


async def test_a_first_close_that_fails_stays_wanted_in_the_zone_of_then(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    scope = make_scope(mode=Mode.LOG, timezone="Europe/Berlin")
    job = table(runs, scope)["close-day"]
    [first] = await job.due(Firing(now=NOON))
    await runs.record(job.id, first.scope_key, first.slot, Outcome.FAILED, detail="no disk")
    [still] = await job.due(Firing(now=NOON))
    assert still == first
    moved = table(runs, replace(scope, timezone="America/New_York"))["close-day"]
    again, following = await moved.due(Firing(now=NOON + timedelta(days=1)))
    assert again.slot == "2026-04-30 Europe/Berlin"
    assert (following.slot, following.since) == ("2026-05-01 America/New_York", first.at)


async def test_a_day_that_a_clock_has_closed_that_was_ahead_is_closed_once_more_in_its_time(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    log = make_scope(mode=Mode.LOG)
    job = table(runs, log)["close-day"]
    now.moment = NOON + timedelta(days=1)
    [early] = await job.due(Firing(now=now()))
    await settle(runs, job.id, early)
    now.moment = NOON + timedelta(hours=14)
    [again] = await job.due(Firing(now=now()))
    assert (again.day, again.at, again.since) == (early.day, early.at, early.since)
    await settle(runs, job.id, again)
    for hours in (14, 23, 25):
        assert await job.due(Firing(now=NOON + timedelta(hours=hours))) == []


async def test_a_day_whose_early_record_lies_behind_the_first_look_after_its_end_is_closed_once_more(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    log = make_scope(mode=Mode.LOG)
    job, midnight = table(runs, log)["close-day"], datetime(2026, 5, 2, tzinfo=UTC)
    [before] = await job.due(Firing(now=NOON))
    await settle(runs, job.id, before)
    now.moment = midnight + timedelta(minutes=2)
    [early] = await job.due(Firing(now=now()))
    await settle(runs, job.id, early)
    assert await job.due(Firing(now=midnight - timedelta(minutes=4))) == []
    now.moment = midnight + timedelta(minutes=4)
    [again] = await job.due(Firing(now=now()))
    assert (again.day, again.at, again.since) == (early.day, early.at, early.since)
    await settle(runs, job.id, again)
    assert await job.due(Firing(now=midnight + timedelta(hours=1))) == []


async def test_all_days_that_are_open_can_be_closed_up_to_now(runs: Runs, make_scope: Callable[..., Scope]) -> None:
    log = make_scope(mode=Mode.LOG)
    job = table(runs, log)["close-day"]
    [first] = await job.due(Firing(now=NOON - timedelta(days=2)))
    await settle(runs, job.id, first)
    days = Days(SchedulerSettings(), scopes=Listed(log), runs=runs)
    assert [due.day for due in await days.unclosed(log, NOON)] == [date(2026, 4, day) for day in (29, 30)] + [
        NOON.date()
    ]
    begun = replace(log, mode_since=NOON - timedelta(minutes=1))
    assert [(due.day, due.since) for due in await days.unclosed(begun, NOON)] == [(NOON.date(), begun.mode_since)]


async def test_logs_that_wait_are_distilled_in_the_coming_night_though_log_mode_is_off(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    auto, one = make_scope(), datetime(2026, 5, 2, 1, tzinfo=UTC)
    log = log_of(auto, NOON.date())
    log.parent.mkdir(parents=True)
    log.write_text("- 12:00 Ann: tea\n")
    job = table(runs, auto, make_scope("bob"))["distil"]
    assert await job.due(Firing(now=NOON)) == []
    assert await job.due(Firing(now=one - timedelta(seconds=1))) == []
    assert job.upcoming is not None
    assert await job.upcoming(one - timedelta(seconds=1)) == one
    [night] = await job.due(Firing(now=one))
    assert (night.scope, night.day) == (auto, NOON.date())
    await settle(runs, job.id, night)
    assert await job.due(Firing(now=one)) == []
    assert len(await job.due(Firing(now=one + timedelta(days=1)))) == 1
    mark_processed(auto, waiting_logs(auto, one))
    assert await job.due(Firing(now=one + timedelta(days=1))) == []


async def test_a_memory_whose_logs_can_not_be_looked_at_keeps_no_other_from_being_sorted(
    runs: Runs, make_scope: Callable[..., Scope], tmp_path: Path
) -> None:
    scopes, outside = [make_scope("ann"), make_scope("bob")], tmp_path / "outside"
    for folder in (outside / "2026/04", log_of(scopes[1], date(2026, 4, 30)).parent):
        folder.mkdir(parents=True)
        (folder / "2026-04-30.md").write_text("- 12:00 Ann: tea\n")
    scopes[0].memory_dir.mkdir(parents=True)
    (scopes[0].memory_dir / "logs").symlink_to(outside)
    found = await table(runs, *scopes)["distil"].due(Firing(now=NOON))
    assert [due.scope for due in found] == scopes


async def test_only_scopes_with_open_gates_dream_unless_it_is_by_hand(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    scopes = [make_scope("ann"), make_scope("bob"), make_scope("log", mode=Mode.LOG)]
    job = table(runs, *scopes, awake=["bob", "log"])["dream"]
    assert [due.scope for due in await job.due(Firing(now=NOON))] == [scopes[1]]
    assert [due.scope for due in await job.due(Firing(now=NOON, by_hand=True))] == scopes[:2]


async def test_who_wants_no_dream_has_none_by_hand_for_all_but_one_that_is_asked_for_by_name(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    ann = make_scope("ann").after([OptOut(part=Part.DREAM, file="settings.toml")])
    bob = make_scope("bob")
    job = table(runs, ann, bob)["dream"]
    assert [due.scope for due in await job.due(Firing(now=NOON, by_hand=True))] == [bob]
    assert ann in [due.scope for due in await job.due(Firing(now=NOON, by_hand=True, only="ann"))]


async def test_a_dream_keeps_its_slot_all_its_local_day_until_one_has_ended_well(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    scope = make_scope("ann", timezone="America/New_York")

    async def slot(moment: datetime, dreamed: datetime = NOON - timedelta(days=2)) -> str:
        [due] = await table(runs, scope, awake=["ann"], dreamed=dreamed)["dream"].due(Firing(now=moment))
        assert moment - due.at < timedelta(minutes=10), "it is never late"
        return due.slot

    first = await slot(NOON)
    assert await slot(datetime(2026, 5, 2, 3, 59, tzinfo=UTC)) == first
    assert await slot(datetime(2026, 5, 2, 4, tzinfo=UTC)) != first
    assert await slot(NOON, NOON - timedelta(hours=1)) != first


async def test_only_scopes_with_a_team_are_synced(runs: Runs, make_scope: Callable[..., Scope]) -> None:
    member = make_scope("ann", repo="a/b")
    job = table(runs, member, make_scope("bob"))["team-sync"]
    assert [due.scope for due in await job.due(Firing(now=NOON))] == [member]


async def test_the_keys_of_scopes_never_meet(make_scope: Callable[..., Scope]) -> None:
    names = ["a", "a/b", "a b", "a%20b", "a in tea", "telegram:1"]
    keys = {Due(slot="", at=NOON, scope=make_scope(name)).scope_key for name in names}
    assert len(keys) == len(names)


def test_the_key_of_a_scope_can_be_read(make_scope: Callable[..., Scope]) -> None:
    scope = make_scope("chat:slack:T1/C1")
    assert Due(slot="", at=NOON, scope=scope).scope_key == "chat:slack:T1/C1 in tea"
    assert Due(slot="", at=NOON, scope=replace(scope, project="")).scope_key == "chat:slack:T1/C1"


async def test_the_gateways_chores_stand_in_the_table(runs: Runs) -> None:
    chore = Chore(id="retention", period=timedelta(hours=6), run=nothing)
    [due] = await table(runs, chores=[chore])["retention"].due(Firing(now=NOON))
    assert (due.scope_key, due.at.hour) == ("", 12)


async def test_old_runs_are_forgotten_by_a_job_of_their_own(runs: Runs, now: Any) -> None:
    await runs.record("job", "", "s", Outcome.MISSED, detail="")
    now.moment += timedelta(days=91)
    job = table(runs)["forget-runs"]
    [due] = await job.due(Firing(now=now()))
    context = JobContext(due=due, firing=Firing(now=now()))
    assert job.would is not None
    assert [await job.would(context) for _ in range(2)] == ["forget 1 old run"] * 2
    assert await job.run(context) == "1 old run forgotten"
    assert await job.would(context) == "forget 0 old runs"


async def test_a_scope_that_can_not_be_looked_at_keeps_no_other_from_dreaming_and_fails_by_itself(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    async def gate(scope: Scope, firing: Firing) -> str:
        if scope.principal == "ann":
            raise OSError("no disk")
        return ""

    async def since(scope: Scope) -> datetime:
        return NOON

    scopes = Listed(make_scope("ann"), make_scope("bob"))
    finder = Dreamers(Every(period=timedelta(hours=1)), scopes=scopes, since=since, gate=gate)
    found = await finder(Firing(now=NOON))
    assert [(due.slot[:10], due.gate) for due in found] == [("2026-05-01", "")] * 2
