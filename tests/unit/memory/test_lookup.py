"""Which note is meant by a name."""

import unicodedata
from pathlib import Path
from typing import Literal

import pytest

from memory.lookup import beginning, look_up, named, title
from memory.scan import Scanner
from memory.scope import Mode, Scope

NOTES = {
    "tea.md": "Drinks",
    "answer-length.md": "How long answers should be",
    "team/beds.md": "Beds",
    "trains.md": "Early train",
    "train_fares.md": "",
}


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    directory = tmp_path.resolve() / "memory"
    (directory / "logs").mkdir(parents=True)
    return Scope(
        principal="ann", project="", memory_dir=directory, team_dir=None, mode=Mode.AUTO, shared=False,
        enabled=True, timezone="UTC", readable=(directory,), writable=(directory,),
    )  # fmt: skip


def title_of(name: str) -> str:
    return NOTES[name]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("tea.md", ["tea.md"]),
        ("tea", ["tea.md"]),
        ("TEA", ["tea.md"]),
        ("Answer length", ["answer-length.md"]),
        ("answer_length.MD", ["answer-length.md"]),
        ("how LONG answers  should be", ["answer-length.md"]),
        ("team/beds", ["team/beds.md"]),
        ("beds", ["team/beds.md"]),
        ("early train", ["trains.md"]),
        ("train", []),
        ("", []),
        ("-", []),
    ],
)
def test_a_name_is_a_files_or_a_title_however_it_is_written(wanted: str, found: list[str]) -> None:
    assert named(NOTES, wanted, title_of) == found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("how long", ["answer-length.md"]),
        ("ans", ["answer-length.md"]),
        ("train", ["trains.md", "train_fares.md"]),
        ("bed", ["team/beds.md"]),
        ("xyz", []),
        ("", []),
    ],
)
def test_the_beginning_of_a_name_is_enough_and_may_fit_several(wanted: str, found: list[str]) -> None:
    assert beginning(NOTES, wanted, title_of) == found


def test_the_exact_file_goes_before_others_that_are_called_alike() -> None:
    notes = {"Tea.md": "", "tea.md": "", "other.md": "tea"}
    assert named(notes, "tea", notes.__getitem__) == ["tea.md"]
    assert named(notes, "TEA", notes.__getitem__) == ["Tea.md", "tea.md"]
    assert named({"other.md": "tea"}, "tea", lambda _: "Tea") == ["other.md"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_the_unicode_form_does_not_count(form: Literal["NFC", "NFD"]) -> None:
    written = unicodedata.normalize("NFD", "Café Möbius")
    assert named({"x.md": written}, unicodedata.normalize(form, "café möbius"), lambda _: written) == ["x.md"]


async def test_a_lookup_reads_titles_and_finds_indexes_and_logs_by_their_path(scope: Scope) -> None:
    directory = scope.memory_dir
    for name, words in (("a.md", "---\nname: Green tea\n---\n\ntext"), ("memory-of-x.md", "x"), ("MEMORY.md", "-")):
        (directory / name).write_text(words)
    (directory / "logs/today.md").write_text("- 10:00 tea")
    expected = (("green TEA", "a.md"), ("gre", "a.md"), ("MEMORY", "MEMORY.md"), ("logs/today", "logs/today.md"))
    for wanted, found in expected:
        assert await look_up(scope, Scanner(), wanted) == [directory / found]
    assert await look_up(scope, Scanner(), "../memory") == []


@pytest.mark.parametrize("text", ["", "no head", "---\nname:\n---\n", "---\n[broken\n---\n"])
def test_a_note_without_a_title_has_none(text: str) -> None:
    assert title(text) == ""
