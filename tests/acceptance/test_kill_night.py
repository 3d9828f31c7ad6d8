"""SIGKILL in the middle of what runs by the clock, pulls, pushes, dreams and distillations: nothing lost or doubled."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from adapters.serving import serving
from gateway.llm.standin.answers import Answer
from gateway.llm.standin.server import Scripted
from memory.paths import UNNAMED, folder_name
from memory.team.local import is_conflict_copy
from memory.team.wire import PATH
from tests.acceptance.soundness import unsound
from tests.acceptance.stage import TelegramPlace, World
from tests.acceptance.team_server import TeamServer
from tests.acceptance.whole import calls, note

pytestmark = pytest.mark.timeout(180)  # seconds, for a machine that is busy with other things

WITHIN = 60.0
MANY = 80
QUICK = {
    "REVERIE_SCHEDULER__CONCURRENCY": "8",
    "REVERIE_SCHEDULER__LEASE": "3",
    "REVERIE_MEMORY__LEASE_SECONDS": "3",
}
SLEEPY = QUICK | {
    "REVERIE_SCHEDULER__DREAM_MINUTES": "0.02",
    "REVERIE_SCHEDULER__QUIET_FROM": "00:00",
    "REVERIE_SCHEDULER__QUIET_UNTIL": "00:00",
    "REVERIE_SCHEDULER__DISTIL_FROM": "00:00",
    "REVERIE_MEMORY__DREAM_MIN_SITTINGS": "0",
    "REVERIE_MEMORY__DREAM_SCAN_MINUTES": "0",
}
SHARING = QUICK | {
    "REVERIE_MEMORY__TEAM_PULL_MINUTES": "0.05",
    "REVERIE_MEMORY__TEAM_WATCH": "false",
    "REVERIE_MEMORY__TEAM_TOKEN": "a-token-of-the-operator",
}
FACTS = {
    "tea": "Prefers green tea in the early morning",
    "train": "Takes the late train home on Fridays",
    "nuts": "Is allergic to peanuts and cashews",
}


@dataclass(kw_only=True)
class Stall:
    """A place where an answer waits until the gateway is dead."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    dead: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, _: object = None) -> str:
        self.reached.set()
        await self.dead.wait()
        return "too late"


@dataclass(kw_only=True)
class Repos:
    """Team servers by repo; the repo's name says where its first exchange stalls, once it is `armed`."""

    servers: dict[str, TeamServer]
    stalls: dict[str, Stall]
    armed: bool = False
    others_stall: asyncio.Event = field(default_factory=asyncio.Event)
    puts: dict[str, int] = field(default_factory=dict)

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route(PATH, self._answer, methods=["GET", "PUT"])])

    async def _answer(self, request: Request) -> Response:
        repo = request.query_params["repo"]
        stall, server = self.stalls[repo], self.servers[repo]
        if not self.armed or stall.dead.is_set():
            return await server._answer(request)
        if request.method == "PUT":
            self.puts[repo] = self.puts.get(repo, 0) + 1
            if repo == "second-put-arrives" and self.puts[repo] == 2:
                await stall()
                return Response(status_code=502)
        answer = await server._answer(request)
        if request.method == "PUT" and repo == "second-put-acted" and self.puts[repo] == 2:
            await stall()
        if request.method == "GET" and repo in {"headers", "half"}:
            return self._stalling(answer, stall, sent=0 if repo == "headers" else len(answer.body) // 2)
        if repo == "files":
            await self.others_stall.wait()
        return answer

    def _stalling(self, answer: Response, stall: Stall, *, sent: int) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield bytes(answer.body[:sent])
            await stall()

        return StreamingResponse(pieces(), media_type="application/json")


def large(number: int) -> str:
    """Return a note of which two don't fit into one body."""
    return note(f"the end of {number}").replace("\n\n", "\n\n" + "word " * 25_000 + "\n", 1)


def repos() -> Repos:
    names = ("headers", "half", "files", "second-put-arrives", "second-put-acted")
    servers = {name: TeamServer() for name in names}
    for name in ("headers", "half"):
        servers[name].entries = {f"n{number}.md": note(f"note {number}") for number in range(5)}
    servers["files"].entries = {f"n{number}.md": note(f"note {number}") for number in range(MANY)}
    for name in names:
        servers[name].entries["MEMORY.md"] = "".join(f"- [{key}]({key})\n" for key in servers[name].entries)
    return Repos(servers=servers, stalls={name: Stall() for name in names if name != "files"} | {"files": Stall()})


@dataclass(kw_only=True)
class Sleeper:
    """A person whose memory is put in order when the gateway dies."""

    place: TelegramPlace
    stall: Stall
    memory: Path = Path()
    before: dict[str, str] = field(default_factory=dict)
    found: dict[str, str] = field(default_factory=dict)
    """What the second run found."""

    def contents(self) -> dict[str, str]:
        files = (path for path in sorted(self.memory.rglob("*.md")) if path.is_file())
        return {path.relative_to(self.memory).as_posix(): path.read_text() for path in files}

    def mine(self, body: dict[str, Any]) -> bool:
        return f"Memory directory: {self.memory}\n" in str(body["messages"][0]["content"]).replace("\\n", "\n")

    def scripted(self, world: World, steps: list[Answer], *, until: int) -> None:
        """Let the first run stall after so many steps, and the second come to its end."""

        def look(_: object) -> Answer:
            self.found = self.contents()
            return steps[0]

        answers: list[Scripted] = [*steps[:until], self.stall, look, *steps[1:], "Done."]
        for answer in answers:
            world.model.script(answer, when=self.mine)


def merges() -> list[Answer]:
    """Merge all notes into one: a file, its index line, and the old ones go."""
    look, write = (
        calls(("read", {"file_path": "MEMORY.md"})),
        calls(("write", whole_note("ways", "; ".join(FACTS.values())))),
    )
    index = calls(("write", {"file_path": "MEMORY.md", "content": "- [ways](ways.md)\n"}))
    gone = calls(*(("delete", {"file_path": f"{name}.md"}) for name in FACTS))
    return [look, write, gone, look, index]


def sorts() -> list[Answer]:
    """Sort a day log into two notes."""
    log = ("read", {"file_path": str(day_log(Path()))})
    look = calls(("read", {"file_path": "MEMORY.md"}))
    index = {"file_path": "MEMORY.md", "content": "- [bees](bees.md)\n- [honey](honey.md)\n"}
    bees, honey = whole_note("bees", "Keeps three hives of bees"), whole_note("honey", "Sells honey in June")
    return [calls(log, ("write", bees)), calls(("write", honey), ("write", index)), look]


def whole_note(name: str, words: str) -> dict[str, str]:
    return {"file_path": f"{name}.md", "content": note(words)}


def settings(groups: dict[str, TelegramPlace], loggers: list[Sleeper]) -> str:
    bound = (f'[projects.{repo}]\nchats = ["telegram:{place.chat.id}"]\n' for repo, place in groups.items())
    logs = (f'[chats."telegram:{each.place.chat.id}"]\nmode = "log"\n' for each in loggers)
    return "".join([*bound, *logs])


def memory_of(world: World, place: TelegramPlace) -> Path:
    """Return a chat's memory directory; that of a private chat in log mode is made, as no prompt has made it."""
    private = world.home / "homes" / folder_name(f"person:telegram:{place.chat.id}") / "projects" / UNNAMED / "memory"
    found = [*world.home.glob(f"homes/*telegram-{str(place.chat.id).removeprefix('-')}-*/projects/*/memory"), private]
    found[0].mkdir(parents=True, exist_ok=True)
    return found[0]


def outcomes(world: World, job: str) -> list[tuple[str, int]]:
    with sqlite3.connect(f"file:{world.home}/reverie.db?mode=ro", uri=True) as database:
        query = "SELECT outcome, attempts FROM job_runs WHERE job = ? ORDER BY scope, slot"
        return [(outcome or "", attempts) for outcome, attempts in database.execute(query, (job,))]


def seed_dream(sleeper: Sleeper) -> None:
    for name, words in FACTS.items():
        (sleeper.memory / f"{name}.md").write_text(note(words))
    (sleeper.memory / "MEMORY.md").write_text("".join(f"- [{name}]({name}.md)\n" for name in FACTS))


def day_log(memory: Path) -> Path:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    return memory / f"logs/{yesterday:%Y/%m/%Y-%m-%d}.md"


def seed_log(sleeper: Sleeper) -> None:
    log = day_log(sleeper.memory)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("- 12:00 Ann: I keep three hives of bees.\n- 12:05 Ann: I sell honey in June.\n")


async def introduced(world: World, places: list[TelegramPlace], seeds: Callable[[], None]) -> None:
    """Let everybody say something, and put notes in place while the gateway is down."""
    world.gateway.environ["REVERIE_SCHEDULER__START_DELAY"] = "3600"
    await world.gateway.start()
    for place, marker in [(place, world.ask(place)) for place in places]:
        await world.answered(place, marker)
    assert await world.gateway.stop() == 0
    seeds()
    world.gateway.environ["REVERIE_SCHEDULER__START_DELAY"] = "0"


async def test_dreams_and_distillations_that_are_killed_are_put_back_and_done_again(tmp_path: Path) -> None:
    """Each killed after its first write, and after its last."""
    world = World(tmp_path / "home", **SLEEPY)
    world.home.mkdir()
    sleepers = [Sleeper(place=world.private(), stall=Stall()) for _ in range(4)]
    dreamers, loggers = sleepers[:2], sleepers[2:]
    (world.home / "reverie.toml").write_text(settings({}, loggers))

    def seeds() -> None:
        for sleeper in sleepers:
            sleeper.memory = memory_of(world, sleeper.place)
            (seed_dream if sleeper in dreamers else seed_log)(sleeper)
            sleeper.before = sleeper.contents()

    async with world.served():
        await introduced(world, [each.place for each in sleepers], seeds)
        for sleeper, steps, until in zip(sleepers, (merges(), merges(), sorts(), sorts()), (2, 5, 1, 3), strict=True):
            sleeper.scripted(world, steps, until=until)
        await world.gateway.start()
        await world.wait(lambda: all(each.stall.reached.is_set() for each in sleepers), "not begun", within=WITHIN)
        world.gateway.kill()
        await world.gateway.killed()
        assert all(each.contents() != each.before for each in sleepers), "each has written something"
        for each in sleepers:
            each.stall.dead.set()
        await world.gateway.start()

        def done() -> bool:
            return [outcomes(world, job).count(("done", 2)) for job in ("dream", "distil")] == [2, 2]

        await world.wait(done, "not all done again", within=WITHIN)
        for each in sleepers:
            await world.wait(lambda each=each: told(each), f"not told: {each.place.heard()}")  # type: ignore[misc]
        assert await world.gateway.stop() == 0
    assert [each.found for each in sleepers] == [each.before for each in sleepers]
    for each in sleepers:
        assert unsound(each.memory) == []
        assert sum("was cut off" in text for text in each.place.heard()) == 1
    for each in dreamers:
        assert set(each.contents()) == {"MEMORY.md", "ways.md"}
        assert all(words in each.contents()["ways.md"] for words in FACTS.values())
    for each in loggers:
        log = next(name for name in each.before if name.startswith("logs/"))
        assert each.contents()[log] == each.before[log]
        assert (each.memory / log).stat().st_mode & 0o777 == 0o400
        assert {"bees.md", "honey.md"} <= set(each.contents())


def told(sleeper: Sleeper) -> bool:
    said = sleeper.place.heard()
    return any("Improved" in text or "Sorted 1 day log" in text for text in said)


GIVING, TAKING = ("second-put-arrives", "second-put-acted"), ("headers", "half", "files")


@dataclass(kw_only=True)
class Teams:
    """Groups, each of a project of its own, and the servers of their teams' memory."""

    team: Repos
    groups: dict[str, TelegramPlace]
    copies: dict[str, Path] = field(default_factory=dict)

    def seed(self, world: World, entries: dict[str, dict[str, str]]) -> None:
        """Put what is to be pulled on the servers, and what is to be pushed into the copies."""
        self.copies = {repo: memory_of(world, place) / "team" for repo, place in self.groups.items()}
        for repo in GIVING:
            for number in range(3):
                (self.copies[repo] / f"n{number}.md").write_text(large(number))
        for repo in TAKING:
            (self.copies[repo] / "mine.md").write_text(note(f"written in {repo}"))
            self.team.servers[repo].entries.update(entries[repo])
        self.team.armed = True

    async def kill(self, world: World) -> None:
        """Kill the gateway when every exchange stands where it is to be killed; then let them go on without it."""
        stalls = [stall for repo, stall in self.team.stalls.items() if repo != "files"]
        await world.wait(lambda: all(each.reached.is_set() for each in stalls), "no stall", within=WITHIN)
        self.team.others_stall.set()
        await world.wait(lambda: self.pulled() > 5, "no file", within=WITHIN)
        world.gateway.kill()
        await world.gateway.killed()
        assert self.pulled() < MANY
        assert [fault for each in self.copies.values() for fault in unsound(each) if "whole" in fault] == []
        for stall in self.team.stalls.values():
            stall.dead.set()

    def pulled(self) -> int:
        return len(list(self.copies["files"].glob("n*.md")))

    def agree(self) -> bool:
        return all(same(self.copies[repo], server) for repo, server in self.team.servers.items())


async def test_pulls_and_pushes_that_are_killed_leave_whole_files_and_are_made_up_for(tmp_path: Path) -> None:
    """Killed after the head of an answer, after half of it, between two files, and at the second of two batches."""
    team = repos()
    entries = {repo: dict(server.entries) for repo, server in team.servers.items()}
    for repo in TAKING:
        team.servers[repo].entries.clear()  # until the chats are known: else it is pulled as they begin
    async with serving(team.app) as url:
        world = World(tmp_path / "home", **SHARING, REVERIE_MEMORY__TEAM_SERVER_URL=url)
        world.home.mkdir()
        teams = Teams(team=team, groups={repo: world.group() for repo in team.servers})
        (world.home / "reverie.toml").write_text(settings(teams.groups, []))
        async with world.served():
            await introduced(world, list(teams.groups.values()), lambda: teams.seed(world, entries))
            await world.gateway.start()
            await teams.kill(world)
            await world.gateway.start()
            await world.wait(teams.agree, "the copies do not come in line", within=WITHIN)
            assert await world.gateway.stop() == 0
    for repo, copy in teams.copies.items():
        assert unsound(copy) == []
        assert [path.name for path in copy.rglob("*.md") if is_conflict_copy(path.name)] == []
        assert entries[repo].items() <= team.servers[repo].entries.items()
    for repo in GIVING:
        assert [team.servers[repo].entries[f"n{number}.md"] for number in range(3)] == list(map(large, range(3)))
    for repo in TAKING:
        assert team.servers[repo].entries["mine.md"] == note(f"written in {repo}")


def same(copy: Path, server: TeamServer) -> bool:
    found = {path.relative_to(copy).as_posix(): path.read_text() for path in copy.rglob("*.md")}
    return found == server.entries
