from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.citations import Citations
from memory.doubles import LocalLeases
from memory.errors import WriteRefused
from memory.extraction_witness import ExtractionWitness
from memory.notes import Notes
from memory.provenance import (
    Placed,
    Spoken,
    Witness,
    fact_hash,
    moves,
    normal,
    origin,
    sole_speaker,
    source,
)
from memory.scope import Mode, Scope

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
JUNE = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    memory = tmp_path / "memory"
    (memory / "team").mkdir(parents=True)
    return Scope(
        principal="person:telegram:42", project="", memory_dir=memory, team_dir=memory / "team", mode=Mode.AUTO,
        shared=False, enabled=True, timezone="UTC", readable=(memory,), writable=(memory,),
    )  # fmt: skip


@pytest.fixture
def notes() -> Notes:
    return Notes(leases=LocalLeases())


def said(text: str, number: int = 1, account: str = "telegram:42", at: datetime = NOON) -> Spoken:
    return Spoken(message_id=number, account=account, speaker="Ann", text=text, at=at)


def placed(fact: str, note: str = "a.md") -> Placed:
    return Placed(note=note, fact=fact)


@pytest.mark.parametrize(
    "other",
    [
        "ann drinks TEA!",
        "Ann  drinks\ttea.",
        "ann drinks tea。",
    ],
)
def test_case_blanks_and_the_punctuation_behind_make_no_other_fact(other: str) -> None:
    assert fact_hash(other) == fact_hash("Ann drinks tea")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Her language is C", "Her language is C++"),
        ("It is 5° outside", "It is -5° outside"),
        ("Room for <5", "Room for >5"),
        ("Tea: 👍", "Tea: 👎"),
        ("9:00 dentist", "15:30 dentist"),
        ("10² tiles", "102 tiles"),
        ("The meeting is (2026-05-01)", "The meeting is (2026-06-01)"),
        ("The best is tea (Ann, 2026-05-01)", "The best is tea (Bob, 2026-05-01)"),
    ],
)
def test_another_sign_number_date_or_speaker_makes_another_fact(one: str, other: str) -> None:
    assert fact_hash(one) != fact_hash(other)
    assert normal("In 2026-05-01,  C++.") == "in 2026-05-01, c++"


@pytest.mark.parametrize(
    ("fact", "heard", "best"),
    [
        ("Ann prefers answers in metric units", ["Good morning.", "I prefer metric units in answers."], 1),
        ("安住在柏林", ["我喜欢茶", "我住在柏林"], 1),
        ("Ann drinks tea (2026-05-01)", ["I drink tea", "I said: I drink tea"], 1),
    ],
)
def test_a_new_fact_stems_from_the_sentence_that_holds_most_of_its_words(
    fact: str, heard: Sequence[str], best: int
) -> None:
    spoken = [said(text, number) for number, text in enumerate(heard)]
    assert origin(fact, gone=(), heard=spoken) == spoken[best]


def test_a_fact_of_which_nobody_spoke_stems_from_nothing() -> None:
    assert origin("The office closes at noon", gone=(), heard=[said("What is the weather like?")]) is None
    assert origin("The office closes at noon", gone=(), heard=()) is None


def test_the_same_words_elsewhere_go_before_everything() -> None:
    old = placed("Ann drinks tea", "old.md")
    assert origin("Ann drinks tea (2026-05-01)", gone=[placed("Ann drinks"), old], heard=[said("I drink tea")]) == old


def test_a_rewording_keeps_its_source_and_a_correction_gets_a_new_one() -> None:
    old, spoken = placed("Ann prefers tea for breakfast"), said("No, I prefer coffee for breakfast.")
    assert origin("Ann prefers coffee for breakfast", gone=[old], heard=[spoken]) == spoken
    assert origin("Ann prefers tea for breakfast, always", gone=[old], heard=[spoken]) == old


def test_where_one_person_alone_spoke_it_was_that_person() -> None:
    one, two = said("Hello."), said("Again.", 2)
    assert sole_speaker([one]) == source(one)
    both = sole_speaker([one, two])
    assert both is not None
    assert (both.account, both.message_id) == ("telegram:42", None)
    assert sole_speaker([one, said("Me too.", 3, "telegram:43")]) is None
    assert sole_speaker([]) is None


def test_a_rewrite_carries_facts_by_exact_words_then_by_likeness_then_from_the_logs() -> None:
    before = {
        "a.md": ["Ann keeps bees", "Ann lives in Kiel by the sea"],
        "logs/2026/05/2026-05-01.md": ["14:05 Ann: prefers the early train"],
        "stays.md": ["It rains"],
    }
    after = {
        "b.md": ["Ann keeps bees", "Ann lives in Kiel, by the sea, in a house", "Ann prefers the early train"],
        "stays.md": ["It rains", "Nothing was known of this"],
        "logs/2026/05/2026-05-01.md": ["14:05 Ann: prefers the early train"],
    }
    found = {move.new.fact: move.old.note for move in moves(before, after)}
    assert found == {
        "Ann keeps bees": "a.md",
        "Ann lives in Kiel, by the sea, in a house": "a.md",
        "Ann prefers the early train": "logs/2026/05/2026-05-01.md",
    }


async def test_a_witness_sums_up_what_a_run_adds_and_takes_out(scope: Scope, notes: Notes) -> None:
    witness = Witness()
    seen = notes.watched(witness)
    first = await seen.write(scope, scope.memory_dir / "a.md", "- one\n- two\n", expected="")
    await seen.write(scope, first.path, "- one\n- three\n", expected=first.hash)
    await seen.append(scope, scope.memory_dir / "MEMORY.md", "- [A](a.md): three")
    await seen.append(scope, scope.memory_dir / "b.md", "- four")
    await seen.delete(scope, scope.memory_dir / "b.md", expected=None)
    assert [fact.fact for fact in witness.added] == ["one", "three"]
    assert witness.gone == ()
    await notes.append(scope, first.path, "- by another")
    await seen.edit(scope, first.path, "- one\n", "", expected=None)
    assert [fact.fact for fact in witness.added] == ["three"]


async def test_a_turn_may_note_nothing_new_once_something_was_forgotten(scope: Scope, notes: Notes) -> None:
    answers = [True, False]

    async def erased() -> bool:
        return answers.pop()

    seen = notes.watched(Witness(erased))
    await seen.write(scope, scope.memory_dir / "a.md", "- Ann drinks milk\n", expected="")
    with pytest.raises(WriteRefused, match="forgotten"):
        await seen.append(scope, scope.memory_dir / "a.md", "- Ann drinks tea")
    await seen.delete(scope, scope.memory_dir / "a.md", expected=None)
    assert not (scope.memory_dir / "a.md").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.md", "---\ndescription: Ann drinks tea\n---\n"),
        ("b.md", "# Tea\n"),
        ("a.md", "---\nname: Tea\n---\n- Ann drinks milk\n"),
        ("MEMORY.md", "- [A](a.md): tea\n"),
        ("MEMORY.md", "Ann drinks tea\n"),
        ("a.md", "- Ann drinks milk\n- Ann drinks milk\n"),
    ],
)
async def test_once_something_was_forgotten_no_line_is_added_be_it_a_header_or_a_pointer(
    scope: Scope, notes: Notes, name: str, text: str
) -> None:
    async def erased() -> bool:
        return True

    first = await notes.write(scope, scope.memory_dir / "a.md", "- Ann drinks milk\n", expected="")
    seen = notes.watched(Witness(erased))
    with pytest.raises(WriteRefused, match="forgotten"):
        await seen.write(scope, scope.memory_dir / name, text, expected=first.hash if name == "a.md" else "")


async def test_a_description_alone_and_a_line_of_an_index_are_facts_that_a_run_adds(scope: Scope, notes: Notes) -> None:
    witness = Witness()
    seen, path = notes.watched(witness), scope.memory_dir / "a.md"
    await seen.write(scope, path, "---\ndescription: Ann drinks tea\n---\n", expected="")
    await seen.append(scope, scope.memory_dir / "MEMORY.md", "- [A](a.md): drinks\n- Bob eats no nuts")
    told = {("a.md", "Ann drinks tea"), ("MEMORY.md", "Bob eats no nuts")}
    assert {(fact.note, fact.fact) for fact in witness.added} == told
    await seen.append(scope, path, "- Ann likes milk")
    assert {fact.fact for fact in witness.added} == {"Ann drinks tea", "Bob eats no nuts", "Ann likes milk"}
    await seen.edit(scope, path, "- Ann likes milk", "", expected=None)
    assert {(fact.note, fact.fact) for fact in witness.added} == told
    assert witness.gone == ()


async def test_outside_of_memory_there_is_nothing_to_witness(scope: Scope, tmp_path: Path) -> None:
    witness = Witness()
    await witness(scope, tmp_path / "else.md", before="", after="- one")
    assert witness.added == ()


class TestExtraction:
    @pytest.fixture
    def noted(self, scope: Scope) -> Path:
        path = scope.memory_dir / "drinks.md"
        path.write_text("---\nname: drinks\n---\n\n- Ann drinks tea (2026-05-01)\n- Ann likes milk\n")
        return path

    async def test_what_is_noted_elsewhere_is_refused_and_what_is_new_is_not(
        self, scope: Scope, notes: Notes, noted: Path
    ) -> None:
        seen = notes.watched(ExtractionWitness(Citations([said("I drink tea and live in Kiel", at=JUNE)]), shown=()))
        again = scope.memory_dir / "again.md"
        with pytest.raises(WriteRefused, match=r"already noted in drinks\.md"):
            await seen.write(scope, again, "- Ann drinks tea (2026-06-01)\n", expected="")
        with pytest.raises(WriteRefused, match=r"already noted in drinks\.md"):
            await seen.append(scope, noted, "- ann drinks tea")
        await seen.write(scope, again, "- Ann drinks tea\n- Ann lives in Kiel\n", expected="")
        await seen.write(scope, scope.memory_dir / "team" / "tea.md", "- Ann likes milk\n", expected="")

    async def test_a_date_on_which_it_was_not_said_is_part_of_the_fact(self, scope: Scope, notes: Notes) -> None:
        (scope.memory_dir / "old.md").write_text("- The meeting is (2026-07-01)\n- Rent is due (Ann, 2026-07-01)\n")
        seen = notes.watched(
            ExtractionWitness(Citations([said("The meeting is in August, and the rent is due")]), shown=())
        )
        new = scope.memory_dir / "new.md"
        await seen.write(scope, new, "- The meeting is (2026-08-01)\n", expected="")
        await seen.append(scope, new, "- Rent is due (Ann, 2026-08-01)")
        with pytest.raises(WriteRefused, match="already noted"):
            await seen.append(scope, new, "- Rent is due (Ann, 2026-05-01)")

    @pytest.mark.parametrize("name", ["Ada0", "user_42", "O'Neil", "Ann (work)", "Smith, Ann", "🦊", "李雷", "דוד"])
    async def test_what_somebody_said_again_is_noted_already_whatever_their_name(
        self, scope: Scope, notes: Notes, name: str
    ) -> None:
        (scope.memory_dir / "old.md").write_text(f"- Rent is due ({name}, 2026-04-01)\n")
        seen = notes.watched(ExtractionWitness(Citations([said("The rent")]), shown=()))
        with pytest.raises(WriteRefused, match="already noted"):
            await seen.write(scope, scope.memory_dir / "new.md", f"- Rent is due ({name}, 2026-05-01)\n", expected="")

    async def test_a_fact_may_move_and_a_correction_may_end_in_known_words(
        self, scope: Scope, notes: Notes, noted: Path
    ) -> None:
        (scope.memory_dir / "old.md").write_text("- Ann drinks coffee\n")
        seen = notes.watched(ExtractionWitness(Citations([said("I drink tea now")]), shown=["Ann likes milk"]))
        await seen.edit(scope, scope.memory_dir / "old.md", "coffee", "tea", expected=None)
        await seen.delete(scope, noted, expected=None)
        await seen.write(scope, scope.memory_dir / "new.md", "- Ann likes milk\n", expected="")

    async def test_what_was_only_recalled_is_refused_unless_a_human_says_it(self, scope: Scope, notes: Notes) -> None:
        write = ("- The team keeps an okapi\n- Ann lives in Kiel\n", scope.memory_dir / "okapi.md")
        shown = ["The team keeps an okapi (2026-05-01)"]
        deaf = notes.watched(ExtractionWitness(Citations([said("I live in Kiel")]), shown=shown))
        with pytest.raises(WriteRefused, match=r"nobody said this.*okapi"):
            await deaf.write(scope, write[1], write[0], expected="")
        heard = notes.watched(
            ExtractionWitness(Citations([said("Yes, our team keeps an okapi, and I live in Kiel")]), shown=shown)
        )
        await heard.write(scope, write[1], write[0], expected="")

    async def test_a_change_without_a_new_fact_is_let_through(self, scope: Scope, notes: Notes, noted: Path) -> None:
        witness = ExtractionWitness(Citations(()), shown=["Ann likes milk"])
        await notes.watched(witness).edit(scope, noted, "name: drinks", "name: Drinks", expected=None)
        await notes.watched(witness).edit(scope, noted, "\n- Ann likes milk", "", expected=None)
        assert [fact.fact for fact in witness.gone] == ["Ann likes milk"]
