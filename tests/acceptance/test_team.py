"""Team memory over time: what was forgotten stays away, edits are shared at once, and who leaves has it no more."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from sqlalchemy import select

from adapters.serving import serving
from gateway.db.team_models import SyncRow
from scheduler.runs import Outcome
from tests.acceptance.team_server import TeamServer, project
from tests.acceptance.whole import ANN, Clock, Speaker, Whole, note, until, whole

CANARY = "zebrafish"
IN_G = Speaker(user="42", chat="-100")
IN_H = Speaker(user="43", chat="-200", name="Bob")
OWNER = '\nowners = ["telegram:42"]\n'
SHARED = '[projects.garden]\nchats = ["telegram:-100", "telegram:-200"]\n'
PRIVATE = '[projects.garden]\nchats = ["telegram:42"]\nmembers = ["telegram:42"]\n'


async def run(running: Whole, job: str) -> list[str]:
    ended = await running.core.night.clock.run_now(job)
    assert {each.outcome for each in ended} <= {Outcome.DONE}
    return [each.detail for each in ended]


async def team_of(running: Whole, who: Speaker) -> Path:
    team = (await running.scope(who)).team_dir
    assert team is not None
    return team


def leaks(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.md") if CANARY in path.read_text()]


async def rows(running: Whole) -> int:
    async with running.core.database.read() as session:
        return len((await session.scalars(select(SyncRow.principal))).all())


async def test_one_run_of_the_job_brings_every_copy_in_step_whoever_has_pushed_last(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", OWNER + SHARED + "[memory]\nteam_watch = false\n") as running:
        for who in (IN_G, IN_H):
            await running.tell(who, "Hello there")
        for who in (IN_H, IN_G, IN_H):
            await running.remember(who, f"what {who.chat} says", name=f"n{who.chat}", team=True)
            await run(running, "team-sync")
        copies = [sorted(path.name for path in (await team_of(running, who)).glob("n*.md")) for who in (IN_G, IN_H)]
        assert copies == [["n-100.md", "n-200.md"]] * 2


async def test_what_a_chat_had_forgotten_does_not_come_back_though_another_has_changed_its_note(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", Clock()
    async with whole(home, OWNER + SHARED, clock=clock) as running:
        for who in (IN_G, IN_H):
            await running.tell(who, "Hello there")
        beds = await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        beds.write_text(note("tomatoes in bed 3") + f"\nThe {CANARY} key hangs by the door.\n")
        for _ in range(2):
            await run(running, "team-sync")
        assert leaks(await team_of(running, IN_H))
        await running.tell(IN_G, f"/forget {CANARY}")
        assert "Forgotten" in await running.tell(IN_G, "/forget all")
        theirs = await team_of(running, IN_H) / "beds.md"
        theirs.write_text(note("tomatoes in bed 3") + f"\nThe {CANARY} key hangs by the door.\n\nBeans in bed 4.\n")
        await running.core.night.sync.push(await running.scope(IN_H))
        for hours in (0, 1, 0):
            clock.forward(hours=hours)
            await run(running, "team-sync")
        assert leaks(home) == []
        assert "Beans in bed 4." in (await team_of(running, IN_G) / "beds.md").read_text()


@pytest.fixture
async def server() -> AsyncIterator[tuple[TeamServer, str]]:
    server = TeamServer()
    async with serving(server.app) as url:
        yield server, url


async def test_an_edit_is_shared_at_once_while_the_gateway_runs(tmp_path: Path, server: tuple[TeamServer, str]) -> None:
    team, url = server
    settings = project(url) + "team_debounce = 0.05\n"
    async with whole(tmp_path / "home", settings) as running:
        await running.tell(IN_G, "Hello there")
    async with whole(tmp_path / "home", settings) as running:
        place = await team_of(running, IN_G)
        tries = iter(range(1000))

        async def shared() -> bool:
            if (number := next(tries)) % 100 == 0:  # the watcher may be on its way yet, and then sees the next edit
                (place / "beds.md").write_text(f"tomatoes in bed {number}")
            return "beds.md" in team.entries

        await until(shared, "the edit was not pushed")


@pytest.mark.parametrize("on", [True, False])
async def test_a_setting_turns_the_watcher_off(tmp_path: Path, on: bool) -> None:
    async with whole(tmp_path / "home", SHARED + f"[memory]\nteam_watch = {str(on).lower()}\n") as running:
        assert (running.core.night.watching is nullcontext) is not on


async def with_a_copy(home: Path) -> Path:
    """Let Ann share a project's memory in her private chat, and return her memory directory."""
    async with whole(home, PRIVATE) as running:
        await running.tell(ANN, "Hello there")
        await running.remember(ANN, "Ann drinks tea", name="tea")
        await running.remember(ANN, "tomatoes in bed 3", name="beds", team=True)
        await run(running, "team-sync")
        (await team_of(running, ANN) / "own.md").write_text("written here, pushed nowhere")
        assert await rows(running) == 1
        return (await running.scope(ANN)).memory_dir


async def test_who_is_no_member_any_more_has_no_copy_any_more_and_all_that_was_private(tmp_path: Path) -> None:
    memory = await with_a_copy(tmp_path / "home")
    before = (memory / "tea.md").read_bytes()
    no_member = PRIVATE.replace('members = ["telegram:42"]\n', "")
    async with whole(tmp_path / "home", no_member) as running:
        assert await run(running, "leave-teams") == ["1 copy removed, 1 note kept"]
        assert not (memory / "team").exists()
        assert await rows(running) == 0
        assert (memory / "tea.md").read_bytes() == before
        [kept] = memory.glob("own.conflict-*.md")
        assert kept.read_text() == "written here, pushed nowhere"
        assert await run(running, "leave-teams") == ["0 copies removed, 0 notes kept"]
    async with whole(tmp_path / "home", PRIVATE) as running:
        await run(running, "team-sync")
        assert "bed 3" in (memory / "team/beds.md").read_text(), "who comes back has it again"


async def test_a_chat_that_is_bound_to_the_project_no_more_has_no_copy_any_more(tmp_path: Path) -> None:
    memory = await with_a_copy(tmp_path / "home")
    async with whole(tmp_path / "home", PRIVATE.replace('chats = ["telegram:42"]\n', "")) as running:
        await run(running, "leave-teams")
        assert not (memory / "team").exists()
        assert (memory / "tea.md").exists()


@pytest.mark.parametrize(
    "settings",
    [
        PRIVATE,
        PRIVATE.replace('members = ["telegram:42"]\n', "") + "[memory]\nteam_memory_enabled = false\n",
        "",
        PRIVATE + '[memory]\nteam_server_url = "http://127.0.0.1:9"\n',
    ],
    ids=["a member", "switched off", "no such project in the settings", "the server is away"],
)
async def test_nothing_else_removes_a_copy(tmp_path: Path, settings: str) -> None:
    memory = await with_a_copy(tmp_path / "home")
    async with whole(tmp_path / "home", settings) as running:
        assert await run(running, "leave-teams") == ["0 copies removed, 0 notes kept"]
        assert await rows(running) == 1
    assert sorted(path.name for path in (memory / "team").glob("*.md")) == ["MEMORY.md", "beds.md", "own.md"]


async def test_a_copy_is_not_taken_from_a_chat_whose_project_has_another_name_by_now(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    section = f'[projects.%s]\nroot = "{work}"\nrepo = "acme/garden"\nchats = [%s]\n'
    async with whole(tmp_path / "home", section % ("garden", '"telegram:-100"')) as running:
        await running.remember(IN_G, "tomatoes in bed 3", name="beds", team=True)
        await run(running, "team-sync")
        beds = await team_of(running, IN_G) / "beds.md"
    beds.write_text(note("tomatoes in bed 4, not exchanged yet"))
    renamed = section % ("garden", "") + section % ("allotment", '"telegram:-100"')
    async with whole(tmp_path / "home", renamed) as running:
        await running.tell(IN_G, "Hello again there")
        await run(running, "leave-teams")
        assert beds.parent == await team_of(running, IN_G)
        assert any("bed 4" in path.read_text() for path in beds.parent.rglob("*.md"))


async def test_who_wants_no_team_memory_for_now_keeps_the_copy_out_of_sight(tmp_path: Path) -> None:
    memory = await with_a_copy(tmp_path / "home")
    (memory.parents[2] / "settings.toml").write_text("[memory]\nteam_memory_enabled = false\n")
    async with whole(tmp_path / "home", PRIVATE) as running:
        assert (await running.scope(ANN)).team_dir is None
        assert await run(running, "leave-teams") == ["0 copies removed, 0 notes kept"]
    assert (memory / "team/beds.md").exists()


async def test_a_note_that_others_took_away_is_in_no_later_request_of_a_conversation_that_was_shown_it(
    tmp_path: Path,
) -> None:
    async with whole(tmp_path / "home", SHARED) as running:
        for who in (IN_G, IN_H):
            await running.tell(who, "Hello there")
        await running.remember(IN_H, f"the {CANARY} eats at noon", name="fish", team=True)
        await running.core.night.sync.sync(await running.scope(IN_H))
        await running.tell(IN_G, "/new")
        await running.tell(IN_G, "Hello again")
        assert CANARY in str(running.chats[-1].body["system"])
        place = await team_of(running, IN_H)
        (place / "fish.md").unlink()
        (place / "MEMORY.md").write_text("")
        for _ in range(2):
            await run(running, "team-sync")
        await running.tell(IN_G, "And hello once more")
        assert CANARY not in str(running.chats[-1].body)
