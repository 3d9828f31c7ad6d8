"""In a shared chat nobody has the model take out what another said; what a person has it take out stays out."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from gateway.db.models import ErasureRow
from memory.provenance import fact_hash
from tests.acceptance.whole import Speaker, Whole, calls, note, whole

ANN = Speaker(user="42", chat="-100")
BOB = Speaker(user="43", chat="-100", name="Bob")
EVE = Speaker(user="44", chat="-100", name="Eve")
DEADLINE = "The deadline is Friday"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home", 'owners = ["telegram:44"]\n') as running:
        yield running


async def noted(running: Whole) -> Path:
    """Let Ann have the deadline noted in the turn that she says it in, and return the note."""
    file = (await running.scope(ANN)).memory_dir / "plan.md"
    running.then(calls(("write", {"file_path": str(file), "content": note(DEADLINE)})), "Noted.")
    running.then_fork("Nothing to add.")
    await running.tell(ANN, f"Remember this: {DEADLINE}.")
    await running.settled()
    return file


async def asks(running: Whole, who: Speaker, *tools: tuple[str, dict[str, Any]]) -> str:
    """Let somebody ask to forget the deadline, the model try these tools, and return what it was told then."""
    running.then(calls(*tools), "I have tried.")
    running.then_fork("Nothing to add.")
    await running.tell(who, "Please forget what Ann said about the deadline.")
    await running.settled()
    return str(running.chats[-1].body["messages"][-1]["content"])


async def test_the_model_forgets_a_fact_for_who_said_it_and_for_nobody_else(running: Whole) -> None:
    file = await noted(running)
    index = file.with_name("MEMORY.md")
    index.write_text("- [Plan](plan.md): dates\n")
    told = await asks(running, BOB, ("delete", {"file_path": str(file)}))
    assert "only who said it, or an owner of this bot" in told
    assert DEADLINE in file.read_text()
    assert "plan.md" in index.read_text()
    assert "`/forget` clears those too" in await asks(running, ANN, ("delete", {"file_path": str(file)}))
    assert not file.exists()


async def test_the_model_forgets_a_fact_for_an_owner(running: Whole) -> None:
    file = await noted(running)
    await asks(running, EVE, ("edit", {"file_path": str(file), "old_string": f"\n{DEADLINE}\n", "new_string": "\n"}))
    assert not file.read_text().endswith(f"{DEADLINE}\n")


async def test_an_extraction_run_does_for_nobody_what_a_turn_did_not(running: Whole) -> None:
    file = await noted(running)
    running.then("Only Ann may have that forgotten.")
    running.then_fork(calls(("delete", {"file_path": str(file)})), "Done.")
    await running.tell(BOB, "Please forget what Ann said about the deadline.")
    await running.settled()
    assert "only who said it" in str(running.forks[-1].body["messages"][-1]["content"])
    assert DEADLINE in file.read_text()


async def test_an_agent_takes_nothing_out_of_the_chats_memory_for_who_sets_it_to_work(
    running: Whole, tmp_path: Path
) -> None:
    agents = tmp_path / "home" / "agents"
    agents.mkdir()
    (agents / "gardener.md").write_text("---\nname: gardener\ndescription: Beds\nmemory: user\n---\nSay what grows.\n")
    file = await noted(running)
    deletion = calls(("delete", {"file_path": str(file)}))
    for answer in (deletion, "I was not allowed to."):
        running.model.script(answer, when=lambda body: "Say what grows." in str(body["system"]))
    await asks(running, BOB, ("Agent", {"name": "gardener", "prompt": "Forget the deadline."}))
    assert DEADLINE in file.read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [("plan.md", f"---\nname: plan\ndescription: {DEADLINE}\n---\n"), ("MEMORY.md", f"- {DEADLINE}\n")],
)
async def test_a_description_alone_and_a_line_of_the_index_are_their_authors(
    running: Whole, name: str, text: str
) -> None:
    file = (await running.scope(ANN)).memory_dir / name
    running.then(calls(("write", {"file_path": str(file), "content": text})), "Noted.")
    running.then_fork("Nothing to add.")
    await running.tell(ANN, f"Remember this: {DEADLINE}.")
    await running.settled()
    change = {"file_path": str(file), "old_string": DEADLINE, "new_string": "It rains"}
    assert "only who said it" in await asks(running, BOB, ("edit", change))
    await running.tell(BOB, "/forget deadline")
    assert "Only who said it" in await running.tell(BOB, "/forget all")
    assert DEADLINE in file.read_text()
    await running.tell(ANN, "/forget deadline")
    assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget all")
    assert not file.exists() or DEADLINE not in file.read_text()


async def test_a_copy_of_a_fact_stays_its_authors(running: Whole) -> None:
    file = await noted(running)
    copy = file.with_name("copy.md")
    elsewhere = replace(BOB, thread="9")  # where nobody but him has said anything
    await asks(running, elsewhere, ("write", {"file_path": str(copy), "content": note(DEADLINE)}))
    await asks(running, elsewhere, ("delete", {"file_path": str(file)}))
    assert not file.exists()
    assert "only who said it" in await asks(running, elsewhere, ("delete", {"file_path": str(copy)}))
    assert DEADLINE in copy.read_text()


async def forgotten(running: Whole) -> set[str]:
    """Return the hashes of the facts that count as forgotten."""
    async with running.core.database.read() as session:
        return set((await session.scalars(select(ErasureRow.fact_hash).where(ErasureRow.fact_hash != ""))).all())


async def test_what_a_person_has_the_model_delete_counts_as_forgotten_and_the_session_goes_on(running: Whole) -> None:
    file = await noted(running)
    await asks(running, ANN, ("delete", {"file_path": str(file)}))
    assert await forgotten(running) == {fact_hash(DEADLINE)}
    running.then("Yes.")
    await running.tell(ANN, "Are you still there?")
    assert f"Remember this: {DEADLINE}." in str(running.chats[-1].body["messages"])
    await running.settled()
    assert len(running.forks) == 3  # nothing of what is said in it is left out


async def test_a_turn_that_forgets_one_thing_can_note_another(running: Whole) -> None:
    file = await noted(running)
    other = file.with_name("other.md")
    new = {"file_path": str(other), "content": note("The launch is in May")}
    await asks(running, ANN, ("delete", {"file_path": str(file)}), ("write", new))
    assert "in May" in other.read_text()
    assert await forgotten(running) == {fact_hash(DEADLINE)}


async def test_a_fact_that_is_deleted_and_then_noted_again_has_moved_with_its_author(running: Whole) -> None:
    file = await noted(running)
    other = file.with_name("other.md")
    again = {"file_path": str(other), "content": note(DEADLINE)}
    await asks(running, ANN, ("delete", {"file_path": str(file)}), ("write", again))
    assert await forgotten(running) == set()
    assert "only who said it" in await asks(running, BOB, ("delete", {"file_path": str(other)}))
    await asks(running, ANN, ("delete", {"file_path": str(other)}))
    assert not other.exists()


QUITS = "Ann quits the team on Friday (2026-12-04)."


async def notes_for_bob(running: Whole, fact: str) -> tuple[str, bool]:
    """Let Bob have a fact noted; return what the model was told of that, and whether it stands now."""
    running.then(calls(("write", {"file_path": "quits.md", "content": note(fact)})), "I have tried.")
    running.then_fork("Nothing to add.")
    await running.tell(BOB, "Please note: Ann said that she quits the team on Friday.")
    await running.settled()
    told = str(running.chats[-1].body["messages"][-1]["content"])
    return told, ((await running.scope(ANN)).memory_dir / "quits.md").exists()


@pytest.mark.parametrize("spoke", ["", "Good morning to the whole team!"], ids=["absent", "there"])
@pytest.mark.parametrize("stamp", ["(Ann, 2026-12-01)", "(Ann and Bob, 2026-12-01)"])
async def test_nothing_is_put_into_the_mouth_of_who_has_not_said_it(running: Whole, spoke: str, stamp: str) -> None:
    running.then_fork("Nothing to add.")
    if spoke:
        running.then("Good morning.")
        await running.tell(ANN, spoke)
        await running.settled()
    told, stands = await notes_for_bob(running, f"{QUITS} {stamp}")
    assert "Ann is not known to have said this" in told
    assert not stands
    assert await notes_for_bob(running, f"{QUITS} (Bob, 2026-12-01)") != (told, False)


async def test_what_somebody_did_say_is_noted_for_another_and_is_theirs_to_forget(running: Whole) -> None:
    running.then("What a pity.")
    running.then_fork("Nothing to add.")
    await running.tell(ANN, "I am going to quit the team on Friday.")
    await running.settled()
    _, stands = await notes_for_bob(running, f"{QUITS} (Ann, 2026-12-01)")
    assert stands
    for who, answer in ((BOB, "Only who said it"), (ANN, "Forgotten: 1 fact.")):
        await running.tell(who, "/forget quits")
        assert answer in await running.tell(who, "/forget 1")


async def test_whose_name_stands_with_a_fact_may_have_it_forgotten_unless_another_took_the_name(
    running: Whole,
) -> None:
    memory = (await running.scope(ANN)).memory_dir
    poser = replace(BOB, name="Eve")
    for who in (ANN, BOB, EVE, poser):
        running.then("Hello.")
        running.then_fork("Nothing to add.")
        await running.tell(who, "Hello to you all")
    await running.settled()
    for fact, who, answer in (
        ("The boat is blue (Ann, 2026-12-01)", BOB, "Only who said it"),
        ("The boat is blue (Ann, 2026-12-01)", ANN, "Forgotten: 1 fact."),
        ("The boat is red (Eve, 2026-12-01)", poser, "Only who said it"),
    ):
        (memory / "boat.md").write_text(note(fact))
        await running.tell(who, "/forget boat.md")
        assert answer in await running.tell(who, "/forget 1")
