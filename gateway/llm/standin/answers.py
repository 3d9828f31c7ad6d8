"""What the model stand-in can answer with, and how an answer looks on the wire, whole or as events."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.llm.standin.cache import InputUsage, text_tokens

PIECE = 24
"""Characters in one delta: small, so that whoever shows a stream is tested with many."""
CORRUPT = b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": {"ty\n\n'

Json = dict[str, Any]


class Flaw(StrEnum):
    """What goes wrong amid a streamed answer; `DROP` also cuts one that is not streamed."""

    NONE = "none"
    DROP = "drop"
    """The connection closes amid the body."""
    CORRUPT = "corrupt"
    """One event holds no valid JSON."""
    EARLY_END = "early_end"
    """The body ends in good order, without `message_delta` and `message_stop`."""
    ERROR = "error"
    """An `error` event: overloaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A call of one of the tools that the request offers; an empty `id` gets a fresh one."""

    name: str
    input: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer with status 200.

    `delay` in seconds passes before the first byte, `chunk_delay` before each delta (None: the stand-in's
    own). `flaw` strikes after `flaw_after` deltas. An empty `stop_reason` is found from the rest.
    """

    text: str = ""
    tools: Sequence[ToolCall] = ()
    thinking: str = ""
    stop_reason: str = ""
    delay: float = 0.0
    chunk_delay: float | None = None
    flaw: Flaw = Flaw.NONE
    flaw_after: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """An answer with an error status; `retry_after` in seconds, an empty `message` means the usual one."""

    status: int
    message: str = ""
    retry_after: float | None = None
    delay: float = 0.0


_ERRORS = {
    400: ("invalid_request_error", "Invalid request"),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the API"),
    403: ("permission_error", "Your API key does not have permission to use the specified resource"),
    404: ("not_found_error", "Not found"),
    405: ("invalid_request_error", "Method Not Allowed"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit"),
    504: ("timeout_error", "Request timed out"),
    529: ("overloaded_error", "Overloaded"),
}


def error_body(status: int, message: str, *, request_id: str) -> Json:
    """Return the body of an error; a status without a type of its own is an `api_error`."""
    kind, usual = _ERRORS.get(status, ("api_error", "Internal server error"))
    return {
        "type": "error",
        "error": {"type": kind, "message": message or usual},
        "request_id": request_id,
    }


def structured(value: Any) -> Answer:
    """Return an answer whose text is `value` as JSON, as structured output is."""
    return Answer(text=json.dumps(value, ensure_ascii=False))


def limited(answer: Answer, body: Mapping[str, Any]) -> tuple[Answer, str | None]:
    """Apply stop sequences and `max_tokens`; return the answer and the sequence that was hit."""
    text = answer.text
    hits = [(text.find(stop), stop) for stop in body.get("stop_sequences") or () if stop and stop in text]
    if hits:
        at, stop = min(hits)
        return _cut(answer, text[:at], "stop_sequence"), stop
    room = int(body["max_tokens"])
    if text_tokens(text) > room:
        kept = text.encode()[: room * 4].decode(errors="ignore")
        return _cut(answer, kept, "max_tokens"), None
    return answer, None


def _cut(answer: Answer, text: str, reason: str) -> Answer:
    return Answer(
        text=text,
        thinking=answer.thinking,
        stop_reason=reason,
        delay=answer.delay,
        chunk_delay=answer.chunk_delay,
        flaw=answer.flaw,
        flaw_after=answer.flaw_after,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """An answer to one request: its blocks with their ids, its usage, and both forms on the wire."""

    id: str
    model: str
    blocks: Sequence[Json]
    stop_reason: str
    stop_sequence: str | None
    usage: InputUsage
    output_tokens: int

    def whole(self) -> Json:
        """Return the body of an answer that is not streamed."""
        return {
            **self._head(),
            "content": list(self.blocks),
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": self.usage_json(),
        }

    def usage_json(self) -> Json:
        """Return the final usage."""
        return {**self.usage.as_json(), "output_tokens": self.output_tokens, "service_tier": "standard"}

    def events(self) -> Iterator[Json]:
        """Yield the events of a streamed answer in the API's order."""
        start = {**self._head(), "content": [], "stop_reason": None, "stop_sequence": None}
        yield {
            "type": "message_start",
            "message": {**start, "usage": {**self.usage_json(), "output_tokens": 1}},
        }
        for index, block in enumerate(self.blocks):
            yield {"type": "content_block_start", "index": index, "content_block": _empty(block)}
            if index == 0:
                yield {"type": "ping"}
            for delta in _deltas(block):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        counted = {k: v for k, v in self.usage_json().items() if k not in ("service_tier", "cache_creation")}
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": self.stop_reason, "stop_sequence": self.stop_sequence},
            "usage": counted,
        }
        yield {"type": "message_stop"}

    def _head(self) -> Json:
        return {"id": self.id, "type": "message", "role": "assistant", "model": self.model}


def blocks_for(answer: Answer, *, new_id: str) -> list[Json]:
    """Return the content blocks of an answer; calls without an id get one made from `new_id`."""
    blocks: list[Json] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": f"sig_{new_id}"})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text, "citations": None})
    for number, call in enumerate(answer.tools):
        ident = call.id or f"toolu_{new_id}{number:02d}"
        blocks.append({"type": "tool_use", "id": ident, "name": call.name, "input": dict(call.input)})
    return blocks


def output_tokens(answer: Answer) -> int:
    """Estimate the output; never 0, as in the API."""
    calls = "".join(call.name + json.dumps(dict(call.input), ensure_ascii=False) for call in answer.tools)
    return max(1, text_tokens(answer.thinking + answer.text + calls))


def sse(event: Json) -> bytes:
    """Encode one server-sent event."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _empty(block: Json) -> Json:
    blank: dict[str, Json] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **blank[block["type"]]}


def _deltas(block: Json) -> Iterator[Json]:
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in _pieces(block["text"]))
    elif block["type"] == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"]))
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {"type": "input_json_delta", "partial_json": ""}
        source = json.dumps(block["input"], ensure_ascii=False)
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in _pieces(source))


def _pieces(text: str) -> Iterator[str]:
    yield from (text[at : at + PIECE] for at in range(0, len(text), PIECE))
