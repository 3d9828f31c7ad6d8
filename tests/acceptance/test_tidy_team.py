"""A team's notes are tidied by a job of its own, which changes nothing before an administrator has said yes."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adapters.serving import serving
from gateway.db.models import LeaseRow
from gateway.db.team_models import ProposalRow
from memory.team.local import conflict_copy
from memory.team.proposal import carry_out
from memory.team.wire import PATH
from scheduler.runs import Outcome
from tests.acceptance.presses import offered, press
from tests.acceptance.whole import ANN, Speaker, Whole, calls, note, whole

IN_G = Speaker(user="43", chat="-100", name="Bob")
IN_H = Speaker(user="44", chat="-200", name="Eve")
SETTINGS = '\nowners = ["telegram:42"]\n[projects.garden]\nchats = ["telegram:-100", "telegram:-200"]\n'
CANARY = "zebrafish"
SHARED = (
    note("what grows in which bed")
    + "- Tomatoes stand in the south bed. (Bob, 2026-05-01)\n"
    + "- The pump is broken till June. (Bob, 2026-05-01)\n"
    + "- Nettles may stay for butterflies. (Bob, 2026-05-01)\n"
    + "- Compost comes on Mondays. (Bob, 2026-05-01)\n"
    + "- Ladders belong to the neighbour. (Bob, 2026-05-01)\n"
)
BEANS = "- Beans are sown in May. (Eve, 2026-05-02)\n"
LOST = SHARED + BEANS


def is_tidying(body: dict[str, Any]) -> bool:
    return "tidying of a team's shared notes" in str(body["messages"][0])


def tidies(running: Whole, *tools: tuple[str, dict[str, Any]]) -> None:
    """Script the next run of the tidying: it reads the note and its conflict copy, and then uses these tools."""
    read = [("read", {"file_path": name}) for name in ("beds.md", conflict_copy("beds.md", LOST))]
    for answer in (calls(*read), calls(*tools), "Done."):
        running.model.script(answer, when=is_tidying)


def merges() -> tuple[tuple[str, dict[str, Any]], ...]:
    return (
        ("write", {"file_path": "beds.md", "content": LOST}),
        ("delete", {"file_path": conflict_copy("beds.md", LOST)}),
    )


async def tidy(running: Whole) -> tuple[Outcome, str]:
    (ran,) = await running.core.night.clock.run_now("tidy-team")
    return ran.outcome, ran.detail


async def copies(running: Whole) -> list[Path]:
    found = [(await running.scope(who)).team_dir for who in (IN_G, IN_H)]
    return [each for each in found if each is not None]


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.md")}


async def proposals(running: Whole) -> int:
    async with running.core.database.read() as session:
        waits = select(func.count()).select_from(ProposalRow).where(ProposalRow.state == "pending")
        return await session.scalar(waits) or 0


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    """Two chats of one project; in the second lies a conflict copy of a note that both have."""
    async with whole(tmp_path / "home", SETTINGS) as running:
        for who in (ANN, IN_G, IN_H):
            await running.tell(who, "Hello there")
        for who in (ANN, IN_G, IN_H):
            await running.remember(who, f"the {CANARY} of {who.chat}", name="own")
        first, second = await copies(running)
        (first / "beds.md").write_text(SHARED)
        (first / "MEMORY.md").write_text("- [Beds](beds.md): what grows where\n")
        for _ in range(2):
            await running.core.night.clock.run_now("team-sync")
        (second / conflict_copy("beds.md", LOST)).write_text(LOST)
        yield running


async def test_a_conflict_copy_is_merged_everywhere_once_an_owner_has_accepted_it(running: Whole) -> None:
    before = [files(folder) for folder in await copies(running)]
    tidies(running, *merges())
    outcome, detail = await tidy(running)
    assert (outcome, detail) == (
        Outcome.DONE,
        "proposal 1: 1 conflict copy settled, 1 note changed; told in 1 chat",
    )
    assert [files(folder) for folder in await copies(running)] == before
    await running.settled()
    (shown,) = [each.text for each in running.adapter.shown.values() if "Proposal 1" in each.text]
    assert "+- Beans are sown in May." in shown
    assert "Done" in await running.tell(ANN, "/team accept 1")
    await running.core.night.clock.run_now("team-sync")
    for folder in await copies(running):
        assert files(folder).keys() == {"beds.md", "MEMORY.md"}
        assert "Beans are sown in May." in files(folder)["beds.md"]
    assert "settled: it was accepted" in await running.tell(ANN, "/team accept P1")


async def test_the_run_sees_no_private_memory(running: Whole) -> None:
    tidies(running, ("grep", {"pattern": CANARY}), ("read", {"file_path": "../../../../homes"}), *merges())
    await tidy(running)
    requests = [each.body for each in running.model.requests if is_tidying(each.body)]
    assert len(requests) == 3
    assert not any(f"the {CANARY}" in str(body) for body in requests)


async def test_a_members_copy_takes_part_and_their_own_notes_do_not(tmp_path: Path) -> None:
    private = SETTINGS.replace("telegram:-200", "telegram:42") + 'members = ["telegram:42"]\n'
    async with whole(tmp_path / "home", private) as running:
        for who in (ANN, IN_G):
            await running.tell(who, "Hello there")
        mine, theirs = (await running.scope(ANN)).team_dir, (await running.scope(IN_G)).team_dir
        assert mine is not None
        assert theirs is not None
        await running.remember(ANN, f"the {CANARY} of Ann", name=conflict_copy("own.md", "x").removesuffix(".md"))
        (theirs / "beds.md").write_text(SHARED)
        for _ in range(2):
            await running.core.night.clock.run_now("team-sync")
        (mine / conflict_copy("beds.md", LOST)).write_text(LOST)
        tidies(running, ("grep", {"pattern": CANARY}), *merges())
        assert "proposal 1" in (await tidy(running))[1]
        assert not any(f"the {CANARY}" in str(each.body) for each in running.model.requests if is_tidying(each.body))
        assert "Done" in await running.tell(ANN, "/team accept 1")
        assert files(mine)["beds.md"] == LOST
        assert conflict_copy("beds.md", LOST) not in files(mine)
        await running.core.night.clock.run_now("team-sync")
        assert files(theirs)["beds.md"] == LOST


async def test_what_was_refused_is_not_proposed_again_until_it_changes(running: Whole) -> None:
    tidies(running, *merges())
    await tidy(running)
    assert "Left as it is" in await running.tell(ANN, "/team refuse 1")
    first, second = await copies(running)
    (first / "weeds.md").write_text(note("weeds in bed 3"))
    tidies(running, *merges())
    assert "not proposed again" in (await tidy(running))[1]
    assert await proposals(running) == 0
    (first / "beds.md").write_text(SHARED.replace("Mondays", "Fridays"))
    tidies(running, *merges())
    assert "proposal" in (await tidy(running))[1]
    assert await proposals(running) == 1
    assert LOST in files(second).values()


async def test_a_run_that_drops_facts_proposes_nothing_and_says_why(running: Whole) -> None:
    poorer = "\n".join(line for line in SHARED.splitlines() if "pump" not in line and "Nettles" not in line)
    tidies(
        running,
        ("write", {"file_path": "beds.md", "content": poorer + "\n" + BEANS}),
        ("delete", {"file_path": conflict_copy("beds.md", LOST)}),
    )
    outcome, detail = await tidy(running)
    assert (outcome, detail) == (Outcome.FAILED, "refused: it would have removed 2 of 7 facts")
    assert await proposals(running) == 0
    assert "would have removed 2 of 7 facts" in await running.tell(ANN, "/jobs tidy-team")
    figures = running.core.metrics.exposition("text/plain")[0].decode()
    assert 'job_runs_total{job="tidy_team",outcome="failed"} 1.0' in figures


async def test_a_proposal_whose_note_has_changed_since_is_not_half_done(running: Whole) -> None:
    tidies(running, *merges())
    await tidy(running)
    first, second = await copies(running)
    (first / "beds.md").write_text(SHARED + "- Roses are new. (Bob, 2026-05-06)\n")
    assert "Nothing was done, as these have changed since: `beds.md`" in await running.tell(ANN, "/team accept 1")
    assert "Beans" not in files(first)["beds.md"]
    assert LOST in files(second).values()


async def test_what_was_done_half_when_the_gateway_was_killed_is_done_whole_when_it_is_said_again(
    running: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    tidies(running, *merges())
    await tidy(running)
    first, second = await copies(running)

    async def killed(*_: object, **__: object) -> int:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("gateway.team_copies.remove_copies", killed)
        await running.tell(ANN, "/team accept 1")
    assert "Beans are sown" in files(first)["beds.md"]
    assert await proposals(running) == 1
    assert "Done" in await running.tell(ANN, "/team accept 1")
    assert [files(folder)["beds.md"] for folder in (first, second)] == [files(first)["beds.md"]] * 2
    assert conflict_copy("beds.md", LOST) not in files(second)


async def test_an_answer_that_a_killed_process_has_begun_is_carried_out_without_another_one(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", f"{SETTINGS}[memory]\nlease_seconds = 5\n") as running:
        for who in (ANN, IN_G, IN_H):
            await running.tell(who, "Hello there")
        first, second = await copies(running)
        (first / "beds.md").write_text(SHARED)
        for _ in range(2):
            await running.core.night.clock.run_now("team-sync")
        (second / conflict_copy("beds.md", LOST)).write_text(LOST)
        tidies(running, *merges())
        await tidy(running)
        left_behind = {"holder": "a dead one", "until": running.core.clock().timestamp() + 5}
        async with running.core.database.write() as session:
            await session.execute(update(LeaseRow).where(LeaseRow.name == "tidy:garden").values(**left_behind))
        assert "Done" in await running.tell(ANN, "/team accept 1")
        assert "Beans are sown" in files(first)["beds.md"]


@pytest.mark.parametrize("killed", [False, True])
async def test_while_an_accepted_proposal_is_carried_out_nobody_refuses_it(
    running: Whole, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    tidies(running, *merges())
    await tidy(running)
    told: list[str] = []

    async def refused_meanwhile(*given: Any) -> None:
        told.append(await running.tell(Speaker(user="42", chat="42", thread="9"), "/team refuse 1"))
        if killed:
            raise RuntimeError("killed")
        await carry_out(*given)

    with monkeypatch.context() as patch:
        patch.setattr("gateway.decisions.carry_out", refused_meanwhile)
        answer = await running.tell(ANN, "/team accept 1")
    assert "It is being carried out" in told[0]
    assert "Done" in (await running.tell(ANN, "/team accept 1") if killed else answer)
    assert "Beans are sown" in files((await copies(running))[0])["beds.md"]
    assert "settled: it was accepted" in await running.tell(ANN, "/team refuse 1")


async def test_a_proposal_that_holds_what_was_forgotten_is_dropped(running: Whole) -> None:
    tidies(running, *merges())
    await tidy(running)
    owner = Speaker(user="42", chat="-100")
    await running.tell(owner, "/forget broken pump June")
    assert "Forgotten" in await running.tell(owner, "/forget all")
    told = await running.tell(ANN, "/team show P1")
    assert "it held what was forgotten" in told
    assert "pump" not in told
    async with running.core.database.read() as session:
        assert "pump" not in str((await session.scalars(select(ProposalRow.changes))).all())


async def test_by_the_clock_a_project_is_looked_at_when_something_has_changed(running: Whole) -> None:
    async def gate() -> str:
        (looked,) = await running.core.night.clock.dry_run("tidy-team")
        return looked.gate

    first, second = await copies(running)
    (second / conflict_copy("beds.md", LOST)).unlink()
    running.model.script("Nothing needs changing.", when=is_tidying)
    assert await tidy(running) == (Outcome.DONE, "nothing to propose")
    assert await gate() == "nothing has changed since it last looked"
    (first / "weeds.md").write_text(note("weeds in bed 3"))
    assert "nothing has changed" not in await gate()


async def test_where_no_owner_ever_wrote_in_private_the_teams_chat_is_told(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", SETTINGS) as running:
        await running.tell(IN_G, "Hello there")
        team = (await running.scope(IN_G)).team_dir
        assert team is not None
        (team / "beds.md").write_text(SHARED)
        (team / conflict_copy("beds.md", LOST)).write_text(LOST)
        tidies(running, *merges())
        await tidy(running)
        await running.settled()
        assert any("Proposal 1" in each.text for each in running.adapter.shown.values())
        assert "Done" in await running.tell(Speaker(user="42", chat="-100"), "/team accept 1")
        assert files(team)["beds.md"] == LOST


async def test_an_owner_accepts_by_button_where_they_were_told_and_a_second_press_says_it_is_settled(
    running: Whole,
) -> None:
    tidies(running, *merges())
    await tidy(running)
    accept = await offered(running, "Accept", where=ANN)
    elsewhere = replace(running.adapter.shown[accept[0]], address=(IN_G.says("").address))
    running.adapter.shown["copied"] = elsewhere
    assert "not for you" in await press(running, ANN, ("copied", accept[1]))
    assert await proposals(running) == 1
    assert "Done" in await press(running, ANN, accept)
    assert BEANS.strip() in files((await copies(running))[0])["beds.md"]
    assert "settled" in await press(running, ANN, accept)


async def test_in_a_shared_chat_only_an_owners_press_decides_and_nobody_elses_takes_the_buttons_away(
    tmp_path: Path,
) -> None:
    async with whole(tmp_path / "home", SETTINGS) as running:
        await running.tell(IN_G, "Hello there")
        (team := (await copies(running))[0]).joinpath("beds.md").write_text(SHARED)
        (team / conflict_copy("beds.md", LOST)).write_text(LOST)
        tidies(running, *merges())
        await tidy(running)
        refuse = await offered(running, "Refuse", where=IN_G)
        assert "not for you" in await press(running, IN_G, refuse)
        assert [each.label for each in running.adapter.shown[refuse[0]].buttons] == ["Accept", "Refuse"]
        assert "Left as it is" in await press(running, Speaker(user="42", chat="-100"), refuse)


async def test_what_is_accepted_while_pushes_rest_is_not_said_to_be_with_the_others(tmp_path: Path) -> None:
    async def forbids(request: Request) -> Response:
        return Response(status_code=403 if request.method == "PUT" else 404)

    app = Starlette(routes=[Route(PATH, forbids, methods=["GET", "PUT"])])
    async with serving(app) as url:
        server = f'[memory]\nteam_server_url = "{url}"\nteam_token = "a-token-of-the-operator"\nteam_watch = false\n'
        async with whole(tmp_path / "home", SETTINGS + server) as running:
            await running.tell(IN_G, "Hello there")
            team = (await running.scope(IN_G)).team_dir
            assert team is not None
            (team / "beds.md").write_text(SHARED)
            (team / conflict_copy("beds.md", LOST)).write_text(LOST)
            assert "403" in await running.tell(IN_G, "/team sync")
            tidies(running, *merges())
            await tidy(running)
            told = await running.tell(Speaker(user="42", chat="-100"), "/team accept 1")
    assert "Done" in told
    assert "The server has it" not in told
    assert "nothing is pushed for now: the team server answered 403" in told


async def test_only_an_owner_decides_and_only_where_the_notes_belong(running: Whole) -> None:
    tidies(running, *merges())
    await tidy(running)
    assert "Only an owner" in await running.tell(IN_G, "/team accept 1")
    elsewhere = Speaker(user="42", chat="-300")
    assert "does not belong to" in await running.tell(elsewhere, "/team show P1")
    assert "Nothing is proposed" in await running.tell(elsewhere, "/team proposals")
    assert "1 conflict copy settled" in await running.tell(ANN, "/team proposals")


async def test_what_waits_is_answered_by_button_below_the_list_and_below_all_of_it(running: Whole) -> None:
    tidies(running, *merges())
    await tidy(running)
    await running.settled()
    for words in ("/team proposals", "/team show P1"):
        await running.tell(ANN, words)
        await running.settled()
        below = [each.label for each in list(running.adapter.shown.values())[-1].buttons]
        assert below == ["Accept", "Refuse"], words
    assert "Left as it is" in await press(running, ANN, await offered(running, "Refuse", where=ANN))
    await running.tell(ANN, "/team show P1")
    await running.settled()
    assert not list(running.adapter.shown.values())[-1].buttons


async def test_a_dry_run_says_what_would_be_done_and_does_nothing(running: Whole) -> None:
    told = await running.tell(ANN, "/jobs run tidy-team --dry-run")
    assert "project in garden" in told
    assert await proposals(running) == 0
    assert not any(is_tidying(each.body) for each in running.model.requests)
