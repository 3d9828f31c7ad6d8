"""A group that became a supergroup is still the same group."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from adapters.base import Address, Inbound, Pressed
from adapters.doubles import RecordingAdapter
from gateway.access import Access
from gateway.approvals import Approvals
from gateway.buttons import Buttons, Choice
from gateway.db.engine import Database
from gateway.db.models import InboxRow, OutboxRow, SessionRow
from gateway.erasures import Erasures
from gateway.history import History
from gateway.inbox import Inbox
from gateway.moves import Moves
from gateway.outbox import Outbox, Post
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.paths import Homes
from memory.scope import Mode, Scope

Say = Callable[..., Inbound]
OLD, NEW = Address(platform="telegram", chat="-50"), Address(platform="telegram", chat="-1006")
NEIGHBOUR = Address(platform="telegram", chat="-505")
PRINCIPAL = "chat:telegram:-50"
ON = ("telegram",)
SETTINGS = {
    "REVERIE_PROJECTS": '{"tea": {"chats": ["telegram:-50"]}}',
    "REVERIE_CHATS": '{"telegram:-50": {"mode": "log"}}',
}


@pytest.fixture
def settings(settings_of: Callable[..., Settings]) -> Settings:
    return settings_of()


@pytest.fixture
def access(database: Database, settings: Settings, now: Any) -> Access:
    return Access(database, settings, now)


@pytest.fixture
def moves(database: Database, access: Access, history: History, inbox: Inbox) -> Moves:
    return Moves(database, access, history, inbox)


@pytest.fixture
def begin(history: History, make_scope: Callable[..., Scope]) -> Callable[..., Any]:
    """Open a session in a chat."""

    async def begun(address: Address, principal: str = PRINCIPAL) -> int:
        scope = make_scope(principal, shared=True)
        return (await history.start_session(scope, str(address), system=[], today="2026-05-01")).id

    return begun


async def sessions(database: Database) -> list[tuple[int, str, bool]]:
    async with database.read() as session:
        rows = (await session.scalars(select(SessionRow).order_by(SessionRow.id))).all()
    return [(row.id, row.conversation, row.ended) for row in rows]


def in_group(said: Say, address: Address, words: str = "hello") -> Inbound:
    return said(words, chat=address.chat, thread=address.thread, shared=True)


async def test_approval_and_memory_go_along_and_neighbours_do_not(access: Access, moves: Moves, said: Say) -> None:
    await access.allow_chat(OLD, allowed=True)
    await moves(OLD, NEW)
    verdict = await access.judge(in_group(said, NEW))
    assert (verdict.allowed, verdict.principal) == (True, PRINCIPAL)
    assert not (await access.judge(in_group(said, NEIGHBOUR))).allowed


async def test_a_chat_that_was_never_approved_is_not_by_moving(access: Access, moves: Moves, said: Say) -> None:
    await moves(OLD, NEW)
    assert not (await access.judge(in_group(said, NEW))).allowed


async def test_told_again_it_changes_nothing_not_even_what_was_forbidden_since(
    access: Access, moves: Moves, said: Say, begin: Any, database: Database
) -> None:
    await access.allow_chat(OLD, allowed=True)
    await begin(OLD)
    await moves(OLD, NEW)
    before = await sessions(database)
    await access.allow_chat(NEW, allowed=False)
    await moves(OLD, NEW)
    assert not (await access.judge(in_group(said, NEW))).allowed
    assert await sessions(database) == before


async def test_the_open_session_goes_on_in_the_new_place(begin: Any, moves: Moves, database: Database) -> None:
    here, topic = await begin(OLD), await begin(Address(platform="telegram", chat="-50", thread="7"))
    other = await begin(NEIGHBOUR)
    await moves(OLD, NEW)
    assert await sessions(database) == [
        (here, "telegram:-1006", False),
        (topic, "telegram:-1006/7", False),
        (other, "telegram:-505", False),
    ]


async def test_where_the_new_place_was_heard_first_its_session_stays_and_the_old_one_ends(
    *, access: Access, begin: Any, moves: Moves, said: Say, database: Database, inbox: Inbox
) -> None:
    await access.allow_chat(OLD, allowed=True)
    old, new = await begin(OLD), await begin(NEW, "chat:telegram:-1006")
    await inbox.add(in_group(said, NEW), principal="chat:telegram:-1006")
    await moves(OLD, NEW)
    assert await sessions(database) == [(old, "telegram:-1006", True), (new, "telegram:-1006", False)]
    claim = await inbox.claim(ON)
    assert claim is not None
    assert claim.principal == PRINCIPAL


async def test_what_waits_is_answered_in_the_new_place(inbox: Inbox, moves: Moves, said: Say) -> None:
    await inbox.add(in_group(said, OLD, "first"), principal=PRINCIPAL)
    await inbox.add(in_group(said, NEW, "second"), principal=PRINCIPAL)
    await moves(OLD, NEW)
    first = await inbox.claim(ON)
    assert first is not None
    assert (first.inbound.text, first.inbound.address) == ("first", NEW)
    assert await inbox.claim(ON) is None  # one conversation, in its order


async def test_what_is_being_answered_is_left_alone_and_can_be_finished(
    inbox: Inbox, moves: Moves, said: Say, database: Database
) -> None:
    await inbox.add(in_group(said, OLD), principal=PRINCIPAL)
    claim = await inbox.claim(ON)
    assert claim is not None
    await moves(OLD, NEW)
    async with database.write() as session:
        await inbox.finish(session, claim)
    async with database.read() as session:
        assert (await session.scalars(select(InboxRow.state))).all() == ["done"]


async def test_answers_that_wait_go_to_the_new_place_and_name_no_message_of_the_old_one(
    outbox: Outbox, moves: Moves, database: Database
) -> None:
    live = Post(key="a", principal=PRINCIPAL, address=OLD, part={"text": "…"}, reply_to="5")
    await outbox.begin_live(live)
    await outbox.live_posted("a", "6")
    await outbox.send([Post(key="b", principal=PRINCIPAL, address=OLD, part={"text": "hi"}, reply_to="5")])
    await moves(OLD, NEW)
    async with database.read() as session:
        rows = (await session.scalars(select(OutboxRow).order_by(OutboxRow.key))).all()
    assert [(row.conversation, row.message_id, row.reply_to) for row in rows] == [("telegram:-1006", "", "")] * 2


async def test_where_memory_was_left_aside_it_still_is(
    *, database: Database, now: Any, moves: Moves, make_scope: Callable[..., Scope], access: Access, settings: Settings
) -> None:
    await Erasures(database, now).ignore(make_scope(PRINCIPAL, shared=True), str(OLD))
    for _ in range(2):
        await moves(OLD, NEW)
    scopes = Scopes(settings, Homes(root=settings.home / "homes", settings=settings.memory), access, database)
    assert await scopes.ignoring(NEW, PRINCIPAL)


async def test_settings_that_name_the_old_id_still_count(
    *,
    database: Database,
    now: Any,
    history: History,
    inbox: Inbox,
    settings_of: Callable[..., Settings],
    said: Say,
) -> None:
    settings = settings_of(**SETTINGS)
    access = Access(database, settings, now)
    scopes = Scopes(settings, Homes(root=settings.home / "homes", settings=settings.memory), access, database)
    before = await scopes.of(OLD, PRINCIPAL)
    await Moves(database, access, history, inbox)(OLD, NEW)
    verdict = await access.judge(in_group(said, NEW))
    assert verdict.allowed
    after = await scopes.of(NEW, verdict.principal)
    assert after == before
    assert (after.mode, after.team_dir is not None) == (Mode.LOG, True)


async def test_a_button_can_be_pressed_in_the_new_place(moves: Moves, said: Say, database: Database, now: Any) -> None:
    sent, buttons, choice = in_group(said, OLD), Buttons(database, now), Choice(label="Yes", says="/team yes 1")
    offer = buttons.offer([choice], principal=PRINCIPAL, conversation=OLD, accounts=[sent.account])
    async with database.write() as session:
        offer.keep(session)
    await moves(OLD, NEW)
    pressed = Pressed(
        external_id="p", address=NEW, kind=sent.kind, account=sent.account, name="Ann", token=offer.buttons[0].token,
        message_id="9",
    )  # fmt: skip
    assert await buttons.said(pressed)
    assert await buttons.said(replace(pressed, address=OLD)) is None


async def test_a_question_can_be_answered_in_the_new_place(
    *, moves: Moves, said: Say, database: Database, inbox: Inbox, outbox: Outbox, now: Any
) -> None:
    adapters = {"telegram": RecordingAdapter()}
    approvals = Approvals(database, outbox, Buttons(database, now), adapters, now, seconds=60)
    await inbox.add(in_group(said, OLD), principal=PRINCIPAL)
    claim = await inbox.claim(ON)
    assert claim is not None
    number = await approvals._put(claim, 1, "delete", {})
    await moves(OLD, NEW)
    answered = await approvals.answer(replace(in_group(said, NEW, f"/allow {number}"), attachments=()))
    assert answered is not None
    assert answered.decided
