from typing import Any

import pytest

from gateway.db.engine import Database
from gateway.llm.client import Tokens
from gateway.usage import Usage


@pytest.fixture
def usage(database: Database, now: Any) -> Usage:
    return Usage(database, now)


async def test_tokens_add_up_by_purpose_since_a_moment(usage: Usage, now: Any) -> None:
    tokens = Tokens(input=1, output=2, cache_read=3, cache_write=4)
    await usage.record(principal="p", purpose="chat", model="m", tokens=tokens)
    now.forward(10)
    start = now().timestamp()
    for purpose in ("chat", "chat", "recall"):
        await usage.record(principal="p", purpose=purpose, model="m", tokens=tokens)
    assert await usage.since("p", start) == {"chat": tokens + tokens, "recall": tokens}


async def test_nobody_sees_what_others_used(usage: Usage) -> None:
    await usage.record(principal="other", purpose="chat", model="m", tokens=Tokens(input=1))
    assert await usage.since("p", 0.0) == {}


async def test_usage_in_a_transaction_that_fails_is_not_counted(usage: Usage, database: Database) -> None:
    async def fail() -> None:
        async with database.write() as session:
            usage.add(session, principal="p", purpose="chat", model="m", tokens=Tokens(input=1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await usage.since("p", 0.0) == {}
