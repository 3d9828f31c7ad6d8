"""Memory end to end: what is extracted, when, at what cost to whom; what is recalled; what stays off."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.llm.standin.answers import Answer, Failure
from gateway.llm.standin.request import Conversation
from tests.acceptance.whole import ANN, PATIENCE, Clock, Speaker, Whole, calls, extends, is_recall, note, until, whole

GROUP = Speaker(user="42", chat="-100")
NOTHING = "Nothing new to keep."


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home") as running:
        yield running


def asked(running: Whole) -> list[str]:
    """Return how many messages each extraction run was told to look at."""
    prompts = [request.body["messages"][-1]["content"][0] for request in running.forks]
    return [text["text"].split("the last ")[1].split(" before")[0] for text in prompts if text["type"] == "text"]


def notices(running: Whole) -> list[str]:
    return [call.part["text"] for call in running.adapter.calls if not call.reply_to]


class Held:
    """An answer of the model that waits until a test lets it go; counts how many wait at once."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()
        self.inside = self.most = 0

    async def __call__(self, _: dict[str, Any]) -> str:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.began.set()
        async with asyncio.timeout(PATIENCE):
            await self.go.wait()
        self.inside -= 1
        return NOTHING


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


async def test_a_direct_write_in_private_takes_the_place_of_the_run_and_moves_the_cursor(running: Whole) -> None:
    running.then(calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea")})), "Saved.")
    await running.tell(ANN, "Remember that I drink tea.")
    await running.settled()
    assert (running.forks, await running.cursor()) == ([], 4)
    await running.tell(ANN, "Thank you so much.")
    await running.settled()
    assert asked(running) == ["2 messages"]


async def test_a_write_that_failed_is_no_direct_write(running: Whole) -> None:
    running.then(calls(("write", {"file_path": "/etc/tea.md", "content": "x"})), "I could not.")
    await running.tell(ANN, "Remember that I drink tea.")
    await running.settled()
    assert len(asked(running)) == 1


async def test_a_direct_write_in_a_group_does_not_silence_the_others(running: Whole) -> None:
    running.then(calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea")})), "Saved.")
    running.then_fork(NOTHING)
    await running.tell(GROUP, "Remember that I drink tea.")
    await running.settled()
    (fork,) = running.forks
    assert "Just written in these messages, so do not save the same again: `tea.md`" in str(fork.body["messages"][-1])


async def test_a_failed_run_is_not_told_and_the_next_one_takes_up_both_turns(running: Whole) -> None:
    running.then_fork(Failure(status=500))
    await running.tell(ANN, "I prefer answers in metric units.")
    await running.settled()
    assert (await running.cursor(), notices(running), len(running.forks)) == (0, [], 1)
    await running.tell(ANN, "Thank you so much.")
    await running.settled()
    assert asked(running) == ["2 messages", "4 messages"]
    assert await running.cursor() == 4


async def test_turns_that_end_during_a_run_are_taken_up_by_exactly_one_more(running: Whole) -> None:
    held = Held()
    running.then_fork(held, NOTHING)
    await running.tell(ANN, "First of all, hello.")
    await held.began.wait()
    for words in ("The second thing.", "The third thing.", "The fourth thing."):
        await running.tell(ANN, words)
    assert len(running.forks) == 1
    held.go.set()
    await running.settled()
    assert asked(running) == ["2 messages", "6 messages"]
    assert extends(running.forks[1], running.chats[-1])


async def test_two_conversations_of_one_person_are_never_extracted_at_once(running: Whole) -> None:
    held = Held()
    running.then_fork(held, held)
    await running.tell(ANN, "First of all, hello.")
    await held.began.wait()
    await running.tell(replace(ANN, thread="7"), "Hello from another topic.")
    await asyncio.sleep(0.2)
    assert len(running.forks) == 1
    held.go.set()

    async def both() -> bool:
        return len(running.forks) == 2

    await until(both, "the second conversation was not extracted")
    await running.settled()
    assert held.most == 1


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


async def test_the_end_of_a_session_forces_what_the_throttle_held_back(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", "[memory]\nextraction_throttle = 3\n") as running:
        await running.tell(ANN, "I prefer answers in metric units.")
        await running.settled()
        assert running.forks == []
        await running.tell(ANN, "/new")
        await running.settled()
        assert asked(running) == ["2 messages"]


async def test_a_run_ends_after_five_turns_and_counts_only_if_it_wrote(running: Whole) -> None:
    running.then_fork(*[calls(("glob", {"pattern": f"{n}*.md"})) for n in range(9)])
    await running.tell(ANN, "First of all, hello.")
    await running.settled()
    assert (len(running.forks), await running.cursor()) == (5, 0)


async def test_stopping_waits_for_a_run_and_leaves_whole_files(tmp_path: Path) -> None:
    held = Held()

    async def slow(body: dict[str, Any]) -> Answer:
        await held(body)
        return calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea")}))

    async with whole(tmp_path / "home") as running:
        running.then_fork(slow, "Done.")
        await running.tell(ANN, "First of all, hello.")
        await held.began.wait()
        asyncio.get_running_loop().call_later(0.3, held.go.set)
        file = (await running.scope(ANN)).memory_dir / "tea.md"
    assert file.read_text() == note("Ann drinks tea")


# -- recall


async def test_a_word_of_greeting_asks_no_selector_and_two_words_do(running: Whole) -> None:
    await running.remember(ANN, "Ann keeps a zebra")
    await running.tell(ANN, "hello")
    assert running.recalls == []
    await running.tell(ANN, "which zebra?")
    assert len(running.recalls) == 1
    assert "Ann keeps a zebra" in str(running.chats[1].body["messages"][-1])


async def test_what_was_shown_is_not_offered_again_in_the_session(running: Whole) -> None:
    await running.remember(ANN, "Ann keeps a zebra")
    await running.remember(ANN, "Ann drinks tea", name="tea")
    await running.tell(ANN, "which zebra?")
    await running.tell(ANN, "which zebra again?")
    first, second = (Conversation.of(request.body).last_user_text for request in running.recalls)
    assert "canary.md" in first
    assert "canary.md" not in second
    assert "tea.md" in second
    await running.tell(ANN, "/new")
    await running.tell(ANN, "which zebra?")
    assert "canary.md" in Conversation.of(running.recalls[-1].body).last_user_text


@pytest.mark.parametrize(
    "selector",
    [Answer(text='{"selected_memories": ["canary.md"]}', delay=30), Answer(text="{broken"), Failure(status=529)],
    ids=["late", "broken", "down"],
)
async def test_a_bad_selector_never_makes_a_reply_late(tmp_path: Path, selector: Answer | Failure) -> None:
    toml = "[memory]\nrecall_deadline = 0.3\nrecall_fallback = false\n"
    async with whole(tmp_path / "home", toml) as running:
        await running.remember(ANN, "Ann keeps a zebra")
        running.model.script(selector, when=is_recall)
        async with asyncio.timeout(5):
            assert await running.tell(ANN, "which zebra?")
        assert "Memory note" not in str(running.chats[0].body["messages"])


async def test_a_long_note_is_cut_and_says_so(running: Whole) -> None:
    file = await running.remember(ANN, "Ann keeps a zebra")
    file.write_text(note("Ann keeps a zebra") + "".join(f"line {number}\n" for number in range(300)))
    await running.tell(ANN, "which zebra?")
    (block,) = [each["text"] for each in running.chats[0].body["messages"][-1]["content"] if "line 1" in each["text"]]
    assert "line 150" in block
    assert "line 250" not in block
    assert "Cut at the limit of 200 lines" in block


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
