from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory.citations import Citations, without_marks
from memory.doubles import LocalLeases
from memory.errors import WriteRefused
from memory.extraction_witness import ExtractionWitness
from memory.notes import Notes
from memory.provenance import Placed, Spoken, Witness
from memory.scope import Mode, Scope

NOON = datetime(2031, 5, 2, 12, tzinfo=UTC)
ANN, BOB = "telegram:42", "telegram:43"


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    memory = tmp_path / "memory"
    memory.mkdir()
    return Scope(
        principal="chat:telegram:-100", project="", memory_dir=memory, team_dir=None, mode=Mode.AUTO, shared=True,
        enabled=True, timezone="UTC", readable=(memory,), writable=(memory,),
    )  # fmt: skip


def said(*texts: tuple[str, str]) -> list[Spoken]:
    names = {ANN: "Ann", BOB: "Bob"}
    return [
        Spoken(message_id=100 + number, account=who, speaker=names[who], text=text, at=NOON + timedelta(hours=number))
        for number, (who, text) in enumerate(texts, start=1)
    ]


BIRTHDAY = said((ANN, "Is your birthday on the 3rd of May, Bob?"), (BOB, "Yes, it is"))


def marked(citations: Citations, *facts: str) -> str:
    """Return what is written of these facts."""
    return str(citations.taken({"file_path": "a.md", "content": "".join(f"- {fact}\n" for fact in facts)})["content"])


def test_the_messages_are_told_by_number_with_speaker_local_time_and_their_first_words() -> None:
    heard = said((ANN, "Is it so?"), (BOB, f"Yes; 9 Ann 10:00 {'no ' * 90}"))
    told = Citations(heard, timezone="Asia/Tokyo").told(shared=True)
    assert "`(Ann, 2031-05-02) [from 3]`" in told
    assert told.endswith("2031-05-02: 1 Ann 22:00 Is it so?; 2 Bob 23:00 Yes, 9 Ann 10:00 no no no no no")
    assert "Ann" not in Citations(heard).told(shared=False).partition("number:")[2].partition("Yes")[0]


def test_of_many_messages_the_newest_forty_are_told_and_little_of_each() -> None:
    told = Citations(said(*[(ANN, "words " * 50)] * 400)).told(shared=True)
    assert ("; 361 Ann" in told or ": 361 Ann" in told, " 360 Ann" in told) == (True, False)
    assert len(told) < 1200
    assert Citations([]).told(shared=True) == ""


def test_marks_are_taken_out_of_whatever_is_written_and_of_what_an_edit_looks_for() -> None:
    given = {
        "file_path": "a.md",
        "content": "- tea (2031-05-02) [from 1]\n- milk [From 1, 2].\n- [from a](link.md) [from 3](b.md)\n",
        "old_string": "tea (2031-05-02) [from 1]",
        "new_string": "no tea (2031-05-02)  [from 2]",
    }
    assert Citations(BIRTHDAY).taken(given) == {
        "file_path": "a.md",
        "content": "- tea (2031-05-02)\n- milk.\n- [from a](link.md) [from 3](b.md)\n",
        "old_string": "tea (2031-05-02)",
        "new_string": "no tea (2031-05-02)",
    }


@pytest.mark.parametrize(
    "mark",
    ["[from 2[from 2]]", "[from [from 2]2]", "[from #2]", "[From message 2]", "[from messages 1 and 2]", "[from  2]"],
)
def test_a_mark_is_taken_out_whole_however_it_is_written(mark: str) -> None:
    citations = Citations(BIRTHDAY)
    assert marked(citations, f"Tee {mark}") == "- Tee\n"
    assert citations.origin("Tee", gone=()) == BIRTHDAY[1]


def test_marks_within_marks_are_taken_out_in_one_pass_however_deep_they_go() -> None:
    depth = 50_000
    given = {"content": f"tea {'[from ' * depth}1]{'2]' * (depth - 1)} and [from [x] 1] cake"}
    assert without_marks(given) == {"content": "tea and [from [x] 1] cake"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ann is allergic to walnuts", "Ann is not allergic to walnuts"),
        ("Ann never eats fish", "Ann eats fish"),
        ("The launch is on 5 May in Kiel", "The launch is on 9 June in Kiel"),
        ("The launch is in Kiel", "The launch is in Kiel, in room 7"),
        ("Ann's sister Zenobia owes her 500 euros", "Ann owes her sister Zenobia 500 euros"),
        ("Ann is allergic to peanuts since her childhood", "Ann is allergic to walnuts since her childhood"),
        ("Ann drinks green tea (Ann, 2031-05-01)", "Ann drinks green tea (Bob, 2031-05-01)"),
    ],
)
def test_an_older_fact_is_no_source_of_what_it_does_not_say(old: str, new: str) -> None:
    citations = Citations(said((ANN, "Hello there")))
    assert citations.origin(new, gone=[Placed(note="a.md", fact=old)]) is None


def test_a_mark_names_the_message_whatever_its_words() -> None:
    citations = Citations(BIRTHDAY)
    fact = "Bobs Geburtstag ist am 3.5. (Bob, 2031-05-02)"
    assert marked(citations, f"{fact} [from 2]") == f"- {fact}\n"
    assert citations.origin(fact, gone=()) == BIRTHDAY[1]


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("tea (Ann, 2031-05-01)", "coffee (Ann, 2031-05-02) [from 1]", "Ann drinks coffee (Ann, 2031-05-02)"),
        ("description: tea", "description: coffee [from 1]", "coffee"),
    ],
)
def test_a_mark_counts_also_where_an_edit_writes_a_part_of_a_fact_or_more(old: str, new: str, fact: str) -> None:
    citations = Citations(BIRTHDAY)
    citations.taken({"file_path": "a.md", "old_string": old, "new_string": new})
    assert citations.origin(fact, gone=()) == BIRTHDAY[0]


def test_who_is_named_with_a_fact_is_its_only_possible_source() -> None:
    citations = Citations(BIRTHDAY)
    assert citations.origin("Bob's birthday is on the 3rd of May (Bob, 2031-05-02)", gone=()) is None
    assert citations.origin("12:30 Bob: birthday on the 3rd of May", gone=()) is None
    assert citations.origin("Bob's birthday is on the 3rd of May (Ann, 2031-05-02)", gone=()) == BIRTHDAY[0]
    assert citations.origin("13:00 Ann: the birthday", gone=()) == BIRTHDAY[0]
    assert citations.origin("Bob's birthday is on the 3rd of May（Bob，2031-05-02）", gone=()) is None


@pytest.mark.parametrize("between", [", ", " and ", "、", " et ", "；"])
def test_of_several_names_with_a_fact_each_is_looked_for_by_itself(between: str) -> None:
    citations = Citations(BIRTHDAY)
    assert citations.absent(f"It rains (Ann{between}Bob, 2031-05-02)") == ""
    assert citations.absent(f"It rains (Ann{between}Cem, 2031-05-02)") == "Cem"
    assert citations.absent(f"12:05 Cem{between}Bob: It rains") == "Cem"


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        ("It rains (Ann, 2031-05-02) [from 3]", r"no message 3 .* 1 to 2"),
        ("It rains [from 0]", r"no message 0 .* 1 to 2"),
        ("It rains (Ann, 2031-05-02) [from 2]", "message 2 is by Bob"),
    ],
)
def test_a_number_that_cannot_be_meant_is_refused(fact: str, reason: str) -> None:
    citations = Citations(BIRTHDAY)
    written = marked(citations, fact)
    with pytest.raises(WriteRefused, match=reason):
        citations.origin(written[2:-1], gone=())
    assert citations.origin(written[2:-1], gone=()) is None, "it may be written again without a number"


def test_of_several_numbers_the_one_of_the_named_speaker_counts_else_the_last() -> None:
    citations = Citations(BIRTHDAY)
    marked(citations, "A birthday (Ann, 2031-05-02) [from 1, 2]", "A party [from 1 and 2]")
    assert citations.origin("A birthday (Ann, 2031-05-02)", gone=()) == BIRTHDAY[0]
    assert citations.origin("A party", gone=()) == BIRTHDAY[1]


def test_a_correction_is_the_word_of_who_gave_it_and_a_mark_alone_takes_nothing_away() -> None:
    citations = Citations(said((ANN, "Correction: the release is on the 9th"), (BOB, "Fine"), (ANN, "Hello all")))
    old, new = "The release is on the 3rd (Ann, 2031-05-01)", "The release is on the 9th (Ann, 2031-05-02)"
    assert citations.replaced_by(old, new) == ANN
    assert citations.replaced_by("The oven is broken (Ann, 2031-05-01)", new) is None
    marked(citations, "The release never comes (Ann, 2031-05-02) [from 3]")
    assert citations.replaced_by(old, "The release never comes (Ann, 2031-05-02)") is None
    assert citations.replaced_by(old, "Nobody said this") is None


def test_a_word_that_an_author_has_said_does_not_make_a_correction_theirs() -> None:
    citations = Citations(said((ANN, "The train was full today."), (BOB, "Ann takes the night bus, not the train")))
    old, new = (
        "Ann takes the early train. (Ann, 2031-05-01)",
        "Ann takes the night bus, not the train. (Ann, 2031-05-02)",
    )
    marked(citations, f"{new} [from 1]")
    assert citations.replaced_by(old, new) is None
    own = Citations(said((ANN, "I take the night bus now, not the train")))
    marked(own, f"{new} [from 1]")
    assert own.replaced_by(old, new) == ANN


class TestWitness:
    @pytest.fixture
    def notes(self) -> Notes:
        return Notes(leases=LocalLeases())

    async def test_what_nobody_said_is_refused_and_taken_with_a_number(self, scope: Scope, notes: Notes) -> None:
        citations = Citations(said((ANN, "Ich trinke morgens gern Tee"), (ANN, "Danke dir")))
        witness = ExtractionWitness(citations, shown=())
        seen, path, fact = (
            notes.watched(witness),
            scope.memory_dir / "tea.md",
            "Ann likes tea at dawn (Ann, 2031-05-02)",
        )
        with pytest.raises(WriteRefused, match=r"no human sentence.*Ann likes tea.*`\[from 3\]`"):
            await seen.write(scope, path, marked(citations, fact), expected="")
        assert not path.exists()
        await seen.write(scope, path, marked(citations, f"{fact} [from 1]"), expected="")
        assert path.read_text() == f"- {fact}\n"
        assert witness.origin(witness.added[0], heard=()) == citations.heard[0]

    async def test_a_note_in_other_words_has_no_human_sentence_behind_it(self, scope: Scope, notes: Notes) -> None:
        shown = ["Ann has a dog called Rex and a garden with plums"]
        seen = notes.watched(ExtractionWitness(Citations(said((ANN, "Hello there, nice day"))), shown=shown))
        with pytest.raises(WriteRefused, match="no human sentence"):
            await seen.append(
                scope, scope.memory_dir / "a.md", "- Ann owns a dog named Rex; her garden has plums in it"
            )

    @pytest.mark.parametrize(
        "fact",
        [
            "I am a thief. (Ann, 2031-05-02)",
            "12:05 Ann: I am a thief.",
            "x (Bob, Ann, 2031-05-02)",
            "I am a thief（Ann，2031-05-02）",
            "I am a thief (Ann; 2031-05-02)",
            "x (Bob、Ann, 2031-05-02)",
            "x (Bob et Ann, 2031-05-02)",
            "12:05 Ann：我是小偷",
            "12:05 Ann: I am a thief (2031-05-02)",
        ],
    )
    async def test_nobody_is_named_in_a_shared_chat_as_having_said_what_others_said(
        self, scope: Scope, notes: Notes, fact: str
    ) -> None:
        citations = Citations(said((BOB, "I am a thief, says Ann")))
        path = scope.memory_dir / "thief.md"
        (scope.memory_dir / "old.md").write_text("- Ann keeps bees (Ann, 2031-05-01)\n")
        seen = notes.watched(ExtractionWitness(citations, shown=()))
        with pytest.raises(WriteRefused, match="Ann has said nothing in these messages"):
            await seen.write(scope, path, marked(citations, f"{fact} [from 1]"), expected="")
        await seen.edit(scope, scope.memory_dir / "old.md", "keeps bees", "keeps many bees", expected=None)
        await notes.watched(ExtractionWitness(citations, shown=())).write(
            replace(scope, shared=False), path, marked(citations, f"{fact} [from 1]"), expected=""
        )

    @pytest.mark.parametrize("stamp", [" (Ann, {})", "（Ann，{}）", " ( Ann; {} )"])
    async def test_what_is_noted_already_is_so_whatever_the_brackets_of_its_stamp(
        self, scope: Scope, notes: Notes, stamp: str
    ) -> None:
        (scope.memory_dir / "old.md").write_text(f"- Tea{stamp.format('2031-05-01')}\n")
        seen = notes.watched(ExtractionWitness(Citations(said((ANN, "Tea"))), shown=()))
        for other in (stamp, " (Ann, {})"):
            with pytest.raises(WriteRefused, match=r"already noted in old\.md"):
                await seen.append(scope, scope.memory_dir / "new.md", f"- Tea{other.format('2031-05-02')}")

    async def test_a_rewording_of_what_goes_and_a_copy_of_what_is_noted_need_no_sentence(
        self, scope: Scope, notes: Notes
    ) -> None:
        witness = ExtractionWitness(Citations(said((ANN, "I live in Kiel"))), shown=())
        (scope.memory_dir / "old.md").write_text("- Ann drinks green tea (Ann, 2031-05-01)\n- Ann keeps bees\n")
        seen = notes.watched(witness)
        edit = ("Ann drinks green tea", "Ann drinks green tea daily")
        await seen.edit(scope, scope.memory_dir / "old.md", *edit, expected=None)
        await seen.append(scope, scope.memory_dir / "new.md", "- Ann keeps bees\n- Ann lives in Kiel (Ann, 2031-05-02)")
        assert isinstance(witness.origin(witness.added[0], heard=()), Placed)

    @pytest.mark.parametrize("word", ["tomorrow (2031-05-03)", "tomorrow"])
    async def test_a_day_without_a_date_is_refused_once_with_the_day_on_which_it_was_said(
        self, scope: Scope, notes: Notes, word: str
    ) -> None:
        heard = said((ANN, "The launch is tomorrow"), (BOB, "I see"))
        seen = notes.watched(ExtractionWitness(Citations(heard), shown=()))
        path = scope.memory_dir / "launch.md"
        with pytest.raises(WriteRefused, match=r"'tomorrow' in .*said on 2031-05-02.*`tomorrow \(2031-05-03\)`"):
            await seen.append(scope, path, "- The launch is tomorrow (Ann, 2031-05-02)")
        await seen.append(scope, path, f"- The launch is {word} (Ann, 2031-05-02)")
        assert word in path.read_text()

    async def test_a_turn_is_asked_for_dates_as_well_and_a_memory_without_a_day_is_not(
        self, scope: Scope, notes: Notes
    ) -> None:
        path = scope.memory_dir / "rain.md"
        with pytest.raises(WriteRefused, match="said on 2031-05-02"):
            await notes.watched(Witness(today="2031-05-02")).append(scope, path, "- It rained yesterday")
        await notes.watched(Witness()).append(scope, path, "- It rained yesterday")
        await notes.watched(Witness(today="2031-05-02")).edit(scope, path, "rained", "rained a lot", expected=None)
