import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.serving import serving
from gateway.agent.fork import Runs
from gateway.db.engine import Database
from gateway.history import Session
from gateway.llm.client import connect
from gateway.llm.standin.answers import Answer, Failure, Flaw, ToolCall
from gateway.llm.standin.server import ModelStandin, Scripted
from gateway.settings import ModelSettings
from gateway.usage import Usage
from memory import snapshot as snapshots
from memory.doubles import LocalLeases
from memory.errors import SideCallFailed
from memory.notes import Note, Notes
from memory.ports import Outcome, Rights, RunReport
from memory.recall import SCHEMA, Shown
from memory.scope import Scope
from tests.waiting import HANGS


def write(name: str) -> ToolCall:
    return ToolCall(name="write", input={"file_path": name, "content": f"about {name}\n"})


@dataclass(kw_only=True)
class Told:
    """Keeps the progress of a run."""

    seen: list[tuple[int, int, list[str]]]

    async def __call__(self, *, turn: int, text: str, tools: int, written: Sequence[Path]) -> None:
        self.seen.append((turn, tools, [path.name for path in written]))


@dataclass(kw_only=True)
class Bench:
    """Runs over the stand-in; `run` does a fresh run with the right to write in the scope."""

    runs: Runs
    standin: ModelStandin
    usage: Usage
    scope: Scope

    @property
    def rights(self) -> Rights:
        return Rights(read=self.scope.readable, write=self.scope.writable)

    async def run(self, *answers: Scripted, max_turns: int = 5, progress: Told | None = None) -> RunReport:
        for answer in answers:
            self.standin.script(answer)
        return await self.runs.run(
            self.scope,
            purpose="dream",
            system="You tidy.",
            prompt="Tidy up.",
            rights=self.rights,
            max_turns=max_turns,
            progress=progress,
        )

    async def ask(self, answer: Scripted) -> Any:
        self.standin.script(answer)
        return await self.runs.ask(
            self.scope, purpose="recall", system="Pick.", user="From these.", schema=SCHEMA, max_tokens=256
        )


@pytest.fixture
def notes() -> Notes:
    return Notes(leases=LocalLeases())


@pytest.fixture
async def bench(database: Database, make_scope: Callable[..., Scope], notes: Notes, now: Any) -> AsyncIterator[Bench]:
    standin, settings, usage = ModelStandin(), ModelSettings(retries=0, timeout=HANGS), Usage(database, now)
    async with serving(standin.app) as url, connect(settings, base_url=url) as model:
        runs = Runs(model, settings, notes, usage, now)
        yield Bench(runs=runs, standin=standin, usage=usage, scope=make_scope())


async def test_a_run_reports_what_it_wrote_said_and_cost(bench: Bench) -> None:
    report = await bench.run(Answer(tools=[write("a.md"), write("b.md")]), Answer(tools=[write("/x.md")]), "Tidied.")
    assert report.outcome is Outcome.COMPLETED
    assert [path.name for path in report.written] == ["a.md", "b.md"]
    assert (report.text, report.turns) == ("Tidied.", 3)
    spent = (await bench.usage.since(bench.scope.principal, 0.0))["dream"]
    assert spent.output == report.output_tokens > 0
    assert spent.cache_read == report.cache_read_tokens


async def test_a_denied_tool_has_its_reason_and_the_run_goes_on(bench: Bench) -> None:
    report = await bench.run(
        Answer(
            tools=[
                ToolCall(name="read", input={"file_path": "/etc/passwd"}),
                ToolCall(name="delete", input={"file_path": "../x.md"}),
                write("a.md"),
            ]
        ),
        "Done.",
    )
    results = bench.standin.requests[1].body["messages"][-1]["content"]
    assert [bool(result.get("is_error")) for result in results] == [True, True, False]
    assert (report.outcome, len(report.written)) == (Outcome.COMPLETED, 1)


async def test_the_turn_cap_ends_a_run_and_keeps_what_it_wrote(bench: Bench) -> None:
    report = await bench.run(*[Answer(tools=[write(f"{n}.md")]) for n in range(9)])
    assert (report.outcome, report.turns, len(report.written)) == (Outcome.TURN_CAP, 5, 5)


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (Failure(status=500), Outcome.FAILED),
        (Failure(status=400), Outcome.REFUSED),
        (Answer(text="x" * 90, flaw=Flaw.DROP), Outcome.FAILED),
        (Answer(text="No.", stop_reason="refusal"), Outcome.REFUSED),
    ],
    ids=["down", "refused", "broken", "declined"],
)
async def test_a_fault_of_the_model_is_a_report_with_what_was_written_before(
    bench: Bench, last: Scripted, outcome: Outcome
) -> None:
    report = await bench.run(Answer(tools=[write("a.md")]), last)
    assert report.outcome is outcome
    assert [path.name for path in report.written] == ["a.md"]


async def test_a_run_that_is_cut_off_by_the_token_limit_has_not_completed(bench: Bench) -> None:
    report = await bench.run(Answer(tools=[write("a.md")], stop_reason="max_tokens"))
    assert (report.outcome, report.written) == (Outcome.TURN_CAP, ())


async def test_a_run_is_ended_between_two_requests_when_its_tokens_are_used_up(bench: Bench) -> None:
    asked: list[int] = []

    async def until_the_second(spent: int) -> bool:
        asked.append(spent)
        return spent == 0

    for answer in (Answer(tools=[write("a.md")]), "Done."):
        bench.standin.script(answer)
    report = await bench.runs.run(
        bench.scope, purpose="dream", system="You tidy.", prompt="Tidy up.", rights=bench.rights, max_turns=5,
        budget=until_the_second,
    )  # fmt: skip
    assert (report.outcome, [path.name for path in report.written]) == (Outcome.SPENT, ["a.md"])
    used = (await bench.usage.since(bench.scope.principal, 0.0))["dream"]
    assert asked == [0, used.total]
    assert len(bench.standin.requests) == 1


async def test_the_tokens_of_a_run_that_fails_are_counted_too(bench: Bench) -> None:
    report = await bench.run(Answer(tools=[write("a.md")]), Failure(status=400))
    spent = (await bench.usage.since(bench.scope.principal, 0.0))["dream"]
    assert spent.output == report.output_tokens > 0


@pytest.mark.parametrize("flaw", [Flaw.DROP, Flaw.CORRUPT, Flaw.EARLY_END, Flaw.ERROR])
async def test_the_tokens_of_an_answer_that_breaks_off_are_counted_and_the_budget_holds(
    bench: Bench, flaw: Flaw
) -> None:
    report = await bench.run(Answer(text="word " * 100, flaw=flaw, flaw_after=40))
    spent = (await bench.usage.since(bench.scope.principal, 0.0))["dream"]
    assert report.outcome is Outcome.FAILED
    assert spent.input + spent.cache_read + spent.cache_write > 0
    assert spent.output == report.output_tokens > 0


async def test_each_change_of_a_run_is_seen_before_it_is_made(bench: Bench, notes: Notes) -> None:
    seen: list[tuple[str, bool]] = []

    async def see(scope: Scope, path: Path, *, before: str, after: str) -> None:
        seen.append((path.name, snapshots.read_one(scope, path) is not None))

    for answer in (Answer(tools=[write("a.md")]), "Done."):
        bench.standin.script(answer)
    await bench.runs.run(
        bench.scope, purpose="dream", system="You tidy.", prompt="Tidy up.", rights=bench.rights, max_turns=5,
        changes=see,
    )  # fmt: skip
    assert seen == [("a.md", False)]


async def test_progress_is_told_after_each_tool_at_once(bench: Bench) -> None:
    told = Told(seen=[])
    look = ToolCall(name="glob", input={"pattern": "*"})
    await bench.run(Answer(tools=[look, write("a.md")]), Answer(tools=[write("b.md")]), "Done.", progress=told)
    assert told.seen == [(1, 1, []), (1, 2, ["a.md"]), (2, 3, ["a.md", "b.md"])]


async def test_what_a_cancelled_run_wrote_is_told_also_of_a_write_that_was_cut_off(
    bench: Bench, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_in_fact = notes.write

    async def slow(scope: Scope, path: Path, text: str, *, expected: str | None) -> Note:
        done = await write_in_fact(scope, path, text, expected=expected)
        if path.name == "b.md":
            began.set()
            await asyncio.sleep(60)
        return done

    began, told = asyncio.Event(), Told(seen=[])
    monkeypatch.setattr(notes, "write", slow)
    task = asyncio.create_task(bench.run(Answer(tools=[write("a.md"), write("b.md")]), progress=told))
    await asyncio.wait_for(began.wait(), HANGS)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert told.seen[-1][2] == ["a.md", "b.md"]


async def test_a_fork_sends_the_sessions_own_bytes_and_one_message_more(bench: Bench) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "I drink tea."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]},
    ]
    session = Session(
        id=1, principal=bench.scope.principal, project="tea", conversation="telegram:42", shown=Shown(),
        system=[{"type": "text", "text": "You are."}], messages=messages, told_date="", told_notes_at=0.0,
    )  # fmt: skip
    bench.standin.script("Nothing new.")
    report = await bench.runs.fork_of(session, bench.scope)("Look back.", rights=bench.rights, max_turns=5)
    body = bench.standin.requests[0].body
    assert report.outcome is Outcome.COMPLETED
    assert body["system"][0]["text"] == "You are."
    assert len(body["messages"]) == 3
    assert body["messages"][1]["content"] == messages[1]["content"]
    assert body["messages"][2]["content"][0]["text"] == "Look back."
    assert "extraction" in await bench.usage.since(bench.scope.principal, 0.0)


async def test_a_side_query_returns_the_object_and_is_counted(bench: Bench) -> None:
    assert await bench.ask({"selected_memories": ["a.md"]}) == {"selected_memories": ["a.md"]}
    assert bench.standin.requests[0].body["model"] == ModelSettings().recall
    assert "recall" in await bench.usage.since(bench.scope.principal, 0.0)


@pytest.mark.parametrize(
    "answer",
    [Answer(text="{half"), Answer(text="[]"), Answer(text=""), Failure(status=529), Answer(text="{}", flaw=Flaw.DROP)],
)
async def test_anything_else_is_a_side_query_that_failed(bench: Bench, answer: Scripted) -> None:
    with pytest.raises(SideCallFailed):
        await bench.ask(answer)
