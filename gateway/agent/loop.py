"""The agent loop: stream the model, run the tools it asks for, until it answers."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Protocol

from gateway.agent.events import Event, Finished, TextSoFar, ToolEnded, ToolStarted
from gateway.agent.prompt import with_breakpoints
from gateway.errors import Declined
from gateway.history import Line
from gateway.llm.client import Reply, Request, Tokens
from gateway.tools.toolbox import Toolbox
from memory.ports import Outcome
from memory.prompt import fenced
from memory.prompt_sections import REMINDER_TAG

EMPTY_ANSWER = "(The model gave an empty answer.)"
_CAPPED = "(I stopped here: this took more steps than I may take for one message.)"
_TOO_LONG = "(I stopped here: the answer has reached the length that I may give it.)"
_GO_ON = fenced("Your answer was paused. Go on where it ends.", REMINDER_TAG)
_OUT_OF_ROOM = ("max_tokens", "model_context_window_exceeded")


class Streams(Protocol):
    """What the loop asks of the model; see `gateway.llm.client.Model`."""

    def stream(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        """Yield pieces of text as they come, and the finished reply last."""


Told = Callable[[TextSoFar | ToolStarted | ToolEnded], Awaitable[None]]
"""Hears of what happens before the end."""


async def _nobody(event: TextSoFar | ToolStarted | ToolEnded) -> None:
    """Tell nobody."""


async def run(model: Streams, request: Request, toolbox: Toolbox, *, max_rounds: int) -> AsyncGenerator[Event, None]:
    """Run to the answer, or to `max_rounds` requests; yields `Finished` last. Raises `ModelFault` if a request fails.

    An answer that was cut off by a token limit counts as `TURN_CAP` and says so; one that the model declines to give
    is a `ModelRefused`, and nothing of it is kept. Whoever stops listening early closes this generator.
    """
    transcript = _Transcript(request)
    for turn in range(1, max_rounds + 1):
        reply: Reply | None = None
        piece = ""
        async with aclosing(model.stream(transcript.request())) as stream:
            async for event in stream:
                if isinstance(event, Reply):
                    reply = event
                else:
                    piece += event
                    yield TextSoFar(text=transcript.text_with(piece))
        assert reply is not None
        if reply.stop_reason == "refusal":
            raise Declined("the model declines to answer it")
        calls = reply.tool_calls if reply.stop_reason == "tool_use" else []
        transcript.answered(reply, keep_tools=bool(calls))
        if reply.stop_reason == "pause_turn":
            transcript.paused()
        elif not calls:
            outcome = Outcome.TURN_CAP if reply.stop_reason in _OUT_OF_ROOM else Outcome.COMPLETED
            yield transcript.finished(outcome, turns=turn)
            return
        results = []
        for number, call in enumerate(calls, 1):
            name, named = call["name"], f"{turn}.{number}"  # the model's own ids are not unique with every server
            yield ToolStarted(name=name, call=named)
            results.append(result := await _result(toolbox, call))
            yield ToolEnded(name=name, call=named, failed="is_error" in result, turn=turn)
        transcript.ran(results)
    yield transcript.capped(turns=max_rounds)


async def to_the_end(
    model: Streams, request: Request, toolbox: Toolbox, *, max_rounds: int, told: Told = _nobody
) -> Finished:
    """Return how it ended, after `told` has heard of everything before; see `run`."""
    async with aclosing(run(model, request, toolbox, max_rounds=max_rounds)) as events:
        async for event in events:
            if isinstance(event, Finished):
                return event
            await told(event)
    raise AssertionError("the loop ends with Finished")


async def _result(toolbox: Toolbox, call: dict[str, Any]) -> dict[str, Any]:
    outcome = await toolbox.call(call["name"], call["input"])
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": outcome.content}
    return result | ({"is_error": True} if outcome.is_error else {})


class _Transcript:
    """The request as it grows, and what of it is new."""

    def __init__(self, request: Request) -> None:
        self._base = request
        self._lines: list[Line] = []
        self._texts: list[str] = []
        self._tokens = Tokens()
        self._context = 0

    def request(self) -> Request:
        messages = [
            *self._base.messages,
            *({"role": line.role, "content": line.content} for line in self._lines),
        ]
        system, marked = with_breakpoints(self._base.system, messages, stable=len(self._base.messages) - 1)
        return Request(
            model=self._base.model,
            max_tokens=self._base.max_tokens,
            system=system,
            tools=self._base.tools,
            messages=marked,
        )

    def text_with(self, piece: str) -> str:
        return "\n\n".join([*self._texts, piece])

    def answered(self, reply: Reply, *, keep_tools: bool) -> None:
        # A tool call that was cut off by the token limit can't be run, and must not stand there without its result.
        content = [block for block in reply.content if keep_tools or block["type"] != "tool_use"]
        if reply.stop_reason in _OUT_OF_ROOM:
            content.append({"type": "text", "text": f"\n\n{_TOO_LONG}" if reply.text else _TOO_LONG})
        elif not any(block["type"] in ("text", "tool_use") for block in content):
            content.append({"type": "text", "text": EMPTY_ANSWER})
        said = "".join(block["text"] for block in content if block["type"] == "text")
        self._lines.append(Line(role="assistant", content=content, said=said))
        if said:
            self._texts.append(said)
        self._tokens += reply.tokens
        self._context = reply.tokens.total

    def paused(self) -> None:
        # No model of today takes a request that ends with its own unfinished answer.
        self._lines.append(Line(role="user", content=[{"type": "text", "text": _GO_ON}]))

    def ran(self, results: list[dict[str, Any]]) -> None:
        if results:
            self._lines.append(Line(role="user", content=results))

    def capped(self, *, turns: int) -> Finished:
        self._lines.append(Line(role="assistant", content=[{"type": "text", "text": _CAPPED}], said=_CAPPED))
        self._texts.append(_CAPPED)
        return self.finished(Outcome.TURN_CAP, turns=turns)

    def finished(self, outcome: Outcome, *, turns: int) -> Finished:
        return Finished(
            outcome=outcome,
            text="\n\n".join(self._texts),
            lines=tuple(self._lines),
            tokens=self._tokens,
            turns=turns,
            context=self._context,
        )
