"""What is shown for a message besides its answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from adapters.base import Address, Inbound
from adapters.doubles import RecordingAdapter
from adapters.errors import Transient
from gateway.db.engine import Database
from gateway.inbox import Claim, Inbox
from gateway.signs import THINKING, Signs
from tests.waiting import until

Say = Callable[..., Inbound]
ON = ("telegram",)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_BEGINS_WITHIN", "_RENEWED_EVERY", "_APART"):
        monkeypatch.setattr(f"gateway.signs.{name}", 0.01)


@pytest.fixture
async def signs(adapter: RecordingAdapter, inbox: Inbox) -> AsyncIterator[Signs]:
    signs = Signs({"telegram": adapter}, standing=inbox.standing, acknowledge=True)
    yield signs
    await signs.aclose()


async def put(inbox: Inbox, signs: Signs, sent: Inbound) -> None:
    await inbox.add(sent, principal="p")
    signs.taken(sent)


async def claimed(inbox: Inbox) -> Claim:
    claim = await inbox.claim(ON)
    assert claim is not None
    return claim


async def finish(database: Database, inbox: Inbox, claim: Claim) -> None:
    async with database.write() as session:
        await inbox.finish(session, claim)


async def test_a_message_that_waits_for_a_worker_has_a_sign_until_its_turn_is_over(
    inbox: Inbox, signs: Signs, adapter: RecordingAdapter, said: Say
) -> None:
    await put(inbox, signs, said())
    await until(lambda: adapter.statuses[:2] == [THINKING, THINKING])
    claim = await claimed(inbox)
    with signs.answering(claim):
        signs.says(claim, "reading notes…")
        await until(lambda: adapter.statuses[-1] == "reading notes…")
    await until(lambda: adapter.statuses[-1] == "")
    await signs.aclose()
    assert adapter.statuses.count("") == 1


async def test_a_message_that_gathers_its_parts_has_one_sign(
    inbox: Inbox, signs: Signs, adapter: RecordingAdapter, said: Say
) -> None:
    first, second = (replace(said(), more_may_follow=True, batch="album") for _ in range(2))
    for part in (first, second):
        await put(inbox, signs, part)
    await until(lambda: len(adapter.statuses) > 2)
    assert list(signs._signs) == [("telegram", first.external_id)]
    assert adapter.seen == set()


async def test_a_message_behind_another_is_marked_until_it_is_answered(
    database: Database, inbox: Inbox, signs: Signs, adapter: RecordingAdapter, said: Say
) -> None:
    first, second = said("one"), said("two")
    await put(inbox, signs, first)
    with signs.answering(before := await claimed(inbox)):
        await put(inbox, signs, second)
        await until(lambda: adapter.seen == {second.message_id})
        await finish(database, inbox, before)
    with signs.answering(await claimed(inbox)):
        assert adapter.seen == {second.message_id}
    await until(lambda: not adapter.seen)


async def test_a_mark_that_a_dead_process_has_left_is_taken_away_with_the_answer(
    database: Database, inbox: Inbox, adapter: RecordingAdapter, said: Say
) -> None:
    first, second = said("one"), said("two")
    for sent in (first, second):
        await inbox.add(sent, principal="p")
    adapter.seen = {second.message_id}
    await finish(database, inbox, await claimed(inbox))
    signs = Signs({"telegram": adapter}, standing=inbox.standing, acknowledge=True)
    with signs.answering(await claimed(inbox)):
        pass
    await signs.aclose()
    assert adapter.seen == set()


async def test_a_mark_that_comes_late_is_taken_away_all_the_same(
    *,
    database: Database,
    inbox: Inbox,
    signs: Signs,
    adapter: RecordingAdapter,
    said: Say,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go, marking = asyncio.Event(), adapter.acknowledge

    async def slowly(address: Address, message_id: str, *, seen: bool) -> None:
        if seen:
            await go.wait()
        await marking(address, message_id, seen=seen)
        marked.append(seen)

    marked: list[bool] = []
    monkeypatch.setattr(adapter, "acknowledge", slowly)
    await inbox.add(said("one"), principal="p")
    await put(inbox, signs, said("two"))
    await until(lambda: signs._marking)
    for _ in range(2):
        with signs.answering(claim := await claimed(inbox)):
            await finish(database, inbox, claim)
    await asyncio.sleep(0.03)
    assert marked == []
    go.set()
    await until(lambda: marked == [True, False])


@pytest.mark.parametrize("changes", [{"only_for_sender": True}, {"in_place_of": "7"}])
async def test_what_is_no_message_that_all_can_see_is_not_marked(
    inbox: Inbox, signs: Signs, adapter: RecordingAdapter, said: Say, changes: dict[str, Any]
) -> None:
    await inbox.add(said("one"), principal="p")
    await put(inbox, signs, replace(said("hidden"), **changes))
    await put(inbox, signs, last := said("two"))
    await until(lambda: adapter.seen)
    assert adapter.seen == {last.message_id}


async def test_nothing_is_shown_for_what_only_its_sender_sees(
    inbox: Inbox, signs: Signs, adapter: RecordingAdapter, said: Say
) -> None:
    await put(inbox, signs, replace(said(), only_for_sender=True))
    with signs.answering(claim := await claimed(inbox)):
        signs.says(claim, THINKING)
        await asyncio.sleep(0.03)
    assert adapter.statuses == []


async def test_marks_can_be_switched_off(inbox: Inbox, adapter: RecordingAdapter, said: Say) -> None:
    signs = Signs({"telegram": adapter}, standing=inbox.standing, acknowledge=False)
    for words in ("one", "two"):
        await put(inbox, signs, said(words))
    await until(lambda: not signs._signs or len(adapter.statuses) > 2)
    await signs.aclose()
    assert adapter.seen == set()


async def test_a_message_that_another_process_answers_is_left_to_it(
    inbox: Inbox, signs: Signs, adapter: RecordingAdapter, said: Say
) -> None:
    await put(inbox, signs, said())
    await until(lambda: adapter.statuses)
    await claimed(inbox)
    await until(lambda: not signs._signs)
    assert "" not in adapter.statuses


async def test_a_turn_that_is_taken_anew_while_its_first_run_ends_keeps_the_sign(
    inbox: Inbox, signs: Signs, adapter: RecordingAdapter, said: Say
) -> None:
    await put(inbox, signs, said())
    claim = await claimed(inbox)
    first, second = signs.answering(claim), signs.answering(replace(claim, token="second"))
    with first:
        second.__enter__()
    signs.says(claim, THINKING)
    before = len(adapter.statuses)
    await until(lambda: len(adapter.statuses) > before + 1)
    assert "" not in adapter.statuses
    second.__exit__(None, None, None)
    await until(lambda: adapter.statuses[-1] == "")


@pytest.mark.parametrize("error", [Transient("away"), ZeroDivisionError()])
async def test_a_sign_that_breaks_fails_no_turn(
    *,
    inbox: Inbox,
    signs: Signs,
    adapter: RecordingAdapter,
    said: Say,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    tried = asyncio.Event()

    async def broken(*_: Any, **__: Any) -> None:
        tried.set()
        raise error

    monkeypatch.setattr(adapter, "working", broken)
    await put(inbox, signs, said())
    await until(tried.is_set)
    with signs.answering(claim := await claimed(inbox)):
        signs.says(claim, THINKING)
    await signs.aclose()
    assert not signs._signs
