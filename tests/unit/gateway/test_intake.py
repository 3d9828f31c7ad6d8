from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, text

from adapters.base import Account, Address, Amended, Attachment, Inbound, Pressed, Quoted
from adapters.doubles import RecordingAdapter
from gateway.access import Access
from gateway.approvals import Approvals
from gateway.buttons import Buttons, Choice
from gateway.db.engine import Database
from gateway.db.models import ButtonRow, InboxRow, OutboxRow
from gateway.errors import Closing
from gateway.history import History
from gateway.inbox import Inbox
from gateway.intake import Intake
from gateway.moves import Moves
from gateway.outbox import Outbox
from gateway.settings import ChatSettings, Settings

Say = Callable[..., Inbound]
ON = ("telegram",)


@pytest.fixture
def stopped() -> list[str]:
    return []


@pytest.fixture
def lost() -> list[str]:
    return []


@pytest.fixture
def taken() -> list[Inbound]:
    return []


@pytest.fixture
def chats() -> dict[str, ChatSettings]:
    return {}


@pytest.fixture
def intake(
    *,
    database: Database,
    inbox: Inbox,
    outbox: Outbox,
    history: History,
    settings_of: Callable[..., Settings],
    now: Any,
    stopped: list[str],
    lost: list[str],
    taken: list[Inbound],
    chats: dict[str, ChatSettings],
) -> Intake:
    access = Access(database, settings_of(REVERIE_ACCESS__OWNERS="telegram:42"), now)
    moves = Moves(database, access, history, inbox)
    return Intake(
        inbox=inbox,
        access=access,
        adapters={"telegram": RecordingAdapter()},
        chats=chats,
        stop=stopped.append,
        lose=lost.append,
        taken=taken.append,
        move=moves,
        buttons=(buttons := Buttons(database, now)),
        approvals=Approvals(database, outbox, buttons, {"telegram": RecordingAdapter()}, now, seconds=60),
        page=nobody_s,
    )


async def nobody_s(account: Account) -> str:
    return f"the page of {account}"


async def kept(database: Database) -> Sequence[InboxRow]:
    async with database.read() as session:
        return (await session.scalars(select(InboxRow).order_by(InboxRow.id))).all()


async def replies(database: Database) -> list[str]:
    async with database.read() as session:
        return [row.part["text"] for row in (await session.scalars(select(OutboxRow).order_by(OutboxRow.id))).all()]


async def test_a_message_is_in_the_line_when_put_returns(intake: Intake, inbox: Inbox, said: Say) -> None:
    sent = said("hello")
    await intake.put(sent)
    claim = await inbox.claim(ON)
    assert claim is not None
    assert (claim.inbound, claim.principal) == (sent, "person:telegram:42")


async def test_of_each_message_that_is_to_be_answered_is_heard_once(
    intake: Intake, taken: list[Inbound], said: Say
) -> None:
    sent = said("hello")
    for each in (sent, sent, said("/stop"), said(user="7", chat="7"), said(shared=True, addressed=False)):
        await intake.put(each)
    assert taken == [sent]


async def test_of_what_is_not_meant_for_the_bot_nothing_is_stored(
    intake: Intake, database: Database, said: Say
) -> None:
    await intake.put(said("canary", chat="-100", user="7", shared=True, addressed=False))
    async with database.read() as session:
        for table in ("inbox", "outbox", "accounts", "chats", "pairing_codes"):
            assert (await session.execute(text(f"SELECT * FROM {table}"))).all() == []


async def test_of_a_strangers_message_no_word_is_kept_and_a_code_is_sent(
    intake: Intake, database: Database, inbox: Inbox, said: Say
) -> None:
    await intake.put(said("canary", user="7", chat="7"))
    (row,) = await kept(database)
    assert row.state == "refused"
    assert "canary" not in str(row.payload)
    assert "photo" not in str(row.payload)
    assert ["reverie access approve" in reply for reply in await replies(database)] == [True]
    assert await inbox.claim(ON) is None


async def test_nor_of_what_a_stranger_answers_passes_on_or_is_called_by(
    intake: Intake, database: Database, said: Say
) -> None:
    sent = said(user="7", chat="7")
    canaries: dict[str, Any] = {name: f"canary {name}" for name in ("name", "chat_title", "language", "forwarded_from")}
    came = Attachment(kind="document", file_id="canary", name="canary.txt")
    await intake.put(replace(sent, quoted=Quoted(name="canary", text="canary"), attachments=(came,), **canaries))
    (row,) = await kept(database)
    assert "canary" not in str(row.payload)
    assert Account(**row.payload["account"]) == sent.account


async def test_what_is_forwarded_stops_nothing(intake: Intake, inbox: Inbox, said: Say, stopped: list[str]) -> None:
    await intake.put(said("hello"))
    assert await inbox.claim(ON)
    await intake.put(replace(said("/stop"), forwarded_from="Carl"))
    assert stopped == []
    await intake.put(said("/stop"))
    assert len(stopped) == 1


async def test_a_strangers_repeat_gets_no_second_code(intake: Intake, database: Database, said: Say) -> None:
    sent = said(user="7", chat="7")
    await intake.put(sent)
    await intake.put(sent)
    assert len(await replies(database)) == 1


async def test_a_message_with_what_no_database_keeps_is_stored_all_the_same(
    intake: Intake, database: Database, said: Say
) -> None:
    await intake.put(said("a\0b\ud83dc"))
    (row,) = await kept(database)
    assert row.payload["text"] == "ab?c"


async def test_stop_goes_round_the_line_to_the_running_message(
    intake: Intake, inbox: Inbox, stopped: list[str], said: Say, database: Database
) -> None:
    await intake.put(said("long work"))
    await intake.put(said("next"))
    running = await inbox.claim(ON)
    assert running is not None
    await intake.put(said(" /STOP@reverie_bot now"))
    assert stopped == [running.token]
    assert await inbox.renew(running)
    assert await replies(database) == []


async def test_a_repeated_stop_never_touches_the_next_message(
    intake: Intake, inbox: Inbox, stopped: list[str], said: Say, database: Database
) -> None:
    stop = said("/stop")
    await intake.put(said("first"))
    await intake.put(said("next"))
    first = await inbox.claim(ON)
    assert first is not None
    await intake.put(stop)
    await inbox.bury(first, error="stop", replies=[])
    following = await inbox.claim(ON)
    assert following is not None
    await intake.put(stop)
    assert stopped == [first.token]
    assert not await inbox.renew(following)


async def test_stop_in_one_chat_leaves_the_others_alone(
    intake: Intake, inbox: Inbox, stopped: list[str], said: Say
) -> None:
    await intake.put(said("work", chat="1"))
    assert await inbox.claim(ON) is not None
    await intake.put(said("/stop", chat="2"))
    assert stopped == []


async def test_stop_with_nothing_to_stop_says_so_once(intake: Intake, database: Database, said: Say) -> None:
    stop = said("/stop")
    await intake.put(stop)
    await intake.put(stop)
    assert await replies(database) == ["There is nothing to stop."]


async def test_a_stop_that_is_in_no_conversation_is_answered_like_any_command(
    intake: Intake, inbox: Inbox, stopped: list[str], said: Say
) -> None:
    await intake.put(replace(said("/stop"), in_conversation=False))
    claim = await inbox.claim(ON)
    assert claim is not None
    assert (claim.inbound.text, claim.inbound.in_conversation, stopped) == ("/stop", False, [])


async def test_a_strangers_stop_stops_nothing(intake: Intake, inbox: Inbox, stopped: list[str], said: Say) -> None:
    await intake.put(said("work"))
    assert await inbox.claim(ON) is not None
    await intake.put(said("/stop", user="7"))
    assert stopped == []


async def test_a_store_that_fails_is_heard_of_so_that_the_platform_sends_again(
    intake: Intake, database: Database, said: Say
) -> None:
    sent = said()
    async with database.write() as session:
        await session.execute(text("ALTER TABLE inbox RENAME TO away"))
    with pytest.raises(Exception, match="inbox"):
        await intake.put(sent)
    async with database.write() as session:
        await session.execute(text("ALTER TABLE away RENAME TO inbox"))
    await intake.put(sent)
    assert len(await kept(database)) == 1


async def test_after_closing_nothing_is_taken_so_that_the_platform_sends_it_again(
    intake: Intake, inbox: Inbox, said: Say
) -> None:
    intake.close()
    with pytest.raises(Closing):
        await intake.put(said())
    with pytest.raises(Closing):
        await intake.moved(said(chat="-50").address, said(chat="-1006").address)
    assert await inbox.claim(ON) is None


async def test_who_is_named_or_heard_out_by_the_settings_is_meant_and_who_names_another_is_not(
    intake: Intake, database: Database, said: Say, chats: dict[str, ChatSettings]
) -> None:
    await allow_group(intake)
    chats["telegram:-100"] = ChatSettings(names=("Mina", "小雅"))
    for words in ("tell me, mina", "小雅请说", "a minaret"):
        await intake.put(said(words, chat="-100", shared=True, addressed=False))
    chats["telegram:-100"] = ChatSettings(answer="all")
    await intake.put(said("anything", chat="-100", shared=True, addressed=False))
    await intake.put(replace(said("@bob you", chat="-100", shared=True, addressed=False), for_another=True))
    assert [row.payload["text"] for row in await kept(database)] == ["tell me, mina", "小雅请说", "anything"]


async def test_a_chat_that_is_off_is_told_so_only_when_the_bot_was_addressed(
    intake: Intake, database: Database, said: Say, chats: dict[str, ChatSettings]
) -> None:
    chats["telegram:-100"] = ChatSettings(answer="all")
    await intake.put(said("anything", chat="-100", shared=True, addressed=False))
    assert await replies(database) == []
    await intake.put(said("you there", chat="-100", shared=True))
    assert len(await replies(database)) == 1


async def test_a_reply_in_a_thread_is_meant_while_the_bot_takes_part_in_it(
    intake: Intake, inbox: Inbox, database: Database, said: Say
) -> None:
    await allow_group(intake)
    follows = replace(said("and then?", chat="-100", thread="7", shared=True, addressed=False), thread_reply=True)
    await intake.put(follows)
    assert await kept(database) == []
    await intake.put(said("question", chat="-100", thread="7", shared=True))
    await intake.put(follows)
    assert [row.payload["text"] for row in await kept(database)] == ["question", "and then?"]


async def test_an_edit_stops_or_drops_the_answer_that_is_under_way(
    intake: Intake, inbox: Inbox, said: Say, stopped: list[str], lost: list[str]
) -> None:
    sent = said("helo")
    await intake.put(sent)
    first = await inbox.claim(ON)
    await intake.amended(amended(sent, "hello"))
    second = await inbox.claim(ON)
    assert first is not None
    assert second is not None
    assert (lost, second.inbound.text, second.attempts) == ([first.token], "hello", 1)
    await intake.amended(amended(sent, None))
    assert stopped == [second.token]


async def test_a_press_says_what_the_button_holds_once_it_is_offered_there_and_to_them(
    intake: Intake, inbox: Inbox, database: Database, said: Say, now: Any
) -> None:
    await intake.put(said("/team"))
    claim = await inbox.claim(ON)
    assert claim is not None
    inbound, yes = claim.inbound, Choice(label="Yes", says="/team yes 1")
    offer = Buttons(database, now).offer(
        [yes], principal=claim.principal, conversation=inbound.address, accounts=[inbound.account]
    )
    [button] = offer.buttons
    async with database.write() as session:
        offer.keep(session)
        await inbox.finish(session, claim)
    assert await intake.pressed(press(claim.inbound, button.token, user="43"))
    assert await intake.pressed(press(claim.inbound, "made-up"))
    assert await intake.pressed(press(claim.inbound, button.token)) == ""
    after = await inbox.claim(ON)
    assert after is not None
    assert (after.inbound.text, after.inbound.in_place_of) == ("/team yes 1", "9")


async def test_a_second_press_is_told_aside_that_the_question_is_over_and_takes_nothing_off_the_first(
    intake: Intake, inbox: Inbox, database: Database, said: Say
) -> None:
    await intake.put(said("do it"))
    claim = await inbox.claim(ON)
    assert claim is not None
    await intake._approvals._put(claim, 1, "delete", {"file_path": "a.md"})
    async with database.read() as session:
        once, _, no = (await session.scalars(select(ButtonRow).order_by(ButtonRow.says))).all()
    assert await intake.pressed(press(claim.inbound, once.token)) == ""
    assert "over" in await intake.pressed(press(claim.inbound, no.token))
    assert (await replies(database))[1:] == ["Allowed, this once."]


async def allow_group(intake: Intake) -> None:
    await intake._access.allow_chat(Address(platform="telegram", chat="-100"), allowed=True)


def amended(sent: Inbound, text: str | None) -> Amended:
    return Amended(external_id=sent.external_id, address=sent.address, account=sent.account, text=text)


def press(sent: Inbound, token: str, *, user: str = "42") -> Pressed:
    return Pressed(
        external_id=f"press-{token}-{user}",
        address=sent.address,
        kind=sent.kind,
        account=Account(platform="telegram", user=user),
        name="Ann",
        token=token,
        message_id="9",
    )
