"""Memory end to end, beyond the numbered checks: what a crash leaves due, what stays off, log mode."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.extraction_runs import asked, notices
from tests.acceptance.whole import ANN, Clock, Whole, calls, extends, note, whole


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home") as running:
        yield running


async def test_what_was_due_when_the_process_died_is_extracted_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: object) -> tuple[int, ...]:
        return ()

    with monkeypatch.context() as patch:
        patch.setattr("gateway.extraction.Extractions._due", nothing)
        async with whole(tmp_path / "home") as before:
            await before.tell(ANN, "I prefer answers in metric units.")
        assert before.forks == []
    async with whole(tmp_path / "home") as after:
        await after.settled()
        assert asked(after) == ["2 messages"]
        assert any("metric" in path.read_text() for path in (await after.scope(ANN)).memory_dir.glob("*.md"))
        await after.tell(ANN, "Thank you so much.")
        await after.settled()
        assert asked(after) == ["2 messages"] * 2


async def test_only_new_topic_notes_are_told(running: Whole) -> None:
    index = calls(("write", {"file_path": "MEMORY.md", "content": "- [Tea](tea.md): what Ann drinks\n"}))
    running.then_fork(index, "Done.")
    await running.tell(ANN, "First of all, hello.")
    await running.settled()
    assert notices(running) == []
    running.then_fork(calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea")})), "Done.")
    await running.tell(ANN, "The second thing.")
    await running.settled()
    assert notices(running) == ["_Saved 1 memory: note_"]


# -- off


@pytest.mark.parametrize(
    ("toml", "bare_mode"), [("", True), ("[memory]\nauto_memory_enabled = false\n", False)], ids=["bare", "off"]
)
async def test_without_memory_nothing_is_read_asked_written_or_synced(
    tmp_path: Path, toml: str, bare_mode: bool
) -> None:
    async with whole(tmp_path / "home") as before:  # the session begins with memory on
        file = await before.remember(ANN, "Ann keeps a zebra")
        await before.tell(ANN, "Hello there, which animal do I keep?")
        await before.settled()
    listing = sorted(file.parent.rglob("*"))
    async with whole(tmp_path / "home", toml, bare_mode=bare_mode) as running:
        running.then(calls(("read", {"file_path": str(file)}), ("grep", {"pattern": "zebra"})), "I see nothing.")
        await running.tell(ANN, "Which animal is it that I keep?")
        assert "off" in await running.tell(ANN, "/memory")
        assert "Memory: off" in await running.tell(ANN, "/status")
        await running.settled()
        ran = [await running.core.night.clock.run_now(job) for job in ("dream", "team-sync", "close-day", "distil")]
        assert (running.recalls, running.forks, ran) == ([], [], [[]] * 4)
        assert len(running.chats[0].body["system"]) == 1
        assert "Ann keeps" not in str([request.body for request in running.model.requests])
    assert sorted(file.parent.rglob("*")) == listing


# -- log mode


async def test_in_log_mode_each_day_has_its_file_and_the_prefix_survives_midnight(tmp_path: Path) -> None:
    clock = Clock()
    midnight = datetime.combine(clock().date(), datetime.max.time(), tzinfo=UTC)
    clock.ahead = midnight - datetime.now(UTC)
    clock.forward(seconds=-45)
    async with whole(tmp_path / "home", '[memory]\nmemory_mode = "log"\n', clock=clock) as running:
        await running.tell(ANN, "I prefer answers in metric units.")
        await running.settled()
        clock.forward(minutes=2)
        await running.tell(ANN, "I live in Kiel.")
        await running.settled()
        memory = (await running.scope(ANN)).memory_dir
        days = [memory / f"logs/{day:%Y/%m/%Y-%m-%d}.md" for day in (midnight, clock())]
        assert ["metric" in day.read_text() for day in days] == [True, False]
        assert ["Kiel" in day.read_text() for day in days] == [False, True]
        first, second = running.chats
        assert extends(second, first)
        assert str(second.body["messages"][-1]).count("The date has changed") == 1
        assert not (memory / "MEMORY.md").exists()


async def test_a_fork_in_log_mode_may_only_add_to_todays_log(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", '[memory]\nmemory_mode = "log"\n') as running:
        memory = (await running.scope(ANN)).memory_dir
        today = memory / f"logs/{running.core.clock():%Y/%m/%Y-%m-%d}.md"
        tries = calls(
            ("append", {"file_path": str(today), "content": "- 10:00 Ann drinks tea"}),
            ("append", {"file_path": str(today.with_name("2020-01-01.md")), "content": "- earlier"}),
            ("append", {"file_path": "notes.md", "content": "- elsewhere"}),
            ("write", {"file_path": str(today), "content": "all new"}),
            ("edit", {"file_path": str(today), "old_string": "tea", "new_string": "coffee"}),
            ("delete", {"file_path": str(today)}),
        )
        running.then_fork(tries, "Done.")
        await running.tell(ANN, "I drink tea.")
        await running.settled()
        results = running.forks[1].body["messages"][-1]["content"]
        assert [bool(result.get("is_error")) for result in results] == [False, *[True] * 5]
        assert today.read_text() == "- 10:00 Ann drinks tea\n"
        assert sorted(path.name for path in memory.rglob("*.md")) == [today.name]
