from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, text

from adapters.base import Inbound
from adapters.doubles import RecordingAdapter
from gateway.access import Access
from gateway.db.engine import Database
from gateway.db.models import InboxRow, OutboxRow
from gateway.errors import Closing
from gateway.history import History
from gateway.inbox import Inbox
from gateway.intake import Intake
from gateway.moves import Moves
from gateway.settings import Settings

Say = Callable[..., Inbound]
ON = ("telegram",)


@pytest.fixture
def stopped() -> list[str]:
    return []


@pytest.fixture
def intake(
    *,
    database: Database,
    inbox: Inbox,
    history: History,
    settings_of: Callable[..., Settings],
    now: Any,
    stopped: list[str],
) -> Intake:
    access = Access(database, settings_of(REVERIE_ACCESS__OWNERS="telegram:42"), now)
    moves = Moves(database, access, history, inbox)
    return Intake(inbox, access, {"telegram": RecordingAdapter()}, stopped.append, moves)


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
