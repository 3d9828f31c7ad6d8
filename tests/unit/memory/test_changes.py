import os
from pathlib import Path

import pytest

from memory.changes import Changes, changes
from memory.paths import Homes, ProjectRef, ensure
from memory.prompt import index_targets, memory_prompt, tail_note
from memory.scan import Scanner
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

NOW = 1_777_000_000.0
BEFORE, AFTER = NOW - 10, NOW + 10


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    """A member's memory, with the team's."""
    homes = Homes(root=tmp_path / "homes", settings=MemorySettings())
    made = homes.scope(
        principal="person:telegram:42",
        project=ProjectRef(name="tea"),
        member=True,
        shared=False,
        mode=Mode.AUTO,
        timezone="UTC",
    )
    ensure(made)
    return made


def put(scope: Scope, name: str, at: float, text: str = "x") -> Path:
    path = scope.memory_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


async def changed(scope: Scope, *, known: frozenset[str] = frozenset()) -> Changes:
    return changes(scope, await Scanner(limit=100).scan(scope), known=known, since=NOW)


async def test_notes_and_indexes_that_are_newer_are_named(scope: Scope) -> None:
    put(scope, "old.md", BEFORE)
    put(scope, "new.md", AFTER)
    put(scope, "MEMORY.md", AFTER)
    assert await changed(scope) == Changes(changed=("new.md", "MEMORY.md"))


@pytest.mark.parametrize(("at", "told"), [(BEFORE, ()), (AFTER, ("MEMORY.md",))])
async def test_an_index_alone_is_named_if_it_is_newer(scope: Scope, at: float, told: tuple[str, ...]) -> None:
    put(scope, "MEMORY.md", at)
    assert (await changed(scope)).changed == told


@pytest.mark.parametrize("folder", ["", "x/"])
async def test_a_known_note_that_is_gone_is_named_if_it_went_since(scope: Scope, folder: str) -> None:
    path = put(scope, f"{folder}a.md", BEFORE)
    path.unlink()
    os.utime(path.parent, (AFTER, AFTER))
    known = frozenset({f"{folder}a.md"})
    assert (await changed(scope, known=known)).gone == (f"{folder}a.md",)
    os.utime(path.parent, (BEFORE, BEFORE))
    assert (await changed(scope, known=known)).gone == ()


async def test_a_note_whose_folder_is_gone_too_is_named(scope: Scope) -> None:
    put(scope, "b.md", BEFORE)
    assert (await changed(scope, known=frozenset({"x/a.md", "b.md"}))).gone == ("x/a.md",)


async def test_the_targets_of_both_indexes_are_found_in_a_prompt_and_no_example_of_the_rules(scope: Scope) -> None:
    put(scope, "MEMORY.md", BEFORE, "- [Bees](bees.md): hives\n- [Site](https://example.org)\n")
    put(scope, "team/MEMORY.md", BEFORE, "- [Plan](plan.md): the plan\n")
    assert index_targets(await memory_prompt(scope)) == {"bees.md", "team/plan.md"}


def test_the_tail_tells_what_is_newer_and_what_is_gone() -> None:
    assert tail_note(()) == ""
    assert "`b.md`. The index above does not show that yet. There" in tail_note((), ["b.md"])
    both = tail_note(["a.md"], ["b.md"])
    assert both.index("`a.md`") < both.index("`b.md`") < both.index("read the file if it matters")
