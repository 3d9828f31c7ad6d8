"""The one model client: the anthropic SDK, its faults translated once."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import anthropic
import httpx2
from anthropic import AsyncAnthropic
from anthropic.lib.streaming import AsyncMessageStream

from gateway.errors import ModelRefused, ModelUnavailable, TooLong
from gateway.llm.kept_files import KeptFiles, holds_files
from gateway.settings import ModelSettings

_OVERLONG = re.compile(r"too long|too many tokens|context (?:length|window)|exceeds? .*(?:tokens|limit)", re.IGNORECASE)
"""How servers say that a request is too long; the API itself says "prompt is too long: N tokens > M maximum"."""

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]{1,256}")
_MANY = 10**12  # no count of tokens is greater; the database could not hold what a broken server may say
_LONGEST_REASON = 300
_CHARACTERS_PER_TOKEN = 4  # of English; other scripts have fewer, so that what is counted is not too much

# What a stored assistant message keeps of a block: exactly what a later request may hold of it.
_KEPT = {
    "text": ("type", "text"),
    "tool_use": ("type", "id", "name", "input"),
    "thinking": ("type", "thinking", "signature"),
    "redacted_thinking": ("type", "data"),
}
# Errors that the same request meets again.
_FOR_GOOD = ("invalid_request_error", "request_too_large")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """Tokens of one or more calls; the three kinds of input add up to the whole input."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """All of them together."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request to the Messages API. `tools`, `system` and `messages`, in this order, are the cached prefix."""

    model: str
    max_tokens: int
    system: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    output_schema: Mapping[str, Any] | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the SDK's keyword arguments."""
        schema = self.output_schema
        return (
            {
                "model": self.model,
                "max_tokens": self.max_tokens,
                "system": self.system,
                "messages": self.messages,
            }
            | ({"tools": self.tools} if self.tools else {})
            | ({"output_config": {"format": {"type": "json_schema", "schema": dict(schema)}}} if schema else {})
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One finished message of the model: blocks as a later request repeats them."""

    content: list[dict[str, Any]]
    stop_reason: str
    tokens: Tokens

    @property
    def text(self) -> str:
        """The text blocks together."""
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The tools that the model wants run."""
        return [block for block in self.content if block["type"] == "tool_use"]


def _uncounted(tokens: Tokens) -> None:
    """Let go of them."""


class Model:
    """Asks the model. Every fault is a `ModelUnavailable` or a `ModelRefused`; half a stream counts as no answer."""

    def __init__(self, client: AsyncAnthropic, kept: KeptFiles | None = None) -> None:
        self._client, self._kept = client, kept

    async def stream(
        self, request: Request, *, broken_off: Callable[[Tokens], None] = _uncounted
    ) -> AsyncGenerator[str | Reply, None]:
        """Yield pieces of text as they come, and the finished reply last.

        Of an answer that does not come to its end, for whatever reason, `broken_off` is told the tokens first: what
        its beginning says, and for what was streamed a guess at the low end. It is not told of one that never began.
        """
        request = await self._whole(request)
        with _translated():
            async with self._client.messages.stream(**request.parameters()) as stream:
                characters = 0
                try:
                    async for event in stream:
                        characters += len(_piece(event))
                        if event.type == "text":
                            yield event.text
                    reply = _reply(await stream.get_final_message())
                except BaseException:
                    if (used := _used(stream, characters)).total:
                        broken_off(used)
                    raise
        yield reply

    async def ask(self, request: Request) -> Reply:
        """Return the whole reply at once; for side queries."""
        request = await self._whole(request)
        with _translated():
            message = await self._client.messages.create(**request.parameters())
        return _reply(message)

    async def _whole(self, request: Request) -> Request:
        if self._kept is None or not holds_files(request.messages):
            return request
        return replace(request, messages=await asyncio.to_thread(self._kept.filled, request.messages))


def connect(
    settings: ModelSettings, *, base_url: str | None = None, kept: KeptFiles | None = None
) -> AbstractAsyncContextManager[Model]:
    """Open the client, which keeps its connections until left. `base_url` overrides the settings' one.

    `kept` puts the files of a conversation into its requests.
    """
    return _connected(settings, base_url or settings.base_url, kept)


@asynccontextmanager
async def _connected(settings: ModelSettings, base_url: str | None, kept: KeptFiles | None) -> AsyncIterator[Model]:
    # A server of one's own often wants no key; the SDK refuses to start without one.
    key = settings.api_key.get_secret_value() if settings.api_key else "none"
    async with AsyncAnthropic(
        api_key=key, base_url=base_url, timeout=settings.timeout, max_retries=settings.retries
    ) as client:
        yield Model(client, kept)


def _reply(message: Any) -> Reply:
    """Read a finished message. What a later request could not repeat is refused here, before it is ever stored."""
    try:
        if message.stop_reason is None:
            raise ModelUnavailable("the model's answer ended early")
        blocks = [block.model_dump(mode="json") for block in message.content]
        content = [
            {key: block[key] for key in _KEPT[block["type"]]}
            for block in blocks
            if block["type"] in _KEPT and (block["type"] != "text" or block["text"].strip())
        ]
        _check_repeatable(content)
        return Reply(content=content, stop_reason=message.stop_reason, tokens=_tokens(message.usage))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelUnavailable(f"the model's answer is malformed ({type(error).__name__})") from error


def _check_repeatable(content: list[dict[str, Any]]) -> None:
    """Raise `ValueError` unless the API would take these blocks back as part of a transcript."""
    calls = [block for block in content if block["type"] == "tool_use"]
    for call in calls:
        named = _TOOL_NAME.fullmatch(call["name"]) and _TOOL_ID.fullmatch(call["id"])
        if not named or not isinstance(call["input"], dict):
            raise ValueError("a tool call is malformed")
    if len({call["id"] for call in calls}) != len(calls):
        raise ValueError("two tool calls have one id")
    if any(block["type"] == "thinking" and not block["signature"] for block in content):
        raise ValueError("a thinking block has no signature")


def _piece(event: Any) -> str:
    """Return what an event of a stream brings of the answer, as far as that is text."""
    kinds = {"text": "text", "thinking": "thinking", "input_json": "partial_json"}
    piece = getattr(event, kinds.get(event.type, ""), "")
    return piece if isinstance(piece, str) else ""


def _used(stream: AsyncMessageStream[Any], characters: int) -> Tokens:
    """Return what an answer that broke off has used, of which so many characters have come."""
    try:
        begun = _tokens(stream.current_message_snapshot.usage)
    except (AssertionError, AttributeError):  # not even its beginning has come
        return Tokens()
    return replace(begun, output=max(begun.output, characters // _CHARACTERS_PER_TOKEN))


def _tokens(usage: Any) -> Tokens:
    """Read the usage; servers of one's own leave parts of it out."""

    def number(name: str) -> int:
        value = getattr(usage, name, None)
        return min(value, _MANY) if isinstance(value, int) else 0

    return Tokens(
        input=number("input_tokens"),
        output=number("output_tokens"),
        cache_read=number("cache_read_input_tokens"),
        cache_write=number("cache_creation_input_tokens"),
    )


@contextmanager
def _translated():  # type: ignore[no-untyped-def]  # a generator, wrapped
    try:
        yield
    except anthropic.APIStatusError as error:
        raise _status(error) from error
    except anthropic.APITimeoutError as error:
        raise ModelUnavailable("the model did not answer in time") from error
    except anthropic.APIConnectionError as error:
        raise ModelUnavailable(f"the model can't be reached ({error.__cause__ or error})") from error
    except (
        httpx2.HTTPError,
        json.JSONDecodeError,
    ) as error:  # a stream that broke off or was corrupted midway
        raise ModelUnavailable(f"the model's answer broke off ({type(error).__name__})") from error
    except (
        anthropic.AnthropicError,
        AssertionError,
        AttributeError,
        KeyError,
        IndexError,
        TypeError,
        ValueError,
    ) as error:
        # Besides its own errors the SDK lets through what an odd answer makes it stumble over.
        raise ModelUnavailable(f"the model's answer could not be read ({type(error).__name__})") from error


def _status(error: anthropic.APIStatusError) -> ModelUnavailable | ModelRefused:
    reason, status = _reason(error), error.status_code
    if status == 200:  # the stream had begun when the server told of an error in it
        broken = f"the model's answer broke off ({reason})"
        return ModelRefused(broken) if error.type in _FOR_GOOD else ModelUnavailable(broken)
    if status in _FOR_THE_OPERATOR:
        cause, public = _FOR_THE_OPERATOR[status]
        return ModelUnavailable(f"{cause} ({reason})", public=f"{public}; its operator has to look")
    if status in (408, 409, 429) or status >= 500:
        return ModelUnavailable(f"the model is not available ({reason})", retry_after=_retry_after(error))
    too_long = status == 413 or (status == 400 and _OVERLONG.search(reason))
    return (TooLong if too_long else ModelRefused)(f"the model refuses this request ({reason})")


_REFUSED_KEY = (
    "the model server refuses our key; check ANTHROPIC_API_KEY",
    "the model's server refuses this gateway's key",
)
_FOR_THE_OPERATOR = {
    401: _REFUSED_KEY,
    402: ("the model server wants to be paid", "this gateway's account with the model is empty"),
    403: _REFUSED_KEY,
    404: (
        "the model server doesn't know what we ask for; check model.chat and ANTHROPIC_BASE_URL",
        "the model's server doesn't know the model that this gateway asks for",
    ),
}
"""What only the operator can mend, and messages wait for: the cause for the log, and in words for people."""


def _reason(error: anthropic.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    said = inner.get("message") if isinstance(inner, dict) else None
    status = "" if error.status_code == 200 else str(error.status_code)
    return ": ".join(part for part in (status, str(said or "")[:_LONGEST_REASON]) if part) or "no reason given"


def _retry_after(error: anthropic.APIStatusError) -> float | None:
    value = error.response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None
