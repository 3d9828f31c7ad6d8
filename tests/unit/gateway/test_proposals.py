from collections.abc import Sequence

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account, Address
from gateway.db.engine import Database
from gateway.db.models import AccountRow, ChatRow, OutboxRow
from gateway.outbox import Outbox, Post, unrendered
from gateway.proposal_texts import LONG, differences, whole
from gateway.proposals import Proposal, Proposals, post_key
from memory.notes import content_hash
from memory.provenance import fact_hash
from memory.team.proposal import Change
from tests.unit.gateway.conftest import Now

OLD, NEW = "- The pump is broken.\n", "- The pump is broken.\n- Beans are sown in May.\n"
CHANGE = Change(key="beds.md", replaces=content_hash(OLD), text=NEW)
OWNER = Address(platform="telegram", chat="42")


@pytest.fixture
def proposals(database: Database, outbox: Outbox, now: Now) -> Proposals:
    return Proposals(database, outbox, now)


def posts(session: AsyncSession, number: int) -> Sequence[Post]:
    part = unrendered("- The pump is broken.")
    return [Post(key=post_key(number, OWNER), principal="person:telegram:42", address=OWNER, part=part)]


async def added(proposals: Proposals, project: str = "garden") -> Proposal:
    return await proposals.add(project, seen="x", title="1 note changed", changes=[CHANGE], removed=["a"], posts=posts)


async def test_of_a_project_one_proposal_waits_at_a_time(proposals: Proposals) -> None:
    first = await added(proposals)
    other = await added(proposals, "house")
    with pytest.raises(IntegrityError):
        await added(proposals)
    assert await proposals.waiting(["garden", "house"]) == [first, other]
    assert await proposals.waiting(["house"]) == [other]


async def test_a_proposal_is_answered_once_and_keeps_no_text_then(proposals: Proposals) -> None:
    number = (await added(proposals)).number
    assert await proposals.close(number, "refused", outcome="it was refused", account="telegram:42")
    assert not await proposals.close(number, "accepted", outcome="it was accepted")
    left = await proposals.of(number)
    assert left is not None
    assert (left.state, left.outcome, left.removed) == ("refused", "it was refused", ())
    assert [change.text for change in left.changes] == [None]
    assert await proposals.touched("garden", "refused") == [frozenset({("beds.md", content_hash(OLD))})]
    assert await added(proposals), "another one may wait now"


async def test_what_holds_something_forgotten_is_dropped_with_what_was_posted_of_it(
    proposals: Proposals, database: Database
) -> None:
    number = (await added(proposals)).number
    async with database.write() as session:
        (row,) = (await session.scalars(select(OutboxRow))).all()
        row.state = "sent"
    await proposals.drop_forgotten("garden", frozenset({fact_hash("something else")}))
    assert [each.number for each in await proposals.waiting(["garden"])] == [number]
    await proposals.drop_forgotten("garden", frozenset({fact_hash("The pump is broken.")}))
    left = await proposals.of(number)
    assert left is not None
    assert (left.state, [change.text for change in left.changes]) == ("dead", [None])
    async with database.read() as session:
        assert (await session.scalars(select(OutboxRow.part))).all() == [{}]


async def test_an_owner_is_told_in_the_private_chat_of_the_account_that_is_named(
    proposals: Proposals, database: Database
) -> None:
    async with database.write() as session:
        for user, kind in (("42", "private"), ("43", "private"), ("-100", "shared")):
            who = {"platform": "telegram", "workspace": "", "principal": f"person:telegram:{user}", "allowed": True}
            session.add(AccountRow(user=user, name="", created_at=0, **who))
            session.add(ChatRow(chat=user, kind=kind, title="", created_at=0, **who))
    owners = (Account(platform="telegram", user="42"), Account(platform="telegram", user="99"))
    assert await proposals.private_chats(owners) == [(OWNER, "person:telegram:42")]


async def test_differences_are_shown_line_by_line_and_never_without_end(proposals: Proposals) -> None:
    proposal = await added(proposals)
    shown = whole(proposal, {"beds.md": OLD})
    assert "beds.md: changed\n - The pump is broken.\n+- Beans are sown in May." in shown
    assert "it has changed since" in whole(proposal, {"beds.md": NEW})
    long = Change(key="long.md", replaces="", text="```\n" * (2 * LONG))
    lines = differences([long], {}, lines=LONG).splitlines()
    assert lines[0] == "````diff"
    assert len(lines) == LONG + 3
