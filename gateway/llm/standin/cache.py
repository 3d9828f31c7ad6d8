"""Prompt-cache accounting by comparing real prefixes.

A request is a row of blocks: tools, system, messages. Each block's prefix is hashed over every byte before
it, in the order sent (a changed key order misses, as it does in the API), without `cache_control`. What a
breakpoint ends may be written; a later breakpoint reads it if it lies within the look-back.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.llm.standin.validation import blocks_of

LOOK_BACK = 20
"""Positions looked at from a breakpoint backwards, its own counted as the first."""
DEFAULT_MINIMUM = 1024
"""Tokens below which nothing is cached, for most models."""
_LIFETIMES = {"5m": 300.0, "1h": 3600.0}
_IMAGE_TOKENS = 1500

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class InputUsage:
    """Input tokens by price; the first three together are the whole input, the last two split `written`."""

    fresh: int
    written: int = 0
    read: int = 0
    written_5m: int = 0
    written_1h: int = 0

    @property
    def total(self) -> int:
        """All input tokens."""
        return self.fresh + self.written + self.read

    def as_json(self) -> Json:
        """Return the fields as the API names them."""
        return {
            "input_tokens": self.fresh,
            "cache_creation_input_tokens": self.written,
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.written_5m,
                "ephemeral_1h_input_tokens": self.written_1h,
            },
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Position:
    """The end of one block: the hash and size of all up to it, and the breakpoint's lifetime in seconds."""

    digest: bytes
    tokens: int
    lifetime: float | None


@dataclass(kw_only=True)
class PromptCache:
    """What has been written, per key and model. `minimum` is in tokens, for all models or by model id."""

    minimum: int | Mapping[str, int] = DEFAULT_MINIMUM
    _expiry: dict[tuple[str, str, bytes], float] = field(default_factory=dict)

    def account(self, body: Json, *, key: str, now: float) -> InputUsage:
        """Charge one request that is being answered, and remember what it wrote; `now` in seconds."""
        row = _positions(body)
        total = row[-1].tokens if row else 0
        model = str(body["model"])
        points = [
            (index, at) for index, at in enumerate(row) if at.lifetime is not None and at.tokens >= self._minimum(model)
        ]
        if not points:
            return InputUsage(fresh=total)
        read = max(self._found(row, index, key=key, model=model, now=now) for index, _ in points)
        for _, at in points:
            assert at.lifetime is not None
            entry = (key, model, at.digest)
            self._expiry[entry] = max(now + at.lifetime, self._expiry.get(entry, 0.0))
        end = points[-1][1].tokens
        hour = max((at.tokens for _, at in points if at.lifetime == _LIFETIMES["1h"]), default=0)
        written_1h = max(0, hour - read)
        return InputUsage(
            fresh=total - end,
            read=read,
            written=end - read,
            written_1h=written_1h,
            written_5m=end - read - written_1h,
        )

    def _minimum(self, model: str) -> int:
        if isinstance(self.minimum, int):
            return self.minimum
        return self.minimum.get(model, DEFAULT_MINIMUM)

    def _found(self, row: list[_Position], index: int, *, key: str, model: str, now: float) -> int:
        """Tokens of the longest prefix still cached that the breakpoint at `index` can see."""
        for at in reversed(row[max(0, index - LOOK_BACK + 1) : index + 1]):
            if self._expiry.get((key, model, at.digest), 0.0) > now:
                return at.tokens
        return 0


def count_tokens(body: Json) -> int:
    """Estimate all input tokens: a quarter of the UTF-8 bytes of each block, rounded up; deterministic."""
    row = _positions(body)
    return row[-1].tokens if row else 0


def text_tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter of its UTF-8 bytes, rounded up."""
    return math.ceil(len(text.encode()) / 4)


def _positions(body: Json) -> list[_Position]:
    row: list[_Position] = []
    running, tokens = hashlib.sha256(), 0
    for part, block, cached in _parts(body):
        if part != "seed":
            tokens += _block_tokens(block)
        running.update(part.encode() + b"\0" + _bytes(block) + b"\0")
        if part == "seed":
            continue
        lifetime = _LIFETIMES[cached.get("ttl", "5m")] if cached else None
        row.append(_Position(digest=running.digest(), tokens=tokens, lifetime=lifetime))
    top = body.get("cache_control")
    if top and row:
        last = row[-1]
        row[-1] = _Position(digest=last.digest, tokens=last.tokens, lifetime=_LIFETIMES[top.get("ttl", "5m")])
    return row


def _parts(body: Json) -> Iterator[tuple[str, Json, Json | None]]:
    """Blocks in the API's order, with the settings between them that a cached prefix also depends on."""
    for tool in body.get("tools") or ():
        yield "tool", _bare(tool), tool.get("cache_control")
    yield "seed", {"format": (body.get("output_config") or {}).get("format")}, None
    for block in blocks_of(body.get("system")):
        yield "system", _bare(block), block.get("cache_control")
    yield "seed", {"tool_choice": body.get("tool_choice"), "thinking": body.get("thinking")}, None
    for message in body["messages"]:
        if message["content"] == "":
            continue
        for block in blocks_of(message["content"]):
            yield message["role"], _bare(block), _breakpoint(block)


def _breakpoint(block: Json) -> Json | None:
    """A breakpoint within a tool result counts for the whole result."""
    inner = block.get("content") if block["type"] == "tool_result" else None
    points = [part["cache_control"] for part in blocks_of(inner) if part.get("cache_control")]
    own: Json | None = block.get("cache_control")
    return own or (points[-1] if points else None)


def _bare(block: Json) -> Json:
    bare = {name: value for name, value in block.items() if name != "cache_control"}
    if block.get("type") == "tool_result" and "content" in block:
        bare["content"] = [_bare(part) for part in blocks_of(block["content"])]
    return bare


def _bytes(block: Json) -> bytes:
    return json.dumps(block, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _block_tokens(block: Json) -> int:
    if block.get("type") == "image":
        return _IMAGE_TOKENS
    return math.ceil(len(_bytes(block)) / 4)
