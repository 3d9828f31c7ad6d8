"""The gateway's own files and directories, which no project's root opens to anybody's tools."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.checks.finding import Status
from gateway.checks.store import check_database
from gateway.settings import ProjectSettings, Settings, load
from gateway.tools.toolbox import Toolbox
from memory.doubles import LocalLeases
from memory.notes import Notes
from memory.paths import Homes, ProjectRef, ensure
from memory.ports import Clock, Rights
from memory.scope import Mode, Scope

SECRET = "Ann keeps a zebrafish"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a checkout that has the gateway's database in it, and a note of an agent's."""
    top = tmp_path / "app"
    for file in ("data/reverie.db", "data/reverie.db-wal", ".claude/agent-memory/gardener/beds.md", "plan.md"):
        (top / file).parent.mkdir(parents=True, exist_ok=True)
        (top / file).write_text(f"{SECRET}\n")
    return top


@pytest.fixture
def settings(tmp_path: Path, root: Path) -> Settings:
    (tmp_path / "home").mkdir()
    return load({
        "REVERIE_HOME": str(tmp_path / "home"),
        "REVERIE_MANAGED_DIR": str(tmp_path / "managed"),
        "DATABASE_URL": f"sqlite+aiosqlite:///{root}/data/reverie.db?timeout=5",
    })  # fmt: skip


@pytest.fixture
def scope(settings: Settings, root: Path) -> Scope:
    homes = Homes(settings.memory_base / "homes", settings=settings.memory, kept=settings.own_paths)
    project = ProjectRef(name="garden", root=root)
    scope = homes.scope(principal="ann", project=project, member=True, shared=True, mode=Mode.AUTO, timezone="UTC")
    ensure(scope)
    return scope


@pytest.fixture
def box_of(now: Clock) -> Callable[[Scope], Toolbox]:
    def make(scope: Scope) -> Toolbox:
        return Toolbox(scope, Rights(read=scope.readable, write=()), Notes(leases=LocalLeases()), now)

    return make


async def test_the_database_in_a_projects_root_is_neither_read_nor_searched_nor_listed(
    box_of: Callable[[Scope], Toolbox], scope: Scope, root: Path
) -> None:
    box = box_of(scope)
    for file in ("reverie.db", "reverie.db-wal"):
        assert (await box.call("read", {"file_path": f"{root}/data/{file}"})).is_error
        assert (await box.call("grep", {"pattern": "zebra", "path": f"{root}/data/{file}"})).is_error
    found = await box.call("grep", {"pattern": "zebra", "path": str(root)})
    assert found.content == f"{root}/plan.md:1:{SECRET}"
    listed = await box.call("glob", {"pattern": "**/*", "path": str(root)})
    assert "plan.md" in listed.content
    assert "reverie.db" not in listed.content


async def test_where_memory_is_off_no_tool_shows_what_agents_keep_in_the_project(
    box_of: Callable[[Scope], Toolbox], scope: Scope, root: Path
) -> None:
    box, folder = box_of(replace(scope, enabled=False)), f"{root}/.claude"
    assert (await box.call("read", {"file_path": f"{folder}/agent-memory/gardener/beds.md"})).is_error
    assert (await box.call("grep", {"pattern": "zebra", "path": f"{folder}/agent-memory"})).is_error
    assert (await box.call("grep", {"pattern": "zebra", "path": folder})).content == "no matches"
    assert "beds" not in (await box.call("glob", {"pattern": "**/*", "path": folder})).content
    assert SECRET in (await box.call("read", {"file_path": f"{root}/plan.md"})).content


def test_every_place_of_the_gateways_own_is_named(settings: Settings, root: Path, tmp_path: Path) -> None:
    elsewhere = settings.model_copy(update={"cache": tmp_path / "cache", "remote_memory_dir": tmp_path / "memory"})
    own = {tmp_path / name for name in ("home", "memory", "managed", "cache", "app/data/reverie.db")}
    assert set(elsewhere.own_paths) == own
    usual = settings.model_copy(update={"database_url": ""})
    assert tmp_path / "home/reverie.db" in usual.own_paths
    server = settings.model_copy(update={"database_url": "postgresql+asyncpg://reverie:pass@db/reverie"})
    assert set(server.own_paths) == {tmp_path / "home", tmp_path / "managed"}


async def test_doctor_names_a_root_that_the_database_lies_in_and_one_that_counts_as_none(
    settings: Settings, root: Path, tmp_path: Path
) -> None:
    roots = {"garden": root, "all": tmp_path, "own": root / ".claude"}
    projects = {name: ProjectSettings(root=place) for name, place in roots.items()}
    (root / "data/reverie.db").unlink()
    found = await check_database(settings.model_copy(update={"projects": projects}))
    told = [each.finding for each in found if each.status is Status.WARN]
    assert len(told) == 2
    assert f"{root}/data/reverie.db lies in the root of garden" in told[0]
    assert "the root counts as none" in told[1]
    assert "the root of all" in told[1]
