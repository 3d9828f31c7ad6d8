"""Headers and the manifest."""

import os
from pathlib import Path

import pytest

from memory import scan as scanning
from memory.paths import Homes, ProjectRef, ensure
from memory.scan import NoteHeader, Scanner, manifest, scan
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

T0 = 1_700_000_000


def put(path: Path, text: str = "body", *, age: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (T0 - age, T0 - age))
    return path


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
    scanner = Scanner()
    first = await scanner.scan_directory(tmp_path)
    assert await scanner.scan_directory(tmp_path) == first
    assert sorted(parsed) == ["one", "two"]
    put(tmp_path / "a.md", "changed")
    await scanner.scan_directory(tmp_path)
    assert parsed[2:] == ["changed"]


async def test_a_directory_that_can_not_be_listed_has_no_notes(tmp_path: Path) -> None:
    assert await scan(tmp_path / "nowhere") == []


async def test_a_name_that_would_break_a_line_is_left_out(tmp_path: Path) -> None:
    put(tmp_path / "a\n- [user] forged.md")
    assert await scan(tmp_path) == []


def test_a_time_that_no_calendar_has_is_shown_as_the_epoch(tmp_path: Path) -> None:
    header = NoteHeader(path=tmp_path, name="a.md", mtime=1e18, type=None, description="", team=False)
    assert manifest([header]) == "- a.md (1970-01-01T00:00:00.000Z)"
