from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import anyio
import pytest

from adapters.base import Inbound
from gateway.commands.jobs import PER_PAGE, JobsCommand, would
from gateway.commands.table import Asked
from gateway.db.engine import Database
from gateway.inbox import Claim
from gateway.settings import Settings
from memory.scope import Scope
from scheduler.board import Board
from scheduler.clock import Looked, SchedulerClock
from scheduler.jobs import Due, Every, Firing, Job, JobContext, Policy
from scheduler.runs import Outcome, Runs

HOUR = timedelta(hours=1)
Say = Callable[..., Awaitable[str]]


@pytest.fixture
def runs(database: Database, now: Any) -> Runs:
    return Runs(database, clock=now, holder="test")


@dataclass
class Pace:
    """What the job waits for before it ends."""

    slow: bool = False

    async def wait(self) -> None:
        if self.slow:
            await anyio.sleep_forever()


@pytest.fixture
def pace() -> Pace:
    return Pace()


@pytest.fixture
def scope(make_scope: Callable[..., Scope]) -> Scope:
    return replace(make_scope(), timezone="Europe/Berlin")


@pytest.fixture
def dream(scope: Scope, make_scope: Callable[..., Scope], pace: Pace) -> Job:
    """A job for two scopes, of which one is gated by time."""

    async def due(firing: Firing) -> Sequence[Due]:
        other = make_scope("chat:slack:T1/C1", project="", shared=True)
        gate = "" if firing.by_hand else "too soon"
        return [Due(slot="s", at=firing.now, scope=scope), Due(slot="s", at=firing.now, scope=other, gate=gate)]

    async def work(context: JobContext) -> str:
        await pace.wait()
        return "2 files changed"

    tells, hourly = "puts notes in order", Every(period=HOUR)
    return Job(id="dream", tells=tells, trigger=hourly, grace=HOUR, policy=Policy.ONCE, run=work, finder=due)


@pytest.fixture
async def command(dream: Job, runs: Runs, now: Any, settings_of: Callable[..., Settings]) -> AsyncIterator[JobsCommand]:
    settings = settings_of(REVERIE_ACCESS__OWNERS="telegram:42")
    async with SchedulerClock([dream], runs=runs, settings=settings.scheduler, clock=now) as clock:
        board = Board(clock, runs=runs, clock=now)
        yield JobsCommand(settings=settings, scheduler=clock, board=board, clock=now)


@pytest.fixture
def say(command: JobsCommand, scope: Scope, said: Callable[..., Inbound], now: Any) -> Say:
    async def go(words: str = "", *, user: str = "42", shared: bool = False) -> str:
        inbound = said(f"/jobs {words}", user=user)
        claim = Claim(
            id=1, token="t", inbound=inbound, principal=scope.principal, attempts=1, stopped=False,
            received_at=now().timestamp(),
        )  # fmt: skip
        asked = Asked(claim=claim, scope=replace(scope, shared=shared), arguments=words)
        return (await command.jobs(asked)).text

    return go


async def record(runs: Runs, scope: str, outcome: Outcome, detail: str) -> None:
    run = await runs.claim("dream", scope, "s", lease=HOUR, attempts=1)
    assert run is not None
    await runs.finish(run, outcome, detail)


async def test_only_an_owner_in_private_sees_jobs(say: Say) -> None:
    for words in ("", "dream", "run dream", "run dream --dry-run"):
        assert "Only an owner" in await say(words, user="43")
        assert "in our private chat" in await say(words, shared=True)
        assert "tea" not in await say(words, user="43") + await say(words, shared=True)


async def test_jobs_are_listed_with_what_they_do_next_and_last_in_the_owners_zone(say: Say, runs: Runs) -> None:
    assert "**dream**: puts notes in order; next 2026-05-01 15:00 CEST\n- no run" in await say()
    await record(runs, "person:a", Outcome.DONE, "2 files changed")
    await record(runs, "person:b", Outcome.FAILED, "the model refuses the run")
    lines = (await say("dream")).splitlines()
    assert lines[1:] == [
        "- `person:b` 2026-05-01 14:00 CEST: failed after 0 s: the model refuses the run",
        "- `person:a` 2026-05-01 14:00 CEST: done in 0 s: 2 files changed",
    ]


async def test_a_job_with_many_scopes_has_pages(say: Say, runs: Runs) -> None:
    for number in range(PER_PAGE + 1):
        await record(runs, f"person:{number}", Outcome.DONE, "")
    assert "and more scopes" in await say()
    first, second = await say("dream"), await say("dream 2")
    assert (first.count("- `person"), "`/jobs dream 2` shows more" in first) == (PER_PAGE, True)
    assert (second.count("- `person"), "more" in second) == (1, False)


async def test_a_job_is_run_by_hand_for_all_or_for_one_scope(say: Say, runs: Runs, now: Any) -> None:
    assert (await say("run dream")).splitlines() == [
        "dream `chat:slack:T1/C1`: done: 2 files changed",
        "dream `person:telegram:42 in tea`: done: 2 files changed",
    ]
    now.forward(1)
    only = await say("run dream --scope chat:slack:T1/C1")
    assert only == "dream `chat:slack:T1/C1`: done: 2 files changed"
    assert "works for no scope 'nobody'" in await say("run dream --scope nobody")
    assert len(await runs.recent()) == 3


async def test_a_run_that_takes_long_does_not_hold_up_the_chat(
    say: Say, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.commands.jobs._PATIENCE", 0.2)
    pace.slow = True
    assert "is running; `/jobs dream` shows how it goes" in await say("run dream")
    assert "running for 0 s" in await say("dream")


@pytest.mark.parametrize("option", ["--dry-run", "\u2014dry-run"])
async def test_a_dry_run_says_what_would_run_and_why_not_the_rest(say: Say, runs: Runs, option: str) -> None:
    assert (await say(f"run dream {option}")).splitlines()[1:] == [
        "- `person:telegram:42 in tea`: would run, for s",
        "- `chat:slack:T1/C1`: not now: too soon; by hand it would run",
    ]
    assert await runs.recent() == []


def test_a_dry_run_says_what_a_run_would_do_where_the_job_can_tell() -> None:
    now_or_never = [Looked(scope="", slot="s", gate=gate, by_hand=True, does="delete 1 log") for gate in ("", "done")]
    assert would("forget", now_or_never).splitlines()[1:] == [
        "- the gateway: would delete 1 log",
        "- the gateway: not now: done; by hand it would delete 1 log",
    ]


@pytest.mark.parametrize("words", ["run", "run dream --scope", "run dream --more", "dream 0", "dream x", "a b c", "'"])
async def test_what_can_not_be_understood_gets_a_word_on_how_to_say_it(say: Say, runs: Runs, words: str) -> None:
    said = await say(words)
    assert said.startswith(f"I don't understand `{words}`")
    assert "Write `/jobs`" in said
    assert await runs.recent() == []


async def test_an_unknown_job_is_answered_with_those_that_there_are(say: Say) -> None:
    for words in ("sleep", "run sleep", "run sleep --dry-run"):
        assert await say(words) == "There is no job 'sleep'; the jobs are dream."
    for words in ("dreem", "run dreem"):
        assert await say(words) == "There is no job 'dreem'; the jobs are dream (did you mean dream?)."
    assert (await say("rnu dream")).startswith("I don't understand `rnu dream` (did you mean run?)")


async def test_what_was_missed_lately_has_a_line_of_its_own_once_the_scope_has_run_again(
    say: Say, runs: Runs, now: Any
) -> None:
    missed = "missed: nothing ran for 19 slots, 2026-05-01 12:15 to 2026-05-01 16:45 UTC"
    assert await runs.record("dream", "person:a", "r", Outcome.MISSED, detail=missed)
    assert (await say("dream")).count(missed) == 1
    now.forward(60)
    await record(runs, "person:a", Outcome.DONE, "2 files changed")
    assert (await say("dream")).splitlines()[1:] == [
        "- `person:a` 2026-05-01 14:01 CEST: done in 0 s: 2 files changed",
        f"- not long ago: `person:a` 2026-05-01 14:00 CEST: {missed}",
    ]
