import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.tools.definitions import DEFINITIONS
from gateway.tools.toolbox import Toolbox
from memory.doubles import LocalLeases, RecordingMeter
from memory.notes import Note, Notes
from memory.ports import Rights
from memory.scope import Scope

NOTE = "---\nname: Tea\ndescription: what Ann drinks\ntype: user\n---\n\nAnn drinks tea.\n"


@pytest.fixture
def notes() -> Notes:
    return Notes(leases=LocalLeases())


@pytest.fixture
def scope(make_scope: Callable[..., Scope]) -> Scope:
    return make_scope()


@pytest.fixture
def box(scope: Scope, notes: Notes, now: Any) -> Toolbox:
    return Toolbox(scope, Rights(read=(scope.memory_dir,), write=(scope.memory_dir,)), notes, now)


async def ok(box: Toolbox, tool: str, **given: Any) -> str:
    result = await box.call(tool, given)
    assert not result.is_error, result.content
    return str(result.content)


async def fault(box: Toolbox, tool: str, **given: Any) -> str:
    result = await box.call(tool, given)
    assert result.is_error, result.content
    return str(result.content)


async def test_a_note_is_written_read_edited_added_to_found_and_deleted(box: Toolbox, scope: Scope) -> None:
    file = scope.memory_dir / "tea.md"
    await ok(box, "write", file_path="tea.md", content=NOTE)
    await ok(box, "edit", file_path=str(file), old_string="drinks tea", new_string="drinks green tea")
    await ok(box, "append", file_path="tea.md", content="Every day.")
    assert "drinks green tea" in await ok(box, "read", file_path="tea.md")
    assert await ok(box, "read", file_path="tea.md", view_range=[8, 8]) == "Every day."
    assert str(file) in await ok(box, "glob", pattern="**/*.md")
    assert f"{file}:7:Ann drinks green tea." in await ok(box, "grep", pattern=r"green \w+")
    await ok(box, "delete", file_path="tea.md")
    assert not file.exists()
    assert box.written == (file,)


async def test_what_was_never_read_is_not_written_over(box: Toolbox, scope: Scope) -> None:
    (scope.memory_dir / "tea.md").write_text(NOTE)
    assert "read it first" in await fault(box, "write", file_path="tea.md", content="other")
    await ok(box, "read", file_path="tea.md")
    await ok(box, "write", file_path="tea.md", content="other\n")
    assert box.written == (scope.memory_dir / "tea.md",)


async def test_an_old_note_says_how_old_it_is(box: Toolbox, scope: Scope, now: Any) -> None:
    file = scope.memory_dir / "tea.md"
    file.write_text(NOTE)
    os.utime(file, (now().timestamp() - 5 * 86400,) * 2)
    assert "5 days" in (await ok(box, "read", file_path="tea.md")).splitlines()[0]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("write", {"content": "x"}),
        ("write", {"file_path": "a.md"}),
        ("write", {"file_path": "a.md", "content": 5}),
        ("write", {"file_path": ["a.md"], "content": "x"}),
        ("append", {"file_path": "a.md", "content": None}),
        ("edit", {"file_path": "a.md", "old_string": 1, "new_string": "x"}),
        ("read", {"file_path": ""}),
        ("read", {"file_path": "a\0b.md"}),
        ("read", {"file_path": "none.md"}),
        ("read", {"file_path": "."}),
        ("read", {"file_path": "there.md", "view_range": "all"}),
        ("glob", {"pattern": 7}),
        ("glob", {"pattern": "/etc/*"}),
        ("glob", {"pattern": "../*"}),
        ("grep", {"pattern": "("}),
        ("grep", {"pattern": "a", "path": 3}),
        ("delete", {"file_path": "none.md"}),
        ("delete", {"file_path": "MEMORY.md"}),
        ("write", {"file_path": "program.py", "content": "x"}),
        ("write", {"file_path": "x" * 300 + ".md", "content": "x"}),
        ("bash", {"command": "rm -rf /"}),
        ("mcp__x__y", {}),
    ],
)
async def test_whatever_is_wrong_is_told_and_never_raised(
    box: Toolbox, scope: Scope, tool: str, given: Mapping[str, Any]
) -> None:
    (scope.memory_dir / "there.md").write_text(NOTE)
    result = await box.call(tool, given)
    assert result.is_error
    assert len(str(result.content)) > 10
    assert [path.name for path in scope.memory_dir.rglob("*")] == ["there.md"]
    assert box.written == ()


@pytest.mark.parametrize("arguments", [[], "text", None, 5])
async def test_arguments_that_are_no_object_are_told(box: Toolbox, arguments: Any) -> None:
    assert (await box.call("read", arguments)).is_error


async def test_nothing_outside_is_reached_by_any_way(box: Toolbox, scope: Scope, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("a canary\n")
    (scope.memory_dir / "link.md").symlink_to(secret)
    (scope.memory_dir / "folder").symlink_to(tmp_path)
    for path in (str(secret), "../" * 4 + "secret.md", "link.md", "folder/secret.md", "sub/../link.md"):
        for tool in ("read", "delete"):
            assert "canary" not in await fault(box, tool, file_path=path)
        assert await fault(box, "append", file_path=path, content="more")
    assert await ok(box, "glob", pattern="**/*.md") == "no matches"
    assert await ok(box, "glob", pattern="folder/*") == "no matches"
    assert await ok(box, "grep", pattern="canary") == "no matches"
    assert await fault(box, "grep", pattern="canary", path=str(tmp_path))
    assert secret.read_text() == "a canary\n"


async def test_a_pattern_that_never_ends_is_cut_short_and_holds_up_nobody(box: Toolbox, scope: Scope) -> None:
    (scope.memory_dir / "a.md").write_text("a" * 5000 + "!\n")
    async with asyncio.timeout(5):
        assert "too long" in await fault(box, "grep", pattern=r"(a|a)*$")


async def test_team_memory_is_written_only_where_the_rights_name_it(scope: Scope, notes: Notes, now: Any) -> None:
    team = scope.memory_dir / "team"
    member = replace(scope, team_dir=team)
    asked = Toolbox(member, Rights(read=(scope.memory_dir,), write=(scope.memory_dir,)), notes, now)
    assert "team memory" in await fault(asked, "write", file_path="team/a.md", content=NOTE)
    direct = Toolbox(member, Rights(read=(scope.memory_dir,), write=(scope.memory_dir, team)), notes, now)
    await ok(direct, "write", file_path="team/a.md", content=NOTE)
    former = Toolbox(scope, Rights(read=(scope.memory_dir,), write=(scope.memory_dir,)), notes, now)
    assert "team" in await fault(former, "read", file_path="team/a.md")
    assert await ok(former, "glob", pattern="**/*.md") == "no matches"
    assert await ok(former, "grep", pattern="Ann") == "no matches"


async def test_with_append_only_nothing_else_is_written(scope: Scope, notes: Notes, now: Any) -> None:
    log = scope.memory_dir / "logs" / "2026" / "05" / "2026-05-01.md"
    box = Toolbox(scope, Rights(read=(scope.memory_dir,), write=(), append_only=log), notes, now)
    await ok(box, "append", file_path=str(log), content="- 12:00 tea")
    for tool, given in (
        ("append", {"file_path": "other.md", "content": "x"}),
        ("write", {"file_path": str(log), "content": "x"}),
        ("edit", {"file_path": str(log), "old_string": "tea", "new_string": "x"}),
        ("delete", {"file_path": str(log)}),
    ):
        assert "only thing that may be written" in await fault(box, tool, **given)
    assert log.read_text() == "- 12:00 tea\n"
    assert box.written == (log,)


async def test_without_rights_nothing_is_read_or_written(scope: Scope, notes: Notes, now: Any) -> None:
    (scope.memory_dir / "tea.md").write_text(NOTE)
    box = Toolbox(scope, Rights(read=(), write=()), notes, now)
    for tool in ("read", "delete"):
        await fault(box, tool, file_path="tea.md")
    await fault(box, "glob", pattern="*.md")
    await fault(box, "grep", pattern="Ann")


async def test_a_write_that_is_cut_off_is_known(scope: Scope, now: Any) -> None:
    class Slow(Notes):
        async def append(self, scope: Scope, path: Path, text: str) -> Note:
            await super().append(scope, path, text)
            await asyncio.sleep(60)
            raise AssertionError

    box = Toolbox(scope, Rights(read=(), write=(scope.memory_dir,)), Slow(leases=LocalLeases()), now)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await box.call("append", {"file_path": "tea.md", "content": "x"})
    assert (scope.memory_dir / "tea.md").exists()
    assert box.written == (scope.memory_dir / "tea.md",)


async def test_a_secret_is_refused_in_team_memory_and_warned_of_in_private(
    scope: Scope, notes: Notes, now: Any
) -> None:
    secret = "key: ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lM6\n"
    team = scope.memory_dir / "team"
    member = replace(scope, team_dir=team)
    box = Toolbox(member, Rights(read=(scope.memory_dir,), write=(scope.memory_dir, team)), notes, now)
    assert "secret" in await ok(box, "write", file_path="a.md", content=secret)
    assert "ghp_" not in await fault(box, "write", file_path="team/a.md", content=secret)
    assert not (team / "a.md").exists()


async def test_every_tool_that_the_model_is_told_of_exists(box: Toolbox) -> None:
    names = {tool["name"] for tool in DEFINITIONS}
    missing = {name for name in names if "no tool" in await fault(box, name)}
    assert (names - missing, missing) == (
        {"read", "write", "edit", "append", "delete", "glob", "grep"},
        {"Agent"},  # given to a person's turn alone
    )
    assert all(tool["input_schema"]["additionalProperties"] is False for tool in DEFINITIONS)


async def test_a_picture_comes_back_as_blocks_that_a_request_can_hold(
    scope: Scope, notes: Notes, now: Any, tmp_path: Path
) -> None:
    picture = tmp_path / "code" / "a.png"
    picture.parent.mkdir()
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 30)
    roots = (scope.memory_dir, picture.parent)
    box = Toolbox(replace(scope, readable=roots), Rights(read=roots, write=(scope.memory_dir,)), notes, now)
    result = await box.call("read", {"file_path": str(picture)})
    assert [block["type"] for block in result.content] == ["image"]


async def test_tools_on_memory_are_counted_and_denied_ones_too(scope: Scope, notes: Notes, now: Any) -> None:
    meter, team = RecordingMeter(), scope.memory_dir / "team"
    member = replace(scope, team_dir=team)
    rights = Rights(read=(scope.memory_dir,), write=(scope.memory_dir, team))
    box = Toolbox(member, rights, notes, now, meter=meter, run="extraction")
    await ok(box, "write", file_path="team/a.md", content=NOTE)
    await ok(box, "grep", pattern="Ann")
    await fault(box, "read", file_path="none.md")
    await fault(box, "write", file_path="/etc/a.md", content=NOTE)
    await fault(box, "canary")
    assert [(what, *labels.values()) for what, labels, _ in meter.counted] == [
        ("memory_tool_calls", "write", "team", "extraction"),
        ("memory_tool_calls", "grep", "personal", "extraction"),
        ("tools_denied", "write", "extraction"),
        ("tools_denied", "canary", "extraction"),
    ]
