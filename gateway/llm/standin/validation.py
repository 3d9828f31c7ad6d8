"""What the Messages API refuses, refused here in nearly the same words.

`wire` knows the fields; this file knows the rules between them. Paths in the messages are the API's:
`messages.2.content.0`, counted in the request as it was sent.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from gateway.llm.standin.wire import CountTokens, CreateMessage

MAX_BREAKPOINTS = 4

_WITH_PREFILL = re.compile(r"^claude-(?:3|\w+-4-[015]\b|\w+-4-20)")
"""Models up to 4.5 go on from a final assistant message; all later ones refuse it."""
_USER_ONLY = frozenset({"tool_result", "image", "document", "search_result"})
_ASSISTANT_ONLY = frozenset({"tool_use", "thinking", "redacted_thinking"})

Json = dict[str, Any]


class InvalidRequest(Exception):
    """The request breaks a rule; the text says which and where, as the API would."""


def check_create(body: Any) -> Json:
    """Return the body of `/v1/messages` if the API would take it; raises `InvalidRequest` if not."""
    checked = _shape(CreateMessage, body)
    thinking = checked.get("thinking") or {}
    if thinking.get("type") == "enabled":
        _require(
            thinking["budget_tokens"] < checked["max_tokens"],
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
        )
        forced = (checked.get("tool_choice") or {}).get("type") in ("any", "tool")
        _require(not forced, "Thinking may not be enabled when tool_choice forces tool use.")
    _check_rules(checked)
    return checked


def check_count(body: Any) -> Json:
    """Return the body of a token count if the API would take it; raises `InvalidRequest` if not."""
    checked = _shape(CountTokens, body)
    _check_rules(checked)
    return checked


def blocks_of(content: str | Sequence[Json] | None) -> list[Json]:
    """Return content as blocks: a string is shorthand for one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or ())


def _shape(model: type[CountTokens], body: Any) -> Json:
    try:
        model.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"{path}: {first['msg']}" if path else first["msg"]) from error
    assert isinstance(body, dict)
    return body


def _check_rules(body: Json) -> None:
    _check_tools(body)
    for index, block in enumerate(blocks_of(body.get("system"))):
        _check_text(block, f"system.{index}")
    _check_messages(body["messages"], body["model"])
    _check_pairs(body["messages"])
    _check_breakpoints(body)
    output = (body.get("output_config") or {}).get("format")
    if output:
        _check_schema(output["schema"], "output_config.format.schema")


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - an assertion with the API's words
    if not holds:
        raise InvalidRequest(message)


def _check_tools(body: Json) -> None:
    names = [tool["name"] for tool in body.get("tools") or ()]
    _require(len(names) == len(set(names)), "tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    if not choice:
        return
    _require(bool(names), "tool_choice: may only be specified while providing tools.")
    if choice["type"] == "tool":
        _require(bool(choice.get("name")), "tool_choice.tool.name: Field required")
        _require(choice["name"] in names, f"Tool '{choice['name']}' not found in provided tools")


def _check_text(block: Mapping[str, Any], path: str) -> None:
    if block["type"] != "text":
        return
    if block["text"] == "":
        cached = block.get("cache_control")
        _require(not cached, f"{path}: cache_control cannot be set for empty text blocks")
        raise InvalidRequest(f"{path}: text content blocks must be non-empty")
    _require(bool(block["text"].strip()), f"{path}: text content blocks must contain non-whitespace text")


def _check_messages(messages: Sequence[Json], model: str) -> None:
    _require(bool(messages), "messages: at least one message is required")
    _require(messages[0]["role"] == "user", 'messages: first message must use the "user" role')
    last = len(messages) - 1
    for index, message in enumerate(messages):
        role, blocks = message["role"], blocks_of(message["content"])
        if not blocks or message["content"] == "":
            _require(
                role == "assistant" and index == last,
                f"messages.{index}: all messages must have non-empty content "
                "except for the optional final assistant message",
            )
            blocks = []
        if role == "system":
            _check_system(messages, index)
        for place, block in enumerate(blocks):
            _check_block(block, role, f"messages.{index}.content.{place}")
    _check_prefill(messages[-1], model)


def _check_system(messages: Sequence[Json], index: int) -> None:
    after_user = messages[index - 1]["role"] == "user"
    _require(after_user, f"messages.{index}: a system message must directly follow a user message")
    texts = all(block["type"] == "text" for block in blocks_of(messages[index]["content"]))
    _require(texts, f"messages.{index}: system messages may only contain text blocks")


def _check_block(block: Json, role: str, path: str) -> None:
    _check_text(block, path)
    kind = block["type"]
    _require(role == "user" or kind not in _USER_ONLY, f"{path}: `{kind}` blocks can only be in `user` messages")
    _require(
        role == "assistant" or kind not in _ASSISTANT_ONLY,
        f"{path}: `{kind}` blocks can only be in `assistant` messages",
    )
    parts = block.get("content") if kind == "tool_result" else None
    for place, part in enumerate(_as_list(parts)):
        _check_text(part, f"{path}.content.{place}")


def _check_prefill(final: Json, model: str) -> None:
    if final["role"] != "assistant":
        return
    blocks = blocks_of(final["content"])
    ends_in_call = bool(blocks) and blocks[-1]["type"] == "tool_use"
    _require(
        bool(_WITH_PREFILL.match(model)) or ends_in_call,
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    )
    text = blocks[-1]["text"] if blocks and blocks[-1]["type"] == "text" else ""
    _require(text == text.rstrip(), "messages: final assistant content cannot end with trailing whitespace")


def _merged(messages: Sequence[Json]) -> list[tuple[str, list[tuple[str, Json]]]]:
    """Join neighbours of one role, as the API does, and keep each block's path."""
    turns: list[tuple[str, list[tuple[str, Json]]]] = []
    for index, message in enumerate(messages):
        placed = [
            (f"messages.{index}.content.{place}", block) for place, block in enumerate(blocks_of(message["content"]))
        ]
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(placed)
        else:
            turns.append((message["role"], placed))
    return turns


def _check_pairs(messages: Sequence[Json]) -> None:
    seen: set[str] = set()
    called: list[str] = []
    path = ""
    for _, placed in _merged(messages):
        _check_results(placed, called, path)
        calls = [(where, block["id"]) for where, block in placed if block["type"] == "tool_use"]
        called = [ident for _, ident in calls]
        path = calls[0][0].split(".content")[0] if calls else ""
        for where, ident in calls:
            _require(ident not in seen, f"{where}: `tool_use` ids must be unique")
            seen.add(ident)
    _check_results([], called, path)


def _check_results(placed: Sequence[tuple[str, Json]], called: Sequence[str], path: str) -> None:
    """The results of `called` must come first in the turn after it, each once, and no others."""
    answered: set[str] = set()
    leading = True
    for where, block in placed:
        if block["type"] != "tool_result":
            leading = False
            continue
        ident = block["tool_use_id"]
        _require(
            ident in called,
            f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {ident}. Each "
            "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
        )
        _require(ident not in answered, f"{where}: each tool_use must have a single result. Found more: {ident}")
        _require(leading, f"{where}: `tool_result` blocks must come first in the content of a user message")
        answered.add(ident)
    missing = ", ".join(ident for ident in called if ident not in answered)
    _require(
        not missing,
        f"{path}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
    )


def _breakpoints(body: Json) -> Iterator[Mapping[str, Any]]:
    """Every block with a breakpoint, in the order in which the API reads a request."""
    blocks: list[Json] = [*(body.get("tools") or ()), *blocks_of(body.get("system"))]
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            content = block.get("content") if block["type"] == "tool_result" else None
            blocks.extend(part for part in blocks_of(content) if part.get("cache_control"))
            blocks.append(block)
    yield from (block["cache_control"] for block in blocks if block.get("cache_control"))
    if body.get("cache_control"):
        yield body["cache_control"]


def _check_breakpoints(body: Json) -> None:
    points = list(_breakpoints(body))
    _require(
        len(points) <= MAX_BREAKPOINTS,
        f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(points)}.",
    )
    shorter = False
    for point in points:
        hour = point.get("ttl") == "1h"
        _require(
            not (hour and shorter),
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
            "block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
        )
        shorter = shorter or not hour


def _check_schema(schema: Any, path: str) -> None:
    """Walk a JSON schema: every object must be closed."""
    if isinstance(schema, Mapping):
        is_object = schema.get("type") == "object" or "object" in _as_list(schema.get("type"))
        _require(
            not is_object or schema.get("additionalProperties") is False,
            f"{path}: For 'object' type, 'additionalProperties' must be explicitly set to false",
        )
        for key in ("properties", "$defs", "definitions"):
            for name, inner in (schema.get(key) or {}).items():
                _check_schema(inner, f"{path}.{key}.{name}")
        for key in ("items", "anyOf", "allOf", "oneOf"):
            _check_schema(schema.get(key), f"{path}.{key}")
    for index, inner in enumerate(_as_list(schema)):
        _check_schema(inner, f"{path}.{index}")


def _as_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
