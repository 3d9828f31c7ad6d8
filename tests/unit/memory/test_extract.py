from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.dailylog import log_path
from memory.extract import Decision, Extracted, Pending, Verdict, decide, extract, extraction_prompt, rights
from memory.ports import Outcome, Rights, RunReport
from memory.prompt import rules
from memory.scan import Scanner
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

NOW = datetime(2031, 5, 5, 23, 30, tzinfo=UTC)
SETTINGS = MemorySettings()
TURN = Pending(new_messages=2, turns=1)


def clock() -> datetime:
    return NOW


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    directory = tmp_path.resolve() / "memory"
    directory.mkdir()
    return Scope(
        principal="person-1", project="harbour", memory_dir=directory, team_dir=None, mode=Mode.AUTO, shared=False,
        enabled=True, timezone="Europe/Berlin", readable=(directory,), writable=(directory,),
    )  # fmt: skip


@pytest.fixture
def team_scope(scope: Scope) -> Scope:
    return replace(scope, team_dir=scope.memory_dir / "team")


def note(scope: Scope, name: str, title: str) -> Path:
    path = scope.memory_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {title}\ndescription: about\ntype: user\n---\n\ntext\n")
    return path


@dataclass
class ScriptedFork:
    """Reports what it was made with and keeps what it was asked."""

    outcome: Outcome = Outcome.COMPLETED
    written: tuple[Path, ...] = ()
    asked: list[tuple[str, Rights, int]] = field(default_factory=list)

    async def __call__(self, prompt: str, *, rights: Rights, max_turns: int) -> RunReport:
        self.asked.append((prompt, rights, max_turns))
        return RunReport(outcome=self.outcome, written=self.written, text="", turns=2)


async def run(scope: Scope, fork: ScriptedFork, settings: MemorySettings = SETTINGS) -> Extracted:
    return await extract(scope, TURN, fork, Scanner(), settings, clock)


async def prompt_for(scope: Scope, pending: Pending = TURN, settings: MemorySettings = SETTINGS) -> str:
    return await extraction_prompt(scope, pending, Scanner(), settings, now=NOW)


def reason(scope: Scope, pending: Pending, settings: MemorySettings = SETTINGS, *, main_agent: bool = True) -> str:
    decision = decide(scope, pending, settings, main_agent=main_agent)
    assert (decision.verdict is Verdict.RUN) == (not decision.reason)
    return decision.reason


def test_a_turn_with_something_new_is_run(scope: Scope) -> None:
    assert decide(scope, TURN, SETTINGS) == Decision(verdict=Verdict.RUN)


def test_guards_stand_in_their_order(scope: Scope) -> None:
    throttled = MemorySettings(extraction_throttle=3)
    off = replace(scope, enabled=False)
    nothing = Pending(new_messages=0, turns=1, direct_writes=(scope.index,))
    written = Pending(new_messages=2, turns=1, direct_writes=(scope.index,))
    assert reason(off, nothing, throttled, main_agent=False) == "not_main_agent"
    assert reason(off, nothing, throttled) == "disabled"
    assert reason(scope, nothing, throttled) == "nothing_new"
    assert reason(scope, written, throttled) == "throttled"
    assert reason(scope, replace(written, turns=3), throttled) == "direct_write"


def test_only_a_direct_write_moves_the_cursor_without_a_run(scope: Scope) -> None:
    written = replace(TURN, direct_writes=(scope.memory_dir / "a.md",))
    assert decide(scope, written, SETTINGS).verdict is Verdict.SKIP_MOVE_CURSOR
    for pending, settings in (
        (Pending(new_messages=0, turns=1), SETTINGS),
        (TURN, MemorySettings(extraction_throttle=2)),
        (TURN, MemorySettings(extraction_enabled=False)),
    ):
        assert decide(scope, pending, settings).verdict is Verdict.SKIP_KEEP_CURSOR


def test_a_forced_run_ignores_the_throttle_but_not_a_direct_write(scope: Scope) -> None:
    throttled = MemorySettings(extraction_throttle=3)
    assert reason(scope, replace(TURN, forced=True), throttled) == ""
    assert reason(scope, replace(TURN, forced=True, direct_writes=(scope.index,)), throttled) == "direct_write"


def test_a_write_elsewhere_or_in_a_shared_chat_does_not_skip_the_run(scope: Scope, tmp_path: Path) -> None:
    assert reason(scope, replace(TURN, direct_writes=(tmp_path / "elsewhere.md",))) == ""
    assert reason(replace(scope, shared=True), replace(TURN, direct_writes=(scope.index,))) == ""


async def test_the_prompt_says_what_where_and_how_far_back(scope: Scope) -> None:
    prompt = await prompt_for(scope, Pending(new_messages=7, turns=2))
    assert "memory extraction" in prompt
    assert f"Memory directory: {scope.memory_dir}\n" in prompt
    assert "last 7 messages" in prompt
    assert "Existing notes" not in prompt
    assert "Day log" not in prompt


async def test_the_prompt_refers_to_sections_that_the_memory_prompt_has(scope: Scope) -> None:
    for mode in Mode:
        scoped = replace(scope, mode=mode)
        named = (await prompt_for(scoped)).split("stand above: ")[1].split(".")[0].split(", ")
        assert len(named) >= 3
        assert all(f"## {name.strip(chr(34))}\n" in rules(scoped, SETTINGS) for name in named)


async def test_the_prompt_is_a_small_part_of_the_memory_prompt(team_scope: Scope) -> None:
    assert len(await prompt_for(team_scope)) < 0.15 * len(rules(team_scope, SETTINGS))


async def test_the_rules_on_sources_are_told(scope: Scope) -> None:
    for text in (await prompt_for(scope), rules(scope, SETTINGS)):
        assert "<reminder>" in text
        assert "</reminder>" not in text
        assert "never a source" in text
        assert "human sentence" in text
        assert "who said it and when" in text


async def test_existing_notes_are_listed_up_to_the_limit(scope: Scope) -> None:
    note(scope, "a.md", "A")
    note(scope, "b.md", "B")
    prompt = await prompt_for(scope, settings=MemorySettings(scan_limit=1))
    assert "Existing notes" in prompt
    assert prompt.count("\n- [user] ") == 1


async def test_the_prompt_names_what_was_just_written(scope: Scope, tmp_path: Path) -> None:
    written = (scope.memory_dir / "x" / "a.md", tmp_path / "elsewhere.md")
    prompt = await prompt_for(replace(scope, shared=True), replace(TURN, direct_writes=written))
    assert "do not save the same again: `x/a.md`" in prompt
    assert "elsewhere" not in prompt
    assert "Name the speaker" in prompt


async def test_with_a_team_the_prompt_tells_of_secrets_and_rights(team_scope: Scope) -> None:
    private = await prompt_for(team_scope)
    assert "No secrets" in private
    assert "team directory is read-only" in private
    assert "read-only" not in await prompt_for(replace(team_scope, shared=True))


async def test_in_log_mode_the_run_is_pointed_at_todays_log_only(scope: Scope) -> None:
    prompt = await prompt_for(replace(scope, mode=Mode.LOG))
    assert f"Day log: {scope.memory_dir}/logs/2031/05/2031-05-06.md\n" in prompt
    assert "Only `append` to the day log" in prompt
    assert "How to save" not in prompt


def test_the_day_is_that_of_the_scopes_time_zone(scope: Scope) -> None:
    assert log_path(scope, NOW).name == "2031-05-06.md"
    assert log_path(replace(scope, timezone="America/New_York"), NOW).name == "2031-05-05.md"


def test_a_run_writes_the_team_only_where_the_chat_may(team_scope: Scope) -> None:
    own, team = team_scope.memory_dir, team_scope.memory_dir / "team"
    direct = MemorySettings(team_writes="direct")
    assert rights(team_scope, SETTINGS, now=NOW) == Rights(read=(own, team), write=(own,))
    assert rights(team_scope, direct, now=NOW).write == (own, team)
    assert rights(replace(team_scope, shared=True), SETTINGS, now=NOW).write == (own, team)
    assert rights(replace(team_scope, team_dir=None), direct, now=NOW) == Rights(read=(own,), write=(own,))


def test_in_log_mode_a_run_may_only_add_to_the_log(team_scope: Scope) -> None:
    allowed = rights(replace(team_scope, mode=Mode.LOG, shared=True), SETTINGS, now=NOW)
    assert allowed.write == ()
    assert allowed.append_only == log_path(team_scope, NOW)


async def test_the_fork_gets_prompt_rights_and_turns(scope: Scope) -> None:
    fork = ScriptedFork()
    await run(scope, fork, MemorySettings(extraction_max_turns=4))
    settings = MemorySettings(extraction_max_turns=4)
    assert fork.asked == [(await prompt_for(scope, settings=settings), rights(scope, settings, now=NOW), 4)]


@pytest.mark.parametrize(
    ("outcome", "writes", "moves"),
    [
        (Outcome.COMPLETED, False, True),
        (Outcome.TURN_CAP, True, True),
        (Outcome.TURN_CAP, False, False),
        (Outcome.FAILED, True, False),
        (Outcome.ABORTED, True, False),
    ],
)
async def test_the_cursor_moves_on_a_run_that_ended_well(
    scope: Scope, outcome: Outcome, *, writes: bool, moves: bool
) -> None:
    written = (note(scope, "a.md", "A"),) if writes else ()
    extracted = await run(scope, ScriptedFork(outcome, written))
    assert extracted.cursor_moves == moves
    assert bool(extracted.notice) == (moves and writes)


async def test_the_notice_counts_own_and_team_notes_and_names_them(team_scope: Scope) -> None:
    names = {"a.md": "Tea", "b.md": "Boat", "team/c.md": "Launch"}
    written = tuple(note(team_scope, name, title) for name, title in names.items())
    extracted = await run(team_scope, ScriptedFork(written=(*written, team_scope.index)))
    assert extracted.notice == "Saved 2 memories · 1 team memory: Tea, Boat, Launch"
    assert (extracted.saved, extracted.team_saved) == (("Tea", "Boat", "Launch"), 1)


@pytest.mark.parametrize(
    ("count", "notices", "line"),
    [
        (1, "summary", "Saved 1 memory: T0"),
        (5, "summary", "Saved 5 memories: T0, T1, T2, 2 more"),
        (5, "full", "Saved 5 memories: T0, T1, T2, T3, T4"),
        (5, "off", ""),
    ],
)
async def test_notices_are_as_long_as_the_settings_say(scope: Scope, count: int, notices: str, line: str) -> None:
    written: Sequence[Path] = [note(scope, f"{n}.md", f"T{n}") for n in range(count)]
    settings = MemorySettings.model_validate({"notices": notices})
    assert (await run(scope, ScriptedFork(written=tuple(written)), settings)).notice == line


async def test_index_deletions_and_nothing_give_no_notice(scope: Scope) -> None:
    scope.index.write_text("- [A](a.md)\n")
    for written in ((), (scope.index,), (scope.memory_dir / "deleted.md",)):
        extracted = await run(scope, ScriptedFork(written=written))
        assert (extracted.notice, extracted.saved, extracted.cursor_moves) == ("", (), True)


async def test_a_title_stays_on_one_short_line(scope: Scope) -> None:
    odd = note(scope, "odd.md", '"a\\nb\\u202ec"')
    unnamed = scope.memory_dir / "unnamed.md"
    unnamed.write_text("text")
    long = note(scope, "long.md", "x" * 200)
    extracted = await run(scope, ScriptedFork(written=(odd, unnamed, long)))
    assert extracted.saved == ("a b c", "unnamed", "x" * 59 + "…")


async def test_a_day_log_is_told_without_a_title(scope: Scope) -> None:
    scope = replace(scope, mode=Mode.LOG)
    log = note(scope, "logs/2031/05/2031-05-06.md", "x")
    extracted = await run(scope, ScriptedFork(written=(log,)))
    assert (extracted.notice, extracted.saved) == ("Added to today's log", ())
