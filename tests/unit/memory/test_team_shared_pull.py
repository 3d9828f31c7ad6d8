"""One pull for all copies on a gateway: it is asked once, and no copy is put back behind what it knows."""

from pathlib import Path

import httpx
import pytest

from memory.settings import MemorySettings
from memory.team.remote import USER_AGENT
from memory.team.shared_pull import SharedPull
from tests.unit.memory.team_members import Member, answers, team_server
from tests.waiting import HANGS

__all__ = ["team_server"]


@pytest.fixture
def members(tmp_path: Path, team_server: httpx.AsyncBaseTransport) -> list[Member]:
    """Two copies of one gateway, and one of another."""
    return [Member(name, tmp_path, team_server) for name in ("ann", "bob", "carl")]


async def in_line(gateway: Member, *copies: Member) -> None:
    """Bring copies in line that lie on one gateway, in one round."""
    shared = SharedPull()
    for copy in copies:
        report = await gateway.sync.sync(copy.scope, shared=shared)
        assert report.failure is None


async def prepared(members: list[Member]) -> tuple[Member, Member, Member]:
    ann, bob, carl = members
    ann.write("tea.md", "green\n")
    ann.write("cup.md", "blue\n")
    await in_line(ann, ann, bob)
    await in_line(ann, ann, bob)  # since then both have the same tag
    await in_line(carl, carl)
    ann.wire.seen.clear()
    return ann, bob, carl


async def test_what_did_not_change_is_asked_once_for_all_copies_of_a_gateway(members: list[Member]) -> None:
    ann, bob, _ = await prepared(members)
    await in_line(ann, ann, bob)
    assert ann.wire.methods() == ["GET"]


async def test_what_another_gateway_changed_comes_to_all_copies_with_one_answer_and_each_settles_it_by_itself(
    members: list[Member],
) -> None:
    ann, bob, carl = await prepared(members)
    carl.write("tea.md", "black\n")
    await in_line(carl, carl)
    bob.write("tea.md", "white\n")
    await in_line(ann, ann, bob)
    assert ann.wire.methods() == ["GET"]
    assert (ann.files()["tea.md"], bob.files()["tea.md"]) == ("black\n", "black\n")
    assert [text for name, text in bob.files().items() if ".conflict-" in name] == ["white\n"]
    assert not any(".conflict-" in name for name in ann.files())


async def test_a_copy_that_has_pushed_since_is_not_put_back_by_the_answer_that_another_had_before(
    members: list[Member],
) -> None:
    ann, bob, carl = await prepared(members)
    shared = SharedPull()
    carl.write("cup.md", "red\n")
    await in_line(carl, carl)
    await ann.sync.sync(ann.scope, shared=shared)
    bob.write("tea.md", "white\n")
    assert (await ann.sync.push(bob.scope)).pushed == ["tea.md"]  # past a refusal, so that its tag is still the old one
    state = [await ann.states.get(member.scope.principal, "tea") for member in (ann, bob)]
    assert state[1].checksum not in {None, state[0].checksum}
    await ann.sync.sync(bob.scope, shared=shared)
    assert bob.files() == {"tea.md": "white\n", "cup.md": "red\n"}


async def test_a_server_that_is_down_is_tried_once_a_round_and_every_copy_is_told(members: list[Member]) -> None:
    ann, bob, _ = await prepared(members)
    ann.wire.scripted.append(answers("GET", 503))
    shared = SharedPull()
    reports = [await ann.sync.sync(copy.scope, shared=shared) for copy in (ann, bob)]
    assert [report.failure is not None for report in reports] == [True, True]
    assert ann.wire.methods() == ["GET"] * 4


async def test_a_request_says_who_asks_and_has_the_headers_that_the_operator_has_set(members: list[Member]) -> None:
    ann = members[0]
    ann.sync = ann.restarted(team_headers={"Beta": "team-memory-1"})
    ann.write("tea.md", "green\n")
    await ann.sync.sync(ann.scope)
    assert {request.headers["user-agent"] for request in ann.wire.seen} == {USER_AGENT}
    assert {request.headers["beta"] for request in ann.wire.seen} == {"team-memory-1"}
    ann.sync = ann.restarted(team_headers={"User-Agent": "somebody/1.0"})
    await ann.sync.sync(ann.scope)
    assert ann.wire.seen[-1].headers.get_list("user-agent") == ["somebody/1.0"]


@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer x"}, {"if-match": "x"}, {"two words": "x"}, {"beta": "two\r\nlines: x"}]
)
def test_a_header_that_is_the_contracts_own_or_none_at_all_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"header"):
        MemorySettings.model_validate({"team_headers": headers})


async def test_copies_that_only_pull_ask_once_for_all_that_know_the_same(members: list[Member]) -> None:
    ann, bob, carl = await prepared(members)
    carl.write("tea.md", "black\n")
    await in_line(carl, carl)
    shared = SharedPull()
    for copy in (ann, bob):
        await ann.sync.pull(copy.scope, within=HANGS, shared=shared)
    assert ann.wire.methods() == ["GET"]
    assert ann.files() == bob.files() == {"tea.md": "black\n", "cup.md": "blue\n"}
