"""`/agents`: what agents remember, and whose word it takes to give that for a project's newer snapshot of it."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.presses import offered, press
from tests.acceptance.whole import ANN, Speaker, Whole, whole

GROUP = Speaker(user="42", chat="-100")
GUEST = Speaker(user="43", chat="-100", name="Bob")
SETTINGS = """owners = ["telegram:42"]
[projects.garden]
root = "{root}"
chats = ["telegram:-100", "telegram:42"]
members = ["telegram:42"]
"""
OLD, NEW = "2031-01-01T00:00:00.000Z", "2031-02-01T00:00:00.000Z"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    root = tmp_path / "root"
    agents = tmp_path / "home" / "agents"
    agents.mkdir(parents=True)
    for name, memory in (("gardener", "user"), ("keeper", "project"), ("digger", "local")):
        head = f"name: {name}\ndescription: Knows {name}s\nmemory: {memory}"
        (agents / f"{name}.md").write_text(f"---\n{head}\n---\n\nWork.\n")
        snapshot = root / ".claude/agent-memory-snapshots" / name
        snapshot.mkdir(parents=True)
        (snapshot / "snapshot.json").write_text(json.dumps({"updatedAt": NEW}))
        (snapshot / "soil.md").write_text(f"The soil of {name} is sour.\n\nIts roses are yellow.\n")
    async with whole(tmp_path / "home", SETTINGS.format(root=root)) as running:
        yield running


def memory_of(running: Whole, agent: str, who: Speaker = ANN) -> Path:
    home = running.core.homes.home(who.principal)
    root = running.core.settings.projects["garden"].root
    assert root is not None
    return home / "agent-memory" / agent if agent == "gardener" else root / ".claude/agent-memory" / agent


def remembered(folder: Path, *, name: str = "mine.md", synced: str = OLD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("Roses like lime.\n")
    (folder / ".snapshot-synced.json").write_text(json.dumps({"syncedFrom": synced}))
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.md"))


async def confirmed(running: Whole, who: Speaker, agent: str) -> str:
    asked = await running.tell(who, f"/agents {agent} take")
    found = re.search(rf"/agents {agent} take (\w+)", asked)
    assert found, asked
    return await running.tell(who, f"/agents {agent} take {found[1]}")


async def test_the_list_says_who_there_is_what_they_remember_and_what_waits(running: Whole) -> None:
    remembered(memory_of(running, "gardener"))
    await running.tell(ANN, "/agents")
    await running.settled()
    told = "".join(shown.text for shown in running.adapter.shown.values())  # it takes more than one message
    assert "`gardener` Knows gardeners (memory `user`, in all projects: 1 note)" in told
    assert "`/agents gardener take`" in told
    assert "`/agents gardener keep`" in told
    assert "A snapshot of `2031-02-01T00:00:00.000Z` waits to begin with: `/agents digger take`" in told
    assert "an owner decides about it in one of the project's chats" in told
    assert "no agent `nobody`" in await running.tell(ANN, "/agents nobody take")
    assert "`/agents` lists" in await running.tell(ANN, "/agents gardener drop")


async def test_a_snapshot_takes_the_place_of_the_notes_only_after_a_look_and_a_confirmation(running: Whole) -> None:
    folder = remembered(memory_of(running, "gardener"))
    asked = await running.tell(ANN, "/agents gardener take")
    assert "These go: `mine.md`. These come: `soil.md`." in asked
    assert names(folder) == ["mine.md"]
    assert "has the notes of the snapshot now" in await confirmed(running, ANN, "gardener")
    assert names(folder) == ["soil.md"]
    assert "No snapshot waits" in await running.tell(ANN, "/agents gardener take")


async def test_a_confirmation_by_button_holds_for_what_was_shown_as_well(running: Whole) -> None:
    folder = remembered(memory_of(running, "gardener"))
    await running.tell(ANN, "/agents gardener take")
    old = await offered(running, "Take the snapshot", where=ANN)
    remembered(folder, name="just-written.md")
    assert "something has changed since" in await press(running, ANN, old)
    await press(running, ANN, await offered(running, "Take the snapshot", where=ANN))
    assert "soil.md" in names(folder)
    assert "just-written.md" not in names(folder)


async def test_a_confirmation_holds_for_what_was_shown_and_for_nothing_else(running: Whole) -> None:
    folder = remembered(memory_of(running, "gardener"))
    found = re.search(r"take (\w{4})`", await running.tell(ANN, "/agents gardener take"))
    assert found
    remembered(folder, name="just-written.md")
    for code in (found[1], "yes"):
        assert "something has changed since" in await running.tell(ANN, f"/agents gardener take {code}")
    assert names(folder) == ["just-written.md", "mine.md"]


async def test_a_snapshot_that_is_not_wanted_is_offered_no_more(running: Whole) -> None:
    folder = remembered(memory_of(running, "gardener"))
    assert "stay as they are" in await running.tell(ANN, "/agents gardener keep")
    assert names(folder) == ["mine.md"]
    assert "newer snapshot" not in await running.tell(ANN, "/agents")


async def test_a_memory_for_one_project_without_notes_begins_with_the_snapshot_at_a_word(running: Whole) -> None:
    await running.scope(ANN)
    assert "begins with the notes of the snapshot" in await running.tell(ANN, "/agents digger take")
    (folder,) = running.core.homes.home(ANN.principal).glob("projects/*/agent-memory-local/digger")
    assert names(folder) == ["soil.md"]


async def test_about_a_projects_memory_an_owner_decides_and_only_in_a_chat_of_the_project(running: Whole) -> None:
    folder = remembered(memory_of(running, "keeper"))
    for word in ("take", "keep"):
        assert "one of the project's chats" in await running.tell(ANN, f"/agents keeper {word}")
        assert "Only an owner" in await running.tell(GUEST, f"/agents keeper {word}")
    assert names(folder) == ["mine.md"]
    await confirmed(running, GROUP, "keeper")
    assert names(folder) == ["soil.md"]


async def test_a_snapshot_brings_back_nothing_that_was_forgotten(running: Whole) -> None:
    await running.remember(ANN, "The soil of gardener is sour.", name="soil")
    assert "Forgotten" in await _forgotten(running, "soil gardener sour")
    folder = remembered(memory_of(running, "gardener"))
    await confirmed(running, ANN, "gardener")
    (kept,) = folder.glob("*.md")
    assert "sour" not in kept.read_text()
    assert "roses are yellow" in kept.read_text()


async def _forgotten(running: Whole, words: str) -> str:
    await running.tell(ANN, f"/forget {words}")
    return await running.tell(ANN, "/forget all")
