"""Who said what is remembered, and which notes shaped an answer: answerable in the chat, whatever a dream rewords."""

from collections.abc import AsyncIterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.acceptance.whole import ANN, BOB, Clock, Speaker, Whole, calls, is_recall, note, whole

ANN_IN_G = Speaker(user="42", chat="-100")
BOB_IN_G = Speaker(user="43", chat="-100", name="Bob")
DREAM = "This is a memory consolidation"
UNITS = "I prefer answers in metric units."


@pytest.fixture
async def running(tmp_path: Path, clock: Clock) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home", clock=clock) as running:
        yield running


def results(running: Whole) -> list[str]:
    """Return what the last extraction run was told by its tools."""
    last = running.forks[-1].body["messages"][-1]["content"]
    return [str(block["content"]) for block in last if block["type"] == "tool_result"]


async def test_why_names_the_recalled_notes_with_their_age_and_who_said_them(running: Whole, clock: Clock) -> None:
    assert "not answered anything" in await running.tell(ANN, "/why")
    await running.tell(ANN, UNITS)
    await running.settled()
    day = f"{clock():%Y-%m-%d}"
    clock.forward(days=3)
    await running.tell(ANN, "Which units do I prefer?")
    text = await running.tell(ANN, "/why")
    assert "Recalled for my last answer" in text
    assert f"saved 3 days ago): said by Ann, {day}" in text
    await running.tell(ANN, "Good, thank you so much.")
    assert "Recalled earlier in this conversation" in await running.tell(ANN, "/why")
    assert "metric" not in await running.tell(BOB, "/why")


async def test_a_fact_that_was_written_by_hand_is_honestly_unknown(running: Whole) -> None:
    file = await running.remember(ANN, "Ann keeps bees", name="bees")
    running.then(calls(("read", {"file_path": str(file)})), "You keep bees.")
    await running.tell(ANN, "hello")  # too short a message for recall
    text = await running.tell(ANN, "/why")
    assert "Opened by me for it" in text
    assert "`bees.md` (saved today): unknown who said it" in text


async def test_team_notes_are_marked(tmp_path: Path) -> None:
    project = '[projects.garden]\nchats = ["telegram:-100"]\n'
    async with whole(tmp_path / "home", project) as running:
        await running.remember(BOB_IN_G, "The team keeps an okapi", team=True)
        await running.tell(ANN_IN_G, "Which animal does the team keep?")
        assert "`team/canary.md` (saved today, team memory): unknown" in await running.tell(ANN_IN_G, "/why")


async def test_an_agents_notes_are_named_as_its_own(tmp_path: Path) -> None:
    file = tmp_path / "home/agents/gardener.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: gardener\ndescription: Knows plants\nmemory: user\n---\n\nSay what grows.\n")
    async with whole(tmp_path / "home") as running:
        folder = running.core.homes.home(ANN.principal) / "agent-memory/gardener"
        folder.mkdir(parents=True)
        (folder / "soil.md").write_text(note("The soil in bed 3 is sour"))
        await running.tell(ANN, "@gardener what of the sour soil in bed 3?")
        text = await running.tell(ANN, "/why")
        assert "`@gardener/soil.md` (saved today): unknown who said it" in text
        (folder / "soil.md").unlink()
        assert "1 that is no longer there" in await running.tell(ANN, "/why")


async def test_in_a_group_each_fact_keeps_its_own_speaker(running: Whole) -> None:
    await running.tell(ANN_IN_G, UNITS)
    await running.tell(BOB_IN_G, "I prefer the early train to the late one.")
    await running.settled()
    await running.tell(BOB_IN_G, "Which units does Ann prefer, and which train does Bob?")
    lines = (await running.tell(BOB_IN_G, "/why")).splitlines()
    by_note = {line.split("`")[1]: line for line in lines if line.startswith("- ")}
    assert len(by_note) == 2
    for name, line in by_note.items():
        assert f"said by {'Ann' if 'metric' in name else 'Bob'}, " in line


async def test_a_source_survives_a_dream_that_moves_and_rewords(running: Whole, clock: Clock) -> None:
    await running.tell(ANN, UNITS)
    await running.settled()
    memory = (await running.scope(ANN)).memory_dir
    (old,) = (path for path in memory.glob("*.md") if path.name != "MEMORY.md")
    fact = "She prefers all answers in metric units"
    moved = calls(
        ("write", {"file_path": str(memory / "style.md"), "content": note(fact)}),
        ("delete", {"file_path": str(old)}),
        ("edit", {"file_path": "MEMORY.md", "old_string": "", "new_string": ""}),
    )
    for answer in (moved, "Merged."):
        running.model.script(answer, when=lambda body: DREAM in str(body["messages"][0]))
    (run,) = await running.core.night.clock.run_now("dream")
    assert run.detail.startswith("changed")
    await running.tell(ANN, "/new")
    await running.tell(ANN, "Which units do I prefer?")
    assert f"`style.md` (saved today): said by Ann, {clock():%Y-%m-%d}" in await running.tell(ANN, "/why")


async def test_a_direct_write_keeps_its_source_too(running: Whole) -> None:
    running.then(calls(("write", {"file_path": "tea.md", "content": note("Ann drinks green tea")})), "Saved.")
    await running.tell(ANN, "Remember that I drink green tea.")
    await running.tell(ANN, "Which tea is it that I drink?")
    assert "`tea.md` (saved today): said by Ann" in await running.tell(ANN, "/why")


async def test_a_correction_takes_the_place_of_the_old_fact_and_its_source(running: Whole, clock: Clock) -> None:
    file = await running.remember(ANN, "Ann prefers tea in the morning", name="drinks")
    edits = [
        {"file_path": str(file), "old_string": f"{before}Ann prefers tea", "new_string": f"{before}Ann prefers rooibos"}
        for before in ("\n\n", ": ")
    ]
    running.then_fork(calls(("edit", edits[0]), ("edit", edits[1])), "Corrected.")
    await running.tell(ANN, "I have changed: rooibos it is in the morning now, not the other.")
    await running.settled()
    await running.tell(ANN, "/new")
    await running.tell(ANN, "What do I prefer in the morning?")
    assert "prefers rooibos" in str(running.chats[-1].body["messages"])
    assert "prefers tea" not in str(running.chats[-1].body["messages"])
    assert f"said by Ann, {clock():%Y-%m-%d}" in await running.tell(ANN, "/why")


async def test_the_same_fact_again_changes_nothing(running: Whole) -> None:
    file = await running.remember(ANN, "Ann prefers tea in the morning", name="drinks")
    today = running.core.clock().astimezone(ZoneInfo((await running.scope(ANN)).timezone)).date()
    again = note(f"Ann prefers tea in the morning ({today}).")
    running.then_fork(calls(("write", {"file_path": "morning.md", "content": again})), "Done.")
    await running.tell(ANN, "As I said, I prefer tea in the morning.")
    await running.settled()
    assert any("already noted in drinks.md" in result for result in results(running))
    assert not file.with_name("morning.md").exists()


async def test_what_only_recall_has_put_there_is_not_extracted(tmp_path: Path) -> None:
    project = '[projects.garden]\nchats = ["telegram:-100"]\n'
    async with whole(tmp_path / "home", project) as running:
        await running.remember(BOB_IN_G, "The team keeps an okapi", team=True)
        copied = calls(("write", {"file_path": "okapi.md", "content": note("The team keeps an okapi")}))
        running.then_fork(copied, "Done.")
        running.model.script('{"selected_memories": ["team/canary.md"]}', when=is_recall)
        await running.tell(ANN_IN_G, "Which animal is it, again?")
        await running.settled()
        assert "okapi" in str(running.chats[0].body["messages"])
        assert any("nobody said this" in result for result in results(running))
        assert not ((await running.scope(ANN_IN_G)).memory_dir / "okapi.md").exists()
