import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import httpx
import pytest

from memory.index import pointers
from memory.notes import content_hash
from memory.team.copy import Copy
from memory.team.errors import SyncFailed
from memory.team.local import judge
from tests.unit.memory.team_members import Member, ann, answers, bob, sync, team_server
from tests.unit.memory.test_team_kept import Server as Keeping
from tests.waiting import HANGS

__all__ = ["ann", "bob", "team_server"]

SECRET = "ghp_" + "a1B2" * 9


async def test_a_text_of_one_member_reaches_the_other_and_comes_back_changed(ann: Member, bob: Member) -> None:
    ann.write("sub/plan.md", "tea at four ☕")
    await sync(ann, bob)
    bob.write("sub/plan.md", "tea at five")
    await sync(bob, ann)
    assert ann.files() == bob.files() == {"sub/plan.md": "tea at five"}


async def test_only_what_changed_is_sent_and_nothing_at_all_when_nothing_did(ann: Member) -> None:
    for key in ("a.md", "b.md", "c.md"):
        ann.write(key, key)
    await sync(ann)
    ann.wire.seen.clear()
    ann.write("b.md", "new")
    await sync(ann)
    before = (ann.team / "a.md").stat().st_mtime_ns
    await sync(ann)
    assert ann.wire.bodies() == [{"entries": {"b.md": "new"}}]
    assert ann.wire.methods() == ["GET", "PUT", "GET"]
    assert "if-none-match" in ann.wire.seen[-1].headers
    assert (ann.team / "a.md").stat().st_mtime_ns == before


async def test_when_both_changed_the_servers_text_stays_and_the_other_is_kept_beside(ann: Member, bob: Member) -> None:
    ann.write("a.md", "old")
    await sync(ann, bob)
    ann.write("a.md", "by Ann")
    bob.write("a.md", "by Bob")
    await sync(ann)
    report = await bob.sync.sync(bob.scope)
    [copy] = report.conflicts
    assert bob.files() == {"a.md": "by Ann", copy: "by Bob"}
    assert copy == f"a.conflict-{content_hash('by Bob')[7:15]}.md"
    await sync(bob, ann)
    assert ann.files() == {"a.md": "by Ann"}, "a conflict copy never leaves its home"


def points(*names: str, hook: str = "") -> str:
    return "".join(f"- [{name}]({name}.md){hook}\n" for name in names)


@pytest.mark.parametrize("seed", range(8))
async def test_of_an_index_that_both_changed_every_line_gets_everywhere_and_no_copy_is_kept(
    ann: Member, bob: Member, seed: int
) -> None:
    dice = random.Random(seed)
    names = ["a", "b", "c", "d"]
    common = dice.sample(names, dice.randrange(3))
    for member in (ann, bob):
        own = [name for name in names if name in common or dice.random() < 0.5]
        dice.shuffle(own)
        member.write("MEMORY.md", dice.choice(["", "# Index\n\n"]) + points(*own))
        for name in own:
            member.write(f"{name}.md", name)
    there = {key for member in (ann, bob) for key in member.files()}
    await sync(ann, bob, ann, bob)
    assert ann.files() == bob.files()
    assert set(ann.files()) == there, "no conflict copy"
    assert sorted(to for _, to in pointers(ann.files()["MEMORY.md"])) == sorted(there - {"MEMORY.md"})
    ann.wire.seen.clear()
    await sync(ann, bob)
    assert ann.wire.bodies() == [], "and they come to rest"


async def test_of_two_lines_for_one_note_the_servers_stays_and_what_is_deleted_has_none(
    ann: Member, bob: Member
) -> None:
    for key in ("a", "b"):
        ann.write(f"{key}.md", key)
    ann.write("MEMORY.md", points("a", "b"))
    await sync(ann, bob)
    ann.write("MEMORY.md", points("a", hook=" — by Ann"))
    (ann.team / "b.md").unlink()
    bob.write("MEMORY.md", points("a", hook=" — by Bob") + points("b") + "Ask Kim about the rest.\n")
    await sync(ann, bob, ann, bob)
    assert ann.files() == bob.files()
    assert ann.files() == {"a.md": "a", "MEMORY.md": points("a", hook=" — by Ann") + "Ask Kim about the rest.\n"}


async def test_a_deletion_travels_and_does_not_come_back(ann: Member, bob: Member) -> None:
    for key in ("a.md", "b.md"):
        ann.write(key, key)
    await sync(ann, bob)
    (ann.team / "a.md").unlink()
    await sync(ann, bob, ann)
    assert ann.files() == bob.files() == {"b.md": "b.md"}
    bob.write("a.md", "a new one under the old name")
    await sync(bob, ann)
    assert ann.files()["a.md"] == "a new one under the old name"


async def test_a_text_that_was_changed_while_another_deleted_it_is_kept_beside(ann: Member, bob: Member) -> None:
    for key in ("a.md", "b.md"):
        ann.write(key, key)
    await sync(ann, bob)
    (ann.team / "a.md").unlink()
    bob.write("a.md", "still needed")
    await sync(ann, bob)
    assert "a.md" not in bob.files()
    assert "still needed" in bob.files().values()


async def test_a_copy_that_was_lost_as_a_whole_is_pulled_anew_and_deletes_nothing(ann: Member, bob: Member) -> None:
    for key in ("a.md", "b.md"):
        ann.write(key, key)
    await sync(ann)
    for key in ("a.md", "b.md"):
        (ann.team / key).unlink()
    await sync(ann, bob)
    assert ann.files() == bob.files() == {"a.md": "a.md", "b.md": "b.md"}


async def test_a_server_without_tombstones_is_never_sent_any(ann: Member) -> None:
    content = {"entries": {"a.md": "x", "b.md": "y"}}
    ann.wire.scripted.append(answers("GET", 200, body={"checksum": "c", "content": content}))
    await sync(ann)
    (ann.team / "a.md").unlink()
    await sync(ann)
    assert ann.files() == {"b.md": "y"}, "and it stays deleted here"
    assert ann.wire.methods() == ["GET", "GET"]


async def test_only_safe_keys_of_a_pull_are_written(ann: Member, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (ann.team / "link").symlink_to(outside)
    (ann.team / "up").symlink_to(ann.scope.memory_dir)
    (ann.team / "dangling.md").symlink_to(outside / "made.md")
    bad = ["../x.md", "%2e%2e%2fx.md", "\uff0e\uff0e\uff0fx.md", "a\\b.md", "/etc/x.md", "link/x.md", "up/x.md"]
    bad += ["dangling.md", "x.conflict-01234567.md", "no-markdown.txt", "secret.md"]
    entries = {"ok.md": "fine", "huge.md": "x" * 250_001, "edge.md": "x" * 250_000, **dict.fromkeys(bad, "bad")}
    entries["secret.md"] = f"key {SECRET}"
    ann.wire.scripted.append(answers("GET", 200, body={"checksum": "c", "content": {"entries": entries}}))
    report = await ann.sync.sync(ann.scope)
    assert sorted(report.written) == ["edge.md", "ok.md"]
    assert {skip.key for skip in report.skipped} == {*bad, "huge.md"}
    assert list(outside.iterdir()) == []
    assert not (ann.scope.memory_dir / "x.md").exists()
    assert ann.wire.methods() == ["GET"], "and nothing of it is pushed back"


async def test_without_a_pull_that_succeeded_nothing_is_pushed(ann: Member) -> None:
    ann.write("a.md", "x")
    ann.wire.scripted.append(answers("GET", 500))
    report = await ann.sync.sync(ann.scope)
    await ann.sync.push(ann.scope)
    assert report.failure is not None
    assert report.failure.status == 500
    assert ann.wire.methods() == ["GET"] * 4
    assert ann.slept == [0.5 * 1.25, 1.0 * 1.25, 2.0 * 1.25]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_pull_that_is_not_allowed_is_not_tried_again(ann: Member, status: int) -> None:
    ann.wire.scripted.append(answers("GET", status))
    report = await ann.sync.sync(ann.scope)
    assert report.failure is not None
    assert ann.wire.methods() == ["GET"]


async def test_an_answer_of_another_form_fails_without_touching_the_disk(ann: Member) -> None:
    ann.wire.scripted.append(answers("GET", 200, body={"content": {"entries": {"**a**.md": 7}}}))
    report = await ann.sync.sync(ann.scope)
    assert report.failure is not None
    assert str(report.failure).endswith(": content.entries"), "and not the key, which is the server's"
    assert ann.wire.methods() == ["GET"]


async def test_a_pull_survives_a_server_that_is_down_for_a_moment(ann: Member, bob: Member) -> None:
    bob.write("a.md", "x")
    await sync(bob)
    ann.wire.scripted.append(answers("GET", 503, times=2))
    await sync(ann)
    assert ann.files() == {"a.md": "x"}


async def test_someone_elses_write_in_between_is_looked_at_before_pushing_again(ann: Member, bob: Member) -> None:
    ann.write("a.md", "old")
    await sync(ann, bob)
    bob.write("b.md", "by Bob")
    await sync(bob)
    ann.write("a.md", "by Ann")
    report = await ann.sync.push(ann.scope)
    assert report.failure is None
    assert ann.wire.methods()[-3:] == ["PUT", "GET hashes", "PUT"]
    await sync(ann, bob)
    assert ann.files() == bob.files() == {"a.md": "by Ann", "b.md": "by Bob"}


async def test_someone_elses_write_to_the_same_key_is_never_overwritten(ann: Member, bob: Member) -> None:
    ann.write("a.md", "old")
    await sync(ann, bob)
    bob.write("a.md", "by Bob")
    await sync(bob)
    ann.write("a.md", "by Ann")
    report = await ann.sync.push(ann.scope)
    assert ann.files() == {"a.md": "by Bob", report.conflicts[0]: "by Ann"}
    await sync(bob)
    assert bob.files() == {"a.md": "by Bob"}


async def test_two_first_writers_lose_nothing(ann: Member, bob: Member) -> None:
    for member in (ann, bob):
        await sync(member)
        member.write("a.md", f"by {member.scope.principal}")
    await ann.sync.push(ann.scope)
    report = await bob.sync.push(bob.scope)
    assert bob.files() == {"a.md": "by ann", report.conflicts[0]: "by bob"}


async def test_after_three_refusals_the_push_ends_and_the_disk_is_as_before(ann: Member) -> None:
    await sync(ann)
    ann.write("a.md", "x")
    ann.wire.scripted.append(answers("PUT", 412))
    report = await ann.sync.push(ann.scope)
    assert report.failure is not None
    assert report.failure.conflict
    assert ann.wire.methods().count("PUT") == 3
    assert ann.files() == {"a.md": "x"}
    await ann.sync.push(ann.scope)
    assert ann.wire.methods().count("PUT") == 6, "the next edit tries again"


async def test_a_large_push_goes_in_bodies_within_the_limit_and_one_after_the_other(ann: Member) -> None:
    for number in range(6):
        ann.write(f"n{number}.md", "x" * 100_000 + str(number))
    await sync(ann)
    puts = [request for request in ann.wire.seen if request.method == "PUT"]
    assert [sorted(body["entries"]) for body in ann.wire.bodies()] == [[f"n{n}.md"] for n in range(6)]
    assert all(len(request.content) <= 200_000 for request in puts)
    assert len({request.headers.get("if-match") for request in puts}) == 6


async def test_a_push_that_broke_off_goes_on_where_it_stopped(ann: Member) -> None:
    for number in range(3):
        ann.write(f"n{number}.md", "x" * 150_000 + str(number))
    await sync(ann)
    for number in range(3):
        ann.write(f"n{number}.md", "y" * 150_000 + str(number))
    ann.wire.seen.clear()
    second = [answers("PUT", 500, times=1)]
    ann.wire.scripted.append(lambda r: second[0](r) if len(ann.wire.bodies()) == 2 else None)
    assert (await ann.sync.sync(ann.scope)).failure is not None
    await sync(ann)
    assert [sorted(body["entries"]) for body in ann.wire.bodies()] == [[f"n{n}.md"] for n in (0, 1, 1, 2)]


async def test_a_learned_maximum_holds_for_the_next_push(ann: Member) -> None:
    await sync(ann)
    for key in ("c.md", "a.md", "b.md"):
        ann.write(key, key)
    details = {"error_code": "team_memory_too_many_entries", "max_entries": 2, "received_entries": 3}
    ann.wire.scripted.append(answers("PUT", 413, times=1, body={"error": {"details": details}}))
    assert (await ann.sync.push(ann.scope)).failure is not None
    report = await ann.sync.push(ann.scope)
    assert ann.wire.bodies()[-1] == {"entries": {"a.md": "a.md", "b.md": "b.md"}}
    assert [skip.key for skip in report.skipped] == ["c.md"]
    ann.now += timedelta(hours=24)
    assert (await ann.sync.push(ann.scope)).pushed == ["c.md"], "the server may take more by now"


async def test_a_secret_is_in_no_body_and_named_by_its_kind(ann: Member) -> None:
    ann.write("a.md", "fine")
    ann.write("b.md", f"token: {SECRET}")
    report = await ann.sync.sync(ann.scope)
    assert [body["entries"] for body in ann.wire.bodies()] == [{"a.md": "fine"}]
    [skip] = report.skipped
    assert skip.key == "b.md"
    assert "secret" in skip.reason
    assert SECRET not in skip.reason


async def refused(member: Member) -> None:
    await sync(member)
    member.write("a.md", "x")
    member.write("b.md", "x")
    member.wire.scripted.append(answers("PUT", 403))
    assert (await member.sync.push(member.scope)).failure is not None
    member.wire.seen.clear()


async def test_after_a_permanent_failure_edits_send_nothing(ann: Member) -> None:
    await refused(ann)
    ann.write("a.md", "edited")
    await ann.sync.push(ann.scope)
    assert ann.wire.seen == []


@pytest.mark.parametrize("lifted_by", ["deletion", "restart", "token", "a day"])
async def test_pushes_go_on_after_what_lifts_the_pause(ann: Member, lifted_by: str) -> None:
    await refused(ann)
    if lifted_by == "deletion":
        (ann.team / "b.md").unlink()
    elif lifted_by == "restart":
        ann.sync = ann.restarted()
    elif lifted_by == "token":
        ann.token = "new"
    else:
        ann.now += timedelta(hours=24)
    await ann.sync.push(ann.scope)
    assert ann.wire.methods() == ["PUT"]


@pytest.mark.parametrize("status", [409, 429, 500])
async def test_a_passing_failure_is_tried_again_with_the_next_edit(ann: Member, status: int) -> None:
    await sync(ann)
    ann.write("a.md", "x")
    ann.wire.scripted.append(answers("PUT", status, times=1))
    assert (await ann.sync.push(ann.scope)).failure is not None
    assert (await ann.sync.push(ann.scope)).pushed == ["a.md"]


async def test_a_server_that_can_not_be_reached_is_named(ann: Member) -> None:
    def down(request: httpx.Request) -> httpx.Response | None:
        raise httpx.ConnectError("connection refused")

    ann.wire.scripted.append(down)
    report = await ann.sync.sync(ann.scope)
    assert str(report.failure) == "the team server can't be reached: ConnectError"


async def test_a_repo_that_is_not_there_yet_is_an_empty_one(ann: Member) -> None:
    report = await ann.sync.sync(ann.scope)
    assert (report.failure, report.summary()) == (None, "nothing to do")
    assert (await ann.states.get("ann", "tea")).pulled


async def test_the_files_of_a_write_under_way_stay_here(ann: Member) -> None:
    ann.write(".a.md", "hidden")
    ann.write(".git/b.md", "hidden")
    ann.write("c.md", "seen")
    await sync(ann)
    assert [body["entries"] for body in ann.wire.bodies()] == [{"c.md": "seen"}]


async def test_a_scope_without_a_team_is_a_mistake_of_the_caller(ann: Member) -> None:
    with pytest.raises(ValueError, match="no team memory"):
        await ann.sync.sync(replace(ann.scope, team_dir=None))


def test_who_changed_what_decides_over_a_key() -> None:
    cases = {
        ("1", "1", None): "agreed",
        (None, None, "1"): "agreed",
        (None, "1", None): "take",
        ("1", "2", "1"): "take",
        (None, "2", "1"): "take",
        ("2", "1", "1"): "keep",
        ("1", None, None): "keep",
        (None, "1", "1"): "keep",
        ("2", "3", "1"): "conflict",
        ("1", "2", None): "conflict",
    }
    for (local, server, base), verdict in cases.items():
        assert judge(local=local, server=server, base=base) == verdict, (local, server, base)


async def test_an_exchange_is_measured_with_its_end_and_its_files(ann: Member) -> None:
    ann.write("a.md", "text")
    await ann.sync.sync(ann.scope)
    ann.token = "bad"
    ann.write("b.md", "text")
    await ann.sync.push(ann.scope)
    await ann.sync.push(ann.scope)
    ends = [labels for what, labels, _ in ann.meter.observed if what == "team_sync_seconds"]
    assert ends[:2] == [{"direction": "sync", "outcome": "ok"}, {"direction": "push", "outcome": "denied"}]
    pushed = [number for what, labels, number in ann.meter.counted if labels == {"what": "pushed"}]
    assert pushed == [1, 0, 0]
    assert ann.meter.values("team_pushes_suppressed") == [1]


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (SyncFailed("x"), "no_answer"),
        (SyncFailed("x", malformed=True), "malformed"),
        (SyncFailed("x", status=413, maximum=2), "too_many"),
        (SyncFailed("x", status=412), "conflict"),
        (SyncFailed("x", status=429), "unavailable"),
        (SyncFailed("x", status=503), "unavailable"),
        (SyncFailed("x", status=400), "refused"),
    ],
)
async def test_a_failed_exchange_ends_in_one_word(ann: Member, failure: SyncFailed, outcome: str) -> None:
    async def fail(copy: Copy) -> None:
        raise failure

    await ann.sync._in_line(ann.scope, fail, direction="pull")
    ends = [labels for what, labels, _ in ann.meter.observed if what == "team_sync_seconds"]
    assert ends == [{"direction": "pull", "outcome": outcome}]


async def test_the_pull_of_a_session_that_begins_is_bounded_and_fails_silently(ann: Member, bob: Member) -> None:
    bob.write("a.md", "by Bob")
    await sync(bob)
    async with ann.leases.hold(f"team-sync:{ann.scope.memory_dir}", seconds=30, wait=0):
        with anyio.fail_after(HANGS):
            await ann.sync.pull(ann.scope, within=0.05)
    assert ann.wire.seen == []
    ann.wire.scripted.append(answers("GET", 500, times=4))
    await ann.sync.pull(ann.scope, within=HANGS)
    assert ann.files() == {}
    await ann.sync.pull(ann.scope, within=HANGS)
    assert (ann.files(), ann.wire.methods()) == ({"a.md": "by Bob"}, ["GET"] * 5)
    await ann.sync.pull(replace(ann.scope, team_dir=None), within=HANGS)
    assert len(ann.wire.seen) == 5


async def test_many_deletions_go_in_bodies_within_the_limit_and_the_rest_of_them_after_a_break(tmp_path: Path) -> None:
    keys = [f"{number:04}-{'k' * 220}.md" for number in range(900)]
    ann = Member("ann", tmp_path, Keeping(dict.fromkeys([*keys, "stays.md"], "x")))
    await sync(ann)
    for key in keys:
        (ann.team / key).unlink()
    second = answers("PUT", 500, times=1)
    ann.wire.scripted.append(lambda request: second(request) if len(ann.wire.bodies()) == 2 else None)
    assert (await ann.sync.sync(ann.scope)).failure is not None
    await sync(ann)
    sent = [body["deleted"] for body in ann.wire.bodies()]
    assert max(len(request.content) for request in ann.wire.seen) <= 200_000
    assert [key for batch in (sent[0], *sent[2:]) for key in batch] == keys
    assert ann.wire.methods()[-1] == "PUT"


async def test_without_a_token_nothing_is_asked_and_pushes_rest_until_there_is_one(ann: Member) -> None:
    ann.write("a.md", "x")
    ann.token = ""
    report = await ann.sync.sync(ann.scope)
    assert report.failure is not None
    assert report.failure.permanent
    assert ann.sync.resting(ann.scope) is not None
    assert (ann.wire.seen, ann.slept) == ([], [])
    ann.token = "good"
    await sync(ann)
    assert ann.wire.bodies() == [{"entries": {"a.md": "x"}}]
    assert ann.sync.resting(ann.scope) is None


async def test_a_token_that_was_taken_away_ends_the_pushes_of_a_copy_that_was_in_line(ann: Member) -> None:
    await sync(ann)
    ann.write("a.md", "x")
    ann.token, asked = "", len(ann.wire.seen)
    assert (await ann.sync.push(ann.scope)).failure is not None
    report = await ann.sync.push(ann.scope)
    assert "nothing is pushed for now: no token" in report.summary()
    assert len(ann.wire.seen) == asked


async def test_while_pushes_rest_each_exchange_says_so_and_what_could_not_travel_anyway(ann: Member) -> None:
    await refused(ann)
    ann.write("c.md", f"token: {SECRET}")
    for _ in range(2):
        report = await ann.sync.sync(ann.scope)
        assert report.failure is None
        assert report.summary() == "1 skipped; nothing is pushed for now: the team server answered 403"


async def test_a_note_whose_name_holds_a_secret_is_sent_as_little_as_one_that_holds_it(ann: Member) -> None:
    await sync(ann)
    ann.write(f"{SECRET}.md", "fine")
    report = await ann.sync.push(ann.scope)
    assert ann.wire.bodies() == []
    [skip] = report.skipped
    assert SECRET not in f"{skip}"


async def test_what_was_refused_of_the_servers_is_told_each_time_until_it_is_not_so(tmp_path: Path) -> None:
    server = Keeping({"a.md": "fine", "s.md": f"token: {SECRET}", "x%2f.md": "odd"})
    ann = Member("ann", tmp_path, server)
    await ann.sync.pull(ann.scope, within=HANGS)
    for _ in range(2):
        for act in (ann.sync.sync, ann.sync.push):
            assert {skip.key for skip in (await act(ann.scope)).skipped} == {"s.md", "x%2f.md"}
        ann.sync = ann.restarted()
    assert {skip.key for skip in (await ann.sync.state(ann.scope)).refused} == {"s.md", "x%2f.md"}
    assert ann.meter.values("team_secrets_skipped") == [1], "counted when it was found"
    assert set(server.entries) == {"a.md", "s.md", "x%2f.md"}
    server.entries["s.md"] = "fine"
    assert [skip.key for skip in (await ann.sync.sync(ann.scope)).skipped] == ["x%2f.md"]
    assert (ann.team / "s.md").read_text() == "fine"


async def test_an_entry_that_no_copy_may_have_and_that_is_deleted_is_told_no_more(tmp_path: Path) -> None:
    server = Keeping({"a.md": "fine", "x%2f.md": "odd"})
    ann = Member("ann", tmp_path, server)
    await sync(ann)
    server.deleted["x%2f.md"] = content_hash(server.entries.pop("x%2f.md"))
    assert (await ann.sync.sync(ann.scope)).skipped == []


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0c", "\r\n"])
async def test_the_lines_of_an_index_are_the_same_for_both_sides(ann: Member, bob: Member, end: str) -> None:
    ann.write("x.md", "x")
    ann.write("MEMORY.md", f"# Index of{end}the garden\n")
    await sync(ann, bob)
    for number in range(3):
        for member in (ann, bob):
            name = f"{member.scope.principal}{number}"
            member.write("MEMORY.md", member.files()["MEMORY.md"] + f"- [{name}]({name}.md)\n")
        await sync(ann, bob, ann)
    assert ann.files()["MEMORY.md"].count("the garden") == 1


async def test_the_index_of_a_folder_that_was_deleted_in_one_copy_goes_on_being_exchanged(
    ann: Member, bob: Member
) -> None:
    for key in ("sub/MEMORY.md", "sub/a.md", "z.md"):
        ann.write(key, points("a") if key.endswith("MEMORY.md") else key)
    await sync(ann, bob)
    for key in ("sub/MEMORY.md", "sub/a.md"):
        (ann.team / key).unlink()
    await sync(ann, bob)
    bob.write("sub/MEMORY.md", points("b"))
    bob.write("sub/b.md", "b")
    await sync(bob, ann)
    assert ann.files() == bob.files() == {"sub/MEMORY.md": points("b"), "sub/b.md": "b", "z.md": "z.md"}
