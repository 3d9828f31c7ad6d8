"""The texts of all variants of the memory prompt, word for word, in files that are read when they change.

After a change of the words: `pytest tests/unit/memory/test_prompt_snapshots.py --update-snapshots`, then look at the
difference.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from memory.agent_memory import agent_memory_prompt, agent_scope
from memory.agents import Agent, AgentMemory
from memory.prompt import memory_prompt
from memory.scan import NoteHeader
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

SNAPSHOTS = Path(__file__).parent / "snapshots"
INDEX = "- [Tea](tea.md) — how Ann takes it\n"
TEAM_INDEX = "- [Launch](launch.md) — when and why\n"

Variant = tuple[Callable[[Scope], Scope], MemorySettings]


def private(scope: Scope) -> Scope:
    return replace(scope, team_dir=None)


def combined(scope: Scope) -> Scope:
    return scope


def shared(scope: Scope) -> Scope:
    return replace(scope, principal="chat-1", shared=True)


def log(scope: Scope) -> Scope:
    return replace(scope, mode=Mode.LOG)


VARIANTS: Mapping[str, Variant] = {
    "individual": (private, MemorySettings()),
    "individual-everything": (private, MemorySettings(extra_guidelines="Be brief.\n", search_past_context=True)),
    "individual-skip-index": (private, MemorySettings(skip_index=True)),
    "individual-shared-chat": (lambda scope: shared(private(scope)), MemorySettings()),
    "combined-ask": (combined, MemorySettings()),
    "combined-direct": (combined, MemorySettings(team_writes="direct")),
    "combined-off": (combined, MemorySettings(team_writes="off")),
    "combined-skip-index": (combined, MemorySettings(skip_index=True)),
    "combined-shared-chat": (shared, MemorySettings()),
    "log": (lambda scope: log(private(scope)), MemorySettings()),
    "log-skip-index": (lambda scope: log(private(scope)), MemorySettings(skip_index=True)),
    "log-team": (log, MemorySettings()),
    "log-shared-chat": (lambda scope: log(shared(scope)), MemorySettings()),
}
AGENTS: Mapping[str, tuple[AgentMemory, bool, bool]] = {
    "agent-user": (AgentMemory.USER, False, True),
    "agent-user-empty": (AgentMemory.USER, False, False),
    "agent-local": (AgentMemory.LOCAL, False, True),
    "agent-project-private-chat": (AgentMemory.PROJECT, False, True),
    "agent-project-shared-chat": (AgentMemory.PROJECT, True, True),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def scope(home: Path) -> Scope:
    """A scope whose directories hold an index each."""
    directory = home / "homes" / "ann" / "projects" / "harbour" / "memory"
    (directory / "team").mkdir(parents=True)
    (directory / "MEMORY.md").write_text(INDEX)
    (directory / "team" / "MEMORY.md").write_text(TEAM_INDEX)
    return Scope(
        principal="ann", project="harbour", memory_dir=directory, team_dir=directory / "team", mode=Mode.AUTO,
        shared=False, enabled=True, timezone="UTC", readable=(directory,), writable=(directory,),
    )  # fmt: skip


def check(name: str, text: str, *, home: Path, config: pytest.Config) -> None:
    """Compare a text, in which the home is called /HOME, with the file that holds it; or write the file and fail."""
    file, now = SNAPSHOTS / f"{name}.md", text.replace(str(home), "/HOME") + "\n"
    if config.getoption("--update-snapshots", default=False):
        file.write_text(now)
        pytest.fail(f"{file.name} is written; look at the difference, and run again without the flag")
    assert now == file.read_text()


@pytest.mark.parametrize("name", VARIANTS)
async def test_the_memory_prompt_is_what_its_file_holds(
    name: str, scope: Scope, home: Path, pytestconfig: pytest.Config
) -> None:
    varied, settings = VARIANTS[name]
    check(name, await memory_prompt(varied(scope), settings), home=home, config=pytestconfig)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agents_memory_prompt_is_what_its_file_holds(
    name: str, scope: Scope, home: Path, pytestconfig: pytest.Config
) -> None:
    kind, in_shared_chat, notes = AGENTS[name]
    agent = Agent(name="reviewer", description="Reviews.", prompt="Review.", memory=kind)
    memory = agent_scope(shared(scope) if in_shared_chat else scope, agent, home=home)
    header = NoteHeader(
        path=memory.memory_dir / "tea.md", name="tea.md", mtime=1e9, type="user", description="green", team=False
    )
    check(name, agent_memory_prompt(memory, agent, [header] if notes else []), home=home, config=pytestconfig)


def test_every_file_is_some_variants() -> None:
    assert {file.stem for file in SNAPSHOTS.iterdir()} == {*VARIANTS, *AGENTS}
