"""Answers arrive once, in order, whole, and no conversation waits for another."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.serving import serving
from adapters.standins.telegram_http import Call
from gateway.llm.standin.answers import Failure
from gateway.llm.standin.request import Conversation
from tests.acceptance.stage import Place, World, long_text, plain_text, slow_text
from tests.acceptance.wire import Moment
from tests.ports import held_port

pytestmark = pytest.mark.timeout(180)  # seconds, for a machine that is busy with other things

SECRET = "a-secret-of-our-own"


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


def answers(place: Place, marker: str) -> list[str]:
    return [post for post in place.heard() if marker in post]


async def settled(world: World) -> None:
    """Wait until the gateway has taken everything, and a moment longer, so that a second answer would be there."""
    await world.wait(lambda: not world.slack.deliveries.pending, "Slack's events are not acknowledged")
    await asyncio.sleep(0.5)


@pytest.mark.parametrize("order", ["message_first", "mention_first"])
async def test_a_mention_is_answered_once_whichever_of_its_two_events_comes_first(running: World, order: str) -> None:
    running.slack.mention_order = order  # type: ignore[assignment]
    place = running.thread()
    marker = running.ask(place)
    await running.answered(place, marker)
    await settled(running)
    assert answers(place, marker) == [plain_text(marker)]


async def test_events_that_slack_repeats_are_answered_once(running: World) -> None:
    place = running.thread()
    marker = running.ask(place)
    await running.answered(place, marker)
    repeated = [e.payload for e in running.slack.deliveries.acknowledged if marker in str(e.payload["event"])]
    assert {payload["event"]["type"] for payload in repeated} == {"message", "app_mention"}
    for payload in reversed(repeated):
        running.slack.deliveries.add("events_api", payload)
    await settled(running)
    assert answers(place, marker) == [plain_text(marker)]


async def test_a_chat_that_must_wait_holds_up_no_other(running: World) -> None:
    slow, quick = running.private(), running.private()

    def posts() -> list[Call]:
        mine = [c for c in running.telegram.calls if c.method == "sendMessage"]
        return [call for call in mine if call.params["chat_id"] == slow.chat.id]

    running.telegram.fail("sendMessage", parameters={"retry_after": 6})
    first = running.ask(slow)
    await running.wait(posts, "nothing was posted")
    await running.answered(quick, running.ask(quick))
    assert answers(slow, first) == []
    await running.answered(slow, first)
    refused, posted = posts()
    assert (refused.status, posted.status) == (429, 200)
    assert posted.at - refused.at > 5.9
    assert answers(slow, first) == [plain_text(first)]


async def test_a_post_that_is_refused_for_good_is_not_tried_again(running: World) -> None:
    place = running.private()

    def tried() -> int:
        mine = [c for c in running.telegram.calls if c.method == "sendMessage" and c.params["chat_id"] == place.chat.id]
        return len(mine)

    running.telegram.fail("sendMessage", status=403)
    marker = running.ask(place)
    await running.wait(tried, "nothing was posted")
    await asyncio.sleep(3)
    assert tried() == 1
    assert answers(place, marker) == []
    running.asked.remove((place, marker))
    await running.answered(place, running.ask(place))


async def test_a_lost_response_is_posted_again_with_a_label_in_telegram_and_found_in_slack(running: World) -> None:
    private, thread = running.private(), running.thread()
    running.telegram.fail("sendMessage", status=0, after_acting=True)
    running.slack.fail("chat.postMessage", status=0, after_acting=True)
    asked = [(place, running.ask(place)) for place in (private, thread)]
    await running.wait(lambda: len(answers(*asked[0])) == 2, "no labelled repeat")
    await running.answered(*asked[1])
    await asyncio.sleep(2.5)
    assert len(answers(*asked[0])) == 2
    assert answers(*asked[1]) == [plain_text(asked[1][1])]
    assert running.faults() == []


async def test_stop_ends_the_request_to_the_model_and_the_next_message_is_answered(running: World) -> None:
    private, thread = running.private(), running.thread()
    places: tuple[Place, ...] = (private, thread)
    markers = [running.ask(place, "slowly") for place in places]
    await running.wait(lambda: running.telegram.draft(private.chat) and thread.heard(), "nothing was written")
    for place in places:
        place.say("/stop")
    for place, marker in zip(places, markers, strict=True):
        after = running.ask(place)
        await running.answered(place, after)
        stopped, answered = place.heard()
        assert stopped.endswith("(stopped)")
        assert len(stopped) < len(slow_text(marker)) / 2
        assert answered == plain_text(after)
        running.asked = [(p, m) for p, m in running.asked if m != marker]
        (request,) = [r for r in running.model.requests if marker in str(r.body["messages"][-1])]
        assert request.outcome == "disconnected"


async def test_two_conversations_do_not_wait_for_one_another(running: World) -> None:
    busy: tuple[Place, ...] = (running.private(), running.group(), running.thread())
    slow = [running.ask(place, "slowly") for place in busy]
    await running.wait(lambda: running.working_on(*slow), "the turns did not begin")
    others: tuple[Place, ...] = (running.private(), running.group(), running.thread(), running.dm())
    for place, marker in [(place, running.ask(place)) for place in others]:
        await running.answered(place, marker)
    assert running.working_on(*slow)
    for place, marker in zip(busy, slow, strict=True):
        await running.answered(place, marker)


async def test_five_quick_messages_are_answered_in_their_order_everywhere(running: World) -> None:
    places: tuple[Place, ...] = (running.private(), running.group(), running.thread(), running.dm())
    asked = {place: [running.ask(place, how) for how in ("slowly", *["please"] * 4)] for place in places}
    for place, markers in asked.items():
        await running.answered(place, *markers)
        assert place.heard() == [slow_text(markers[0]), *map(plain_text, markers[1:])]


async def test_a_long_answer_arrives_in_valid_parts_with_its_table_and_its_code(running: World) -> None:
    places: tuple[Place, ...] = (running.private(), running.group(), running.thread(), running.dm())
    asked = [(place, running.ask(place, "a long one")) for place in places]
    for place, marker in asked:
        await running.answered(place, marker)
        parts = place.heard()
        said = "\n".join(parts)
        assert len(long_text(marker)) > 9000
        assert 3 <= len(parts) <= 6
        assert all(len(part.encode("utf-16-le")) // 2 <= 4096 for part in parts)
        assert [said.count(f"{marker} line {n}:") for n in range(1, 61)] == [1] * 60
        assert [len(re.findall(rf"\brow {n}\b", said)) for n in range(1, 9)] == [1] * 8
        assert [said.count(f'"{marker} code {n}"') for n in range(1, 41)] == [1] * 40
    assert running.telegram.faults == []
    assert running.slack.faults == []


async def test_the_final_text_is_exact_after_it_was_shown_live(running: World) -> None:
    places: tuple[Place, ...] = (running.private(), running.group(), running.thread(), running.dm())
    asked = [(place, running.ask(place, "slowly")) for place in places]
    for place, marker in asked:
        await running.answered(place, marker)
        assert place.heard() == [slow_text(marker)]
    shown = {call.method for call in running.telegram.calls} | {call.method for call in running.slack.calls}
    assert shown >= {"sendMessageDraft", "editMessageText", "chat.startStream", "chat.appendStream", "chat.update"}


async def test_a_model_that_is_overloaded_is_told_once_and_the_message_answered_when_it_is_back(running: World) -> None:
    place = running.private()
    marker = running.ask(place)
    for _ in range(2):
        running.model.script(Failure(status=529), when=lambda body: marker in Conversation.of(body).prompt)
    await running.answered(place, marker)
    word, answered = place.heard()
    assert "overloaded" in word.lower()
    assert "kept" in word
    assert answered == plain_text(marker)


async def test_a_model_that_can_not_be_reached_is_told_once_and_the_message_answered_when_it_is_back(
    tmp_path: Path, port: int
) -> None:
    world = World(tmp_path / "home", ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}")
    async with world.served():
        await world.gateway.start()
        asked: list[tuple[Place, str]] = [(place, world.ask(place)) for place in (world.private(), world.thread())]
        for place, _ in asked:
            await world.wait(place.heard, "nothing was said")
        await asyncio.sleep(2.5)  # it has been tried again
        async with serving(world.model.app, port=port):
            for place, marker in asked:
                await world.answered(place, marker)
                word, answered = place.heard()
                assert "can't be reached" in word
                assert "kept" in word
                assert answered == plain_text(marker)


async def push(url: str, update: Mapping[str, Any], *, secret: str) -> int:
    """Call a webhook as Telegram does, and return the status."""
    headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.post(url, json=update, headers=headers)).status_code


async def test_both_platforms_can_push_through_the_gateways_http_port(tmp_path: Path, port: int) -> None:
    free = f"http://127.0.0.1:{port}"
    hook = f"{free}/telegram/in"
    world = World(
        tmp_path / "home",
        SLACK_APP_TOKEN="",
        SLACK_SIGNING_SECRET="stand-in-signing-secret",
        REVERIE_HTTP=free.removeprefix("http://"),
        REVERIE_TELEGRAM__WEBHOOK_SECRET=SECRET,
        REVERIE_TELEGRAM__WEBHOOK_URL=hook,
    )
    async with world.served():
        await world.gateway.start()
        assert await world.slack.use_events_url(f"{free}/slack/events")
        places: tuple[Place, ...] = (world.private(), world.group(), world.thread(), world.dm())
        for place, marker in [(place, world.ask(place)) for place in places]:
            await world.answered(place, marker)
        assert "getUpdates" not in {call.method for call in world.telegram.calls}
        assert world.slack.deliveries.connected_in_all == 0
        world.gateway.kill()  # what is pushed meanwhile comes again
        await world.gateway.killed()
        late = [(place, world.ask(place)) for place in places]
        await world.gateway.start()
        for place, marker in late:
            await world.answered(place, marker)
        assert world.faults() == []
        assert await push(hook, {"update_id": 1}, secret="guessed") == 403
        assert await push(f"{free}/slack/events", {"type": "event_callback"}, secret="guessed") == 401


async def test_an_update_that_telegram_pushes_twice_is_answered_once(tmp_path: Path, port: int) -> None:
    free = f"http://127.0.0.1:{port}"
    hook = f"{free}/telegram/in"
    world = World(
        tmp_path / "home",
        REVERIE_HTTP=free.removeprefix("http://"),
        REVERIE_TELEGRAM__WEBHOOK_SECRET=SECRET,
        REVERIE_TELEGRAM__WEBHOOK_URL=hook,
    )
    async with world.served():
        await world.gateway.start()
        place = world.private()
        chat, sender = place.chat.api(), place.person.api()
        message = {"message_id": 900, "date": 1_800_000_000, "chat": chat, "from": sender, "text": "q900q please"}
        for number in (1, 1, 2):  # the third is the same message under another number
            assert await push(hook, {"update_id": number, "message": message}, secret=SECRET) == 200
        await world.answered(place, "q900q")
        await asyncio.sleep(1)
        assert place.heard() == [plain_text("q900q")]


async def test_health_is_green_from_the_start_and_readiness_only_when_events_can_arrive(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    async with world.served():
        greeting = world.hold("telegram", "/getMe", Moment.ARRIVED)
        await world.gateway.launch()
        await world.wait(lambda: world.gateway.url and greeting.reached.is_set(), "no HTTP")
        assert await world.gateway.get("/healthz") == 200
        assert await world.gateway.get("/readyz") == 503
        greeting.go_on.set()
        await world.gateway.until(world.gateway.ready, "it did not get ready")


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_readiness_turns_red_for_each_platform_from_which_nothing_can_come(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    async with world.served():
        await world.gateway.start()
        world.slack.delay("apps.connections.open", 600)  # from now on no socket can be had
        world.telegram.fail("getUpdates", times=10_000, status=502)
        await world.slack.drop_sockets()
        await world.wait_for_faults({"slack"}, within=90)  # four pings of ten seconds without an answer
        await world.wait_for_faults({"slack", "telegram"}, within=150)
        assert await world.gateway.get("/healthz") == 200
        world.slack.delay("apps.connections.open", 0)
        await world.wait_for_faults({"telegram"}, within=60)
