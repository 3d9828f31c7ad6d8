"""Taking over the snapshot of an agent's memory that a project keeps."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from memory.agent_memory import agent_scope
from memory.agent_snapshots import SYNCED, SnapshotCheck, Snapshots, SnapshotState
from memory.agents import Agent, AgentMemory
from memory.doubles import LocalLeases
from memory.errors import LeaseLost, WriteRefused
from memory.notes import Notes
from memory.paths import ensure
from memory.provenance import fact_hash
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

OLD, NEW = "2031-01-01T00:00:00.000Z", "2031-02-01T00:00:00.000Z"
SETTINGS = MemorySettings(lease_wait=0.05)


def agent(memory: AgentMemory = AgentMemory.USER) -> Agent:
    return Agent(name="reviewer", description="d", prompt="p", memory=memory)


class World:
    """A project with a snapshot, and one agent's memory."""

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.home = base / "home"
        self.leases = LocalLeases()
        self.forgotten = frozenset[str]()
        notes = Notes(leases=self.leases, settings=SETTINGS)
        self.snapshots = Snapshots(notes, self.leases, SETTINGS, forgotten=self.forgotten_in)
        directory = self.home / "homes/ann/projects/tea/memory"
        self.scope = Scope(
            principal="ann", project="tea", memory_dir=directory, team_dir=None, mode=Mode.AUTO, shared=False,
            enabled=True, timezone="UTC", readable=(directory, self.root), writable=(directory,),
            project_root=self.root,
        )  # fmt: skip
        self.memory = self.memory_of(agent())

    async def forgotten_in(self, scope: Scope) -> frozenset[str]:
        return self.forgotten

    def memory_of(self, of: Agent) -> Scope:
        memory = agent_scope(self.scope, of, home=self.home)
        assert ensure(memory)
        return memory

    def snapshot(self, metadata: object = None, **files: str) -> None:
        folder = self.root / ".claude/agent-memory-snapshots/reviewer"
        folder.mkdir(parents=True, exist_ok=True)
        text = metadata if isinstance(metadata, str) else json.dumps(metadata or {"updatedAt": NEW})
        (folder / "snapshot.json").write_text(text)
        for name, content in files.items():
            (folder / f"{name}.md").write_text(content)

    def local(self, name: str, text: str) -> None:
        (self.memory.memory_dir / name).write_text(text)

    def synced(self, at: str) -> None:
        self.local(SYNCED, json.dumps({"syncedFrom": at}))

    def held(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.memory.memory_dir.glob("*.md")}

    async def check(self) -> SnapshotCheck:
        return await self.snapshots.check(self.memory, agent())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


@pytest.mark.parametrize("metadata", ["{", "[]", "null", "{}", '{"updatedAt": 3}', '{"updatedAt": ""}', "[" * 5000])
async def test_without_readable_metadata_there_is_no_snapshot(world: World, metadata: str) -> None:
    assert (await world.check()).state is SnapshotState.NONE
    world.snapshot(metadata, a="x")
    assert (await world.check()).state is SnapshotState.NONE


async def test_a_memory_without_notes_is_to_be_initialised_whatever_was_synced(world: World) -> None:
    world.snapshot({"updatedAt": "some day"}, a="x")
    world.synced(NEW)
    world.local("b.txt", "no note")
    assert await world.check() == SnapshotCheck(state=SnapshotState.INITIALISE, updated_at="some day")


@pytest.mark.parametrize(
    ("updated_at", "synced", "state"),
    [
        (NEW, "", SnapshotState.OFFER),
        (NEW, OLD, SnapshotState.OFFER),
        (NEW, NEW, SnapshotState.NONE),
        (OLD, NEW, SnapshotState.NONE),
        ("2031-02-01", "2031-01-31T23:00:00-02:00", SnapshotState.NONE),
        ("some day", OLD, SnapshotState.NONE),
        (NEW, "some day", SnapshotState.NONE),
    ],
)
async def test_a_newer_snapshot_is_offered(world: World, updated_at: str, synced: str, state: SnapshotState) -> None:
    world.snapshot({"updatedAt": updated_at})
    world.local("a.md", "mine")
    if synced:
        world.synced(synced)
    assert (await world.check()).state is state


async def test_initialising_copies_the_notes_at_the_top_and_records_it(world: World) -> None:
    world.snapshot(a="A", MEMORY="- [A](a.md)")
    folder = world.root / ".claude/agent-memory-snapshots/reviewer"
    (folder / "sub").mkdir()
    (folder / "sub/b.md").write_text("B")
    (folder / "link.md").symlink_to("/etc/hostname")
    (folder / "latin.md").write_bytes(b"\xe9")
    await world.snapshots.initialise(world.memory, agent(), await world.check())
    assert world.held() == {"a.md": "A", "MEMORY.md": "- [A](a.md)"}
    assert json.loads((world.memory.memory_dir / SYNCED).read_text()) == {"syncedFrom": NEW}
    assert (await world.check()).state is SnapshotState.NONE


async def test_initialising_overwrites_nothing(world: World) -> None:
    world.snapshot(a="theirs", b="B")
    found = await world.check()
    world.local("a.md", "mine, just written")
    await world.snapshots.initialise(world.memory, agent(), found)
    assert world.held() == {"a.md": "mine, just written", "b.md": "B"}


async def test_replacing_leaves_the_snapshots_notes_only(world: World) -> None:
    world.snapshot(a="theirs", b="B")
    for name, text in (("a.md", "mine"), ("old.md", "old"), ("MEMORY.md", "- [Old](old.md)"), ("kept.txt", "k")):
        world.local(name, text)
    (world.memory.memory_dir / "sub").mkdir()
    world.local("sub/c.md", "c")
    await world.snapshots.replace(world.memory, agent(), await world.check())
    assert world.held() == {"a.md": "theirs", "b.md": "B", "MEMORY.md": ""}
    assert (world.memory.memory_dir / "sub/c.md").read_text() == "c"
    assert (world.memory.memory_dir / "kept.txt").exists()


async def test_keeping_only_records_that_the_snapshot_was_seen(world: World) -> None:
    world.snapshot(a="theirs")
    world.local("a.md", "mine")
    await world.snapshots.keep(world.memory, await world.check())
    assert world.held() == {"a.md": "mine"}
    assert (await world.check()).state is SnapshotState.NONE


async def test_only_user_memory_is_initialised_without_asking(world: World) -> None:
    world.snapshot(a="A")
    for kind in (AgentMemory.LOCAL, AgentMemory.PROJECT):
        other = agent(kind)
        assert not await world.snapshots.prepare(world.memory_of(other), other)
    assert world.held() == {}
    assert await world.snapshots.prepare(world.memory, agent())
    assert world.held() == {"a.md": "A"}
    assert not await world.snapshots.prepare(world.memory, agent())


async def test_a_memory_that_is_only_read_takes_no_snapshot(world: World) -> None:
    world.snapshot(a="A")
    memory = world.memory_of(agent(AgentMemory.PROJECT))
    found = await world.check()
    for act in (world.snapshots.initialise, world.snapshots.replace):
        with pytest.raises(WriteRefused):
            await act(memory, agent(), found)
    with pytest.raises(WriteRefused):
        await world.snapshots.keep(memory, found)
    assert not (memory.memory_dir / SYNCED).exists()


async def test_snapshots_wait_for_the_lease_of_the_directory(world: World) -> None:
    world.snapshot(a="A")
    found = await world.check()
    async with world.leases.hold(f"memory:{world.memory.memory_dir}", seconds=1, wait=0):
        with pytest.raises(LeaseLost):
            await world.snapshots.initialise(world.memory, agent(), found)
        assert not await world.snapshots.prepare(world.memory, agent())
    assert world.held() == {}


async def test_a_snapshot_behind_a_link_is_none(world: World, tmp_path: Path) -> None:
    world.snapshot(a="A")
    folder = world.root / ".claude/agent-memory-snapshots"
    os.rename(folder, tmp_path / "elsewhere")  # noqa: PTH104
    folder.symlink_to(tmp_path / "elsewhere")
    assert (await world.check()).state is SnapshotState.NONE


async def test_a_file_larger_than_a_note_may_be_is_passed_over(world: World) -> None:
    world.snapshot(a="A", large="x" * (SETTINGS.write_max_bytes + 1))
    await world.snapshots.initialise(world.memory, agent(), await world.check())
    assert world.held() == {"a.md": "A"}


async def test_a_note_whose_counterpart_cant_be_taken_over_stays_as_it_is(world: World) -> None:
    world.snapshot(a="A", large="x" * (SETTINGS.write_max_bytes + 1))
    world.local("large.md", "mine")
    await world.snapshots.replace(world.memory, agent(), await world.check())
    assert (world.memory.memory_dir / "large.md").read_text() == "mine"
    assert (world.memory.memory_dir / "a.md").read_text() == "A"


async def test_a_note_that_is_no_text_goes_with_the_others_that_the_snapshot_takes_the_place_of(world: World) -> None:
    world.snapshot(a="A")
    (world.memory.memory_dir / "latin.md").write_bytes(b"\xe9")
    await world.snapshots.replace(world.memory, agent(), await world.check())
    assert world.held() == {"a.md": "A"}


async def test_a_snapshot_that_is_gone_takes_no_note_along(world: World) -> None:
    world.snapshot()
    world.local("a.md", "mine")
    found = await world.check()
    shutil.rmtree(world.root)
    for memory in (world.memory, replace(world.memory, project_root=None)):
        with pytest.raises(WriteRefused, match="read"):
            await world.snapshots.replace(memory, agent(), found)
    assert world.held() == {"a.md": "mine"}
    assert (await world.snapshots.check(replace(world.memory, project_root=None), agent())).state is SnapshotState.NONE


async def test_a_record_that_cant_be_written_is_an_error_and_stops_no_agent(world: World) -> None:
    world.snapshot(a="A")
    (world.memory.memory_dir / SYNCED).mkdir()
    with pytest.raises(WriteRefused, match="record"):
        await world.snapshots.keep(world.memory, await world.check())
    assert not await world.snapshots.prepare(world.memory, agent())
    assert world.held() == {"a.md": "A"}


async def test_what_was_forgotten_is_taken_out_of_what_a_snapshot_brings(world: World) -> None:
    world.snapshot(
        a="- Ann keeps bees\n- roses like lime\n", b="Ann keeps bees", MEMORY="- [Bees](b.md)\n- [A](a.md)\n"
    )
    world.local("a.md", "mine")
    world.local("b.md", "mine")
    world.forgotten = frozenset({fact_hash("Ann keeps bees")})
    await world.snapshots.replace(world.memory, agent(), await world.check())
    assert "bees" not in "".join(world.held().values()).lower()
    assert "roses like lime" in world.held()["a.md"]
    assert "b.md" not in world.held()


async def test_what_is_forgotten_while_a_snapshot_is_read_is_not_written_any_more(world: World) -> None:
    world.snapshot(a="Ann keeps bees", b="Roses like lime")
    calls = iter([frozenset[str]()])
    world.forgotten = frozenset({fact_hash("Ann keeps bees")})

    async def late(scope: Scope) -> frozenset[str]:
        return next(calls, world.forgotten)

    snapshots = Snapshots(Notes(leases=world.leases, settings=SETTINGS), world.leases, SETTINGS, forgotten=late)
    assert await snapshots.initialise(world.memory, agent(), await world.check()) == ["a.md"]
    assert world.held() == {"b.md": "Roses like lime"}
