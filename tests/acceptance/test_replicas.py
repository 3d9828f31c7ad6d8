"""Many schedulers on one PostgreSQL: each slot is run once, also when whoever runs it is gone without a word.

As a program, this file is one of them.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gateway.db.engine import Database, connect
from memory.scope import Mode, Scope
from scheduler.clock import SchedulerClock
from scheduler.errors import RunLost
from scheduler.jobs import Due, Every, Firing, Job, JobContext, Policy
from scheduler.runs import JobRun, Outcome, Runs
from scheduler.settings import SchedulerSettings

SCOPES = [f"person:telegram:{number}" for number in range(50)]
REPLICAS = 4
STUCK = SCOPES[7]
LEASE = timedelta(minutes=2)
PATIENCE = 40.0
_MOMENT = datetime(2026, 5, 1, tzinfo=UTC)


def real() -> datetime:
    return datetime.now(UTC)


def scope(principal: str) -> Scope:
    nowhere = Path("/nowhere")
    return Scope(
        principal=principal,
        project="",
        memory_dir=nowhere,
        team_dir=None,
        mode=Mode.AUTO,
        shared=False,
        enabled=True,
        timezone="UTC",
        readable=(),
        writable=(),
    )


async def a_slot_each(_: Firing) -> Sequence[Due]:
    return [Due(slot="today", at=_MOMENT, scope=scope(principal)) for principal in SCOPES]


def job(run: Callable[[JobContext], Any]) -> Job:
    return Job(
        id="work",
        tells="counts",
        trigger=Every(period=timedelta(seconds=0.2)),
        grace=timedelta(days=1),
        policy=Policy.CATCH_UP,
        run=run,
        finder=a_slot_each,
    )


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Database]:
    database = connect(url)
    try:
        yield database
    finally:
        await database.engine.dispose()


async def records(database: Database) -> dict[str, JobRun]:
    found = await Runs(database, clock=real, holder="looks").recent("work", limit=2 * len(SCOPES))
    return {record.scope: record for record in found}


async def test_of_four_replicas_exactly_one_runs_each_of_fifty_slots(postgres_url: str) -> None:
    ran: list[tuple[str, str]] = []
    together = asyncio.Barrier(REPLICAS)

    def work_of(name: str) -> Callable[[JobContext], Any]:
        async def work(context: JobContext) -> str:
            first = name not in (holder for holder, _ in ran)
            ran.append((name, context.scope.principal))
            if first:
                await together.wait()  # so that every one of them has its part
            return name

        return work

    async with AsyncExitStack() as stack:
        clocks = []
        for name in (f"r{number}" for number in range(REPLICAS)):
            runs = Runs(await stack.enter_async_context(connected(postgres_url)), clock=real, holder=name)
            clocks.append(
                SchedulerClock([job(work_of(name))], runs=runs, settings=SchedulerSettings(concurrency=1), clock=real)
            )
        await asyncio.gather(*(clock.fire("work") for clock in clocks))
        found = await records(await stack.enter_async_context(connected(postgres_url)))
    assert Counter(principal for _, principal in ran) == Counter(SCOPES)
    assert {holder for holder, _ in ran} == {f"r{number}" for number in range(REPLICAS)}
    assert {one: (record.holder, record.outcome, record.token) for one, record in found.items()} == {
        principal: (holder, Outcome.DONE, 1) for holder, principal in ran
    }


async def test_a_holder_that_comes_back_late_records_nothing(postgres_url: str) -> None:
    later = real() + 2 * LEASE
    async with connected(postgres_url) as here, connected(postgres_url) as there:
        late = Runs(here, clock=real, holder="late")
        heirs = [Runs(there, clock=lambda: later, holder=f"heir {number}") for number in range(REPLICAS)]
        old = await late.claim("work", STUCK, "s", lease=LEASE, attempts=3)
        assert old is not None
        claims = await asyncio.gather(*(heir.claim("work", STUCK, "s", lease=LEASE, attempts=3) for heir in heirs))
        [(heir, new)] = [(heir, run) for heir, run in zip(heirs, claims, strict=True) if run is not None]
        assert new.token > old.token
        ends = await asyncio.gather(
            late.finish(old, Outcome.FAILED, "from the grave"),
            late.renew(old, lease=LEASE),
            late.release(old),
            heir.finish(new, Outcome.DONE, "fine"),
            return_exceptions=True,
        )
        found = (await records(there))[STUCK]
    assert [type(end) for end in ends] == [RunLost, RunLost, RunLost, type(None)]
    assert (found.outcome, found.detail, found.token) == (Outcome.DONE, "fine", new.token)


async def test_what_a_killed_process_had_begun_is_done_by_another_with_a_greater_token(postgres_url: str) -> None:
    async with process(postgres_url, "stuck") as stuck, connected(postgres_url) as database:
        await begun(stuck)
        stuck.kill()
        async with process(postgres_url, "other") as other:
            await asyncio.wait_for(other.communicate(), PATIENCE)
        assert other.returncode == 0
        found = await records(database)
    assert {record.outcome for record in found.values()} == {Outcome.DONE}
    assert (found[STUCK].holder, found[STUCK].token) == ("other", 2)
    assert {record.token for one, record in found.items() if one != STUCK} == {1}


async def begun(stuck: asyncio.subprocess.Process) -> None:
    """Wait until the process is in the run that it will never end."""
    assert stuck.stdout is not None
    async with asyncio.timeout(PATIENCE):
        async for line in stuck.stdout:  # what it logs is there too
            if line.decode().strip() == STUCK:
                return
    raise AssertionError("the process ended")


@asynccontextmanager
async def process(url: str, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.acceptance.test_replicas",
        url,
        name,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def replica(url: str, name: str) -> None:
    """Run slots until all are done; the one that is called stuck never ends one of them, and says so."""

    async def work(context: JobContext) -> str:
        if name == "stuck" and context.scope.principal == STUCK:
            print(STUCK, flush=True)
            await asyncio.Event().wait()
        return name

    settings = SchedulerSettings(start_delay=0.0, lease=1.0, concurrency=1)
    async with connected(url) as database:
        runs = Runs(database, clock=real, holder=name)
        async with SchedulerClock([job(work)], runs=runs, settings=settings, clock=real):
            while not await all_done(database):  # noqa: ASYNC110  (another process does a part of them)
                await asyncio.sleep(0.1)


async def all_done(database: Database) -> bool:
    return [record.outcome for record in (await records(database)).values()] == [Outcome.DONE] * len(SCOPES)


if __name__ == "__main__":
    asyncio.run(replica(*sys.argv[1:]))
