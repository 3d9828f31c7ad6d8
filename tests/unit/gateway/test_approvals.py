"""Tools that wait for a person's word: the answer goes round the line in which the turn stands."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from adapters.base import Account, Attachment, Inbound
from adapters.doubles import RecordingAdapter
from gateway.approvals import Answered, Approvals, Asking, _question, prune
from gateway.buttons import Buttons
from gateway.db.engine import Database
from gateway.db.models import ButtonRow, OutboxRow
from gateway.inbox import Claim, Inbox
from gateway.outbox import Outbox

Say = Callable[..., Inbound]
ON = ("telegram",)
OWNER = Account(platform="telegram", user="1")


@pytest.fixture
def approvals(database: Database, outbox: Outbox, now: Any) -> Approvals:
    platforms = {"telegram": RecordingAdapter()}
    return Approvals(database, outbox, Buttons(database, now), platforms, now, seconds=60, owners=[OWNER])


@pytest.fixture
async def claim(inbox: Inbox, said: Say) -> Claim:
    await inbox.add(said("do it", shared=True), principal="p")
    claim = await inbox.claim(ON)
    assert claim is not None
    return claim


async def questions(database: Database, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many questions were put, and return them, oldest first."""
    while True:
        async with database.read() as session:
            rows = (await session.scalars(select(OutboxRow).order_by(OutboxRow.id))).all()
        if len(rows) >= count:
            return [row.part for row in rows]
        await asyncio.sleep(0.01)


@pytest.fixture
async def ask(approvals: Approvals, claim: Claim) -> AsyncIterator[Callable[..., asyncio.Task[bool]]]:
    asked: list[asyncio.Task[bool]] = []

    def begin(tool: str = "write", *, session: int = 1, claimed: Claim = claim) -> asyncio.Task[bool]:
        asking = Asking(approvals=approvals, claim=claimed, session_id=session, tools=frozenset({"write", "delete"}))
        asked.append(asyncio.create_task(asking.allowed(tool, {"file_path": "a.md"})))
        return asked[-1]

    yield begin
    for task in asked:
        task.cancel()
    await asyncio.wait(asked)


@pytest.mark.parametrize(
    ("word", "allowed"), [("1", True), ("Yes.", True), ("好的", True), ("2", True), ("3", False), ("拒绝", False)]
)
async def test_a_short_word_answers_the_one_question_that_waits(
    approvals: Approvals, database: Database, ask: Any, said: Say, word: str, *, allowed: bool
) -> None:
    asked = ask()
    await questions(database)
    assert await approvals.answer(bare(said(word, shared=True)))
    assert await asked is allowed


async def test_while_two_wait_a_short_word_is_chat_and_a_number_names_one(
    approvals: Approvals, database: Database, ask: Any, said: Say
) -> None:
    first, second = ask("write"), ask("delete")
    parts = await questions(database, 2)
    assert await approvals.answer(bare(said("1", shared=True))) is None
    deleting = next(part["text"] for part in parts if "**delete**" in part["text"])
    number = deleting.partition("`/allow ")[2].partition("`")[0]
    assert await approvals.answer(bare(said(f"/deny {number}", shared=True)))
    assert await second is False
    assert not first.done()


async def test_only_whoever_is_answered_or_an_owner_decides(
    approvals: Approvals, database: Database, ask: Any, said: Say
) -> None:
    asked = ask()
    await questions(database)
    assert await approvals.answer(bare(said("1", shared=True, user="43"))) is None
    assert await approvals.answer(bare(said("1", shared=True, chat="77"))) is None
    assert await approvals.answer(replace(said("1", shared=True), attachments=(Attachment(kind="photo"),))) is None
    assert not asked.done()
    assert await approvals.answer(bare(said("1", shared=True, user="1")))
    assert await asked


async def test_what_is_forwarded_decides_nothing(approvals: Approvals, database: Database, ask: Any, said: Say) -> None:
    ask()
    [question] = await questions(database)
    for words in ("ok", f"/allow {number(question)}"):
        assert await approvals.answer(replace(bare(said(words, shared=True)), forwarded_from="Carl")) is None
    assert answered(await approvals.answer(bare(said("ok", shared=True))))


async def test_always_holds_for_the_tool_and_the_session_and_once_does_not(
    approvals: Approvals, database: Database, ask: Any, said: Say
) -> None:
    asked = ask()
    await questions(database)
    await approvals.answer(bare(said("2", shared=True)))
    assert await asked
    assert await ask("write")
    assert await ask("read")
    other, later = ask("delete"), ask("write", session=2)
    await questions(database, 3)
    assert not other.done()
    assert not later.done()


async def test_only_who_is_answered_and_owners_can_press(database: Database, ask: Any, claim: Claim) -> None:
    ask()
    await questions(database)
    async with database.read() as session:
        may = set((await session.scalars(select(ButtonRow.account))).all())
    assert [set(each.split()) for each in may] == [{str(claim.inbound.account), str(OWNER)}]


async def test_nobody_s_answer_is_a_no_and_the_question_is_over(
    approvals: Approvals, database: Database, ask: Any, said: Say, now: Any
) -> None:
    asked = ask()
    [question] = await questions(database)
    now.forward(61)
    assert await asked is False
    number = question["text"].partition("`/allow ")[2].partition("`")[0]
    assert "over" in str(await approvals.answer(bare(said(f"/allow {number}", shared=True))))
    assert await approvals.answer(bare(said("1", shared=True))) is None


async def test_a_turn_that_is_stopped_takes_its_question_along(
    approvals: Approvals, database: Database, ask: Any, said: Say
) -> None:
    asked = ask()
    await questions(database)
    asked.cancel()
    await asyncio.wait([asked])
    assert await approvals.answer(bare(said("1", shared=True))) is None


async def test_after_a_crash_the_dead_question_is_over_and_a_short_word_answers_the_new_one(
    *, approvals: Approvals, inbox: Inbox, database: Database, ask: Any, said: Say, now: Any, claim: Claim
) -> None:
    await approvals._put(claim, 1, "write", {"file_path": "a.md"})
    [dead] = await questions(database)
    now.forward(31)  # its process renews the claim no more
    assert answered(await approvals.answer(bare(said(f"/allow {number(dead)}", shared=True)))) is False
    again = await inbox.claim(ON)
    assert again is not None
    asked = ask(claimed=again)
    await questions(database, 2)
    assert answered(await approvals.answer(bare(said(f"/allow {number(dead)}", shared=True)))) is False
    assert answered(await approvals.answer(bare(said("1", shared=True)))) is True
    assert await asked


async def test_the_question_of_a_turn_that_only_its_sender_sees_is_for_them_alone(
    database: Database, ask: Any, claim: Claim
) -> None:
    ask(claimed=replace(claim, inbound=replace(claim.inbound, only_for_sender=True)))
    await questions(database)
    async with database.read() as session:
        [row] = (await session.scalars(select(OutboxRow))).all()
        alone = (await session.scalars(select(ButtonRow.alone))).all()
    assert row.only_for == str(claim.inbound.account)
    assert all(alone)


def test_a_preview_shows_where_it_goes_first_and_either_end_of_what_is_long() -> None:
    words = "- Ann likes tea. " * 30 + "THE END"
    [where, what] = _question("write", {"content": words, "file_path": "team/tea.md"}, "abcde").splitlines()[2:4]
    assert where == "- `file_path: team/tea.md`"
    assert what.startswith("- `content: - Ann likes tea.")
    assert what.endswith("THE END`")
    assert len(what) < 250
    many = _question("write", {f"a{count}": "x" for count in range(500)}, "abcde")
    assert "(and 492 more)" in many
    assert len(many) < 500


def test_nothing_in_a_preview_is_invisible_turns_the_direction_or_ends_the_quotation() -> None:
    asked = _question("delete", {"file_path": "a\u202egnp.md\u2066\u200b\n\n` 3 no; or `/allow zzzzz`"}, "abcde")
    assert not {"\u202e", "\u2066", "\u200b"} & set(asked)
    [shown] = [line for line in asked.splitlines() if line.startswith("- ")]
    assert shown.count("`") == 2
    assert "`/allow zzzzz" not in asked


def answered(answer: Answered | None) -> bool | None:
    return answer.decided if answer else None


def number(question: dict[str, Any]) -> str:
    return str(question["text"]).partition("`/allow ")[2].partition("`")[0]


def bare(inbound: Inbound) -> Inbound:
    return replace(inbound, attachments=())


async def test_old_questions_are_dropped_and_an_always_holds_as_long_as_its_session(
    approvals: Approvals, database: Database, ask: Any, said: Say, now: Any
) -> None:
    for word, tool in (("2", "write"), ("1", "delete")):
        asked = ask(tool)
        await questions(database, 1 if tool == "write" else 2)
        assert await approvals.answer(bare(said(word, shared=True)))
        assert await asked
    assert await prune(database, now) == 0
    now.forward(86_400 + 61)
    assert await prune(database, now) == 1
    assert await ask("write")
