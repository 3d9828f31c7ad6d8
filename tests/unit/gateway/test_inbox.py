import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select

from adapters.base import Inbound
from gateway.db.engine import Database
from gateway.db.models import InboxRow, OutboxRow
from gateway.errors import ClaimLost
from gateway.inbox import Claim, Inbox
from gateway.outbox import Post

Say = Callable[..., Inbound]
ON = ("telegram",)


async def claimed(inbox: Inbox) -> Claim:
    claim = await inbox.claim(ON)
    assert claim is not None
    return claim


async def finish(database: Database, inbox: Inbox, claim: Claim) -> None:
    async with database.write() as session:
        await inbox.finish(session, claim)


async def test_a_message_comes_out_as_it_went_in(inbox: Inbox, said: Say) -> None:
    sent = said("räksmörgås 🦐", chat="-100", thread="7", shared=True)
    await inbox.add(sent, principal="chat:telegram:-100")
    claim = await claimed(inbox)
    assert claim.inbound == sent
    assert (claim.principal, claim.attempts, claim.stopped) == ("chat:telegram:-100", 1, False)


async def test_a_repeat_is_dropped_also_after_it_was_answered(database: Database, inbox: Inbox, said: Say) -> None:
    sent = said(external_id="same")
    assert await inbox.add(sent, principal="p")
    await finish(database, inbox, await claimed(inbox))
    assert not await inbox.add(sent, principal="p")
    assert await inbox.claim(ON) is None


async def test_of_many_repeats_at_once_one_is_kept(database: Database, inbox: Inbox, said: Say) -> None:
    sent = said(external_id="same")
    kept = await asyncio.gather(*(inbox.add(sent, principal="p") for _ in range(10)))
    assert sorted(kept) == [False] * 9 + [True]
    async with database.read() as session:
        assert await session.scalar(select(func.count()).select_from(InboxRow)) == 1


async def test_the_same_id_on_another_platform_is_another_message(inbox: Inbox, said: Say) -> None:
    assert await inbox.add(said(external_id="1"), principal="p")
    assert await inbox.add(said(external_id="1", platform="terminal"), principal="p")


async def test_a_conversation_runs_one_message_at_a_time_in_its_order(
    database: Database, inbox: Inbox, said: Say
) -> None:
    for words in ("one", "two", "three"):
        await inbox.add(said(words), principal="p")
    seen = []
    for _ in range(3):
        claim = await claimed(inbox)
        assert await inbox.claim(ON) is None
        seen.append(claim.inbound.text)
        await finish(database, inbox, claim)
    assert seen == ["one", "two", "three"]


async def test_conversations_run_beside_one_another_and_threads_are_conversations(inbox: Inbox, said: Say) -> None:
    for place in ({"chat": "1"}, {"chat": "2"}, {"chat": "2", "thread": "7"}):
        await inbox.add(said(**place), principal="p")
    assert [(await claimed(inbox)).inbound.address.thread for _ in range(3)] == ["", "", "7"]


async def test_many_workers_never_get_the_same_message(inbox: Inbox, said: Say) -> None:
    for chat in range(20):
        await inbox.add(said(chat=str(chat)), principal="p")
    claims = await asyncio.gather(*(inbox.claim(ON) for _ in range(30)))
    got = [claim.id for claim in claims if claim is not None]
    assert len(got) == len(set(got)) == 20


async def test_a_lease_that_ran_out_is_taken_over_and_its_holder_may_commit_no_more(
    database: Database, inbox: Inbox, said: Say, now: Any
) -> None:
    await inbox.add(said(), principal="p")
    first = await claimed(inbox)
    now.forward(31)
    second = await claimed(inbox)
    assert (second.id, second.attempts) == (first.id, 2)
    with pytest.raises(ClaimLost):
        await finish(database, inbox, first)
    with pytest.raises(ClaimLost):
        await inbox.renew(first)
    await finish(database, inbox, second)


async def test_a_renewed_lease_is_not_taken_over(inbox: Inbox, said: Say, now: Any) -> None:
    await inbox.add(said(), principal="p")
    claim = await claimed(inbox)
    for _ in range(3):
        now.forward(20)
        assert not await inbox.renew(claim)
        assert await inbox.claim(ON) is None


async def test_after_a_crash_the_only_process_takes_its_messages_at_once(inbox: Inbox, said: Say) -> None:
    await inbox.add(said(), principal="p")
    first = await claimed(inbox)
    await inbox.take_over()
    assert (await claimed(inbox)).id == first.id


async def test_a_lost_claim_takes_what_was_written_with_it_along(
    database: Database, inbox: Inbox, said: Say, now: Any, post: Callable[..., Post]
) -> None:
    await inbox.add(said(), principal="p")
    claim = await claimed(inbox)
    now.forward(31)
    await claimed(inbox)
    with pytest.raises(ClaimLost):
        await inbox.bury(claim, error="x", replies=[post("k")])
    async with database.read() as session:
        assert (await session.scalars(select(OutboxRow))).all() == []


async def test_a_retry_parks_its_own_conversation_only(inbox: Inbox, said: Say, now: Any) -> None:
    for chat in ("1", "1", "2"):
        await inbox.add(said(chat=chat), principal="p")
    first = await claimed(inbox)
    await inbox.retry(first, after=60, error="away", attempts=1)
    assert (await claimed(inbox)).inbound.address.chat == "2"
    assert await inbox.claim(ON) is None
    now.forward(60)
    assert (await claimed(inbox)).id == first.id


async def test_a_message_set_aside_lets_the_next_one_through(inbox: Inbox, said: Say) -> None:
    await inbox.add(said("bad"), principal="p")
    await inbox.add(said("good"), principal="p")
    await inbox.bury(await claimed(inbox), error="x", replies=[])
    assert (await claimed(inbox)).inbound.text == "good"


async def test_a_refused_message_is_not_worked_on_and_holds_nothing_up(inbox: Inbox, said: Say) -> None:
    await inbox.add(said("stranger"), principal="p", state="refused")
    await inbox.add(said("friend"), principal="p")
    assert (await claimed(inbox)).inbound.text == "friend"


async def test_messages_for_a_platform_that_is_off_wait(inbox: Inbox, said: Say) -> None:
    await inbox.add(said(platform="terminal"), principal="p")
    assert await inbox.claim(ON) is None
    assert await inbox.claim(("terminal", *ON)) is not None


async def test_stop_marks_the_running_message_and_its_holder_hears_of_it(inbox: Inbox, said: Say) -> None:
    await inbox.add(said(), principal="p")
    await inbox.add(said("next"), principal="p")
    claim = await claimed(inbox)
    assert await inbox.add_stop(said("/stop"), principal="p", replies=lambda _: []) == claim.token
    assert await inbox.renew(claim)


async def test_a_repeated_stop_does_not_touch_the_next_message(database: Database, inbox: Inbox, said: Say) -> None:
    await inbox.add(said(), principal="p")
    await inbox.add(said("next"), principal="p")
    stop, first = said("/stop"), await claimed(inbox)
    assert await inbox.add_stop(stop, principal="p", replies=lambda _: [])
    await finish(database, inbox, first)
    following = await claimed(inbox)
    assert await inbox.add_stop(stop, principal="p", replies=lambda _: []) is None
    assert not await inbox.renew(following)


async def test_stop_reaches_a_message_that_waits_for_the_model_but_none_that_has_not_begun(
    inbox: Inbox, said: Say
) -> None:
    await inbox.add(said(), principal="p")
    assert await inbox.add_stop(said("/stop"), principal="p", replies=lambda _: []) is None
    await inbox.retry(await claimed(inbox), after=600, error="away", attempts=0)
    assert await inbox.add_stop(said("/stop"), principal="p", replies=lambda _: [])
    assert (await claimed(inbox)).stopped


async def test_cancelling_while_it_is_stored_leaves_it_whole_or_not_at_all(
    database: Database, inbox: Inbox, said: Say, post: Callable[..., Post]
) -> None:
    for step in range(40):
        task = asyncio.create_task(inbox.add(said(chat=str(step)), principal="p", replies=[post(f"k{step}")]))
        await asyncio.sleep(step / 10_000)
        task.cancel()
        await asyncio.wait({task})
    await inbox.add(said(chat="last"), principal="p", replies=[post("last")])
    async with database.read() as session:
        messages = await session.scalar(select(func.count()).select_from(InboxRow))
        replies = await session.scalar(select(func.count()).select_from(OutboxRow))
    assert messages == replies
    assert messages
    assert messages < 41
