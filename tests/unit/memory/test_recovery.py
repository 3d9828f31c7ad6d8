"""A dream that was killed leaves no trace: whoever comes next puts back what it wrote, and nothing of others."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.consolidation import Ending
from memory.disk import Folder
from memory.journal import Journal, unfinished
from memory.ports import Outcome
from memory.rewind import with_changes
from memory.scope import Scope
from memory.snapshot import take
from tests.unit.memory.dreams import Night, ScriptedRun, tidy

_ROOT = Path(__file__).parents[3]
_WITH_COMPANY = {
    "a.md": "- one fact about tea\n- another fact about trains\n- a third fact about Kiel\n- just said by Ann\n",
    "old.md": "- another fact about trains\n",
    "c.md": "- just said by Ann\n",
    "MEMORY.md": "- [A](a.md) — tea\n- [Old](old.md) — trains\n- [C](c.md) — said\n",
}
_DREAMT = {
    "a.md": "- one fact about tea\n- just said by Ann\n",
    "b.md": "- another fact about trains\n- a third fact about Kiel\n",
    "c.md": "- just said by Ann\n",
    "MEMORY.md": "- [A](a.md) — tea\n- [B](b.md) — trains, Kiel\n- [C](c.md) — said\n",
}


@pytest.fixture
def night(tmp_path: Path) -> Night:
    return Night(tmp_path)


@pytest.mark.parametrize(("outcome", "ends"), [("completed", [_WITH_COMPANY, _DREAMT]), ("failed", [_WITH_COMPANY])])
def test_whenever_a_dream_is_killed_the_notes_are_as_before_with_what_others_said(
    tmp_path: Path, outcome: str, ends: list[dict[str, str]]
) -> None:
    command = [sys.executable, "-m", "tests.unit.memory.killed", str(tmp_path), outcome]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) > 10
    assert [each for each in found if each["texts"] not in ends or each["left"]] == []
    assert all(any(each["texts"] == end for each in found) for end in ends)


async def half_done(night: Night) -> Journal:
    """Leave what a dream leaves that is killed after its writes."""
    journal = Journal(night.scope, take(night.scope, night.now - timedelta(hours=1)).folder)
    journal.begin()
    for name, text in (("b.md", "- merged\n"), ("a.md", "- one fact about tea\n")):
        journal.note(night.directory / name, text)
        night.put(name, text)
    return journal


async def test_the_next_dream_finds_what_was_before(night: Night) -> None:
    before = night.state()
    await half_done(night)
    seen: list[dict[str, tuple[str, int]]] = []

    async def look(run: ScriptedRun, scope: Scope) -> None:
        seen.append(night.state())

    night.run.script = look
    assert (await night.dream(night.scope)).ending is Ending.UNCHANGED
    assert seen == [before]
    assert night.told == ["Putting memory in order was cut off; the notes are as they were before."]


async def test_a_dream_that_is_alive_is_not_recovered_from(night: Night) -> None:
    recovered: list[bool] = []

    async def meanwhile(run: ScriptedRun, scope: Scope) -> None:
        await tidy(run, scope)
        recovered.append(await night.dream.recover(scope))

    night.run.script = meanwhile
    assert (await night.dream(night.scope)).ending is Ending.CHANGED
    assert recovered == [False]
    assert "b.md" in night.texts()


async def test_what_somebody_wrote_anew_after_the_kill_is_left_and_the_snapshot_kept(night: Night) -> None:
    journal = await half_done(night)
    night.put("a.md", "---\nname: mine\n---\n- all new\n")
    assert await night.dream.recover(night.scope)
    assert night.texts()["a.md"] == "---\nname: mine\n---\n- all new\n"
    assert "b.md" not in night.texts()
    assert "trains" in (journal.folder / "before" / "a.md").read_text()
    assert unfinished(night.scope) == []


async def test_a_kill_before_the_run_began_leaves_nothing_to_do(night: Night) -> None:
    before = night.state()
    take(night.scope, night.now)
    assert await night.dream.recover(night.scope) is False
    assert (night.state(), unfinished(night.scope), night.told) == (before, [], [])


async def test_neither_a_name_nor_a_word_stands_in_the_journal(night: Night) -> None:
    journal = await half_done(night)
    kept = (journal.folder / "journal").read_text()
    assert not any(word in kept for word in ("a.md", "b.md", "merged", "tea"))


async def test_a_holder_whose_lease_was_taken_over_writes_nothing_more(night: Night) -> None:
    before = night.texts()

    async def too_late(run: ScriptedRun, scope: Scope) -> None:
        night.leases.take_over(f"dream:{scope.memory_dir}")
        await tidy(run, scope)

    night.run.script = too_late
    assert (await night.dream(night.scope)).ending is Ending.BUSY
    assert night.texts() == before


async def test_an_index_that_there_was_none_before_is_gone_again(night: Night) -> None:
    night.scope.index.unlink()
    before = night.state()
    night.run.script, night.run.outcome = tidy, Outcome.FAILED
    await night.dream(night.scope)
    assert night.state() == before


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.COMPLETED])
async def test_after_every_bad_end_nothing_is_left_unfinished(night: Night, outcome: Outcome) -> None:
    before = night.state()
    night.run.script, night.run.outcome = tidy, outcome
    assert not (await night.dream(night.scope)).ending.good
    assert (night.state(), unfinished(night.scope)) == (before, [])


@pytest.mark.parametrize(
    ("theirs", "wanted"),
    [
        ("- b\n- c\n- new\n", "- a\n- b\n- new\n"),
        ("- c\n", "- a\n"),
        ("- b\n", None),
        ("---\nname: x\n---\n- b\n- c\n", None),
    ],
    ids=["added", "removed", "removed-what-is-not-there", "another-header"],
)
def test_changes_of_others_are_taken_over_where_that_is_safe(theirs: str, wanted: str | None) -> None:
    assert with_changes("- a\n- b\n", base="- b\n- c\n", theirs=theirs) == wanted


async def test_what_is_forgotten_while_a_dream_is_put_back_does_not_come_back(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await half_done(night)
    replace = Folder.replace

    def forgotten_meanwhile(self: Folder, name: str, data: bytes, **given: Any) -> int:
        kept = journal.folder / "before" / "a.md"
        kept.write_text(kept.read_text().replace("- another fact about trains\n", ""))
        return replace(self, name, data, **given)

    monkeypatch.setattr(Folder, "replace", forgotten_meanwhile)
    assert await night.dream.recover(night.scope)
    assert night.texts()["a.md"] == "- one fact about tea\n- a third fact about Kiel\n"
