"""From Slack's events to what a person said."""

from datetime import UTC, datetime
from typing import Any

import pytest

from adapters.base import Account, Address, Attachment, ChatKind, Inbound, Quoted
from adapters.slack.inbound import Bot, Scene, is_message, people_in, read_command, read_event
from adapters.slack.people import Person

BOT = Bot(team="T1", user="UBOT", bot="BBOT", name="reverie")
PEOPLE = {"U1": Person(name="Ada", locale="de-DE"), "U2": Person(name="Bo <b>")}
SCENE = Scene(bot=BOT, people=PEOPLE, chat_title="lab")


def event(**changes: Any) -> dict[str, Any]:
    base = {"type": "message", "user": "U1", "channel": "C1", "ts": "1700000000.000100", "text": "hello"}
    return {**base, "channel_type": "channel", **changes}


def read(given: dict[str, Any]) -> Inbound:
    inbound = read_event(given, scene=SCENE)
    assert inbound is not None
    return inbound


def test_both_events_of_a_mention_say_the_same() -> None:
    message = event(text="<@UBOT> what is up?")
    mention = {**message, "type": "app_mention"}
    del mention["channel_type"]
    assert read(message) == read(mention)
    assert read(message).external_id == "T1:C1:1700000000.000100"
    assert read(message).addressed
    assert read(message).text == "what is up?"


def test_what_is_said_in_a_channel_without_a_mention_is_not_addressed() -> None:
    inbound = read(event())
    assert not inbound.addressed
    assert inbound.kind is ChatKind.SHARED
    assert inbound.account == Account(platform="slack", workspace="T1", user="U1")
    assert (inbound.name, inbound.message_id) == ("Ada", "1700000000.000100")
    assert inbound.sent_at == datetime(2023, 11, 14, 22, 13, 20, 100, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "thread"),
    [
        ({}, "1700000000.000100"),
        ({"thread_ts": "169.1"}, "169.1"),
        ({"channel": "D1", "channel_type": "im"}, ""),
        ({"channel": "D1", "channel_type": "im", "thread_ts": "169.1"}, "169.1"),
    ],
)
def test_an_answer_goes_to_the_thread_and_a_channel_message_begins_one(changes: dict[str, Any], thread: str) -> None:
    given = event(**changes)
    assert read(given).address == Address(platform="slack", workspace="T1", chat=given["channel"], thread=thread)


def test_only_direct_messages_with_one_person_are_private() -> None:
    direct = read(event(channel="D1", channel_type="im"))
    assert (direct.kind, direct.addressed) == (ChatKind.PRIVATE, True)
    group = read(event(channel="G1", channel_type="mpim"))
    assert (group.kind, group.addressed) == (ChatKind.SHARED, False)
    assert read(event(channel="D1", channel_type="channel")).kind is ChatKind.SHARED


@pytest.mark.parametrize(
    "changes",
    [
        *({"subtype": s} for s in ("message_changed", "message_deleted", "bot_message", "channel_join")),
        *({"subtype": s} for s in ("channel_name", "message_replied", "assistant_app_thread", "tombstone")),
        {"bot_id": "BBOT"},
        {"bot_id": "B9"},
        {"user": "UBOT"},
        {"user": "USLACKBOT"},
        {"user": None},
        {"hidden": True},
        {"type": "app_mention", "edited": {"user": "U1", "ts": "1700000001.0"}},
    ],
)
def test_what_no_person_newly_said_is_ignored(changes: dict[str, Any]) -> None:
    assert not is_message(event(**changes), bot=BOT)
    assert read_event(event(**changes), scene=SCENE) is None


@pytest.mark.parametrize("subtype", ["file_share", "thread_broadcast"])
def test_files_and_broadcast_replies_are_messages(subtype: str) -> None:
    assert read(event(subtype=subtype)).text == "hello"


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("<@UBOT>: /status", "/status"),
        ("  <@UBOT|reverie> ask <@U2> &amp; <@U9>", "ask @Bo <b> & @U9"),
        ("tell <@UBOT> this", "tell @reverie this"),
        ("in <#C7|lab> or <#C8>", "in #lab or #C8"),
        ("<https://a.example/?x=1&amp;y=2|the page>", "the page (https://a.example/?x=1&y=2)"),
        ("<https://a.example> <http://b.example|b.example>", "https://a.example http://b.example"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("<!here> <!subteam^S1|@crew> <!date^1^{date}|monday>", "@here @crew monday"),
        ("1 &lt; 2 &amp;lt; 3", "1 < 2 &lt; 3"),
    ],
)
def test_text_reads_as_people_see_it(raw: str, seen: str) -> None:
    assert read(event(text=raw)).text == seen


def test_the_names_that_are_needed_are_listed_once_and_the_bots_is_not() -> None:
    assert people_in(event(text="<@UBOT> <@U2> <@U1> <@U2>"), bot=BOT) == ["U1", "U2"]


@pytest.mark.parametrize(
    ("text", "for_another"),
    [
        ("<@U2> can you look?", True),
        (" <@U2> <@U3>: look", True),
        ("<!subteam^S1|@crew> look", True),
        ("look, <@U2>", False),
        ("<@U2> ask <@UBOT>", False),
        ("<@UBOT> ask <@U2>", False),
        ("<!here> look", False),
        ("hello", False),
    ],
)
def test_who_is_meant_by_name_is_known(text: str, for_another: bool) -> None:
    assert read(event(text=text, thread_ts="1.0")).for_another is for_another
    assert not read(event(text=text, channel="D1", channel_type="im")).for_another


SHARED = {"is_share": True, "is_msg_unfurl": True, "author_id": "U2", "author_name": "Bo", "text": "rain &amp; <@U1>"}
OURS = {**SHARED, "author_id": "UBOT", "author_name": "app"}
PREVIEW = {"from_url": "https://a.example", "text": "a page"}


@pytest.mark.parametrize(
    ("changes", "text", "quoted", "forwarded_from"),
    [
        ({"text": "why?", "attachments": [SHARED]}, "why?", Quoted(name="Bo", text="rain & @Ada"), ""),
        ({"text": "<@UBOT>", "attachments": [SHARED]}, "rain & @Ada", None, "Bo"),
        ({"text": "", "attachments": [OURS]}, "rain & @Ada", None, "reverie"),
        ({"text": "?", "attachments": [OURS]}, "?", Quoted(name="reverie", text="rain & @Ada", mine=True), ""),
        ({"text": "see", "attachments": [PREVIEW]}, "see", None, ""),
        (
            {"text": "so?", "subtype": "thread_broadcast", "root": {"user": "U2", "text": "rain"}},
            "so?",
            Quoted(name="Bo <b>", text="rain"),
            "",
        ),
    ],
    ids=["with a word", "only a mention", "ours, alone", "ours, with a word", "a preview", "a broadcast reply"],
)
def test_a_message_that_is_passed_on_is_not_its_senders_own(
    changes: dict[str, Any], text: str, quoted: Quoted | None, forwarded_from: str
) -> None:
    inbound = read(event(**changes))
    assert (inbound.text, inbound.quoted, inbound.forwarded_from) == (text, quoted, forwarded_from)


def test_where_direct_messages_are_threads_each_begins_one() -> None:
    threaded = Scene(bot=BOT, people=PEOPLE, threaded=True)
    direct = event(channel="D1", channel_type="im")
    begun, later = (read_event(each, scene=threaded) for each in (direct, {**direct, "thread_ts": "169.1"}))
    assert begun is not None
    assert later is not None
    assert (begun.address.thread, later.address.thread) == (direct["ts"], "169.1")


def test_what_slack_says_of_a_file_is_kept_and_of_a_stub_only_its_id() -> None:
    whole = {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 7}
    stub = {"id": "F2", "mode": "file_access", "file_access": "check_file_info"}
    inbound = read(event(subtype="file_share", files=[whole, stub]))
    assert inbound.attachments == (
        Attachment(kind="photo", file_id="F1", name="a.png", media_type="image/png", size=7),
        Attachment(kind="document", file_id="F2"),
    )


def test_files_are_named_by_kind() -> None:
    files = [
        {"mimetype": "image/png"},
        {"mimetype": "audio/webm", "subtype": "slack_audio"},
        {"mimetype": "application/pdf"},
        {},
    ]
    inbound = read(event(subtype="file_share", files=files, text=""))
    assert [each.kind for each in inbound.attachments] == ["photo", "voice", "document", "document"]


def test_someone_from_another_workspace_is_not_taken_for_one_of_ours() -> None:
    assert str(read(event(user_team="T2")).account) == "slack:T2/U1"


@pytest.mark.parametrize(("said", "text"), [("status", "/status"), ("/status now", "/status now"), ("", "/help")])
def test_a_slash_command_stands_for_a_text_command(said: str, text: str) -> None:
    payload = {"user_id": "U1", "channel_id": "C1", "channel_name": "lab", "text": said, "trigger_id": "1.2.a"}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    inbound = read_command(payload, scene=SCENE, now=now)
    assert (inbound.text, inbound.external_id, inbound.addressed) == (text, "T1:trigger:1.2.a", True)
    assert str(inbound.address) == "slack:T1/C1"
    assert (inbound.kind, inbound.chat_title, inbound.sent_at) == (ChatKind.SHARED, "lab", now)


@pytest.mark.parametrize(("channel", "in_conversation"), [("C1", False), ("G1", False), ("D1", True)])
def test_a_slash_command_is_in_a_conversation_only_among_direct_messages(channel: str, in_conversation: bool) -> None:
    payload = {"user_id": "U1", "channel_id": channel, "text": "new", "trigger_id": "1.2.a"}
    inbound = read_command(payload, scene=SCENE, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert inbound.in_conversation is in_conversation


def test_a_command_from_another_workspace_is_never_taken_for_one_of_ours() -> None:
    payload = {"user_id": "U1", "team_id": "T2", "channel_id": "D1", "text": "memory", "trigger_id": "1.2.b"}
    inbound = read_command(payload, scene=SCENE, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert str(inbound.account) == "slack:T2/U1"


def test_of_what_is_said_to_a_channel_only_the_sender_is_looked_up_and_few_of_a_crowd() -> None:
    crowd = " ".join(f"<@U{number}>" for number in range(400))
    event = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": "1.1", "text": crowd}
    assert people_in(event, bot=BOT) == ["U1"]
    assert len(people_in(event | {"text": f"<@{BOT.user}> {crowd}"}, bot=BOT)) == 20
    assert len(people_in(event | {"thread_ts": "1.0"}, bot=BOT)) == 20


def test_a_reply_in_a_thread_is_told_from_what_begins_one() -> None:
    assert not read(event(text="hello")).thread_reply
    assert read(event(text="and then?", thread_ts="1.1", ts="1.2")).thread_reply
