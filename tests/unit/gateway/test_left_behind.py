"""Notes whose project has another folder by now are not passed over in silence."""

from pathlib import Path

import pytest

from gateway.checks.finding import Status
from gateway.checks.memories import check_memories
from gateway.settings import ProjectSettings, Settings
from tests.acceptance.whole import note


def settings(home: Path, **projects: ProjectSettings) -> Settings:
    return Settings(home=home, projects=projects)


def put(home: Path, folder: str) -> Path:
    place = home / "homes" / "ann" / "projects" / folder
    (place / "memory").mkdir(parents=True)
    (place / "memory" / "a.md").write_text(note("a fact"))
    return place


def test_a_project_that_was_given_a_root_is_named_with_where_its_notes_belong(tmp_path: Path) -> None:
    old = put(tmp_path, "garden")
    [found] = check_memories(settings(tmp_path, garden=ProjectSettings(root=tmp_path / "work", repo="a/b")))
    assert found.status is Status.WARN
    assert f"{old} has 1 note that nothing reads any more: garden has a root or a repo by now" in found.finding
    assert f"move it to {old.parent}/" in found.cure


@pytest.mark.parametrize("folder", ["_chat", "garden"])
def test_a_folder_of_a_declared_project_or_of_none_is_well(tmp_path: Path, folder: str) -> None:
    put(tmp_path, folder)
    [found] = check_memories(settings(tmp_path, garden=ProjectSettings(repo="a/b")))
    assert found.status is Status.OK
