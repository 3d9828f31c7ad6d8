"""Each fact of an extraction has a human sentence behind it: whose it is, in which message, and on which day."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from gateway.db.models import FactRow, MessageRow
from tests.acceptance.extraction_runs import results
from tests.acceptance.whole import ANN, Speaker, Whole, calls, is_recall, note, whole

ANN_IN_G = Speaker(user="42", chat="-100", name="Ann")
BOB_IN_G = Speaker(user="43", chat="-100", name="Bob")
TWO_TURNS = "[memory]\nextraction_throttle = 2\n"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home") as running:
        yield running


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "pair", TWO_TURNS) as running:
        yield running


def write(words: str, name: str = "fact") -> Any:
    return calls(("write", {"file_path": f"{name}.md", "content": note(words)}))


async def sources(running: Whole) -> list[tuple[str, str]]:
    """Return of each recorded fact who said it, and the words of the message."""
    told = select(FactRow.speaker, MessageRow.said).join(MessageRow, MessageRow.id == FactRow.message_id)
    async with running.core.database.read() as session:
        return [(speaker, said) for speaker, said in (await session.execute(told.order_by(FactRow.id))).all()]


async def said_by_both(running: Whole, ann: str, bob: str) -> None:
    await running.tell(ANN_IN_G, ann)
    await running.tell(BOB_IN_G, bob)
    await running.settled()


@pytest.mark.parametrize("fact", ["Ann's salary is 90000 euros (2031-05-02)", "The capital of Australia is Canberra"])
async def test_what_nobody_said_is_not_noted_be_it_the_bots_own_words(running: Whole, fact: str) -> None:
    running.then("The capital of Australia is Canberra.")
    running.then_fork(write(fact), "Nothing, then.")
    await running.tell(ANN, "Hello there, good morning")
    await running.settled()
    assert "no human sentence" in results(running.forks[-1])[0]["content"]
    assert not ((await running.scope(ANN)).memory_dir / "fact.md").exists()
    assert await running.cursor() > 0


async def test_a_recalled_note_is_not_noted_again_in_other_words(running: Whole) -> None:
    await running.remember(ANN, "Ann has a dog called Rex and a garden with plums", name="dog")
    running.model.script({"selected_memories": ["dog.md"]}, when=is_recall)
    running.then_fork(write("Ann owns a dog named Rex; her garden has plums in it"), "Nothing, then.")
    await running.tell(ANN, "Hello there, nice day")
    await running.settled()
    assert "no human sentence" in results(running.forks[-1])[0]["content"]


async def test_a_refused_fact_is_written_again_with_its_number_and_nothing_is_lost(pair: Whole) -> None:
    fact = "Ann likes to drink tea at dawn (2031-05-02)"
    pair.then_fork(write(fact), write(f"{fact} [from 1]"), "Done.")
    for words in ("Ich trinke morgens gern Tee", "Danke dir"):
        await pair.tell(ANN, words)
    await pair.settled()
    first, second = (results(fork)[0].get("is_error", False) for fork in pair.forks[1:])
    assert (first, second) == (True, False)
    assert ((await pair.scope(ANN)).memory_dir / "fact.md").read_text() == note(fact)
    assert await sources(pair) == [("Ann", "Ich trinke morgens gern Tee")]
    assert await pair.cursor() > 0


async def test_a_fact_is_its_speakers_and_not_who_asked_for_it(pair: Whole) -> None:
    fact = "Bob's birthday is on the 3rd of May (Bob, 2031-05-02)"
    pair.then_fork(write(fact), write(f"{fact} [from 2]"), "Done.")
    await said_by_both(pair, "Is your birthday on the 3rd of May, Bob?", "Yes, it is")
    assert results(pair.forks[1])[0]["is_error"]
    assert await sources(pair) == [("Bob", "Yes, it is")]


async def test_a_number_that_no_message_has_is_refused_with_those_there_are(running: Whole) -> None:
    running.then_fork(write("Ann drinks tea [from 7]"), write("Ann drinks tea [from 1]"), "Done.")
    await running.tell(ANN, "I drink tea")
    await running.settled()
    assert "no message 7" in results(running.forks[1])[0]["content"]
    assert await sources(running) == [("Ann", "I drink tea")]


async def test_a_correction_by_its_author_replaces_the_old_fact_while_others_speak(pair: Whole) -> None:
    old, new = (f"The release is on the {day} of May (Ann, 2031-05-02)" for day in ("3rd", "9th"))
    pair.then_fork(write(f"{old} [from 1]"), "Done.")
    await said_by_both(pair, "The release is on the 3rd of May", "Good to know")
    edit = {"file_path": "fact.md", "old_string": f"\n\n{old}", "new_string": f"\n\n{new} [from 1]"}
    pair.then_fork(calls(("edit", edit)), "Done.")
    await said_by_both(pair, "Correction: the release is on the 9th of May", "Fine with me")
    text = ((await pair.scope(ANN_IN_G)).memory_dir / "fact.md").read_text()
    assert text.endswith(f"\n\n{new}\n")
    assert await sources(pair) == [("Ann", "Correction: the release is on the 9th of May")]


@pytest.mark.parametrize("new", ["The release is on the 9th (Bob, 2031-05-02) [from 2]", "Ann is here [from 1]", ""])
async def test_nobody_else_takes_a_fact_out_by_a_correction_a_number_or_without(pair: Whole, new: str) -> None:
    old = "The release is on the 3rd of May (Ann, 2031-05-02)"
    first = {"file_path": "fact.md", "content": f"# Release\n\n- {old} [from 1]\n"}
    pair.then_fork(calls(("write", first)), "Done.")
    await said_by_both(pair, "The release is on the 3rd of May", "Good to know")
    edit = {"file_path": "fact.md", "old_string": f"- {old}\n", "new_string": new and f"- {new}\n"}
    pair.then_fork(calls(("edit", edit)), "Done.")
    await said_by_both(pair, "Hello all of you", "No, the release is on the 9th")
    assert "only who said it" in results(pair.forks[-1])[0]["content"]
    assert old in ((await pair.scope(ANN_IN_G)).memory_dir / "fact.md").read_text()


@pytest.mark.parametrize("last", ["tomorrow (2031-05-03)", "tomorrow"])
async def test_a_relative_day_is_asked_for_its_date_once_in_a_turn_and_in_an_extraction(
    running: Whole, last: str
) -> None:
    facts = ("The dentist is tomorrow", f"The dentist is {last}")
    running.then(*[write(fact) for fact in facts], "Noted.")
    await running.tell(ANN, "Remember: the dentist is tomorrow")
    await running.settled()
    running.then_fork(*[write(fact.replace("dentist", "party"), "party") for fact in facts], "Done.")
    await running.tell(ANN, "The party is tomorrow")
    await running.settled()
    asked = [results(running.chats[1]), results(running.forks[1])]
    assert ["a day without its date" in result[0]["content"] for result in asked] == [True, True]
    texts = [((await running.scope(ANN)).memory_dir / name).read_text() for name in ("fact.md", "party.md")]
    assert [last in text for text in texts] == [True, True]


async def test_the_built_in_stand_in_names_its_sources_and_no_note_shows_it(running: Whole) -> None:
    await running.tell(ANN, "I prefer short answers")
    await running.settled()
    (file,) = (await running.scope(ANN)).memory_dir.glob("preference*.md")
    assert "[from 1]" in str(running.forks[-1].body["messages"])
    assert "[from" not in file.read_text()
    assert await sources(running) == [("Ann", "I prefer short answers")]


async def test_a_day_log_takes_only_what_somebody_said_and_shows_no_number(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", '[memory]\nmemory_mode = "log"\n') as running:
        memory = (await running.scope(ANN)).memory_dir
        log = memory / f"logs/{running.core.clock():%Y/%m/%Y-%m-%d}.md"
        lines = ("- 12:00 Ann: likes trains at dawn", "- 12:00 Ann: keeps a zebra [from 1]")
        running.then_fork(calls(*[("append", {"file_path": str(log), "content": line}) for line in lines]), "Done.")
        await running.tell(ANN, "Ich habe ein Zebra")
        await running.settled()
        assert log.read_text() == "- 12:00 Ann: keeps a zebra\n"
