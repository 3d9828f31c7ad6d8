"""Which note is meant by a name."""

import unicodedata
from pathlib import Path
from typing import Literal

import pytest

from memory.lookup import day_logs, holding, look_up, named, title
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
        ("length", ["answer-length.md"]),
        ("LONG should", ["answer-length.md"]),
        ("should xyz", []),
        ("train", ["trains.md", "train_fares.md"]),
        ("fares", ["train_fares.md"]),
        ("bed", ["team/beds.md"]),
        ("rink", ["tea.md"]),
        ("xyz", []),
        ("", []),
    ],
)
def test_words_of_a_name_or_how_they_begin_are_enough_and_may_fit_several(wanted: str, found: list[str]) -> None:
    assert holding(NOTES, wanted, title_of) == found


async def test_a_day_means_its_log_with_all_of_its_parts(scope: Scope) -> None:
    month = scope.memory_dir / "logs/2026/12"
    month.mkdir(parents=True)
    for stem in ("2026-12-01.10", "2026-12-01", "2026-12-02", "2026-12-01.2", "notes"):
        (month / f"{stem}.md").write_text("- 10:00 tea")
    first, second, tenth = (month / f"2026-12-01{part}.md" for part in ("", ".2", ".10"))
    assert await look_up(scope, Scanner(), "2026-12-01") == [first, second, tenth]
    assert await look_up(scope, Scanner(), "2026-12-01.2") == [second]
    assert await look_up(scope, Scanner(), "2026-12-02.md") == [month / "2026-12-02.md"]
    assert await look_up(scope, Scanner(), "2026-12-03") == []
    assert day_logs(scope) == [first, second, tenth, month / "2026-12-02.md"]


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
