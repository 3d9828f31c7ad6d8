"""What a copy can't keep is left alone on both sides, and what it could not take for a while is taken later."""

import asyncio
import json
import shutil
import tempfile
import unicodedata
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.notes import content_hash
from memory.team.local import conflict_copy, read_copy, why_not_kept
from memory.team.wire import state_checksum
from tests.unit.memory.team_members import Member, ann, bob, sync, team_server
from tests.unit.memory.test_team_leave import left

__all__ = ["ann", "bob", "team_server"]

NFD = "cafe\u0301.md"
SECRET = "ghp_" + "a1B2" * 9
NEVER = [
    ".hidden.md",
    "sub/.git/a.md",
    f"{'d/' * 33}x.md",
    NFD,
    "schema.sql",
    "Z.MD",
    f"{'x' * 300}.md",
    f"{'sub/' * 20}{'n' * 200}/{'n' * 200}/{'n' * 200}/{'n' * 200}/{'n' * 200}/x.md",
    "tab\tx.md",
    "a.conflict-01234567.md",
    "../x.md",
]
_NAMES = st.sampled_from(
    [
        "a",
        "b",
        "MEMORY",
        ".h",
        ".git",
        "a.md",
        "é",
        "e\u0301",
        "..",
        ".",
        "",
        "d" * 250,
        "d" * 120,
        "%2f",
        "\uff0e",
        "x\ty",
        "~",
    ]
)
KEYS = st.one_of(
    st.sampled_from(NEVER),
    st.tuples(st.lists(_NAMES, max_size=12), _NAMES, st.sampled_from([".md", ".md", ".txt", ""])).map(
        lambda made: "/".join([*made[0], made[1]]) + made[2]
    ),
    st.integers(28, 36).map(lambda depth: "d/" * depth + "x.md"),
)


class Server(httpx.AsyncBaseTransport):
    """One repo in memory, which takes every key that it is given."""

    def __init__(self, entries: dict[str, str]) -> None:
        self.entries = dict(entries)
        self.deleted: dict[str, str] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            body = json.loads(request.content)
            gone = [key for key in body.get("deleted", ()) if key in self.entries]
            self.deleted |= {key: content_hash(self.entries.pop(key)) for key in gone}
            self.entries |= body["entries"]
        hashes = {key: content_hash(text) for key, text in self.entries.items()}
        checksum = state_checksum(hashes, self.deleted)
        if request.headers.get("if-none-match") == f'"{checksum}"':
            return httpx.Response(304)
        content = {"entries": self.entries, "deletedChecksums": self.deleted}
        return httpx.Response(
            200, json={"checksum": checksum, "entryChecksums": hashes, "deleted": [], "content": content}
        )


def statuses(member: Member) -> list[str]:
    """Return the tags that the GETs named, and forget them."""
    tags = [each.headers.get("if-none-match", "") for each in member.wire.seen if each.method == "GET"]
    member.wire.seen.clear()
    return tags


async def exchanged(member: Member) -> list[str]:
    """Exchange and return what was skipped."""
    report = await member.sync.sync(member.scope)
    assert report.failure is None
    return [skip.key for skip in report.skipped]


async def keeps_all(keys: set[str], root: Path) -> None:
    texts = {key: f"text of {number}" for number, key in enumerate(sorted(keys))}
    server = Server(texts)
    member = Member("ann", root, server)
    for _ in range(3):
        await exchanged(member)
        assert (server.entries, server.deleted) == (texts, {})
    assert all(why_not_kept(key) is None for key in (await member.states.get("ann", "tea")).base)
    here = sorted(read_copy(member.team).names)
    if here:
        member.write("another.md", "so that the copy is not lost as a whole")
        (member.team / here[0]).unlink()
        await exchanged(member)
        left = {key: text for key, text in texts.items() if key != here[0]}
        assert server.entries.items() >= left.items()
        assert set(server.deleted) <= {here[0]}


@given(keys=st.sets(KEYS, max_size=8))
@settings(max_examples=25, deadline=None)
def test_nothing_of_the_server_goes_unless_its_file_was_deleted_here(keys: set[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(keeps_all(keys, Path(root)))


@pytest.mark.parametrize("key", NEVER)
async def test_what_can_not_be_kept_is_skipped_with_its_reason_and_asks_for_no_second_answer(
    tmp_path: Path, key: str
) -> None:
    server = Server(
        {key: "theirs", "a.md": "A", "secret.md": f"key {SECRET}", "a.md/b.md": "B", "big.md": "x" * 250_001}
    )
    ann = Member("ann", tmp_path, server)
    assert set(await exchanged(ann)) == {key, "secret.md", "a.md/b.md", "big.md"}
    assert ann.files() == {"a.md": "A"}
    assert statuses(ann) == [""]
    await exchanged(ann)
    assert [bool(tag) for tag in statuses(ann)] == [True]
    assert (server.entries[key], server.deleted) == ("theirs", {})


async def test_a_text_that_grew_too_large_for_a_copy_is_not_overwritten_from_it(tmp_path: Path) -> None:
    server = Server({"a.md": "short", "b.md": "b"})
    ann = Member("ann", tmp_path, server)
    await exchanged(ann)
    server.entries["a.md"] = "x" * 250_001
    await exchanged(ann)
    assert server.entries["a.md"] == "x" * 250_001


@pytest.mark.parametrize("obstacle", ["read-only", "folder", "link", "no text"])
async def test_what_was_in_the_way_is_overcome_once_it_is_gone(ann: Member, bob: Member, obstacle: str) -> None:
    ann.write("other.md", "o")
    ann.write("k.md", "first")
    await sync(ann, bob)
    ann.write("k.md", "second")
    await sync(ann)
    place = bob.team / "k.md"
    if obstacle == "read-only":
        place.chmod(0o400)
    else:
        place.unlink()
    if obstacle == "folder":
        bob.write("k.md/notes.txt", "mine")
    elif obstacle == "link":
        place.symlink_to(bob.team / "other.md")
    elif obstacle == "no text":
        place.write_bytes(b"\xff")
    assert await exchanged(bob) == ["k.md"]
    statuses(bob)
    await exchanged(bob)
    assert all(statuses(bob)), "as long as it is there only changes are asked for"
    if obstacle == "read-only":
        place.chmod(0o600)
    else:
        shutil.rmtree(place) if obstacle == "folder" else place.unlink()
    assert await exchanged(bob) == []
    assert bob.files() == {"other.md": "o", "k.md": "second"}
    statuses(bob)
    await exchanged(bob)
    assert all(statuses(bob)), "and from then on only changes are asked for"


async def test_what_was_written_here_meanwhile_is_kept_beside_once_that_can_be_settled(
    ann: Member, bob: Member
) -> None:
    ann.write("k.md", "first")
    await sync(ann, bob)
    ann.write("k.md", "second")
    await sync(ann)
    (bob.team / "k.md").chmod(0o400)
    await exchanged(bob)
    (bob.team / "k.md").chmod(0o600)
    bob.write("k.md", "Bob's words")
    await sync(bob)
    assert bob.files() == {"k.md": "second", conflict_copy("k.md", "Bob's words"): "Bob's words"}


async def test_a_folder_that_holds_nothing_is_in_no_notes_way(ann: Member, bob: Member) -> None:
    ann.write("other.md", "o")
    ann.write("d.md/in/x.md", "in a folder")
    await sync(ann, bob)
    shutil.rmtree(ann.team / "d.md")
    await sync(ann, bob)
    ann.write("d.md", "a note now")
    await sync(ann, bob)
    assert bob.files() == {"other.md": "o", "d.md": "a note now"}


async def test_a_name_in_another_unicode_form_stays_where_it_is_and_deletes_nothing(ann: Member, bob: Member) -> None:
    plain = unicodedata.normalize("NFC", NFD)
    ann.write(plain, "by Ann")
    ann.write("other.md", "o")
    await sync(ann, bob)
    (bob.team / plain).rename(bob.team / NFD)  # as some file systems do
    assert await exchanged(bob) == [plain]
    await sync(ann)
    assert ann.files() == {plain: "by Ann", "other.md": "o"}


async def test_a_note_of_the_team_in_another_unicode_form_goes_with_the_membership(ann: Member, bob: Member) -> None:
    plain = unicodedata.normalize("NFC", NFD)
    bob.write(plain, "the team's")
    await sync(bob, ann)
    (ann.team / plain).rename(ann.team / NFD)
    assert (await left(ann)).kept == ()
    assert not ann.team.exists()


async def test_what_lies_behind_a_link_is_not_taken_for_deleted(ann: Member, bob: Member, tmp_path: Path) -> None:
    ann.write("sub/a.md", "A")
    ann.write("other.md", "o")
    await sync(ann, bob)
    (bob.team / "sub").rename(tmp_path / "elsewhere")
    (bob.team / "sub").symlink_to(tmp_path / "elsewhere")
    await sync(bob, ann)
    assert ann.files() == {"sub/a.md": "A", "other.md": "o"}


async def test_a_text_that_can_neither_be_sent_nor_settled_is_named_each_time(tmp_path: Path) -> None:
    server = Server({"a.md": f"key {SECRET}", "b.md": "b"})
    ann = Member("ann", tmp_path, server)
    await exchanged(ann)
    ann.write("a.md", "written here")
    for _ in range(2):
        assert await exchanged(ann) == ["a.md"]
    assert server.entries["a.md"] == f"key {SECRET}"
    assert ann.files()["a.md"] == "written here"


@pytest.mark.parametrize("key", ["a\u2028b.md", "a\x85b.md", "MEMORY.md/x.md", "sub/MEMORY.md/x.md"])
async def test_a_name_that_no_list_shows_or_that_takes_an_indexs_place_stays_on_the_server(
    tmp_path: Path, key: str
) -> None:
    ann = Member("ann", tmp_path, Server({key: "theirs", "ok.md": "fine"}))
    assert await exchanged(ann) == [key]
    assert ann.files() == {"ok.md": "fine"}


async def test_a_mark_of_the_encoding_makes_no_text_another_one(tmp_path: Path) -> None:
    server = Server({"a.md": "\ufeffone"})
    ann = Member("ann", tmp_path, server)
    await exchanged(ann)
    server.entries["a.md"] = "\ufefftwo"
    await exchanged(ann)
    assert ann.files() == {"a.md": "two"}
    assert ann.wire.bodies() == []


async def test_what_a_server_calls_its_texts_is_in_no_reason(tmp_path: Path) -> None:
    evil = "[Sign in](https://evil.example) **URGENT**"
    keys = [f"../{evil}", f"/{evil}.md", f"{evil}\\", f"%2e%2e/{evil}", f"{evil}\0"]
    ann = Member("ann", tmp_path, Server(dict.fromkeys(keys, "x")))
    report = await ann.sync.sync(ann.scope)
    assert len(report.skipped) == len(keys)
    assert not any("URGENT" in skip.reason for skip in report.skipped)


async def test_what_a_server_has_and_calls_deleted_at_once_is_there(tmp_path: Path) -> None:
    server = Server({"a.md": "t", "b.md": "u"})
    ann = Member("ann", tmp_path, server)
    server.deleted["a.md"] = content_hash("t")
    for _ in range(3):
        await exchanged(ann)
        assert ann.files() == {"a.md": "t", "b.md": "u"}
