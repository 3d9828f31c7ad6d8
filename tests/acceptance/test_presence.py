"""What people see of the bot between their message and its answer, over HTTP, on both platforms."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.llm.standin.answers import Answer, Failure, ToolCall
from gateway.llm.standin.request import Conversation
from tests.acceptance.stage import Place, SlackPlace, TelegramPlace, World, long_text, plain_text

pytestmark = pytest.mark.timeout(180)  # seconds, for a machine that is busy with other things

PLACES = ("private", "group", "thread", "dm")
AGENT = "---\nname: gardener\ndescription: Knows plants\ntools: [read]\n---\n\nYou are the gardener."


class Gate:
    """Scripts the model: what it says to a question comes when the test lets it."""

    def __init__(self, world: World) -> None:
        self.world, self.reached, self.open = world, asyncio.Event(), asyncio.Event()

    def before(self, answer: Answer | Failure, when: Callable[[dict[str, Any]], bool]) -> None:
        async def gated(_: dict[str, Any]) -> Answer | Failure:
            self.reached.set()
            await self.open.wait()
            return answer

        self.world.model.script(gated, when=when)

    def ask(self, place: Place, answer: Answer | Failure | None = None) -> str:
        """Ask something whose answer waits at the gate."""
        marker = self.world.ask(place)
        self.before(answer or Answer(text=plain_text(marker)), asks(marker))
        return marker


def asks(marker: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: marker in Conversation.of(body).prompt


def signs(place: TelegramPlace | SlackPlace) -> list[str]:
    """Return the words or marks that have said, in this conversation, that the bot is at work."""
    if isinstance(place, TelegramPlace):
        calls = [call for call in place.standin.calls if call.params.get("chat_id") == place.chat.id]
        return [call.params["action"] for call in calls if call.method == "sendChatAction"]
    made = [call for call in place.standin.calls if place.channel in call.arguments.values()]
    words = [call.arguments["status"] for call in made if call.method == "assistant.threads.setStatus"]
    return words + ["eyes" for call in made if call.method == "reactions.add"]


def left(place: TelegramPlace | SlackPlace) -> list[str]:
    """Return what still says that the bot is at work."""
    if isinstance(place, TelegramPlace):  # typing ends by itself
        return marks(place)
    return marks(place) + [words for (channel, _), words in place.standin.statuses.items() if channel == place.channel]


def marks(place: TelegramPlace | SlackPlace) -> list[str]:
    """Return the marks on people's messages."""
    if isinstance(place, TelegramPlace):
        return [emoji for shown in place.standin.messages(place.chat) for emoji in shown.reactions]
    return [name for shown in place.standin.messages(place.channel, place.thread) for name in shown.reactions]


def open_place(world: World, kind: str) -> TelegramPlace | SlackPlace:
    place: TelegramPlace | SlackPlace = getattr(world, kind)()
    return place


@pytest.mark.parametrize("kind", PLACES)
async def test_a_sign_is_there_before_the_model_has_said_anything_and_gone_with_the_answer(
    running: World, kind: str
) -> None:
    place, gate = open_place(running, kind), Gate(running)
    marker = gate.ask(place)
    await running.wait(lambda: signs(place), "no sign")
    assert not gate.open.is_set()
    assert place.heard() == []
    gate.open.set()
    await running.answered(place, marker)
    await running.wait(lambda: not left(place), f"left: {left(place)}")


@pytest.mark.parametrize("kind", ["private", "group", "thread"])
async def test_a_message_that_must_wait_for_another_is_marked_until_it_is_answered(running: World, kind: str) -> None:
    place, gate = open_place(running, kind), Gate(running)
    first = gate.ask(place)
    await running.wait(gate.reached.is_set, "the turn did not begin")
    assert marks(place) == []
    second = running.ask(place)
    await running.wait(lambda: marks(place), "the second message is not marked")
    assert len(marks(place)) == 1
    gate.open.set()
    await running.answered(place, first, second)
    await running.wait(lambda: not left(place), f"left: {left(place)}")


@pytest.mark.parametrize("how", ["stopped", "refused", "away"])
async def test_the_status_is_cleared_however_a_turn_ends(running: World, how: str) -> None:
    place, gate = running.thread(), Gate(running)
    gate.ask(place, {"refused": Failure(status=400), "away": Failure(status=529)}.get(how))
    await running.wait(lambda: signs(place) and gate.reached.is_set(), "no sign")
    assert left(place) == ["thinking…"]
    if how == "stopped":
        place.say("/stop")
    gate.open.set()
    await running.wait(place.heard, "nothing was said")
    await running.wait(lambda: not left(place), f"left: {left(place)}")
    running.asked.pop()


async def test_an_agent_at_work_is_told_in_words_and_shown_as_a_step(running: World) -> None:
    (running.home / "agents").mkdir(exist_ok=True)
    (running.home / "agents" / "gardener.md").write_text(AGENT)
    place, agent, last = running.thread(), Gate(running), Gate(running)
    told = "I ask the gardener what grows in bed 3, and then I tell you."
    call = ToolCall(name="Agent", input={"name": "gardener", "prompt": "What grows in bed 3?"})
    marker = running.ask(place)
    running.model.script(Answer(text=told, tools=[call], chunk_delay=0.5), when=asks(marker))
    agent.before(Answer(text="Tomatoes."), lambda body: "You are the gardener" in Conversation.of(body).system)
    last.before(Answer(text=plain_text(marker)), lambda body: "Tomatoes." in str(body["messages"][-1]))
    await running.wait(lambda: "letting an agent work on it…" in signs(place), "nothing is said of the agent")
    await running.wait(lambda: steps(place) == [("Letting an agent work on it", "in_progress")], "no step")
    agent.open.set()
    await running.wait(lambda: steps(place) == [("Letting an agent work on it", "complete")], "the step has no end")
    last.open.set()
    await running.answered(place, marker)
    await running.wait(lambda: not left(place), f"left: {left(place)}")


def steps(place: SlackPlace) -> list[tuple[str, str]]:
    shown = place.standin.messages(place.channel, place.thread)
    return [(task["title"], task["status"]) for message in shown for task in message.tasks]


@pytest.mark.parametrize("kind", ["private", "thread"])
async def test_a_footer_stands_below_the_last_part_and_the_model_never_sees_it(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path / "home", REVERIE_REPLY__FOOTER="true")
    async with world.served():
        await world.gateway.start()
        place = open_place(world, kind)
        marker = world.ask(place, "a long one")
        await world.wait(lambda: " tokens · " in "".join(place.heard()), "no footer")
        *before, last = place.heard()
        assert len(before) >= 2
        assert not any(" tokens · " in part for part in before)
        answer, _, footer = last.rpartition("\n")
        assert answer.endswith(long_text(marker)[-20:])
        assert re.fullmatch(r"claude-sonnet-5-5 · [\d,]+ tokens · 0 notes · \d+\.\d s", footer)
        again = world.ask(place)
        await world.wait(lambda: plain_text(again) in place.heard()[-1], "no second answer")
    assert not any(" tokens · ".encode() in request.raw for request in world.model.requests)
    assert any(marker.encode() in request.raw and again.encode() in request.raw for request in world.model.requests)
