"""No run takes more out of a note, in one step or in many, than somebody could have meant."""

from pathlib import Path

import pytest

from memory.doubles import LocalLeases
from memory.errors import WriteRefused
from memory.losses import Losses
from memory.notes import INDEX, Note, Notes
from memory.paths import Homes
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

SUBJECTS = ("tea milk", "boats wind", "trains rails", "snow boots", "chess clocks", "bread rye", "piano hammers")
WORDS = [f"{one} {other}" for one in SUBJECTS for other in ("ann", "bob", "carol", "dan", "eve", "fay")]


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    homes = Homes(tmp_path / "homes", settings=MemorySettings())
    return homes.scope(principal="ann", project=None, member=False, shared=False, mode=Mode.AUTO, timezone="UTC")


@pytest.fixture
def notes() -> Notes:
    return Notes(leases=LocalLeases())


def listed(facts: list[str]) -> str:
    return "".join(f"- {fact}\n" for fact in facts)


async def put(notes: Notes, scope: Scope, text: str, *, name: str = "a.md") -> Note:
    return await notes.write(scope, Path(name), text, expected="")


@pytest.mark.parametrize(
    ("facts", "left"),
    [
        (WORDS, "- all of it\n"),
        (WORDS, listed(WORDS[:24])),
        (SUBJECTS, listed([*SUBJECTS[:3]])),
        ([f"On day {number} Ann ran along the river" for number in range(9)], "- On day 1 Ann ran along the river\n"),
        ([f"{number} {word}" for number in range(30) for word in WORDS], ""),
        (["word " * 400], "- something\n"),
    ],
    ids=["nearly all", "a part of many", "most of few", "a diary", "more than is compared", "one long paragraph"],
)
async def test_a_write_or_edit_that_takes_out_more_than_a_few_facts_is_refused(
    notes: Notes, scope: Scope, facts: list[str], left: str
) -> None:
    present = await put(notes, scope, before := listed([*facts]))
    bounded = notes.watched(Losses())
    with pytest.raises(WriteRefused, match=rf"\d+ of {len(facts)} facts out of a\.md, .*`edit`; `delete`"):
        await bounded.write(scope, Path("a.md"), left, expected=present.hash)
    with pytest.raises(WriteRefused, match="`delete`"):
        await bounded.edit(scope, Path("a.md"), before, left, expected=None)
    assert present.path.read_text() == before


@pytest.mark.parametrize(
    "left",
    [
        listed([*SUBJECTS[:4], "other"]),
        listed([f"{fact} as we know by now" for fact in SUBJECTS]),
        listed([" and ".join(SUBJECTS[:3]), " and ".join(SUBJECTS[3:6]), SUBJECTS[6]]),
        listed([*reversed(SUBJECTS), *WORDS]),
    ],
    ids=["three of seven", "other words", "threes merged", "more"],
)
async def test_a_note_is_put_in_order_corrected_and_added_to(notes: Notes, scope: Scope, left: str) -> None:
    present = await put(notes, scope, listed([*SUBJECTS]))
    await notes.watched(Losses()).write(scope, Path("a.md"), left, expected=present.hash)
    assert present.path.read_text() == left


async def test_facts_that_the_run_has_put_elsewhere_before_are_not_lost(notes: Notes, scope: Scope) -> None:
    present = await put(notes, scope, listed([*SUBJECTS]))
    bounded = notes.watched(Losses())
    await put(bounded, scope, listed([*SUBJECTS[2:]]), name="b.md")
    await bounded.write(scope, Path("a.md"), listed([*SUBJECTS[:2]]), expected=present.hash)
    with pytest.raises(WriteRefused, match=r"5 of 7 facts out of a\.md"):
        await bounded.edit(scope, Path("b.md"), listed([*SUBJECTS[2:]]), "", expected=None)


async def test_many_small_changes_take_no_more_out_of_a_note_than_one(notes: Notes, scope: Scope) -> None:
    await put(notes, scope, listed([*SUBJECTS]))
    bounded = notes.watched(Losses())
    await bounded.edit(scope, Path("a.md"), listed([*SUBJECTS[:2]]), "", expected=None)
    await bounded.edit(scope, Path("a.md"), SUBJECTS[2], "other words", expected=None)
    with pytest.raises(WriteRefused, match="4 of 7"):
        await bounded.edit(scope, Path("a.md"), listed([*SUBJECTS[3:4]]), "", expected=None)
    await notes.append(scope, Path("a.md"), "- by another hand\n- and one more")
    await bounded.append(scope, Path("a.md"), "- more of the run's own")
    with pytest.raises(WriteRefused, match="4 of 9"):
        await bounded.edit(scope, Path("a.md"), "- by another hand\n", "", expected=None)


async def test_a_deletion_counts_like_a_write_of_nothing_unless_its_facts_were_put_elsewhere(
    notes: Notes, scope: Scope
) -> None:
    await put(notes, scope, listed([*SUBJECTS]))
    await put(notes, scope, listed([f"{fact} too" for fact in SUBJECTS]), name="like.md")
    bounded = notes.watched(Losses())
    await bounded.append(scope, Path("like.md"), "- more")
    with pytest.raises(WriteRefused, match="7 of 7"):
        await bounded.delete(scope, Path("a.md"), expected=None)
    await put(bounded, scope, listed([*SUBJECTS]), name="b.md")
    await bounded.delete(scope, Path("a.md"), expected=None)
    with pytest.raises(WriteRefused, match=r"7 of 7 facts out of a\.md"):
        await bounded.delete(scope, Path("b.md"), expected=None)


async def test_an_index_keeps_its_lines_to_notes_that_are_there_and_may_lose_the_others(
    notes: Notes, scope: Scope
) -> None:
    names = [f"note-{number}.md" for number in range(8)]
    for name in names[:5]:
        await put(notes, scope, "text\n", name=name)
    index = await put(notes, scope, listed([f"[{name}]({name})" for name in names]), name=INDEX)
    bounded = notes.watched(Losses())
    with pytest.raises(WriteRefused, match="5 of 5"):
        await bounded.write(scope, Path(INDEX), "# Index\n", expected=index.hash)
    await bounded.write(scope, Path(INDEX), listed([f"[{name}]({name})" for name in names[2:5]]), expected=index.hash)
    assert "note-7" not in index.path.read_text()
