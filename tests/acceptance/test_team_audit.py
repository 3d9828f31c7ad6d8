"""Whoever runs the server of a team's memory sees who has changed it, and who was turned away."""

from pathlib import Path
from typing import Any

import httpx

from memory.team.wire import PATH
from tests.acceptance.answers import answer
from tests.acceptance.team_server import project
from tests.acceptance.whole import ANN, BOB, Speaker, Whole, whole

IN_G = Speaker(user="42", chat="-100")
SECRET = "ghp_" + "x7" * 18
OWNER = 'owners = ["telegram:42"]\n'
GARDEN = """
[projects.garden]
chats = ["telegram:-100", "telegram:43"]
members = ["telegram:43"]
[memory]
team_watch = false
[memory.team_grants.north]
token = "the-token-of-the-north"
repos = ["garden"]
"""


async def ask(running: Whole, method: str, token: str, body: Any = None, repo: str = "garden", **headers: str) -> int:
    async with httpx.AsyncClient(base_url=running.url) as http:
        sent = {"authorization": f"Bearer {token}", **headers}
        return (await http.request(method, PATH, params={"repo": repo}, headers=sent, json=body)).status_code


async def test_an_owner_is_shown_who_has_changed_what_and_who_was_turned_away(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", OWNER + GARDEN) as running:
        await running.tell(IN_G, "Hello there")
        await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        await running.core.night.sync.sync(await running.scope(IN_G))
        assert await ask(running, "PUT", "the-token-of-the-north", {"entries": {"bees.md": "three hives"}}) == 200
        assert await ask(running, "GET", "a-token-of-nobody") == 401
        told = await answer(running, IN_G, "/team audit")
    newest, north, own = told.splitlines()
    assert newest.endswith("somebody without a known token: GET refused (401)")
    assert north.endswith("`north`: wrote `bees.md`")
    assert own.endswith("`gateway`: wrote `MEMORY.md`, `beds.md`")
    assert "three hives" not in told


async def test_nobody_else_sees_it_and_no_other_project_of_the_server_is_shown(tmp_path: Path) -> None:
    async with whole(
        tmp_path / "home", OWNER + GARDEN + '\n[projects.tea]\nchats = ["telegram:42"]\nmembers = ["telegram:42"]\n'
    ) as running:
        await ask(running, "PUT", "the-token-of-the-north", {"entries": {"bees.md": "three hives"}})
        await running.tell(BOB, "Hello there")
        assert "Only an owner" in await answer(running, BOB, "/team audit")
        await running.tell(ANN, "Hello there")
        assert "bees" not in await answer(running, ANN, "/team audit")


async def test_a_gateway_that_keeps_no_team_memory_says_where_the_record_is(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", OWNER + project("http://127.0.0.1:9") + "team_watch = false\n") as running:
        assert "on record with the server" in await answer(running, IN_G, "/team audit")


async def test_what_a_server_refuses_and_the_secrets_that_it_is_sent_are_counted(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", OWNER + GARDEN) as running:
        north = "the-token-of-the-north"
        await ask(running, "GET", "a-token-of-nobody")
        await ask(running, "GET", north, repo="other")
        await ask(running, "PUT", north, {"entries": {"s.md": SECRET}})
        await ask(running, "PUT", north, {"entries": {"s.md": "x"}}, **{"if-match": '"another"'})
        figures = running.core.metrics.exposition("")[0].decode()
    for method, outcome in (("GET", "stranger"), ("GET", "forbidden"), ("PUT", "ok"), ("PUT", "conflict")):
        assert f'reverie_team_requests_total{{method="{method}",outcome="{outcome}"}} 1.0' in figures
    assert 'reverie_team_secrets_received_total{rule="github-pat"} 1.0' in figures
