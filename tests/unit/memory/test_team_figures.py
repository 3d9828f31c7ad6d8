"""What is counted and measured of team memory."""

import pytest

from memory import secret_scan
from memory.team.local import secret_in
from tests.unit.memory.team_members import Member, ann, answers, bob, sync, team_server

__all__ = ["ann", "bob", "team_server"]

SECRET = "ghp_" + "a1B2" * 9


def labels(member: Member, figure: str) -> list[dict[str, str]]:
    return [given for what, given, _ in member.meter.counted if what == figure]


async def test_the_first_pull_of_a_process_is_told_with_what_it_found(ann: Member, bob: Member) -> None:
    await sync(ann, ann)
    bob.write("a.md", "by Bob")
    bob.wire.scripted.append(answers("GET", 500, times=4))
    await bob.sync.sync(bob.scope)
    await sync(bob)
    ann.sync = ann.restarted()
    await sync(ann)
    assert labels(ann, "team_sync_starts") == [
        {"pulled": "yes", "server": "empty"},
        {"pulled": "yes", "server": "content"},
    ]
    assert labels(bob, "team_sync_starts") == [{"pulled": "no", "server": "unknown"}]
    assert bob.meter.values("team_sync_start_files") == [1]


async def test_each_pull_is_told_by_what_it_found(ann: Member) -> None:
    await sync(ann)
    ann.write("a.md", "text")
    await sync(ann, ann)
    assert [given["found"] for given in labels(ann, "team_pulls")] == ["empty", "empty", "unchanged"]


async def test_a_push_is_told_with_its_requests_and_its_retries(ann: Member, bob: Member) -> None:
    await sync(ann, bob)
    bob.write("b.md", "by Bob")
    await sync(bob)
    for number in range(2):
        ann.write(f"n{number}.md", "x" * 150_000)
    await ann.sync.push(ann.scope)
    await ann.sync.push(ann.scope)
    assert ann.meter.values("team_push_batches") == [3], "one was refused, and the push with nothing to do is none"
    assert ann.meter.values("team_push_retries") == [1]


async def test_what_a_server_says_of_too_many_entries_is_told_and_so_is_what_stays(ann: Member) -> None:
    await sync(ann)
    for number in range(8):
        ann.write(f"n{number}.md", "text")
    await ann.sync.push(ann.scope)
    await ann.sync.push(ann.scope)
    assert ann.meter.values("team_entries_allowed") == [6]
    assert ann.meter.values("team_entries_received") == [8]
    assert ann.meter.values("team_entries_capped") == [2]


async def test_a_secret_is_told_by_its_rule_alone(ann: Member) -> None:
    ann.write("a.md", f"token: {SECRET}")
    await sync(ann)
    assert labels(ann, "team_secrets_skipped") == [{"rule": "github-pat"}]
    assert "github-pat" in secret_scan.RULES


@pytest.mark.parametrize("key", [f"{SECRET}/a.md", f"b/{SECRET}/c/a.md", f"by hand {SECRET}.md"])
async def test_a_text_whose_way_holds_a_secret_is_neither_sent_nor_taken(ann: Member, bob: Member, key: str) -> None:
    await sync(ann, bob)
    ann.write(key, "text")
    ann.write("b.md", f"token: {SECRET.replace('_', chr(92) + '_')}")
    ann.write("c.md", "text")
    await sync(ann, bob)
    assert sorted(path.name for path in bob.team.rglob("*.md")) == ["c.md"]
    assert secret_in(key, "text") is not None, "what another client has sent is not taken either"


@pytest.mark.parametrize("details", [{}, {"error_code": "team_memory_too_many_entries", "max_entries": "many"}, None])
async def test_a_server_that_says_nothing_of_use_about_its_limit_is_no_fault(ann: Member, details: object) -> None:
    await sync(ann)
    ann.write("a.md", "text")
    ann.wire.scripted.append(answers("PUT", 413, times=1, body={"error": {"details": details}}))
    report = await ann.sync.push(ann.scope)
    assert report.failure is not None
    assert (report.failure.maximum, report.failure.received) == (None, None)
