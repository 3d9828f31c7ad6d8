"""How often a channel may be written to."""

import pytest

from adapters.errors import Transient, Unsure
from adapters.slack.pacing import Pacing


def wait_of(pacing: Pacing, method: str = "chat.update", channel: str = "C1", *, every: float = 0.0) -> float:
    """Make a request that succeeds; return for how long it has to wait, 0 if not at all."""
    try:
        with pacing.turn(method, channel, every=every):
            return 0.0
    except Transient as error:
        return error.retry_after or 0.0


def refuse(pacing: Pacing, *, retry_after: float | None, every: float = 0.0) -> None:
    with pytest.raises(Transient), pacing.turn("chat.update", "C1", every=every):
        raise Transient("Slack: ratelimited", retry_after=retry_after)


async def test_a_line_that_slack_has_closed_is_closed_for_all_and_the_others_are_open() -> None:
    pacing = Pacing()
    refuse(pacing, retry_after=30)
    assert 29 < wait_of(pacing) <= 30
    assert 29 < wait_of(pacing, every=1) <= 30
    assert wait_of(pacing, channel="C2") == 0
    assert wait_of(pacing, method="chat.postMessage") == 0


async def test_what_is_only_shown_keeps_its_distance_and_what_is_for_good_waits_for_nothing() -> None:
    pacing = Pacing()
    assert wait_of(pacing, every=10) == 0
    assert 9 < wait_of(pacing, every=10) <= 10
    assert wait_of(pacing) == 0


async def test_each_refusal_makes_what_is_shown_come_more_rarely_and_each_success_oftener_again() -> None:
    pacing = Pacing()
    for _ in range(3):
        refuse(pacing, retry_after=0.0)
    assert wait_of(pacing, every=0.001) == 0
    slow = wait_of(pacing, every=0.001)
    assert 3 < slow <= 4
    again = Pacing()
    refuse(again, retry_after=0.0)
    for _ in range(30):
        wait_of(again)
    assert wait_of(again, every=0.001) == 0
    assert wait_of(again, every=0.001) < 0.1


async def test_a_lost_answer_is_no_refusal() -> None:
    pacing = Pacing()
    with pytest.raises(Unsure), pacing.turn("chat.update", "C1"):
        raise Unsure("lost")
    assert wait_of(pacing) == 0


async def test_only_so_many_lines_are_kept() -> None:
    pacing = Pacing()
    refuse(pacing, retry_after=30)
    for number in range(2000):
        wait_of(pacing, channel=f"D{number}")
    assert wait_of(pacing) == 0
