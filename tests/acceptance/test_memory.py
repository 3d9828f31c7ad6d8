"""Memory end to end, beyond the numbered checks: what a crash leaves due, what stays off, log mode."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.llm.standin.request import Conversation
from tests.acceptance.extraction_runs import asked, notices
from tests.acceptance.whole import ANN, Whole, calls, extends, note, whole


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
    running.then_fork(calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea [from 1]")})), "Done.")
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


# -- recall


async def test_a_note_that_was_corrected_is_recalled_again_in_the_same_conversation_but_once(running: Whole) -> None:
    file = await running.remember(ANN, "Ann keeps a zebra")
    await running.tell(ANN, "Which animal do I keep?")
    file.write_text(note("Ann keeps an okapi"))
    for _ in range(2):
        await running.tell(ANN, "Which animal is it that I keep?")
    first, second, third = (str(request.body["messages"][-1]) for request in running.chats)
    assert ("zebra" in first, "okapi" in second, "It has changed since" in second) == (True, True, True)
    assert "okapi" not in third
    assert extends(running.chats[2], running.chats[1])


# -- log mode


async def test_in_log_mode_what_was_said_this_morning_is_in_a_log_that_can_be_read(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", '[memory]\nmemory_mode = "log"\n') as running:
        now, memory = running.core.clock(), (await running.scope(ANN)).memory_dir
        await running.tell(ANN, "I prefer answers in metric units.")
        await running.settled()
        shown = (await running.tell(ANN, "/memory")).rpartition("`/memory ")[2].partition("`")[0]
        assert "metric" in await running.tell(ANN, f"/memory {shown}")
        await running.tell(ANN, "/new")
        log = str(memory / f"logs/{now:%Y/%m/%Y-%m-%d}.md")
        running.then(calls(("read", {"file_path": log})), "That you prefer metric units.")
        assert "metric" in await running.tell(ANN, "What did I tell you this morning?")
        asked, told = (Conversation.of(request.body) for request in running.chats[-2:])
        for part in (f"{memory}/logs/YYYY/MM/YYYY-MM-DD.md", f"{now:%Y-%m-%d}", "`read` that day's log first"):
            assert part in asked.system
        assert "metric" not in str(asked.body["messages"])
        (result,) = told.body["messages"][-1]["content"]
        assert ("metric" in str(result["content"]), result.get("is_error", False)) == (True, False)


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
