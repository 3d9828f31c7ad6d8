import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from adapters.base import Address
from gateway.access import Access
from gateway.agent.fork import Equipment
from gateway.db.engine import Database
from gateway.db.leases import DatabaseLeases
from gateway.db.models import DueRow, OutboxRow, SessionRow
from gateway.erasures import Erasures
from gateway.extraction import Extractions
from gateway.history import Due, History, Line, Session, Turned
from gateway.notices import Notices
from gateway.outbox import Outbox
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.errors import WriteRefused
from memory.gone import Gone
from memory.notes import Watch
from memory.paths import Homes, ensure
from memory.ports import Outcome, Rights, RunReport
from memory.recall import Recalled
from memory.scan import Scanner
from memory.scope import Scope
from tests.waiting import HANGS

ANN = "person:telegram:42"
Act = Callable[["OneFork"], Awaitable[RunReport]]


def report(outcome: Outcome = Outcome.COMPLETED, *written: Path) -> RunReport:
    return RunReport(outcome=outcome, written=written, text="", turns=1)


class OneFork:
    """A fork that does what the next entry of the script says, or completes."""

    def __init__(self, forks: "ScriptedForks", session: Session, scope: Scope, watch: Watch) -> None:
        self.session = session
        self.scope = scope
        self.watch = watch
        self._forks = forks

    async def __call__(self, prompt: str, *, rights: Rights, max_turns: int) -> RunReport:
        forks = self._forks
        forks.prompts.append(prompt)
        forks.inside[self.scope.memory_dir] = forks.inside.get(self.scope.memory_dir, 0) + 1
        forks.most = max(forks.most, forks.inside[self.scope.memory_dir])
        try:
            return await forks.script.pop(0)(self) if forks.script else report()
        finally:
            forks.inside[self.scope.memory_dir] -= 1


class ScriptedForks:
    """Counts how many forks are inside each memory directory."""

    def __init__(self) -> None:
        self.script: list[Act] = []
        self.prompts: list[str] = []
        self.inside: dict[Path, int] = {}
        self.most = 0

    def fork_of(self, session: Session, scope: Scope, equipment: Equipment) -> OneFork:
        return OneFork(self, session, scope, equipment.watches[0])


class World:
    """Extractions on a real database, with the model's part scripted."""

    def __init__(self, database: Database, outbox: Outbox, settings: Settings, now: Any) -> None:
        self.database = database
        self.settings = settings
        self.history = History(database, now, silence=8 * 3600.0)
        homes = Homes(root=settings.home / "homes", settings=settings.memory, override=None, enabled=True)
        self.scopes = Scopes(settings, homes, Access(database, settings, now), database)
        self.leases = DatabaseLeases(database, now)
        self.forks = ScriptedForks()
        self._notices = Notices(outbox, self.history)
        self._now = now

    def extractions(self) -> Extractions:
        return Extractions(
            history=self.history,
            provenance=Provenance(self.database),
            scopes=self.scopes,
            runs=self.forks,
            scanner=Scanner(limit=100),
            settings=self.settings.memory,
            leases=self.leases,
            notices=self._notices,
            clock=self._now,
            concurrency=8,
        )

    async def turn(self, conversation: str = "telegram:42", *, writes: str = "", recalls: str = "") -> Session:
        scope = await self._scope(conversation)
        session = await self.history.open_session(scope, conversation)
        session = session or await self.history.start_session(scope, conversation, system=[], today="2026-05-01")
        said = [{"type": "text", "text": "I drink tea"}]
        turned = Turned(
            lines=[
                Line(role="user", content=said, said="I drink tea"),
                Line(role="assistant", content=said, said="Ah"),
            ],
            recalled=[Recalled(name=recalls, block="", units=1, mtime=1.0)] if recalls else (),
            rules=(),
            written=[scope.memory_dir / writes] if writes else [],
            told_date="2026-05-01",
            told_notes_at=0.0,
            inbox_id=1,
        )
        async with self.database.write() as transaction:
            await self.history.add_turn(transaction, session, turned)
        return session

    async def _scope(self, conversation: str) -> Scope:
        scope = await self.scopes.of(Address.parse(conversation), ANN)
        ensure(scope)
        return scope

    async def run(self) -> None:
        """Look once, run what is due, end."""
        extractions = self.extractions()
        extractions.close()
        async with asyncio.timeout(HANGS):
            await extractions.run()

    async def due(self) -> list[DueRow]:
        async with self.database.read() as session:
            return list((await session.scalars(select(DueRow))).all())

    async def cursor(self) -> int:
        async with self.database.read() as session:
            return await session.scalar(select(SessionRow.extracted_to)) or 0

    async def told(self) -> list[str]:
        async with self.database.read() as session:
            return [row.part["unrendered"] for row in (await session.scalars(select(OutboxRow))).all()]


@pytest.fixture
def world_with(
    database: Database, outbox: Outbox, settings_of: Callable[..., Settings], now: Any
) -> Callable[..., World]:
    return lambda **environ: World(database, outbox, settings_of(**environ), now)


@pytest.fixture
def world(world_with: Callable[..., World]) -> World:
    return world_with()


@asynccontextmanager
async def extracting(world: World) -> AsyncIterator[None]:
    extractions = world.extractions()
    task = asyncio.create_task(extractions.run())
    try:
        yield
    finally:
        extractions.close()
        async with asyncio.timeout(HANGS):
            await task


def ends(outcome: Outcome) -> Act:
    async def act(_: OneFork) -> RunReport:
        return report(outcome)

    return act


async def raises(_: OneFork) -> RunReport:
    raise OSError("the disk is full")


async def saves(fork: OneFork) -> RunReport:
    file = fork.scope.memory_dir / "tea.md"
    file.write_text("---\nname: Drinks tea\ntype: user\n---\nAnn drinks tea.\n")
    return report(Outcome.COMPLETED, file)


async def test_a_finished_turn_is_extracted_once(world: World) -> None:
    await world.turn()
    await world.run()
    await world.run()
    assert len(world.forks.prompts) == 1
    assert await world.due() == []
    assert await world.cursor() == 2


async def test_a_run_during_which_something_is_forgotten_notes_no_more_and_is_done_again(
    world: World, database: Database, now: Any
) -> None:
    tea = Gone(notes=frozenset(), texts=("Ann keeps a zebra",), corpus=("Ann keeps a zebra",))

    async def forgets(fork: OneFork) -> RunReport:
        change = partial(fork.watch, fork.scope, before="", after="Ann drinks tea")
        await change(fork.scope.memory_dir / "tea.md")
        await Erasures(database, now).erase(fork.scope, messages=[], what=tea)
        with pytest.raises(WriteRefused, match="forgotten meanwhile"):
            await change(fork.scope.memory_dir / "drinks.md")
        return report()

    world.forks.script = [forgets]
    await world.turn()
    await world.run()
    assert await world.cursor() == 0
    now.forward(2)
    await world.run()
    assert len(world.forks.prompts) == 2
    assert await world.cursor() == 2


async def test_while_something_is_being_forgotten_nothing_is_run_and_all_stays_due(
    world: World, database: Database, now: Any
) -> None:
    erasures, scope = Erasures(database, now), await world._scope("telegram:42")
    tea = Gone(notes=frozenset(), texts=("Ann keeps a zebra",), corpus=("Ann keeps a zebra",))
    await world.turn()
    await erasures.begin(scope, messages=[], what=tea)
    await world.run()
    assert (world.forks.prompts, await world.cursor()) == ([], 0)
    await erasures.end(scope)
    now.forward(2)
    await world.run()
    assert len(world.forks.prompts) == 1


async def test_a_run_notes_no_description_that_was_only_recalled(world: World) -> None:
    refused: list[str] = []

    async def act(fork: OneFork) -> RunReport:
        try:
            await fork.watch(fork.scope, fork.scope.memory_dir / "new.md", before="", after="Bob breeds bees in Kiel")
        except WriteRefused as error:
            refused.append(str(error))
        return report()

    memory = (await world._scope("telegram:42")).memory_dir
    (memory / "bees.md").write_text("---\ndescription: Bob breeds bees in Kiel\n---\n")
    world.forks.script = [act]
    await world.turn(recalls="bees.md")
    await world.run()
    assert "it only stood in what was recalled" in refused[0]


async def test_what_was_saved_is_told_once(world: World) -> None:
    world.forks.script = [saves]
    await world.turn()
    await world.run()
    assert await world.told() == ["_Saved 1 memory: Drinks tea_"]


@pytest.mark.parametrize("act", [ends(Outcome.FAILED), ends(Outcome.ABORTED), ends(Outcome.TURN_CAP), raises])
async def test_what_failed_stays_due_is_not_told_and_waits_longer_each_time(world: World, now: Any, act: Act) -> None:
    await world.turn()
    world.forks.script = [act] * 3
    pauses = []
    for _ in range(3):
        await world.run()
        (due,) = await world.due()
        pauses.append(due.not_before - now().timestamp())
        await world.run()
        now.forward(pauses[-1])
    assert pauses == [5, 10, 20]
    assert (await world.cursor(), await world.told(), len(world.forks.prompts)) == (0, [], 3)
    await world.run()
    assert (await world.cursor(), await world.due()) == (2, [])


async def test_an_extraction_that_never_works_is_given_up_until_the_next_turn(world: World, now: Any) -> None:
    await world.turn()
    async with world.database.write() as session:
        await session.execute(update(DueRow).values(attempts=19))
    world.forks.script = [ends(Outcome.FAILED)]
    await world.run()
    now.forward(1e9)
    await world.run()
    assert len(world.forks.prompts) == 1
    now.forward(-1e9)
    await world.turn()
    await world.run()
    assert await world.due() == []


async def test_what_was_due_when_the_process_died_is_taken_up_by_the_next(world: World, now: Any) -> None:
    await world.turn()

    async def hang(_: OneFork) -> RunReport:
        began.set()
        await asyncio.sleep(60)
        raise AssertionError

    began = asyncio.Event()
    world.forks.script = [hang]
    task = asyncio.create_task(world.extractions().run())
    await asyncio.wait_for(began.wait(), HANGS)
    task.cancel()
    await asyncio.wait({task})
    assert len(await world.due()) == 1
    now.forward(31)
    await world.run()
    assert (await world.cursor(), await world.due()) == (2, [])


async def test_one_runs_at_a_time_per_memory_directory(world: World, now: Any) -> None:
    async def slow(_: OneFork) -> RunReport:
        await asyncio.sleep(0.1)
        return report()

    world.forks.script = [slow] * 3
    for thread in ("", "/1", "/2"):
        await world.turn(f"telegram:42{thread}")
    async with extracting(world), asyncio.timeout(HANGS):
        while await world.due():
            await asyncio.sleep(0.05)
            now.forward(1)
    assert (world.forks.most, len(world.forks.prompts)) == (1, 3)


async def test_two_replicas_do_not_extract_the_same_turn_twice(world: World, now: Any) -> None:
    async def slow(_: OneFork) -> RunReport:
        await asyncio.sleep(0.2)
        return report()

    world.forks.script = [slow, slow]
    await world.turn()
    await asyncio.gather(world.run(), world.run(), world.run())
    now.forward(2)
    await world.run()
    assert len(world.forks.prompts) == 1
    assert await world.due() == []


async def test_a_direct_write_skips_the_run_and_moves_the_cursor(world: World) -> None:
    await world.turn(writes="tea.md")
    await world.run()
    assert (world.forks.prompts, await world.due(), await world.cursor()) == ([], [], 2)


async def test_the_throttle_holds_back_until_enough_turns_or_the_sessions_end(
    world_with: Callable[..., World], now: Any
) -> None:
    world = world_with(REVERIE_MEMORY__EXTRACTION_THROTTLE="3")
    for _ in range(2):
        await world.turn()
        await world.run()
        now.forward(10)
    assert world.forks.prompts == []
    await world.turn()
    await world.run()
    assert len(world.forks.prompts) == 1
    await world.turn()
    await world.run()
    assert len(world.forks.prompts) == 1
    now.forward(9 * 3600)
    await world.history.end_silent(mode_of=await world.scopes.modes())
    await world.run()
    assert len(world.forks.prompts) == 2
    assert await world.cursor() == 8


async def test_when_extraction_is_off_nothing_is_run_and_nothing_is_passed_over(
    world_with: Callable[..., World],
) -> None:
    world = world_with(REVERIE_MEMORY__EXTRACTION_ENABLED="false")
    await world.turn()
    await world.run()
    assert (world.forks.prompts, await world.due(), await world.cursor()) == ([], [], 0)


async def test_a_chat_that_was_bound_anew_is_not_extracted_into_its_new_memory(
    world_with: Callable[..., World],
) -> None:
    await world_with().turn()
    bound = world_with(REVERIE_PROJECTS='{"tea": {"chats": ["telegram:42"]}}')
    await bound.run()
    assert (bound.forks.prompts, await bound.due()) == ([], [])


async def test_close_waits_for_a_run_that_has_begun(world: World) -> None:
    async def slow(fork: OneFork) -> RunReport:
        began.set()
        await asyncio.sleep(0.2)
        return await saves(fork)

    began = asyncio.Event()
    world.forks.script = [slow]
    await world.turn()
    async with extracting(world):
        await asyncio.wait_for(began.wait(), HANGS)
    assert await world.due() == []
    assert len(await world.told()) == 1


async def test_a_fault_whose_pause_can_not_be_stored_ends_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(due: Due, *, after: float) -> None:
        raise OSError("the database is away")

    monkeypatch.setattr(world.history, "failed_due", away)
    world.forks.script = [raises]
    await world.turn()
    await world.run()
    assert [row.attempts for row in await world.due()] == [0]
    await world.run()
    assert await world.due() == []
