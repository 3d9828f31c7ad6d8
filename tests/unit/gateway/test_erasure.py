import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import func, select

from adapters.base import Account, Address
from gateway.access import Access
from gateway.db.engine import Database
from gateway.db.models import DueRow, SessionRow
from gateway.erasures import Erasures
from gateway.history import History, Line, Session, Turned
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.erasure import Gone
from memory.paths import Homes
from memory.scope import Scope

HERE = "telegram:42"
ANN, BOB = (Account(platform="telegram", user=user) for user in ("42", "43"))
FORGOTTEN = Gone(notes=frozenset(), texts=("Ann keeps a zebra",), corpus=("Ann keeps a zebra", "Ann drinks tea"))
ITEMS = [{"note": "tea.md", "hash": ""}]


@pytest.fixture
def scope(make_scope: Callable[..., Scope]) -> Scope:
    return make_scope()


@pytest.fixture
def erasures(database: Database, now: Any) -> Erasures:
    return Erasures(database, now)


async def turn(
    database: Database, history: History, scope: Scope, said: str, answer: str = "ah", *, inbox_id: int = 1,
    conversation: str = HERE,
) -> Session:  # fmt: skip
    session = await history.open_session(scope, conversation)
    session = session or await history.start_session(scope, conversation, system=[], today="2026-05-01")
    content = [{"type": "text", "text": said}]
    turned = Turned(
        lines=[
            Line(role="user", content=content, speaker="Ann", said=said),
            Line(role="assistant", content=content),
            Line(role="assistant", content=content, said=answer),
        ],
        recalled=(), rules=(), written=(), told_date="2026-05-01", told_notes_at=0.0, inbox_id=inbox_id,
    )  # fmt: skip
    async with database.write() as transaction:
        await history.add_turn(transaction, session, turned)
    return session


async def said_today(history: History, scope: Scope) -> list[str]:
    day = (datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC))
    return [each.text for each in await history.said_between(scope, *day)]


async def waiting(database: Database) -> int:
    async with database.read() as session:
        return await session.scalar(select(func.count()).select_from(DueRow)) or 0


async def test_the_turns_in_which_it_was_said_are_forgotten_with_their_answers(
    database: Database, history: History, erasures: Erasures, scope: Scope, make_scope: Callable[..., Scope]
) -> None:
    await turn(database, history, scope, "my zebra")
    await turn(database, history, scope, "which animal?", "the zebra", inbox_id=2)
    await turn(database, history, scope, "it rains", inbox_id=3)
    found = await erasures.messages_telling(scope, lambda text: "zebra" in text, known=())
    assert found == frozenset(range(1, 7))
    assert await erasures.messages_telling(scope, lambda _: False, known=[8]) == frozenset((7, 8, 9))
    assert await erasures.messages_telling(make_scope("person:telegram:43"), lambda _: True, known=[1]) == frozenset()
    await erasures.erase(scope, messages=found, what=FORGOTTEN)
    assert await said_today(history, scope) == ["it rains", "ah"]


async def test_erasing_ends_all_sessions_of_the_memory_and_drops_what_was_due_of_those_that_know_of_it(
    database: Database, history: History, erasures: Erasures, make_scope: Callable[..., Scope], now: Any
) -> None:
    scope, other = make_scope(), make_scope("person:telegram:43")
    mine = await turn(database, history, scope, "my zebra")
    thread = await turn(database, history, scope, "hello", conversation=f"{HERE}/7")
    theirs = await turn(database, history, other, "my zebra", conversation="telegram:43")
    now.forward(1)
    await erasures.erase(scope, messages=[1], what=FORGOTTEN)
    assert await history.open_session(scope, HERE) is None
    assert await history.open_session(scope, f"{HERE}/7") is None
    assert await history.open_session(other, "telegram:43") is not None
    assert await history.due() == [thread.id, theirs.id]
    assert [await erasures.touch(each.id) for each in (mine, thread, theirs)] == [True, False, False]
    now.forward(1)
    assert not await erasures.touch((await turn(database, history, scope, "anew")).id)
    assert await said_today(history, other) == ["my zebra", "ah"]


async def test_what_stays_due_is_extracted_with_a_prompt_that_has_lost_it(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    block = {"type": "text", "text": "# Index\n\n- [Zebra](zoe.md): Ann keeps a zebra\n- [Tea](tea.md): drinks\n"}
    session = await history.start_session(scope, HERE, system=[block], today="2026-05-01")
    await turn(database, history, scope, "it rains")
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    found = await history.due_extraction(session.id)
    assert found is not None
    assert found[1].system == [{"type": "text", "text": "# Index\n\n- [Tea](tea.md): drinks\n"}]


async def test_what_is_due_of_a_session_that_was_shown_it_is_dropped(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    await turn(database, history, scope, "and then?\nAnn keeps a zebra\nIt rains")
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    assert await history.due() == []


async def test_a_turn_that_ran_while_something_was_forgotten_is_not_extracted(
    database: Database, history: History, erasures: Erasures, scope: Scope, now: Any
) -> None:
    session = await history.start_session(scope, HERE, system=[], today="2026-05-01")
    now.forward(1)
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    now.forward(1)
    assert not await erasures.touch(session.id)
    async with database.write() as transaction:
        line = Line(role="user", content=[{"type": "text", "text": "hello"}], said="hello")
        turned = Turned(
            lines=[line], recalled=(), rules=(), written=(), told_date="2026-05-01", told_notes_at=0.0, inbox_id=1
        )
        await history.add_turn(transaction, session, turned)
    assert await erasures.touch(session.id)


async def test_of_what_others_said_only_the_answers_that_tell_it_are_forgotten(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    await turn(database, history, scope, "my zebra", "a zebra!")
    found = await erasures.messages_telling(scope, lambda text: "zebra" in text, known=(), by=[str(BOB)])
    assert found == frozenset((3,))


async def test_a_dream_is_told_of_what_was_forgotten_since_it_began(
    database: Database, erasures: Erasures, scope: Scope, make_scope: Callable[..., Scope], now: Any
) -> None:
    provenance, began = Provenance(database), now()
    now.forward(1)
    await erasures.erase(scope, messages=[], what=FORGOTTEN)
    assert await provenance.erased_since(scope, began)
    assert not await provenance.erased_since(make_scope(project="coffee"), began)
    now.forward(1)
    assert not await provenance.erased_since(scope, now())


async def test_what_was_listed_holds_for_ten_minutes_for_one_person_in_one_place(
    erasures: Erasures, scope: Scope, make_scope: Callable[..., Scope], now: Any
) -> None:
    await erasures.offer(scope, HERE, ANN, [{"note": "old.md", "hash": ""}])
    await erasures.offer(scope, HERE, ANN, ITEMS)
    assert await erasures.offered(scope, HERE, ANN) == ITEMS
    assert await erasures.offered(scope, HERE, BOB) == []
    assert await erasures.offered(scope, f"{HERE}/7", ANN) == []
    assert await erasures.offered(make_scope(project="coffee"), HERE, ANN) == []
    now.forward(600)
    assert await erasures.offered(scope, HERE, ANN) == []


async def test_a_conversation_that_leaves_memory_aside_has_a_scope_without_it(
    database: Database, erasures: Erasures, settings_of: Callable[..., Settings], now: Any
) -> None:
    settings = settings_of()
    homes = Homes(root=settings.home / "homes", settings=settings.memory)
    scopes = Scopes(settings, homes, Access(database, settings, now), database)
    here, topic, principal = Address.parse(HERE), Address.parse(f"{HERE}/7"), "person:telegram:42"
    scope = await scopes.of(here, principal)
    for _ in range(2):
        await erasures.ignore(scope, HERE)
    assert [(await scopes.of(place, principal)).enabled for place in (here, topic)] == [False, True]
    assert (await scopes.of(here, "person:telegram:43")).enabled
    for _ in range(2):
        await erasures.heed(scope, HERE)
    assert (await scopes.of(here, principal)).enabled


async def test_leaving_memory_aside_ends_the_session_both_ways_and_passes_over_what_was_said(
    database: Database, history: History, erasures: Erasures, scope: Scope, now: Any
) -> None:
    before = await turn(database, history, scope, "before")
    now.forward(1)
    await erasures.ignore(scope, HERE)
    assert await history.due() == []
    assert await history.open_session(scope, HERE) is None
    now.forward(1)
    aside = await turn(database, history, scope, "aside", inbox_id=2)
    assert aside.id != before.id
    await erasures.heed(scope, HERE)
    assert await history.open_session(scope, HERE) is None
    assert await history.due() == [before.id]
    assert await waiting(database) == 1
    async with database.read() as session:
        cursors = {row.id: row.extracted_to for row in (await session.scalars(select(SessionRow))).all()}
    assert cursors == {before.id: 0, aside.id: 6}


async def test_two_who_erase_at_once_do_not_hinder_each_other(
    database: Database, history: History, erasures: Erasures, scope: Scope
) -> None:
    await turn(database, history, scope, "my zebra")
    await asyncio.gather(*(erasures.erase(scope, messages=[1], what=FORGOTTEN) for _ in range(3)))
    assert await said_today(history, scope) == ["ah"]
