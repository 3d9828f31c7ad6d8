import stat
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.authorship import Byline, bylines, signed
from memory.doubles import LocalLeases
from memory.errors import Conflict
from memory.judgement import Ending, NoSources
from memory.notes import Notes, content_hash
from memory.ports import Outcome
from memory.scope import Mode, Scope
from memory.settings import MemorySettings
from memory.team.local import conflict_copy
from memory.team.proposal import Change, carry_out, changes_between, overtaken, remove_copies, title_of
from memory.team.tidy import Material, Tidied, Tidy, gather, scope_of
from tests.unit.memory.dreams import ScriptedRun

ANN, BOB = (
    Byline(author=f"{name} (telegram:{number})", source="telegram") for name, number in (("Ann", 1), ("Bob", 2))
)
SHARED = "- Tomatoes stand in the south bed.\n- The pump is broken.\n- Compost comes on Mondays.\n"
LOST = SHARED + "- Beans are sown in May.\n"
COPY = conflict_copy("beds.md", LOST)
INDEX = "- [Beds](beds.md): what grows where\n"
MATERIAL = Material(notes={"beds.md": SHARED, "MEMORY.md": INDEX}, copies={COPY: LOST})

Script = Callable[[ScriptedRun, Scope], Awaitable[None]]


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def merging(run: ScriptedRun, scope: Scope) -> None:
    await run.write(scope, "beds.md", LOST)
    await run.delete(scope, COPY)


async def nothing(run: ScriptedRun, scope: Scope) -> None:
    """Leave all as it is."""


async def tidied(home: Path, script: Script, material: Material = MATERIAL, **settings: object) -> Tidied:
    leases, outcome = LocalLeases(), settings.pop("outcome", Outcome.COMPLETED)
    chosen = MemorySettings.model_validate(settings)
    run = ScriptedRun(Notes(leases=leases, settings=chosen))
    run.script = script
    assert isinstance(outcome, Outcome)
    run.outcome = outcome
    tidy = Tidy(run, notes=run.notes, leases=leases, settings=chosen, clock=lambda: datetime(2031, 5, 2, tzinfo=UTC))
    return await tidy(scope_of(home, "garden", timezone="UTC"), material, ledger=NoSources())


async def test_what_a_run_does_on_the_side_comes_back_as_changes_and_nothing_is_left_there(tmp_path: Path) -> None:
    done = await tidied(tmp_path, merging)
    assert done == Tidied(
        ending=Ending.CHANGED,
        changes=(
            Change(key="beds.md", replaces=content_hash(SHARED), text=LOST),
            Change(key=COPY, replaces=content_hash(LOST), text=None),
        ),
    )
    assert title_of(done.changes) == "1 conflict copy settled, 1 note changed"
    assert files_in(tmp_path) == []


async def test_a_run_works_in_a_folder_that_is_the_projects_alone(tmp_path: Path) -> None:
    async def looks(run: ScriptedRun, scope: Scope) -> None:
        assert run.rights is not None
        assert {*run.rights.read, *run.rights.write} == {scope.memory_dir} == {*scope.readable, *scope.writable}
        assert stat.S_IMODE(scope.memory_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE((scope.memory_dir / "beds.md").stat().st_mode) == 0o600
        assert f"- {COPY}" in run.prompts[0]

    assert (await tidied(tmp_path, looks)).ending is Ending.UNCHANGED


async def test_what_a_killed_run_has_left_is_not_part_of_the_next_one(tmp_path: Path) -> None:
    left = scope_of(tmp_path, "garden", timezone="UTC").memory_dir
    left.mkdir(parents=True)
    (left / "left.md").write_text("- of a run before\n")
    assert (await tidied(tmp_path, merging)).changes == (await tidied(tmp_path, merging)).changes


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TURN_CAP, Outcome.SPENT])
async def test_a_run_that_does_not_end_well_changes_nothing(tmp_path: Path, outcome: Outcome) -> None:
    done = await tidied(tmp_path, merging, outcome=outcome)
    assert not done.ending.good
    assert done.changes == ()
    assert done.reason


async def test_repeated_facts_do_not_make_a_loss_look_small(tmp_path: Path) -> None:
    copies = {
        conflict_copy("beds.md", f"{SHARED}- {word}.\n"): f"{SHARED}- {word}.\n" for word in ("one", "two", "six")
    }

    async def losing(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "beds.md", "- Compost comes on Mondays.\n- one.\n- two.\n- six.\n")
        for each in copies:
            await run.delete(scope, each)

    done = await tidied(tmp_path, losing, Material(notes={"beds.md": SHARED}, copies=copies))
    assert (done.ending, done.reason) == (Ending.REFUSED, "it would have removed 2 of 6 facts")


async def test_a_secret_is_not_proposed(tmp_path: Path) -> None:
    async def telling(run: ScriptedRun, scope: Scope) -> None:
        await run.write(scope, "beds.md", f"{SHARED}- The key is AKIA{'Q' * 16}.\n")

    done = await tidied(tmp_path, telling)
    assert done.ending is Ending.REFUSED
    assert done.reason.startswith("what it wrote can't be shared: it holds a secret")
    assert "QQQ" not in done.reason


async def test_lines_of_an_index_that_lost_are_merged_without_the_model(tmp_path: Path) -> None:
    lost = "- [Weeds](weeds.md): which may stay\n- [Gone](gone.md): no note of it\n"
    notes = {"beds.md": SHARED, "weeds.md": "- Nettles may stay.\n", "MEMORY.md": INDEX}
    material = Material(notes=notes, copies={conflict_copy("MEMORY.md", lost): lost})
    index, copy = (await tidied(tmp_path, nothing, material)).changes
    assert index.text == f"{INDEX}- [Weeds](weeds.md): which may stay\n"
    assert (copy.key, copy.text) == (conflict_copy("MEMORY.md", lost), None)


async def test_what_a_run_is_not_shown_stays_as_it_is(tmp_path: Path) -> None:
    material = Material(notes={"logs/a.md": "- a\n", "team/b.md": "- b\n", "beds.md": SHARED}, copies={COPY: LOST})
    assert {change.key for change in (await tidied(tmp_path, merging, material)).changes} == {"beds.md", COPY}


def test_a_note_that_takes_over_anothers_facts_names_its_authors_too() -> None:
    by_ann = signed(SHARED, before="", by=[ANN])
    by_bob = signed(LOST, before="", by=[BOB])
    other = signed("- Ladders belong to the neighbour.\n", before="", by=[Byline(author="Eve (telegram:3)")])
    before = {"beds.md": by_ann, conflict_copy("beds.md", by_bob): by_bob, "other.md": other}
    (change, _) = changes_between(before, {"beds.md": LOST, "other.md": other})
    assert bylines(change.text or "") == (ANN, BOB)


def test_conflict_copies_are_gathered_from_all_homes_and_notes_from_the_first(tmp_path: Path) -> None:
    for home, name, text in (("a", "beds.md", SHARED), ("b", "beds.md", "- other\n"), ("b", COPY, LOST)):
        (tmp_path / home).mkdir(exist_ok=True)
        (tmp_path / home / name).write_text(text)
    found = gather(tmp_path / "a", [tmp_path / "b"])
    assert found == Material(notes={"beds.md": SHARED}, copies={COPY: LOST})


@pytest.fixture
def team(tmp_path: Path) -> Scope:
    memory = tmp_path / "memory"
    (memory / "team").mkdir(parents=True)
    for key, text in MATERIAL.texts.items():
        (memory / "team" / key).write_text(text)
    return Scope(
        principal="chat:telegram:-100",
        project="garden",
        memory_dir=memory,
        team_dir=memory / "team",
        mode=Mode.AUTO,
        shared=True,
        enabled=True,
        timezone="UTC",
        readable=(memory,),
        writable=(memory,),
    )


async def test_changes_are_carried_out_once_however_often_it_is_asked_for(team: Scope) -> None:
    after = {"soil.md": SHARED, "MEMORY.md": "- [Soil](soil.md): what grows where\n", COPY: LOST}
    changes, notes = changes_between(MATERIAL.texts, after), Notes(leases=LocalLeases())
    for _ in range(2):
        assert overtaken(changes, gather(team.team_dir or Path(), []).texts) == []
        done: list[str] = []
        await carry_out(team, changes, notes, done)
        assert done == ["soil.md", "MEMORY.md", "beds.md"], "what is new comes before what goes"
        assert gather(team.team_dir or Path(), []).texts == after


async def test_a_file_that_somebody_has_changed_since_is_left_to_them(team: Scope) -> None:
    changes = changes_between(MATERIAL.texts, {**MATERIAL.texts, "beds.md": LOST})
    place = team.memory_dir / "team/beds.md"
    place.write_text("- Roses are new.\n")
    assert overtaken(changes, gather(place.parent, []).texts) == ["beds.md"]
    with pytest.raises(Conflict):
        await carry_out(team, changes, Notes(leases=LocalLeases()), [])
    assert place.read_text() == "- Roses are new.\n"


async def test_only_that_conflict_copy_goes_which_was_settled(team: Scope) -> None:
    place = team.memory_dir / "team" / COPY
    place.write_text("- something else\n")
    assert await remove_copies(team, [(COPY, content_hash(LOST))], Notes(leases=LocalLeases())) == 0
    place.write_text(LOST)
    assert await remove_copies(team, [(COPY, content_hash(LOST))], Notes(leases=LocalLeases())) == 1
    assert not place.exists()
