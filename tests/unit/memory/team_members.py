"""Members of one team, each with a disk and a gateway of its own, over one server that can be made to misbehave."""

import json
from collections.abc import AsyncIterator, Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from gateway.db.engine import connect
from memory.doubles import LocalLeases, RecordingMeter
from memory.notes import Notes
from memory.scope import Mode, Scope
from memory.settings import MemorySettings
from memory.team.client import TeamSync
from memory.team.mark import MARK
from memory.team.server import Grant, TokenTable, routes
from memory.team.state import LocalSyncStates
from memory.team.store import Limits, TeamStore


class Wire(httpx.AsyncBaseTransport):
    """Passes requests on, keeps them, and puts scripted answers in the place of the server's."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner
        self.seen: list[httpx.Request] = []
        self.scripted: list[Callable[[httpx.Request], httpx.Response | None]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.seen.append(request)
        for script in self.scripted:
            answer = script(request)
            if answer is not None:
                return answer
        return await self.inner.handle_async_request(request)

    def methods(self) -> list[str]:
        """Name each request by its method and whether only hashes were asked for."""
        return [r.method + (" hashes" if "view=hashes" in str(r.url) else "") for r in self.seen]

    def bodies(self) -> list[dict[str, Any]]:
        """Return what was put."""
        return [json.loads(r.content) for r in self.seen if r.method == "PUT"]


def answers(method: str, status: int, *, times: int = 99, body: Any = None) -> Callable[..., httpx.Response | None]:
    left = [times]

    def script(request: httpx.Request) -> httpx.Response | None:
        if request.method != method or not left[0]:
            return None
        left[0] -= 1
        return httpx.Response(status, json=body)

    return script


class Member:
    """One gateway with its own disk, over the same server."""

    def __init__(self, name: str, root: Path, inner: httpx.AsyncBaseTransport) -> None:
        memory = root / name / "memory"
        self.team = memory / "team"
        self.team.mkdir(parents=True)
        self.scope = Scope(
            principal=name,
            project="tea",
            memory_dir=memory,
            team_dir=self.team,
            mode=Mode.AUTO,
            shared=True,
            enabled=True,
            timezone="UTC",
            readable=(memory,),
            writable=(memory,),
            repo="a/b",
        )
        self.now = datetime(2026, 5, 1, tzinfo=UTC)
        self.token = "good"
        self.url = "http://team/"
        self.slept: list[float] = []
        self.wire = Wire(inner)
        self.states = LocalSyncStates()
        self.meter = RecordingMeter()
        self.forgotten: frozenset[str] = frozenset()
        self.told: list[tuple[str, ...]] = []
        self.sync = self.restarted()

    def restarted(self, **settings: Any) -> TeamSync:
        self.leases, chosen = LocalLeases(), MemorySettings(**settings)
        return TeamSync(
            base_url=self.url,
            token=self._token,
            http=httpx.AsyncClient(transport=self.wire),
            notes=Notes(leases=self.leases, settings=chosen),
            states=self.states,
            leases=self.leases,
            settings=chosen,
            clock=lambda: self.now,
            sleep=self._sleep,
            jitter=lambda: 1.0,
            meter=self.meter,
            forgotten=self._forgotten,
            removed=self._removed,
        )

    async def _token(self) -> str:
        return self.token

    async def _forgotten(self, scope: Scope) -> frozenset[str]:
        return self.forgotten

    async def _removed(self, scope: Scope, notes: Collection[str]) -> None:
        assert not self.leases.held(f"team-sync:{scope.memory_dir}")
        self.told.append(tuple(notes))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def write(self, key: str, text: str) -> None:
        (self.team / key).parent.mkdir(parents=True, exist_ok=True)
        (self.team / key).write_text(text)

    def files(self) -> dict[str, str]:
        """Return what lies in T, without its mark."""
        found = (path for path in self.team.rglob("*") if path.is_file() and path.name != MARK)
        return {path.relative_to(self.team).as_posix(): path.read_text() for path in found}


@pytest.fixture
async def team_server(sqlite_url: str) -> AsyncIterator[httpx.AsyncBaseTransport]:
    database = connect(sqlite_url)
    limits = Limits(entries=6)
    store = TeamStore(database, clock=lambda: datetime(2026, 5, 1, tzinfo=UTC), limits=limits)
    grants = TokenTable({"good": Grant(author="g", repos=frozenset({"a/b"}))})
    yield httpx.ASGITransport(Starlette(routes=routes(store, grants, limits)))
    await database.engine.dispose()


@pytest.fixture
def ann(tmp_path: Path, team_server: httpx.AsyncBaseTransport) -> Member:
    return Member("ann", tmp_path, team_server)


@pytest.fixture
def bob(tmp_path: Path, team_server: httpx.AsyncBaseTransport) -> Member:
    return Member("bob", tmp_path, team_server)


async def sync(*members: Member) -> None:
    for member in members:
        report = await member.sync.sync(member.scope)
        assert report.failure is None
