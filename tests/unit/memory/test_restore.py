"""Putting back costs no fact: what a note has lost since, or can't be given back now, stands somewhere all the time."""

import errno
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory.consolidation import Ending
from memory.disk import Folder
from memory.errors import WriteRefused
from memory.facts import facts
from memory.journal import unfinished
from memory.ports import Outcome
from memory.scope import Scope
from tests.unit.memory.dreams import Night, ScriptedRun, tidy

HEAD = "---\nname: a\ndescription: tea\n---\n\n"
TEA, TRAINS, KIEL = "one fact about tea", "another fact about trains", "a third fact about Kiel"
BEFORE = f"{HEAD}- {TEA}\n- {TRAINS}\n- {KIEL}\n"


@pytest.fixture
def night(tmp_path: Path) -> Night:
    night = Night(tmp_path)
    night.put("a.md", BEFORE)
    return night


def standing(night: Night) -> list[str]:
    """Return every fact of every note, each as often as it stands."""
    return sorted(fact for name, text in night.texts().items() if name != "MEMORY.md" for fact in facts(text))


async def moved(run: ScriptedRun, scope: Scope) -> None:
    await tidy(run, scope)
    await run.write(scope, "a.md", f"{HEAD}- {TEA}\n")


def described_anew(folder: Path) -> None:
    (folder / "a.md").write_text(f"{HEAD.replace('description: tea', 'description: drinks')}- {TEA}\n")


def renamed(folder: Path) -> None:
    (folder / "a.md").rename(folder / "tea.md")


def deleted(folder: Path) -> None:
    (folder / "a.md").unlink()


@pytest.mark.parametrize(
    ("since", "kept"),
    [(described_anew, [KIEL, TRAINS, TEA]), (renamed, [KIEL, TRAINS, TEA]), (deleted, [KIEL, TRAINS])],
)
async def test_an_undo_keeps_what_the_dream_moved_out_of_a_note_that_has_changed_since(
    night: Night, since: Callable[[Path], None], kept: list[str]
) -> None:
    night.run.script = moved
    await night.dream(night.scope)
    since(night.directory)
    restored = (await night.undo(night.scope)).restored
    assert standing(night) == sorted(kept)
    assert "b.md" not in night.texts()
    assert len(restored.beside) == 1
    assert f"({restored.beside[0].name})" in night.texts()["MEMORY.md"]
    assert "(b.md)" not in night.texts()["MEMORY.md"]


async def test_an_undo_that_failed_in_part_can_be_repeated_and_leaves_one_copy(night: Night) -> None:
    night.run.script = moved
    await night.dream(night.scope)
    described_anew(night.directory)
    new = night.directory / "b.md"
    new.chmod(0o400)
    assert (await night.undo(night.scope)).restored.failed == (new, night.scope.index)
    new.chmod(0o600)
    assert (await night.undo(night.scope)).restored.failed == ()
    assert standing(night) == sorted([KIEL, TRAINS, TEA])
    assert not (await night.undo(night.scope)).found


async def test_what_was_moved_into_an_older_note_is_kept_as_well(night: Night) -> None:
    night.put("old.md", "- a fact about boats\n")

    async def merge(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "old.md", f"- a fact about boats\n- {TRAINS}\n- {KIEL}\n")
        await run.write(scope, "a.md", f"{HEAD}- {TEA}\n")

    async def meanwhile(run: ScriptedRun, scope: Scope) -> None:
        await merge(run, scope)
        described_anew(night.directory)

    night.run.script, night.run.outcome = meanwhile, Outcome.FAILED
    assert (await night.dream(night.scope)).ending is Ending.FAILED
    assert night.texts()["old.md"] == "- a fact about boats\n"
    assert standing(night) == sorted([KIEL, TRAINS, TEA, "a fact about boats"])


async def test_what_somebody_added_to_the_index_since_stays(night: Night) -> None:
    night.run.script = moved
    await night.dream(night.scope)
    with night.scope.index.open("a") as index:
        index.write("- no sugar, ever\n")
    await night.undo(night.scope)
    assert night.texts()["MEMORY.md"] == "- [A](a.md) — tea\n- no sugar, ever\n"


async def test_an_undo_names_what_is_back_and_of_all_else_the_reason(
    night: Night, disk_full: Callable[[str], None]
) -> None:
    night.put("c.md", "- a fact about boats\n")

    async def both(run: ScriptedRun, scope: Scope) -> None:
        await moved(run, scope)
        await run.write(scope, "c.md", "- boats, a fact about them\n")

    night.run.script = both
    await night.dream(night.scope)
    disk_full("a.md")
    restored = (await night.undo(night.scope)).restored
    assert [path.name for path in restored.back] == ["c.md"]
    assert {path.name: reason for path, reason in restored.reasons.items()} == {
        "a.md": "the file can't be written: No space left on device",
        "b.md": "it goes once the others are back",
        "MEMORY.md": "it names notes that are not put back yet",
    }
    disk_full("")
    restored = (await night.undo(night.scope)).restored
    assert [path.name for path in restored.back] == ["a.md", "b.md", "c.md", "MEMORY.md"]
    assert restored.reasons == {}


async def test_why_a_note_is_not_back_tells_no_folder(tmp_path: Path) -> None:
    night = Night(tmp_path, lease_wait=0)
    night.run.script = tidy
    await night.dream(night.scope)
    async with night.leases.hold(f"memory:{night.directory}", seconds=30, wait=0):
        restored = (await night.undo(night.scope)).restored
    assert restored.reasons[night.directory / "a.md"] == "memory is being written just now"


# -- what can't be put back now


@pytest.fixture
def disk_full(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what lets every replacement of the file of a name fail; of "", none."""
    full, replace = [""], Folder.replace

    def replaced(self: Folder, name: str, data: bytes, **given: Any) -> int:
        if name == full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, name, data, **given)

    def of(name: str) -> None:
        full[0] = name

    monkeypatch.setattr(Folder, "replace", replaced)
    return of


async def half_back(night: Night, disk_full: Callable[[str], None]) -> None:
    async def then_full(run: ScriptedRun, scope: Scope) -> None:
        await moved(run, scope)
        disk_full("a.md")

    night.run.script, night.run.outcome = then_full, Outcome.FAILED
    result = await night.dream(night.scope)
    assert (result.ending, result.half_back) == (Ending.FAILED, True)
    night.run.script, night.run.outcome = None, Outcome.COMPLETED


async def test_where_a_note_cant_be_put_back_what_it_lost_stays_in_the_new_one(
    night: Night, disk_full: Callable[[str], None]
) -> None:
    await half_back(night, disk_full)
    assert standing(night) == sorted([KIEL, TRAINS, TEA])
    assert len(unfinished(night.scope)) == 1
    assert (await night.dream.standing(night.scope)).half_back
    assert night.told == []


async def test_it_is_tried_again_until_all_is_back_and_nothing_else_is_dreamt_or_undone_before(
    night: Night, disk_full: Callable[[str], None]
) -> None:
    before = night.state()
    await half_back(night, disk_full)
    assert await night.dream.recover(night.scope) is False
    assert (await night.dream(night.scope, forced=True)).ending is Ending.GATED
    assert (await night.undo(night.scope)).busy
    assert night.told == []
    disk_full("")
    assert await night.dream.recover(night.scope)
    assert (night.state(), unfinished(night.scope)) == (before, [])
    assert not (await night.dream.standing(night.scope)).half_back


async def test_a_new_note_that_is_read_only_meanwhile_is_tried_again(night: Night) -> None:
    before = night.state()

    async def then_locked(run: ScriptedRun, scope: Scope) -> None:
        await moved(run, scope)
        (night.directory / "b.md").chmod(0o400)

    night.run.script, night.run.outcome = then_locked, Outcome.FAILED
    assert (await night.dream(night.scope)).half_back
    (night.directory / "b.md").chmod(0o600)
    assert await night.dream.recover(night.scope)
    assert night.state() == before


async def test_notes_that_have_exchanged_facts_are_put_back(night: Night) -> None:
    night.put("c.md", "- a fact about boats\n")
    before = night.state()

    async def exchange(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "c.md", f"- {TEA}\n- {TRAINS}\n- {KIEL}\n")
        await run.write(scope, "a.md", f"{HEAD}- a fact about boats\n")

    night.run.script, night.run.outcome = exchange, Outcome.FAILED
    assert not (await night.dream(night.scope)).half_back
    assert night.state() == before


async def test_a_note_whose_place_is_taken_by_something_else_is_kept_beside(night: Night) -> None:
    night.run.script = moved
    await night.dream(night.scope)
    (night.directory / "a.md").unlink()
    os.mkfifo(night.directory / "a.md")
    restored = (await night.undo(night.scope)).restored
    [beside] = restored.beside
    assert beside.name.startswith("a.before-")
    assert facts(beside.read_text()) == [TRAINS, KIEL]


async def test_a_note_that_says_all_in_its_description_is_kept_beside_as_well(night: Night) -> None:
    night.put("a.md", "---\nname: a\ndescription: Ann takes the ferry\n---\n")

    async def merge(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "b.md", "- Ann takes the ferry\n")
        await run.delete(scope, "a.md")

    night.run.script = merge
    await night.dream(night.scope)
    night.put("a.md", "- a fact about apples\n")
    await night.undo(night.scope)
    assert any("Ann takes the ferry" in text for name, text in night.texts().items() if name != "MEMORY.md")
    assert "b.md" not in night.texts()


async def test_a_note_is_put_back_byte_by_byte_and_with_its_mode(night: Night) -> None:
    path, data = night.directory / "a.md", f"\ufeff- {TEA}\r\n- {TRAINS}\r\n- {KIEL}\r\n".encode()
    path.write_bytes(data)
    path.chmod(0o644)

    async def rewrite(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "a.md", f"- {TEA}\n")

    night.run.script, night.run.outcome = rewrite, Outcome.FAILED
    await night.dream(night.scope)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o644


# -- names and bytes that nobody would be let write


NAMES = {"backslash": "a\\b.md", "decomposed": "nai\u0308ve.md", "tilde": "~todo.md", "deep": "x\\y/nai\u0308ve.md"}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.COMPLETED])
async def test_a_note_gets_the_very_name_back_that_it_had(tmp_path: Path, name: str, outcome: Outcome) -> None:
    night = Night(tmp_path, dream_max_removed=1)
    composed = unicodedata.normalize("NFC", name)
    for each in (composed, name):
        night.put(each, f"- a fact of its own in {len(each)}\n")
    before = night.state()

    async def delete(run: ScriptedRun, scope: Scope) -> None:
        await run.delete(scope, name)

    night.run.script, night.run.outcome = delete, outcome
    done = await night.dream(night.scope)
    restored = (await night.undo(night.scope)).restored
    assert (done.half_back, restored.failed) == (False, ())
    assert night.state().items() >= before.items()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
async def test_a_note_that_a_dream_has_deleted_is_undone_to_the_byte(tmp_path: Path, encoding: str) -> None:
    night = Night(tmp_path, dream_max_removed=1)
    path, data = night.directory / "cafe.md", "- Meets René at the café\n".encode(encoding)
    path.write_bytes(data)

    async def delete(run: ScriptedRun, scope: Scope) -> None:
        await run.delete(scope, "cafe.md")

    night.run.script = delete
    assert (await night.dream(night.scope)).ending is Ending.CHANGED
    assert not path.exists()
    await night.undo(night.scope)
    assert path.read_bytes() == data


async def test_a_note_that_is_no_text_is_not_a_dreams_to_delete_as_it_could_not_be_put_back(night: Night) -> None:
    path, data, refused = night.directory / "cafe.md", b"- Meets Ren\xe9\n", list[str]()
    path.write_bytes(data)

    async def delete(run: ScriptedRun, scope: Scope) -> None:
        try:
            await run.delete(scope, "cafe.md")
        except WriteRefused as error:
            refused.append(str(error))

    night.run.script, night.run.outcome = delete, Outcome.FAILED
    await night.dream(night.scope)
    assert refused == ["the file is not UTF-8 text, so it could not be put back: leave it as it is"]
    assert path.read_bytes() == data


async def test_a_file_that_is_no_text_and_stands_in_the_place_of_a_note_is_named_as_the_reason(night: Night) -> None:
    async def merge(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "b.md", BEFORE)
        await run.delete(scope, "a.md")

    night.run.script = merge
    await night.dream(night.scope)
    (night.directory / "a.md").write_bytes(b"caf\xe9")
    restored = (await night.undo(night.scope)).restored
    reason = "a file that is no UTF-8 text is in its place by now: move that away"
    assert restored.reasons[night.directory / "a.md"] == reason
    assert (night.directory / "a.md").read_bytes() == b"caf\xe9"
    assert (night.directory / "b.md").read_text() == BEFORE
