"""Who has changed a team's memory is on record with its server, and so is who was turned away."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from structlog.testing import capture_logs

from gateway.db.engine import Database
from memory.doubles import RecordingMeter
from memory.team.audit import Audit, Entry
from memory.team.server import Grant, TokenTable, routes
from memory.team.store import Limits, TeamStore
from memory.team.wire import PATH

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECRET = "ghp_" + "a1B2" * 9
LIMITS = Limits(entries=3)


class Server:
    """A server over HTTP, its clock and its figures."""

    def __init__(self, database: Database) -> None:
        self.now = START
        self.meter = RecordingMeter()
        self.store = TeamStore(database, clock=lambda: self.now, limits=LIMITS)
        grants = {name: Grant(author=name, repos=frozenset({"a/b"})) for name in ("north", "south")}
        self.app = Starlette(routes=routes(self.store, TokenTable(grants), LIMITS, meter=self.meter))
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(self.app, client=("192.0.2.7", 1)))

    async def asks(self, method: str, token: str, repo: str = "a/b", body: Any = None, **headers: str) -> int:
        sent = {"authorization": f"Bearer {token}", **headers}
        url = f"http://team{PATH}"
        return (await self.http.request(method, url, params={"repo": repo}, headers=sent, json=body)).status_code

    async def told(self, repo: str = "a/b") -> list[tuple[str, str, int, list[str], list[str]]]:
        found = await self.store.audit.newest(repo, limit=50)
        return [(each.who, each.method, each.status, list(each.written), list(each.deleted)) for each in found][::-1]


@pytest.fixture
async def server(database: Database) -> AsyncIterator[Server]:
    server = Server(database)
    yield server
    await server.http.aclose()


async def test_a_write_is_on_record_with_whose_it_was_and_the_keys_that_it_has_changed(server: Server) -> None:
    await server.asks("PUT", "north", body={"entries": {"a.md": "one", "b.md": "two"}})
    body = {"entries": {"a.md": "one", "b.md": "three"}, "deleted": ["a.md", "never.md"]}
    await server.asks("PUT", "south", body=body)
    await server.asks("GET", "south")
    assert await server.told() == [
        ("north", "PUT", 200, ["a.md", "b.md"], []),
        ("south", "PUT", 200, ["b.md"], ["a.md"]),
    ]
    (newest, _) = await server.store.audit.newest("a/b", limit=2)
    assert (newest.at, newest.peer) == (START, "192.0.2.7")
    assert "three" not in str(newest)


async def test_who_is_turned_away_is_on_record_with_the_status_and_nothing_of_what_was_sent(server: Server) -> None:
    await server.asks("PUT", "north", body={"entries": {"a.md": "one"}})
    late = {"if-match": '"another"'}
    assert await server.asks("PUT", "south", body={"entries": {"b.md": "text"}}, **late) == 412
    assert await server.asks("PUT", "south", body={"entries": {"../x": "text"}}) == 400
    assert await server.asks("PUT", "south", body={"entries": dict.fromkeys("abcd", "text")}) == 413
    assert await server.asks("GET", "stranger") == 401
    assert await server.asks("PUT", "south", "c/d", body={"entries": {}}) == 403
    assert [each[:3] for each in await server.told()][1:] == [
        *(("south", "PUT", status) for status in (412, 400, 413)),
        ("", "GET", 401),
    ]
    assert await server.told("c/d") == [("south", "PUT", 403, [], [])]


async def test_a_write_that_was_refused_leaves_no_record_of_a_write(server: Server) -> None:
    await server.asks("PUT", "north", body={"entries": dict.fromkeys("abcd", "text")})
    assert await server.told() == [("north", "PUT", 413, [], [])]


async def test_the_same_refusal_again_and_again_is_one_row_in_a_minute(server: Server) -> None:
    for number in range(20):
        await server.asks("GET", "stranger", f"r/{number}")
        await server.asks("PUT", "south", "c/d", body={"entries": {}})
    assert len(await server.told("r/0")) == len(await server.told("c/d")) == 1
    assert await server.told("r/19") == []
    server.now += timedelta(minutes=1)
    await server.asks("GET", "stranger", "r/20")
    assert len(await server.told("r/20")) == 1


async def test_a_refusal_is_logged_with_who_asked_for_what_and_never_the_token(server: Server) -> None:
    with capture_logs() as logged:
        await server.asks("PUT", "south", "c/d", body={"entries": {}})
        await server.asks("GET", "a-token-of-nobody")
    facts = [{name: each[name] for name in ("reason", "method", "repo", "author", "peer")} for each in logged]
    assert facts == [
        {"reason": "Forbidden", "method": "PUT", "repo": "c/d", "author": "south", "peer": "192.0.2.7"},
        {"reason": "Unauthenticated", "method": "GET", "repo": "a/b", "author": "", "peer": "192.0.2.7"},
    ]
    assert "a-token-of-nobody" not in str(logged)


async def test_every_answer_is_counted_by_its_status_and_a_secret_by_its_rule(server: Server) -> None:
    await server.asks("GET", "north")
    await server.asks("GET", "stranger")
    await server.asks("PUT", "north", body={"entries": {"a.md": f"token {SECRET}"}})
    await server.asks("PUT", "north", body={"entries": {f"{SECRET}/a.md": "text"}})
    counted = [(what, given) for what, given, _ in server.meter.counted]
    assert counted == [
        ("team_requests", {"method": "GET", "outcome": "empty"}),
        ("team_requests", {"method": "GET", "outcome": "stranger"}),
        *2 * [("team_secrets_received", {"rule": "github-pat"}), ("team_requests", {"method": "PUT", "outcome": "ok"})],
    ]


async def test_a_key_that_holds_a_secret_is_on_record_without_it(server: Server) -> None:
    await server.asks("PUT", "north", body={"entries": {f"{SECRET}.md": "x"}})
    assert SECRET not in str(await server.told())


@pytest.mark.parametrize(("days", "rows", "left"), [(90, 2, [4, 5]), (2, 99, [3, 4, 5])])
async def test_the_record_is_bounded_in_time_and_in_number(
    database: Database, days: int, rows: int, left: list[int]
) -> None:
    now = [START]
    audit = Audit(database, clock=lambda: now[0], keep_days=days, keep_rows=rows)
    for number in range(6):
        now[0] = START + timedelta(days=number)
        entry = Entry(who="north", peer="", repo="a/b", method="PUT", status=200, written=[str(number)])
        async with database.write() as session:
            await audit.write(session, entry)
    assert [int(each.written[0]) for each in await audit.newest("a/b", limit=9)][::-1] == left
