"""What changes in a memory behind a session's frozen prompt is told at the tail, once."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.llm.standin.answers import Answer
from tests.acceptance.whole import ANN, Clock, Whole, calls, note, until, whole

GONE = "These notes are no more"
CHANGED = "These notes were saved or changed"


@pytest.fixture
async def running(tmp_path: Path, clock: Clock) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home", clock=clock) as running:
        yield running


def newest(running: Whole) -> str:
    """Return the text of the newest message of the newest chat request."""
    return str(running.chats[-1].body["messages"][-1])


def later(path: Path, clock: Clock) -> None:
    """Give a file or folder a time that no session can have told of yet."""
    stamp = clock().timestamp() + 0.001
    os.utime(path, (stamp, stamp))


async def test_a_note_that_was_deleted_by_hand_is_told_once(running: Whole, clock: Clock) -> None:
    path = await running.remember(ANN, "Ann keeps bees", name="bees")
    await running.tell(ANN, "Hello there, my friend.")
    path.unlink()
    later(path.parent, clock)
    await running.tell(ANN, "And what is new today?")
    assert f"{GONE}, so don't rely on them: `bees.md`" in newest(running)
    await running.tell(ANN, "Anything else to say?")
    assert GONE not in newest(running)


async def test_an_index_that_was_edited_by_hand_is_told_also_in_log_mode(tmp_path: Path, clock: Clock) -> None:
    async with whole(tmp_path / "home", '[memory]\nmemory_mode = "log"\n', clock=clock) as running:
        path = await running.remember(ANN, "Ann keeps bees", name="bees")
        await running.tell(ANN, "Hello there, my friend.")
        index = path.parent / "MEMORY.md"
        index.write_text("- [Goats](goats.md): Ann keeps goats\n")
        later(index, clock)
        await running.tell(ANN, "And what is new today?")
        assert f"{CHANGED} since this conversation began: `MEMORY.md`" in newest(running)
        await running.tell(ANN, "Anything else to say?")
        assert CHANGED not in newest(running)


async def test_a_note_that_the_model_has_read_is_not_recalled_again_until_it_changes(
    running: Whole, clock: Clock
) -> None:
    await running.tell(ANN, "Hello there, my friend.")
    path = await running.remember(ANN, "Ann keeps zebras", name="zebra")
    running.then(calls(("read", {"file_path": "zebra.md"})), Answer(text="I see."))
    await running.tell(ANN, "Look into your notes.")
    await running.tell(ANN, "What about the zebras I keep?")
    assert "Memory note" not in newest(running)
    path.write_text(note("Ann keeps two zebras"))
    later(path, clock)
    await running.tell(ANN, "How many zebras do I keep?")
    assert "Ann keeps two zebras" in newest(running)


async def test_a_note_that_the_model_opened_is_told_as_opened_and_never_as_recalled(running: Whole) -> None:
    await running.remember(ANN, "Ann keeps zebras", name="zebra")
    running.then(calls(("read", {"file_path": "zebra.md"})), Answer(text="I see."))
    await running.tell(ANN, "Look.")
    assert "Opened by me for it:" in await running.tell(ANN, "/why")
    await running.tell(ANN, "Thanks.")
    assert "zebra.md" not in await running.tell(ANN, "/why")


async def test_a_stopped_turn_is_extracted_with_the_next_one(running: Whole) -> None:
    running.then(Answer(text="word " * 3000, chunk_delay=0.05))
    inbound = ANN.says("I moved to Oslo in spring.")
    await running.gateway.intake.put(inbound)
    await until(lambda: _begun(running), "no answer was begun")
    await running.gateway.intake.put(ANN.says("/stop"))
    await until(lambda: _answered(running, inbound.message_id), "no word came")
    await running.settled()
    assert running.forks == []
    await running.tell(ANN, "And I like it there.")
    await running.settled()
    assert "4 messages" in str(running.forks[0].body["messages"][-1])


async def _begun(running: Whole) -> bool:
    return bool(running.chats)


async def _answered(running: Whole, message_id: str) -> bool:
    return any(each.reply_to == message_id for each in running.adapter.shown.values())


async def test_in_remote_mode_memory_lies_in_the_directory_that_is_named_and_nothing_runs_by_itself(
    tmp_path: Path,
) -> None:
    base = tmp_path / "stays"
    environ = {"REVERIE_REMOTE": "1", "REVERIE_REMOTE_MEMORY_DIR": str(base)}
    async with whole(tmp_path / "home", environ=environ) as running:
        write = calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea")}))
        running.then(write, Answer(text="Noted."))
        await running.tell(ANN, "Remember that I drink tea.")
        await running.tell(ANN, "And I live in Kiel.")
        await running.settled()
        scope = await running.scope(ANN)
        assert scope.memory_dir.is_relative_to(base / "homes")
        assert (scope.memory_dir / "tea.md").is_file()
        assert running.forks == []
        assert not running.core.settings.memory.auto_dream_enabled


async def test_in_remote_mode_without_a_directory_there_is_no_memory(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", environ={"REVERIE_REMOTE": "1"}) as running:
        await running.tell(ANN, "Remember that I drink tea.")
        assert "MEMORY.md" not in str(running.chats[-1].body["system"])
