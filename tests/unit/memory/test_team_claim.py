"""What a copy had agreed on speaks for its own repo, server and directory alone; elsewhere nothing is lost by it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from memory.notes import content_hash
from memory.team.local import conflict_copy
from tests.unit.memory.team_members import Member, ann, answers, bob, sync, team_server
from tests.unit.memory.test_team_kept import Server

__all__ = ["ann", "bob", "team_server"]


class Counting(Server):
    """A server that counts its states, as ours does, and can be put back."""

    version = 1

    def __init__(self, entries: dict[str, str]) -> None:
        super().__init__(entries)
        self.since: dict[str, int] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            self.version += 1
            self.since |= dict.fromkeys(json.loads(request.content)["entries"], self.version)
        answer = await super().handle_async_request(request)
        if not answer.content:
            return answer
        body = answer.json()
        body["content"]["entryVersions"] = {key: since for key, since in self.since.items() if key in self.entries}
        return httpx.Response(200, json={**body, "version": self.version})

    def backup(self) -> Callable[[], None]:
        entries, deleted, since, version = dict(self.entries), dict(self.deleted), dict(self.since), self.version

        def restored() -> None:
            self.entries, self.deleted, self.since, self.version = entries, deleted, since, version

        return restored


@pytest.fixture
def two(tmp_path: Path) -> tuple[Member, Member, Counting]:
    server = Counting({})
    return Member("ann", tmp_path, server), Member("bob", tmp_path, server), server


def private(member: Member) -> list[str]:
    return sorted(path.read_text() for path in member.scope.memory_dir.glob("*.md"))


async def test_of_the_notes_of_one_repo_none_goes_to_another_that_the_project_has_next(tmp_path: Path) -> None:
    board, garden = Server({"board.md": "the price"}), Server({"plan.md": "public"})
    ann = Member("ann", tmp_path, board)
    await sync(ann)
    ann.write("board.md", "the price, changed")
    ann.write("own.md", "written here alone")
    ann.wire.inner, ann.scope = garden, replace(ann.scope, repo="public/garden")
    report = await ann.sync.sync(ann.scope)
    assert garden.entries == {"plan.md": "public"}
    assert ann.files() == {"plan.md": "public"}
    assert private(ann) == ["written here alone"]
    assert "board.md" in report.removed, "so that whoever has it in front of them is told"


async def test_as_long_as_a_note_of_the_former_repo_can_not_be_moved_nothing_is_exchanged(tmp_path: Path) -> None:
    garden = Server({"plan.md": "public"})
    ann = Member("ann", tmp_path, Server({"board.md": "the price"}))
    await sync(ann)
    ann.write("own.md", "written here alone")
    beside = ann.scope.memory_dir / conflict_copy("own.md", "written here alone")
    beside.write_text("something else has its name")
    ann.wire.inner, ann.scope = garden, replace(ann.scope, repo="public/garden")
    for _ in range(2):
        assert "can't be moved away" in str((await ann.sync.sync(ann.scope)).failure)
    beside.unlink()
    await sync(ann)
    assert (garden.entries, ann.files()) == ({"plan.md": "public"}, {"plan.md": "public"})


async def test_a_note_in_a_directory_of_its_own_belongs_to_the_repo_of_now(tmp_path: Path) -> None:
    ann = Member("ann", tmp_path, Server({"board.md": "the price"}))
    await sync(ann)
    other = Member("other", tmp_path, Server({}))
    other.write("new.md", "for the team of now")
    other.states = ann.states
    other.scope = replace(other.scope, principal="ann", repo="public/garden")
    other.sync = other.restarted()
    await sync(other)
    assert other.wire.bodies() == [{"entries": {"new.md": "for the team of now"}}]


async def test_a_server_that_was_put_back_takes_no_newer_text_from_anywhere(
    two: tuple[Member, Member, Counting],
) -> None:
    ann, bob, server = two
    ann.write("a.md", "v1")
    ann.write("old.md", "old")
    await sync(ann, bob)
    restore = server.backup()
    ann.write("a.md", "v2")
    ann.write("new.md", "new")
    await sync(ann, bob)
    restore()
    await sync(ann, bob)  # by what Ann pushes it has counted as far again when Bob comes
    for member in (ann, bob):
        assert member.files() == {"a.md": "v1", conflict_copy("a.md", "v2"): "v2", "old.md": "old", "new.md": "new"}
    assert server.entries["new.md"] == "new"


async def test_a_push_to_a_server_that_was_put_back_looks_at_all_of_it_first(
    two: tuple[Member, Member, Counting],
) -> None:
    ann, _, server = two
    ann.write("a.md", "v1")
    ann.write("b.md", "b")
    await sync(ann)
    restore = server.backup()
    for text in ("v2", "v3"):
        ann.write("a.md", text)
        await sync(ann)
    restore()
    ann.write("b.md", "b, edited")
    ann.wire.scripted.append(answers("PUT", 412, times=1))
    await ann.sync.push(ann.scope)
    assert ann.files()[conflict_copy("a.md", "v3")] == "v3"
    assert ann.files()["a.md"] == "v1"


@pytest.mark.parametrize("seeded", [{"a.md": "v1", "b.md": "b"}, {"b.md": "b"}])
async def test_another_server_has_agreed_to_nothing(tmp_path: Path, seeded: dict[str, str]) -> None:
    ann, there = Member("ann", tmp_path, Server({})), Server(seeded)
    ann.write("a.md", "v2")
    ann.write("b.md", "b")
    await sync(ann)
    there.deleted = {} if "a.md" in seeded else {"a.md": content_hash("v2")}
    ann.wire.inner, ann.url = there, "http://elsewhere"
    ann.sync = ann.restarted()
    await sync(ann)
    assert "v2" in ann.files().values()
    assert (ann.files()["a.md"] == "v1") is ("a.md" in seeded)
    await sync(ann)
    assert there.entries["a.md"] == ann.files()["a.md"]


@pytest.mark.parametrize("names", ["abcde", "a"])
@pytest.mark.parametrize("made_anew", [True, False])
async def test_what_lacks_in_a_directory_made_anew_was_not_deleted(
    ann: Member, bob: Member, names: str, made_anew: bool
) -> None:
    for name in names:
        ann.write(f"{name}.md", f"text of {name}")
    await sync(ann, bob)
    shutil.rmtree(ann.team)
    if made_anew:
        ann.write("new.md", "written in the same session")
    report = await ann.sync.push(ann.scope)
    assert (report.pushed, report.deleted) == ([], [])
    await sync(ann, bob)
    assert ann.files() == bob.files()
    assert set(ann.files()) == {*(f"{name}.md" for name in names), *({"new.md"} if made_anew else set())}


async def test_a_directory_that_was_put_back_from_a_backup_overwrites_and_deletes_nothing(
    ann: Member, bob: Member, tmp_path: Path
) -> None:
    ann.write("a.md", "v1")
    await sync(ann, bob)
    shutil.copytree(ann.team, tmp_path / "backup")
    bob.write("a.md", "v2")
    bob.write("b.md", "b")
    await sync(bob, ann)
    shutil.rmtree(ann.team)
    shutil.copytree(tmp_path / "backup", ann.team)  # with the times of the files, as backups have them
    await sync(ann, bob)
    assert bob.files() == {"a.md": "v2", "b.md": "b"}
    assert ann.files() == {"a.md": "v2", "b.md": "b", conflict_copy("a.md", "v1"): "v1"}


async def test_the_only_note_of_a_team_can_be_deleted(ann: Member, bob: Member) -> None:
    ann.write("a.md", "a")
    await sync(ann, bob)
    (ann.team / "a.md").unlink()
    await sync(ann, bob)
    assert ann.files() == bob.files() == {}


async def test_a_link_in_the_place_of_the_directory_gets_no_mark(ann: Member) -> None:
    ann.team.rmdir()
    ann.team.symlink_to(ann.scope.memory_dir)
    (ann.scope.memory_dir / "own.md").write_text("private")
    await ann.sync.sync(ann.scope)
    assert [path.name for path in ann.scope.memory_dir.iterdir() if path.name.startswith(".")] == []
    assert ann.wire.bodies() == []
