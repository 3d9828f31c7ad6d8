"""SIGKILL at each step of a message's walk loses nothing and answers nothing twice."""

import asyncio
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from gateway.llm.standin.request import Conversation
from gateway.outbox import MAYBE_TWICE
from tests.acceptance.stage import Place, World, plain_text, slow_text
from tests.acceptance.wire import Moment

pytestmark = pytest.mark.timeout(180)  # seconds, for a machine that is busy with other things

ARRIVED, ACTED, STREAMING = Moment.ARRIVED, Moment.ACTED, Moment.STREAMING


@dataclass(frozen=True, kw_only=True)
class Step:
    """Where a conversation stands when the process dies."""

    place: str
    server: str
    path: str
    moment: Moment
    nth: int = 1
    lost: bool = False
    how: str = "please"
    plain: int = 1
    """Answers without a label that must be visible in the end."""
    labelled: int = 0


def telegram(place: str, method: str, moment: Moment, **more: object) -> Step:
    return Step(place=place, server="telegram", path=f"/{method}", moment=moment, **more)  # type: ignore[arg-type]


def slack(place: str, path: str, moment: Moment, **more: object) -> Step:
    return Step(place=place, server="slack", path=f"/{path}", moment=moment, **more)  # type: ignore[arg-type]


def model(place: str, moment: Moment, **more: object) -> Step:
    return Step(place=place, server="model", path="/v1/messages", moment=moment, **more)  # type: ignore[arg-type]


STEPS = {
    "what the platform has sent is not read": [
        telegram("private", "getUpdates", ACTED),
        slack("thread", "link/", ACTED),
    ],
    "it is stored and not acknowledged": [
        telegram("private", "getUpdates", ARRIVED, lost=True),
        slack("thread", "link/", ARRIVED, lost=True),
    ],
    "the model has been asked": [model("private", ARRIVED, lost=True), model("dm", ARRIVED, lost=True)],
    "the model is in the middle of its answer": [
        model("private", STREAMING, nth=20, how="slowly"),
        model("private", STREAMING, nth=20, how="slowly"),
    ],
    "the post has arrived and is carried out": [
        telegram("private", "sendMessage", ACTED, labelled=1),
        slack("thread", "chat.postMessage", ACTED),
    ],
    "the post has arrived and is not carried out": [
        telegram("private", "sendMessage", ARRIVED, lost=True, plain=0, labelled=1),
        slack("thread", "chat.postMessage", ARRIVED, lost=True),
    ],
    "the live message is posted": [
        telegram("group", "sendMessage", ACTED, how="slowly", plain=0, labelled=1),
        slack("thread", "chat.startStream", ACTED, how="slowly"),
        slack("dm", "chat.postMessage", ACTED, how="slowly"),
    ],
    "the live message grows": [
        telegram("group", "editMessageText", ARRIVED, how="slowly"),
        slack("thread", "chat.appendStream", ARRIVED, nth=2, how="slowly"),
    ],
    "the final text takes the live one's place": [
        telegram("group", "editMessageText", ACTED, nth=2, how="slowly"),
        slack("thread", "chat.update", ACTED, how="slowly"),
    ],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
async def test_a_message_is_answered_once_though_the_process_is_killed_when(running: World, steps: list[Step]) -> None:
    places: list[Place] = [getattr(running, step.place)() for step in steps]
    holds = [running.hold(s.server, s.path, s.moment, nth=s.nth, lost=s.lost) for s in steps]
    markers = [running.ask(place, step.how) for place, step in zip(places, steps, strict=True)]
    await running.kill_at(*holds)
    for place, marker in zip(places, markers, strict=True):
        await running.answered(place, marker)
    after = [running.ask(place) for place in places]
    for place, marker in zip(places, after, strict=True):
        await running.answered(place, marker)
    assert running.faults() == []
    for place, marker, step in zip(places, markers, steps, strict=True):
        text = slow_text(marker) if step.how == "slowly" else plain_text(marker)
        posts = [post for post in place.heard() if marker in post]
        assert posts.count(text) == step.plain
        assert len(posts) == step.plain + step.labelled


async def test_the_parts_of_a_long_answer_are_all_there_once_though_it_is_killed_between_two_of_them(
    running: World,
) -> None:
    private, thread = running.private(), running.thread()
    places: tuple[Place, ...] = (private, thread)
    holds = [
        running.hold("telegram", "/sendMessage", ARRIVED, nth=2, lost=True),
        running.hold("slack", "/chat.postMessage", ACTED, nth=2),
    ]
    asked = [(place, running.ask(place, "a long one")) for place in places]
    await running.kill_at(*holds)
    for place, marker in asked:
        await running.answered(place, marker)
        said = "\n".join(place.heard())
        assert [said.count(f"{marker} line {n}:") for n in range(1, 61)] == [1] * 60
        assert [said.count(f'"{marker} code {n}"') for n in range(1, 41)] == [1] * 40
    assert [MAYBE_TWICE in part for part in private.heard()].count(True) == 1
    assert not any(MAYBE_TWICE in part for part in thread.heard())


def postponed(world: World) -> int:
    """Return how many posts are stored as to be tried again."""
    with closing(sqlite3.connect(f"file:{world.home}/reverie.db?mode=ro", uri=True)) as database:
        query = "SELECT count(*) FROM outbox WHERE state = 'pending' AND error != ''"
        return int(database.execute(query).fetchone()[0])


async def test_an_answer_that_waits_for_its_turn_is_delivered_without_a_label_after_a_kill(running: World) -> None:
    places: tuple[Place, ...] = (running.private(), running.thread())
    running.telegram.fail("sendMessage", parameters={"retry_after": 3})
    running.slack.fail("chat.postMessage", retry_after=3)
    markers = [running.ask(place) for place in places]
    await running.wait(lambda: postponed(running) == 2, "not asked to wait")
    await running.kill_at()
    for place, marker in zip(places, markers, strict=True):
        await running.answered(place, marker)
        assert [post for post in place.heard() if marker in post] == [plain_text(marker)]


async def test_extractions_that_are_killed_leave_each_note_complete_and_once(running: World) -> None:
    """Killed before it reads, before it writes, and after it has written."""
    places = [running.private() for _ in range(3)]
    stuck, dead = {number: asyncio.Event() for number in range(3)}, asyncio.Event()

    def is_at(number: int, body: dict[str, Any]) -> bool:
        talk = Conversation.of(body)
        mine = f"colour number {number}" in str(body["messages"])
        return mine and "memory extraction" in talk.prompt.casefold() and len(talk.rounds) == number

    async def hang(number: int, _: object) -> str:
        stuck[number].set()
        await dead.wait()
        return "too late"

    for number in stuck:
        running.model.script(partial(hang, number), when=partial(is_at, number))
    markers = [running.ask(place, f"please. I prefer the colour number {n}.") for n, place in enumerate(places)]
    await running.wait(lambda: all(event.is_set() for event in stuck.values()), "the extractions came not so far")
    running.gateway.kill()
    await running.gateway.killed()
    dead.set()
    await running.gateway.start()
    for number, (place, marker) in enumerate(zip(places, markers, strict=True)):
        await running.wait(lambda place=place: running.notes(place), "no note was written", within=40)  # type: ignore[misc]
        await running.extracted(place)
        (note,) = running.notes(place)
        assert note.read_text().endswith(f"I prefer the colour number {number}.\n")
        assert note.with_name("MEMORY.md").read_text().count(note.name) == 1
        assert len([post for post in place.heard() if marker in post]) == 1


async def test_a_gateway_that_is_asked_to_stop_delivers_what_it_is_working_on(running: World) -> None:
    places: tuple[Place, ...] = (running.private(), running.group(), running.thread())
    markers = [running.ask(place, "slowly") for place in places]
    await running.wait(lambda: running.working_on(*markers), "the turns did not begin")
    assert await running.gateway.stop() == 0
    for place, marker in zip(places, markers, strict=True):
        assert [post for post in place.heard() if marker in post] == [slow_text(marker)]
    late = [(place, running.ask(place)) for place in places]
    await running.gateway.start()
    for place, marker in late:
        await running.answered(place, marker)
    assert running.faults() == []


async def test_random_kills_lose_nothing_and_answer_nothing_twice(running: World) -> None:
    dice = random.Random(2)
    telegram_places = [running.private(), running.private(), running.group()]
    places: list[Place] = [*telegram_places, running.thread(), running.thread(), running.dm()]
    begin = len(running.asked)
    kills = 4
    for kill in range(kills):
        for place in dice.choices(places, k=7):
            running.ask(place, dice.choice(["please", "please", "slowly", "please. I prefer tea."]))
            await asyncio.sleep(dice.uniform(0, 0.1))
        await asyncio.sleep(dice.uniform(0, 1.2))
        running.gateway.kill()
        await running.gateway.killed()
        if kill < kills - 1:
            await running.gateway.launch()
            await asyncio.sleep(dice.uniform(1.8, 3.0))  # it may die again while it starts
    await running.gateway.start()
    for place, marker in running.asked[begin:]:
        await running.answered(place, marker)
    assert running.faults(repeats=kills) == []
