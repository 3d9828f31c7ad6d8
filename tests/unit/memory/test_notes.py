"""Notes are written whole, by one writer at a time, and nothing that another wrote is lost."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.doubles import LocalLeases
from memory.errors import Conflict, LeaseLost, NoteMissing, PathRefused, WriteRefused
from memory.notes import INDEX, Note, Notes, content_hash, parse, pointer, pointers
from memory.paths import Homes, ProjectRef
from memory.ports import Fence
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

TOKEN = "ghp_" + "a1" * 18


@pytest.fixture
def leases() -> LocalLeases:
    return LocalLeases()


@pytest.fixture
def notes(leases: LocalLeases) -> Notes:
    return Notes(leases=leases, settings=MemorySettings(lease_wait=5))


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    homes = Homes(tmp_path / "homes", settings=MemorySettings())
    project = ProjectRef(name="p", root=tmp_path / "code")
    return homes.scope(principal="ann", project=project, member=True, shared=False, mode=Mode.AUTO, timezone="UTC")


async def put(notes: Notes, scope: Scope, name: str, text: str = "text\n") -> Note:
    return await notes.write(scope, Path(name), text, expected=None)


def on_disk(scope: Scope, name: str = INDEX) -> str:
    return (scope.memory_dir / name).read_text()


async def test_what_is_written_is_read_back_and_private(notes: Notes, scope: Scope) -> None:
    written = await put(notes, scope, "sub/a.md", "één\r\n")
    assert await notes.read(scope, scope.memory_dir / "sub/a.md") == written
    assert written.hash == content_hash("één\r\n")
    assert written.path.stat().st_mode & 0o777 == 0o600
    assert written.path.parent.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in written.path.parent.iterdir()] == ["a.md"]


async def test_a_writer_that_read_the_present_text_may_replace_it(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, "a.md")
    second = await notes.write(scope, Path("a.md"), "new", expected=first.hash)
    with pytest.raises(Conflict) as conflict:
        await notes.write(scope, Path("a.md"), "newer", expected=first.hash)
    assert conflict.value.actual == second.hash
    assert on_disk(scope, "a.md") == "new"


@pytest.mark.parametrize("expected", [None, ""])
async def test_a_note_that_was_never_read_is_not_replaced(notes: Notes, scope: Scope, expected: str | None) -> None:
    first = await put(notes, scope, "a.md")
    with pytest.raises(Conflict) as conflict:
        await notes.write(scope, Path("a.md"), "other", expected=expected)
    assert conflict.value.actual == first.hash


async def test_a_note_that_is_gone_does_not_come_back_by_a_late_write(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, "a.md")
    await notes.delete(scope, Path("a.md"), expected=None)
    with pytest.raises(Conflict, match="gone") as conflict:
        await notes.write(scope, Path("a.md"), "late", expected=first.hash)
    assert conflict.value.actual == ""


async def test_writing_the_same_text_again_leaves_the_file_alone(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, "a.md")
    os.utime(first.path, (1, 1))
    again = await notes.write(scope, Path("a.md"), "text\n", expected=first.hash)
    assert again.mtime_ns == first.path.stat().st_mtime_ns == 1_000_000_000


async def test_two_writers_of_one_index_lose_no_line(notes: Notes, scope: Scope) -> None:
    for name in ("a.md", "b.md", "c.md"):
        await put(notes, scope, name)
    base = await put(notes, scope, INDEX, "# Index\n- [A](a.md)\n")
    await notes.write(scope, Path(INDEX), "# Index\n- [A](a.md)\n- [B](b.md)\n", expected=base.hash)
    await notes.write(scope, Path(INDEX), "# Index\n- [A](a.md)\n- [C](c.md)\n", expected=base.hash)
    assert on_disk(scope) == "# Index\n- [A](a.md)\n- [C](c.md)\n- [B](b.md)\n"


async def test_a_line_that_the_writer_knew_and_left_out_stays_out(notes: Notes, scope: Scope) -> None:
    for name in ("a.md", "b.md"):
        await put(notes, scope, name)
    base = await put(notes, scope, INDEX, "- [A](a.md)\n")
    await notes.write(scope, Path(INDEX), "- [A](a.md)\n- [B](b.md)\n", expected=base.hash)
    await notes.write(scope, Path(INDEX), "", expected=base.hash)
    assert on_disk(scope) == "- [B](b.md)\n"


async def test_a_line_that_another_deleted_with_its_note_does_not_come_back(notes: Notes, scope: Scope) -> None:
    for name in ("a.md", "b.md"):
        await put(notes, scope, name)
    base = await put(notes, scope, INDEX, "- [A](a.md)\n- [B](b.md)\n")
    await notes.delete(scope, Path("b.md"), expected=None)
    await notes.write(scope, Path(INDEX), "- [A](a.md) new hook\n- [B](b.md)\n", expected=base.hash)
    assert on_disk(scope) == "- [A](a.md) new hook\n"


async def test_an_index_that_was_never_read_keeps_the_lines_whose_notes_exist(notes: Notes, scope: Scope) -> None:
    await put(notes, scope, "a.md")
    await put(notes, scope, INDEX, "- [A](a.md)\n- [Gone](gone.md)\n- [Out](../../x.md)\n")
    for expected in (None, "", "sha256:unknown"):
        await notes.write(scope, Path(INDEX), "- [New](new.md)\n", expected=expected)
        assert on_disk(scope) == "- [New](new.md)\n- [A](a.md)\n"


async def test_an_edit_meets_the_present_text(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, "a.md", "tea and milk, tea")
    edited = await notes.edit(scope, Path("a.md"), "milk", "lemon", expected=None)
    assert (await notes.edit(scope, Path("a.md"), "lemon", "honey", expected=first.hash)).text != edited.text
    everywhere = await notes.edit(scope, Path("a.md"), "tea", "mate", expected=None, replace_all=True)
    assert everywhere.text == on_disk(scope, "a.md") == "mate and honey, mate"


@pytest.mark.parametrize("old", ["", "coffee", "tea"])
async def test_an_edit_of_what_is_not_there_once_is_refused(notes: Notes, scope: Scope, old: str) -> None:
    await put(notes, scope, "a.md", "tea, tea")
    with pytest.raises(WriteRefused, match="replaced"):
        await notes.edit(scope, Path("a.md"), old, "x", expected=None)


async def test_an_edit_that_was_overtaken_is_a_conflict(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, "a.md", "tea")
    await notes.edit(scope, Path("a.md"), "tea", "coffee", expected=first.hash)
    with pytest.raises(Conflict, match="changed"):
        await notes.edit(scope, Path("a.md"), "tea", "water", expected=first.hash)


async def test_lines_are_found_whatever_their_ends(notes: Notes, scope: Scope) -> None:
    await put(notes, scope, "a.md", "one\r\ntwo\r\n")
    edited = await notes.edit(scope, Path("a.md"), "one\ntwo", "1\n2", expected=None)
    assert edited.text == "1\r\n2\r\n"


async def test_appended_text_stands_on_its_own_lines(notes: Notes, scope: Scope) -> None:
    log = Path("logs/2026/01/2026-01-02.md")
    await notes.append(scope, log, "- one")
    await put(notes, scope, "a.md", "no newline")
    await notes.append(scope, log, "- two\n")
    await notes.append(scope, Path("a.md"), "more")
    assert on_disk(scope, str(log)) == "- one\n- two\n"
    assert on_disk(scope, "a.md") == "no newline\nmore\n"


async def test_a_deleted_note_takes_its_pointers_with_it(notes: Notes, scope: Scope) -> None:
    await put(notes, scope, "sub/a b.md")
    await put(notes, scope, "sub/MEMORY.md", "- [A](<a b.md>)\n- [B](b.md)\n")
    await put(notes, scope, INDEX, "# Mine\r\n- [A](sub/a%20b.md) — x\r\n- [a b](other.md)\r\n")
    await notes.delete(scope, Path("sub/a b.md"), expected=None)
    assert not (scope.memory_dir / "sub/a b.md").exists()
    assert on_disk(scope, "sub/MEMORY.md") == "- [B](b.md)\n"
    assert (scope.memory_dir / INDEX).read_bytes() == b"# Mine\r\n- [a b](other.md)\r\n"


async def test_a_deletion_needs_a_note_or_a_pointer_and_never_takes_the_index(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, INDEX, "- [A](a.md)\n")
    await notes.delete(scope, Path("a.md"), expected=None)  # what a crash left of an earlier deletion
    assert on_disk(scope) == ""
    with pytest.raises(NoteMissing):
        await notes.delete(scope, Path("a.md"), expected=None)
    with pytest.raises(WriteRefused, match="index"):
        await notes.delete(scope, Path(INDEX), expected=first.hash)
    await put(notes, scope, "b.md")
    with pytest.raises(Conflict):
        await notes.delete(scope, Path("b.md"), expected=first.hash)


async def test_a_pointer_is_added_once(notes: Notes, scope: Scope) -> None:
    for hook in ("first", "second"):
        await notes.add_pointer(scope, scope.memory_dir, title="A", file="a.md", hook=hook)
    await notes.add_pointer(scope, Path("team"), title="B", file="b.md", hook="shared")
    assert on_disk(scope) == "- [A](a.md) — second\n"
    assert on_disk(scope, "team/MEMORY.md") == "- [B](b.md) — shared\n"


async def test_a_secret_is_kept_out_of_the_team_even_in_two_halves(notes: Notes, scope: Scope) -> None:
    with pytest.raises(WriteRefused, match="GitHub personal access token") as refusal:
        await put(notes, scope, "team/a.md", f"key {TOKEN}")
    assert TOKEN not in str(refusal.value)
    await put(notes, scope, "team/a.md", f"key {TOKEN[:9]}-rest")
    with pytest.raises(WriteRefused, match="GitHub"):
        await notes.edit(scope, Path("team/a.md"), "-rest", TOKEN[9:], expected=None)
    private = await put(notes, scope, "a.md", f"key {TOKEN}")
    assert [TOKEN in warning for warning in private.warnings] == [False]


async def test_who_passes_on_what_others_say_adds_no_secret_and_takes_none_out_that_is_there(
    notes: Notes, scope: Scope
) -> None:
    mark, other = "[GitHub personal access token removed]", TOKEN.replace("a1", "b2")
    await put(notes, scope, "a.md", f"by hand: {TOKEN}\n")
    careful = notes.without_secrets()
    added = await careful.append(scope, Path("a.md"), f"- new: {other}, old: {TOKEN}, a half: {other[:9]}-rest")
    assert added.left_out == ("GitHub personal access token",)
    assert on_disk(scope, "a.md") == f"by hand: {TOKEN}\n- new: {mark}, old: {TOKEN}, a half: {other[:9]}-rest\n"
    await careful.edit(scope, Path("a.md"), "-rest", other[9:], expected=None)
    edited = await careful.edit(scope, Path("a.md"), f"by hand: {TOKEN}", "moved", expected=None)
    assert edited.text == f"moved\n- new: {mark}, old: {TOKEN}, a half: {mark}\n"
    written = await careful.write(scope, Path("a.md"), f"{other}\n", expected=edited.hash)
    assert (written.text, written.left_out) == (f"{mark}\n", ("GitHub personal access token",))
    with pytest.raises(WriteRefused, match="name"):
        await put(careful, scope, f"{TOKEN}.md", "text")


async def test_a_secret_that_came_from_elsewhere_does_not_keep_a_note_from_being_deleted(
    notes: Notes, scope: Scope
) -> None:
    await put(notes, scope, "team/a.md")
    (scope.memory_dir / "team/MEMORY.md").write_text(f"- [A](a.md)\n- {TOKEN}\n")
    await notes.delete(scope, Path("team/a.md"), expected=None)
    assert on_disk(scope, "team/MEMORY.md") == f"- {TOKEN}\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("../x.md", "x"),
        ("/etc/x.md", "x"),
        ("a.txt", "x"),
        (".md/..", "x"),
        ("a.md/b.md", "x"),
        ("n" * 300 + ".md", "x"),
        ("big.md", "x" * (1024 * 1024 + 1)),
        ("half.md", "\ud800"),
        ("link/x.md", "x"),
        ("link.md", "x"),
        ("pipe.md", "x"),
    ],
)
async def test_a_write_that_is_not_allowed_changes_nothing(
    notes: Notes, scope: Scope, tmp_path: Path, path: str, text: str
) -> None:
    await put(notes, scope, "a.md")
    (tmp_path / "outside").mkdir()
    (scope.memory_dir / "link").symlink_to(tmp_path / "outside")
    (scope.memory_dir / "link.md").symlink_to(tmp_path / "outside.md")
    os.mkfifo(scope.memory_dir / "pipe.md")
    with pytest.raises((PathRefused, WriteRefused)):
        await put(notes, scope, path, text)
    assert not any((tmp_path / "outside").iterdir())
    assert not (tmp_path / "outside.md").exists()
    assert {entry.name for entry in scope.memory_dir.iterdir()} == {"a.md", "link", "link.md", "pipe.md"}


async def test_a_link_put_in_after_the_check_is_not_followed(
    notes: Notes, leases: LocalLeases, scope: Scope, tmp_path: Path
) -> None:
    await put(notes, scope, "sub/a.md")
    outside = tmp_path / "outside"
    outside.mkdir()
    async with leases.hold(f"memory:{scope.memory_dir}", seconds=9, wait=0):
        late = asyncio.create_task(put(notes, scope, "sub/b.md"))
        await asyncio.sleep(0.1)  # its path has been checked, it waits for the lease
        (scope.memory_dir / "sub").rename(tmp_path / "sub")
        (scope.memory_dir / "sub").symlink_to(outside)
    with pytest.raises(PathRefused):
        await late
    assert not any(outside.iterdir())


async def test_the_project_folder_is_read_only(notes: Notes, scope: Scope, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/README.md").write_text("hello")
    assert (await notes.read(scope, tmp_path / "code/README.md")).text == "hello"
    with pytest.raises(PathRefused):
        await notes.append(scope, tmp_path / "code/README.md", "x")


async def test_bytes_that_are_no_text_can_be_read_and_are_never_overwritten(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, "a.md")
    first.path.write_bytes(b"\xef\xbb\xbfcaf\xe9")
    seen = await notes.read(scope, Path("a.md"))
    assert seen.text == "caf\ufffd"
    with pytest.raises(WriteRefused, match="not UTF-8"):
        await notes.write(scope, Path("a.md"), "x", expected=seen.hash)
    assert first.path.read_bytes() == b"\xef\xbb\xbfcaf\xe9"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
async def test_a_note_in_utf_16_is_read_as_it_is_and_never_overwritten(
    notes: Notes, scope: Scope, encoding: str
) -> None:
    first = await put(notes, scope, "a.md")
    first.path.write_bytes(wide := "\ufeffcafé\n".encode(encoding))
    seen = await notes.read(scope, Path("a.md"))
    assert seen.text == "café\n"
    with pytest.raises(WriteRefused, match="not UTF-8"):
        await notes.edit(scope, Path("a.md"), "café", "tea", expected=None)
    assert first.path.read_bytes() == wide
    await notes.delete(scope, Path("a.md"), expected=seen.hash)
    assert not first.path.exists()


async def test_a_missing_or_oversized_file_is_said_to_be_so(notes: Notes, scope: Scope) -> None:
    for name in ("a.md", "no/such/folder/a.md"):
        with pytest.raises(NoteMissing):
            await notes.read(scope, Path(name))
    big = await put(notes, scope, "big.md")
    big.path.write_text("x" * (1024 * 1024 + 1))
    with pytest.raises(PathRefused, match="larger than 1024 KiB"):
        await notes.read(scope, Path("big.md"))


class Overtaken(LocalLeases):
    """Another replica takes every lease over as soon as it is had."""

    @asynccontextmanager
    async def hold(self, name: str, *, seconds: float, wait: float) -> AsyncIterator[Fence]:
        async with super().hold(name, seconds=seconds, wait=wait) as fence:
            self.take_over(name)
            yield fence


async def test_a_writer_whose_lease_was_taken_over_writes_nothing(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, "a.md")
    late = Notes(leases=Overtaken())
    with pytest.raises(LeaseLost):
        await late.write(scope, Path("a.md"), "late", expected=first.hash)
    with pytest.raises(LeaseLost):
        await late.delete(scope, Path("a.md"), expected=None)
    with pytest.raises(LeaseLost):
        await put(late, scope, "new/b.md")
    assert on_disk(scope, "a.md") == "text\n"
    assert [entry.name for entry in scope.memory_dir.iterdir()] == ["a.md"]


class Meddled(LocalLeases):
    """Somebody adds to the file by hand, so many times, while the writer makes sure of its lease."""

    def __init__(self, file: Path, *, times: int = 1) -> None:
        super().__init__()
        self.file, self.left = file, times

    @asynccontextmanager
    async def hold(self, name: str, *, seconds: float, wait: float) -> AsyncIterator[Fence]:
        async with super().hold(name, seconds=seconds, wait=wait) as fence:
            yield self.Late(fence, self)

    class Late:
        def __init__(self, fence: Fence, leases: "Meddled") -> None:
            self.token, self._fence, self._leases = fence.token, fence, leases

        async def check(self) -> None:
            await self._fence.check()
            if self._leases.left:
                self._leases.left -= 1
                file = self._leases.file
                facts = file.stat() if file.exists() else None
                with file.open("a") as stream:
                    stream.write("- by hand\n")
                if facts:  # as if within one tick of the clock
                    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))


async def test_an_edit_by_hand_at_the_last_moment_is_not_overwritten(notes: Notes, scope: Scope) -> None:
    first = await put(notes, scope, "a.md")
    with pytest.raises(Conflict, match="changed since you read it") as conflict:
        await Notes(leases=Meddled(first.path)).write(scope, Path("a.md"), "late", expected=first.hash)
    assert on_disk(scope, "a.md") == "text\n- by hand\n"
    assert conflict.value.actual == content_hash("text\n- by hand\n")
    assert [entry.name for entry in scope.memory_dir.iterdir()] == ["a.md"]


async def test_who_adds_changes_a_passage_or_points_makes_up_for_an_edit_by_hand(notes: Notes, scope: Scope) -> None:
    a = await put(notes, scope, "a.md")
    await Notes(leases=Meddled(a.path)).append(scope, Path("a.md"), "more")
    assert on_disk(scope, "a.md") == "text\n- by hand\nmore\n"
    await Notes(leases=Meddled(a.path)).edit(scope, Path("a.md"), "more", "less", expected=None)
    assert on_disk(scope, "a.md") == "text\n- by hand\nless\n- by hand\n"
    pointing = Notes(leases=Meddled(scope.index))
    await pointing.add_pointer(scope, scope.memory_dir, title="A", file="a.md", hook="h")
    assert on_disk(scope) == "- by hand\n- [A](a.md) — h\n"
    await Notes(leases=Meddled(scope.index)).delete(scope, Path("a.md"), expected=None)
    assert on_disk(scope) == "- by hand\n- by hand\n"


async def test_a_file_that_never_stands_still_is_left_to_whoever_edits_it(notes: Notes, scope: Scope) -> None:
    a = await put(notes, scope, "a.md")
    with pytest.raises(Conflict, match="by hand"):
        await Notes(leases=Meddled(a.path, times=99)).append(scope, Path("a.md"), "more")
    assert "more" not in on_disk(scope, "a.md")


async def test_a_passage_of_a_file_that_is_not_there_can_not_be_replaced(notes: Notes, scope: Scope) -> None:
    with pytest.raises(NoteMissing):
        await notes.edit(scope, Path("a.md"), "old", "new", expected=None)
    assert not scope.memory_dir.exists()


async def test_a_full_disk_is_told_and_leaves_the_note_as_it_was(
    notes: Notes, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await put(notes, scope, "a.md")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteRefused, match="No space left"):
        await notes.write(scope, Path("a.md"), "new", expected=first.hash)
    assert [(entry.name, entry.read_text()) for entry in scope.memory_dir.iterdir()] == [("a.md", "text\n")]


async def test_a_folder_that_vanishes_at_the_last_moment_makes_a_deletion_say_that_the_note_is_gone(
    notes: Notes, scope: Scope
) -> None:
    await put(notes, scope, "sub/a.md")

    class Removing(Meddled):
        class Late(Meddled.Late):
            async def check(self) -> None:
                shutil.rmtree(scope.memory_dir / "sub")

    with pytest.raises(NoteMissing):
        await Notes(leases=Removing(scope.index)).delete(scope, Path("sub/a.md"), expected=None)


async def test_an_index_that_was_read_too_long_ago_loses_no_line_of_others(
    scope: Scope, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.notes._REMEMBERED_READS", 1)
    await put(notes, scope, "a.md")
    await notes.add_pointer(scope, scope.memory_dir, title="A", file="a.md", hook="h")
    early = await notes.read(scope, scope.index)
    await put(notes, scope, "b.md")
    await notes.add_pointer(scope, scope.memory_dir, title="B", file="b.md", hook="h")
    await notes.write(scope, scope.index, "# All there is\n", expected=early.hash)
    assert on_disk(scope) == "# All there is\n- [A](a.md) — h\n- [B](b.md) — h\n"


async def test_a_day_log_keeps_the_kind_of_a_secret_and_not_the_secret(notes: Notes, scope: Scope) -> None:
    log = Path("logs/2026/05/2026-05-01.md")
    written = await notes.append(scope, log, f"- 12:00 Ann: the key is {TOKEN}")
    assert on_disk(scope, str(log)) == "- 12:00 Ann: the key is [GitHub personal access token removed]\n"
    assert (written.warnings, written.left_out) == ((), ("GitHub personal access token",))


@pytest.mark.parametrize("name", [f"{TOKEN}.md", f"{TOKEN}/a.md", f"b/{TOKEN}/c/a.md"])
async def test_a_name_that_is_a_secret_is_kept_out_of_the_team_and_by_runs_out_of_private_memory(
    notes: Notes, scope: Scope, name: str
) -> None:
    with pytest.raises(WriteRefused, match="GitHub") as refusal:
        await put(notes, scope, f"team/{name}", "text")
    assert TOKEN not in str(refusal.value)
    with pytest.raises(WriteRefused, match="holds a secret"):
        await put(notes.without_secrets(), scope, name, "text")
    await put(notes, scope, name, "by hand")


async def test_a_secret_is_one_with_the_backslashes_of_markdown_too(notes: Notes, scope: Scope) -> None:
    escaped, careful = TOKEN.replace("_", "\\_"), notes.without_secrets()
    with pytest.raises(WriteRefused, match="GitHub"):
        await put(notes, scope, "team/a.md", f"key {escaped}")
    assert (await put(notes, scope, "a.md", f"by hand: {escaped}\n")).warnings
    added = await careful.append(scope, Path("a.md"), f"- a\\*b\n- {escaped.replace('a1', 'b2')}\n- {escaped}")
    mark = "[GitHub personal access token removed]"
    assert added.text == f"by hand: {escaped}\n- a\\*b\n- {mark}\n- {escaped}\n"
    assert added.left_out == ("GitHub personal access token",)


async def test_a_lease_that_is_not_free_in_time_is_an_error(leases: LocalLeases, scope: Scope) -> None:
    notes = Notes(leases=leases, settings=MemorySettings(lease_wait=0.05))
    async with leases.hold(f"memory:{scope.memory_dir}", seconds=9, wait=0):
        with pytest.raises(LeaseLost):
            await put(notes, scope, "a.md")
    await put(notes, scope, "a.md")


async def test_many_appends_at_once_all_arrive(notes: Notes, scope: Scope) -> None:
    await asyncio.gather(*(notes.append(scope, Path("a.md"), f"line {n}") for n in range(25)))
    assert sorted(on_disk(scope, "a.md").splitlines()) == sorted(f"line {n}" for n in range(25))


async def test_a_cancelled_writer_leaves_the_old_or_the_new_text_and_frees_the_lease(
    notes: Notes, leases: LocalLeases, scope: Scope
) -> None:
    first = await put(notes, scope, "a.md", "old")
    for delay in (0, 0.0005, 0.001, 0.002, 0.004):
        present = await notes.read(scope, first.path)
        task = asyncio.create_task(notes.write(scope, first.path, f"new {delay}", expected=present.hash))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.wait([task])
        assert not leases.held(f"memory:{scope.memory_dir}")
        assert on_disk(scope, "a.md") in {present.text, f"new {delay}"}
        assert not [entry for entry in scope.memory_dir.iterdir() if entry.suffix == ".tmp"]


async def test_what_a_crashed_writer_left_is_cleared_by_the_next(notes: Notes, scope: Scope) -> None:
    await put(notes, scope, "a.md")
    (scope.memory_dir / ".0123456789abcdef.tmp").write_text("half a no")
    await put(notes, scope, "b.md")
    assert {entry.name for entry in scope.memory_dir.iterdir()} == {"a.md", "b.md"}


def test_frontmatter_is_read_and_the_body_kept_byte_for_byte() -> None:
    text = "---\nname: Tea\ntype: user\nday: 2026-01-02\n---\n\n  body\n---\nmore\n---\n"
    metadata, body = parse("\ufeff" + text)
    assert (metadata["name"], metadata["type"], str(metadata["day"])) == ("Tea", "user", "2026-01-02")
    assert body == "\n  body\n---\nmore\n---\n"


@pytest.mark.parametrize(
    "text",
    [
        "body\n---\na: b\n---\nmore",
        " ---\na: b\n---\n",
        "---\na: b\n",
        "---",
        "",
        "----\na: b\n----\n",
        "\n---\na: b\n---\n",
        "---\n- a list\n---\nbody",
        "---\na: &x\n  - 1\nb:\n  - *x\n---\nbody",
        "---\na:\n  - !!timestamp nonsense\n---\nbody",
        "---\na: " + "[" * 500 + "]" * 500 + "\n---\nbody",
        "---\na: " + "x" * 20_000 + "\n---\nbody",
    ],
)
def test_text_without_readable_frontmatter_is_all_body(text: str) -> None:
    assert parse(text) == ({}, text)


def test_risky_plain_values_are_read_on_the_second_try() -> None:
    metadata, body = parse("---\nname: Deploys: how\ndescription: @ann's rule # 1\ntype: feedback\n---\nbody")
    assert metadata == {"name": "Deploys: how", "description": "@ann's rule # 1", "type": "feedback"}
    assert body == "body"


YAMLISH = st.text(st.sampled_from("ab01:-_ #!&*<>|%@`'\"[]{},?~=.\n\t\\é\x00\x85\u2028\ud800+eEoxbTZ"), max_size=120)


@settings(deadline=None)
@given(st.one_of(st.text(), YAMLISH, YAMLISH.map(lambda head: f"---\n{head}\n---\nbody")))
def test_parse_never_fails_and_never_loses_text(text: str) -> None:
    metadata, body = parse(text)
    assert text.endswith(body)
    assert body == text.removeprefix("\ufeff") or text.startswith(("---", "\ufeff---"))
    assert all(isinstance(key, str) for key in metadata)


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_a_pointer_is_one_short_line_that_leads_back_to_its_file(title: str, hook: str) -> None:
    for file in ("a.md", "sub/über uns (1).md", "100%25.md", "<b>.md", "100%.md"):
        line = pointer(title, file, hook)
        assert len(line) <= 150
        assert pointers(f"# Index\n\n{line}\n") == [(line, file)]


def test_only_list_items_with_a_link_to_a_file_are_pointers() -> None:
    no_pointers = "# [T](t.md)\n- [W](https://example.org/x.md)\n- [H](#h)\n- [R](/r.md)\ntext\n"
    index = f"{no_pointers}- [A](a.md)\n  * see [B](./sub/b%20c.md) x\n"
    assert pointers(index) == [("- [A](a.md)", "a.md"), ("  * see [B](./sub/b%20c.md) x", "sub/b c.md")]


async def test_a_file_that_is_read_only_stays_as_it_is(notes: Notes, scope: Scope) -> None:
    kept = await put(notes, scope, "kept.md", "as it was\n")
    kept.path.chmod(0o400)
    assert (await notes.read(scope, kept.path)).text == "as it was\n"
    for attempt in (
        notes.write(scope, kept.path, "new\n", expected=kept.hash),
        notes.edit(scope, kept.path, "was", "is", expected=None),
        notes.append(scope, kept.path, "more\n"),
        notes.delete(scope, kept.path, expected=kept.hash),
    ):
        with pytest.raises(WriteRefused, match="read-only"):
            await attempt
    assert on_disk(scope, "kept.md") == "as it was\n"
    assert kept.path.stat().st_mode & 0o777 == 0o400
