"""Gateways with homes of their own that share the memory of one team, over lines that a test can cut."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from adapters.serving import hang_up, serving
from memory.index import INDEX
from memory.team.local import is_conflict_copy
from memory.team.wire import PATH
from scheduler.runs import Outcome
from tests.acceptance.whole import Clock, Speaker, Whole, note, whole

GROUP = Speaker(user="42", chat="-100")
REPO = "allotment/garden"
TOKENS = {"a": "the-token-of-gateway-a", "b": "the-token-of-gateway-b", "foreign": "the-token-of-the-others"}
PROJECT = f"""
[scheduler]
start_delay = 3600
[projects.garden]
repo = "{REPO}"
chats = ["telegram:-100"]
[memory]
team_watch = false
"""
SERVES = PROJECT + "".join(
    f'[memory.team_grants.{name}]\ntoken = "{token}"\nrepos = ["{REPO}"]\n' for name, token in TOKENS.items()
)


class State(StrEnum):
    """How a line is."""

    GOOD = "good"
    CUT = "cut"
    """No request gets through."""
    DEAF = "deaf"
    """Requests are carried out; no answer comes back."""
    TORN = "torn"
    """Requests are carried out; of the answer half of the body comes back."""


@dataclass(kw_only=True)
class Line:
    """What lies between a gateway and the server of its team's memory; `to` is where it ends, "": nowhere."""

    to: str = ""
    state: State = State.GOOD

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route(PATH, self._carried, methods=["GET", "PUT"])])

    async def _carried(self, request: Request) -> Response:
        if self.state is State.CUT or not self.to:
            await hang_up(request)
            return Response()
        answer = await self._asked(request)
        if self.state is State.DEAF:
            await hang_up(request)
        headers = {name: value for name, value in answer.headers.items() if name in {"etag", "content-type"}}
        if self.state is not State.TORN:
            return Response(answer.content, answer.status_code, headers)

        async def half() -> AsyncIterator[bytes]:
            yield answer.content[: len(answer.content) // 2]
            await hang_up(request)

        return StreamingResponse(half(), answer.status_code, headers)

    async def _asked(self, request: Request) -> httpx.Response:
        passed = {"authorization", "if-match", "if-none-match", "content-type"}
        headers = {name: value for name, value in request.headers.items() if name in passed}
        async with httpx.AsyncClient(trust_env=False) as client:
            body = await request.body()
            return await client.request(
                request.method, self.to + PATH, params=dict(request.query_params), headers=headers, content=body
            )


@dataclass(kw_only=True)
class Site:
    """One gateway, and its group's copy of the team's memory; people edit there with whatever they like."""

    name: str
    running: Whole
    team: Path
    prefix: str = ""
    """How the names of a test's notes begin."""
    written: dict[str, str] = field(default_factory=dict)
    """All words that were ever written here, each with the key of its note."""
    outdated: set[str] = field(default_factory=set)
    """The words that were replaced or deleted by somebody who saw them."""

    def place(self, key: str) -> Path:
        """Return where a note lies."""
        return self.team / f"{self.prefix}{key}"

    def words(self, key: str) -> str:
        """Return what a note here says; empty if there is none."""
        place = self.place(key)
        return place.read_text().rpartition("\n---\n\n")[2].strip() if place.is_file() else ""

    def write(self, key: str, words: str) -> None:
        """Write a note as with an editor, and its line in the index if there is none."""
        self.outdated |= {self.words(key)} - {""}
        self.written[words] = key
        place, index = self.place(key), self.team / INDEX
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(note(words))
        lines = index.read_text() if index.exists() else ""
        if f"]({self.prefix}{key})" not in lines:
            index.write_text(f"{lines}- [{key}]({self.prefix}{key})\n")

    async def delete(self, key: str) -> None:
        """Delete a note and its line in the index, as the bot does."""
        self.outdated |= {self.words(key)} - {""}
        await self.running.core.notes.delete(await self.running.scope(GROUP), self.place(key), expected=None)

    async def sync(self) -> list[str]:
        """Bring the copy in line, and return what came of it."""
        ran = await self.running.core.night.clock.run_now("team-sync")
        return [each.detail for each in ran if each.outcome is not Outcome.DONE]

    def notes(self) -> dict[str, str]:
        """Return the test's notes here but those that gave way to others, by key."""
        return {key: text for key, text in self.files().items() if not is_conflict_copy(key)}

    def files(self) -> dict[str, str]:
        """Return the test's notes here, by key."""
        found = [(path.relative_to(self.team).as_posix(), path) for path in sorted(self.team.rglob("*.md"))]
        mine = [(key, path) for key, path in found if key.startswith(self.prefix) and not key.startswith("MEMORY.")]
        return {key.removeprefix(self.prefix): path.read_text() for key, path in mine}

    @property
    def index(self) -> str:
        """What the index here says."""
        return (self.team / INDEX).read_text()

    def beside(self) -> list[str]:
        """Return the words of the notes that gave way and are kept beside."""
        return [self.words(key) for key in self.files() if is_conflict_copy(key)]


@dataclass(kw_only=True)
class Three:
    """Gateways A and B with the lines to C, which serves what the team shares and has a copy of its own."""

    a: Site
    b: Site
    c: Site
    lines: tuple[Line, Line]

    @property
    def sites(self) -> tuple[Site, Site, Site]:
        return self.a, self.b, self.c

    def line(self, state: State) -> None:
        """Let both lines be like this."""
        for each in self.lines:
            each.state = state

    async def begin(self, prefix: str, *keys: str) -> None:
        """Begin anew with names of their own, so that what was there before need not be cleared."""
        self.line(State.GOOD)
        for each in self.sites:
            each.prefix, each.written, each.outdated = prefix, {}, set()
        for key in keys:
            self.a.write(key, f"{key} as it was")
        for each in self.sites:
            assert await each.sync() == []
        assert [list(each.notes()) for each in self.sites] == [sorted(keys)] * 3

    async def agree(self) -> None:
        """Exchange until nothing changes any more: a few rounds, not one more."""
        for _ in range(6):
            before = [(site.files(), site.index) for site in self.sites if (site.team / INDEX).exists()]
            for site in self.sites:
                assert await site.sync() == []
            if [(site.files(), site.index) for site in self.sites] == before:
                return
        raise AssertionError("the copies do not come to rest")


async def site(name: str, running: Whole) -> Site:
    """Open the group's chat on a gateway, and return the place."""
    await running.tell(GROUP, "Hello there.")
    await running.settled()
    team = (await running.scope(GROUP)).team_dir
    assert team is not None
    return Site(name=name, running=running, team=team)


def client_of(url: str, name: str) -> str:
    """Return the settings of a gateway whose team memory lies on a server."""
    return PROJECT + f'team_server_url = "{url}"\nteam_token = "{TOKENS[name]}"\n'


def clock_at(**ahead: float) -> Clock:
    """Return a clock that goes wrong by so much."""
    clock = Clock()
    clock.forward(**ahead)
    return clock


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[Three]:
    """Run three gateways whose clocks are an hour apart; tries to reach the server follow one another at once."""
    lines = Line(), Line()
    async with AsyncExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr("memory.team.client._FIRST_DELAY", 0.0)
        c = await stack.enter_async_context(whole(folder / "c", SERVES, clock=clock_at(hours=-1)))
        sites = []
        for name, line, hours in (("a", lines[0], 0), ("b", lines[1], 1)):
            line.to = c.url
            url = await stack.enter_async_context(serving(line.app))
            gateway = whole(folder / name, client_of(url, name), clock=clock_at(hours=hours))
            sites.append(await site(name, await stack.enter_async_context(gateway)))
        yield Three(a=sites[0], b=sites[1], c=await site("c", c), lines=lines)
