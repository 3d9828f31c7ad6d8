"""What of a team's memory does not travel, and why, is told as long as it is so, whoever has noticed it first."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from adapters.serving import serving
from gateway.checks.finding import Limits, Status
from gateway.checks.team import check_team
from tests.acceptance.answers import answer
from tests.acceptance.team_server import TeamServer, project
from tests.acceptance.whole import ANN, Speaker, Whole, whole

IN_G = Speaker(user="42", chat="-100")
SECRET = "ghp_" + "x7" * 18
REFUSED = {"s.md": f"token {SECRET}", "../x.md": "y", "项目/计划（草案）.md": "z", "notes/cafe\u0301.md": "z"}
OWNER = 'owners = ["telegram:42"]\n'


@dataclass(kw_only=True)
class Spy(TeamServer):
    """Keeps the tokens that it is shown; refuses every PUT with a 403 if told so."""

    shown: list[str] = field(default_factory=list)
    forbids: bool = False

    async def _given(self, request: Request) -> Response:
        self.shown.append(request.headers.get("authorization", ""))
        if self.forbids and request.method == "PUT":
            return Response(status_code=403)
        return await super()._given(request)


@pytest.fixture
async def spy() -> AsyncIterator[tuple[Spy, str]]:
    spy = Spy(entries={"ok.md": "fine"})
    async with serving(spy.app) as url:
        yield spy, url


async def details(running: Whole) -> str:
    """Exchange, and return what the run and `/jobs` say of it."""
    runs = await running.core.night.clock.run_now("team-sync")
    return "\n".join([*(run.detail for run in runs), await answer(running, ANN, "/jobs team-sync")])


async def test_what_is_refused_of_the_servers_is_told_after_every_exchange_and_after_a_restart(
    tmp_path: Path, spy: tuple[Spy, str]
) -> None:
    settings = OWNER + project(spy[1]) + "team_watch = false\n"
    spy[0].entries |= REFUSED
    for _ in range(2):
        async with whole(tmp_path / "home", settings) as running:
            await running.tell(IN_G, "/new")
            await running.tell(IN_G, "Hello there")  # the session's own pull sees it first
            first = await answer(running, IN_G, "/team")
            jobs = await details(running)
            told = await answer(running, IN_G, "/team")
        assert all(f"`{key}` stayed: " in first and f"`{key}` stayed: " in told for key in REFUSED)
        assert "it holds a secret: github-pat" in told
        assert "4 skipped" in jobs
        assert SECRET not in first + told + jobs


async def test_what_is_refused_no_more_is_told_no_more_and_stays_on_the_server_meanwhile(
    tmp_path: Path, spy: tuple[Spy, str]
) -> None:
    spy[0].entries |= REFUSED
    async with whole(tmp_path / "home", OWNER + project(spy[1]) + "team_watch = false\n") as running:
        await running.tell(IN_G, "Hello there")
        await details(running)
        assert spy[0].entries == {"ok.md": "fine", **REFUSED}
        spy[0].entries = {"ok.md": "fine"}
        assert "skipped" not in (await details(running)).splitlines()[0]
        assert "stayed" not in await answer(running, IN_G, "/team")


async def test_secrets_that_a_server_gives_out_are_counted_by_their_rule_once(
    tmp_path: Path, spy: tuple[Spy, str]
) -> None:
    async with whole(tmp_path / "home", OWNER + project(spy[1]) + "team_watch = false\n") as running:
        await running.tell(IN_G, "Hello there")
        spy[0].entries |= REFUSED
        for _ in range(2):
            await details(running)
        figures = running.core.metrics.exposition("")[0].decode()
    assert 'reverie_team_secrets_skipped_total{rule="github-pat"} 1.0' in figures


async def test_a_run_of_the_job_says_that_pushes_rest_and_why(tmp_path: Path, spy: tuple[Spy, str]) -> None:
    spy[0].forbids = True
    async with whole(tmp_path / "home", OWNER + project(spy[1]) + "team_watch = false\n") as running:
        await running.tell(IN_G, "Hello there")
        await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        assert "403" in await details(running)
        again = await details(running)
        assert "nothing is pushed for now: the team server answered 403" in again.splitlines()[0]
        assert again.count("nothing is pushed for now") == 2, "and so do /jobs"
        assert (await answer(running, IN_G, "/team")).lower().count("nothing is pushed for now") == 1


async def test_without_a_token_another_server_is_asked_nothing_and_everybody_says_so(
    tmp_path: Path, spy: tuple[Spy, str]
) -> None:
    settings = project(spy[1]).replace('team_token = "a-token-of-the-operator"\n', "")
    async with whole(tmp_path / "home", OWNER + settings + "team_watch = false\n") as running:
        await running.tell(IN_G, "Hello there")
        await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        told = await details(running)
        assert told.count("no token") == 2
        assert "**Nothing is pushed for now**: no token" in await answer(running, IN_G, "/team")
        (doctor,) = await check_team(running.core.settings, Limits(answer_within=5))
    assert (doctor.status, "no token" in doctor.finding, "team_token" in doctor.cure) == (Status.FAIL, True, True)
    assert spy[0].shown == []
