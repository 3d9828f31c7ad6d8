from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, text, update

from adapters.base import Address, Inbound
from gateway.db.engine import Database
from gateway.db.line import Line
from gateway.db.models import InboxRow
from gateway.errors import ClaimLost
from gateway.inbox import Inbox
from gateway.outbox import Outbox
from tests.postgres import sqlite_only

ON = ("telegram",)
IDS = st.text(st.characters(codec="utf-8", exclude_characters="/", exclude_categories=["Z", "C"]), min_size=1)


@given(chat=IDS, thread=st.just("") | IDS, workspace=IDS)
def test_an_address_is_the_same_after_it_went_through_its_text(chat: str, thread: str, workspace: str) -> None:
    for address in (
        Address(platform="telegram", chat=chat, thread=thread),
        Address(platform="slack", workspace=workspace, chat=chat, thread=thread),
    ):
        assert Address.parse(str(address)) == address


async def test_a_row_that_is_committed_late_does_not_run_beside_its_successor(
    database: Database, inbox: Inbox, said: Callable[..., Inbound]
) -> None:
    line = Line(InboxRow, running="claimed")
    await inbox.add(said(), principal="p")
    async with database.write() as session:
        await session.execute(update(InboxRow).values(id=100))
        assert await line.claim(session, platforms=ON, now=1.0, lease=30.0)
    async with database.write() as session:
        early = said()
        session.add(inbox._row(early, principal="p", state="pending"))
        await session.flush()
        await session.execute(update(InboxRow).where(InboxRow.external_id == early.external_id).values(id=50))
    async with database.write() as session:
        assert await line.claim(session, platforms=ON, now=1.0, lease=30.0) is None


async def test_a_claim_that_ran_out_changes_nothing(
    database: Database, inbox: Inbox, said: Callable[..., Inbound]
) -> None:
    line = Line(InboxRow, running="claimed")
    await inbox.add(said(), principal="p")
    async with database.write() as session:
        first = await line.claim(session, platforms=ON, now=1.0, lease=30.0)
        assert first is not None
        stale = first.claim
    async with database.write() as session:
        second = await line.claim(session, platforms=ON, now=32.0, lease=30.0)
        assert second is not None
        assert (second.id, second.attempts) == (first.id, 2)
    with pytest.raises(ClaimLost):
        async with database.write() as session:
            await line.change(session, first.id, stale, state="done")


@sqlite_only  # reads its query plan
async def test_what_is_settled_costs_a_claim_nothing(database: Database, inbox: Inbox, outbox: Outbox) -> None:
    asked: list[tuple[str, Any]] = []

    @event.listens_for(database.engine.sync_engine, "before_cursor_execute")
    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    await inbox.claim(ON)
    await outbox.take_over()
    await inbox.take_over()
    await outbox.oldest_waiting()
    await outbox.holds_back(Address(platform="telegram", chat="42"))
    lines = [one for one in asked if one[0].startswith(("SELECT", "UPDATE"))]
    assert len(lines) == 5
    async with database.read() as session:
        for statement, parameters in lines:
            connection = await session.connection()
            plan = (await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)).all()
            tables = [row.detail for row in plan if row.detail.startswith(("SCAN", "SEARCH")) and "box" in row.detail]
            assert tables
            assert all("_open" in detail or "USING INDEX uq_" in detail for detail in tables), (statement, tables)


@sqlite_only  # reads its query plan
async def test_the_search_for_silent_sessions_reads_only_open_ones(database: Database) -> None:
    async with database.read() as session:
        plan = await session.execute(
            text("EXPLAIN QUERY PLAN SELECT * FROM sessions WHERE ended = 0 AND last_at < 5 AND conversation = 'x'")
        )
        assert "uq_sessions_open" in plan.all()[0].detail
