"""What several replicas, or several tasks of one, do at the same moment."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import func, select

from adapters.base import Account, Address, Inbound
from gateway.access import Access
from gateway.db.engine import Database
from gateway.db.models import AccountRow, DueRow, FactRow
from gateway.history import History, Line, Session, Turned
from gateway.inbox import Inbox
from gateway.llm.client import Tokens
from gateway.moves import Moves
from gateway.outbox import Outbox, Post
from gateway.provenance import Provenance
from gateway.settings import Settings
from gateway.usage import Usage
from memory.provenance import Spoken, Witness
from memory.scope import Mode, Scope

Say = Callable[..., Inbound]
MakeScope = Callable[..., Scope]
ANN = Account(platform="telegram", user="42")
OLD, NEW = Address(platform="telegram", chat="-50"), Address(platform="telegram", chat="-1006")
MANY = 6


@pytest.fixture
def access(database: Database, settings_of: Callable[..., Settings], now: Any) -> Access:
    return Access(database, settings_of(), now)


@pytest.fixture(autouse=True)
async def connected(database: Database) -> None:
    """Open the pool's connections first: work that waits for a connection comes one after the other."""
    together = asyncio.Barrier(8)

    async def open_one() -> None:
        async with database.read() as session:
            await session.connection()
            await together.wait()

    await asyncio.gather(*(open_one() for _ in range(8)))


async def at_once(*work: Awaitable[Any]) -> list[Any]:
    return list(await asyncio.gather(*work))


def turned(text: str) -> Turned:
    content = [{"type": "text", "text": text}]
    lines = [Line(role="user", content=content, said=text), Line(role="assistant", content=content, said=text)]
    return Turned(lines=lines, recalled=(), rules=(), written=(), told_date="2026-05-01", told_notes_at=5.0, inbox_id=1)


async def test_a_strangers_first_messages_make_one_account_and_one_code(
    database: Database, access: Access, said: Say
) -> None:
    words = [verdict.word for verdict in await at_once(*(access.judge(said()) for _ in range(MANY)))]
    assert sum("approve" in word for word in words) == 1
    assert sum("still good" in word for word in words) == MANY - 1
    async with database.read() as session:
        assert await session.scalar(select(func.count()).select_from(AccountRow)) == 1


async def test_one_code_lets_one_operator_in(access: Access, said: Say) -> None:
    word = (await access.judge(said())).word
    code = word.split("approve ")[1].split("`")[0]
    found = await at_once(*(access.approve(code) for _ in range(MANY)))
    assert sorted(found, key=str) == sorted([ANN, *[None] * (MANY - 1)], key=str)


async def test_an_answer_that_two_show_at_the_same_moment_is_shown_by_one(
    outbox: Outbox, post: Callable[..., Post]
) -> None:
    found = await at_once(*(outbox.begin_live(post("1:0")) for _ in range(MANY)))
    assert sorted(found, key=str) == [*[""] * (MANY - 1), None]


async def test_an_account_and_a_chat_may_be_allowed_while_they_are_first_heard(access: Access, said: Say) -> None:
    here = said(chat="-50", shared=True)
    await at_once(
        *(access.judge(here) for _ in range(3)),
        *(access.allow_account(ANN, allowed=True) for _ in range(3)),
        *(access.allow_chat(OLD, allowed=True) for _ in range(3)),
    )
    assert sorted(await access.known()) == ["chat telegram:-50", "person telegram:42"]


async def test_a_chat_whose_move_is_told_on_two_replicas_at_once_is_moved_once(
    database: Database, access: Access, history: History, inbox: Inbox, said: Say
) -> None:
    await access.allow_chat(OLD, allowed=True)
    moves = Moves(database, access, history, inbox)
    await at_once(
        *(moves(OLD, NEW) for _ in range(MANY)), *(access.judge(said(chat="-1006", shared=True)) for _ in "12")
    )
    verdict = await access.judge(said(chat="-1006", shared=True))
    assert (verdict.allowed, verdict.principal) == (True, "chat:telegram:-50")


@pytest.mark.parametrize("attempt", range(3))
async def test_a_session_that_ends_while_its_turn_is_stored_has_one_extraction_due_with_all_of_it(
    database: Database, history: History, make_scope: MakeScope, attempt: int
) -> None:
    began = await history.start_session(make_scope(), "telegram:42", system=[], today="2026-05-01")
    await store(database, history, began)  # `due` is there already, or is made by both at once
    if attempt == 0:
        due, _ = (await history.due_extraction(began.id)) or pytest.fail("nothing is due")
        await history.close_due(due, move_cursor=True)
    turns = 0 if attempt == 0 else 1

    async def end() -> None:
        async with database.write() as session:
            await history.end_session(session, "telegram:42")

    await at_once(*(store(database, history, began) for _ in range(MANY)), end())
    async with database.read() as session:
        row = (await session.scalars(select(DueRow))).one()
    assert (row.turns, row.forced) == (turns + MANY, True)


async def store(database: Database, history: History, session: Session) -> None:
    async with database.write() as transaction:
        await history.add_turn(transaction, session, turned("tea"))


async def test_a_turn_that_is_stored_while_its_extraction_ends_stays_due(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    began = await history.start_session(make_scope(), "telegram:42", system=[], today="2026-05-01")
    for _ in range(MANY):
        await store(database, history, began)
        due, _ = (await history.due_extraction(began.id)) or pytest.fail("nothing is due")
        await at_once(history.close_due(due, move_cursor=True), store(database, history, began))
        left, session = (await history.due_extraction(began.id)) or pytest.fail("the turn was lost")
        assert (left.turns, left.new_messages) == (1, 2)
        assert len(session.messages) > len(began.messages)
        await history.close_due(left, move_cursor=True)
    assert await history.due() == []


def auto(_: Address, principal: str) -> Mode:
    return Mode.AUTO


async def test_a_silent_session_that_is_spoken_in_at_that_moment_goes_on_or_ends_whole(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    chats = [f"telegram:{number}" for number in range(MANY)]
    began = [await history.start_session(make_scope(), chat, system=[], today="2026-05-01") for chat in chats]
    now.forward(9 * 3600.0)
    ended = await at_once(
        *(store(database, history, one) for one in began), *(history.end_silent(mode_of=auto) for _ in range(3))
    )
    still = [await history.open_session(make_scope(), chat) for chat in chats]
    assert sum(count or 0 for count in ended) + sum(one is not None for one in still) == MANY
    async with database.read() as session:
        assert await session.scalar(select(func.count()).select_from(DueRow)) == MANY


async def test_a_fact_that_is_recorded_by_two_at_once_is_recorded_once(
    database: Database, make_scope: MakeScope
) -> None:
    provenance, scope = Provenance(database), make_scope()
    said = Spoken(message_id=1, account="telegram:42", speaker="Ann", text="tea", at=datetime(2026, 5, 1, tzinfo=UTC))
    facts = [f"- Ann drinks tea number {number}\n" for number in range(3)]

    async def write(order: list[str]) -> None:
        witness = Witness()
        await witness(scope, scope.memory_dir / "tea.md", before="", after="".join(order))
        await provenance.record(scope, witness, [said])

    await at_once(*(write(order) for order in (facts, facts[::-1]) for _ in range(3)))
    async with database.read() as session:
        assert await session.scalar(select(func.count()).select_from(FactRow)) == 3


async def test_what_was_used_is_counted_in_whole_numbers(database: Database, now: Any) -> None:
    usage = Usage(database, now)
    for _ in range(2):
        await usage.record(principal="p", purpose="chat", model="m", tokens=Tokens(input=2**40, output=2))
    assert json.dumps(asdict((await usage.since("p", 0.0))["chat"])).startswith('{"input": 2199023255552, "output": 4')


async def test_an_answer_with_a_character_that_no_text_column_holds_is_stored_without_it(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    scope = make_scope()
    session = await history.start_session(scope, "telegram:42", system=[{"text": "a\0b"}], today="2026-05-01")
    async with database.write() as transaction:
        await history.add_turn(transaction, session, turned("green\0 tea"))
    said = await history.said_between(scope, datetime.fromtimestamp(0, UTC), datetime(2027, 1, 1, tzinfo=UTC))
    assert [one.text for one in said] == ["green tea", "green tea"]
