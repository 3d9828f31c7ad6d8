from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.scope import Mode, Scope
from scheduler.board import Board, how, lasted, local, outcome_of, spoken
from scheduler.clock import SchedulerClock
from scheduler.days import Days
from scheduler.errors import UnknownJob
from scheduler.jobs import Every, Job, JobContext, Policy
from scheduler.runs import BY_HAND, JobRun, Outcome, Runs
from scheduler.settings import SchedulerSettings

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
SETTINGS = SchedulerSettings()
RUN = JobRun(
    job="dream", scope="ann", slot="s", token=1, attempts=1, holder="r1", lease_until=NOON, started_at=NOON,
    finished_at=None, outcome=None, detail="",
)  # fmt: skip


async def nothing(context: JobContext) -> str:
    return ""


def job(name: str, **more: Any) -> Job:
    hour = timedelta(hours=1)
    return Job(id=name, trigger=Every(period=hour), grace=hour, policy=Policy.ONCE, run=nothing, **more)


async def record(runs: Runs, name: str, scope: str, outcome: Outcome) -> None:
    run = await runs.claim(name, scope, "s", lease=timedelta(hours=1), attempts=1)
    assert run is not None
    await runs.finish(run, outcome, "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (3661, "1 h 1 min"),
     (86_400 + 5, "1 d"), (200_000, "2 d 7 h"), (-3, "0 s")],
)  # fmt: skip
def test_a_length_of_time_is_told_in_its_two_greatest_units(seconds: float, words: str) -> None:
    assert spoken(timedelta(seconds=seconds)) == words


def test_a_moment_is_told_by_the_clock_of_the_zone_that_is_then() -> None:
    assert local(NOON, "Europe/Berlin") == "2026-05-01 14:00 CEST"
    assert local(datetime(2026, 12, 1, tzinfo=UTC), "America/New_York") == "2026-11-30 19:00 EST"
    assert local(NOON, "Asia/Kathmandu") == "2026-05-01 17:45 +0545"


def test_a_run_is_told_with_its_outcome_its_length_and_its_line() -> None:
    ended = replace(RUN, finished_at=NOON + timedelta(seconds=182), outcome=Outcome.FAILED, detail="no model")
    assert how(ended, now=NOON) == "failed after 3 min 2 s: no model"
    missed = replace(ended, outcome=Outcome.MISSED, detail="missed: its time was 2 d 0:00 h ago")
    assert (how(missed, now=NOON), lasted(missed)) == ("missed: its time was 2 d 0:00 h ago", None)


def test_a_run_that_is_under_way_is_told_with_how_far_it_is_and_one_that_stopped_as_such() -> None:
    later = NOON + timedelta(minutes=3)
    running = replace(RUN, lease_until=later, detail="turn 4, 2 files written")
    assert how(running, now=later) == "running for 3 min: turn 4, 2 files written"
    assert how(running, now=later + timedelta(seconds=1)).startswith("stopped in the middle")


async def test_jobs_that_fail_come_first_and_a_job_has_pages(runs: Runs, now: Any) -> None:
    clock = SchedulerClock([job("well"), job("ill")], runs=runs, settings=SETTINGS, clock=now)
    board = Board(clock, runs=runs, clock=now)
    for number in range(5):
        await record(runs, "well", f"s{number}", Outcome.DONE)
        await record(runs, "ill", f"s{number}", Outcome.FAILED if number == 3 else Outcome.DONE)
    first, second = await board.overview(limit=2)
    assert ([first.job.id, second.job.id], first.last[0].scope, first.more) == (["ill", "well"], "s3", True)
    pages = [await board.of("ill", limit=2, page=page) for page in (1, 2, 3, 4)]
    assert [(len(page.last), page.more) for page in pages] == [(2, True), (2, True), (1, False), (0, False)]
    assert len({run.scope for page in pages for run in page.last}) == 5
    with pytest.raises(UnknownJob):
        await board.of("none", limit=2)


async def test_the_next_run_of_a_job_that_goes_by_local_time_is_the_first_of_its_scopes(
    runs: Runs, make_scope: Callable[..., Scope]
) -> None:
    class Two:
        async def active(self) -> list[Scope]:
            zones = ("Asia/Kathmandu", "America/New_York")
            return [make_scope(zone, mode=Mode.LOG, timezone=zone) for zone in zones] + [make_scope("auto")]

    class Nobody:
        async def active(self) -> list[Scope]:
            return []

    days = Days(SETTINGS, scopes=Two(), runs=runs)
    assert await days.next_close(NOON) == datetime(2026, 5, 1, 18, 15, tzinfo=UTC)
    assert await days.next_close(datetime(2026, 5, 1, 18, 15, tzinfo=UTC)) == datetime(2026, 5, 2, 4, tzinfo=UTC)
    assert await days.next_distil(NOON) == datetime(2026, 5, 1, 19, 15, tzinfo=UTC)
    assert await Days(SETTINGS, scopes=Nobody(), runs=runs).next_close(NOON) is None


def test_a_run_that_gave_way_is_told_as_such_and_programs_are_told_a_stopped_one_from_one_that_runs() -> None:
    busy = replace(RUN, finished_at=NOON, outcome=Outcome.BUSY, detail="another holds it")
    assert how(busy, now=NOON) == "busy, and tried again at the next tick: another holds it"
    assert how(replace(busy, slot=f"s{BY_HAND}12:00"), now=NOON) == "busy: another holds it"
    words = [outcome_of(run, now=NOON + timedelta(hours=late)) for run in (busy, RUN) for late in (0, 1)]
    assert words == ["busy", "busy", "running", "stopped"]
