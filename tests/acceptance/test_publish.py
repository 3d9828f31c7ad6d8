"""Check 19, last sentence: from a private chat nothing reaches a team before its person has said yes."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adapters.serving import serving
from gateway.db.team_models import StagedRow
from gateway.llm.standin.answers import Failure
from memory.team.wire import PATH
from tests.acceptance.answers import answer
from tests.acceptance.extraction_runs import results
from tests.acceptance.presses import offered, press
from tests.acceptance.team_server import TeamServer
from tests.acceptance.whole import ANN, BOB, Clock, Speaker, Whole, calls, note, until, whole

CANARY = "zebrafish"
GROUP = Speaker(user="43", chat="-100", name="Bob")
INDEX = "- [Fish](fish.md) — what swims in the pond\n"
WRITE = calls(
    ("write", {"file_path": "team/fish.md", "content": note(f"the {CANARY} eats at noon")}),
    ("write", {"file_path": "team/MEMORY.md", "content": INDEX}),
)
FISH = "---\nname: Fish\ndescription: its habits\ntype: project\n---\n\nIt lives in the pond.\n\n\n\nIt is shy.\n"
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
async def server() -> AsyncIterator[tuple[TeamServer, str]]:
    server = TeamServer()
    async with serving(server.app) as url:
        yield server, url


def garden(url: str, more: str = "") -> str:
    return f"""
[projects.garden]
chats = ["telegram:-100", "telegram:42", "telegram:43"]
members = ["telegram:42", "telegram:43"]
[memory]
team_server_url = "{url}"
team_token = "a-token-of-the-operator"
team_debounce = 0.02
{more}"""


async def team_of(running: Whole, who: Speaker) -> Path:
    team = (await running.scope(who)).team_dir
    assert team is not None
    return team


def questions(running: Whole) -> list[str]:
    return [call.part["text"] for call in running.adapter.calls if "To share with the team" in call.part["text"]]


async def shared_by_ann(running: Whole) -> None:
    """Have Ann ask for something to be shared, up to the question."""
    running.then(WRITE, "It waits for your word.")
    await running.tell(ANN, "Share this with the team: what I said of the fish")
    await running.settled()


def seen_by_others(running: Whole, team: TeamServer) -> list[str]:
    """Return where Ann's words are that are not hers alone."""
    others = [
        str(call.address) for call in running.adapter.calls if CANARY in str(call.part) and call.address.chat != "42"
    ]
    requests = [
        request.path
        for request in running.model.requests
        if CANARY.encode() in request.raw and b"what I said of the fish" not in request.raw
    ]
    return others + requests + [key for key, text in team.entries.items() if CANARY in text]


async def test_check_19_the_team_file_appears_in_t_and_on_the_server_only_after_the_confirmation(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await shared_by_ann(running)
        (asked,) = questions(running)
        assert f"+the {CANARY} eats at noon" in asked
        assert "+author:" in asked
        await running.core.night.clock.run_now("team-sync")
        place = await team_of(running, ANN)
        assert (list(place.glob("**/*.md")), team.entries) == ([], {})
        assert "The server has it" in await running.tell(ANN, "/team yes 1")
        assert team.entries["fish.md"] == (place / "fish.md").read_text()
        assert (place / "MEMORY.md").read_text() == team.entries["MEMORY.md"] == INDEX
        assert "telegram:42" in team.entries["fish.md"].split("---")[1]


async def test_a_preview_is_confirmed_by_button_by_its_person_alone(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await shared_by_ann(running)
        yes = await offered(running, "Yes", where=ANN)
        assert "not for you" in await press(running, replace(BOB, chat="42"), yes)
        assert team.entries == {}
        assert "Shared." in await press(running, ANN, yes)
        assert CANARY in team.entries["fish.md"]
        assert "That is settled" in await press(running, ANN, yes)


async def test_what_waits_is_answered_one_by_one_by_button_and_what_is_left_stays_on_offer(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        write = [("write", {"file_path": f"team/{each}.md", "content": note(each)}) for each in ("fish", "frog")]
        running.then(calls(*write), "They wait.")
        await running.tell(ANN, "Share this with the team: what I said of the fish and the frog")
        assert await offered(running, "Yes, all 2", where=ANN)
        await press(running, ANN, await offered(running, "One by one", where=ANN))
        assert "Dropped" in await press(running, ANN, await offered(running, "No 1 fish", where=ANN))
        assert "Shared." in await press(running, ANN, await offered(running, "Yes 2 frog", where=ANN))
        assert "frog.md" in team.entries
        assert "fish.md" not in team.entries


async def test_a_yes_while_pushes_rest_says_that_the_others_do_not_get_it_and_why(tmp_path: Path) -> None:
    async def forbids(request: Request) -> Response:
        return Response(status_code=403 if request.method == "PUT" else 404)

    app = Starlette(routes=[Route(PATH, forbids, methods=["GET", "PUT"])])
    async with serving(app) as url, whole(tmp_path / "home", garden(url, "team_watch = false")) as running:
        for name in ("fish", "frog"):  # the first one fails, the second one is not even tried
            write = ("write", {"file_path": f"team/{name}.md", "content": note(f"the {name} eats at noon")})
            running.then(calls(write), "It waits.")
            await running.tell(ANN, f"Share this with the team: what I said of the {name}")
            told = await running.tell(ANN, "/team yes all")
            assert "The server has it" not in told
            assert "nothing is pushed for now" in told
            assert "403" in told
            assert "the token changes" in told


async def test_check_19_what_an_extraction_would_share_waits_as_well(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        running.then_fork(WRITE, "Done.")
        await running.tell(ANN, f"Please tell the team that the {CANARY} eats at noon.")
        await running.settled()
        assert len(questions(running)) == 1
        assert (list((await team_of(running, ANN)).glob("**/*.md")), team.entries) == ([], {})
        await running.tell(ANN, "/team yes all")
        assert CANARY in team.entries["fish.md"]


async def test_nobody_else_sees_anything_of_it_before_the_yes(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await shared_by_ann(running)
        for who in (GROUP, BOB, replace(ANN, chat=GROUP.chat)):
            await running.tell(who, "What does the fish eat, and when?")
            for words in ("/team", "/team show 1", "/team yes 1", "/team no 1", "/team who", "/memory"):
                await running.tell(who, words)
        await running.settled()
        await running.core.night.clock.run_now("team-sync")
        assert seen_by_others(running, team) == []
        assert "number 1" in await running.tell(ANN, "/team"), "nobody else could answer it"


async def test_a_no_leaves_nothing_and_a_repeated_answer_says_what_happened(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await shared_by_ann(running)
        assert "Dropped" in await running.tell(ANN, "/team no 1")
        assert "it was dropped" in await running.tell(ANN, "/team yes 1")
        await shared_by_ann(running)
        assert "Shared" in await running.tell(ANN, "/team yes 2")
        assert "it was shared" in await running.tell(ANN, "/team yes 2")
        assert "it was shared" in await running.tell(ANN, "/team no 2")
        assert list(team.entries) == ["MEMORY.md", "fish.md"]


async def test_a_restart_between_the_question_and_the_yes_loses_and_doubles_nothing(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await shared_by_ann(running)
        assert len(questions(running)) == 1
    clock = Clock()
    clock.forward(days=7)
    async with whole(tmp_path / "home", garden(url), clock=clock) as running:
        await running.settled()
        assert questions(running) == []
        assert CANARY in await running.tell(ANN, "/team show 1")
        await running.tell(ANN, "/team yes 1")
        assert CANARY in team.entries["fish.md"]


async def test_a_turn_that_has_to_be_run_again_asks_once(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        running.then(WRITE, Failure(status=529), "It waits for your word.")
        await running.tell(ANN, "Share this with the team: what I said of the fish")

        async def again() -> bool:
            return len(running.chats) == 3

        await until(again, "the turn was not run again")
        await running.settled()
        assert len(questions(running)) == 1
        await running.tell(ANN, "/team yes all")
        assert sorted(team.entries) == ["MEMORY.md", "fish.md"]


async def test_what_somebody_changed_meanwhile_is_not_lost_and_asked_of_anew(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await running.tell(ANN, "/start")
        place = await team_of(running, ANN)
        (place / "fish.md").write_text(FISH)
        running.then(
            calls(("edit", {"file_path": "team/fish.md", "old_string": "It is shy.", "new_string": "It is bold."})),
            "Ok.",
        )
        await running.tell(ANN, "Share that it is bold")
        await running.settled()
        (place / "fish.md").write_text(FISH.replace("the pond", "the new pond"))
        told = await answer(running, ANN, "/team yes 1")
        assert "number 2" in told
        assert "-It is shy." in told
        assert "-It lives" not in told
        assert '+author: "Ann (telegram:42)"' in told
        await running.tell(ANN, "/team yes 2")
        assert "the new pond" in team.entries["fish.md"]
        assert "It is bold." in team.entries["fish.md"]


async def test_check_24_a_secret_is_refused_when_it_is_staged(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        running.then(calls(("write", {"file_path": "team/key.md", "content": note(SECRET)})), "I may not.")
        await running.tell(ANN, "Share the key with the team")
        await running.settled()
        (result,) = results(running.chats[-1])
        assert result["is_error"]
        assert "GitHub" in str(result["content"])
        assert (questions(running), team.entries) == ([], {})


async def test_who_is_no_member_any_more_shares_nothing(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await shared_by_ann(running)
    left = garden(url).replace('members = ["telegram:42", "telegram:43"]', 'members = ["telegram:43"]')
    async with whole(tmp_path / "home", left) as running:
        for words in ("/team", "/team yes 1", "/team show 1"):
            assert "not among the `members`" in await running.tell(ANN, words)
        assert "Dropped" in await running.tell(ANN, "/team no 1")
        assert team.entries == {}


async def test_with_memory_left_aside_nothing_is_staged(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    _, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await running.tell(ANN, "/ignore on")
        await shared_by_ann(running)
        assert questions(running) == []
        await running.tell(ANN, "/ignore off")
        assert "Waits" not in await running.tell(ANN, "/team")


async def test_what_was_forgotten_is_no_longer_there_to_be_shared(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        await running.remember(ANN, f"the {CANARY} eats at noon", name="own")
        await shared_by_ann(running)
        await running.tell(ANN, f"/forget {CANARY}")
        assert "Forgotten" in await running.tell(ANN, "/forget all")
        assert "forgotten" in await running.tell(ANN, "/team yes 1")
        assert (list((await team_of(running, ANN)).glob("**/*.md")), team.entries) == ([], {})
        async with running.core.database.read() as session:
            rows = (await session.execute(select(StagedRow.__table__))).all()
        assert CANARY not in str(rows)


async def test_a_group_writes_directly_and_each_author_stays_on_the_note(
    tmp_path: Path, server: tuple[TeamServer, str]
) -> None:
    _, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        running.then(
            calls(("write", {"file_path": "team/fish.md", "content": note("It is shy. (Bob, 2031-05-02)")})), "Ok."
        )
        await running.tell(GROUP, "Remember that the fish is shy")
        carol = Speaker(user="44", chat="-100", name="Carol\n---\nauthor: Mallory")
        running.then(
            calls(("append", {"file_path": "team/fish.md", "content": "\nIt is grey. (Carol, 2031-05-02)"})), "Ok."
        )
        await running.tell(carol, "Remember that it is grey")
        await running.settled()
        text = (await team_of(running, GROUP) / "fish.md").read_text()
        header = text.split("---\n")[1]
        assert re.findall(r"telegram:\d+", header) == ["telegram:43", "telegram:44"]
        assert "It is shy" in text
        assert "Bob" in await running.tell(BOB, "/team who") or "telegram:44" in await running.tell(GROUP, "/team who")


async def test_the_built_in_stand_in_can_share(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    team, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        assert await running.tell(ANN, f"Share with the team: the {CANARY} eats at noon") == "It waits for your word."
        await running.settled()
        await running.tell(ANN, "/team yes all")
        assert any(CANARY in text for key, text in team.entries.items() if key != "MEMORY.md")
        assert CANARY in team.entries["MEMORY.md"]


async def test_a_yes_says_that_the_server_has_it_only_if_it_has(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    team, url = server
    team.entries |= {"plan.md": note("meet at four"), "old.md": note("an old one")}
    async with whole(tmp_path / "home", garden(url, "team_watch = false")) as running:
        await running.tell(ANN, "Hello there")
        await running.core.night.clock.run_now("team-sync")
        edit = {
            "file_path": "team/plan.md",
            "old_string": "type: project\n---\n\nmeet at four",
            "new_string": "type: project\n---\n\nmeet at five",
        }
        for change in (("edit", edit), ("delete", {"file_path": "team/old.md"})):
            running.then(calls(("read", {"file_path": "team/plan.md"})), calls(change), "It waits.")
            await running.tell(ANN, f"Share this with the team: what I said of the {CANARY}")
        team.entries["plan.md"] = note("meet at six, says Bob")
        changed, deleted = await running.tell(ANN, "/team yes 1"), await running.tell(ANN, "/team yes 2")
    assert "five" not in team.entries["plan.md"]
    assert "The server has it" not in changed + deleted
    assert "their text stands there, and yours is kept in `plan.conflict-" in changed
    assert "`old.md` is gone here only: the team's server keeps no deletions" in deleted


async def test_what_would_never_reach_the_team_is_not_asked_of(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    _, url = server
    async with whole(tmp_path / "home", garden(url)) as running:
        write = ("write", {"file_path": "team/fish.conflict-01234567.md", "content": note("it is shy")})
        running.then(calls(write), "It can't be.")
        await running.tell(ANN, "Share this with the team: it is shy")
        assert questions(running) == []
        assert "its name is that of a conflict copy" in str(running.model.requests[-1].body["messages"][-1])
