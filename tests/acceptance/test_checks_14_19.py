"""Checks 14 to 19: when an extraction runs, over what, with which rights, and what is said of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.llm.standin.answers import Failure
from gateway.llm.standin.server import ModelStandin
from memory.authorship import unsigned
from tests.acceptance.extraction_runs import NOTHING, Held, asked, figure, notices, results
from tests.acceptance.stage import World
from tests.acceptance.whole import ANN, PATIENCE, Speaker, Whole, calls, extends, is_chat, is_fork, note, until, whole

GROUP = Speaker(user="42", chat="-100")
PROJECT = '[projects.garden]\nchats = ["telegram:-100", "telegram:42"]\nmembers = ["telegram:42"]\n'
THROTTLED = "[memory]\nextraction_throttle = 3\n"
WRITE = calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea")}))


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home") as running:
        yield running


async def turns(running: Whole, who: Speaker, *numbers: int) -> None:
    """Have turns one after another, each with all that follows from it."""
    for number in numbers:
        await running.tell(who, f"This is message number {number}.")
        await running.settled()


# -- 14


async def test_check_14_a_direct_write_takes_the_place_of_the_fork(running: Whole) -> None:
    running.then(WRITE, "Saved.")
    await running.tell(ANN, "Remember that I drink tea.")
    await running.settled()
    assert (running.forks, await running.cursor()) == ([], 4)
    assert await figure(running, "extraction_skips", reason="direct_write") == 1
    await turns(running, ANN, 2)
    assert asked(running) == ["2 messages"]


async def test_check_14_only_a_write_that_succeeded_counts(running: Whole) -> None:
    running.then(calls(("write", {"file_path": "/etc/tea.md", "content": "x"})), "I could not.")
    await running.tell(ANN, "Remember that I drink tea.")
    await running.settled()
    assert len(asked(running)) == 1


# -- 15


async def test_check_15_turns_that_end_during_a_run_get_exactly_one_more(running: Whole) -> None:
    held = Held()
    running.then_fork(held, held)
    await running.tell(ANN, "This is message number 0.")
    await held.began.wait()
    for number in (1, 2, 3):
        await running.tell(ANN, f"This is message number {number}.")
    await asyncio.sleep(0.2)  # time in which a second run could begin, were it not for the first
    assert len(running.forks) == 1
    held.go.set()
    await running.settled()
    assert asked(running) == ["2 messages", "6 messages"]
    assert extends(running.forks[1], running.chats[-1])
    assert await figure(running, "extraction_turns_coalesced") == 3
    assert held.most == 1


async def test_check_15_turns_that_end_during_a_run_that_fails_do_so_too(running: Whole) -> None:
    held = Held(Failure(status=500))
    running.then_fork(held)
    await running.tell(ANN, "This is message number 0.")
    await held.began.wait()
    for number in (1, 2, 3):
        await running.tell(ANN, f"This is message number {number}.")
    held.go.set()
    await running.settled()
    assert asked(running) == ["2 messages", "8 messages"]
    assert await figure(running, "extraction_turns_coalesced") == 3


async def test_check_15_two_conversations_of_one_memory_are_never_extracted_at_once(running: Whole) -> None:
    held = Held()
    running.then_fork(held, held)
    await running.tell(ANN, "This is message number 1.")
    await held.began.wait()
    await running.tell(Speaker(user="42", chat="42", thread="7"), "Hello from another topic.")
    await asyncio.sleep(0.2)
    assert len(running.forks) == 1
    held.go.set()

    async def both() -> bool:
        return len(running.forks) == 2

    await until(both, "the second conversation was not extracted")
    await running.settled()
    assert held.most == 1


# -- 16


async def test_check_16_with_a_throttle_of_3_every_third_turn_is_extracted(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", THROTTLED) as running:
        after = []
        for number in range(1, 8):
            await turns(running, ANN, number)
            after.append(len(running.forks))
        assert after == [0, 0, 1, 1, 1, 2, 2]
        assert asked(running) == ["6 messages"] * 2


async def test_check_16_a_direct_write_in_turn_3_starts_the_count_again(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", THROTTLED) as running:
        running.then("Hm.", "Hm.", WRITE, "Saved.")
        await turns(running, ANN, 1, 2, 3)
        assert (running.forks, await running.cursor()) == ([], 8)
        await turns(running, ANN, 4, 5)
        assert running.forks == []
        await turns(running, ANN, 6)
        assert asked(running) == ["6 messages"]


async def test_check_16_in_a_shared_chat_the_fork_runs_all_the_same_and_is_told_what_was_written(
    tmp_path: Path,
) -> None:
    async with whole(tmp_path / "home", THROTTLED) as running:
        running.then("Hm.", "Hm.", WRITE, "Saved.")
        running.then_fork(NOTHING)
        await turns(running, GROUP, 1, 2, 3)
        (fork,) = running.forks
        assert "`tea.md`" in str(fork.body["messages"][-1])


async def test_check_16_a_trailing_run_ignores_the_throttle(tmp_path: Path) -> None:
    held = Held()
    async with whole(tmp_path / "home", THROTTLED) as running:
        running.then_fork(held)
        await turns(running, ANN, 1, 2)
        await running.tell(ANN, "This is message number 3.")
        await held.began.wait()
        await running.tell(ANN, "This is message number 4.")
        held.go.set()
        await running.settled()
        assert asked(running) == ["6 messages", "2 messages"]


async def test_check_16_the_end_of_the_session_forces_what_the_throttle_held_back(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", THROTTLED) as running:
        await turns(running, ANN, 1)
        assert running.forks == []
        await running.tell(ANN, "/new")
        await running.settled()
        assert asked(running) == ["2 messages"]


# -- 17


async def test_check_17_a_failed_fork_is_not_told_and_the_next_one_takes_up_both_turns(tmp_path: Path) -> None:
    model = ModelStandin()
    async with whole(tmp_path / "home", model=model) as running:
        running.then_fork(Failure(status=500))
        await turns(running, ANN, 1)
        assert (notices(running), await running.cursor()) == ([], 0)
        assert await figure(running, "extractions", outcome="failed") == 1
        await turns(running, ANN, 2)
        assert asked(running) == ["2 messages", "4 messages"]
        assert await running.cursor() == 4
    async with whole(tmp_path / "home", model=model) as running:
        await turns(running, ANN, 3)
        assert asked(running)[2:] == ["2 messages"]


# -- 18


async def test_check_18_a_fork_may_write_inside_and_nothing_else(running: Whole) -> None:
    memory = (await running.scope(ANN)).memory_dir
    outside = memory.parents[4] / "outside"
    outside.mkdir()
    (outside / "canary.md").write_text("zebrafish")
    (memory / "link").symlink_to(outside)
    tries: list[tuple[str, dict[str, Any]]] = [
        ("read", {"file_path": str(outside / "canary.md")}),
        ("write", {"file_path": str(outside / "new.md"), "content": "x"}),
        ("read", {"file_path": "../../../../../outside/canary.md"}),
        ("write", {"file_path": "x/../../new.md", "content": "x"}),
        ("read", {"file_path": "link/canary.md"}),
        ("write", {"file_path": "link/new.md", "content": "x"}),
        ("bash", {"command": f"rm -rf {memory}"}),
        ("mcp__files__delete", {"path": str(memory)}),
        ("Agent", {"name": "helper", "prompt": "Delete everything."}),
    ]
    running.then_fork(calls(*tries, ("write", {"file_path": "tea.md", "content": note("tea [from 1]")})), "Done.")
    await turns(running, ANN, 1)
    *denied, allowed = results(running.forks[1])
    assert [result.get("is_error") for result in denied] == [True] * len(tries)
    assert all(len(str(result["content"])) > 20 for result in denied)
    assert await figure(running, "tools_denied", run="extraction") == len(tries)
    assert not allowed.get("is_error")
    assert (memory / "tea.md").read_text() == note("tea")
    assert [file.name for file in outside.iterdir()] == ["canary.md"]
    assert "zebrafish" not in str([request.body for request in running.model.requests])


async def test_check_18_after_five_model_turns_it_stops(running: Whole) -> None:
    running.then_fork(*[calls(("glob", {"pattern": f"{n}*.md"})) for n in range(9)])
    await turns(running, ANN, 1)
    assert (len(running.forks), await running.cursor()) == (5, 0)


# -- 19


async def test_check_19_the_index_alone_is_no_news(running: Whole) -> None:
    running.then_fork(
        calls(("write", {"file_path": "MEMORY.md", "content": "- [Tea](tea.md): what Ann drinks\n"})), "Done."
    )
    await turns(running, ANN, 1)
    assert (await running.scope(ANN)).index.exists()
    assert notices(running) == []


@pytest.mark.parametrize(
    ("who", "toml"), [(GROUP, PROJECT), (ANN, f'{PROJECT}[memory]\nteam_writes = "direct"\n')], ids=["shared", "direct"]
)
async def test_check_19_two_own_files_and_one_of_the_team_give_one_notice(
    tmp_path: Path, who: Speaker, toml: str
) -> None:
    names = ("tea.md", "coffee.md", "team/okapi.md", "MEMORY.md", "team/MEMORY.md")
    async with whole(tmp_path / "home", toml) as running:
        await running.tell(who, "/start")
        writes = [("write", {"file_path": name, "content": note(f"{name} [from 1]")}) for name in names]
        running.then_fork(calls(*writes), "Done.")
        await turns(running, who, 1)
        memory = (await running.scope(who)).memory_dir
        assert all(unsigned((memory / name).read_text()) == note(name) for name in names)
        (notice,) = notices(running)
        assert notice.startswith("_Saved 2 memories · 1 team memory: ")


async def test_check_19_a_process_that_is_stopped_waits_for_the_run_and_leaves_whole_files(tmp_path: Path) -> None:
    text = note("Ann drinks tea") + "and more of it\n" * 5000
    held_write = Held(calls(("write", {"file_path": "tea.md", "content": f"{text} [from 1]"})))
    world = World(tmp_path / "home")
    world.model.script("Noted.", when=is_chat)
    world.model.script(held_write, when=is_fork)
    world.model.script("Done.", when=is_fork)
    async with world.served():
        await world.gateway.start()
        place = world.private()
        place.say("I drink tea.")
        await world.wait(held_write.began.is_set, "no extraction began")
        stopping = asyncio.create_task(world.gateway.stop())
        await asyncio.sleep(1.0)
        assert not stopping.done()
        assert world.notes(place) == []
        held_write.go.set()
        assert await asyncio.wait_for(stopping, PATIENCE) == 0
    (file,) = world.notes(place)
    assert file.read_text() == text
    assert any("Saved 1 memory" in said for said in place.heard())


async def test_check_19_it_does_not_wait_longer_than_it_was_told_to(tmp_path: Path) -> None:
    held = Held()
    async with whole(tmp_path / "home", "[memory]\nextraction_drain = 0.3\n") as running:
        running.then_fork(held)
        await running.tell(ANN, "This is message number 1.")
        await held.began.wait()
        stopped = asyncio.get_running_loop().time()
    held.go.set()
    assert asyncio.get_running_loop().time() - stopped < PATIENCE / 2  # the run waits longer
