"""Check 24: what a copy of a team's memory sends, how it gives way, and what it never sends."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from adapters.serving import serving
from tests.acceptance.answers import answer
from tests.acceptance.team_server import TeamServer, project
from tests.acceptance.test_check_23_keys import synced
from tests.acceptance.whole import Speaker, Whole, calls, note, whole

GROUP = Speaker(user="42", chat="-100")
THREE = {"a.md": "one", "b.md": "two", "c.md": "three"}
TOKEN = "ghp_" + "x7" * 18
TOO_MANY = {
    "error": {"details": {"error_code": "team_memory_too_many_entries", "max_entries": 2, "received_entries": 3}}
}


@dataclass(kw_only=True)
class Listener(TeamServer):
    """Keeps what is asked of it; the next PUTs get the scripted refusals."""

    asked: list[str] = field(default_factory=list)
    puts: list[dict[str, str]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    refusals: list[Callable[[], Response]] = field(default_factory=list)
    down: bool = False

    async def _given(self, request: Request) -> Response:
        view = request.query_params.get("view", "")
        self.asked.append(f"{request.method} {view}".strip())
        if self.down and request.method == "GET":
            return Response(status_code=403)
        if request.method == "PUT":
            body = await request.body()
            self.puts.append(json.loads(body)["entries"])
            self.sizes.append(len(body))
            self.expected.append(request.headers.get("if-match", "").strip('"'))
            if self.refusals:
                return self.refusals.pop(0)()
        answer = await super()._given(request)
        self.tags.append(self.tag)
        return answer


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group's chat of a running gateway, its copy of the team's memory, and the server."""

    running: Whole
    server: Listener
    team: Path

    async def sync(self) -> list[str]:
        """Exchange, and return what was asked of the server meanwhile."""
        self.server.asked.clear()
        await synced(self.running)
        return list(self.server.asked)


@asynccontextmanager
async def group(home: Path, server: Listener, more: str = "") -> AsyncIterator[Group]:
    async with serving(server.app) as url, whole(home, project(url) + more) as running:
        await running.tell(GROUP, "/start")
        await running.tell(GROUP, "Hello there.")
        await running.settled()
        team = (await running.scope(GROUP)).team_dir
        assert team is not None
        yield Group(running=running, server=server, team=team)


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Group]:
    """Three files on both sides, and the requests of that forgotten."""
    server = Listener(entries=dict(THREE))
    async with group(tmp_path / "home", server) as found:
        await found.sync()
        yield found


async def test_check_24_only_the_file_that_changed_is_put(shared: Group) -> None:
    (shared.team / "b.md").write_text("two and a half")
    await shared.sync()
    assert shared.server.puts == [{"b.md": "two and a half"}]
    assert await shared.sync() == ["GET"]


async def test_check_24_after_a_412_the_hashes_are_looked_at_and_it_is_sent_again(shared: Group) -> None:
    (shared.team / "b.md").write_text("two and a half")
    shared.server.refusals.append(lambda: Response(status_code=412))
    assert await shared.sync() == ["GET", "PUT", "GET hashes", "PUT"]
    assert shared.server.entries == THREE | {"b.md": "two and a half"}


async def test_check_24_after_three_412s_it_stops_and_nothing_local_has_changed(shared: Group) -> None:
    (shared.team / "b.md").write_text("two and a half")
    shared.server.refusals += [lambda: Response(status_code=412)] * 3
    asked = await shared.sync()
    assert asked.count("PUT") == 3
    assert {path.name: path.read_text() for path in shared.team.glob("*.md")} == THREE | {"b.md": "two and a half"}
    assert shared.server.entries == THREE


async def test_check_24_a_large_delta_goes_in_bodies_of_bounded_size_in_key_order_each_on_the_last(
    shared: Group,
) -> None:
    for number in range(6):
        (shared.team / f"n{number}.md").write_text(f"{number}" * 100_000)
    before = len(shared.server.tags)
    await shared.sync()
    sent = [list(put) for put in shared.server.puts]
    assert max(shared.server.sizes) <= 200_000
    assert [key for keys in sent for key in keys] == [f"n{number}.md" for number in range(6)]
    assert len(sent) > 1
    assert shared.server.expected == shared.server.tags[before : before + len(sent)]


async def test_check_24_a_structured_413_fails_this_push_and_the_next_sends_as_many_as_it_takes(
    tmp_path: Path,
) -> None:
    server = Listener()
    async with group(tmp_path / "home", server) as shared:
        await shared.sync()
        for key, text in THREE.items():
            (shared.team / key).write_text(text)
        server.refusals.append(lambda: JSONResponse(TOO_MANY, status_code=413))
        await shared.sync()
        assert (server.entries, len(server.puts)) == ({}, 1)
        await shared.sync()
        assert server.puts[1:] == [{"a.md": "one", "b.md": "two"}]


async def test_check_24_after_a_403_edits_send_nothing_until_a_file_is_deleted(shared: Group) -> None:
    (shared.team / "b.md").write_text("two and a half")
    shared.server.refusals.append(lambda: Response(status_code=403))
    await shared.sync()
    for text in ("2.6", "2.7"):
        (shared.team / "b.md").write_text(text)
        assert "PUT" not in await shared.sync()
    (shared.team / "c.md").unlink()
    assert "PUT" in await shared.sync()
    assert shared.server.entries["b.md"] == "2.7"


@pytest.mark.parametrize("status", [409, 429, 500])
async def test_check_24_what_may_pass_is_tried_again_with_the_next_edit(shared: Group, status: int) -> None:
    (shared.team / "b.md").write_text("two and a half")
    shared.server.refusals.append(lambda: HTMLResponse("<p>no</p>", status_code=status))
    await shared.sync()
    assert shared.server.entries == THREE
    (shared.team / "b.md").write_text("2.6")
    await shared.sync()
    assert shared.server.entries == THREE | {"b.md": "2.6"}


async def test_check_24_without_a_first_pull_nothing_is_put(tmp_path: Path) -> None:
    server = Listener(down=True)
    async with group(tmp_path / "home", server) as shared:
        (shared.team / "mine.md").write_text("mine")
        assert set(await shared.sync()) == {"GET"}
        server.down = False
        await shared.sync()
        assert server.entries == {"mine.md": "mine"}


async def test_check_24_a_secret_is_in_no_body_and_the_others_are_sent(shared: Group) -> None:
    (shared.team / "b.md").write_text(f"the token is {TOKEN}")
    (shared.team / "c.md").write_text("four")
    await shared.sync()
    assert shared.server.puts == [{"c.md": "four"}]
    (run,) = await shared.running.core.night.runs.recent("team-sync", limit=1)
    told = await answer(shared.running, GROUP, "/team")
    assert "`b.md` stayed: it holds a secret: github-pat (GitHub personal access token)" in told
    assert "1 skipped" in run.detail
    assert TOKEN not in told + run.detail


async def test_check_24_the_write_tool_refuses_a_secret_by_its_kind(shared: Group) -> None:
    words = {"file_path": str(shared.team / "d.md"), "content": note(f"the token is {TOKEN}")}
    shared.running.then(calls(("write", words)), "I can't keep that.")
    await shared.running.tell(GROUP, "Keep this token for the team.")
    (result,) = shared.running.chats[-1].body["messages"][-1]["content"]
    assert result["is_error"]
    assert "GitHub" in str(result["content"])
    assert not (shared.team / "d.md").exists()
