"""What those whom a memory belongs to do without: each part for itself, for them alone, from the next message on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.llm.standin.request import Conversation
from tests.acceptance.whole import ANN, BOB, Speaker, Whole, whole

GROUP = Speaker(user="42", chat="-100")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "garden/.claude").mkdir(parents=True)
    return tmp_path / "garden"


@pytest.fixture
async def running(tmp_path: Path, root: Path) -> AsyncIterator[Whole]:
    toml = f'[projects.garden]\nroot = "{root}"\nchats = ["telegram:-100"]\n'
    async with whole(tmp_path / "home", toml) as running:
        yield running


def wish(running: Whole, who: Speaker, *lines: str) -> None:
    home = running.core.homes.home(who.principal)
    home.mkdir(parents=True, exist_ok=True)
    (home / "settings.toml").write_text("\n".join(["[memory]", *lines]))


async def ask(running: Whole, who: Speaker) -> tuple[int, bool]:
    """Return how many recalls a question makes, and whether something is extracted from it."""
    recalls, forks = len(running.recalls), len(running.forks)
    await running.remember(who, f"{who.name} keeps a zebra")
    await running.tell(who, "Which animal is it that I keep?")
    await running.settled()
    return len(running.recalls) - recalls, len(running.forks) > forks


@pytest.mark.parametrize(
    ("line", "left"), [("recall_enabled = false", (0, True)), ("extraction_enabled = 'perhaps'", (1, False))]
)
async def test_recall_and_extraction_are_left_out_alone_and_only_for_who_said_so(
    running: Whole, line: str, left: tuple[int, bool]
) -> None:
    wish(running, ANN, line)
    assert await ask(running, ANN) == left
    assert await ask(running, BOB) == (1, True)
    assert "Memory: on" in await running.tell(ANN, "/status")


async def test_team_memory_leaves_the_conversation_when_the_projects_file_opts_out_of_it(
    running: Whole, root: Path
) -> None:
    await running.remember(GROUP, "The team keeps an okapi", team=True)
    await running.tell(GROUP, "Which animal do we keep?")
    assert "okapi" in Conversation.of(running.chats[-1].body).system
    (root / ".claude/reverie.toml").write_text("[memory]\nteam_memory_enabled = false\n")
    await running.tell(GROUP, "Which animal is it that we keep?")
    assert b"okapi" not in running.chats[-1].raw
    assert "team memory (`.claude/reverie.toml`)" in await running.tell(GROUP, "/status")
    assert await running.core.night.clock.run_now("team-sync") == []


async def test_nobody_opts_in_to_what_the_operator_has_off(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", "[memory]\nrecall_enabled = false\n") as running:
        wish(running, ANN, "recall_enabled = true")
        assert await ask(running, ANN) == (0, True)
