"""Every slot accounted for, whatever becomes of the process that ran it, of its clock and of other runs."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import anyio
import pytest

from memory.scope import Scope
from scheduler.board import Board
from scheduler.clock import SchedulerClock
from scheduler.errors import NotNow, NotReady, RunLost
from scheduler.finders import Members
from scheduler.jobs import Due, Every, Firing, Job, JobContext, Policy
from scheduler.runs import BY_HAND, JobRun, Outcome, Runs
from scheduler.settings import SchedulerSettings
from tests.unit.scheduler.test_clock import Counting
from tests.waiting import until

SETTINGS = SchedulerSettings()
LEASE = timedelta(seconds=SETTINGS.lease)
QUARTER, DAY = timedelta(minutes=15), timedelta(days=1)
CUT_OFF = "it was cut off: the process that ran it has ended"


async def well(context: JobContext) -> str:
    return "did it"


def job(run: Callable[[JobContext], Awaitable[str]] = well, **changes: Any) -> Job:
    every = Every(period=QUARTER)
    given = {"id": "work", "trigger": every, "grace": QUARTER, "policy": Policy.SKIP, **changes}
    return Job(run=run, **given)


def clock_of(runs: Runs, now: Any, *jobs: Job, **more: Any) -> SchedulerClock:
    return SchedulerClock(jobs, runs=runs, settings=SETTINGS, clock=now, **more)


def daily(gate: str = "") -> Callable[[Firing], Awaitable[Sequence[Due]]]:
    async def finder(firing: Firing) -> Sequence[Due]:
        return [Due(slot=firing.now.date().isoformat(), at=firing.now, gate=gate)]

    return finder


async def killed(runs: Runs, slot: str, name: str = "work") -> None:
    """Leave a run as a process does that is killed."""
    assert await runs.claim(name, "", slot, lease=LEASE, attempts=3)


async def of(runs: Runs, slot: str) -> JobRun:
    found = await runs.find("work", "", slot)
    assert found is not None
    return found


async def told(runs: Runs) -> dict[tuple[str, str], tuple[Outcome | None, str]]:
    """Return what is on record, by the first part of the scope and the clock that the slot shows."""
    rows = await runs.recent(limit=99)
    return {(row.scope.split(" ")[0], row.slot[11:16]): (row.outcome, row.detail) for row in rows}


# -- runs that were cut off


async def test_a_run_by_hand_whose_process_was_killed_is_ended_by_any_tick_of_any_replica(
    replica: Callable[[str], Runs], now: Any
) -> None:
    slot, meter = f"2026-05-01{BY_HAND}12:03", Counting()
    await killed(replica("dead"), slot)
    clock = clock_of(replica("heir"), now, job(), job(id="other"), meter=meter)
    await clock.fire("other")
    assert (await of(replica("any"), slot)).outcome is None, "its lease has not run out"
    now.moment += LEASE + timedelta(seconds=1)
    for _ in range(2):
        await clock.fire("other")
    ended = await of(replica("any"), slot)
    assert (ended.outcome, ended.detail) == (Outcome.FAILED, CUT_OFF)
    assert [each["outcome"] for _, each, _ in meter.seen if each["job"] == "work"] == ["failed"]


async def test_the_end_of_a_run_that_was_cut_off_says_how_far_it_was_and_its_holder_records_nothing_more(
    replica: Callable[[str], Runs], now: Any
) -> None:
    slot = f"s{BY_HAND}12:03"
    run = await replica("slow").claim("work", "", slot, lease=LEASE, attempts=3)
    assert run is not None
    await replica("slow").renew(run, lease=LEASE, note="turn 4, 2 files written")
    now.moment += 2 * LEASE
    await clock_of(replica("heir"), now, job()).fire("work")
    assert (await of(replica("any"), slot)).detail == f"{CUT_OFF}; it had got to: turn 4, 2 files written"
    with pytest.raises(RunLost):
        await replica("slow").finish(run, Outcome.DONE, "from the grave")


async def test_a_run_by_hand_that_is_stopped_has_its_end_at_once(runs: Runs, now: Any) -> None:
    started, meter = anyio.Event(), Counting()

    async def forever(context: JobContext) -> str:
        context.progress("half of it")
        started.set()
        await anyio.sleep_forever()
        return ""

    clock = clock_of(runs, now, job(forever), meter=meter)
    async with anyio.create_task_group() as group:
        group.start_soon(clock.run_now, "work")
        await started.wait()
        group.cancel_scope.cancel()
    [ended] = await runs.recent()
    assert (ended.outcome, ended.detail) == (Outcome.FAILED, f"{CUT_OFF}; it had got to: half of it")
    assert [each["outcome"] for _, each, _ in meter.seen] == ["failed"]


async def test_a_skipped_slot_that_was_cut_off_is_ended_once_the_next_has_come(runs: Runs, now: Any) -> None:
    slot = job().trigger.latest(now()).slot
    await killed(runs, slot)
    now.moment += QUARTER
    await clock_of(runs, now, job()).fire("work")
    assert {each.slot: each.outcome for each in await runs.recent()} == {
        slot: Outcome.FAILED, job().trigger.latest(now()).slot: Outcome.DONE,
    }  # fmt: skip


async def test_a_rare_chore_that_was_cut_off_does_not_wait_a_day_for_its_end(runs: Runs, now: Any) -> None:
    chore = job(trigger=Every(period=DAY))
    clock = clock_of(runs, now, chore, job(id="other"))
    await killed(runs, chore.trigger.latest(now()).slot)
    for name in ("work", "other"):
        await clock.fire(name)
    now.moment += 2 * LEASE
    await clock.fire("other")
    assert [each.outcome for each in await runs.recent("work")] == [Outcome.FAILED]


async def test_what_its_policy_finds_again_stays_to_be_taken_up_also_while_a_gate_is_closed(
    runs: Runs, now: Any
) -> None:
    slot = now().date().isoformat()
    await killed(runs, slot)
    now.moment += 2 * LEASE
    await clock_of(runs, now, job(policy=Policy.ONCE, finder=daily("throttled"))).fire("work")
    assert (await of(runs, slot)).outcome is None
    [ran] = await clock_of(runs, now, job(policy=Policy.ONCE, finder=daily())).fire("work")
    assert (ran.slot, ran.outcome) == (slot, Outcome.DONE)


async def test_a_dream_that_was_cut_off_is_ended_when_its_day_is_over(runs: Runs, now: Any) -> None:
    slot = now().date().isoformat()
    await killed(runs, slot)
    now.moment += DAY
    await clock_of(runs, now, job(policy=Policy.ONCE, finder=daily("too soon"))).fire("work")
    ended = await of(runs, slot)
    assert (ended.outcome, ended.detail, ended.finished_at) == (Outcome.FAILED, CUT_OFF, now() - DAY + LEASE)


async def test_a_run_of_this_process_is_not_ended_by_it_when_its_clock_has_leapt(runs: Runs, now: Any) -> None:
    async def sleepy(context: JobContext) -> str:
        now.moment += DAY
        await clock.fire("other")
        now.moment -= DAY
        return "alive"

    clock = clock_of(runs, now, job(sleepy), job(id="other"))
    [ran] = await clock.run_now("work")
    assert (ran.outcome, ran.detail) == (Outcome.DONE, "alive")


async def test_of_many_replicas_one_tells_that_a_run_was_cut_off(replica: Callable[[str], Runs], now: Any) -> None:
    await killed(replica("dead"), f"s{BY_HAND}12:03")
    now.moment += 2 * LEASE
    meters = [Counting() for _ in range(4)]
    async with anyio.create_task_group() as group:
        for number, meter in enumerate(meters):
            clock = clock_of(replica(f"r{number}"), now, job(), job(id="other"), meter=meter)
            group.start_soon(clock.fire, "other")
    told = [labels for meter in meters for _, labels, _ in meter.seen if labels["job"] == "work"]
    assert told == [{"job": "work", "outcome": "failed"}]


async def test_a_run_without_an_end_of_a_job_that_is_no_more_is_ended_and_says_why(
    replica: Callable[[str], Runs], now: Any
) -> None:
    await killed(replica("dead"), "s", "of a former version")
    meter = Counting()
    clock = clock_of(replica("heir"), now, job(), meter=meter)
    await clock.fire("work")
    assert [each.outcome for each in await replica("any").recent("of a former version")] == [None], "it may be alive"
    now.moment += 2 * LEASE
    for _ in range(2):
        await clock.fire("work")
    [ended] = await replica("any").recent("of a former version")
    assert ended.outcome is Outcome.FAILED
    assert ended.detail == f"{CUT_OFF}; this version has no job of that name, so nothing takes it up"
    assert [each["outcome"] for _, each, _ in meter.seen if each["job"] == "of a former version"] == ["failed"]


async def test_a_run_that_a_newer_version_is_at_stays_its_own_until_it_has_ended(
    replica: Callable[[str], Runs], now: Any
) -> None:
    run = await replica("newer").claim("of a later version", "", "s", lease=LEASE, attempts=3)
    assert run is not None
    clock = clock_of(replica("older"), now, job())
    for _ in range(3):
        now.moment += LEASE / 2
        await replica("newer").renew(run, lease=LEASE)
        await clock.fire("work")
    await replica("newer").finish(run, Outcome.DONE, "well")
    assert [each.outcome for each in await replica("any").recent("of a later version")] == [Outcome.DONE]


async def test_a_run_without_an_end_of_a_job_that_is_no_more_is_forgotten_with_the_old_ones(
    runs: Runs, now: Any
) -> None:
    await killed(runs, "s", "of a former version")
    assert await runs.prune(now()) == 0
    now.moment += 2 * DAY
    assert (await runs.count(now() - DAY), await runs.prune(now() - DAY), await runs.recent()) == (1, 1, [])


# -- slots that nothing ran for


class Listed:
    """The scopes that there are."""

    def __init__(self, *scopes: Scope) -> None:
        self.scopes = list(scopes)

    async def active(self) -> Sequence[Scope]:
        return self.scopes


async def test_a_scope_that_is_busy_with_an_earlier_slot_has_a_record_of_each_that_it_missed(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    started, go_on = anyio.Event(), anyio.Event()

    async def work(context: JobContext) -> str:
        started.set()
        await go_on.wait()
        return "did it"

    scopes = Listed(make_scope("slow", repo="r"))
    clock = clock_of(runs, now, job(work, finder=Members(Every(period=QUARTER), scopes=scopes)))
    async with anyio.create_task_group() as group:
        group.start_soon(clock.fire, "work")
        await started.wait()
        for _ in range(3):
            now.moment += QUARTER
            await clock.fire("work")
        go_on.set()
    now.moment += QUARTER
    await clock.fire("work")
    assert {slot: said for (_, slot), said in (await told(runs)).items()} == {
        time: (Outcome.MISSED, f"missed: an earlier run was still under way for 1 slot, 2026-05-01 {time} UTC")
        for time in ("12:15", "12:30", "12:45")
    } | dict.fromkeys(("12:00", "13:00"), (Outcome.DONE, "did it"))


async def test_a_scope_that_waits_for_its_turn_is_not_recorded_as_missed_meanwhile(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    go_on, at_it = anyio.Event(), list[str]()

    async def work(context: JobContext) -> str:
        at_it.append(context.scope.principal)
        await go_on.wait()
        return "did it"

    scopes = Listed(*(make_scope(f"p{n}", repo="r") for n in range(SETTINGS.concurrency + 1)))
    clock = clock_of(runs, now, job(work, finder=Members(Every(period=QUARTER), scopes=scopes)))
    for scope in scopes.scopes:
        assert await runs.record(
            "work", f"{scope.principal} in tea", "2026-05-01T11:45:00+00:00", Outcome.DONE, detail=""
        )
    async with anyio.create_task_group() as group:
        group.start_soon(clock.fire, "work")
        await until(lambda: len(at_it) == SETTINGS.concurrency)
        now.moment += QUARTER
        await clock.fire("work")
        go_on.set()
    assert len(at_it) == len(scopes.scopes)
    assert {outcome for outcome, _ in (await told(runs)).values()} == {Outcome.DONE}


async def test_each_scope_has_its_own_record_of_a_downtime_and_one_that_had_no_part_then_has_none(
    runs: Runs, now: Any, make_scope: Callable[..., Scope]
) -> None:
    ann, bob = make_scope("ann", repo="r"), make_scope("bob", repo="r")
    scopes = Listed(ann, bob)
    clock = clock_of(runs, now, job(finder=Members(Every(period=QUARTER), scopes=scopes)))
    await clock.fire("work")
    now.moment += QUARTER
    scopes.scopes = [ann]
    await clock.fire("work")
    scopes.scopes = [ann, bob]
    now.moment += 3 * QUARTER
    await clock.fire("work")
    missed = [(row.scope, row.detail) for row in await runs.recent() if row.outcome is Outcome.MISSED]
    span = "2026-05-01 12:30 to 2026-05-01 12:45 UTC"
    assert missed == [("ann in tea", f"missed: nothing ran for 2 slots, {span}")]


async def test_a_run_by_hand_during_a_downtime_hides_none_of_the_slots_before_it(runs: Runs, now: Any) -> None:
    await clock_of(runs, now, job()).fire("work")
    for hours in (3, 2):
        now.moment += timedelta(hours=hours)
        await clock_of(runs, now, job()).run_now("work")
    await clock_of(runs, now, job()).fire("work")
    [missed] = [row for row in await runs.recent() if row.outcome is Outcome.MISSED]
    assert missed.slot == "2026-05-01T12:15:00+00:00 to 2026-05-01T16:45:00+00:00"
    assert missed.detail == "missed: nothing ran for 19 slots, 2026-05-01 12:15 to 2026-05-01 16:45 UTC"


async def test_what_was_missed_lately_is_shown_though_the_job_has_run_since(runs: Runs, now: Any) -> None:
    clock = clock_of(runs, now, job())
    board = Board(clock, runs=runs, clock=now)
    for _ in range(2):
        await clock.fire("work")
        now.moment += 2 * QUARTER
    status = await board.of("work", limit=3)
    assert ([run.outcome for run in status.last], status.missed and status.missed.slot[11:16]) == (
        [Outcome.DONE], "12:15",
    )  # fmt: skip
    now.moment += 8 * DAY
    assert (await board.of("work", limit=3)).missed is None


# -- work that somebody else is at, and a host that must not claim anything


async def test_work_that_somebody_else_is_at_is_no_failure_and_is_looked_at_again_at_the_next_tick(
    runs: Runs, now: Any
) -> None:
    tries, meter = 0, Counting()

    async def work(context: JobContext) -> str:
        nonlocal tries
        tries += 1
        if tries <= 2 * SETTINGS.attempts:
            raise ExceptionGroup("wrapped", [NotNow("another holds it")])
        return "did it"

    clock = clock_of(runs, now, job(work, policy=Policy.ONCE, finder=daily(), pause=DAY), meter=meter)
    for _ in range(2 * SETTINGS.attempts):
        [ran] = await clock.fire("work")
        assert (ran.outcome, ran.detail) == (Outcome.BUSY, "another holds it")
        now.moment += QUARTER
    [ran] = await clock.fire("work")
    [row] = await runs.recent()
    assert (ran.outcome, row.outcome, row.attempts) == (Outcome.DONE, Outcome.DONE, 1)
    assert "failed" not in {labels.get("outcome") for _, labels, _ in meter.seen}


async def test_while_something_is_in_the_way_no_slot_is_claimed_and_whoever_asks_is_told_why(
    runs: Runs, now: Any
) -> None:
    in_the_way = "the clock is wrong"

    async def obstacle() -> str:
        return in_the_way

    clock = clock_of(runs, now, job(), obstacle=obstacle)
    assert (await clock.fire("work"), await runs.recent()) == ([], [])
    with pytest.raises(NotReady, match="the clock is wrong"):
        await clock.run_now("work")
    in_the_way = ""
    assert len(await clock.fire("work")) == 1
