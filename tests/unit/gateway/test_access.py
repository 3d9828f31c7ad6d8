import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from adapters.base import Account, Address, ChatKind, Inbound
from gateway.access import Access, is_shared
from gateway.db.engine import Database
from gateway.settings import Settings

Say = Callable[..., Inbound]
ANN = Account(platform="telegram", user="42")


@pytest.fixture
def access_with(database: Database, settings_of: Callable[..., Settings], now: Any) -> Callable[..., Access]:
    return lambda **environ: Access(database, settings_of(**environ), now)


@pytest.fixture
def access(access_with: Callable[..., Access]) -> Access:
    return access_with()


async def code_of(access: Access, inbound: Inbound) -> str:
    verdict = await access.judge(inbound)
    assert not verdict.allowed
    found = re.search(r"approve (\w+)`", verdict.word)
    assert found is not None
    return found[1]


async def test_a_stranger_gets_a_code_and_is_let_in_by_it(access: Access, said: Say) -> None:
    code = await code_of(access, said())
    assert await access.approve(f" {code.lower()} ") == ANN
    verdict = await access.judge(said())
    assert (verdict.allowed, verdict.principal, verdict.word) == (True, "person:telegram:42", "")


async def test_a_code_works_once(access: Access, said: Say) -> None:
    code = await code_of(access, said())
    await access.approve(code)
    await access.allow_account(ANN, allowed=False)
    assert await access.approve(code) is None
    assert not (await access.judge(said())).allowed


async def test_a_code_runs_out_after_an_hour(access: Access, said: Say, now: Any) -> None:
    code = await code_of(access, said())
    now.forward(3600)
    assert await access.approve(code) is None


async def test_a_code_on_its_way_to_the_operator_outlives_the_strangers_next_message(access: Access, said: Say) -> None:
    code = await code_of(access, said())
    assert "still good" in (await access.judge(said())).word
    assert await access.approve(code) == ANN


async def test_a_new_code_replaces_one_that_is_half_over(access: Access, said: Say, now: Any) -> None:
    old = await code_of(access, said())
    now.forward(31 * 60)
    new = await code_of(access, said())
    assert await access.approve(old) is None
    assert await access.approve(new) == ANN


async def test_a_code_lets_in_whom_it_was_given_to_and_nobody_else(access: Access, said: Say) -> None:
    code = await code_of(access, said(user="42"))
    await code_of(access, said(user="43", chat="43"))
    await access.approve(code)
    assert not (await access.judge(said(user="43", chat="43"))).allowed


async def test_only_the_hash_of_a_code_is_kept(access: Access, database: Database, said: Say) -> None:
    code = await code_of(access, said())
    async with database.read() as session:
        rows = (await session.execute(text("SELECT * FROM pairing_codes"))).all()
    assert len(rows) == 1
    assert code not in str(rows)


@pytest.mark.parametrize("guess", ["", "AAAAAA", "' OR 1=1 --", "\0"])
async def test_a_wrong_code_lets_nobody_in(access: Access, said: Say, guess: str) -> None:
    await code_of(access, said())
    assert await access.approve(guess) is None


@pytest.mark.parametrize("policy", ["pairing", "listed"])
async def test_owners_and_members_may_talk_without_a_code(
    access_with: Callable[..., Access], said: Say, policy: str
) -> None:
    access = access_with(
        REVERIE_ACCESS__PRIVATE=policy,
        REVERIE_ACCESS__OWNERS="telegram:42",
        REVERIE_ACCESS__MEMBERS="telegram:43",
    )
    assert (await access.judge(said(user="42"))).allowed
    assert (await access.judge(said(user="43", chat="43"))).allowed
    assert not (await access.judge(said(user="44", chat="44"))).allowed


async def test_the_owner_of_an_id_on_one_platform_is_a_stranger_on_another(
    access_with: Callable[..., Access], said: Say
) -> None:
    access = access_with(REVERIE_ACCESS__OWNERS="telegram:42")
    assert not (await access.judge(said(user="42", platform="terminal"))).allowed


@pytest.mark.parametrize(
    ("policy", "allowed", "owner_allowed", "word"),
    [
        ("open", True, True, ""),
        ("listed", False, True, "your id here is telegram:42"),
        ("off", False, True, "doesn't take private messages"),
    ],
)
async def test_the_private_policies(
    *, access_with: Callable[..., Access], said: Say, policy: str, allowed: bool, owner_allowed: bool, word: str
) -> None:
    access = access_with(REVERIE_ACCESS__PRIVATE=policy, REVERIE_ACCESS__OWNERS="telegram:1")
    verdict = await access.judge(said())
    assert verdict.allowed is allowed
    assert word in verdict.word
    assert (await access.judge(said(user="1", chat="1"))).allowed is owner_allowed


async def test_a_shared_chat_is_closed_until_it_is_allowed_whoever_speaks(
    access_with: Callable[..., Access], said: Say
) -> None:
    access = access_with(REVERIE_ACCESS__OWNERS="telegram:42")
    verdict = await access.judge(said(chat="-100", thread="7", shared=True))
    assert (verdict.allowed, "reverie access allow telegram:-100`" in verdict.word) == (False, True)
    await access.allow_chat(Address(platform="telegram", chat="-100"), allowed=True)
    assert (await access.judge(said(chat="-100", thread="8", shared=True))).allowed
    await access.allow_chat(Address(platform="telegram", chat="-100"), allowed=False)
    assert not (await access.judge(said(chat="-100", shared=True))).allowed


async def test_a_chat_may_be_allowed_before_it_was_ever_seen(access: Access, said: Say) -> None:
    await access.allow_chat(Address(platform="telegram", chat="-100"), allowed=True)
    assert (await access.judge(said(chat="-100", shared=True))).allowed


async def test_a_chat_that_is_bound_to_a_project_is_allowed(access_with: Callable[..., Access], said: Say) -> None:
    access = access_with(REVERIE_PROJECTS='{"tea": {"chats": ["telegram:-100"]}}')
    assert (await access.judge(said(chat="-100", shared=True))).allowed
    assert not (await access.judge(said(chat="-101", shared=True))).allowed


@pytest.mark.parametrize(("policy", "allowed"), [("open", True), ("off", False)])
async def test_the_shared_policies(access_with: Callable[..., Access], said: Say, policy: str, allowed: bool) -> None:
    verdict = await access_with(REVERIE_ACCESS__SHARED=policy).judge(said(chat="-100", shared=True))
    assert (verdict.allowed, verdict.word) == (allowed, "")


async def test_a_person_is_the_chat_in_a_group_and_themselves_in_private(
    access_with: Callable[..., Access], said: Say
) -> None:
    access = access_with(REVERIE_ACCESS__PRIVATE="open", REVERIE_ACCESS__SHARED="open")
    private = (await access.judge(said())).principal
    group = (await access.judge(said(chat="-100", thread="7", shared=True))).principal
    assert (private, group) == ("person:telegram:42", "chat:telegram:-100")
    assert (is_shared(private), is_shared(group)) == (False, True)
    assert await access.accounts_of(private) == {ANN}
    assert await access.accounts_of(group) == frozenset()


async def test_being_allowed_in_a_group_opens_no_private_chat(access: Access, said: Say) -> None:
    await access.allow_chat(Address(platform="telegram", chat="-100"), allowed=True)
    assert (await access.judge(said(chat="-100", shared=True))).allowed
    assert not (await access.judge(said())).allowed


async def test_the_list_names_who_and_where_is_allowed(access: Access) -> None:
    await access.allow_account(ANN, allowed=True)
    await access.allow_chat(Address(platform="slack", workspace="T1", chat="C1"), allowed=True)
    await access.allow_account(Account(platform="telegram", user="43"), allowed=False)
    assert list(await access.known()) == ["person telegram:42", "chat slack:T1/C1"]


async def test_a_group_with_the_id_of_a_persons_chat_never_gets_that_persons_memory(
    access_with: Callable[..., Access], said: Say
) -> None:
    access = access_with(REVERIE_ACCESS__PRIVATE="open", REVERIE_ACCESS__SHARED="open")
    assert (await access.judge(said(user="42", chat="42"))).principal == "person:telegram:42"
    for _ in range(2):
        verdict = await access.judge(replace(said(user="9", chat="42"), kind=ChatKind.SHARED))
        assert verdict.principal == "chat:telegram:42"
