"""Instruction files, through the gateway: what stands in the prompt, what comes up with a file, who sees whose."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.llm.standin.answers import Answer
from gateway.llm.standin.request import Conversation
from tests.acceptance.whole import ANN, BOB, Speaker, Whole, calls, whole

GROUP = Speaker(user="42", chat="-100")
OTHER_GROUP = Speaker(user="42", chat="-200")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "garden"
    (root / ".claude" / "rules").mkdir(parents=True)
    (root / "CLAUDE.md").write_text("Speak of plants by their botanical names.\n\n@beds.md\n")
    (root / "beds.md").write_text("Beds are numbered from the shed.\n")
    (root / ".claude" / "rules" / "csv.md").write_text("---\npaths: '*.csv'\n---\nYields are in kilograms.\n")
    (root / "yields.csv").write_text("bed,kg\n3,12\n")
    return root


@pytest.fixture
async def running(tmp_path: Path, root: Path) -> AsyncIterator[Whole]:
    toml = f'[projects.garden]\nroot = "{root}"\nchats = ["telegram:-100"]\n'
    async with whole(tmp_path / "home", toml) as running:
        yield running


def system(running: Whole) -> str:
    return Conversation.of(running.chats[-1].body).system


async def test_a_chat_is_told_its_own_and_its_projects_instructions_with_what_they_include(running: Whole) -> None:
    home = running.core.homes.home(GROUP.principal)
    home.mkdir(parents=True, exist_ok=True)
    (home / "CLAUDE.md").write_text("Answer in rhymes.\n")
    await running.tell(GROUP, "good morning to you")
    told = system(running)
    assert told.index("Answer in rhymes.") < told.index("botanical names") < told.index("# Memory")
    assert "numbered from the shed" in told


async def test_nobody_is_told_the_instructions_of_another_home_or_project(running: Whole) -> None:
    home = running.core.homes.home(ANN.principal)
    home.mkdir(parents=True, exist_ok=True)
    (home / "CLAUDE.md").write_text("My secret wish: call me Queen.\n")
    for speaker in (GROUP, OTHER_GROUP, BOB):
        await running.tell(speaker, "good morning to you")
        assert "Queen" not in system(running)
    assert "botanical" not in system(running)
    await running.tell(ANN, "good morning to you")
    assert "Queen" in system(running)
    assert "botanical" not in system(running)


async def test_a_rule_for_a_file_comes_up_once_when_that_file_is_read(running: Whole, root: Path) -> None:
    read = calls(("read", {"file_path": str(root / "yields.csv")}))
    running.then(read, Answer(text="12 kg."), read, Answer(text="Still 12 kg."))
    await running.tell(GROUP, "what did bed 3 give?")
    assert "in kilograms" not in system(running)
    assert running.chats[-1].raw.count(b"in kilograms") == 1
    await running.tell(GROUP, "and today?")
    assert running.chats[-1].raw.count(b"in kilograms") == 1


async def test_the_command_names_the_files_in_their_order_and_nothing_of_others(running: Whole) -> None:
    answer = await running.tell(GROUP, "/instructions")
    assert answer.index("CLAUDE.md") < answer.index("beds.md")
    assert "garden" in answer
    assert "garden" not in await running.tell(BOB, "/instructions")


async def test_the_command_says_where_the_files_of_the_home_really_lie(running: Whole) -> None:
    folder = running.core.homes.home(BOB.principal)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CLAUDE.md").write_text("Answer in rhymes.\n")
    answer = await running.tell(BOB, "/instructions")
    assert "~/" not in answer
    assert f"`homes/{folder.name}/CLAUDE.md`" in answer
    assert f"`homes/{folder.name}` is your folder" in answer
