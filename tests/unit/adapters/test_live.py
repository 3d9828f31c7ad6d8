"""The loop of every live answer, on surfaces of the test's own."""

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import anyio
import pytest

from adapters.base import Live
from adapters.errors import AdapterError, Permanent, Transient, Unsure
from adapters.live import LiveText
from adapters.text import slack, telegram
from tests.waiting import HANGS, until


class Wall:
    """A surface that keeps what it shows; `faults` are used up one per `put`, `gate` holds each."""

    message_id = "7"

    def __init__(self, *faults: AdapterError, room: int = 99) -> None:
        self.faults, self.room = list(faults), room
        self.tried: list[str] = []
        self.shown: list[str] = []
        self.at: list[float] = []
        self.finished = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def put(self, markdown: str) -> bool:
        self.tried.append(markdown)
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.shown.append(markdown)
        self.at.append(asyncio.get_running_loop().time())
        return len(self.shown) < self.room

    async def finish(self) -> None:
        self.finished += 1


def live_on(wall: Wall, *, every: float = 0.0, last_word_within: float = 5.0) -> LiveText:
    return LiveText(wall, every=every, last_word_within=last_word_within)


async def test_it_is_a_live_answer() -> None:
    live: Live = live_on(Wall())
    assert live.message_id == "7"
    await live.close()


async def test_only_the_newest_text_is_shown_and_never_too_soon() -> None:
    wall = Wall()
    live = live_on(wall, every=0.1)
    for number in range(20):
        await live.show(f"word {number}")
        await asyncio.sleep(0.005)
    await until(lambda: wall.shown[-1:] == ["word 19"])
    await live.close()
    assert all(later - earlier > 0.099 for earlier, later in pairwise(wall.at))


async def test_blank_text_is_not_shown() -> None:
    wall = Wall()
    live = live_on(wall)
    await live.show(" \n")
    await asyncio.sleep(0.02)
    await live.show("words")
    await until(lambda: wall.shown == ["words"])
    await live.close()


@pytest.mark.parametrize("fault", [Transient("busy", retry_after=0.05), Transient("away")])
async def test_what_was_refused_for_now_is_shown_later_unasked(fault: Transient) -> None:
    wall = Wall(fault)
    live = live_on(wall)
    await live.show("words")
    await until(lambda: wall.shown == ["words"])
    await live.close()


async def test_a_lost_answer_ends_nothing() -> None:
    wall = Wall(Unsure("lost"))
    live = live_on(wall)
    await live.show("one")
    await until(lambda: wall.tried == ["one"])
    await live.show("two")
    await until(lambda: wall.shown == ["two"])
    await live.close()


async def test_after_a_refusal_for_good_or_at_its_end_a_surface_is_left_alone() -> None:
    for wall in (Wall(Permanent("gone")), Wall(room=1)):
        live = live_on(wall)
        await live.show("one")
        await until(lambda: live.over)  # noqa: B023
        await live.show("two")
        await live.close()
        assert (wall.tried, wall.finished) == (["one"], 1)


async def test_closing_waits_for_the_request_under_way_and_finishes_once() -> None:
    wall = Wall()
    wall.gate.clear()
    live = live_on(wall)
    await live.show("words")
    await until(lambda: wall.tried == ["words"])
    closing = asyncio.create_task(live.close())
    await asyncio.sleep(0.02)
    assert (closing.done(), wall.finished) == (False, 0)
    wall.gate.set()
    await closing
    await live.close()
    assert (wall.shown, wall.finished) == (["words"], 1)


async def test_closing_does_not_wait_for_ever() -> None:
    wall = Wall()
    wall.gate.clear()
    live = live_on(wall, last_word_within=0.05)
    await live.show("words")
    await until(lambda: wall.tried == ["words"])
    with anyio.fail_after(HANGS):
        await live.close()
    assert (live.over, wall.finished) == (True, 1)


async def test_the_rhythm_is_slower_after_a_refusal_and_comes_back() -> None:
    wall = Wall(Transient("slow down", retry_after=0.0), Transient("away"))
    live = live_on(wall, every=0.01)
    rhythm = []
    for number in range(12):
        await live.show(f"word {number}")
        await until(lambda number=number: wall.shown[-1:] == [f"word {number}"])  # type: ignore[misc]
        rhythm.append(live._rhythm)
    await live.close()
    assert 0.01 < rhythm[0] <= 0.02
    assert sorted(rhythm, reverse=True) == rhythm
    assert rhythm[-1] == 0.01


async def test_the_rhythm_has_a_bound_and_is_never_quicker_than_asked_for() -> None:
    live = live_on(Wall(*(Transient("slow down", retry_after=0.0) for _ in range(30))), every=4.0)
    live._newest = "words"
    pauses = [await live._put() for _ in range(31)]
    await live.close()
    assert (pauses[0], max(pause or 0.0 for pause in pauses)) == (8.0, 15.0)
    assert min(pause or 0.0 for pause in pauses) >= 4.0


class Laid:
    """A surface that lays its text out as the platform's own do; `spent` is the time of all of them, in seconds."""

    message_id, spent = "7", 0.0

    def __init__(self, made: Callable[[], Any]) -> None:
        self.growing = made()

    async def put(self, markdown: str) -> bool:
        began = time.process_time()
        self.growing.render(markdown)
        Laid.spent += time.process_time() - began
        return True

    async def finish(self) -> None:
        """Leave it."""


@pytest.mark.parametrize("made", [telegram.Growing, slack.Growing])
async def test_many_long_answers_at_once_take_little_more_of_the_loop_than_their_texts(made: Callable[[], Any]) -> None:
    text = "".join(f"Paragraph {n} says *something* about `this` and that. " * 8 + "\n\n" for n in range(60))
    Laid.spent = 0.0
    await Laid(made).put(text)
    once, Laid.spent = Laid.spent, 0.0
    lives = [LiveText(Laid(made), every=0.0, last_word_within=5.0) for _ in range(6)]
    for end in range(0, len(text), len(text) // 40):
        for live in lives:
            await live.show(text[:end])
        await asyncio.sleep(0)
        await until(lambda: not any(live._changed.is_set() for live in lives))
    for live in lives:
        await live.close()
    assert Laid.spent / len(lives) < 6 * once  # laid out anew each time it would be twenty
