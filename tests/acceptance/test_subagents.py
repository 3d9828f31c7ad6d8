"""Sub-agents, through the gateway: who is set to work, with which memory, seeing what."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.llm.standin.answers import Answer
from gateway.llm.standin.request import Conversation
from tests.acceptance.whole import ANN, BOB, Speaker, Whole, calls, note, whole

GROUP = Speaker(user="42", chat="-100")
GARDENER = """\
---
name: gardener
description: Knows plants
tools: [read]
memory: user
---

You are the gardener. Say what grows.
"""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    agents = tmp_path / "home" / "agents"
    agents.mkdir(parents=True)
    (agents / "gardener.md").write_text(GARDENER)
    async with whole(tmp_path / "home") as running:
        yield running


def of_agent(running: Whole) -> list[Conversation]:
    found = [Conversation.of(request.body) for request in running.model.requests]
    return [talk for talk in found if "You are the gardener" in talk.system]


def memory_of(running: Whole, who: Speaker) -> Path:
    return running.core.homes.home(who.principal) / "agent-memory" / "gardener"


async def ask_the_gardener(running: Whole, who: Speaker, *answers: Answer) -> str:
    running.then(calls(("Agent", {"name": "gardener", "prompt": "What grows in bed 3?"})), Answer(text="As it says."))
    for answer in answers:
        running.model.script(answer, when=lambda body: "You are the gardener" in Conversation.of(body).system)
    return await running.tell(who, "ask the gardener about bed 3")


async def test_an_agent_works_apart_and_its_report_goes_back_as_the_result(running: Whole) -> None:
    await running.remember(ANN, "Ann's private canary")
    assert await ask_the_gardener(running, ANN, Answer(text="Tomatoes grow there.")) == "As it says."
    (agent,) = of_agent(running)
    assert "ask the gardener" not in str(agent.body["messages"])
    assert "canary" not in str(agent.body)
    assert b"Tomatoes grow there." in running.chats[-1].raw


async def test_what_an_agent_learns_for_one_person_no_other_ever_sees(running: Whole) -> None:
    learnt = calls(("write", {"file_path": "soil.md", "content": note("canary: Ann's soil is sour")}))
    await ask_the_gardener(running, ANN, learnt, Answer(text="Noted."))
    assert (memory_of(running, ANN) / "soil.md").exists()
    for who in (BOB, GROUP):
        before = len(running.model.requests)
        await ask_the_gardener(running, who, Answer(text="Nothing known."))
        assert not any(b"canary" in request.raw for request in running.model.requests[before:])
    await ask_the_gardener(running, ANN, Answer(text="Sour."))
    assert "Ann's soil is sour" in of_agent(running)[-1].system


async def test_an_agent_reaches_neither_the_main_memory_nor_another_agent(running: Whole) -> None:
    secret = await running.remember(ANN, "Ann's private canary")
    grab = calls(
        ("read", {"file_path": str(secret)}),
        ("write", {"file_path": str(secret.with_name("x.md")), "content": note("mine now")}),
        ("Agent", {"name": "gardener", "prompt": "again"}),
    )
    await ask_the_gardener(running, ANN, grab, Answer(text="I could not."))
    results = of_agent(running)[-1].body["messages"][-1]["content"]
    assert [result.get("is_error", False) for result in results] == [True, True, True]
    assert "canary" not in str(results)
    assert not secret.with_name("x.md").exists()


async def test_a_mention_recalls_from_the_agents_memory_alone(running: Whole) -> None:
    await running.remember(ANN, "The main note on sour soil")
    folder = memory_of(running, ANN)
    folder.mkdir(parents=True)
    (folder / "soil.md").write_text(note("The gardener's note on sour soil"))
    await running.tell(ANN, "@gardener what of the sour soil?")
    assert b"The gardener's note on sour soil" in running.chats[-1].raw
    tail = str(running.chats[-1].body["messages"])
    assert "The main note on sour soil" not in tail
