import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from adapters.doubles import RecordingAdapter
from gateway.db.engine import Database
from gateway.db.models import OutboxRow
from gateway.history import History
from gateway.notices import Notices
from gateway.outbox import Outbox
from memory.scope import Scope
from tests.waiting import HANGS

MakeScope = Callable[..., Scope]


@pytest.fixture
def notices(outbox: Outbox, history: History) -> Notices:
    return Notices(outbox, history)


async def told(database: Database) -> list[tuple[str, str, str]]:
    async with database.read() as session:
        rows = (await session.scalars(select(OutboxRow).order_by(OutboxRow.id))).all()
    return [(row.conversation, row.principal, row.part["unrendered"]) for row in rows]


async def test_a_notice_goes_to_the_scopes_last_conversation(
    *, database: Database, history: History, notices: Notices, make_scope: MakeScope, now: Any
) -> None:
    for conversation in ("telegram:1", "telegram:1/7"):
        await history.start_session(make_scope(), conversation, system=[], today="")
        now.forward(1)
    await notices(make_scope(), "Your memory was tidied")
    assert await told(database) == [("telegram:1/7", "person:telegram:42", "_Your memory was tidied_")]


async def test_a_scope_that_was_never_heard_is_told_nothing(
    database: Database, notices: Notices, make_scope: MakeScope
) -> None:
    await notices(make_scope(), "Hello?")
    assert await told(database) == []


async def test_the_same_notice_is_told_once(database: Database, notices: Notices) -> None:
    for _ in range(2):
        await notices.tell("telegram:1", "p", "saved a_b", key="saved:1:2")
    assert await told(database) == [("telegram:1", "p", "saved a_b")]


async def test_a_process_without_adapters_leaves_the_notice_to_the_one_that_delivers(
    notices: Notices, outbox: Outbox, adapter: RecordingAdapter
) -> None:
    await notices.tell("telegram:42", "p", "saved", key="k")
    async with asyncio.timeout(HANGS), asyncio.TaskGroup() as group:
        group.create_task(outbox.deliver({"telegram": adapter}))
        await asyncio.sleep(0)
        outbox.close()
    assert adapter.texts == ["_saved_"]
