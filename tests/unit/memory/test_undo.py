"""Taking the last dream back: what others have changed since stays, and nothing is taken back twice."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.consolidation import Ending
from memory.dream import Gate
from memory.ports import Outcome
from memory.scope import Scope
from memory.stamp import last_consolidated
from tests.unit.memory.dreams import Night, ScriptedRun, tidy


@pytest.fixture
async def night(tmp_path: Path) -> Night:
    """Return a night after a dream that has moved two facts to another note."""
    night = Night(tmp_path)
    night.run.script = tidy
    assert (await night.dream(night.scope)).ending is Ending.CHANGED
    night.run.script = None
    return night


def names(paths: tuple[Path, ...]) -> list[str]:
    return [path.name for path in paths]


async def test_everything_is_as_before_but_for_the_time_of_the_last_dream(night: Night) -> None:
    result = await night.undo(night.scope)
    assert names(result.restored.back) == ["a.md", "b.md", "MEMORY.md"]
    assert night.texts() == {
        "a.md": "- one fact about tea\n- another fact about trains\n- a third fact about Kiel\n",
        "MEMORY.md": "- [A](a.md) — tea\n",
    }
    assert last_consolidated(night.directory) == night.now
    assert night.meter.values("dreams_undone") == [1]


async def test_a_dream_is_taken_back_once_and_the_next_one_can_be_again(night: Night) -> None:
    assert (await night.undo(night.scope)).found
    assert not (await night.undo(night.scope)).found
    night.now = datetime(2026, 5, 6, tzinfo=UTC)
    night.run.script = tidy
    await night.dream(night.scope)
    assert (await night.undo(night.scope)).found


async def test_dreams_that_changed_nothing_or_were_not_kept_do_not_hide_the_one_that_did(night: Night) -> None:
    for outcome in (Outcome.COMPLETED, Outcome.FAILED):
        night.run.outcome = outcome
        await night.dream(night.scope, forced=True)
    assert names((await night.undo(night.scope)).restored.back) == ["a.md", "b.md", "MEMORY.md"]


async def test_what_was_added_since_is_merged_and_what_was_rewritten_is_left(night: Night) -> None:
    with (night.directory / "a.md").open("a") as note:
        note.write("- a fourth fact about bees\n")
    night.put("b.md", "- all new\n")
    result = await night.undo(night.scope)
    assert (names(result.restored.merged), names(result.restored.left)) == (["a.md", "MEMORY.md"], ["b.md"])
    assert night.texts()["a.md"].endswith("- a third fact about Kiel\n- a fourth fact about bees\n")
    assert night.texts()["b.md"] == "- all new\n"
    assert "(b.md)" in night.texts()["MEMORY.md"]


async def test_while_something_is_saved_or_forgotten_nothing_is_undone(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.undo._WAIT_SECONDS", 0.01)
    before = night.texts()
    async with night.leases.hold(f"extract:{night.directory}", seconds=30, wait=0):
        assert (await night.undo(night.scope)).busy
    async with night.leases.hold(f"dream:{night.directory}", seconds=30, wait=0):
        assert (await night.undo(night.scope)).busy
    assert night.texts() == before


async def test_the_patch_shows_what_the_dream_changed_and_nothing_after_an_undo(night: Night) -> None:
    patch = await night.undo.diff(night.scope)
    assert "--- a/a.md\n+++ b/a.md\n" in patch
    assert "--- /dev/null\n+++ b/b.md\n" in patch
    assert "-- a third fact about Kiel\n" in patch
    assert "+- a third fact about Kiel\n" in patch
    await night.undo(night.scope)
    assert await night.undo.diff(night.scope) == ""


# -- what a dream tells of itself


async def test_survival_is_measured_kept_and_told(night: Night) -> None:
    standing = await night.dream.standing(night.scope)
    assert standing.record is not None
    survival = standing.record.survival
    assert survival is not None
    assert (survival.facts_before, survival.facts_kept, survival.share) == (3, 3, 1.0)
    assert (survival.notes_before, survival.notes_after) == (1, 2)
    assert survival.bytes_after > survival.bytes_before > 0
    assert night.meter.values("dream_survival_ratio") == [1.0]
    assert night.meter.values("dream_facts") == [3, 0]


async def test_a_dream_that_an_older_version_recorded_can_still_be_taken_back(night: Night) -> None:
    (kept,) = night.directory.with_name(".memory-dreams").glob("*/record.json")
    record = json.loads(kept.read_text())
    assert record.keys() == {"files", "survival", "undone_at", "settling", "settled"}
    more = {"purpose": "dream", "ending": "changed", "ended_at": "2026-05-02 03:00:00+00:00"}
    kept.write_text(json.dumps({**record, **more, "survival": {**record["survival"], "facts_after": 3}}))
    standing = await night.dream.standing(night.scope)
    assert standing.record is not None
    assert (standing.record.files, standing.record.survival is not None) == (record["files"], True)
    assert (await night.undo(night.scope)).found


async def test_standing_says_what_is_missing_and_leaves_no_tick_throttled(night: Night) -> None:
    night.history.sittings = 3
    assert (await night.dream.standing(night.scope)).gate is Gate.TOO_SOON
    night.now = datetime(2026, 5, 5, tzinfo=UTC)
    standing = await night.dream.standing(night.scope)
    assert (standing.gate, standing.sittings, standing.enough) == (Gate.TOO_FEW_SITTINGS, 3, 5)
    assert await night.dream.due(night.scope) is Gate.TOO_FEW_SITTINGS


async def test_how_far_a_dream_is_can_be_seen_and_it_can_be_stopped_even_at_its_very_end(night: Night) -> None:
    before, seen = night.texts(), list[str]()

    async def stopped(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "c.md", "- merged\n")
        underway = await night.dream.underway(scope)
        assert underway is not None
        seen.append(f"{underway.phase} {underway.turn} {underway.files}")
        assert await night.dream.stop(scope)

    night.run.script = stopped
    result = await night.dream(night.scope, forced=True)
    assert (result.ending, result.reason) == (Ending.STOPPED, "it was stopped")
    assert (seen, night.texts()) == (["updating 1 1"], before)
    assert night.told == ["Improved 3 memories"]
    assert await night.dream.underway(night.scope) is None
    assert not await night.dream.stop(night.scope)


async def test_without_tokens_no_dream_begins(night: Night) -> None:
    async def none_left(spent: int) -> bool:
        return False

    night.budget, asked = none_left, len(night.run.prompts)
    result = await night.dream(night.scope, forced=True)
    assert (result.ending, len(night.run.prompts)) == (Ending.SPENT, asked)
