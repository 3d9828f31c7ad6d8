import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from memory.consolidation import Ending
from memory.dream import Gate
from memory.ports import Outcome, Rights
from memory.scope import Mode, OptOut, Part, Scope
from memory.snapshot import kept_beside
from memory.stamp import NAME, NEVER, last_consolidated, stamp
from tests.unit.memory.dreams import NOW, Night, ScriptedRun, tidy


@pytest.fixture
def night(tmp_path: Path) -> Night:
    return Night(tmp_path)


async def test_the_gates_close_in_order_and_only_the_last_one_counts_sittings(night: Night) -> None:
    night.dreamt(timedelta(hours=23))
    assert await night.dream.due(replace(night.scope, enabled=False)) is Gate.OFF
    assert await night.dream.due(replace(night.scope, mode=Mode.LOG)) is Gate.LOG_MODE
    assert await night.dream.due(night.scope) is Gate.TOO_SOON
    assert night.history.asked == []
    night.dreamt(timedelta(hours=24))
    assert await night.dream.due(night.scope) is Gate.OPEN
    assert night.history.asked == [NOW - timedelta(hours=24)]


async def test_a_scope_with_too_few_sittings_is_not_counted_again_within_ten_minutes(night: Night) -> None:
    night.history.sittings = 4
    assert await night.dream.due(night.scope) is Gate.TOO_FEW_SITTINGS
    night.history.sittings = 5
    night.now += timedelta(minutes=9)
    assert await night.dream.due(night.scope) is Gate.THROTTLED
    night.now += timedelta(minutes=1)
    assert await night.dream.due(night.scope) is Gate.OPEN
    assert len(night.history.asked) == 2


async def test_of_ticks_ten_minutes_apart_none_is_throttled_for_coming_a_little_early(night: Night) -> None:
    night.history.sittings = 4
    for seconds in (600, 591, 609, 590):
        assert await night.dream.due(night.scope) is Gate.TOO_FEW_SITTINGS
        night.now += timedelta(seconds=seconds)


async def test_a_count_by_a_clock_that_was_ahead_throttles_nobody_once_it_is_right(night: Night) -> None:
    night.history.sittings = 3
    for moved in (timedelta(days=1), -timedelta(days=1)):
        night.now += moved
        assert await night.dream.due(night.scope) is Gate.TOO_FEW_SITTINGS
    assert await night.dream.due(night.scope) is Gate.THROTTLED


async def test_a_count_that_fails_is_throttled_too(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(scope: Scope, since: datetime, *, enough: int) -> Sequence[datetime]:
        raise OSError("no database")

    monkeypatch.setattr(night.history, "sittings_since", broken)
    with pytest.raises(OSError, match="no database"):
        await night.dream.due(night.scope)
    assert await night.dream.due(night.scope) is Gate.THROTTLED


async def test_a_stamp_in_the_future_keeps_the_dream_away(night: Night) -> None:
    night.dreamt(timedelta(hours=-1))
    assert await night.dream.due(night.scope) is Gate.TOO_SOON
    result = await night.dream(night.scope)
    assert (result.ending, result.reason) == (Ending.GATED, "too soon")


async def test_a_dream_that_changed_something_is_stamped_told_in_one_line_and_can_be_compared(night: Night) -> None:
    before = night.state()
    night.run.script = tidy
    result = await night.dream(night.scope)
    assert (result.ending, result.removed, result.summary) == (Ending.CHANGED, (), "Tidied up.")
    assert sorted(path.name for path in result.touched) == ["MEMORY.md", "a.md", "b.md"]
    assert last_consolidated(night.directory) == NOW
    assert night.told == ["Improved 3 memories"]
    assert result.snapshot is not None
    assert (result.snapshot / "before" / "a.md").read_text() == before["a.md"][0]
    assert (result.snapshot / "after" / "b.md").exists()
    assert night.directory not in result.snapshot.parents


async def test_the_prompt_names_the_task_and_the_directory_and_the_rights_end_there(night: Night) -> None:
    await night.dream(night.scope)
    [prompt] = night.run.prompts
    assert "consolidation" in prompt
    assert f"Memory directory: {night.directory}\n" in prompt
    assert all(f"Phase {number}" in prompt for number in (1, 2, 3, 4))
    assert night.run.rights == Rights(read=(night.directory,), write=(night.directory,))


async def test_a_dream_that_changed_nothing_is_stamped_and_silent(night: Night) -> None:
    before = night.state()
    result = await night.dream(night.scope)
    after = night.state()
    assert result.ending is Ending.UNCHANGED
    assert after.pop(NAME)
    assert after == before
    assert night.told == []
    assert list(kept_beside(night.scope).iterdir()) == []


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.ABORTED, Outcome.TURN_CAP])
@pytest.mark.parametrize("first", [True, False])
async def test_a_dream_that_did_not_end_well_leaves_no_trace(night: Night, outcome: Outcome, first: bool) -> None:
    if not first:
        night.dreamt(timedelta(days=2))
        os.utime(night.directory / NAME, ns=(1_777_000_000_000_000_001,) * 2)
    before = night.state()
    night.run.script, night.run.outcome = tidy, outcome
    result = await night.dream(night.scope, forced=True)
    assert night.state() == before
    assert list(kept_beside(night.scope).iterdir()) == []
    assert result.ending is (Ending.ABORTED if outcome is Outcome.ABORTED else Ending.FAILED)
    assert night.told == []


async def forget(run: ScriptedRun, scope: Scope) -> None:
    await run.write(scope, "new.md", "- nothing much\n")
    await run.delete(scope, "a.md")


async def test_a_dream_that_removes_too_much_is_put_back(night: Night) -> None:
    before = night.state()
    night.run.script = forget
    result = await night.dream(night.scope)
    assert (result.ending, result.reason) == (Ending.REFUSED, "it would have removed 3 of 3 facts")
    assert night.state() == before


async def test_an_index_line_that_came_in_meanwhile_survives_the_putting_back(night: Night) -> None:
    async def with_company(run: ScriptedRun, scope: Scope) -> None:
        await tidy(run, scope)
        await night.notes.write(scope, scope.memory_dir / "c.md", "- just said\n", expected="")
        await night.notes.add_pointer(scope, scope.memory_dir, title="C", file="c.md", hook="said")

    night.run.script, night.run.outcome = with_company, Outcome.FAILED
    await night.dream(night.scope)
    assert night.state()["MEMORY.md"][0] == "- [A](a.md) — tea\n- [C](c.md) — said\n"
    assert sorted(night.state()) == ["MEMORY.md", "a.md", "c.md"]


async def test_a_dream_may_remove_facts_within_the_bound_and_names_them(night: Night) -> None:
    async def drop(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "a.md", "- one fact about tea\n- a third fact about Kiel\n")

    night.run.script = drop
    result = await night.dream(night.scope)
    assert (result.ending, result.removed) == (Ending.CHANGED, ("another fact about trains",))


async def test_a_dream_that_touches_a_log_is_put_back(night: Night) -> None:
    night.put("logs/2026/05/2026-05-01.md", "- 10:00 Ann: hello\n")
    before = night.state()

    async def rewrite(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "logs/2026/05/2026-05-01.md", "- 10:00 Bob: hello\n")

    night.run.script = rewrite
    assert (await night.dream(night.scope)).ending is Ending.REFUSED
    assert night.state() == before


async def test_folders_that_a_refused_dream_made_go_with_it_and_no_others(night: Night) -> None:
    for name in ("empty/before", "team", "new-by-others"):
        (night.directory / name).mkdir(parents=True)
    night.put("logs/2026/04/2026-04-30.md", "- 10:00 Ann: hello\n")

    async def stray(run: ScriptedRun, scope: Scope) -> None:
        for name in ("logs/2026/05/2026-05-01.md", "empty/before/deep/er/a.md", "kept/a.md", "team-notes/b.md"):
            await run.write(scope, name, f"- a fact in {name}\n")
        await night.notes.write(scope, scope.memory_dir / "kept" / "c.md", "- just said\n", expected="")

    before = {path for path in night.directory.rglob("*") if path.is_dir()}
    night.run.script = stray
    assert (await night.dream(night.scope)).ending is Ending.REFUSED
    kept = {night.directory / "kept"}
    assert {path for path in night.directory.rglob("*") if path.is_dir()} == before | kept
    assert "kept/c.md" in night.state()


async def test_what_others_wrote_meanwhile_is_never_put_back(night: Night) -> None:
    async def with_company(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "a.md", "- gone\n")
        present = await night.notes.read(scope, scope.memory_dir / "a.md")
        await night.notes.write(scope, present.path, "- a new word from Ann\n", expected=present.hash)
        await night.notes.write(scope, scope.memory_dir / "c.md", "- just said\n", expected="")

    night.run.script, night.run.outcome = with_company, Outcome.FAILED
    await night.dream(night.scope)
    assert night.state()["a.md"][0] == "- a new word from Ann\n"
    assert night.state()["c.md"][0] == "- just said\n"


async def test_a_dream_that_is_cancelled_is_put_back_with_its_stamp(night: Night) -> None:
    before = night.state()
    scope_of_dream = anyio.CancelScope()

    async def cancelled(run: ScriptedRun, scope: Scope) -> None:
        await tidy(run, scope)
        scope_of_dream.cancel()
        await anyio.sleep_forever()

    night.run.script = cancelled
    with scope_of_dream:
        await night.dream(night.scope)
    assert scope_of_dream.cancelled_caught
    assert night.state() == before
    assert night.told == []


async def test_a_dream_that_never_ends_is_stopped_and_put_back(tmp_path: Path) -> None:
    night = Night(tmp_path, dream_max_minutes=0.02)
    before = night.state()

    async def endless(run: ScriptedRun, scope: Scope) -> None:
        await tidy(run, scope)
        await anyio.sleep_forever()

    night.run.script = endless
    result = await night.dream(night.scope)
    assert (result.ending, night.state()) == (Ending.FAILED, before)
    assert "minutes" in result.reason


async def test_only_one_dream_at_a_time_and_the_second_finds_it_done(night: Night) -> None:
    results: list[Ending] = []

    async def slowly(run: ScriptedRun, scope: Scope) -> None:
        results.append((await night.dream(scope)).ending)

    night.run.script = slowly
    results.append((await night.dream(night.scope)).ending)
    results.append((await night.dream(night.scope)).ending)
    assert results == [Ending.BUSY, Ending.UNCHANGED, Ending.GATED]


async def test_a_dream_whose_lease_was_taken_over_leaves_everything_to_the_new_holder(night: Night) -> None:
    async def lose(run: ScriptedRun, scope: Scope) -> None:
        night.leases.take_over(f"dream:{scope.memory_dir}")
        stamp(scope.memory_dir, NOW + timedelta(minutes=5), 99)

    night.run.script = lose
    assert (await night.dream(night.scope)).ending is Ending.BUSY
    assert (night.directory / NAME).read_text().split()[-1] == "99"


async def test_by_hand_a_dream_passes_the_gates_of_time_but_not_of_the_mode(tmp_path: Path) -> None:
    night = Night(tmp_path, auto_dream_enabled=False)
    night.dreamt(timedelta(minutes=1))
    assert (await night.dream(night.scope)).ending is Ending.GATED
    assert (await night.dream(night.scope, forced=True)).ending is Ending.UNCHANGED
    log = replace(night.scope, mode=Mode.LOG)
    assert (await night.dream(log, forced=True)).reason == "log mode"


async def test_an_empty_memory_is_not_dreamt_about_and_no_sittings_are_counted_for_it(night: Night) -> None:
    for path in night.directory.iterdir():
        path.unlink()
    assert await night.dream.due(night.scope) is Gate.EMPTY
    assert night.history.asked == []
    result = await night.dream(night.scope, forced=True)
    assert (result.ending, result.reason) == (Ending.GATED, "no notes yet")
    assert night.run.prompts == []


async def test_the_days_in_the_prompt_are_those_of_the_scopes_own_zone(night: Night) -> None:
    night.now = datetime(2026, 5, 3, 22, 30, tzinfo=UTC)
    night.dreamt(timedelta(days=2))
    await night.dream(replace(night.scope, timezone="Europe/Berlin"))
    assert "last done on 2026-05-02; today is 2026-05-04" in night.run.prompts[0]


async def test_a_dream_is_told_how_many_sittings_there_were_on_which_of_the_scopes_days_and_that_it_has_no_transcript(
    night: Night,
) -> None:
    night.dreamt(timedelta(days=3))
    night.history.sittings = 3  # the ends, in UTC: 3 May 01:00, 2 May 13:00 and 01:00
    await night.dream(replace(night.scope, timezone="America/New_York"))
    assert "Sittings since then: 3, ended on 2026-05-01, 2026-05-02 (2)." in night.run.prompts[0]
    assert "there is no transcript" in night.run.prompts[0]
    assert night.history.asked == [NOW - timedelta(days=3)]


@pytest.mark.parametrize(("sittings", "told"), [(0, "none has ended."), (500, "100 or more, the latest on 2026-03-14")])
async def test_of_a_long_history_a_dream_is_told_the_latest_sittings_and_of_none_that_there_is_none(
    night: Night, sittings: int, told: str
) -> None:
    night.history.sittings = sittings
    await night.dream(night.scope, forced=True)
    assert f"Sittings since then: {told}" in night.run.prompts[0]


async def test_while_a_dream_runs_its_time_is_not_set_so_that_a_killed_one_leaves_the_scope_due(night: Night) -> None:
    seen: list[datetime] = []

    async def look(run: ScriptedRun, scope: Scope) -> None:
        seen.append(last_consolidated(scope.memory_dir))

    night.run.script = look
    await night.dream(night.scope)
    assert seen == [NEVER]


async def test_team_memory_is_neither_copied_nor_counted(night: Night) -> None:
    night.put("team/t.md", "- a fact of the team\n")
    night.run.script = tidy
    result = await night.dream(night.scope)
    assert result.snapshot is not None
    assert not (result.snapshot / "before" / "team").exists()


async def test_every_call_is_counted_by_its_end_and_a_dream_with_its_time(night: Night) -> None:
    night.dreamt(timedelta(hours=23))
    await night.dream(night.scope)
    night.dreamt(timedelta(hours=30))
    await night.dream(night.scope)
    outcomes = [labels["outcome"] for what, labels, _ in night.meter.counted if what == "dreams"]
    assert outcomes[0] == "gated"
    assert outcomes[1] in {"changed", "unchanged"}
    assert night.meter.values("dream_hours") == [pytest.approx(30)]
    assert len(night.meter.values("dream_seconds")) == 1


async def test_who_has_opted_out_of_it_has_no_dream_but_by_hand(night: Night) -> None:
    scope = night.scope.after([OptOut(part=Part.DREAM, file="settings.toml")])
    assert await night.dream.due(scope) is Gate.OFF
    assert (await night.dream(scope)).ending is Ending.GATED
    assert (await night.dream(scope, forced=True)).ending is not Ending.GATED
