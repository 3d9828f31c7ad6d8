"""What is known of a workspace's people and channels."""

import anyio
import pytest

from adapters.errors import Transient
from adapters.slack.lookups import Lookups
from adapters.slack.people import display_name
from tests.waiting import HANGS


class Directory:
    """Answers like users.info: slowly if told to, with a failure for who is unknown."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = anyio.Event()

    async def look_up(self, user: str) -> str:
        self.asked.append(user)
        await self.answer.wait()
        if user == "U404":
            raise Transient("Slack: ratelimited")
        return f"name of {user}"


@pytest.fixture
async def directory() -> Directory:
    return Directory()


async def test_a_name_is_asked_for_once_even_by_many_at_the_same_time(directory: Directory) -> None:
    people = Lookups(directory.look_up)
    directory.answer.set()
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(lambda: people.get(["U1"], within=HANGS))
    assert await people.get(["U1"], within=HANGS) == {"U1": "name of U1"}
    assert directory.asked == ["U1"]


async def test_a_slow_answer_delays_nothing_and_serves_the_next_message(directory: Directory) -> None:
    people = Lookups(directory.look_up)
    assert await people.get(["U1"], within=0.01) == {}
    directory.answer.set()
    assert await people.get(["U1"], within=HANGS) == {"U1": "name of U1"}
    assert directory.asked == ["U1"]


async def test_a_failure_tells_nothing_and_is_not_asked_again_at_once(directory: Directory) -> None:
    people = Lookups(directory.look_up)
    directory.answer.set()
    for _ in range(2):
        assert await people.get(["U404"], within=HANGS) == {}
    assert directory.asked == ["U404"]


async def test_names_grow_old_and_the_cache_stays_bounded(directory: Directory) -> None:
    directory.answer.set()
    people = Lookups(directory.look_up, keep=2, keep_for=1000)
    for user in ("U1", "U2", "U3", "U1"):
        await people.get([user], within=HANGS)
    assert directory.asked == ["U1", "U2", "U3", "U1"]
    forgetful = Lookups(directory.look_up, keep_for=0)
    await forgetful.get(["U9"], within=HANGS)
    await forgetful.get(["U9"], within=HANGS)
    assert directory.asked[-2:] == ["U9", "U9"]


async def test_what_is_forgotten_is_asked_anew(directory: Directory) -> None:
    directory.answer.set()
    people = Lookups(directory.look_up)
    await people.get(["U1"], within=HANGS)
    people.forget("U1")
    await people.get(["U1"], within=HANGS)
    assert directory.asked == ["U1", "U1"]


async def test_closing_gives_up_what_is_still_asked(directory: Directory) -> None:
    people = Lookups(directory.look_up)
    await people.get(["U1"], within=0)
    with anyio.fail_after(HANGS):
        await people.aclose()


def test_the_display_name_comes_before_the_real_one() -> None:
    profile = {"display_name": "", "real_name": "Ada L."}
    assert display_name({"name": "ada", "profile": profile}) == "Ada L."
    assert display_name({"name": "ada", "profile": {**profile, "display_name": "countess"}}) == "countess"
    assert display_name({}) == ""
