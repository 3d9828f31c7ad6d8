from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import httpx
import pytest
from sqlalchemy import text
from starlette.applications import Starlette

from gateway.db.engine import Database
from memory.notes import content_hash
from memory.team.errors import PreconditionFailed
from memory.team.server import Grant, TokenTable, routes
from memory.team.store import Limits, TeamStore
from memory.team.wire import PATH
from tests.waiting import HANGS

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LIMITS = Limits(entry_bytes=2_000, body_bytes=1_000, entries=4)


@pytest.fixture
def store(database: Database) -> TeamStore:
    return TeamStore(database, clock=lambda: NOW, limits=LIMITS)


@pytest.fixture
async def client(store: TeamStore) -> AsyncIterator[httpx.AsyncClient]:
    tokens = TokenTable({"good": Grant(author="gateway-1", repos=frozenset({"a/b"}))})
    app = Starlette(routes=routes(store, tokens, LIMITS))
    headers = {"authorization": "Bearer good"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://team", headers=headers) as client:
        yield client


async def put(client: httpx.AsyncClient, body: Any, **headers: str) -> httpx.Response:
    return await client.put(PATH, params={"repo": "a/b"}, json=body, headers=headers)


async def get(client: httpx.AsyncClient, view: str = "", **headers: str) -> httpx.Response:
    params = {"repo": "a/b", **({"view": view} if view else {})}
    return await client.get(PATH, params=params, headers=headers)


async def test_a_repo_without_data_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await get(client)).status_code == 404
    assert (await get(client, "hashes")).status_code == 404
    assert (await put(client, {"entries": {"a.md": "x"}}, **{"if-match": '"stale"'})).status_code == 412
    assert (await get(client)).status_code == 404


async def test_what_is_written_is_read_with_its_hashes_and_other_keys_are_kept(
    client: httpx.AsyncClient,
) -> None:
    await put(client, {"entries": {"a.md": "one", "b.md": "null\0"}})
    await put(client, {"entries": {"a.md": "two"}})
    body = (await get(client)).json()
    assert body["content"]["entries"] == {"a.md": "two", "b.md": "null\0"}
    assert body["content"]["entryChecksums"]["a.md"] == content_hash("two")
    assert body["repo"] == "a/b"
    assert body["version"] == 2
    assert body["lastModified"].startswith("2026-05-01")


async def test_a_known_state_is_not_sent_again(client: httpx.AsyncClient) -> None:
    answer = await put(client, {"entries": {"a.md": "one"}})
    tag = answer.headers["etag"]
    assert tag == f'"{answer.json()["checksum"]}"'
    again = await get(client, **{"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    await put(client, {"entries": {"a.md": "two"}})
    assert (await get(client, **{"if-none-match": tag})).status_code == 200


async def test_hashes_alone_can_be_asked_for(client: httpx.AsyncClient) -> None:
    written = (await put(client, {"entries": {"a.md": "one"}})).json()
    body = (await get(client, "hashes")).json()
    assert body["checksum"] == written["checksum"]
    assert body["entryChecksums"] == {"a.md": content_hash("one")}
    assert "content" not in body


async def test_a_write_against_a_state_that_has_passed_changes_nothing(client: httpx.AsyncClient) -> None:
    tag = (await put(client, {"entries": {"a.md": "one"}})).headers["etag"]
    chained = await put(client, {"entries": {"a.md": "two"}}, **{"if-match": tag})
    assert chained.status_code == 200
    late = await put(client, {"entries": {"a.md": "three"}}, **{"if-match": tag})
    assert late.status_code == 412
    assert (await get(client)).json()["content"]["entries"] == {"a.md": "two"}


async def test_a_first_write_can_insist_on_being_the_first(client: httpx.AsyncClient) -> None:
    assert (await put(client, {"entries": {"a.md": "one"}}, **{"if-none-match": "*"})).status_code == 200
    assert (await put(client, {"entries": {"a.md": "two"}}, **{"if-none-match": "*"})).status_code == 412


async def test_too_many_entries_are_refused_whole_with_both_numbers(client: httpx.AsyncClient) -> None:
    await put(client, {"entries": {"a": "", "b": "", "c": ""}})
    refused = await put(client, {"entries": {"c": "new", "d": "", "e": ""}})
    assert refused.status_code == 413
    assert refused.json()["error"]["details"] == {
        "error_code": "team_memory_too_many_entries",
        "max_entries": 4,
        "received_entries": 5,
    }
    assert (await get(client)).json()["content"]["entries"]["c"] == ""


async def test_sizes_are_held_for_entries_and_bodies_but_a_big_entry_may_go_alone(
    client: httpx.AsyncClient,
) -> None:
    assert (await put(client, {"entries": {"big": "x" * 2_000}})).status_code == 200
    assert (await put(client, {"entries": {"big": "x" * 2_001}})).status_code == 413
    assert (await put(client, {"entries": {"a": "x" * 600, "b": "x" * 600}})).status_code == 413
    assert (await put(client, {"entries": {"a": "x" * 50_000}})).status_code == 413


async def test_a_deleted_entry_leaves_a_tombstone_until_it_is_written_again(
    client: httpx.AsyncClient,
) -> None:
    before = (await put(client, {"entries": {"a.md": "one", "b.md": "two"}})).json()["checksum"]
    after = (await put(client, {"entries": {}, "deleted": ["a.md", "never.md"]})).json()["checksum"]
    content = (await get(client)).json()["content"]
    assert before != after
    assert content["entries"] == {"b.md": "two"}
    assert content["deletedChecksums"] == {"a.md": content_hash("one")}
    await put(client, {"entries": {"a.md": "again"}})
    assert (await get(client)).json()["content"]["deletedChecksums"] == {}


async def test_strangers_and_other_repos_are_turned_away(client: httpx.AsyncClient) -> None:
    assert (await get(client, authorization="Bearer bad")).status_code == 401
    assert (await get(client, authorization="Basic good")).status_code == 401
    assert (await client.get(PATH, params={"repo": "a/other"})).status_code == 403
    assert (await client.put(PATH, params={"repo": "a/other"}, json={"entries": {}})).status_code == 403
    assert (await client.get(PATH)).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"entries": {"../x": ""}},
        {"entries": {"x/../a": ""}},
        {"entries": {}, "deleted": ["/a"]},
        {"entries": {"a": 1}},
        {"entries": {"fine.md": "", "a\\b": ""}},
    ],
)
async def test_a_body_of_another_form_is_refused(client: httpx.AsyncClient, body: Any) -> None:
    assert (await put(client, body)).status_code == 400
    assert (await get(client)).status_code == 404


async def test_keys_that_our_own_copies_would_not_write_are_kept_with_the_others(client: httpx.AsyncClient) -> None:
    entries = {"项目/计划（草案）.md": "1", "cafe\u0301/x.md": "2", "a/b%20c.md": "3", "ok.md": "4"}
    assert (await put(client, {"entries": entries})).status_code == 200
    assert (await get(client)).json()["content"]["entries"] == entries


async def test_reading_waits_for_no_writer(database: Database, store: TeamStore) -> None:
    await store.put("a/b", {"a": "0"}, deleted=(), author="x", if_match=None)
    with anyio.fail_after(HANGS):
        async with database.write():
            assert await store.state("a/b") is not None
            assert await store.content("a/b") is not None


async def test_of_many_writers_against_one_state_exactly_one_wins(database: Database, store: TeamStore) -> None:
    state = await store.put("a/b", {"a": "0"}, deleted=(), author="x", if_match=None)
    won: list[str] = []

    async def write(author: str) -> None:
        try:
            await store.put("a/b", {"a": author}, deleted=(), author=author, if_match=f'"{state.checksum}"')
        except PreconditionFailed:
            return
        won.append(author)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(write, f"w{number}")
    assert len(won) == 1
    content = await store.content("a/b")
    assert content is not None
    assert content.texts == {"a": won[0]}
    async with database.read() as session:
        assert (await session.scalars(text("SELECT author FROM team_entries"))).all() == won


async def test_what_is_written_and_deleted_at_once_leaves_the_state_that_is_answered(client: httpx.AsyncClient) -> None:
    await put(client, {"entries": {"a.md": "one"}})
    answer = await put(client, {"entries": {"a.md": "two", "b.md": "b"}, "deleted": ["a.md", "b.md"]})
    body = (await get(client)).json()
    assert body["checksum"] == answer.json()["checksum"]
    assert (body["content"]["entries"], list(body["content"]["deletedChecksums"])) == ({}, ["a.md"])


@pytest.mark.parametrize(("limits", "told"), [({"tombstones": 3}, 3), ({"tombstone_days": 2}, 4), ({}, 6)])
async def test_of_deletions_the_newest_are_told_for_a_while(
    database: Database, limits: dict[str, int], told: int
) -> None:
    now = [NOW]
    store = TeamStore(database, clock=lambda: now[0], limits=Limits(**limits))
    for number in range(6):
        now[0] += timedelta(hours=16)
        for entries, deleted in (({f"{number}.md": "x"}, []), ({}, [f"{number}.md"])):
            state = await store.put("a/b", entries, deleted=deleted, author="me", if_match=None)
    assert sorted(state.deleted) == [f"{number}.md" for number in range(6 - told, 6)]
    assert await store.state("a/b") == state


async def test_it_tells_since_which_version_each_text_is_as_it_is(client: httpx.AsyncClient) -> None:
    await put(client, {"entries": {"a.md": "one", "b.md": "b"}})
    await put(client, {"entries": {"a.md": "two", "b.md": "b"}})
    assert (await get(client)).json()["content"]["entryVersions"] == {"a.md": 2, "b.md": 1}
