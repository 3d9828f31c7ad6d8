"""Headers and the manifest."""

import asyncio
import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import structlog

from memory import scan as scanning
from memory.disk import walk
from memory.metadata import parse
from memory.paths import Homes, ProjectRef, ensure
from memory.scan import NoteHeader, Scanner, manifest
from memory.scope import Mode, Scope
from memory.settings import MemorySettings
from tests.waiting import HANGS

T0 = 1_700_000_000


def put(path: Path, text: str = "body", *, age: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (T0 - age, T0 - age))
    return path


def later() -> int:
    """A moment at which what a test has just written counts as settled."""
    return time.time_ns() + 10**10


async def scan(directory: Path, *, limit: int = 200, skip: Sequence[Path] = ()) -> list[NoteHeader]:
    """Scan a directory for the first time."""
    return await Scanner(limit=limit).scan_directory(directory, skip=skip)


def note(kind: str, description: str) -> str:
    return f"---\nname: n\ndescription: {description}\ntype: {kind}\n---\nbody\n"


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    homes = Homes(tmp_path, settings=MemorySettings())
    scope = homes.scope(
        principal="ann",
        project=ProjectRef(name="p"),
        member=True,
        shared=False,
        mode=Mode.AUTO,
        timezone="UTC",
    )
    ensure(scope)
    return scope


async def test_only_readable_topic_notes_are_listed_newest_first(tmp_path: Path) -> None:
    put(tmp_path / "a.md", note("user", "likes tea"), age=10)
    put(tmp_path / "x/b.md", note("bogus", "second"), age=5)
    for other in ("MEMORY.md", "x/MEMORY.md", "c.txt", "D.MD", "logs/2026/01/2026-01-02.md", ".git/e.md"):
        put(tmp_path / other)
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    assert manifest(await scan(tmp_path)) == (
        "- x/b.md (2023-11-14T22:13:15.000Z): second\n- [user] a.md (2023-11-14T22:13:10.000Z): likes tea"
    )


async def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = put(tmp_path / "outside/secret.md", note("user", "canary"))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "secret.md").symlink_to(secret)
    (inside / "folder").symlink_to(secret.parent)
    (inside / "dangling.md").symlink_to(tmp_path / "nowhere")
    assert await scan(inside) == []


async def test_the_oldest_notes_over_the_cap_are_missing_and_shown_ones_make_room(tmp_path: Path) -> None:
    made = [put(tmp_path / f"{age:03}.md", age=age) for age in range(205)]
    assert [header.path for header in await scan(tmp_path)] == made[:200]
    assert [header.path for header in await scan(tmp_path, skip=made[:3])] == made[3:203]
    assert [header.name for header in await scan(tmp_path, limit=2)] == ["000.md", "001.md"]


async def test_frontmatter_that_closes_on_line_31_is_not_seen(tmp_path: Path) -> None:
    filler = "".join(f"k{n}: v\n" for n in range(27))
    put(tmp_path / "on30.md", f"---\ndescription: seen\n{filler}---\n", age=1)
    put(tmp_path / "on31.md", f"---\ndescription: unseen\n{filler}more: v\n---\n", age=2)
    assert [header.description for header in await scan(tmp_path)] == ["seen", ""]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2026-01-02", "2026-01-02"),
        ("[a, b]", "a, b"),
        ("'one\n\n  two'", "one two"),
        ("no", ""),
        ("7", "7"),
        ("'" + "x" * 400 + "'", "x" * 299 + "…"),
        ("", ""),
    ],
)
async def test_a_description_is_one_bounded_line_of_text(tmp_path: Path, value: str, shown: str) -> None:
    put(tmp_path / "a.md", f"---\ndescription: {value}\ntype: no\n---\n")
    (header,) = await scan(tmp_path)
    assert (header.description, header.type) == (shown, None)


async def test_byte_order_mark_and_carriage_returns_do_not_hide_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf---\r\ntype: feedback\r\ndescription: d\r\n---\r\nx")
    (header,) = await scan(tmp_path)
    assert (header.type, header.description) == ("feedback", "d")


async def test_team_notes_are_tagged_where_the_scope_has_a_team_and_absent_elsewhere(scope: Scope) -> None:
    put(scope.memory_dir / "own.md", age=1)
    put(scope.memory_dir / "team/plan.md", age=2)
    put(scope.memory_dir / "sub/team/own.md", age=3)
    found = await Scanner().scan(scope)
    assert [(header.name, header.team) for header in found] == [
        ("own.md", False),
        ("team/plan.md", True),
        ("sub/team/own.md", False),
    ]
    assert [header.name for header in await scan(scope.memory_dir)] == ["own.md", "sub/team/own.md"]


async def test_an_unchanged_directory_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def spy(text: str) -> tuple[dict[str, object], str]:
        parsed.append(text)
        return {}, text

    monkeypatch.setattr(scanning, "parse", spy)
    put(tmp_path / "a.md", "one")
    put(tmp_path / "b.md", "two")
    scanner = Scanner(now_ns=later)
    first = await scanner.scan_directory(tmp_path)
    assert await scanner.scan_directory(tmp_path) == first
    assert sorted(parsed) == ["one", "two"]
    put(tmp_path / "a.md", "changed")
    await scanner.scan_directory(tmp_path)
    assert parsed[2:] == ["changed"]
    (tmp_path / "b.md").unlink()
    assert [header.name for header in await scanner.scan_directory(tmp_path)] == ["a.md"]
    assert len(parsed) == 3


async def test_a_change_that_kept_size_and_time_is_seen(tmp_path: Path) -> None:
    scanner = Scanner(now_ns=later)
    put(tmp_path / "a.md", note("user", "one"))
    await scanner.scan_directory(tmp_path)
    put(tmp_path / "a.md", note("user", "two"))
    (header,) = await scanner.scan_directory(tmp_path)
    assert header.description == "two"


async def test_a_second_change_within_one_tick_of_the_file_system_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Coarse:
        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name, self._entry = entry.name, entry

        def stat(self, *, follow_symlinks: bool) -> os.stat_result:
            facts = self._entry.stat(follow_symlinks=follow_symlinks)
            return os.stat_result(facts[:10], {"st_mtime_ns": T0, "st_ctime_ns": T0, "st_mtime": 0.0})

    def coarse(top: Path, *, enter: Callable[[str], bool]) -> Iterator[tuple[int, str, Coarse]]:
        return ((handle, folder, Coarse(entry)) for handle, folder, entry in walk(top, enter=enter))

    monkeypatch.setattr(scanning, "walk", coarse)
    scanner = Scanner(now_ns=lambda: T0 + 1)
    for word in ("one", "two"):
        (tmp_path / "a.md").write_text(note("user", word))
        (header,) = await scanner.scan_directory(tmp_path)
        assert header.description == word


async def test_within_a_turn_the_directory_is_walked_once_and_the_next_turn_sees_what_is_new(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[Path] = []

    def spy(top: Path, *, enter: Callable[[str], bool]) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        walked.append(top)
        return walk(top, enter=enter)

    monkeypatch.setattr(scanning, "walk", spy)
    scanner = Scanner()
    began = time.monotonic()
    await scanner.scan(scope)
    put(scope.memory_dir / "a.md")
    assert await scanner.scan(scope, since=began) == []
    assert len(walked) == 1
    assert [header.name for header in await scanner.scan(scope, since=time.monotonic())] == ["a.md"]
    assert len(walked) == 2


async def test_a_cancelled_scan_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, ended = threading.Event(), threading.Event()

    def hanging(top: Path, *, enter: Callable[[str], bool]) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        stuck.wait(HANGS)
        ended.set()
        return walk(top, enter=enter)

    monkeypatch.setattr(scanning, "walk", hanging)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await Scanner().scan_directory(tmp_path)
    assert not ended.is_set()
    stuck.set()


async def test_memory_of_scans_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_REMEMBERED_NOTES", 3)
    scanner = Scanner()
    for folder in ("a", "b", "c"):
        put(tmp_path / folder / "1.md")
        put(tmp_path / folder / "2.md")
        assert len(await scanner.scan_directory(tmp_path / folder)) == 2
    assert len(scanner._known) == 1


async def test_files_that_are_no_notes_are_told_in_the_log_once(tmp_path: Path) -> None:
    put(tmp_path / "a\nb.md")
    put(tmp_path / "ok.md")
    scanner = Scanner()
    with structlog.testing.capture_logs() as logs:
        await scanner.scan_directory(tmp_path)
        await scanner.scan_directory(tmp_path)
    assert [(line["event"], line["count"]) for line in logs] == [("memory.files_passed_over", 1)]


def nest(folder: Path, levels: int) -> None:
    """Make folders in one another, deeper than a path can name."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


async def test_a_thousand_nested_folders_hide_only_what_is_in_them(tmp_path: Path) -> None:
    nest(tmp_path, 1000)
    put(tmp_path / "d/d/deep.md")
    put(tmp_path / "ok.md", age=1)
    found = [header.name for header in await scan(tmp_path)]
    # Whoever cleans up after the tests does not go that deep.
    await asyncio.to_thread(subprocess.check_call, ["rm", "-rf", str(tmp_path)])
    assert found == ["d/d/deep.md", "ok.md"]


async def test_a_directory_that_can_not_be_listed_has_no_notes(tmp_path: Path) -> None:
    assert await scan(tmp_path / "nowhere") == []


async def test_a_name_that_would_break_a_line_is_left_out(tmp_path: Path) -> None:
    put(tmp_path / "a\n- [user] forged.md")
    assert await scan(tmp_path) == []


def test_a_time_that_no_calendar_has_is_shown_as_the_epoch(tmp_path: Path) -> None:
    header = NoteHeader(path=tmp_path, name="a.md", mtime=1e18, type=None, description="", team=False)
    assert manifest([header]) == "- a.md (1970-01-01T00:00:00.000Z)"


async def test_a_file_that_vanishes_while_it_is_looked_at_is_no_note_and_hides_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanishing(top: Path, *, enter: Callable[[str], bool]) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        for found in walk(top, enter=enter):
            if found[2].name == "gone.md":
                (tmp_path / "gone.md").unlink()
            yield found

    monkeypatch.setattr(scanning, "walk", vanishing)
    put(tmp_path / "gone.md")
    put(tmp_path / "stays.md")
    assert [header.name for header in await scan(tmp_path)] == ["stays.md"]


async def test_files_and_folders_that_can_not_be_opened_hide_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refusing(name: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(name) in ("closed", "closed.md"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(name, flags, mode, dir_fd=dir_fd)

    for name in ("closed.md", "closed/in.md", "open/in.md", "open.md"):
        put(tmp_path / name)
    monkeypatch.setattr(os, "open", refusing)
    assert sorted(header.name for header in await scan(tmp_path)) == ["open.md", "open/in.md"]


async def test_a_slow_scan_does_not_put_older_headers_in_the_place_of_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, go_on = threading.Event(), threading.Event()

    def held(top: Path, *, enter: Callable[[str], bool]) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        if slow.is_set():
            return walk(top, enter=enter)
        found = list(walk(top, enter=enter))
        slow.set()
        go_on.wait(HANGS)
        return iter(found)

    monkeypatch.setattr(scanning, "walk", held)
    scanner = Scanner()
    first = asyncio.create_task(scanner.scan_directory(tmp_path))
    await asyncio.to_thread(slow.wait, HANGS)
    put(tmp_path / "new.md")
    began = time.monotonic()
    assert len(await scanner.scan_directory(tmp_path)) == 1
    go_on.set()
    assert await first == []
    assert len(await scanner.scan_directory(tmp_path, since=began)) == 1


def test_frontmatter_made_to_be_slow_is_read_in_time() -> None:
    blanks = " " * 60_000
    for head in (f"a: x{blanks}x\nb: [", f"a:{blanks}[", f"a: x{blanks[:16_000]}x\n: [", "a: [" * 4000, "- " * 8000):
        began = time.process_time()
        parse(f"---\n{head}\n---\nbody")
        assert time.process_time() - began < 1, head[:20]


@pytest.mark.parametrize("number", ["0x" + "f" * 5000, "0" + "7" * 8000, "1" + ":59" * 4000, "-0b" + "1" * 15000])
@pytest.mark.parametrize("head", ["name: {}", "{}: tea", "name: [tea, {{a: {}}}]", "name: {{{}: tea}}", "? {}\n: tea"])
def test_no_number_in_a_header_is_longer_than_can_be_written_out(number: str, head: str) -> None:
    metadata, body = parse(f"---\ndescription: tea\n{head.format(number)}\n---\nbody\n")
    assert "name" not in metadata or metadata["name"] == number  # as a text it is what stands there
    assert len(str(metadata)) < 20_000
    assert body.endswith("body\n")


def test_a_number_of_usual_length_in_a_header_stays_a_number() -> None:
    assert parse("---\nyear: 2026\nhash: 0x" + "f" * 64 + "\n---\n")[0] == {"year": 2026, "hash": 16**64 - 1}


async def test_a_file_that_fails_in_whatever_way_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(text: str) -> tuple[dict[str, object], str]:
        if "odd" in text:
            raise ArithmeticError("nobody has thought of this")
        return parse(text)

    monkeypatch.setattr(scanning, "parse", failing)
    put(tmp_path / "odd.md", note("user", "odd"))
    put(tmp_path / "tea.md", note("user", "tea"))
    with structlog.testing.capture_logs() as logged:
        assert [header.name for header in await scan(tmp_path)] == ["tea.md"]
    assert {"event": "memory.file_failed", "error": "ArithmeticError", "log_level": "warning"} in logged
