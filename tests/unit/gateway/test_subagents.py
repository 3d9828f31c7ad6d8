"""The `Agent` tool: fresh runs with rights of their own, over the real SDK and a model server on loopback."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from structlog.testing import capture_logs

from adapters.serving import serving
from gateway.agent.subagents import AGENT, NESTED, PURPOSE, Subagents
from gateway.db.engine import Database
from gateway.llm import client as llm
from gateway.llm.standin.answers import Answer, Flaw, ToolCall, output_tokens
from gateway.llm.standin.server import ModelStandin
from gateway.settings import Settings
from gateway.tools.definitions import DEFINITIONS
from gateway.tools.toolbox import Allowed, always
from gateway.usage import Usage
from memory.agent_snapshots import Snapshots
from memory.doubles import LocalLeases
from memory.notes import Notes
from memory.ports import Rights
from memory.scan import Scanner
from memory.scope import Mode, Scope

ANN = "person:telegram:42"
NOTE_OF_TEA = "---\nname: a\ndescription: tea\ntype: user\n---\n\n- tea is green\n"
REVIEWER = "name: reviewer\ndescription: Reads drafts\ntools: Read, Grep, Glob"


class World:
    """A home with agents, a project's root, and one chat; the model says what a test has scripted."""

    def __init__(self, base: Path, model: llm.Model, database: Database, settings: Settings, now: Any) -> None:
        self.home, self.root = base.resolve() / "home", base.resolve() / "root"
        (self.root / ".claude").mkdir(parents=True)
        leases = LocalLeases()
        self.permitted: Allowed = always
        self.notes = Notes(leases=leases, settings=settings.memory)
        self.usage = Usage(database, now)
        self.subagents = Subagents(
            home=self.home,
            memory_base=self.home,
            model=model,
            settings=settings.model,
            memory=settings.memory,
            notes=self.notes,
            scanner=Scanner(limit=100),
            usage=self.usage,
            clock=now,
            max_turns=3,
            snapshots=Snapshots(self.notes, leases, settings.memory),
        )

    def agent(self, head: str = REVIEWER, prompt: str = "Read the draft.", *, trusted: bool = True) -> None:
        folder = self.home / "agents" if trusted else self.root / ".claude/agents"
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.iterdir()))
        (folder / f"{number}.md").write_text(f"---\n{head}\n---\n{prompt}\n")

    def scope(self, principal: str = ANN, *, shared: bool = False) -> Scope:
        directory = self.home / "homes" / principal.replace(":", "_") / "projects/tea/memory"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "canary.md").write_text("CANARY")
        return Scope(
            principal=principal, project="tea", memory_dir=directory, team_dir=None, mode=Mode.AUTO,
            shared=shared, enabled=True, timezone="UTC", readable=(directory, self.root), writable=(directory,),
            project_root=self.root,
        )  # fmt: skip

    async def run(self, name: str = "reviewer", prompt: str = "look", *, scope: Scope | None = None) -> str:
        scope = scope or self.scope()
        rights = Rights(read=scope.readable, write=scope.writable)
        tool = self.subagents.tool(scope, rights, permitted=self.permitted)
        return await tool({"name": name, "prompt": prompt})


@pytest.fixture
def standin() -> ModelStandin:
    return ModelStandin(models=None)


@pytest.fixture
async def world(
    tmp_path: Path, standin: ModelStandin, database: Database, settings_of: Callable[..., Settings], now: Any
) -> AsyncIterator[World]:
    settings = settings_of(ANTHROPIC_API_KEY="k", REVERIE_MODEL__RETRIES="0")
    async with serving(standin.app) as url, llm.connect(settings.model, base_url=url) as model:
        yield World(tmp_path, model, database, settings, now)


def uses(standin: ModelStandin, *calls: tuple[str, Mapping[str, Any]], report: str = "done") -> None:
    standin.script(Answer(tools=[ToolCall(name=name, input=given) for name, given in calls]))
    standin.script(report)


def results(standin: ModelStandin) -> list[tuple[str, bool]]:
    """Return what the last request holds of tool results, and which were errors."""
    blocks = standin.requests[-1].body["messages"][-1]["content"]
    return [(str(block["content"]), block.get("is_error", False)) for block in blocks]


def system(standin: ModelStandin) -> str:
    return "\n\n".join(block["text"] for block in standin.requests[-1].body["system"])


async def test_what_is_wrong_with_a_file_is_logged_once_until_it_changes(world: World) -> None:
    world.agent("name: a\ndescription: b\ntools: [bash]")
    world.agent("no: name", trusted=False)
    with capture_logs() as logged:
        for scope in (world.scope(), world.scope("person:telegram:43"), replace(world.scope(), project_root=None)):
            await world.subagents.known(scope)
        assert [entry["file"] for entry in logged] == ["agents/0.md", ".claude/agents/0.md"]
        (world.home / "agents/0.md").write_text("no head")
        await world.subagents.known(world.scope())
    assert [(entry["event"], entry["file"]) for entry in logged[2:]] == [("agent_file_fault", "agents/0.md")]


async def test_an_agent_runs_afresh_and_its_last_words_are_the_result(world: World, standin: ModelStandin) -> None:
    world.agent(prompt="Read the draft with care.")
    standin.script(
        Answer(text="Looking.", tools=[ToolCall(name="glob", input={"pattern": "*", "path": str(world.root)})])
    )
    standin.script("All <reminder>good</reminder>.")
    assert await world.run(prompt="look at </reminder> it") == "All &lt;reminder>good&lt;/reminder>."
    first = standin.requests[0].body
    assert "Read the draft with care." in first["system"][0]["text"]
    assert [block["text"] for block in first["messages"][0]["content"]] == [
        "<reminder>\nToday is Friday, 2026-05-01.\n</reminder>",
        "look at &lt;/reminder> it",
    ]


async def test_the_list_of_tools_is_the_same_bytes_as_in_every_request(world: World, standin: ModelStandin) -> None:
    world.agent(f"{REVIEWER}\nmemory: user")
    uses(standin, ("read", {"file_path": "gone.md"}))
    await world.run()
    sent = [json.dumps(request.body["tools"]) for request in standin.requests]
    assert sent == [json.dumps(DEFINITIONS)] * 2


async def test_tokens_are_recorded_under_the_agents_purpose(world: World, standin: ModelStandin) -> None:
    world.agent()
    standin.script("done")
    await world.run()
    spent = await world.usage.since(ANN, 0.0)
    assert set(spent) == {PURPOSE}
    assert spent[PURPOSE].output > 0


async def test_what_an_agent_used_before_its_model_failed_is_recorded_too(world: World, standin: ModelStandin) -> None:
    world.agent()
    first = Answer(text="Looking.", tools=[ToolCall(name="glob", input={"pattern": "*"})])
    standin.script(first)
    standin.script(Answer(text="Half an answer, " * 9, flaw=Flaw.DROP, flaw_after=3))
    with pytest.raises(ToolError, match="gave no report"):
        await world.run()
    spent = await world.usage.since(ANN, 0.0)
    assert spent[PURPOSE].output > output_tokens(first)


async def test_the_chats_model_runs_it_unless_the_operator_names_another(world: World, standin: ModelStandin) -> None:
    world.agent("name: one\ndescription: d\nmodel: small-1")
    world.agent("name: two\ndescription: d\nmodel: dear-1", trusted=False)
    for name in ("one", "two"):
        standin.script("done")
        await world.run(name)
    assert [request.body["model"] for request in standin.requests] == ["small-1", world.subagents.settings.chat]


async def test_the_chats_memory_is_in_nothing_an_agent_sees_or_reaches(world: World, standin: ModelStandin) -> None:
    for trusted in (True, False):
        world.agent(f"name: a{trusted:d}\ndescription: d\nmemory: local", trusted=trusted)
        scope = world.scope()
        uses(
            standin,
            ("read", {"file_path": str(scope.memory_dir / "canary.md")}),
            ("read", {"file_path": "../../memory/canary.md"}),
            ("grep", {"pattern": "C[A]NARY", "path": str(scope.memory_dir)}),
            ("glob", {"pattern": "**/*", "path": str(world.home)}),
            ("write", {"file_path": str(scope.memory_dir / "x.md"), "content": "x"}),
            ("delete", {"file_path": str(scope.memory_dir / "canary.md")}),
        )
        await world.run(f"a{trusted:d}", scope=scope)
        assert all(is_error for _, is_error in results(standin))
        assert not any(b"CANARY" in request.raw for request in standin.requests)
        assert [path.name for path in scope.memory_dir.iterdir()] == ["canary.md"]


async def test_memory_is_written_to_the_agents_directory_and_listed_next_time(
    world: World, standin: ModelStandin
) -> None:
    world.agent(f"{REVIEWER}\nmemory: user")
    note = "---\nname: Tone\ndescription: short words\ntype: feedback\n---\n\nx\n"
    uses(standin, ("write", {"file_path": "tone.md", "content": note}))
    await world.run()
    directory = world.home / "homes/person-telegram-42-*/agent-memory/reviewer"
    written = list(world.home.glob(str((directory / "tone.md").relative_to(world.home))))
    assert [path.read_text() for path in written] == [note]
    standin.script("done")
    await world.run()
    assert "- [feedback] tone.md (" in system(standin)


async def test_an_agent_that_runs_while_something_is_forgotten_writes_no_more(
    world: World, standin: ModelStandin
) -> None:
    world.agent("name: keeper\ndescription: Keeps\nmemory: user")
    asked: list[tuple[str, bool]] = []

    async def forgotten(scope: Scope, moment: datetime) -> bool:
        asked.append((scope.principal, moment == world.subagents.clock()))
        return len(asked) > 1

    world.subagents = replace(world.subagents, forgotten=forgotten)
    uses(standin, *(("write", {"file_path": f"{name}.md", "content": "Ann keeps a zebra"}) for name in ("a", "b")))
    await world.run("keeper")
    assert [is_error for _, is_error in results(standin)] == [False, True]
    assert "something was forgotten meanwhile" in results(standin)[1][0]
    assert set(asked) == {(ANN, True)}
    assert [path.name for path in (world.home / "homes").rglob("agent-memory/keeper/*.md")] == ["a.md"]


async def test_two_kinds_of_agents_never_reach_each_others_memory(world: World, standin: ModelStandin) -> None:
    world.agent("name: scout\ndescription: d\nmemory: project")
    world.agent("name: reviewer\ndescription: d\nmemory: project")
    scope = world.scope("chat:telegram:-1", shared=True)
    uses(standin, ("write", {"file_path": "a.md", "content": "SECRETIVE"}))
    await world.run("scout", scope=scope)
    other = world.root / ".claude/agent-memory/scout"
    assert (other / "a.md").exists()
    uses(
        standin,
        ("read", {"file_path": str(other / "a.md")}),
        ("read", {"file_path": "../scout/a.md"}),
        ("grep", {"pattern": "SECRETIVE", "file_path": "a.md", "path": str(other)}),
        ("write", {"file_path": str(other / "a.md"), "content": "x"}),
        ("grep", {"pattern": "SECR", "path": str(world.root / ".claude")}),
        ("glob", {"pattern": ".claude/*/*/*", "path": str(world.root)}),
    )
    await world.run("reviewer", scope=scope)
    found = results(standin)
    assert [is_error for _, is_error in found] == [True] * 4 + [False] * 2
    assert [text for text, _ in found[4:]] == ["no matches"] * 2


async def test_an_agent_uses_the_tools_of_its_file_and_those_for_its_own_memory(
    world: World, standin: ModelStandin
) -> None:
    (world.root / "plan.md").write_text("the plan")
    world.agent("name: reviewer\ndescription: d\ntools: [Glob, Bash]\nmemory: local")
    uses(
        standin,
        ("glob", {"pattern": "*.md", "path": str(world.root)}),
        ("write", {"file_path": "a.md", "content": "x"}),
        ("read", {"file_path": "a.md"}),
        ("read", {"file_path": str(world.root / "plan.md")}),
        ("grep", {"pattern": "x"}),
        ("append", {"file_path": "a.md", "content": "x"}),
        ("bash", {"command": "ls"}),
        ("write", {"file_path": str(world.root / "plan.md"), "content": "x"}),
    )
    await world.run()
    assert [is_error for _, is_error in results(standin)] == [False] * 3 + [True] * 5
    assert (world.root / "plan.md").read_text() == "the plan"


async def test_an_agent_does_nothing_that_the_person_denies_its_caller(world: World, standin: ModelStandin) -> None:
    world.agent(f"{REVIEWER}\nmemory: user")
    asked: list[str] = []

    async def denied(tool: str, arguments: Mapping[str, Any]) -> bool:
        asked.append(f"{tool} {arguments['file_path']}")
        return tool != "write"

    world.permitted = denied
    uses(standin, ("write", {"file_path": "a.md", "content": NOTE_OF_TEA}), ("read", {"file_path": "a.md"}))
    await world.run()
    assert asked == ["write a.md", "read a.md"]
    assert "has not allowed write" in results(standin)[0][0]
    assert not list(world.home.rglob("a.md"))


async def test_an_agent_reads_no_more_than_its_caller(world: World, standin: ModelStandin) -> None:
    (world.root / "plan.md").write_text("the plan")
    world.agent()
    scope = world.scope()
    for rights, is_error in ((scope.readable, False), ((scope.memory_dir,), True)):
        uses(standin, ("read", {"file_path": str(world.root / "plan.md")}))
        await world.subagents.run(scope, Rights(read=rights, write=()), name="reviewer", prompt="look")
        assert results(standin)[0][1] is is_error
        assert (str(world.root) in system(standin)) is not is_error


async def test_an_agent_cant_set_another_to_work(world: World, standin: ModelStandin) -> None:
    world.agent("name: reviewer\ndescription: d\ntools: [Agent, Read]")
    uses(standin, (AGENT, {"name": "reviewer", "prompt": "you do it"}))
    assert await world.run() == "done"
    assert results(standin) == [(NESTED, True)]
    assert len(standin.requests) == 2


async def test_from_a_private_chat_a_projects_memory_is_only_read(world: World, standin: ModelStandin) -> None:
    world.agent("name: reviewer\ndescription: d\nmemory: project")
    uses(standin, ("write", {"file_path": "a.md", "content": "x"}))
    await world.run()
    assert results(standin)[0][1]
    assert "can only read" in system(standin)
    assert not (world.root / ".claude/agent-memory").exists()


async def test_a_shared_chat_sees_nothing_of_what_an_agent_keeps_for_a_person(
    world: World, standin: ModelStandin
) -> None:
    world.agent("name: reviewer\ndescription: d\nmemory: user")
    uses(standin, ("write", {"file_path": "a.md", "content": "---\ndescription: PRIVATE\n---\n"}))
    await world.run()
    standin.forget()
    standin.script("done")
    await world.run(scope=world.scope("chat:telegram:-1", shared=True))
    assert b"PRIVATE" not in standin.requests[0].raw
    standin.script("done")
    await world.run()
    assert b"PRIVATE" in standin.requests[1].raw


async def test_with_memory_off_an_agent_runs_without(world: World, standin: ModelStandin) -> None:
    world.agent("name: reviewer\ndescription: d\nmemory: user")
    uses(standin, ("write", {"file_path": "a.md", "content": "x"}))
    await world.run(scope=replace(world.scope(), enabled=False))
    assert results(standin)[0][1]
    assert len(standin.requests[0].body["system"]) == 1
    assert not list(world.home.rglob("agent-memory*"))


async def test_a_user_memory_begins_with_the_projects_snapshot(world: World, standin: ModelStandin) -> None:
    world.agent("name: reviewer\ndescription: d\nmemory: user")
    folder = world.root / ".claude/agent-memory-snapshots/reviewer"
    folder.mkdir(parents=True)
    (folder / "snapshot.json").write_text('{"updatedAt": "2031-01-01T00:00:00Z"}')
    (folder / "tone.md").write_text("---\ndescription: short words\n---\n")
    standin.script("done")
    await world.run()
    assert "tone.md" in system(standin)


async def test_a_run_that_does_not_end_is_stopped_and_says_so(world: World, standin: ModelStandin) -> None:
    world.agent()
    for number in range(3):
        standin.script(Answer(text=f"step {number}", tools=[ToolCall(name="glob", input={"pattern": "*"})]))
    report = await world.run()
    assert len(standin.requests) == 3
    assert report.startswith("step 0")
    assert report.endswith("what it had said until then.)")


async def test_a_model_that_fails_is_told_as_a_failed_tool(world: World, standin: ModelStandin) -> None:
    world.agent()
    standin.fail(529)
    with pytest.raises(ToolError, match="gave no report"):
        await world.run()
    assert await world.usage.since(ANN, 0.0) == {}


@pytest.mark.parametrize(
    "given", [{"name": "nobody", "prompt": "x"}, {"name": "reviewer", "prompt": " "}, {"name": 3, "prompt": "x"}]
)
async def test_a_call_that_makes_no_sense_reaches_no_model(
    world: World, standin: ModelStandin, given: Mapping[str, Any]
) -> None:
    world.agent()
    scope = world.scope()
    with pytest.raises(ToolError):
        await world.subagents.tool(scope, Rights(read=scope.readable, write=()))(given)
    assert standin.requests == []


async def test_files_that_describe_no_agent_are_named(world: World) -> None:
    world.agent()
    world.agent("name: ../x\ndescription: d", trusted=False)
    known = await world.subagents.known(world.scope())
    assert [agent.name for agent in known.found] == ["reviewer"]
    assert [fault.file for fault in known.faults] == [".claude/agents/0.md"]
