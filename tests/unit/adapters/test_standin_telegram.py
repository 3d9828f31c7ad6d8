import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from telegram import (
    Bot,
    BotCommand,
    BotCommandScopeChat,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MessageEntity,
    ReplyParameters,
    Update,
)
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)
from telegram.request import HTTPXRequest

from adapters.serving import serving
from adapters.standins.telegram import DROPPED, Chat, Fault, Person, TelegramStandin
from tests.waiting import HANGS, until

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (3).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"\x08" * 8


@pytest.fixture
def standin() -> TelegramStandin:
    return TelegramStandin()


@pytest.fixture
async def base(standin: TelegramStandin) -> AsyncIterator[str]:
    async with serving(standin.app) as url:
        yield url


@pytest.fixture
async def bot(standin: TelegramStandin, base: str) -> AsyncIterator[Bot]:
    async with _bot(base, standin.token) as bot:
        yield bot


@pytest.fixture
def ada(standin: TelegramStandin) -> Person:
    return standin.person(42, first_name="Ada", language_code="en")


@pytest.fixture
def chat(standin: TelegramStandin, ada: Person) -> Chat:
    return standin.private(ada)


def _bot(base: str, token: str) -> Bot:
    return Bot(
        token,
        base_url=f"{base}/bot",
        base_file_url=f"{base}/file/bot",
        request=HTTPXRequest(connection_pool_size=8, read_timeout=HANGS),
        get_updates_request=HTTPXRequest(connection_pool_size=8, read_timeout=HANGS),
    )


def _refused(error: type[TelegramError], words: str) -> AbstractContextManager[object]:
    """Expect the API's words in any case: the client changes capitals."""
    return pytest.raises(error, match=f"(?i){re.escape(words)}")


async def _answer(base: str, standin: TelegramStandin, method: str, **parameters: object) -> dict[str, Any]:
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{base}/bot{standin.token}/{method}", json=parameters)
    body: dict[str, Any] = answer.json()
    assert body.get("error_code", 200) == answer.status_code
    return body


# ---- who the bot is


async def test_the_real_client_learns_who_it_is(bot: Bot, standin: TelegramStandin) -> None:
    assert (bot.id, bot.username) == (standin.bot.id, "reverie_bot")
    assert not bot.bot.can_read_all_group_messages


@pytest.mark.parametrize("token", ["4200000000:wrong", "nonsense"])
async def test_a_wrong_token_is_refused(base: str, token: str) -> None:
    with pytest.raises(InvalidToken):
        async with _bot(base, token):
            raise AssertionError("let in")


async def test_an_unknown_method_or_parameter_is_seen_as_a_fault(
    bot: Bot, standin: TelegramStandin, chat: Chat
) -> None:
    with pytest.raises(EndPointNotFound):
        await bot.do_api_request("sendNonsense")
    await bot.send_message(chat.id, "hi", api_kwargs={"colour": "red"})
    assert standin.faults == [
        Fault(method="sendNonsense", detail="no such method"),
        Fault(method="sendMessage", detail="unknown parameter colour"),
    ]


# ---- updates


async def test_an_update_comes_again_until_a_later_poll_confirms_it(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    standin.say(chat, ada, "one")
    standin.say(chat, ada, "two")
    first = await bot.get_updates(timeout=0)
    again = await bot.get_updates(timeout=0)
    assert [u.message.text for u in again if u.message] == ["one", "two"]
    rest = await bot.get_updates(offset=first[0].update_id + 1, timeout=0)
    assert [u.update_id for u in rest] == [first[1].update_id]
    assert [u["update_id"] for u in standin.pending] == [first[1].update_id]


async def test_a_negative_offset_keeps_only_the_last(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    for text in "abc":
        standin.say(chat, ada, text)
    assert [u.message.text for u in await bot.get_updates(offset=-1) if u.message] == ["c"]
    assert len(standin.pending) == 1


async def polling(bot: Bot, standin: TelegramStandin) -> "asyncio.Task[tuple[Update, ...]]":
    """Poll, and return when the poll waits."""
    poll = asyncio.create_task(bot.get_updates(timeout=50))
    await until(lambda: standin._updates._poll is not None)
    return poll


async def test_a_long_poll_waits_and_wakes(bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person) -> None:
    poll = await polling(bot, standin)
    assert not poll.done()
    standin.say(chat, ada, "wake up")
    with anyio.fail_after(HANGS):
        (update,) = await poll
    assert update.message is not None
    assert update.message.text == "wake up"


async def test_a_second_poll_ends_the_first_with_a_conflict(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    first = await polling(bot, standin)
    second = asyncio.create_task(bot.get_updates(timeout=50))
    with _refused(Conflict, "terminated by other getUpdates request"):
        await first
    standin.say(chat, ada, "for the second")
    with anyio.fail_after(HANGS):
        assert len(await second) == 1


async def test_only_kinds_that_were_asked_for_arrive(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    await bot.get_updates(allowed_updates=["edited_message"])
    message_id = standin.say(chat, ada, "teh")
    standin.edit(chat, message_id, "the")
    (update,) = await bot.get_updates()
    assert update.edited_message is not None
    assert update.edited_message.text == "the"


async def test_what_was_queued_is_not_changed_by_a_later_edit(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    standin.edit(chat, standin.say(chat, ada, "before"), "after")
    first, second = await bot.get_updates()
    assert first.message is not None
    assert second.edited_message is not None
    assert (first.message.text, second.edited_message.text) == ("before", "after")


async def test_a_webhook_gets_each_update_in_order_until_it_says_2xx(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    seen: list[tuple[str, str]] = []

    async def hook(request: Request) -> Response:
        update = await request.json()
        seen.append((update["message"]["text"], request.headers["X-Telegram-Bot-Api-Secret-Token"]))
        return Response(status_code=503 if len(seen) == 1 else 200)

    async with serving(Starlette(routes=[Route("/hook", hook, methods=["POST"])])) as url:
        await bot.set_webhook(f"{url}/hook", secret_token="s3cret")
        standin.say(chat, ada, "one")
        standin.say(chat, ada, "two")
        await standin.wait_for(lambda: not standin.pending and len(seen) == 3, timeout=HANGS)
    assert seen == [("one", "s3cret"), ("one", "s3cret"), ("two", "s3cret")]
    info = await bot.get_webhook_info()
    assert info.last_error_message == "Wrong response from the webhook: 503 Service Unavailable"


async def test_setting_a_webhook_ends_the_poll_that_waits(bot: Bot, standin: TelegramStandin) -> None:
    poll = await polling(bot, standin)
    await bot.set_webhook("https://example.org/hook")
    with _refused(Conflict, "terminated by setWebhook request"):
        await poll


async def test_polling_is_refused_while_a_webhook_is_set(bot: Bot) -> None:
    await bot.set_webhook("https://example.org/hook")
    with _refused(Conflict, "webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert await bot.get_updates() == ()
    with _refused(BadRequest, "HTTPS URL"):
        await bot.set_webhook("http://example.org/hook")


# ---- messages


async def test_a_message_is_trimmed_and_its_entities_move_along(bot: Bot, standin: TelegramStandin, chat: Chat) -> None:
    bold = MessageEntity(MessageEntity.BOLD, offset=2, length=2)
    sent = await bot.send_message(chat.id, "\n\n😀 hi ", entities=[bold])
    (shown,) = standin.messages(chat)
    assert (sent.text, shown.text) == ("😀 hi", "😀 hi")
    assert shown.entities == ({"type": "bold", "offset": 0, "length": 2},)
    assert (shown.from_bot, shown.message_id) == (True, sent.message_id)
    assert standin.faults == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" \n", "message text is empty"),
        ("x" * 4097, "message is too long"),
        ("😀" * 2049, "message is too long"),
    ],
)
async def test_texts_outside_1_to_4096_utf16_units_are_refused(bot: Bot, chat: Chat, text: str, reason: str) -> None:
    await bot.send_message(chat.id, "😀" * 2048)
    with _refused(BadRequest, reason):
        await bot.send_message(chat.id, text)


@pytest.mark.parametrize(
    "entity",
    [
        {"type": "bold", "offset": 0, "length": 6},
        {"type": "bold", "offset": 0, "length": 0},
        {"type": "bold", "offset": -1, "length": 1},
        {"type": "bold", "offset": 1, "length": 1},
        {"type": "bold", "offset": 0, "length": 1},
        {"type": "text_link", "offset": 0, "length": 2},
        {"type": "text_link", "offset": 0, "length": 2, "url": "javascript:alert(1)"},
        {"type": "pre", "offset": 0, "length": 2, "language": 3},
        {"type": "bold", "offset": 0, "length": 2, "language": "python"},
        {"type": "glitter", "offset": 0, "length": 2},
        {"type": "bold", "offset": "0", "length": 2},
    ],
)
async def test_entities_that_do_not_fit_the_text_are_refused(
    base: str, standin: TelegramStandin, chat: Chat, entity: dict[str, Any]
) -> None:
    answer = await _answer(base, standin, "sendMessage", chat_id=chat.id, text="😀abc", entities=[entity])
    assert answer["error_code"] == 400
    assert answer["description"].startswith("Bad Request: can't parse entities: ")
    assert standin.messages(chat) == []


async def test_entities_that_the_api_would_drop_are_faults(bot: Bot, standin: TelegramStandin, chat: Chat) -> None:
    code = MessageEntity(MessageEntity.CODE, 0, 3)
    link = MessageEntity(MessageEntity.TEXT_LINK, 0, 3, url="https://example.org")
    italic = MessageEntity(MessageEntity.ITALIC, 0, 2)
    bold = MessageEntity(MessageEntity.BOLD, 1, 2)
    await bot.send_message(chat.id, "abc", entities=[code, link])
    await bot.send_message(chat.id, "abc", entities=[italic, bold])
    await bot.send_message(chat.id, "abc", entities=[link, italic])
    assert [fault.detail for fault in standin.faults] == [
        "text_link in code can't be nested",
        "bold in italic overlaps without being nested",
    ]


async def test_markup_is_refused_clearly(bot: Bot, chat: Chat) -> None:
    with _refused(BadRequest, "can't parse entities: this stand-in reads no parse_mode"):
        await bot.send_message(chat.id, "<b>hi</b>", parse_mode="HTML")


async def test_a_reply_needs_its_target_unless_it_may_do_without(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    asked = standin.say(chat, ada, "really?")
    await bot.send_message(chat.id, "yes", reply_parameters=ReplyParameters(asked))
    with _refused(BadRequest, "message to be replied not found"):
        await bot.send_message(chat.id, "lost", reply_parameters=ReplyParameters(999))
    await bot.send_message(chat.id, "anyway", reply_parameters=ReplyParameters(999, allow_sending_without_reply=True))
    assert [(m.text, m.reply_to) for m in standin.messages(chat)[1:]] == [("yes", asked), ("anyway", None)]


async def test_an_edit_changes_what_is_visible_and_must_change_something(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    theirs = standin.say(chat, ada, "mine")
    sent = await bot.send_message(chat.id, "draft")
    await bot.edit_message_text("final", chat.id, sent.message_id)
    assert [(m.text, m.edited) for m in standin.messages(chat)] == [("mine", False), ("final", True)]
    for message_id, text, reason in [
        (sent.message_id, "final", "message is not modified"),
        (999, "x", "message to edit not found"),
        (theirs, "x", "message can't be edited"),
    ]:
        with _refused(BadRequest, reason):
            await bot.edit_message_text(text, chat.id, message_id)


async def test_a_draft_shows_in_private_chats_only_and_ends_with_the_message(
    bot: Bot, standin: TelegramStandin, chat: Chat
) -> None:
    await bot.send_message_draft(chat.id, 7, "so far")
    assert standin.draft(chat) == "so far"
    await bot.send_message_draft(chat.id, 7, "")
    assert standin.draft(chat) == ""
    await bot.send_message(chat.id, "all of it")
    assert standin.draft(chat) is None
    with pytest.raises(BadRequest):
        await bot.send_message_draft(chat.id, 0, "no id")
    with _refused(BadRequest, "only in private chats"):
        await bot.send_message_draft(standin.group(-1001).id, 7, "x")


async def test_deleting_works_once(bot: Bot, standin: TelegramStandin, chat: Chat) -> None:
    sent = await bot.send_message(chat.id, "oops")
    await bot.delete_message(chat.id, sent.message_id)
    assert standin.messages(chat) == []
    with _refused(BadRequest, "message to delete not found"):
        await bot.delete_message(chat.id, sent.message_id)


async def test_files_go_both_ways(bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person) -> None:
    standin.photo(chat, ada, PNG, caption="look")
    (update,) = await bot.get_updates()
    assert update.message is not None
    photo = update.message.photo[-1]
    assert (photo.width, photo.height, update.message.caption) == (3, 2, "look")
    assert await (await bot.get_file(photo.file_id)).download_as_bytearray() == PNG
    sent = await bot.send_document(chat.id, b"data", filename="a.txt", caption="here")
    assert sent.document is not None
    assert (sent.document.file_name, sent.document.file_size, sent.caption) == ("a.txt", 4, "here")
    await bot.send_photo(chat.id, PNG)
    with _refused(BadRequest, "IMAGE_PROCESS_FAILED"):
        await bot.send_photo(chat.id, b"no picture")
    with _refused(BadRequest, "caption is too long"):
        await bot.send_document(chat.id, b"data", caption="x" * 1025)
    assert standin.faults == []


# ---- the rest of what a bot does


async def test_actions_reactions_and_buttons(bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person) -> None:
    asked = standin.say(chat, ada, "go?")
    await bot.send_chat_action(chat.id, "typing")
    await bot.set_message_reaction(chat.id, asked, "👀")
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]])
    sent = await bot.send_message(chat.id, "sure?", reply_markup=keyboard)
    query_id = standin.press(chat, ada, sent.message_id, "y")
    assert (await bot.get_updates())[-1].callback_query is not None
    await bot.answer_callback_query(query_id)
    assert standin.actions(chat) == ("typing",)
    assert standin.messages(chat)[0].reactions == ("👀",)
    with _refused(BadRequest, "query is too old"):
        await bot.answer_callback_query(query_id)
    with _refused(BadRequest, "wrong parameter action"):
        await bot.send_chat_action(chat.id, "thinking")
    with _refused(BadRequest, "REACTION_INVALID"):
        await bot.set_message_reaction(chat.id, asked, "🦔")


async def test_button_data_has_at_most_64_bytes(bot: Bot, chat: Chat) -> None:
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="ü" * 33)]])
    with _refused(BadRequest, "BUTTON_DATA_INVALID"):
        await bot.send_message(chat.id, "sure?", reply_markup=keyboard)


async def test_menus_are_kept_per_scope_and_checked(bot: Bot, chat: Chat) -> None:
    scope = BotCommandScopeChat(chat.id)
    await bot.set_my_commands([("help", "What I can do")])
    await bot.set_my_commands([BotCommand("stop", "Stop")], scope=scope)
    assert [c.command for c in await bot.get_my_commands()] == ["help"]
    await bot.delete_my_commands(scope=scope)
    assert await bot.get_my_commands(scope=scope) == ()
    with _refused(BadRequest, "BOT_COMMAND_INVALID"):
        await bot.set_my_commands([("Help-me", "x")])
    with _refused(BadRequest, "BOT_COMMANDS_TOO_MUCH"):
        await bot.set_my_commands([(f"c{n}", "x") for n in range(101)])
    with _refused(BadRequest, "BOT_COMMANDS_TOO_MUCH"):
        await bot.set_my_commands([(f"c{n}", "x" * 200) for n in range(30)])


async def test_chats_and_members_can_be_looked_up(bot: Bot, standin: TelegramStandin, ada: Person) -> None:
    group = standin.group(-1001, title="Tea")
    standin.say(group, ada, "hello")
    assert (await bot.get_chat(group.id)).title == "Tea"
    assert (await bot.get_chat_member(group.id, ada.id)).status == "member"
    assert (await bot.get_chat_member(group.id, 1)).status == "creator"
    standin.set_bot_status(group, "administrator", by=ada)
    assert (await bot.get_chat_member(group.id, bot.id)).status == "administrator"


# ---- groups


async def test_in_privacy_mode_only_what_is_meant_for_the_bot_arrives(
    bot: Bot, standin: TelegramStandin, ada: Person
) -> None:
    group = standin.group(-1001)
    ours = await bot.send_message(group.id, "hello all")
    theirs = standin.say(group, ada, "just chatting")
    standin.say(group, ada, "/help")
    standin.say(group, ada, "/help@other_bot")
    standin.say(group, ada, "hi @Reverie_Bot")
    standin.say(group, ada, "mail me@reverie_bot.org")
    standin.say(group, ada, "thanks", reply_to=ours.message_id)
    standin.say(group, ada, "no, you", reply_to=theirs)
    arrived = [u.message.text for u in await bot.get_updates() if u.message]
    assert arrived == ["/help", "hi @Reverie_Bot", "thanks"]


async def test_an_administrator_or_a_bot_without_privacy_hears_all(ada: Person) -> None:
    open_bot, private_bot = TelegramStandin(privacy=False), TelegramStandin()
    open_bot.say(open_bot.group(-1001), ada, "just chatting")
    private_bot.say(private_bot.group(-1001, bot_status="administrator"), ada, "just chatting")
    assert (len(open_bot.pending), len(private_bot.pending)) == (1, 1)


async def test_topics_keep_messages_apart_with_the_traps_of_the_real_api(
    bot: Bot, standin: TelegramStandin, ada: Person
) -> None:
    forum = standin.group(-1001, topics={7: "Plans"}, topics_by=standin.bot, bot_status="administrator")
    standin.say(forum, ada, "in the topic", thread=7)
    (update,) = await bot.get_updates()
    assert update.message is not None
    opening = update.message.reply_to_message
    assert opening is not None
    assert opening.forum_topic_created is not None
    assert (update.message.is_topic_message, update.message.message_thread_id) == (True, 7)
    await bot.send_message(forum.id, "noted", message_thread_id=7)
    assert [m.thread for m in standin.messages(forum)] == [7, 7, 7]
    with _refused(BadRequest, "message thread not found"):
        await bot.send_message(forum.id, "lost", message_thread_id=8)


async def test_a_private_chat_can_have_topics(bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person) -> None:
    topic = standin.open_topic(chat, "Recipes", by=ada)
    await bot.send_message_draft(chat.id, 1, "so far", message_thread_id=topic)
    await bot.send_message(chat.id, "soup", message_thread_id=topic)
    assert (await bot.get_me()).has_topics_enabled
    (opened,) = await bot.get_updates()
    assert opened.message is not None
    assert opened.message.forum_topic_created is not None
    assert [m.thread for m in standin.messages(chat)] == [topic, topic]
    with _refused(BadRequest, "message thread not found"):
        await bot.send_message(chat.id, "lost", message_thread_id=topic + 99)


async def test_a_closed_topic_refuses_members(bot: Bot, standin: TelegramStandin) -> None:
    forum = standin.group(-1001, topics={7: "Plans"})
    standin.close_topic(forum, 7)
    with _refused(BadRequest, "TOPIC_CLOSED"):
        await bot.send_message(forum.id, "hi", message_thread_id=7)


async def test_a_reply_in_a_plain_supergroup_carries_a_thread_id_that_is_no_topic(
    bot: Bot, standin: TelegramStandin, ada: Person
) -> None:
    group = standin.group(-1001)
    ours = await bot.send_message(group.id, "hello")
    standin.say(group, ada, "hi", reply_to=ours.message_id)
    (update,) = await bot.get_updates()
    assert update.message is not None
    assert update.message.message_thread_id == ours.message_id
    assert not update.message.is_topic_message
    assert standin.messages(group)[-1].thread is None


async def test_an_upgraded_group_names_its_new_id(bot: Bot, standin: TelegramStandin) -> None:
    new = standin.migrate(standin.group(-5, title="Tea"), to=-1005)
    with pytest.raises(ChatMigrated) as moved:
        await bot.send_message(-5, "hi")
    assert moved.value.new_chat_id == new.id == -1005
    service = [u.message for u in await bot.get_updates() if u.message]
    assert [(m.migrate_to_chat_id, m.migrate_from_chat_id) for m in service] == [(-1005, None), (None, -5)]


async def test_blocked_kicked_and_strange_chats_are_told_apart(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    group = standin.group(-1001)
    standin.set_bot_status(chat, "kicked", by=ada)
    standin.set_bot_status(group, "kicked", by=ada)
    assert all(update.my_chat_member for update in await bot.get_updates())
    standin.person(43)
    for chat_id, words in [
        (chat.id, "bot was blocked by the user"),
        (group.id, "bot was kicked from the supergroup chat"),
        (43, "bot can't initiate conversation with a user"),
    ]:
        with _refused(Forbidden, words):
            await bot.send_message(chat_id, "hi")
    with _refused(BadRequest, "chat not found"):
        await bot.send_message(44, "hi")


async def test_message_ids_of_two_groups_may_be_the_same(bot: Bot, standin: TelegramStandin) -> None:
    one = await bot.send_message(standin.group(-1001).id, "a")
    two = await bot.send_message(standin.group(-1002).id, "b")
    assert one.message_id == two.message_id


# ---- what goes wrong


async def test_ordered_failures_come_in_the_words_of_the_api_and_end(
    bot: Bot, standin: TelegramStandin, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")
    standin.fail("sendMessage", parameters={"retry_after": 3})
    standin.fail("sendMessage", status=403)
    standin.fail("sendMessage", status=500)
    with pytest.raises(RetryAfter) as flood:
        await bot.send_message(chat.id, "one")
    assert flood.value.retry_after == timedelta(seconds=3)
    with _refused(Forbidden, "blocked"):
        await bot.send_message(chat.id, "two")
    with _refused(NetworkError, "Internal Server Error"):
        await bot.send_message(chat.id, "three")
    await bot.send_message(chat.id, "four")
    assert [m.text for m in standin.messages(chat)] == ["four"]
    assert [c.status for c in standin.calls if c.method == "sendMessage"] == [429, 403, 500, 200]


@pytest.mark.parametrize("status", [502, DROPPED])
async def test_a_lost_response_leaves_the_message_posted(
    bot: Bot, standin: TelegramStandin, chat: Chat, status: int
) -> None:
    standin.fail("sendMessage", status=status, after_acting=True)
    with pytest.raises(NetworkError):
        await bot.send_message(chat.id, "did it get through?")
    assert [m.text for m in standin.messages(chat)] == ["did it get through?"]


async def test_nothing_is_deduplicated(bot: Bot, standin: TelegramStandin, chat: Chat) -> None:
    await bot.send_message(chat.id, "twice")
    await bot.send_message(chat.id, "twice")
    assert [m.text for m in standin.messages(chat)] == ["twice", "twice"]


async def test_a_delay_holds_a_call_back(bot: Bot, standin: TelegramStandin, chat: Chat) -> None:
    standin.delay("sendMessage", 0.3)
    began = time.monotonic()
    await bot.send_message(chat.id, "slow")
    assert time.monotonic() - began >= 0.3
    assert len(standin.messages(chat)) == 1


async def test_waiting_returns_what_was_found_and_gives_up_in_time(
    bot: Bot, standin: TelegramStandin, chat: Chat
) -> None:
    waiting = asyncio.create_task(standin.wait_for(lambda: standin.messages(chat), timeout=HANGS))
    await bot.send_message(chat.id, "here")
    assert [m.text for m in await waiting] == ["here"]
    with pytest.raises(TimeoutError, match="sendMessage 200"):
        await standin.wait_for(lambda: None, timeout=0.05)


async def test_a_bot_that_comes_back_finds_what_it_had_not_confirmed(
    base: str, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    standin.say(chat, ada, "remember me")
    async with _bot(base, standin.token) as first:
        assert len(await first.get_updates()) == 1
    async with _bot(base, standin.token) as second:
        assert len(await second.get_updates()) == 1


# ---- other encodings, other processes


@pytest.mark.parametrize("how", ["json", "query", "form"])
async def test_parameters_come_in_every_encoding_of_the_api(
    base: str, standin: TelegramStandin, chat: Chat, how: str
) -> None:
    entities = [{"type": "bold", "offset": 0, "length": 2}]
    encoded = {"chat_id": str(chat.id), "text": "hi", "entities": json.dumps(entities)}
    url = f"{base}/bot{standin.token}/SENDMESSAGE"
    async with httpx.AsyncClient() as client:
        if how == "json":
            answer = await client.post(url, json={"chat_id": chat.id, "text": "hi", "entities": entities})
        elif how == "query":
            answer = await client.get(url, params=encoded)
        else:
            answer = await client.post(url, data=encoded)
    assert answer.json()["result"]["entities"] == entities
    assert standin.calls[-1].params == {"chat_id": chat.id, "text": "hi", "entities": entities}


@pytest.mark.parametrize(
    ("order", "body", "said"),
    [
        ("say", b'{"chat": 42}', "say needs text"),
        ("edit", b"{}", "edit needs chat and message_id and text"),
        ("fail", b'{"method": "sendMessage", "tines": 2}', "tines"),
        ("say", b"oops", "the body is no JSON"),
        ("say", b'"text"', "the body is no JSON object"),
    ],
)
async def test_an_order_that_cannot_be_followed_says_what_is_missing_and_how_it_looks(
    base: str, order: str, body: bytes, said: str
) -> None:
    async with httpx.AsyncClient(base_url=f"{base}/control") as control:
        wrong = await control.post(f"/{order}", content=body)
        assert (wrong.status_code, said in wrong.json()["error"]) == (400, True), wrong.text
        assert "needs" not in (await control.post(f"/{order}", json=wrong.json()["example"])).text


async def test_another_process_can_drive_it(base: str, bot: Bot, standin: TelegramStandin) -> None:
    async with httpx.AsyncClient(base_url=f"{base}/control") as control:
        said = await control.post("/say", json={"chat": 42, "from": {"id": 42, "first_name": "Ada"}, "text": "hi"})
        await bot.send_message(42, "hello", reply_parameters=ReplyParameters(said.json()["message_id"]))
        assert (await control.get("/messages", params={"chat": 43})).json() == []
        shown = (await control.get("/messages", params={"chat": 42})).json()
        await control.post("/fail", json={"method": "sendMessage", "status": 403})
        with pytest.raises(Forbidden):
            await bot.send_message(42, "again")
        await bot.send_document(42, b"data", filename="a.txt")
        calls = (await control.get("/calls", params={"method": "sendMessage"})).json()
        assert (await control.get("/calls")).is_success
        assert (await control.post("/say", json={"chat": 42})).status_code == 400
        assert len((await control.get("/pending")).json()) == 1
        assert (await control.get("/faults")).json() == []
    assert [(m["text"], m["from_bot"], m["reply_to"]) for m in shown] == [
        ("hi", False, None),
        ("hello", True, 1),
    ]
    assert [call["status"] for call in calls] == [200, 403]


# ---- what people send, and what the bot shows meanwhile


async def test_an_album_is_several_messages_of_one_group_with_the_caption_under_the_first(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    standin.album(chat, ada, [PNG, PNG], caption="see")
    first, second = [update.message for update in await bot.get_updates() if update.message]
    assert first.media_group_id == second.media_group_id is not None
    assert (first.caption, second.caption) == ("see", None)
    with pytest.raises(ValueError, match="2 to 10"):
        standin.album(chat, ada, [PNG])


@pytest.mark.parametrize("kind", ["voice", "audio", "video", "video_note", "animation", "sticker", "document"])
async def test_the_real_client_reads_each_kind_of_file(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person, kind: str
) -> None:
    standin.file(chat, ada, b"content", kind=kind)
    (update,) = await bot.get_updates()
    assert update.message is not None
    file = await bot.get_file(getattr(update.message, kind).file_id)
    assert bytes(await file.download_as_bytearray()) == b"content"


async def test_replies_quotes_and_forwards_say_whose_words_they_hold(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    said = standin.say(chat, ada, "one two")
    standin.say(chat, ada, "why?", reply_to=said, quote="two")
    standin.forward(chat, ada, "news", of="Zoe")
    _, answer, forward = [update.message for update in await bot.get_updates() if update.message]
    assert answer.quote is not None
    assert (answer.quote.text, answer.quote.position) == ("two", 4)
    assert forward.forward_origin is not None
    with pytest.raises(ValueError, match="does not say"):
        standin.say(chat, ada, "why?", reply_to=said, quote="three")


async def test_a_draft_lives_for_half_a_minute_and_can_be_stopped_if_it_says_so(ada: Person) -> None:
    now = [1_800_000_000.0]
    standin = TelegramStandin(clock=lambda: now[0])
    chat = standin.private(ada)
    async with serving(standin.app) as base, _bot(base, standin.token) as bot:
        await bot.get_updates(allowed_updates=["stopped_message_generation"])
        await bot.send_message_draft(chat.id, 5, "so far", api_kwargs={"can_stop": True})
        now[0] += 29
        assert standin.draft(chat) == "so far"
        standin.stop(chat)
        (update,) = await bot.get_updates()
        assert update.api_kwargs["stopped_message_generation"]["draft_id"] == 5
        await bot.send_message_draft(chat.id, 5, "again")
        with pytest.raises(ValueError, match="no draft"):
            standin.stop(chat)
        now[0] += 31
        assert standin.draft(chat) is None
    assert standin.faults == []


async def test_a_group_takes_so_many_posts_and_edits_a_minute_and_private_chats_any(
    ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "true")
    now = [1_800_000_000.0]
    standin = TelegramStandin(clock=lambda: now[0], group_limit=2)
    group, chat = standin.group(-1001, topics={4: "One"}), standin.private(ada)
    async with serving(standin.app) as base, _bot(base, standin.token) as bot:
        message = await bot.send_message(group.id, "one", message_thread_id=4)
        await message.edit_text("two")
        with pytest.raises(RetryAfter):
            await bot.send_message(group.id, "three")
        for number in range(5):
            await bot.send_message(chat.id, str(number))
        now[0] += 61
        await bot.send_message(group.id, "three")


async def test_a_press_of_a_message_that_is_gone_names_only_its_number(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes")]])
    message = await bot.send_message(chat.id, "Sure?", reply_markup=keyboard)
    await message.delete()
    standin.press(chat, ada, message.message_id, "yes")
    (update,) = await bot.get_updates()
    assert update.callback_query is not None
    assert update.callback_query.message is not None
    assert not update.callback_query.message.is_accessible


async def test_the_bots_place_in_a_chat_is_told_in_full(bot: Bot, standin: TelegramStandin, ada: Person) -> None:
    group = standin.group(-1001)
    for status in ("administrator", "restricted", "kicked"):
        standin.set_bot_status(group, status, by=ada)
    told = [update.my_chat_member for update in await bot.get_updates() if update.my_chat_member]
    assert [change.new_chat_member.status for change in told] == ["administrator", "restricted", "kicked"]


async def test_a_reaction_reaches_a_bot_that_asks_for_it(
    bot: Bot, standin: TelegramStandin, chat: Chat, ada: Person
) -> None:
    message = await bot.send_message(chat.id, "hi")
    standin.react(chat, ada, message.message_id, "👍")
    await bot.get_updates(allowed_updates=["message_reaction"])
    standin.react(chat, ada, message.message_id, "👍")
    (update,) = await bot.get_updates()
    assert update.message_reaction is not None
    assert update.message_reaction.message_id == message.message_id
