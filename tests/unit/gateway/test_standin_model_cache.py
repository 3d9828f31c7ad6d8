"""The stand-in's cache accounting compares prefixes as the API does."""

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.llm.standin.cache import LOOK_BACK, InputUsage, PromptCache, count_tokens

EPHEMERAL = {"type": "ephemeral"}
Json = dict[str, Any]


@pytest.fixture
def cache() -> PromptCache:
    return PromptCache(minimum=50)


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words * 20, **more}


def body(*said: str, mark: Sequence[int] = (-1,), **more: Any) -> Json:
    """A chat of user messages with breakpoints at the given places."""
    blocks = [text(words) for words in said]
    for place in mark:
        blocks[place]["cache_control"] = EPHEMERAL
    messages = [{"role": ("user", "assistant")[i % 2], "content": [b]} for i, b in enumerate(blocks)]
    return {
        "model": "m",
        "system": [text("stable system ", cache_control=EPHEMERAL)],
        "messages": messages,
        **more,
    }


def charge(cache: PromptCache, request: Json, *, key: str = "k", now: float = 0.0) -> InputUsage:
    usage = cache.account(request, key=key, now=now)
    assert usage.total == count_tokens(request)
    assert usage.written == usage.written_5m + usage.written_1h
    return usage


def test_a_first_request_writes_and_the_same_again_reads(cache: PromptCache) -> None:
    first, second = charge(cache, body("a ")), charge(cache, body("a "))
    assert (first.read, first.fresh) == (0, 0)
    assert (second.read, second.written, second.fresh) == (first.written, 0, 0)


def test_a_longer_chat_reads_the_old_prefix_and_writes_the_rest(cache: PromptCache) -> None:
    first = charge(cache, body("a "))
    second = charge(cache, body("a ", "b ", "c "))
    assert second.read == first.total
    assert second.written == second.total - first.total > 0


def test_moving_a_breakpoint_changes_no_prefix(cache: PromptCache) -> None:
    first = charge(cache, body("a ", "b ", mark=(0,)))
    second = charge(cache, body("a ", "b ", mark=(1,)))
    assert second.read == first.written


def test_what_follows_the_last_breakpoint_is_fresh(cache: PromptCache) -> None:
    usage = charge(cache, body("a ", "b ", mark=(0,)))
    assert usage.fresh > 0
    assert usage.written == usage.total - usage.fresh


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "other"},
        {"system": [text("another system ", cache_control=EPHEMERAL)]},
        {"tools": [{"name": "t", "input_schema": {"type": "object"}}]},
        {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
    ],
)
def test_a_change_before_all_messages_misses_everything(cache: PromptCache, changed: Json) -> None:
    charge(cache, body("a "))
    assert charge(cache, body("a ", **changed)).read == 0


def test_a_change_of_the_tool_choice_still_reads_the_system(cache: PromptCache) -> None:
    first = charge(cache, body("a "))
    usage = charge(cache, body("a ", tool_choice={"type": "none"}))
    assert 0 < usage.read < first.total


def test_one_changed_byte_in_a_message_reads_only_what_stands_before(cache: PromptCache) -> None:
    charge(cache, body("a ", "b ", "c "))
    usage = charge(cache, body("a ", "B ", "c "))
    assert usage.read == charge(cache, {**body("a "), "messages": []}).total


def test_another_key_reads_nothing(cache: PromptCache) -> None:
    charge(cache, body("a "), key="one")
    assert charge(cache, body("a "), key="two").read == 0


def test_an_entry_dies_after_five_minutes_unless_it_is_read(cache: PromptCache) -> None:
    charge(cache, body("a "), now=0)
    assert charge(cache, body("a "), now=299).read > 0
    assert charge(cache, body("a "), now=598).read > 0
    assert charge(cache, body("a "), now=899).read == 0


def test_an_hour_is_accounted_apart(cache: PromptCache) -> None:
    hour = [text("stable system ", cache_control={"type": "ephemeral", "ttl": "1h"})]
    usage = charge(cache, body("a ", system=hour), now=0)
    assert (usage.written_1h > 0, usage.written_5m > 0) == (True, True)
    assert charge(cache, body("a ", system=hour), now=3000).read == usage.written_1h


def test_a_prefix_below_the_minimum_is_not_cached() -> None:
    cache = PromptCache(minimum={"m": 10_000})
    charge(cache, body("a "))
    usage = charge(cache, body("a "))
    assert (usage.read, usage.written) == (0, 0)


@pytest.mark.parametrize(("blocks", "found"), [(LOOK_BACK - 1, True), (LOOK_BACK, False)])
def test_the_look_back_ends_after_twenty_blocks(cache: PromptCache, blocks: int, found: bool) -> None:
    start = [text("a long start ", cache_control=EPHEMERAL)]
    longer = [
        text("a long start "),
        *(text(f"{n} ") for n in range(blocks - 1)),
        text("z ", cache_control=EPHEMERAL),
    ]
    first = charge(cache, {"model": "m", "messages": [{"role": "user", "content": start}]})
    usage = charge(cache, {"model": "m", "messages": [{"role": "user", "content": longer}]})
    assert usage.read == (first.total if found else 0)


def test_a_breakpoint_on_top_marks_the_last_block(cache: PromptCache) -> None:
    plain = {
        "model": "m",
        "messages": [{"role": "user", "content": "word " * 99}],
        "cache_control": EPHEMERAL,
    }
    first = charge(cache, plain)
    assert (charge(cache, plain).read, first.fresh) == (first.written, 0)


def test_a_string_and_its_block_are_the_same_prefix(cache: PromptCache) -> None:
    words = "word " * 99
    blocks = [{"type": "text", "text": words, "cache_control": EPHEMERAL}]
    first = charge(cache, {"model": "m", "messages": [{"role": "user", "content": blocks}]})
    string: Json = {
        "model": "m",
        "messages": [{"role": "user", "content": words}],
        "cache_control": EPHEMERAL,
    }
    assert charge(cache, string).read == first.total
