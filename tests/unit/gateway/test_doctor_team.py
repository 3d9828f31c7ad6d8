import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.applications import Starlette

from adapters.serving import serving
from gateway.checks.finding import Finding, Limits, Status
from gateway.checks.team import check_team
from gateway.db.engine import connect, migrate
from gateway.settings import load
from memory.team.server import Grant, TokenTable, routes
from memory.team.store import Limits as StoreLimits
from memory.team.store import TeamStore

TOKEN = "sixteen-characters"
PROJECTS = json.dumps({"garden": {"chats": ["telegram:-1"]}})


async def found(**environ: str) -> Finding:
    settings = load({"REVERIE_PROJECTS": PROJECTS} | environ, read_files=False)
    (only,) = await check_team(settings, Limits(answer_within=5))
    return only


async def asked(url: str, token: str = TOKEN) -> Finding:
    return await found(REVERIE_MEMORY__TEAM_SERVER_URL=url, REVERIE_MEMORY__TEAM_TOKEN=token)


@asynccontextmanager
async def team_server(tmp_path: Path, *repos: str) -> AsyncIterator[str]:
    database = connect(f"sqlite+aiosqlite:///{tmp_path / 'team.db'}")
    await migrate(database)
    limits = StoreLimits()
    grants = TokenTable({TOKEN: Grant(author="other", repos=frozenset(repos))})
    store = TeamStore(database, clock=lambda: datetime.now(UTC), limits=limits)
    async with serving(Starlette(routes=routes(store, grants, limits))) as url:
        yield url
    await database.engine.dispose()


async def test_a_team_memory_of_our_own_is_fine_and_one_switched_off_says_how_to_turn_it_on() -> None:
    own = await found()
    assert (own.status, "garden" in own.finding) == (Status.OK, True)
    nobody = await found(REVERIE_PROJECTS="{}")
    assert (nobody.status, "[projects.NAME]" in nobody.cure) == (Status.OFF, True)
    off = await found(REVERIE_MEMORY__TEAM_MEMORY_ENABLED="false")
    assert (off.status, "team_memory_enabled" in off.cure) == (Status.OFF, True)


async def test_a_token_without_a_server_is_a_warning() -> None:
    settings = load({"REVERIE_PROJECTS": PROJECTS, "REVERIE_MEMORY__TEAM_TOKEN": TOKEN}, read_files=False)
    own, only = await check_team(settings, Limits(answer_within=5))
    assert (own.status, only.status) == (Status.OK, Status.WARN)
    assert only.finding == "team_token is set and does nothing without team_server_url"
    assert "team_server_url" in only.cure


async def test_a_repo_that_is_granted_and_is_no_projects_is_a_warning_that_names_the_likely_one() -> None:
    grants = json.dumps({"other": {"token": TOKEN, "repos": ["garden", "gardn"]}})
    settings = load({"REVERIE_PROJECTS": PROJECTS, "REVERIE_MEMORY__TEAM_GRANTS": grants}, read_files=False)
    own, only = await check_team(settings, Limits(answer_within=5))
    assert (own.status, only.status) == (Status.OK, Status.WARN)
    assert "memory.team_grants.other opens 'gardn'" in only.finding
    assert "did you mean garden?" in only.finding


async def test_a_server_that_takes_the_token_is_fine(tmp_path: Path) -> None:
    async with team_server(tmp_path, "garden") as url:
        fine = await asked(url)
    assert (fine.status, "garden" in fine.finding) == (Status.OK, True)


@pytest.mark.parametrize(
    ("repos", "token", "cure"),
    [(["garden"], "another-sixteen-characters", "team_token"), (["tea"], TOKEN, "add 'garden' to repos"),
     (["garden"], "", "team_token")],
)  # fmt: skip
async def test_a_refused_token_and_a_repo_that_is_not_opened_are_told_apart(
    tmp_path: Path, repos: list[str], token: str, cure: str
) -> None:
    async with team_server(tmp_path, *repos) as url:
        refused = await asked(url, token)
    assert (refused.status, cure in refused.cure) == (Status.FAIL, True), refused
    assert not token or token not in refused.finding + refused.cure


async def test_a_server_that_is_away_or_keeps_no_team_memory_is_a_fault_of_its_address() -> None:
    async with serving(Starlette()) as elsewhere:
        other = await asked(elsewhere)
    assert (other.status, "keeps no team memory" in other.finding) == (Status.FAIL, True)
    away = await asked(elsewhere)
    assert (away.status, "can't be reached" in away.finding, "team_server_url" in away.cure) == (
        Status.FAIL,
        True,
        True,
    )


async def test_a_server_that_is_away_is_one_line_however_many_projects_there_are() -> None:
    gone = {"REVERIE_MEMORY__TEAM_SERVER_URL": "http://127.0.0.1:9", "REVERIE_MEMORY__TEAM_TOKEN": TOKEN}
    away = await found(REVERIE_PROJECTS=json.dumps({"garden": {}, "tea": {}}), **gone)
    assert away.status is Status.FAIL
