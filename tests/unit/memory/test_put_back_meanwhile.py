"""What comes into a note while a dream rewrites it stays when the dream is put back, by an undo or at its end."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from memory.ports import Outcome
from memory.scope import Scope
from tests.unit.memory.dreams import Night, ScriptedRun

OLD = "- one fact about tea\n- another fact about trains\n- a third fact about Kiel\n"
BEES = "- a fourth fact about bees\n"
Says = Callable[[str, str], Awaitable[None]]


@pytest.fixture(params=["undone", "aborted"])
def ends(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def night(tmp_path: Path, ends: str) -> Night:
    night = Night(tmp_path)
    night.run.outcome = Outcome.COMPLETED if ends == "undone" else Outcome.FAILED
    return night


async def said(night: Night, name: str, text: str) -> None:
    """Let an extraction put a fact into a note."""
    await night.notes.append(night.scope, night.directory / name, text)


async def back(night: Night, script: Callable[[ScriptedRun, Scope], Awaitable[None]]) -> dict[str, str]:
    """Dream so, have it put back, and return the texts."""
    night.run.script = script
    await night.dream(night.scope, forced=True)
    if night.run.outcome is Outcome.COMPLETED:
        assert (await night.undo(night.scope)).found
    return night.texts()


async def test_what_came_in_before_the_dream_wrote_the_note_stays_in_it(night: Night) -> None:
    async def dreamt(run: ScriptedRun, scope: Scope) -> None:
        await said(night, "a.md", BEES)
        await run.write(scope, "b.md", f"{BEES}- another fact about trains\n")
        await run.write(scope, "a.md", "- one fact about tea\n- a third fact about Kiel\n")

    assert await back(night, dreamt) == {"a.md": OLD + BEES, "MEMORY.md": "- [A](a.md) — tea\n"}


async def test_what_came_in_between_two_writes_of_the_dream_stays_in_it(night: Night) -> None:
    async def dreamt(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "a.md", OLD.replace("fact about tea", "fact about green tea"))
        await said(night, "a.md", BEES)
        await run.write(scope, "a.md", OLD.replace("about tea", "about green tea") + BEES.replace("fact", "new fact"))

    assert (await back(night, dreamt))["a.md"] == OLD + BEES


async def test_a_note_that_came_in_and_was_merged_away_stands_again_with_its_line(night: Night) -> None:
    async def dreamt(run: ScriptedRun, scope: Scope) -> None:
        await said(night, "c.md", BEES)
        await said(night, "MEMORY.md", "- [C](c.md) — bees\n")
        await run.write(scope, "a.md", OLD + BEES)
        await run.delete(scope, "c.md")
        await run.write(scope, "MEMORY.md", "- [A](a.md) — tea, bees\n")

    there = await back(night, dreamt)
    assert (there["a.md"], there["c.md"]) == (OLD, BEES)
    assert there["MEMORY.md"] == "- [A](a.md) — tea\n- [C](c.md) — bees\n"


async def test_what_came_in_with_another_heading_stays_as_well(night: Night) -> None:
    headed = f"---\ntype: user\n---\n{OLD.replace('one fact', 'a fact')}{BEES}"

    async def dreamt(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "a.md", OLD.replace("one fact", "a fact"))
        note = await night.notes.read(scope, night.directory / "a.md")
        await night.notes.write(scope, note.path, headed, expected=note.hash)
        await run.write(scope, "a.md", f"{OLD}- bees are a fact\n")

    assert (await back(night, dreamt))["a.md"] == OLD + BEES


async def test_what_others_took_out_while_the_dream_wrote_does_not_come_back(night: Night) -> None:
    async def dreamt(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "a.md", OLD + "- tea is hot\n")
        await night.notes.edit(scope, night.directory / "a.md", "- a third fact about Kiel\n", "", expected=None)
        await run.write(scope, "a.md", "- one fact about tea, and it is hot\n- another fact about trains\n")

    assert "Kiel" not in (await back(night, dreamt))["a.md"]
