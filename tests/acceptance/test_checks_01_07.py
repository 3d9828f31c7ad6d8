"""Checks 1 to 7: where memory lies, who may say so, when it is on, how much of an index is shown."""

import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from adapters.serving import serving
from gateway.llm.standin.request import Conversation
from gateway.llm.standin.server import Recorded
from tests.acceptance.extraction_runs import told
from tests.acceptance.team_server import TeamServer, project
from tests.acceptance.whole import ANN, Speaker, Whole, whole

GROUP = Speaker(user="42", chat="-100")
FACT = "I prefer answers in metric units."
DISABLE = "REVERIE_DISABLE_AUTO_MEMORY"
JOBS = ("dream", "team-sync", "close-day", "distil")


def memory(**settings: str | bool | int) -> str:
    return "[memory]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


def named(request: Recorded) -> str:
    """Return the memory directory that a request names."""
    return Conversation.of(request.body).memory_dir


async def kept(running: Whole, who: Speaker = ANN) -> Path:
    """Have a fact kept and return the one directory that its note lies in; the request must name the same."""
    await running.tell(who, FACT)
    await running.settled()
    root = running.core.settings.home.parent
    (note,) = [file for file in root.rglob("*.md") if file.name != "MEMORY.md" and "metric" in file.read_text()]
    assert named(running.chats[-1]) == str(note.parent)
    return note.parent


def home_of(root: Path, principal: str = "person-telegram-42-*") -> Path:
    (home,) = root.glob(f"home/homes/{principal}")
    return home


# -- 1


@pytest.mark.parametrize("directory", ["~/", "~/..", "/", "/a", "../m", "m", "/srv/{principal}/\0m", r"\\s\h"])
async def test_check_01_a_directory_that_can_not_be_meant_is_ignored(tmp_path: Path, directory: str) -> None:
    with capture_logs() as logged:
        async with whole(tmp_path / "home", memory(auto_memory_directory=directory)) as running:
            assert await kept(running) == home_of(tmp_path) / "projects/_chat/memory"
    assert len(told(logged, "memory.directory_ignored", source="auto_memory_directory")) == 1


@pytest.mark.parametrize("directory", ["~/m", "~/m/", "~/m///", "~/./x/../m"])
async def test_check_01_a_tilde_in_the_settings_means_the_home(tmp_path: Path, directory: str) -> None:
    async with whole(tmp_path / "home", memory(auto_memory_directory=directory)) as running:
        assert await kept(running) == home_of(tmp_path) / "m"
        system = Conversation.of(running.chats[0].body).system
        assert f"`{home_of(tmp_path)}/m/MEMORY.md`" in system
        assert "m//" not in system


@pytest.mark.parametrize(("next_source", "then"), [("~/n", "n"), ("", "projects/_chat/memory")])
async def test_check_01_a_tilde_in_the_environment_is_ignored_and_the_next_source_used(
    tmp_path: Path, next_source: str, then: str
) -> None:
    environ = {"REVERIE_MEMORY_PATH_OVERRIDE": "~/m"}
    with capture_logs() as logged:
        async with whole(
            tmp_path / "home", memory(auto_memory_directory=next_source) if next_source else "", environ=environ
        ) as running:
            assert await kept(running) == home_of(tmp_path) / then
    assert len(told(logged, "memory.directory_ignored", source="REVERIE_MEMORY_PATH_OVERRIDE")) == 1


# -- 2


def named_ssh(place: Path) -> list[Path]:
    """Return whatever has come to be below a place under the name that was asked for."""
    return list(place.rglob(".ssh"))


async def test_check_02_a_person_can_not_direct_memory_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "operator"))
    async with whole(tmp_path / "home") as running:
        await running.tell(ANN, "/start")
        await running.scope(ANN)
        own = home_of(tmp_path)
        (own / "settings.toml").write_text(memory(auto_memory_directory="~/.ssh"))
        with capture_logs() as logged:
            assert await kept(running) == own / "projects/_chat/memory"
    assert named_ssh(tmp_path) == []
    lines = told(logged, "memory.untrusted_setting_ignored", source="principal", key="auto_memory_directory")
    assert len(lines) == 1
    assert lines[0]["log_level"] == "warning"


async def test_check_02_a_projects_checked_in_settings_can_not_either(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    (root / ".claude").mkdir(parents=True)
    (root / ".claude/reverie.toml").write_text(memory(auto_memory_directory=str(tmp_path / ".ssh/{principal}")))
    toml = f'[projects.garden]\nroot = "{root}"\nchats = ["telegram:-100"]\n'
    with capture_logs() as logged:
        async with whole(tmp_path / "home", toml) as running:
            group = await kept(running, GROUP)
    assert group.is_relative_to(tmp_path / "home/homes")
    assert named_ssh(tmp_path) == []
    assert told(logged, "memory.untrusted_setting_ignored", source="project", key="auto_memory_directory")


@pytest.mark.parametrize("by", ["principal", "project"])
async def test_check_02_both_may_opt_out(tmp_path: Path, by: str) -> None:
    root = tmp_path / "checkout"
    (root / ".claude").mkdir(parents=True)
    toml = f'[projects.garden]\nroot = "{root}"\nchats = ["telegram:-100"]\n'
    async with whole(tmp_path / "home", toml) as running:
        memory_dir = (await running.scope(GROUP)).memory_dir
        file = root / ".claude/reverie.toml" if by == "project" else memory_dir.parents[2] / "settings.toml"
        file.write_text(memory(auto_memory_enabled=False))
        await running.tell(GROUP, FACT)
        await running.settled()
        assert (running.forks, named(running.chats[0])) == ([], "")
        assert "off" in await running.tell(GROUP, "/memory")


# -- 3


async def test_check_03_ids_that_look_alike_have_four_directories(tmp_path: Path) -> None:
    roots = {"first": "a/b-c", "second": "a-b/c"}
    bound = [(name, f'root = "{tmp_path / root}"') for name, root in roots.items()] + [("春花园", ""), ("秋花园", "")]
    toml = "".join(
        f'[projects."{name}"]\n{root}\nchats = ["telegram:-{number}"]\n' for number, (name, root) in enumerate(bound, 1)
    )
    async with whole(tmp_path / "home", toml) as running:
        for number in range(1, 5):
            await running.tell(Speaker(user="42", chat=f"-{number}"), "Hello there.")
        projects = {Path(named(request)).parent.name for request in running.chats}
        directories = {named(request) for request in running.chats}
    assert (len(projects), len(directories)) == (4, 4)


@pytest.mark.parametrize("ids", [("a.b-c", "a-b.c"), ("张三", "李四")])
async def test_check_03_so_have_people_whose_ids_look_alike(tmp_path: Path, ids: tuple[str, str]) -> None:
    async with whole(tmp_path / "home") as running:
        for user in ids:
            await running.tell(Speaker(user=user, chat=user), "Hello there.")
        assert len({named(request) for request in running.chats}) == 2


# -- 4


async def is_on(running: Whole) -> bool:
    """Say something worth keeping and return whether memory had any part in it; partly is a failure."""
    await running.tell(ANN, FACT)
    await running.settled()
    (request,) = running.chats
    system = Conversation.of(request.body).system
    parts = {"# Memory" in system, "MEMORY.md" in system, bool(named(request)), bool(running.forks)}
    assert len(parts) == 1, parts
    assert bool(list(running.core.settings.home.glob("homes/**/*.md"))) in parts
    return parts.pop()


@pytest.mark.parametrize(
    ("variables", "bare_mode", "enabled", "on"),
    [
        ({DISABLE: "1"}, False, True, False),
        ({DISABLE: "0"}, True, True, False),
        ({DISABLE: "0", "REVERIE_SIMPLE": "1"}, False, True, False),
        ({DISABLE: "0"}, False, False, True),
        ({DISABLE: ""}, False, False, False),
        ({}, False, True, True),
    ],
    ids=["disabled", "zero-and-bare", "zero-and-simple", "zero-and-off", "empty-and-off", "as-it-comes"],
)
async def test_check_04_the_first_link_of_the_chain_that_has_an_opinion_wins(
    tmp_path: Path, variables: dict[str, str], bare_mode: bool, enabled: bool, on: bool
) -> None:
    toml = memory(auto_memory_enabled=enabled, dream_min_hours=0, dream_min_sittings=0)
    async with whole(tmp_path / "home", toml, bare_mode=bare_mode, environ=variables) as running:
        assert await is_on(running) is on
        asked = len(running.model.requests)
        await running.core.night.clock.run_now("dream")
        assert (len(running.model.requests) > asked) is on


async def test_check_04_bare_mode_syncs_nothing_and_says_that_memory_is_off(tmp_path: Path) -> None:
    server = TeamServer(entries={"ok.md": "x"})
    async with serving(server.app) as url:
        async with whole(tmp_path / "home", project(url)) as usual:
            await usual.tell(GROUP, "/start")
            await usual.tell(GROUP, "Hello there.")
            await usual.core.night.clock.run_now("team-sync")
            assert server.statuses
        server.statuses.clear()
        async with whole(tmp_path / "home", project(url), bare_mode=True) as running:
            await running.tell(GROUP, "Hello there.")
            assert [await running.core.night.clock.run_now(job) for job in JOBS] == [[]] * 4
            for command in ("/remember", "/remember that I drink tea", "/dream", "/memory"):
                assert "off" in await running.tell(GROUP, command)
            await running.settled()
    assert server.statuses == []


# -- 5, 6


async def loaded(running: Whole, index: str) -> tuple[str, str]:
    """Return what a request shows of an index, and the warning after it."""
    (await running.scope(ANN)).index.write_text(index)
    await running.tell(ANN, "Hello there.")
    shown = Conversation.of(running.chats[0].body).system.split("## The index: ")[1].split("\n\n", 1)[1]
    kept_text, _, warning = shown.partition("\n\n> ")
    return kept_text, warning


async def test_check_05_an_index_of_250_lines_is_cut_to_200_and_the_warning_gives_both_figures(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        shown, warning = await loaded(running, "\n".join(["x" * 50] * 250))
    assert shown == "\n".join(["x" * 50] * 200)
    assert "250 lines" in warning
    assert "limit 200" in warning
    assert "KB" not in warning


async def test_check_05_one_line_of_30_000_characters_is_cut_to_25_000_and_no_lines_are_counted(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        shown, warning = await loaded(running, "x" * 30_000)
    assert shown == "x" * 25_000
    assert "29.3KB" in warning
    assert "24.4KB" in warning
    assert " lines" not in warning


async def test_check_06_an_index_too_long_in_lines_and_size_is_warned_of_with_both(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        shown, warning = await loaded(running, "\n".join(["x" * 110] * 250))
    assert shown == "\n".join(["x" * 110] * 200)
    assert "250 lines and 27.1KB" in warning


async def test_check_06_blank_lines_at_the_end_count_for_nothing(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        shown, warning = await loaded(running, "\n".join(["x" * 100] * 200) + "\n" * 50)
    assert (shown, warning) == ("\n".join(["x" * 100] * 200), "")


# -- 7


def not_writable(homes: Path, how: str) -> None:
    """Make a place where no home can be made: by its mode, or, where that does not bind (root), by a file there."""
    if how == "a file":
        homes.write_text("")
        return
    homes.mkdir(mode=0o500)
    if os.access(homes, os.W_OK):
        pytest.skip("no mode binds this user")


@pytest.mark.parametrize("how", ["a file", "its mode"])
async def test_check_07_a_memory_that_can_not_be_written_costs_no_answer(tmp_path: Path, how: str) -> None:
    (tmp_path / "home").mkdir()
    not_writable(tmp_path / "home/homes", how)
    with capture_logs() as logged:
        async with whole(tmp_path / "home") as running:
            answers = [await running.tell(ANN, words) for words in (FACT, "Which units do I prefer?")]
            await running.settled()
            posts = [call.part["text"] for call in running.adapter.calls]
    assert all(answers)
    assert sorted(posts) == sorted(answers)
    failed = told(logged, "memory.directory_not_made")
    assert failed
    assert failed[0]["log_level"] == "warning"
