"""Messages that come in parts, and messages that change while they wait."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from adapters.base import Amended, Inbound, Quoted
from gateway.db.engine import Database
from gateway.inbound_rows import GATHER_SECONDS, SENT_APART_SECONDS, from_json, to_json
from gateway.inbox import Claim, Inbox

Say = Callable[..., Inbound]
ON = ("telegram",)


async def texts(database: Database, inbox: Inbox) -> list[str]:
    """Claim and finish all that is ready."""
    found = []
    while (claim := await inbox.claim(ON)) is not None:
        found.append(claim.inbound.text)
        async with database.write() as session:
            await inbox.finish(session, claim)
    return found


async def add(inbox: Inbox, *sent: Inbound) -> None:
    for each in sent:
        await inbox.add(each, principal="p")


async def edit(inbox: Inbox, sent: Inbound, text: str | None) -> str | None:
    changed = Amended(external_id=sent.external_id, address=sent.address, account=sent.account, text=text)
    return await inbox.amend(changed)


def part(sent: Inbound, **changes: Any) -> Inbound:
    return replace(sent, more_may_follow=True, **changes)


async def test_a_text_that_was_cut_in_two_is_one_message(database: Database, inbox: Inbox, said: Say) -> None:
    await add(inbox, part(said("begin")))
    assert await inbox.claim(ON) is None
    await add(inbox, said("end"), said("another"))
    assert await texts(database, inbox) == ["begin\nend", "another"]


async def test_what_comes_later_or_from_another_is_a_message_of_its_own(
    database: Database, inbox: Inbox, said: Say, now: Any
) -> None:
    await add(inbox, part(said("a", shared=True)), said("b", shared=True, user="43"))
    now.forward(GATHER_SECONDS + 1)
    assert await texts(database, inbox) == ["a", "b"]
    await add(inbox, part(said("c")))
    now.forward(GATHER_SECONDS + 1)
    await add(inbox, said("d"))
    assert await texts(database, inbox) == ["c", "d"]


@pytest.mark.parametrize(
    "alone",
    [
        {"text": "/ignore on"},
        {"forwarded_from": "Carl"},
        {"in_place_of": "m1"},
        {"only_for_sender": True},
        {"quoted": Quoted(name="Carl", text="tea?")},
        {"sent_at": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
async def test_what_can_be_no_part_of_a_text_is_a_message_of_its_own(
    database: Database, inbox: Inbox, said: Say, now: Any, alone: dict[str, Any]
) -> None:
    follows = replace(said("follows"), **alone)
    await add(inbox, part(said("begin")), follows)
    now.forward(GATHER_SECONDS)
    assert await texts(database, inbox) == ["begin", follows.text]


async def test_a_further_part_may_be_sent_after_the_last_one_as_the_last_after_the_first(
    database: Database, inbox: Inbox, said: Say, now: Any
) -> None:
    for seconds, text in enumerate(("a", "b", "c")):
        sent_at = now() + timedelta(seconds=SENT_APART_SECONDS * seconds)
        await add(inbox, part(said(text), sent_at=sent_at))
    now.forward(GATHER_SECONDS)
    assert await texts(database, inbox) == ["a\nb\nc"]


async def test_what_others_say_in_between_parts_nothing(database: Database, inbox: Inbox, said: Say, now: Any) -> None:
    mine, theirs = partial(said, shared=True), partial(said, shared=True, user="43")
    await add(inbox, part(mine("begin")), theirs("hi"), mine("end"))
    await add(inbox, part(mine("one"), batch="7"), theirs("ho"), mine("wait"), part(mine("two"), batch="7"))
    now.forward(GATHER_SECONDS)
    assert await texts(database, inbox) == ["begin\nend", "hi", "one\ntwo", "ho", "wait"]


async def test_pictures_that_come_at_the_same_moment_are_one_album(
    database: Database, inbox: Inbox, said: Say, now: Any
) -> None:
    for number in range(5):
        album = [part(said(text, chat=str(number)), batch=f"of {number}") for text in "abc"]
        await asyncio.gather(*(inbox.add(each, principal="p") for each in album))
    now.forward(GATHER_SECONDS)
    assert sorted(map(len, await texts(database, inbox))) == [5] * 5


async def test_an_album_is_one_message_however_slowly_its_pictures_come(
    database: Database, inbox: Inbox, said: Say, now: Any
) -> None:
    album = [part(said(text, external_id=text or None), batch="7") for text in ("look", "", "here")]
    for each in album:
        await add(inbox, each)
        now.forward(GATHER_SECONDS - 0.1)
    await add(inbox, part(said("else"), batch="8"))
    now.forward(GATHER_SECONDS)
    claim = await inbox.claim(ON)
    assert claim is not None
    assert (claim.inbound.text, len(claim.inbound.attachments)) == ("look\nhere", 3)


async def test_a_repeated_part_joins_once(database: Database, inbox: Inbox, said: Say) -> None:
    head, tail = part(said("begin")), said("end")
    await add(inbox, head, tail, tail, head)
    assert await texts(database, inbox) == ["begin\nend"]


async def test_an_edit_of_what_waits_is_answered_as_it_is_now(database: Database, inbox: Inbox, said: Say) -> None:
    head, tail, alone = part(said("begin")), said("end"), said("helo")
    await add(inbox, head, tail, alone)
    assert await edit(inbox, tail, "END") is None
    assert await edit(inbox, alone, "hello") is None
    assert await texts(database, inbox) == ["begin\nEND", "hello"]


async def test_a_deleted_message_that_waits_is_not_answered(database: Database, inbox: Inbox, said: Say) -> None:
    sent = said("never mind")
    await add(inbox, sent)
    await edit(inbox, sent, None)
    assert await texts(database, inbox) == []


async def test_an_edit_of_what_is_being_answered_puts_it_back_and_the_same_words_do_not(
    inbox: Inbox, said: Say
) -> None:
    sent = said("helo")
    await add(inbox, sent)
    first = await claimed(inbox)
    assert await edit(inbox, sent, "helo") is None
    assert await edit(inbox, sent, "hello") == first.token
    second = await claimed(inbox)
    assert (second.id, second.inbound.text, second.attempts) == (first.id, "hello", 1)


async def test_an_edit_of_what_is_answered_or_by_another_changes_nothing(
    database: Database, inbox: Inbox, said: Say
) -> None:
    mine, done = said("mine", shared=True), said("done")
    await add(inbox, done)
    await texts(database, inbox)
    await add(inbox, mine)
    assert await edit(inbox, done, "again") is None
    assert await edit(inbox, replace(mine, account=replace(mine.account, user="43")), "theirs") is None
    assert await texts(database, inbox) == ["mine"]


async def claimed(inbox: Inbox) -> Claim:
    claim = await inbox.claim(ON)
    assert claim is not None
    return claim


def test_a_payload_of_an_earlier_version_is_read(said: Say) -> None:
    payload = to_json(said("hi")) | {"attachments": ["photo"]}
    for new in ("quoted", "batch", "more_may_follow", "thread_reply", "forwarded_from"):
        del payload[new]
    assert [each.kind for each in from_json(payload).attachments] == ["photo"]
