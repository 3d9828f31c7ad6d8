"""What the API would refuse is refused by the stand-in too, and nothing else."""

from typing import Any

import pytest

from gateway.llm.standin.validation import InvalidRequest, check_count, check_create

MODEL = "claude-sonnet-4-6"
OLD_MODEL = "claude-sonnet-4-5"
EPHEMERAL = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOL = {"name": "read", "input_schema": {"type": "object", "properties": {}}}
Json = dict[str, Any]


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def user(*content: Any) -> Json:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> Json:
    return {"role": "assistant", "content": list(content)}


def call(ident: str = "toolu_1") -> Json:
    return {"type": "tool_use", "id": ident, "name": "read", "input": {}}


def result(ident: str = "toolu_1", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": ident, "content": "ok", **more}


def request(*messages: Json, **more: Any) -> Json:
    return {"model": MODEL, "max_tokens": 100, "messages": list(messages) or [user(text("hi"))], **more}


def closed(**properties: Any) -> Json:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def output(schema: Json) -> Json:
    return {"format": {"type": "json_schema", "schema": schema}}


ACCEPTED = {
    "a string as content": request({"role": "user", "content": "hi"}),
    "neighbours of one role": request(user(text("a")), user(text("b"))),
    "a tool round": request(user(text("a")), assistant(call()), user(result(), text("b"))),
    "results in neighbouring messages": request(
        user(text("a")), assistant(call("t1"), call("t2")), user(result("t1")), user(result("t2"))
    ),
    "a result without content": request(
        user(text("a")), assistant(call()), user({"type": "tool_result", "tool_use_id": "toolu_1"})
    ),
    "an empty result": request(user(text("a")), assistant(call()), user(result(content=""))),
    "a system message after a user message": request(user(text("a")), {"role": "system", "content": "b"}),
    "four breakpoints, the longer first": request(
        user(text("a", cache_control=EPHEMERAL)),
        tools=[{**TOOL, "cache_control": HOUR}],
        system=[text("s", cache_control=HOUR)],
        cache_control=EPHEMERAL,
    ),
    "a prefill on a model that takes it": {
        **request(user(text("a")), assistant(text("The"))),
        "model": OLD_MODEL,
    },
    "an empty final assistant message": {**request(user(text("a")), assistant()), "model": OLD_MODEL},
    "an image": request(
        user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}})
    ),
    "a closed schema": request(output_config=output(closed(a={"type": "array", "items": {"type": "string"}}))),
    "a property named type": request(output_config=output(closed(type={"type": "string"}))),
    "thinking within the limit": request(max_tokens=4000, thinking={"type": "enabled", "budget_tokens": 1024}),
    "adaptive thinking": request(thinking={"type": "adaptive"}, output_config={"effort": "low"}),
    "a tool of the API": request(tools=[{"type": "memory_20250818", "name": "memory"}]),
    "thinking handed back": request(
        user(text("a")),
        assistant({"type": "thinking", "thinking": "", "signature": "s"}, call()),
        user(result()),
    ),
}

REFUSED = {
    "an unknown field": (request(temperature=1), "temperature: Extra inputs are not permitted"),
    "an unknown field in a block": (request(user(text("a", speaker="x"))), r"speaker: Extra inputs"),
    "an unknown block": (request(user({"type": "txt", "text": "a"})), "messages.0.content.0"),
    "no max_tokens": ({"model": MODEL, "messages": [user(text("a"))]}, "max_tokens: Field required"),
    "no model": ({"max_tokens": 1, "messages": [user(text("a"))]}, "model: Field required"),
    "no messages": ({"model": MODEL, "max_tokens": 1}, "messages: Field required"),
    "an empty list of messages": (request(messages=[]), "at least one message"),
    "max_tokens of nothing": (request(max_tokens=0), "max_tokens"),
    "a number as text": (request(max_tokens="9"), "max_tokens: Input should be a valid integer"),
    "an unknown role": (request({"role": "tool", "content": "x"}), "messages.0.role"),
    "an assistant first": (request(assistant(text("a")), user(text("b"))), "first message"),
    "a system message first": (request({"role": "system", "content": "x"}), "first message"),
    "a system message after an assistant": (
        request(user(text("a")), assistant(text("b")), {"role": "system", "content": "c"}, user(text("d"))),
        "directly follow a user message",
    ),
    "an empty text": (request(user(text(""))), "must be non-empty"),
    "a blank text": (request(user(text(" \n"))), "non-whitespace"),
    "a blank system text": (request(system=[text(" ")]), "system.0: .*non-whitespace"),
    "a blank text in a result": (
        request(user(text("a")), assistant(call()), user(result(content=[text(" ")]))),
        "messages.2.content.0.content.0: .*non-whitespace",
    ),
    "a breakpoint on an empty text": (
        request(user(text("", cache_control=EPHEMERAL))),
        "cache_control cannot",
    ),
    "an empty user message": (request(user()), "non-empty content"),
    "an empty string": (request({"role": "user", "content": ""}), "non-empty content"),
    "an empty assistant message amid others": (
        request(user(text("a")), assistant(), user(text("b"))),
        "messages.1: all messages must have non-empty content",
    ),
    "a prefill with a blank end": (
        {**request(user(text("a")), assistant(text("The "))), "model": OLD_MODEL},
        "trailing whitespace",
    ),
    "a prefill on a newer model": (
        request(user(text("a")), assistant(text("The"))),
        "does not support .*prefill",
    ),
    "a result without its call": (request(user(result())), "unexpected `tool_use_id`"),
    "a result of an older call": (
        request(user(text("a")), assistant(call()), user(result()), assistant(text("b")), user(result())),
        "messages.4.content.0: unexpected",
    ),
    "a call without its result": (
        request(user(text("a")), assistant(call()), user(text("b"))),
        "messages.1: `tool_use` ids were found without .*toolu_1",
    ),
    "a call at the end": (request(user(text("a")), assistant(call())), "without `tool_result`"),
    "one result of two": (
        request(user(text("a")), assistant(call("t1"), call("t2")), user(result("t2"))),
        "immediately after: t1",
    ),
    "a result that is not first": (
        request(user(text("a")), assistant(call()), user(text("b"), result())),
        "must come first",
    ),
    "two results of one call": (
        request(user(text("a")), assistant(call()), user(result(), result())),
        "single result",
    ),
    "an id used twice": (
        request(user(text("a")), assistant(call()), user(result()), assistant(call()), user(result())),
        "ids must be unique",
    ),
    "a call by the user": (request(user(call())), "only be in `assistant` messages"),
    "an image by the assistant": (
        request(
            user(text("a")),
            assistant({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}),
            user(text("b")),
        ),
        "only be in `user` messages",
    ),
    "an image of an unknown kind": (
        request(user({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "aGk="}})),
        "media_type",
    ),
    "five breakpoints": (
        request(user(*(text("a", cache_control=EPHEMERAL) for _ in range(5)))),
        "maximum of 4 blocks .*Found 5",
    ),
    "breakpoints over all parts": (
        request(
            user(text("a", cache_control=EPHEMERAL), text("b", cache_control=EPHEMERAL)),
            tools=[{**TOOL, "cache_control": EPHEMERAL}],
            system=[text("s", cache_control=EPHEMERAL)],
            cache_control=EPHEMERAL,
        ),
        "Found 5",
    ),
    "a longer ttl after a shorter one": (
        request(user(text("a", cache_control=HOUR)), system=[text("s", cache_control=EPHEMERAL)]),
        "must not come after",
    ),
    "a ttl that does not exist": (
        request(user(text("a", cache_control={"type": "ephemeral", "ttl": "2h"}))),
        "ttl",
    ),
    "a tool name with a dot": (request(tools=[{**TOOL, "name": "a.b"}]), "tools.0.custom.name"),
    "a tool without an object": (request(tools=[{"name": "a", "input_schema": {"type": "string"}}]), "type"),
    "two tools of one name": (request(tools=[TOOL, TOOL]), "unique"),
    "a choice of a missing tool": (
        request(tools=[TOOL], tool_choice={"type": "tool", "name": "x"}),
        "Tool 'x' not found",
    ),
    "an open schema": (request(output_config=output({"type": "object"})), "additionalProperties"),
    "an open schema within": (
        request(output_config=output(closed(a={"type": "array", "items": {"type": "object"}}))),
        r"properties.a.items: For 'object' type",
    ),
    "too small a budget": (request(thinking={"type": "enabled", "budget_tokens": 1}), "budget_tokens"),
    "a budget over the limit": (
        request(thinking={"type": "enabled", "budget_tokens": 2000}),
        "greater than `thinking.budget_tokens`",
    ),
    "an unknown way of thinking": (request(thinking={"type": "deep"}), "thinking"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_api_takes_is_taken(name: str) -> None:
    assert check_create(ACCEPTED[name]) == ACCEPTED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_api_refuses_is_refused_with_its_place(name: str) -> None:
    body, message = REFUSED[name]
    with pytest.raises(InvalidRequest, match=message):
        check_create(body)


def test_a_count_needs_no_max_tokens_and_takes_none() -> None:
    body = {"model": MODEL, "messages": [user(text("hi"))]}
    assert check_count(body) == body
    with pytest.raises(InvalidRequest, match="max_tokens: Extra inputs"):
        check_count({**body, "max_tokens": 1})
