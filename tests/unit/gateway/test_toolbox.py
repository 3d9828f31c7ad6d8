import asyncio
import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.tools.definitions import DEFINITIONS
from gateway.tools.toolbox import Toolbox
from memory.disk import Folder
from memory.doubles import LocalLeases, RecordingMeter
from memory.notes import Note, Notes
from memory.ports import Rights
from memory.scope import Scope
from tests.waiting import HANGS

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lM6"
MARK = "[GitHub personal access token removed]"
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


async def test_no_note_holds_a_mark_of_a_source_whatever_run_writes_it(box: Toolbox, scope: Scope) -> None:
    await ok(box, "write", file_path="tea.md", content="- Ann likes tea. [from 1]\n- Bob. [from [from 1]2]\n")
    await ok(box, "edit", file_path="tea.md", old_string="Bob. [from 3]", new_string="Bob likes cake. [FROM 4, 5]")
    await ok(box, "append", file_path="tea.md", content="- Cid likes milk. [from message 6]")
    written = (scope.memory_dir / "tea.md").read_text()
    assert written == "- Ann likes tea.\n- Bob likes cake.\n- Cid likes milk.\n"


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
    async with asyncio.timeout(HANGS):
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
    written = asyncio.Event()

    class Slow(Notes):
        async def append(self, scope: Scope, path: Path, text: str) -> Note:
            await super().append(scope, path, text)
            written.set()
            await asyncio.sleep(60)
            raise AssertionError

    box = Toolbox(scope, Rights(read=(), write=(scope.memory_dir,)), Slow(leases=LocalLeases()), now)
    call = asyncio.create_task(box.call("append", {"file_path": "tea.md", "content": "x"}))
    await asyncio.wait_for(written.wait(), HANGS)
    call.cancel()
    await asyncio.wait({call})
    assert (scope.memory_dir / "tea.md").exists()
    assert box.written == (scope.memory_dir / "tea.md",)


async def test_a_secret_is_refused_in_team_memory(scope: Scope, notes: Notes, now: Any) -> None:
    team = scope.memory_dir / "team"
    member = replace(scope, team_dir=team)
    box = Toolbox(member, Rights(read=(scope.memory_dir,), write=(scope.memory_dir, team)), notes, now)
    assert "ghp_" not in await fault(box, "write", file_path="team/a.md", content=f"key: {TOKEN}\n")
    assert not (team / "a.md").exists()
    assert box.left_out == ()


@pytest.mark.parametrize("tool", ["write", "edit", "append"])
async def test_a_secret_is_left_out_of_private_memory_and_the_model_is_told_to_say_so(
    box: Toolbox, scope: Scope, tool: str
) -> None:
    file = scope.memory_dir / "tea.md"
    given = {
        "write": {"content": f"key: {TOKEN}\n"},
        "edit": {"old_string": "Ann drinks tea.", "new_string": f"key: {TOKEN}"},
        "append": {"content": f"key: {TOKEN}"},
    }
    if tool != "write":
        file.write_text(NOTE)
    told = await ok(box, tool, file_path="tea.md", **given[tool])
    assert "GitHub personal access token" in told
    assert "tell them" in told
    assert "ghp_" not in told
    assert file.read_text().endswith(f"key: {MARK}\n")
    assert box.left_out == ("GitHub personal access token",)


async def test_what_a_person_wrote_by_hand_stays_and_can_be_edited(box: Toolbox, scope: Scope) -> None:
    file = scope.memory_dir / "keys.md"
    file.write_text(f"key: {TOKEN}\n")
    assert "holds a secret" in await ok(box, "append", file_path="keys.md", content="- more")
    assert file.read_text() == f"key: {TOKEN}\n- more\n"
    await ok(box, "edit", file_path="keys.md", old_string=f"key: {TOKEN}", new_string="key: at home")
    assert file.read_text() == "key: at home\n- more\n"
    assert box.left_out == ()


async def test_a_secret_is_left_out_of_a_log_and_added_no_second_time(scope: Scope, notes: Notes, now: Any) -> None:
    log = scope.memory_dir / "logs" / "2026" / "05" / "2026-05-01.md"
    box = Toolbox(scope, Rights(read=(scope.memory_dir,), write=(), append_only=log), notes, now, run="extraction")
    await ok(box, "append", file_path=str(log), content="- 12:00 Ann: tea")
    for _ in range(2):
        await ok(box, "append", file_path=str(log), content=f"- 12:05 Ann: {TOKEN}")
    assert log.read_text() == f"- 12:00 Ann: tea\n- 12:05 Ann: {MARK}\n"
    assert box.left_out == ("GitHub personal access token",)


@pytest.mark.parametrize("run", ["chat", "extraction", "agent"])
async def test_a_note_is_not_wiped_by_a_write_and_deleted_only_where_a_person_may_have_asked_for_it(
    scope: Scope, notes: Notes, now: Any, run: str
) -> None:
    file, meter = scope.memory_dir / "tea.md", RecordingMeter()
    file.write_text(many := "".join(f"- {word} is what Ann likes\n" for word in range(400)))
    box = Toolbox(scope, Rights(read=(file.parent,), write=(file.parent,)), notes, now, run=run, meter=meter)
    await ok(box, "read", file_path="tea.md")
    told = await fault(box, "write", file_path="tea.md", content="- Ann likes tea\n")
    assert "400 of 400 facts" in told
    assert (file.read_text(), box.written) == (many, ())
    await ok(box, "edit", file_path="tea.md", old_string="- 7 is what Ann likes\n", new_string="")
    await (ok if run == "chat" else fault)(box, "delete", file_path="tea.md")
    assert file.exists() == (run != "chat")
    denied = [labels["tool"] for what, labels, _ in meter.counted if what == "tools_denied"]
    assert denied == (["write"] if run == "chat" else ["write", "delete"])


async def test_a_dream_is_judged_by_all_it_did_and_not_by_one_write(scope: Scope, notes: Notes, now: Any) -> None:
    file = scope.memory_dir / "tea.md"
    file.write_text("".join(f"- {word} is what Ann likes\n" for word in range(400)))
    box = Toolbox(scope, Rights(read=(file.parent,), write=(file.parent,)), notes, now, run="dream")
    await ok(box, "read", file_path="tea.md")
    await ok(box, "write", file_path="tea.md", content="- Ann likes tea\n")
    assert file.read_text() == "- Ann likes tea\n"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("\ufeffcafé\nzwei".encode("utf-16-le"), "café\nzwei"),
        ("\ufeffcafé\nzwei".encode("utf-16-be"), "café\nzwei"),
        ("café\nzwei".encode("latin-1"), "caf\ufffd\nzwei"),
        ("café\nzwei".encode("utf-8-sig"), "café\nzwei"),
    ],
    ids=["UTF-16 LE", "UTF-16 BE", "Latin-1", "UTF-8 with a mark"],
)
async def test_a_note_is_read_whatever_it_is_saved_as(box: Toolbox, scope: Scope, content: bytes, shown: str) -> None:
    (scope.memory_dir / "tea.md").write_bytes(content)
    assert await ok(box, "read", file_path="tea.md") == shown
    assert await ok(box, "read", file_path="tea.md", view_range=[2, -1]) == "zwei"


async def test_a_long_note_is_read_in_parts(box: Toolbox, scope: Scope) -> None:
    (scope.memory_dir / "long.md").write_text("word " * 13 * 1024 + "\n" + "line\n" * 50_000)
    assert "view_range" in await fault(box, "read", file_path="long.md")
    assert "view_range" in await fault(box, "read", file_path="long.md", view_range=[1, -1])
    assert await ok(box, "read", file_path="long.md", view_range=[2, 3]) == "line\nline"
    for wrong in ([1], [1, 2, 3], ["1", "2"], "1-2", 5):
        assert "view_range" in await fault(box, "read", file_path="long.md", view_range=wrong)


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
        ("memory_tool_calls", "write", "personal", "extraction"),
        ("memory_tool_calls", "grep", "personal", "extraction"),
        ("tools_denied", "write", "extraction"),
        ("tools_denied", "canary", "extraction"),
    ]


# -- what could not be written, for no fault of the model


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list: the number in it is the error of the file system that every write and deletion meets."""
    numbers: list[int] = []
    for method in ("replace", "remove"):
        whole = getattr(Folder, method)

        def acted(self: Folder, *given: Any, whole: Callable[..., Any] = whole, **more: Any) -> Any:
            if numbers:
                raise OSError(numbers[0], os.strerror(numbers[0]))
            return whole(self, *given, **more)

        monkeypatch.setattr(Folder, method, acted)
    return numbers


WRITES: dict[str, dict[str, str]] = {
    "write": {"content": NOTE},
    "append": {"content": "- more"},
    "edit": {"old_string": "tea.", "new_string": "coffee."},
    "delete": {},
}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("tool", WRITES)
async def test_a_write_that_the_disk_refuses_has_failed_until_it_is_made_good(
    box: Toolbox, scope: Scope, broken: list[int], tool: str, number: int
) -> None:
    name = "new.md" if tool == "write" else "tea.md"
    (scope.memory_dir / "tea.md").write_text(NOTE)
    broken.append(number)
    await fault(box, tool, file_path=name, **WRITES[tool])
    assert (box.failed, box.written) == ((scope.memory_dir / name,), ())
    broken.clear()
    await ok(box, tool, file_path=str(scope.memory_dir / name), **WRITES[tool])
    assert (box.failed, box.written) == ((), (scope.memory_dir / name,))


async def test_what_the_host_could_not_do_does_not_count_as_denied(
    scope: Scope, notes: Notes, now: Any, broken: list[int]
) -> None:
    meter = RecordingMeter()
    rights = Rights(read=(scope.memory_dir,), write=(scope.memory_dir,))
    box = Toolbox(scope, rights, notes, now, meter=meter)
    broken.append(errno.ENOSPC)
    await fault(box, "write", file_path="tea.md", content=NOTE)
    assert meter.counted == []
    broken[0] = errno.EISDIR
    await fault(box, "write", file_path="tea.md", content=NOTE)
    assert [what for what, _, _ in meter.counted] == ["tools_denied"]


async def test_a_write_whose_lease_is_lost_has_failed(scope: Scope, now: Any) -> None:
    leases = LocalLeases()

    async def overtaken(scope: Scope, path: Path, *, before: str, after: str) -> None:
        leases.take_over(f"memory:{scope.memory_dir}")

    rights = Rights(read=(), write=(scope.memory_dir,))
    box = Toolbox(scope, rights, Notes(leases=leases), now, guard=overtaken)
    await fault(box, "write", file_path="tea.md", content=NOTE)
    assert box.failed == (scope.memory_dir / "tea.md",)


async def test_what_the_model_may_not_do_or_asks_for_wrongly_is_no_failure_of_the_host(
    box: Toolbox, scope: Scope
) -> None:
    for name in ("tea.md", "kept.md"):
        (scope.memory_dir / name).write_text(NOTE)
    (scope.memory_dir / "kept.md").chmod(0o400)
    (scope.memory_dir / "link.md").symlink_to("/nowhere")
    (scope.memory_dir / "folder.md").mkdir()
    for name in (
        "/etc/a.md",
        "a.py",
        ".a.md",
        "tea.md",
        "kept.md",
        "link.md",
        "folder.md",
        "tea.md/a.md",
        "x" * 300 + ".md",
    ):
        await fault(box, "write", file_path=name, content="x")
    await fault(box, "edit", file_path="tea.md", old_string="nowhere", new_string="x")
    await fault(box, "delete", file_path="none.md")
    await fault(box, "write", file_path="a.md")
    assert box.failed == ()


async def test_other_words_do_not_make_good_what_could_not_be_added(box: Toolbox, broken: list[int]) -> None:
    broken.append(errno.ENOSPC)
    await fault(box, "append", file_path="tea.md", content="- tea")
    broken.clear()
    await ok(box, "append", file_path="tea.md", content="- boats")
    assert [path.name for path in box.failed] == ["tea.md"]
    await ok(box, "append", file_path="tea.md", content="- tea")
    assert [path.name for path in box.failed] == []


async def test_what_a_log_holds_already_is_not_added_again(scope: Scope, notes: Notes, now: Any) -> None:
    log = scope.memory_dir / "logs" / "2026" / "05" / "2026-05-01.md"
    rights = Rights(read=(scope.memory_dir,), write=(), append_only=log)
    await ok(Toolbox(scope, rights, notes, now), "append", file_path=str(log), content="- 12:00 Ann: tea")
    again = Toolbox(scope, rights, notes, now)
    await ok(again, "append", file_path=str(log), content="- 12:00 Ann: tea")
    assert again.written == (log,)
    await ok(again, "append", file_path=str(log), content="- 12:00 Ann: tea\n- 12:05 Ann: boats")
    assert log.read_text() == "- 12:00 Ann: tea\n- 12:05 Ann: boats\n"
