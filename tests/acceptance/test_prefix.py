"""Requests share their prefix byte for byte, so that the prompt cache is shared too."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from gateway.db.models import MessageRow, SessionRow
from gateway.llm.standin.answers import Answer
from gateway.llm.standin.cache import LOOK_BACK, count_tokens
from gateway.llm.standin.server import ModelStandin, Recorded
from tests.acceptance.whole import ANN, Whole, calls, extends, note, whole

SHARE = 0.95
"""How much of a fork's first input has to come out of the cache; the turn's own answer, which can't, is short here."""


def cached(request: Recorded) -> float:
    """Return which share of a request's input came out of the cache."""
    usage = request.usage or {}
    read = usage["cache_read_input_tokens"]
    return float(read / (read + usage["input_tokens"] + usage["cache_creation_input_tokens"]))


def marks(request: Recorded) -> int:
    return request.raw.count(b'"cache_control"')


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home") as running:
        yield running


async def test_every_turn_extends_the_request_before_it(running: Whole) -> None:
    for words in ("Hello there, I prefer tea.", "What do I prefer?", "And in the evening?"):
        await running.tell(ANN, words)
        await running.settled()
    first, second, third = running.chats
    assert extends(second, first)
    assert extends(third, second)
    assert [cached(request) > 0.8 for request in (second, third)] == [True, True]


async def test_a_fork_extends_the_last_request_of_its_turn(running: Whole) -> None:
    memory = (await running.scope(ANN)).memory_dir
    running.then(calls(("read", {"file_path": str(memory / "MEMORY.md")})), "There is nothing.")
    await running.tell(ANN, "I am allergic to nuts. What do you know?")
    await running.settled()
    fork, last = running.forks[0], running.chats[-1]
    assert extends(fork, last)
    assert cached(fork) >= SHARE


async def test_a_short_session_leaves_a_fork_little_that_is_not_cached(running: Whole) -> None:
    await running.tell(ANN, "Hello there, I prefer tea.")
    await running.settled()
    fork, last = running.forks[0], running.chats[-1]
    assert extends(fork, last)
    assert cached(fork) >= SHARE, fork.usage


async def test_a_fork_pays_for_its_own_message_and_the_turns_answer_only(running: Whole) -> None:
    running.then("A long answer. " * 100)
    await running.tell(ANN, "Tell me everything, please.")
    await running.settled()
    fork = running.forks[0]
    answer_and_message = count_tokens({"messages": fork.body["messages"][-2:]})
    assert (fork.usage or {})["cache_creation_input_tokens"] == answer_and_message
    assert (fork.usage or {})["input_tokens"] == 0


async def test_a_memory_of_many_notes_adds_nothing_to_what_a_fork_pays_for(running: Whole) -> None:
    memory = (await running.scope(ANN)).memory_dir
    names = [f"note-{number}" for number in range(150)]
    for name in names:
        (memory / f"{name}.md").write_text(note(f"Something about {name}"))
    (memory / "MEMORY.md").write_text("".join(f"- [{name}]({name}.md) — something\n" for name in names))
    await running.tell(ANN, "Hello there, I prefer tea.")
    await running.settled()
    assert cached(running.forks[0]) >= SHARE
    assert "note-1.md" not in str(running.forks[0].body["messages"][-1])


async def test_notes_that_no_index_shows_take_little_of_a_fork(running: Whole) -> None:
    memory = (await running.scope(ANN)).memory_dir
    for number in range(300):
        (memory / f"note-{number}.md").write_text(note(f"Something about {number}, said at some length"))
    (memory / "MEMORY.md").write_text(
        "".join(f"- [{number}](gone-{number}.md) — {'x' * 90}\n" for number in range(300))
    )
    await running.tell(ANN, "Hello there, I prefer tea.")
    await running.settled()
    assert "older ones are left out" in str(running.forks[0].body["messages"][-1])
    assert cached(running.forks[0]) >= SHARE


async def past(running: Whole, turns: int) -> None:
    """Put turns into the open session as if they had been had, without the time that they would take."""
    said = [("user", "This is one of many messages, all right?"), ("assistant", "All right.")] * turns
    async with running.core.database.write() as session:
        session_id = await session.scalar(select(SessionRow.id))
        session.add_all(
            MessageRow(
                session_id=session_id, principal=ANN.principal, inbox_id=None, role=role, speaker="", said=text,
                content=[{"type": "text", "text": text}], at=running.core.clock().timestamp(),
            )
            for role, text in said
        )  # fmt: skip


async def test_a_fork_after_two_hundred_turns_reads_them_from_the_cache(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", "[memory]\nextraction_throttle = 2\n") as running:
        await running.tell(ANN, "Hello there, I prefer tea.")
        await past(running, 198)
        await running.tell(ANN, "This is the last one, all right?")
        await running.settled()
    fork = running.forks[0]
    assert len(fork.body["messages"]) == 401
    assert "the last 400 messages" in str(fork.body["messages"][-1])
    assert extends(fork, running.chats[-1])
    assert cached(fork) >= SHARE


async def test_the_prefix_survives_a_restart(tmp_path: Path) -> None:
    model = ModelStandin()
    async with whole(tmp_path / "home", model=model) as running:
        running.then(calls(("glob", {"pattern": "**/*.md"})), "Nothing yet — “ünï” 🍵.")
        await running.tell(ANN, "Hello, I live in Kiel. 🍵")
        await running.settled()
        before = running.chats[-1]
    async with whole(tmp_path / "home", model=model) as running:
        await running.tell(ANN, "And where do I live?")
        await running.settled()
        after, fork = running.chats[-1], running.forks[-1]
    assert extends(after, before)
    assert extends(fork, after)
    assert cached(after) > 0.8


async def test_thirty_rounds_of_tools_keep_to_four_marks_and_hit_the_cache_each_time(running: Whole) -> None:
    running.then(*[calls(("glob", {"pattern": f"{number}*.md"})) for number in range(30)], "Nothing found.")
    await running.tell(ANN, "Look everywhere, please.")
    await running.settled()
    requests = running.chats
    assert len(requests) == 31
    for earlier, later in itertools.pairwise(requests):
        assert extends(later, earlier)
        assert cached(later) > 0.9
    assert max(map(marks, running.model.requests)) <= 4
    fork = running.forks[0]
    assert extends(fork, requests[-1])
    assert cached(fork) >= SHARE


async def test_a_round_of_more_tools_than_the_cache_looks_back_still_hits(running: Whole) -> None:
    many = [("glob", {"pattern": f"{number}*.md"}) for number in range(LOOK_BACK)]
    running.then(calls(*many), "Nothing found.")
    await running.tell(ANN, "Look everywhere at once, please.")
    first, second = running.chats
    assert extends(second, first)
    read = (first.usage or {})["cache_creation_input_tokens"]
    assert (second.usage or {})["cache_read_input_tokens"] == read
    assert marks(second) <= 4


async def test_thinking_is_repeated_as_it_came(running: Whole) -> None:
    running.then(Answer(thinking="Hm, what is it?", text="Forty-two."))
    await running.tell(ANN, "What is the answer?")
    await running.tell(ANN, "Are you sure of that?")
    blocks = running.chats[-1].body["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]
    assert blocks[0]["signature"]


async def test_a_note_saved_meanwhile_is_told_at_the_tail_and_changes_no_prefix(running: Whole) -> None:
    await running.tell(ANN, "Hello there, I prefer tea.")
    await running.settled()
    await running.remember(ANN, "Ann has a dog called Rex", name="dog")
    await running.tell(ANN, "Thank you so much.")
    first, second = running.chats
    assert extends(second, first)
    assert "dog.md" in str(second.body["messages"][-1])
    assert "dog.md" not in str(second.body["system"])
