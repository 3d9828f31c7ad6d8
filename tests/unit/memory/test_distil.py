from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from memory.closing import close_day
from memory.consolidation import Consolidation, Ending
from memory.dailylog import log_of, mark_processed, may_wait, waiting_logs
from memory.distil import Distil
from memory.doubles import LocalLeases
from memory.errors import LeaseLost
from memory.notes import Note, Notes
from memory.ports import UNLIMITED, Budget, Changes, Outcome, Progress, Rights, RunReport
from memory.retention import delete_old_logs
from memory.scope import Mode, Scope
from memory.settings import MemorySettings
from memory.undo import Undo
from tests.unit.memory.day_logs import DAY, NIGHT, Transcript, leases_, notes_, said, scope_

__all__ = ["leases_", "notes_", "scope_"]


class Distiller:
    """A run that reads the logs, but for those that are `unread`, and writes one note from them."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.outcome = Outcome.COMPLETED
        self.prompts: list[str] = []
        self.also: Path | None = None
        self.unread: tuple[Path, ...] = ()

    async def __call__(
        self,
        scope: Scope,
        *,
        purpose: str,
        system: str,
        prompt: str,
        rights: Rights,
        max_turns: int,
        progress: Progress | None = None,
        changes: Changes | None = None,
        budget: Budget = UNLIMITED,
    ) -> RunReport:
        self.prompts.append(prompt)
        path = scope.memory_dir / f"note{len(self.prompts)}.md"
        notes = self.notes.watched(changes) if changes else self.notes
        await notes.write(scope, path, "- Ann likes tea\n", expected="")
        if self.also is not None:
            await self.notes.append(scope, self.also, "- 23:59 late\n")
        logs = (scope.memory_dir / "logs").rglob("*.md")
        opened = tuple(log.relative_to(scope.memory_dir).as_posix() for log in logs if log not in self.unread)
        return RunReport(outcome=self.outcome, written=(path,), text="Done.", turns=1, opened=opened)


@pytest.fixture
def run(notes: Notes) -> Distiller:
    return Distiller(notes)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def distil(run: Distiller, notes: Notes, leases: LocalLeases, told: list[str]) -> Distil:
    async def notice(scope: Scope, text: str) -> None:
        told.append(text)

    def clock() -> datetime:
        return NIGHT

    settings = MemorySettings()
    consolidation = Consolidation(run, notes=notes, leases=leases, notice=notice, settings=settings, clock=clock)
    return Distil(consolidation, settings=settings, clock=clock)


async def logs(scope: Scope, notes: Notes, *days: int) -> list[Path]:
    paths = [log_of(scope, date(2026, 5, day)) for day in days]
    for path in paths:
        await notes.append(scope, path, "- 12:00 Ann: I like tea")
    return paths


async def test_past_logs_are_distilled_once_and_stay_read_only(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller, told: list[str]
) -> None:
    first, second, today = await logs(scope, notes, 1, 2, 3)
    result = await distil(scope)
    assert result.ending is Ending.CHANGED
    [prompt] = run.prompts
    assert "consolidation" in prompt
    assert f"Memory directory: {scope.memory_dir}\n" in prompt
    assert prompt.index(str(first)) < prompt.index(str(second))
    assert str(today) not in prompt
    assert [path.stat().st_mode & 0o777 for path in (first, second, today)] == [0o400, 0o400, 0o600]
    assert "(today is 2026-05-03)" in prompt
    assert told == ["Sorted 2 day logs into memory"]
    assert (await distil(scope)).reason == "no log waits"
    assert len(run.prompts) == 1


async def test_what_comes_late_for_a_distilled_day_waits_in_a_further_part_of_it(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller
) -> None:
    [path] = await logs(scope, notes, 1)
    await distil(scope)
    before = path.read_text()
    history = Transcript(said(1, "2026-05-01T10:00:00+00:00", "late"))
    assert await close_day(scope, DAY, history=history, notes=notes) == 1
    assert await close_day(scope, DAY, history=history, notes=notes) == 0
    assert path.read_text() == before
    assert may_wait(scope, NIGHT)
    await distil(scope)
    assert f"- {path.with_name('2026-05-01.2.md')}\n" in run.prompts[-1]
    assert not may_wait(scope, NIGHT)
    assert (await distil(scope)).reason == "no log waits"


async def test_a_day_that_the_night_takes_up_while_it_is_closed_loses_nothing(scope: Scope, notes: Notes) -> None:
    [path] = await logs(scope, notes, 1)

    class Overtaken(Notes):
        async def write(self, scope: Scope, path: Path, text: str, *, expected: str | None) -> Note:
            mark_processed(scope, waiting_logs(scope, NIGHT))
            return await super().write(scope, path, text, expected=expected)

    history = Transcript(said(1, "2026-05-01T10:00:00+00:00", "late"))
    assert await close_day(scope, DAY, history=history, notes=Overtaken(leases=LocalLeases())) == 1
    assert "late" not in path.read_text()
    assert [log.path.name for log in waiting_logs(scope, NIGHT)] == ["2026-05-01.2.md"]


async def test_a_day_that_was_distilled_and_deleted_is_not_written_anew(
    scope: Scope, notes: Notes, distil: Distil
) -> None:
    [path] = await logs(scope, notes, 1)
    await distil(scope)
    path.unlink()
    history = Transcript(said(1, "2026-05-01T10:00:00+00:00", "late"))
    assert await close_day(scope, DAY, history=history, notes=notes) == 0
    assert not list(path.parent.iterdir())


async def test_a_log_that_is_not_utf8_is_distilled_from_the_prompt_and_processed(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller
) -> None:
    [path] = await logs(scope, notes, 1)
    path.write_bytes(b"- caf\xe9 at noon\n")
    assert (await distil(scope)).ending is Ending.CHANGED
    assert "2026-05-01.md is not valid UTF-8" in run.prompts[0]
    assert "- caf\N{REPLACEMENT CHARACTER} at noon" in run.prompts[0]
    assert path.stat().st_mode & 0o777 == 0o400
    assert (await distil(scope)).reason == "no log waits"


@pytest.mark.parametrize(
    "large", [b"- a line" * 160_000, b"- a line" * 600_000, b"- caf\xe9" * 10_000], ids=["1-MiB", "4-MiB", "not-utf8"]
)
async def test_a_log_that_is_too_large_waits_and_that_is_said(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller, large: bytes
) -> None:
    path, other = await logs(scope, notes, 1, 2)
    path.write_bytes(large)
    done = await distil(scope)
    assert done.ending is Ending.CHANGED
    assert done.reason.startswith("left out as too large: 2026-05-01.md (at most 1024 KiB")
    assert str(path) not in run.prompts[0]
    assert [each.stat().st_mode & 0o777 for each in (path, other)] == [0o600, 0o400]
    assert (await distil(scope)).reason.startswith("no log waits; left out")


async def test_after_a_failure_the_same_logs_wait_and_the_notes_are_as_before(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller, told: list[str]
) -> None:
    [path] = await logs(scope, notes, 1)
    run.outcome = Outcome.FAILED
    assert (await distil(scope)).ending is Ending.FAILED
    assert [log.path for log in waiting_logs(scope, NIGHT)] == [path]
    assert not list(scope.memory_dir.glob("note*.md"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert told == []


async def test_a_run_that_opens_no_log_has_failed_and_the_logs_wait_as_long_as_that_goes_on(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller, leases: LocalLeases
) -> None:
    run.unread = tuple(await logs(scope, notes, 1, 2))
    for _ in range(2):
        done = await distil(scope)
        assert (done.ending, done.reason) == (Ending.FAILED, "it opened none of the day logs, so they wait")
    assert [log.path for log in waiting_logs(scope, NIGHT)] == [*run.unread]
    assert not list(scope.memory_dir.glob("note*.md"))
    assert await delete_old_logs(scope, keep_days=1, now=NIGHT + timedelta(days=99), leases=leases, seconds=1) == 0


async def test_only_the_logs_that_were_opened_count_as_sorted_and_how_many_were_not_is_said(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller, told: list[str]
) -> None:
    first, second = await logs(scope, notes, 1, 2)
    run.unread = (first,)
    done = await distil(scope)
    assert (done.ending, done.reason) == (Ending.CHANGED, "1 of 2 day logs not opened: left for the next night")
    assert told == ["Sorted 1 day log into memory"]
    assert [log.path for log in waiting_logs(scope, NIGHT)] == [first]
    assert second.stat().st_mode & 0o777 == 0o400


async def test_a_log_that_grew_while_it_was_distilled_waits_for_the_next_night(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller
) -> None:
    first, second = await logs(scope, notes, 1, 2)
    run.also = second
    await distil(scope)
    assert [log.path for log in waiting_logs(scope, NIGHT)] == [second]
    assert first.stat().st_mode & 0o777 == 0o400


async def test_what_waits_is_distilled_also_after_log_mode_was_switched_off(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller
) -> None:
    auto = replace(scope, mode=Mode.AUTO)
    assert (await distil(auto)).ending is Ending.GATED
    [path, _] = await logs(scope, notes, 1, 3)
    assert may_wait(auto, NIGHT)
    assert (await distil(auto)).ending is Ending.CHANGED
    assert path.stat().st_mode & 0o777 == 0o400
    assert not may_wait(auto, NIGHT)  # the other is today's
    assert (await distil(auto)).ending is Ending.GATED
    assert len(run.prompts) == 1


async def test_an_extraction_that_adds_to_a_log_while_log_mode_is_switched_off_loses_nothing(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller
) -> None:
    [path] = await logs(scope, notes, 1)
    run.also = path
    assert (await distil(replace(scope, mode=Mode.AUTO))).ending is Ending.CHANGED
    assert "late" in path.read_text()
    assert may_wait(scope, NIGHT)


async def test_only_old_logs_that_are_distilled_as_they_stand_are_deleted(
    scope: Scope, notes: Notes, distil: Distil, leases: LocalLeases
) -> None:
    old, changed, edge = await logs(scope, notes, 1, 2, 3)
    mark_processed(scope, [*waiting_logs(scope, NIGHT + timedelta(days=9))])
    changed.chmod(0o600)
    changed.write_text("- by hand\n")
    [waiting] = await logs(scope, notes, 4)
    forget = partial(delete_old_logs, scope, keep_days=5, leases=leases, seconds=1)
    async with leases.hold(f"dream:{scope.memory_dir}", seconds=30, wait=0):
        with pytest.raises(LeaseLost):
            await forget(now=NIGHT + timedelta(days=5))
    assert await forget(now=NIGHT + timedelta(days=5)) == 1
    assert [path.exists() for path in (old, changed, edge, waiting)] == [False, True, True, True]
    assert await forget(now=NIGHT + timedelta(days=90)) == 1
    assert [path.exists() for path in (changed, edge, waiting)] == [True, False, True]


async def test_distilling_and_dreaming_exclude_each_other(
    scope: Scope, notes: Notes, distil: Distil, leases: LocalLeases
) -> None:
    await logs(scope, notes, 1)
    async with leases.hold(f"dream:{scope.memory_dir}", seconds=30, wait=0):
        assert (await distil(scope)).ending is Ending.BUSY


@pytest.fixture
def undo(notes: Notes, leases: LocalLeases) -> Undo:
    return Undo(notes=notes, leases=leases, settings=MemorySettings(), clock=lambda: NIGHT)


async def test_logs_whose_notes_are_taken_back_wait_for_the_night_again(
    scope: Scope, notes: Notes, distil: Distil, run: Distiller, undo: Undo
) -> None:
    [path] = await logs(scope, notes, 1)
    await distil(scope)
    assert (await undo(scope)).restored.back == (scope.memory_dir / "note1.md",)
    assert [log.path for log in waiting_logs(scope, NIGHT)] == [path]
    assert path.stat().st_mode & 0o777 == 0o600
    assert (await distil(scope)).ending is Ending.CHANGED
    assert str(path) in run.prompts[-1]


async def test_what_came_of_logs_that_are_gone_by_now_is_not_taken_back(
    scope: Scope, notes: Notes, distil: Distil, leases: LocalLeases, undo: Undo
) -> None:
    await logs(scope, notes, 1)
    await distil(scope)
    await delete_old_logs(scope, keep_days=5, now=NIGHT + timedelta(days=9), leases=leases, seconds=1)
    assert (await undo(scope)).logs_gone
    assert (scope.memory_dir / "note1.md").exists()


async def test_logs_are_marked_later_if_the_night_was_cut_off_right_before(
    scope: Scope, notes: Notes, distil: Distil, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        raise OSError("no space left on device")

    await logs(scope, notes, 1)
    with monkeypatch.context() as patched:
        patched.setattr("memory.settling.mark_processed", cut_off)
        assert (await distil(scope)).ending is Ending.CHANGED
    assert may_wait(scope, NIGHT)
    assert (await distil(scope)).reason == "no log waits"
    assert not may_wait(scope, NIGHT)
