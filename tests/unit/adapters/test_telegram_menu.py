"""Telegram's menus of commands."""

import pytest

from adapters.standins.telegram import TelegramStandin
from adapters.telegram.menu import Where, fitted
from tests.unit.adapters.telegram_stage import ANN, Inbox, serve

HELP = [("help", "what I can do")]
JOBS = [*HELP, ("jobs", "what runs at night")]
MENUS = {
    Where.PRIVATE: {"": HELP, "zh": [("help", "我能做什么")]},
    Where.GROUPS: {"": HELP},
    Where.ADMINISTRATORS: {"": JOBS},
}


@pytest.fixture
def standin() -> TelegramStandin:
    return TelegramStandin()


async def test_each_kind_of_chat_and_each_language_has_its_own_menu(standin: TelegramStandin) -> None:
    async with serve(standin, Inbox(), menus=MENUS):
        pass
    calls = [call.params for call in standin.calls if call.method == "setMyCommands"]
    told = {(call["scope"]["type"], call.get("language_code", "")): call["commands"] for call in calls}
    assert {place: len(commands) for place, commands in told.items()} == {
        ("all_private_chats", ""): 1,
        ("all_private_chats", "zh"): 1,
        ("all_group_chats", ""): 1,
        ("all_chat_administrators", ""): 2,
    }
    assert told["all_private_chats", "zh"][0]["description"] == "我能做什么"


async def test_one_menu_that_is_refused_takes_no_other_with_it(standin: TelegramStandin) -> None:
    standin.fail("setMyCommands", status=400)
    async with serve(standin, Inbox(), menus=MENUS):
        pass
    assert [call.status for call in standin.calls if call.method == "setMyCommands"].count(200) == 3


async def test_a_command_of_any_menu_is_for_the_bot_where_it_sees_all() -> None:
    standin, inbox = TelegramStandin(privacy=False), Inbox()
    group = standin.group(-50)
    async with serve(standin, inbox, menus=MENUS):
        for text in ("/jobs", "/ban him"):
            standin.say(group, ANN, text)
        await inbox.first(2)
    assert [inbound.addressed for inbound in inbox.got] == [True, False]


@pytest.mark.parametrize("count", [10, 40, 99, 120])
async def test_long_descriptions_are_cut_until_telegram_takes_the_menu(standin: TelegramStandin, count: int) -> None:
    commands = [("short", "what I can do"), *((f"command_{number}", "long " * 60) for number in range(count))]
    async with serve(standin, Inbox(), commands=commands):
        pass
    (call,) = [call for call in standin.calls if call.method == "setMyCommands"]
    assert call.status == 200
    assert len(call.params["commands"]) == min(count + 1, 100)
    assert call.params["commands"][0]["description"] == "what I can do"


def test_a_menu_that_fits_stays_as_it_is() -> None:
    assert fitted(JOBS) == JOBS
