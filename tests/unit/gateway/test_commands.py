from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from adapters.base import Inbound
from adapters.doubles import RecordingAdapter
from gateway.access import Access
from gateway.commands.erasure import ErasureCommands
from gateway.commands.jobs import JobsCommand
from gateway.commands.memory import MemoryCommands
from gateway.commands.table import MENU, Asked, Commands, Reply
from gateway.commands.user import UserCommands
from gateway.commands.why import WhyCommand
from gateway.db.engine import Database
from gateway.erasures import Erasures
from gateway.history import History
from gateway.inbox import Claim
from gateway.llm.client import Tokens
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.usage import Usage
from memory.doubles import LocalLeases
from memory.instructions.layers import Instructions
from memory.notes import Notes
from memory.paths import Homes
from memory.scan import Scanner
from memory.scope import Mode, OptOut, Part, Scope
from scheduler.board import Board
from scheduler.clock import SchedulerClock
from scheduler.runs import Runs

Run = Callable[..., Any]


@pytest.fixture
def scope(make_scope: Callable[..., Scope]) -> Scope:
    return make_scope()


@pytest.fixture
def usage(database: Database, now: Any) -> Usage:
    return Usage(database, now)


@pytest.fixture
def model() -> dict[str, str]:
    """What the environment says of the model."""
    return {"ANTHROPIC_API_KEY": "key"}


def sees_little() -> RecordingAdapter:
    adapter = RecordingAdapter()
    adapter.sees = "I see mentions only."
    return adapter


@pytest.fixture
def settings(settings_of: Callable[..., Settings], model: dict[str, str]) -> Settings:
    return settings_of(**model)


@pytest.fixture
def commands(database: Database, history: History, usage: Usage, now: Any, settings: Settings) -> Commands:
    scanner, leases, provenance = Scanner(limit=1000), LocalLeases(), Provenance(database)
    homes = Homes(root=settings.home / "homes", settings=settings.memory)
    scopes = Scopes(settings, homes, Access(database, settings, now), database)
    user = UserCommands(
        settings=settings, scopes=scopes, history=history, usage=usage, scanner=scanner, clock=now,
        adapters={"telegram": sees_little()},
        instruction_files=Instructions(homes=homes, managed_dir=settings.managed_dir, settings=settings.instructions),
    )  # fmt: skip
    memory = MemoryCommands(notes=Notes(leases=LocalLeases()), scanner=scanner, clock=now)
    why = WhyCommand(provenance=provenance, scanner=scanner, clock=now, settings=settings)
    erasure = ErasureCommands(
        settings=settings, scopes=scopes,
        erasures=Erasures(database, now), provenance=provenance, notes=Notes(leases=leases), scanner=scanner,
        leases=leases, forget_in_team=AsyncMock(return_value=""),
    )  # fmt: skip
    runs = Runs(database, clock=now, holder="test")
    clock = SchedulerClock([], runs=runs, settings=settings.scheduler, clock=now)
    jobs = JobsCommand(settings=settings, scheduler=clock, board=Board(clock, runs=runs, clock=now), clock=now)
    handlers = {
        "dream": user.help,
        "mode": user.help,
        "team": user.help,
        "agents": user.help,
    }  # they have tests of their own
    return Commands(
        {**handlers, **user.handlers, **memory.handlers, **why.handlers, **erasure.handlers, **jobs.handlers}
    )


@pytest.fixture
def run(commands: Commands, scope: Scope, said: Callable[..., Inbound], now: Any) -> Run:
    async def go(words: str, *, within: Scope = scope, in_conversation: bool = True) -> Reply:
        inbound = replace(said(words), in_conversation=in_conversation)
        claim = Claim(
            id=1, token="t", inbound=inbound, principal=within.principal, attempts=1, stopped=False,
            received_at=now().timestamp(),
        )  # fmt: skip
        return await commands.run(claim, within)

    return go


def note(scope: Scope, name: str, text: str = "Ann drinks tea.\n") -> Path:
    path = scope.memory_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: Tea\ndescription: what Ann drinks\ntype: user\n---\n\n{text}")
    return path


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/help", True),
        ("/memory tea", True),
        ("/help@bot", True),
        ("  /new  ", True),
        ("/etc/passwd is a file", False),
        ("/ help", False),
        ("/1", False),
        ("//x", False),
        ("help", False),
        ("", False),
        ("   ", False),
    ],
)
def test_a_command_is_a_slash_and_a_word(text: str, meant: bool) -> None:
    assert Commands.is_command(text) is meant


async def test_each_row_of_the_menu_is_answered_and_none_other(commands: Commands, run: Run) -> None:
    for name, _ in MENU:
        assert "don't know" not in (await run(f"/{name}")).text
        assert (await run(f"/{name.upper()}@Bot")).text == (await run(f"/{name}")).text
    assert "`/nonsense`" in (await run("/nonsense")).text

    async def handler(_: Asked) -> Reply:
        raise AssertionError

    with pytest.raises(ValueError, match="differ"):
        Commands({"help": handler})


async def test_help_lists_every_command_and_says_how_to_reach_the_bot_here(run: Run, scope: Scope) -> None:
    private, shared = (await run("/help")).text, (await run("/help", within=replace(scope, shared=True))).text
    assert all(f"`/{name}`" in private for name, _ in MENU)
    assert "between us" in private
    assert "Mention me" in shared
    assert "between us" not in shared


async def test_only_new_ends_the_session(run: Run) -> None:
    ending = [name for name, _ in MENU if (await run(f"/{name}")).ends_session]
    assert ending == ["new"]


@pytest.mark.parametrize("name", ["new", "stop", "why", "ignore"])
async def test_where_there_is_no_conversation_none_is_ended_or_stopped(run: Run, name: str) -> None:
    reply = await run(f"/{name} on", in_conversation=False)
    assert f"write `/{name}` in it, after mentioning me" in reply.text
    assert not reply.ends_session


@pytest.mark.parametrize("name", ["help", "status", "memory"])
async def test_what_needs_no_conversation_is_answered_outside_one(run: Run, name: str) -> None:
    assert await run(f"/{name}", in_conversation=False) == await run(f"/{name}")


@pytest.mark.parametrize("model", [{}])
async def test_status_without_a_model_names_the_stand_in_and_how_to_set_one(
    run: Run, scope: Scope, usage: Usage
) -> None:
    await usage.record(principal=scope.principal, purpose="chat", model="m", tokens=Tokens(input=1000))
    text = (await run("/status")).text
    assert "built-in stand-in" in text
    assert "`ANTHROPIC_API_KEY`" in text
    assert "claude" not in text
    assert "tokens" not in text


async def test_status_says_what_is_on_and_what_it_cost(run: Run, scope: Scope, usage: Usage) -> None:
    note(scope, "tea.md")
    tokens = Tokens(input=1000, output=200, cache_read=34)
    await usage.record(principal=scope.principal, purpose="chat", model="m", tokens=tokens)
    await usage.record(principal="person:telegram:43", purpose="chat", model="m", tokens=tokens)
    text = (await run("/status")).text
    for part in ("telegram:42", "private", "1 note,", "1,234 tokens", "I see mentions only"):
        assert part in text
    assert "- Model: `claude-" in text
    logging = replace(scope, mode=Mode.LOG, team_dir=scope.memory_dir / "team", shared=True)
    text = (await run("/status", within=logging)).text
    assert "daily log" in text
    assert "team memory of tea" in text


async def test_memory_lists_and_shows_what_is_there(run: Run, scope: Scope) -> None:
    assert "nothing here yet" in (await run("/memory")).text
    note(scope, "tea.md")
    assert "- `tea.md` what Ann drinks (user, " in (await run("/memory")).text
    for name in ("tea.md", "tea", "show tea", "`tea.md`", str(scope.memory_dir / "tea.md")):
        assert "Ann drinks tea." in (await run(f"/memory {name}")).text, name
    assert "no note `coffee`" in (await run("/memory coffee")).text


async def test_a_note_is_shown_by_its_title_or_how_that_begins_and_several_are_listed(run: Run, scope: Scope) -> None:
    note(scope, "what-ann-drinks.md")
    for name in ("Tea", "TEA", "what ann drinks", "What-Ann", "`Te`"):
        assert "Ann drinks tea." in (await run(f"/memory {name}")).text, name
    for number in range(12):
        note(scope, f"whatever-{number}.md")
    text = (await run("/memory what")).text
    assert "Several notes fit `what`" in text
    assert (text.count("- `"), "… and 3 more." in text, "drinks tea" in text) == (10, True, False)


async def test_a_long_list_and_a_long_note_are_cut(run: Run, scope: Scope) -> None:
    for number in range(45):
        note(scope, f"{number}.md", "x" * 10_000)
    assert "… and 5 more." in (await run("/memory")).text
    assert len((await run("/memory 1")).text) < 6200


async def test_memory_shows_nothing_from_elsewhere(run: Run, scope: Scope, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    root.mkdir()
    for place in (tmp_path / "secret.md", root / "secret.md"):
        place.write_text("a canary\n")
    (scope.memory_dir / "link.md").symlink_to(tmp_path / "secret.md")
    member = replace(scope, readable=(scope.memory_dir, root), project_root=root)
    outside = (str(tmp_path / "secret.md"), "../" * 4 + "secret.md", str(root / "secret.md"), "~/secret.md", "..")
    for name in (*outside, "link.md", "link"):
        assert "canary" not in (await run(f"/memory {name}", within=member)).text


async def test_status_says_what_is_opted_out_of_and_which_file_says_so(run: Run, scope: Scope) -> None:
    assert "Opted out" not in (await run("/status")).text
    dream = OptOut(part=Part.DREAM, file="settings.toml")
    recall = OptOut(part=Part.RECALL, file=".claude/reverie.toml", fault="switch_neither_on_nor_off")
    text = (await run("/status", within=scope.after([dream, recall]))).text
    assert "- Opted out of: the nightly tidying (`settings.toml`), recalling notes (`.claude/reverie.toml`" in text
    assert "can't be understood there: switch_neither_on_nor_off" in text
    off = scope.after([OptOut(part=Part.MEMORY, file="settings.toml", fault="TOMLDecodeError")])
    assert "- Opted out of: memory (`settings.toml`" in (await run("/status", within=off)).text


async def test_status_names_the_agents_with_their_memory_and_counts_files_at_fault(
    run: Run, settings_of: Callable[..., Settings]
) -> None:
    assert "Agents" not in (await run("/status")).text
    folder = settings_of().home / "agents"
    folder.mkdir(parents=True)
    for name, more in (("scout", ""), ("gardener", "memory: user\n"), ("odd", "tools: [bash]\n")):
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: d\n{more}---\n\nWork.\n")
    expected = "- Agents: `gardener` (memory: user), `odd` (no memory), `scout` (no memory); 1 file needs mending"
    assert expected in (await run("/status")).text


async def test_memory_and_status_say_that_memory_is_off(run: Run, scope: Scope) -> None:
    note(scope, "tea.md")
    off = replace(scope, enabled=False)
    assert "Memory is switched off here" in (await run("/memory", within=off)).text
    assert "Memory is switched off here" in (await run("/memory tea", within=off)).text
    assert "Memory is switched off here" in (await run("/remember that I drink tea", within=off)).text
    assert "Memory is switched off here" in (await run("/dream", within=off)).text
    assert "- Memory: off" in (await run("/status", within=off)).text
