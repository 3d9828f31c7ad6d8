"""Where a conversation is: a group that got another id is still the same one, a Slack channel as a whole is none."""

import pytest

from tests.acceptance.stage import TelegramPlace, World, slow_text

pytestmark = pytest.mark.timeout(120)


async def test_an_upgraded_group_goes_on_where_it_was(running: World) -> None:
    place = running.group()
    before = running.ask(place)
    await running.answered(place, before)
    chat = running.telegram.migrate(place.chat, to=-1_000_000_000_000 + place.chat.id)
    moved = TelegramPlace(standin=running.telegram, chat=chat, person=place.person)
    after = running.ask(moved)
    await running.answered(moved, after)
    (request,) = [r for r in running.model.requests if after in str(r.body["messages"][-1]) and "tools" in r.body]
    assert before in str(request.body["messages"][0])


async def test_a_slash_command_in_a_channel_stops_and_ends_nothing_and_says_where_to_write_it(running: World) -> None:
    place = running.thread()
    marker = running.ask(place, "slowly")
    await running.wait(lambda: running.working_on(marker), "the turn did not begin")
    for command in ("stop", "new"):
        running.slack.command(place.channel, place.person, "/reverie", command)

    def told() -> list[str]:
        said = [word["text"] for word in running.slack.ephemeral]
        return [text for text in said if "after mentioning me" in text]

    await running.wait(lambda: len(told()) == 2, "the commands were not answered")
    await running.answered(place, marker)
    assert place.heard() == [slow_text(marker)]
    again = running.ask(place)
    await running.answered(place, again)
    (request,) = [r for r in running.model.requests if again in str(r.body["messages"][-1]) and "tools" in r.body]
    assert marker in str(request.body["messages"][0])
