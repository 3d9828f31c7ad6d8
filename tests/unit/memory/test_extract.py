from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory.dailylog import Log, log_path, mark_processed
from memory.doubles import RecordingMeter
from memory.extract import (
    MANIFEST_BYTES,
    Decision,
    Extracted,
    Pending,
    Verdict,
    day_log,
    decide,
    extract,
    extraction_prompt,
    rights,
)
from memory.notes import content_hash
from memory.ports import Outcome, Rights, RunReport
from memory.prompt import rules
from memory.prompt_sections import how_to_save
from memory.scan import Scanner
from memory.scope import Mode, OptOut, Part, Scope
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
    failed: tuple[Path, ...] = ()
    left_out: tuple[str, ...] = ()
    asked: list[tuple[str, Rights, int]] = field(default_factory=list)

    async def __call__(self, prompt: str, *, rights: Rights, max_turns: int) -> RunReport:
        self.asked.append((prompt, rights, max_turns))
        return RunReport(
            outcome=self.outcome,
            written=self.written,
            text="",
            turns=2,
            failed=self.failed,
            left_out=self.left_out,
        )


async def run(scope: Scope, fork: ScriptedFork, settings: MemorySettings = SETTINGS) -> Extracted:
    return await extract(scope, TURN, fork=fork, scanner=Scanner(), settings=settings, clock=clock)


async def prompt_for(scope: Scope, pending: Pending = TURN, settings: MemorySettings = SETTINGS) -> str:
    log = day_log(scope, pending, settings, now=NOW)
    return await extraction_prompt(scope, pending, Scanner(), settings, log=log)


def reason(scope: Scope, pending: Pending, settings: MemorySettings = SETTINGS) -> str:
    decision = decide(scope, pending, settings)
    assert (decision.verdict is Verdict.RUN) == (not decision.reason)
    return decision.reason


def test_a_turn_with_something_new_is_run(scope: Scope) -> None:
    assert decide(scope, TURN, SETTINGS) == Decision(verdict=Verdict.RUN)


def test_guards_stand_in_their_order(scope: Scope) -> None:
    throttled = MemorySettings(extraction_throttle=3)
    off = replace(scope, enabled=False)
    nothing = Pending(new_messages=0, turns=1, direct_writes=(scope.index,))
    written = Pending(new_messages=2, turns=1, direct_writes=(scope.index,))
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


@pytest.mark.parametrize(
    ("talks", "turns", "forced", "skips"),
    [
        (1, 1, False, True),
        (3, 3, False, True),  # the throttle alone has held the others back
        (2, 1, False, False),  # one was stopped
        (4, 4, False, False),  # a run has failed, or another one was under way
        (3, 3, True, False),
    ],
)
def test_a_direct_write_hides_no_turn_that_was_stopped_or_looked_at_in_vain(
    scope: Scope, talks: int, turns: int, forced: bool, skips: bool
) -> None:
    pending = Pending(new_messages=2 * talks, turns=turns, talks=talks, forced=forced, direct_writes=(scope.index,))
    throttle = 1 if talks == 1 else 3
    found = decide(scope, replace(pending, turns=max(turns, throttle)), MemorySettings(extraction_throttle=throttle))
    assert found.verdict is (Verdict.SKIP_MOVE_CURSOR if skips else Verdict.RUN)


def test_a_write_elsewhere_or_in_a_shared_chat_does_not_skip_the_run(scope: Scope, tmp_path: Path) -> None:
    assert reason(scope, replace(TURN, direct_writes=(tmp_path / "elsewhere.md",))) == ""
    assert reason(replace(scope, shared=True), replace(TURN, direct_writes=(scope.index,))) == ""


async def test_the_prompt_says_what_it_is_and_how_far_back(scope: Scope) -> None:
    prompt = await prompt_for(scope, Pending(new_messages=7, turns=2), MemorySettings(extraction_max_turns=4))
    assert prompt == (
        'This is a memory extraction run: see "When a memory extraction run is asked for". Look only at the last '
        "7 messages before this one; you have 4 turns."
    )


async def test_the_prompt_refers_to_a_section_that_every_memory_prompt_has(scope: Scope, team_scope: Scope) -> None:
    for scoped in (scope, team_scope, replace(scope, mode=Mode.LOG), replace(scope, shared=True)):
        named = (await prompt_for(scoped)).split('"')[1]
        assert f"\n\n## {named}\n" in rules(scoped, SETTINGS)


def test_the_rules_of_a_run_stand_in_the_prompt_that_it_shares(scope: Scope, team_scope: Scope) -> None:
    direct = MemorySettings(team_writes="direct")
    off = MemorySettings(team_writes="off")
    assert "The team directory is read-only in these runs." in rules(team_scope, off)
    assert "only for what the person has asked to share" in rules(team_scope, SETTINGS)
    assert "The team directory is read-only" not in rules(team_scope, direct) + rules(scope, SETTINGS)
    assert "Nothing sensitive goes into team memory" in rules(team_scope, direct)
    assert "Nothing sensitive goes into team memory" in rules(replace(team_scope, shared=True), SETTINGS)
    assert "Name the speaker of each fact." in rules(replace(scope, shared=True), SETTINGS)
    assert "Name the speaker of each fact." not in rules(scope, SETTINGS)


async def test_only_notes_that_the_shared_index_does_not_show_are_listed(team_scope: Scope) -> None:
    note(team_scope, "shown.md", "A")
    note(team_scope, "reworded.md", "B")
    note(team_scope, "new.md", "C")
    note(team_scope, "team/shown.md", "D")
    note(team_scope, "team/new.md", "E")
    team_scope.index.write_text("- [A](shown.md) — a\r\n- [B](reworded.md) — after\n- [C](new.md) — c\n")
    (team_scope.memory_dir / "team" / "MEMORY.md").write_text("- [D](shown.md) — d\n")
    shown = "## The index\n\n- [A](shown.md) — a\n- [B](reworded.md) — before\n\n- [D](shown.md) — d"
    listed = (await prompt_for(team_scope, replace(TURN, shown=shown))).split("\n- [user] ")[1:]
    assert sorted(line.split(" (")[0] for line in listed) == ["new.md", "reworded.md", "team/new.md"]


async def test_the_list_keeps_to_its_room_and_says_how_many_are_left_out(scope: Scope) -> None:
    for number in range(40):
        note(scope, f"{number}.md", "A")
    listed = (await prompt_for(scope)).split("duplicate it):\n")[1]
    lines = listed.split("\n")
    assert len(listed.encode()) <= MANIFEST_BYTES + 80
    assert len(lines) > 10
    assert lines[-1] == f"({40 - (len(lines) - 1)} older ones are left out; `grep` for the subject)"


async def test_without_an_index_every_note_is_listed_up_to_the_limit_of_a_manifest(scope: Scope) -> None:
    for number in range(40):
        note(scope, f"{number}.md", "A")
    prompt = await prompt_for(scope, settings=MemorySettings(skip_index=True, scan_limit=39))
    assert prompt.count("\n- [user] ") == 39
    assert "left out" not in prompt


async def test_the_prompt_names_what_was_just_written(scope: Scope, tmp_path: Path) -> None:
    written = (scope.memory_dir / "x" / "a.md", tmp_path / "elsewhere.md")
    prompt = await prompt_for(replace(scope, shared=True), replace(TURN, direct_writes=written))
    assert "do not save the same again: `x/a.md`" in prompt
    assert "elsewhere" not in prompt


async def test_in_log_mode_the_run_is_pointed_at_todays_log_only(scope: Scope) -> None:
    log = replace(scope, mode=Mode.LOG)
    assert (await prompt_for(log)).endswith(f"\n\nDay log: {scope.memory_dir}/logs/2031/05/2031-05-06.md")
    assert "added to its end with `append`" in rules(log, SETTINGS)
    assert "Day log" not in await prompt_for(scope)


async def test_a_late_run_is_pointed_at_the_log_of_the_day_on_which_its_messages_were_said(scope: Scope) -> None:
    log, before = replace(scope, mode=Mode.LOG), NOW - timedelta(days=2)
    late = await prompt_for(log, replace(TURN, said_between=(before, before)))
    assert late.endswith("/logs/2031/05/2031-05-04.md")
    both = await prompt_for(log, replace(TURN, said_between=(before, NOW)))
    assert both.endswith("-06.md\nIt is the log of 2031-05-06: begin a bullet on another day's message with that date.")


async def test_a_log_that_was_distilled_is_added_to_in_a_further_part_of_its_day(scope: Scope) -> None:
    log = replace(scope, mode=Mode.LOG)
    done = distilled(log)
    found = day_log(log, TURN, SETTINGS, now=NOW)
    assert found is not None
    assert found.path == done.with_name("2031-05-06.2.md")


async def test_a_log_that_is_distilled_while_a_run_adds_to_it_leaves_the_cursor(scope: Scope) -> None:
    class Overtaken(ScriptedFork):
        async def __call__(self, prompt: str, *, rights: Rights, max_turns: int) -> RunReport:
            distilled(log)
            return await super().__call__(prompt, rights=rights, max_turns=max_turns)

    log = replace(scope, mode=Mode.LOG)
    assert not (await run(log, Overtaken())).cursor_moves
    assert (await run(log, ScriptedFork())).cursor_moves


async def test_a_log_that_a_hand_made_unreadable_is_left_and_a_run_that_could_not_add_to_it_has_failed(
    scope: Scope,
) -> None:
    log = replace(scope, mode=Mode.LOG)
    path = log_path(scope, NOW)
    path.parent.mkdir(parents=True)

    async def spoilt(prompt: str, *, rights: Rights, max_turns: int) -> RunReport:
        path.write_bytes(b"- caf\xe9\n")
        return RunReport(outcome=Outcome.COMPLETED, written=(), text="", turns=2)

    assert not (await extract(log, TURN, fork=spoilt, scanner=Scanner(), settings=SETTINGS, clock=clock)).cursor_moves
    assert path.with_name("2031-05-06.2.md").as_posix() in await prompt_for(log)
    assert (await run(log, ScriptedFork())).cursor_moves


async def test_a_run_whose_prompt_is_of_the_other_mode_is_told_the_rules_that_hold_now(scope: Scope) -> None:
    log = replace(scope, mode=Mode.LOG)
    switched_on = await prompt_for(log, replace(TURN, shown=rules(scope, SETTINGS)))
    assert "leave notes and index as they are" in switched_on
    switched_off = await prompt_for(scope, replace(TURN, shown=rules(log, SETTINGS)))
    assert "add to no log" in switched_off
    assert how_to_save(scope) in switched_off
    for each in (scope, log):
        same = await prompt_for(each, replace(TURN, shown=rules(each, SETTINGS)))
        assert "any more" not in same
        assert "kept here now" not in same


def distilled(scope: Scope) -> Path:
    path = log_path(scope, NOW)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("- 12:00 Ann: tea\n")
    mark_processed(scope, [Log(path=path, hash=content_hash(path.read_text()))])
    return path


def test_the_day_is_that_of_the_scopes_time_zone(scope: Scope) -> None:
    assert log_path(scope, NOW).name == "2031-05-06.md"
    assert log_path(replace(scope, timezone="America/New_York"), NOW).name == "2031-05-05.md"


def test_a_run_writes_the_team_only_where_the_chat_may(team_scope: Scope) -> None:
    own, team = team_scope.memory_dir, team_scope.memory_dir / "team"
    direct = MemorySettings(team_writes="direct")
    assert rights(team_scope, SETTINGS, log=None) == Rights(read=(own, team), write=(own,))
    assert rights(team_scope, direct, log=None).write == (own, team)
    assert rights(replace(team_scope, shared=True), SETTINGS, log=None).write == (own, team)
    assert rights(replace(team_scope, team_dir=None), direct, log=None) == Rights(read=(own,), write=(own,))


def test_in_log_mode_a_run_may_only_add_to_the_log(team_scope: Scope) -> None:
    scope = replace(team_scope, mode=Mode.LOG, shared=True)
    allowed = rights(scope, SETTINGS, log=day_log(scope, TURN, SETTINGS, now=NOW))
    assert allowed.write == ()
    assert allowed.append_only == log_path(team_scope, NOW)


async def test_the_fork_gets_prompt_rights_and_turns(scope: Scope) -> None:
    fork = ScriptedFork()
    await run(scope, fork, MemorySettings(extraction_max_turns=4))
    settings = MemorySettings(extraction_max_turns=4)
    assert fork.asked == [(await prompt_for(scope, settings=settings), rights(scope, settings, log=None), 4)]


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


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.TURN_CAP, Outcome.REFUSED])
@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.LOG])
async def test_a_run_that_could_not_write_all_has_failed_however_it_ended(
    scope: Scope, outcome: Outcome, mode: Mode
) -> None:
    written, meter = note(scope, "a.md", "A"), RecordingMeter()
    fork = ScriptedFork(outcome, (written,), failed=(scope.memory_dir / "b.md",))
    extracted = await extract(
        replace(scope, mode=mode), TURN, fork=fork, scanner=Scanner(), settings=SETTINGS, clock=clock, meter=meter
    )
    assert (extracted.cursor_moves, extracted.notice) == (False, "")
    assert ("extractions", {"outcome": "failed"}, 1) in meter.counted


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


async def test_a_note_that_a_run_has_removed_is_told(scope: Scope) -> None:
    gone = scope.memory_dir / "plants.md"
    assert (await run(scope, ScriptedFork(written=(gone,)))).notice == "Removed plants.md"
    kept = note(scope, "a.md", "Tea")
    assert (await run(scope, ScriptedFork(written=(kept, gone)))).notice == "Saved 1 memory: Tea · Removed plants.md"


async def test_the_index_alone_and_nothing_give_no_notice(scope: Scope) -> None:
    scope.index.write_text("- [A](a.md)\n")
    for written in ((), (scope.index,)):
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


async def test_a_run_is_measured_whatever_came_of_it(team_scope: Scope) -> None:
    meter = RecordingMeter()
    written = (note(team_scope, "a.md", "A"), note(team_scope, "team/b.md", "B"), team_scope.index)
    for fork in (ScriptedFork(written=written), ScriptedFork(Outcome.FAILED)):
        await extract(team_scope, TURN, fork=fork, scanner=Scanner(), settings=SETTINGS, clock=clock, meter=meter)
    outcomes = [labels["outcome"] for what, labels, _ in meter.counted if what == "extractions"]
    assert outcomes == ["completed", "failed"]
    assert meter.values("extracted_memories") == [1, 1, 0, 0]
    assert meter.values("extracted_files") == [3, 0]
    assert (meter.values("extraction_messages"), meter.values("extraction_turns")) == ([2, 2], [2, 2])
    assert len(meter.values("extraction_seconds")) == 2


def test_who_has_opted_out_of_extraction_has_no_runs(scope: Scope) -> None:
    silent = scope.after([OptOut(part=Part.EXTRACTION, file="settings.toml")])
    assert decide(scope, TURN, SETTINGS).verdict is Verdict.RUN
    assert decide(silent, replace(TURN, forced=True), SETTINGS) == Decision(
        verdict=Verdict.SKIP_KEEP_CURSOR, reason="disabled"
    )


@pytest.mark.parametrize(
    ("kinds", "told"),
    [(("npm access token",), "1 secret left out: npm access token"), (("A", "B", "A"), "3 secrets left out: A, B")],
)
async def test_the_notice_says_what_secrets_were_left_out(scope: Scope, kinds: tuple[str, ...], told: str) -> None:
    extracted = await run(scope, ScriptedFork(written=(note(scope, "tea.md", "Tea"),), left_out=kinds))
    assert extracted.notice == f"Saved 1 memory: Tea ({told})"
