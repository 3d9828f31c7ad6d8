import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from adapters.serving import serving
from gateway.agent import loop
from gateway.agent.events import Event, Finished, TextSoFar, ToolEnded, ToolStarted
from gateway.errors import ModelRefused, ModelUnavailable
from gateway.llm.client import Request, connect
from gateway.llm.standin.answers import Answer, Flaw, ToolCall
from gateway.llm.standin.server import ModelStandin, Scripted
from gateway.settings import ModelSettings
from gateway.tools.definitions import DEFINITIONS
from gateway.tools.toolbox import Toolbox
from memory.doubles import LocalLeases
from memory.notes import Notes
from memory.ports import Outcome, Rights
from memory.scope import Scope
from tests.waiting import HANGS, until

GLOB = ToolCall(name="glob", input={"pattern": "*.md"})
BAD = ToolCall(name="read", input={"file_path": "/etc/passwd"})


@dataclass(kw_only=True)
class Agent:
    """The loop over the stand-in; `run` returns the events."""

    model: Any
    standin: ModelStandin
    toolbox: Toolbox

    async def run(self, *answers: Scripted, rounds: int = 10) -> list[Event]:
        for answer in answers:
            self.standin.script(answer)
        asked = [{"role": "user", "content": [{"type": "text", "text": "What is there?"}]}]
        system = [{"type": "text", "text": "You help."}]
        request = Request(
            model="claude-sonnet-5-5", max_tokens=500, system=system, tools=list(DEFINITIONS), messages=asked
        )
        return [event async for event in loop.run(self.model, request, self.toolbox, max_rounds=rounds)]

    async def finish(self, *answers: Scripted, rounds: int = 10) -> Finished:
        last = (await self.run(*answers, rounds=rounds))[-1]
        assert isinstance(last, Finished)
        return last


@pytest.fixture
async def agent(make_scope: Callable[..., Scope], now: Any) -> AsyncIterator[Agent]:
    scope, standin = make_scope(), ModelStandin()
    toolbox = Toolbox(scope, Rights(read=scope.readable, write=()), Notes(leases=LocalLeases()), now)
    async with serving(standin.app) as url, connect(ModelSettings(retries=0, timeout=HANGS), base_url=url) as model:
        yield Agent(model=model, standin=standin, toolbox=toolbox)


async def test_text_grows_and_the_end_has_the_whole(agent: Agent) -> None:
    words = "An answer that is long enough to come in several pieces over the wire."
    events = await agent.run(words)
    grown = [event.text for event in events if isinstance(event, TextSoFar)]
    assert len(grown) > 1
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(grown))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.text, finished.outcome, finished.turns) == (words, Outcome.COMPLETED, 1)
    assert finished.tokens.output > 0


async def test_tools_run_in_order_and_their_results_go_back_paired(agent: Agent) -> None:
    events = await agent.run(Answer(text="Let me look.", tools=[GLOB, BAD]), "Nothing.")
    told = [(type(event), event.name) for event in events if isinstance(event, ToolStarted | ToolEnded)]
    assert told == [(ToolStarted, "glob"), (ToolEnded, "glob"), (ToolStarted, "read"), (ToolEnded, "read")]
    ended = [event for event in events if isinstance(event, ToolEnded)]
    assert [(event.call, event.failed) for event in ended] == [("1.1", False), ("1.2", True)]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.text == "Let me look.\n\nNothing."
    assert [line.role for line in finished.lines] == ["assistant", "user", "assistant"]
    assert [line.said for line in finished.lines] == ["Let me look.", "", "Nothing."]
    assert [bool(result.get("is_error")) for result in finished.lines[1].content] == [False, True]


async def test_an_empty_answer_is_called_so(agent: Agent) -> None:
    finished = await agent.finish(Answer(text=""))
    assert finished.text == loop.EMPTY_ANSWER
    assert finished.lines[0].content == [{"type": "text", "text": loop.EMPTY_ANSWER}]


async def test_too_many_rounds_end_with_a_word_and_a_transcript_that_can_go_on(agent: Agent) -> None:
    finished = await agent.finish(*[Answer(tools=[GLOB])] * 3, rounds=3)
    assert (finished.outcome, finished.turns) == (Outcome.TURN_CAP, 3)
    assert "more steps" in finished.text
    assert finished.lines[-1].role == "assistant"


async def test_half_a_tool_call_is_not_run_and_the_person_hears_that_it_was_cut(agent: Agent) -> None:
    finished = await agent.finish(Answer(text="I write", tools=[GLOB], stop_reason="max_tokens"))
    assert [block["type"] for block in finished.lines[0].content] == ["text", "text"]
    assert finished.text == f"I write\n\n{loop._TOO_LONG}"
    assert finished.outcome is Outcome.TURN_CAP


async def test_half_a_tool_call_alone_says_only_that(agent: Agent) -> None:
    finished = await agent.finish(Answer(tools=[GLOB], stop_reason="max_tokens"))
    assert finished.text == loop._TOO_LONG


async def test_a_refusal_is_a_fault_and_nothing_of_it_is_an_answer(agent: Agent) -> None:
    with pytest.raises(ModelRefused, match="declines"):
        await agent.run(Answer(text="Well, first you", stop_reason="refusal"))


async def test_a_paused_turn_goes_on(agent: Agent) -> None:
    finished = await agent.finish(Answer(text="First,", stop_reason="pause_turn"), "then second.")
    assert (finished.outcome, finished.text) == (Outcome.COMPLETED, "First,\n\nthen second.")
    assert [line.role for line in finished.lines] == ["assistant", "user", "assistant"]


@pytest.mark.parametrize("flaw", [Flaw.DROP, Flaw.CORRUPT, Flaw.EARLY_END, Flaw.ERROR])
async def test_a_stream_that_breaks_after_tools_have_run_is_no_answer(agent: Agent, flaw: Flaw) -> None:
    broken = Answer(text="An answer that is long enough to come in several pieces.", flaw=flaw, flaw_after=2)
    with pytest.raises(ModelUnavailable):
        await agent.run(Answer(tools=[GLOB]), broken)


async def test_whoever_stops_listening_ends_the_request(agent: Agent) -> None:
    agent.standin.script(Answer(text="word " * 200, chunk_delay=0.05))
    request = Request(
        model="claude-sonnet-5-5",
        max_tokens=500,
        system=[],
        tools=[],
        messages=[{"role": "user", "content": [{"type": "text", "text": "Go on."}]}],
    )
    events = loop.run(agent.model, request, agent.toolbox, max_rounds=1)
    async for _ in events:
        break
    await events.aclose()
    await until(lambda: agent.standin.requests[-1].outcome == "disconnected")


async def test_never_more_than_four_marks_and_the_two_newest_requests_end_at_one(agent: Agent) -> None:
    await agent.run(*[Answer(tools=[GLOB])] * 6, "Done.", rounds=10)
    for request in agent.standin.requests:
        assert request.raw.count(b"cache_control") <= 4
    marked = [
        [index for index, message in enumerate(request.body["messages"]) if "cache_control" in str(message)]
        for request in agent.standin.requests
    ]
    assert marked == [[0], [0, 2], [0, 2, 4], [0, 4, 6], [0, 6, 8], [0, 8, 10], [0, 10, 12]]
