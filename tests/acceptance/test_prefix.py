"""Requests share their prefix byte for byte, so that the prompt cache is shared too."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.llm.standin.answers import Answer
from gateway.llm.standin.cache import LOOK_BACK
from gateway.llm.standin.server import ModelStandin, Recorded
from tests.acceptance.whole import ANN, Whole, calls, extends, whole


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
    assert cached(fork) > 0.8, cached(fork)


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
    assert cached(fork) > 0.9


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
