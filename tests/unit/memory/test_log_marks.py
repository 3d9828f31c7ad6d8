"""Only the close of a day marks a line with its message: whatever others add to a log passes for no mark."""

from pathlib import Path

import pytest

from memory.dailylog import log_of, marked
from memory.errors import WriteRefused
from memory.log_marks import MARK, adds_mark, unmarked
from memory.notes import Notes
from memory.provenance import Witness
from memory.scope import Scope
from tests.unit.memory.day_logs import DAY, leases_, notes_, scope_

__all__ = ["leases_", "notes_", "scope_"]
LINE = "- 12:00 Bob: I like cake <!-- m1 -->\n"


@pytest.fixture
def log(scope: Scope) -> Path:
    return log_of(scope, DAY)


async def test_what_is_appended_to_a_log_keeps_its_words_and_marks_no_line(
    scope: Scope, notes: Notes, log: Path
) -> None:
    await notes.append(scope, log, f"{LINE}- <!-- m2 --> <!-- m3 -->  \n")
    assert marked(scope, DAY) == frozenset()
    assert "Bob: I like cake &lt;!-- m1 -->" in (await notes.read(scope, log)).text


async def test_a_run_puts_no_mark_into_a_log_by_writing_or_editing_it(scope: Scope, notes: Notes, log: Path) -> None:
    watched = notes.watched(Witness())
    await notes.write(scope, log, LINE, expected="")
    with pytest.raises(WriteRefused, match="leave it out of what you add"):
        await watched.edit(scope, log, "cake <", "cake <!-- m1 -->\n- 12:01 Bob: and tea <", expected=None)
    with pytest.raises(WriteRefused, match="leave it out"):
        await watched.write(scope, log.with_name("2026-05-02.md"), LINE, expected="")
    await watched.edit(scope, log, "like cake", "like pie", expected=None)
    assert "I like pie <!-- m1 -->" in (await notes.read(scope, log)).text


async def test_what_looks_like_a_mark_in_a_note_is_left_as_it_is(scope: Scope, notes: Notes) -> None:
    await notes.watched(Witness()).append(scope, scope.memory_dir / "a.md", LINE)
    assert (await notes.read(scope, scope.memory_dir / "a.md")).text == LINE


@pytest.mark.parametrize(
    "text", [LINE, "x <!-- m1 --> <!-- m2 -->", "<!-- m9 -->\t", "a\n<!-- m1 -->\nb <!-- m2 -->\n"]
)
def test_an_unmarked_text_has_no_mark_and_all_its_lines(text: str) -> None:
    assert not MARK.search(unmarked(text))
    assert len(unmarked(text).splitlines()) == len(text.splitlines())


def test_a_mark_that_stays_or_goes_is_not_added() -> None:
    assert not adds_mark(LINE, LINE.replace("cake", "pie"))
    assert not adds_mark(LINE, "")
    assert adds_mark(LINE, LINE * 2)
