"""What was forgotten, and memory that is left aside, is in no later request: not in a chat, fork, recall or dream."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from gateway.db.models import Base, ErasureRow, MessageRow
from gateway.llm.standin.answers import Answer
from memory.agent_memory import agent_scope
from memory.agents import Agent, AgentMemory
from memory.errors import WriteRefused
from memory.prompt import memory_prompt
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.snapshot import kept_beside
from tests.acceptance.whole import ANN, Clock, Speaker, Whole, calls, note, until, whole

CANARY = "zebrafish"
SAID = f"I prefer a {CANARY} to any dog."
ANN_IN_G = Speaker(user="42", chat="-100")
BOB_IN_G = Speaker(user="43", chat="-100", name="Bob")
DREAM = "This is a memory consolidation"


@pytest.fixture
async def running(tmp_path: Path, clock: Clock) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home", clock=clock) as running:
        yield running


def leaks(running: Whole, *, since: int) -> list[str]:
    """Return the requests, from the one with this number on, that hold the canary."""
    later = list(running.model.requests)[since:]
    return [request.path for request in later if CANARY.encode() in request.raw]


def on_disk(folder: Path) -> list[str]:
    """Return the files below a folder that hold the canary in their text or name."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if CANARY in path.name or CANARY in path.read_text(errors="replace")]


async def dream(running: Whole) -> list[str]:
    return [each.detail for each in await running.core.night.clock.run_now("dream")]


async def told(running: Whole, who: Speaker = ANN) -> Path:
    """Let somebody tell the canary, see it saved, and return the memory directory."""
    await running.tell(who, SAID)
    await running.settled()
    memory = (await running.scope(who)).memory_dir
    assert on_disk(memory)
    return memory


async def forget(running: Whole, who: Speaker = ANN) -> str:
    await running.tell(who, f"/forget {CANARY}")
    return await running.tell(who, "/forget all")


async def test_another_note_whose_header_says_it_loses_that_and_keeps_its_facts(running: Whole) -> None:
    said = f"Ann keeps a {CANARY} in a tank"
    memory = (await running.remember(ANN, said, name="pets")).parent
    for name in ("shed", f"{CANARY}-shed"):
        (memory / f"{name}.md").write_text(f"---\nname: Shed\ndescription: {said}\n---\n\n- The {name[-4:]} is green\n")
    assert "Forgotten: 1 fact." in await forget(running)
    assert "- The shed is green\n" in (memory / "shed.md").read_text()
    assert sum("- The shed is green\n" in path.read_text() for path in memory.glob("*.md")) == 2
    assert on_disk(memory) == []
    since = len(running.model.requests)
    await running.tell(ANN, "What do I keep in the tank?")
    assert leaks(running, since=since) == []


async def test_a_note_is_found_by_its_title_and_those_that_share_one_are_listed(running: Whole) -> None:
    await running.remember(ANN, "Ann keeps bees", name="bees-of-ann")
    assert "1. `bees-of-ann.md`" in await running.tell(ANN, "/forget NOTE")
    await running.remember(ANN, "Ann keeps hens", name="hens")
    listed = await running.tell(ANN, "/forget note")
    assert ("1. `bees-of-ann.md`" in listed, "2. `hens.md`" in listed) == (True, True)
    assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget 2")
    assert [path.name for path in (await running.scope(ANN)).memory_dir.glob("[bh]*.md")] == ["bees-of-ann.md"]


async def test_what_was_forgotten_is_in_no_later_request_also_after_a_restart_and_a_dream(
    tmp_path: Path, clock: Clock
) -> None:
    home = tmp_path / "home"
    async with whole(home, clock=clock) as running:
        memory = await told(running)
        await running.remember(ANN, "Ann keeps bees", name="bees")
        assert "1." in await running.tell(ANN, f"/forget {CANARY}")
        assert on_disk(memory)
        since = len(running.model.requests)
        assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget 1")
        assert on_disk(memory.parent) == []
        for words in ("Which animal do I prefer to a dog?", "/why", "/memory", "Good, thank you so much."):
            assert CANARY not in await running.tell(ANN, words)
        await running.settled()
        assert leaks(running, since=since) == []
    clock.forward(hours=25)
    async with whole(home, clock=clock) as running:
        await running.tell(ANN, "Which animal do I prefer to a dog?")
        await running.settled()
        await dream(running)
        assert running.forks
        assert running.recalls
        assert any(DREAM in str(request.body) for request in running.model.requests)
        assert leaks(running, since=0) == []
        assert on_disk(memory.parent) == []


async def test_what_is_due_of_the_same_conversation_is_extracted_without_what_was_forgotten(
    running: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: object) -> tuple[int, ...]:
        return ()

    memory = await told(running)
    with monkeypatch.context() as patch:
        patch.setattr("gateway.extraction.Extractions._due", nothing)
        await running.tell(ANN, "I live in Kiel.")
        await running.tell(ANN, "Which animal do I prefer to any dog?")
        since = len(running.model.requests)
        await forget(running)
    await running.settled()
    assert any("Kiel" in path.read_text() for path in memory.rglob("*.md"))
    assert leaks(running, since=since) == []
    assert on_disk(memory.parent) == []


async def test_a_turn_under_way_while_it_is_forgotten_costs_the_conversation_nothing_else(
    running: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: object) -> tuple[int, ...]:
        return ()

    topic = Speaker(user="42", chat="42", thread="7")
    memory = await told(running)

    async def slow(_: object) -> Answer:
        assert "Forgotten" in await forget(running)
        return Answer(text=f"You prefer a {CANARY}.")

    with monkeypatch.context() as patch:
        patch.setattr("gateway.extraction.Extractions._due", nothing)
        await running.tell(topic, "I live in Kiel.")
        running.then(slow)
        await running.tell(topic, "Which animal do I prefer to any dog?")
        since = len(running.model.requests)
    await running.settled()
    assert any("Kiel" in path.read_text() for path in memory.rglob("*.md"))
    assert leaks(running, since=since) == []
    assert on_disk(memory.parent) == []


async def test_a_turn_under_way_writes_it_back_in_no_header_index_or_name(running: Whole) -> None:
    file = await running.remember(ANN, f"Ann keeps a {CANARY}")

    async def forgotten_meanwhile(_: Any) -> Answer:
        await forget(running)
        return calls(
            ("write", {"file_path": "a.md", "content": f"---\ndescription: Ann keeps a {CANARY}\n---\n"}),
            ("write", {"file_path": f"{CANARY}.md", "content": "# Pets\n"}),
            ("append", {"file_path": "MEMORY.md", "content": f"- [A](a.md): {CANARY}\n- Ann keeps a {CANARY}\n"}),
        )

    running.then(calls(("read", {"file_path": str(file)})), forgotten_meanwhile, "Done.")
    await running.tell(Speaker(user="42", chat="42", thread="7"), "Tidy up")
    await running.settled()
    assert on_disk(file.parent) == []


async def test_a_fact_that_stands_as_a_line_of_the_index_is_found_and_forgotten(running: Whole) -> None:
    file = await running.remember(ANN, "Ann keeps bees", name="bees")
    index = file.parent / "MEMORY.md"
    index.write_text(f"{index.read_text()}- Ann keeps a {CANARY} in a tank\n")
    assert "(in `MEMORY.md`)" in await running.tell(ANN, f"/forget {CANARY}")
    assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget 1")
    assert on_disk(file.parent) == []
    assert "bees.md" in index.read_text()
    since = len(running.model.requests)
    await running.tell(ANN, "Hello")
    assert leaks(running, since=since) == []


async def test_what_cannot_be_taken_out_everywhere_is_taken_out_nowhere(tmp_path: Path) -> None:
    async with whole(tmp_path / "home") as running:
        memory = await told(running, ANN_IN_G)
        other = memory / "z.md"
        other.write_text(next(memory.glob("pref*.md")).read_text())
        other.chmod(0o400)
        before = sorted(on_disk(memory))
        assert "Nothing is forgotten yet" in (refused := await forget(running, ANN_IN_G))
        assert "`z.md`: the file is read-only; make it writable" in refused
        assert sorted(on_disk(memory)) == before
        other.chmod(0o600)
        assert "Forgotten" in await forget(running, ANN_IN_G)
        assert on_disk(memory.parent) == []


async def test_what_was_forgotten_only_in_part_is_said(running: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [await running.remember(ANN, f"Ann keeps a {CANARY}", name=name) for name in ("pets", "tank")]

    async def fails(*_: Any, **__: Any) -> None:
        files[0].unlink()
        raise WriteRefused("the disk is full")

    monkeypatch.setattr("gateway.commands.erasure.erase_everywhere", fails)
    said = await forget(running)
    assert "only in part: the disk is full. It is gone from `pets.md`. It still stands in `tank.md`." in said
    monkeypatch.undo()
    assert "Forgotten: 1 fact." in await forget(running)
    assert on_disk(files[0].parent) == []


async def test_of_a_whole_note_it_is_shown_how_many_facts_go(running: Whole) -> None:
    file = await running.remember(ANN, f"Ann keeps a {CANARY}", name="pets-at-home")
    file.write_text(f"{file.read_text()}\n- The gate is red\n")
    assert "the whole note, 2 facts: Ann keeps" in await running.tell(ANN, "/forget pets at home")
    assert "1. Ann keeps" in await running.tell(ANN, f"/forget pets {CANARY}")
    assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget all")


async def test_an_index_that_was_read_before_it_was_cleared_begins_no_session(
    running: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    await told(running)
    topic, read = Speaker(user="42", chat="42", thread="7"), []

    async def slow(scope: Scope, settings: MemorySettings, **more: Any) -> str:
        prompt = await memory_prompt(scope, settings, **more)
        read.append(CANARY in prompt)
        if len(read) == 1:
            assert "Forgotten" in await forget(running)
        return prompt

    monkeypatch.setattr("gateway.opening.memory_prompt", slow)
    since = len(running.model.requests)
    await running.tell(topic, "Hello there")
    assert read == [True, False]
    assert leaks(running, since=since) == []


async def test_no_row_of_the_database_keeps_a_word_of_it(running: Whole) -> None:
    await told(running)
    topic = Speaker(user="42", chat="42", thread="7")
    await running.tell(topic, "Which animal do I prefer to any dog?")
    await running.tell(topic, "I live in Kiel.")
    await running.settled()
    assert await rows_with(running, CANARY)
    await forget(running)
    await running.settled()
    assert await rows_with(running, CANARY) == []
    assert "messages" in await rows_with(running, "Kiel")


async def rows_with(running: Whole, word: str) -> list[str]:
    """Return the tables that hold a word, one for each row."""
    async with running.core.database.read() as session:
        return [
            table.name
            for table in Base.metadata.sorted_tables
            for row in (await session.execute(select(table))).all()
            if word in str(tuple(row))  # a row by itself shows only its ends
        ]


async def test_what_others_said_in_another_topic_stays_due(running: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: object) -> tuple[int, ...]:
        return ()

    memory = await told(running, BOB_IN_G)
    await running.tell(BOB_IN_G, f"/forget {CANARY}")
    with monkeypatch.context() as patch:
        patch.setattr("gateway.extraction.Extractions._due", nothing)
        await running.tell(Speaker(user="42", chat="-100", thread="9"), "I live in Kiel.")
        since = len(running.model.requests)
        assert "Forgotten" in await running.tell(BOB_IN_G, "/forget all")
    await running.settled()
    assert any("Kiel" in path.read_text() for path in memory.rglob("*.md"))
    assert leaks(running, since=since) == []


async def test_what_was_said_before_memory_was_left_aside_is_kept_afterwards(
    running: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: object) -> tuple[int, ...]:
        return ()

    with monkeypatch.context() as patch:
        patch.setattr("gateway.extraction.Extractions._due", nothing)
        await running.tell(ANN, "I live in Kiel.")
        await running.tell(ANN, "/ignore on")
    memory = (await running.scope(ANN)).memory_dir
    await running.settled()
    assert running.forks == []
    await running.tell(ANN, "/ignore off")
    await running.settled()
    assert any("Kiel" in path.read_text() for path in memory.rglob("*.md"))


async def test_in_a_shared_log_nobody_scrubs_what_another_said(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", '[memory]\nmemory_mode = "log"\n') as running:
        await running.tell(ANN_IN_G, "I live in Kiel near the harbour.")
        longer = "I prefer that you know: I keep bees in two hives, and live in Kiel near the harbour."
        await running.tell(BOB_IN_G, longer)
        await running.settled()
        memory = (await running.scope(ANN_IN_G)).memory_dir
        logs = list(memory.rglob("logs/*/*/*.md"))
        await running.tell(BOB_IN_G, "/forget prefer that you know")
        assert "Forgotten" in await running.tell(BOB_IN_G, "/forget 1")
        text = "".join(log.read_text() for log in logs)
        assert "Ann: I live in Kiel near the harbour." in text
        assert "bees" not in text


async def test_snapshots_of_dreams_lose_it_too_so_that_no_undo_brings_it_back(running: Whole) -> None:
    memory = await told(running)
    await running.remember(ANN, "Ann keeps bees", name="bees")
    bees = str(memory / "bees.md")
    edit = {"file_path": bees, "old_string": "\n\nAnn keeps bees", "new_string": "\n\nAnn keeps bees, in hives"}
    for answer in (calls(("read", {"file_path": bees})), calls(("edit", edit)), "Tidied."):
        running.model.script(answer, when=lambda body: DREAM in str(body["messages"][0]))
    (detail,) = await dream(running)
    assert detail.startswith("changed; 1 file")
    kept = kept_beside(await running.scope(ANN))
    assert on_disk(kept)
    await forget(running)
    assert on_disk(kept) == []
    (before,) = kept.glob("*/before")
    for file in before.rglob("*.md"):  # as an undo would
        (memory / file.relative_to(before)).write_text(file.read_text())
    assert "bees" in (memory / "MEMORY.md").read_text()
    assert on_disk(memory) == []


async def test_a_dream_that_has_read_it_is_stopped_and_leaves_nothing_of_it(running: Whole) -> None:
    memory = await told(running)
    await running.remember(ANN, "Ann keeps bees", name="bees")
    requests = list(running.model.requests)

    async def merged(_: object) -> Answer:
        assert "Forgotten" in await forget(running)
        assert len(running.model.requests) == len(requests) + 1
        return calls(("write", {"file_path": str(memory / "pets.md"), "content": note(f"Ann likes a {CANARY}")}))

    running.model.script(merged, when=lambda body: DREAM in str(body["messages"][0]))
    (detail,) = await dream(running)
    assert detail.endswith("aborted: something was forgotten meanwhile")
    assert on_disk(memory.parent) == []
    assert leaks(running, since=len(requests) + 1) == []


async def test_in_log_mode_the_days_logs_lose_it_and_the_close_of_the_day_does_not_add_it(
    tmp_path: Path, clock: Clock
) -> None:
    async with whole(tmp_path / "home", '[memory]\nmemory_mode = "log"\n', clock=clock) as running:
        memory = await told(running)
        await running.tell(ANN, "I live in Kiel.")
        await running.settled()
        assert "Forgotten" in await forget(running)
        since = len(running.model.requests)
        clock.forward(hours=24)
        for job in ("close-day", "distil"):
            await running.core.night.clock.run_now(job)
        (log,) = memory.rglob("logs/*/*/*.md")
        assert "Kiel" in log.read_text()
        assert on_disk(memory.parent) == []
        assert leaks(running, since=since) == []


async def test_one_fact_leaves_a_note_and_the_rest_of_it_stays(running: Whole) -> None:
    file = await running.remember(ANN, f"Ann keeps a {CANARY}", name="animals")
    file.write_text(note(f"Ann keeps a {CANARY}") + "\n- Ann keeps bees in two hives\n")
    assert "(in `animals.md`)" in await running.tell(ANN, f"/forget {CANARY}")
    await running.tell(ANN, "/forget 1")
    assert "bees in two hives" in file.read_text()
    assert "animals.md" in (file.parent / "MEMORY.md").read_text()
    assert on_disk(file.parent) == []


async def test_a_note_goes_by_its_name_after_one_confirmation(running: Whole) -> None:
    file = await running.remember(ANN, "Ann keeps bees", name="bees")
    assert "`/forget yes` (or `/forget 1`)" in await running.tell(ANN, "/forget bees")
    assert file.exists()
    assert "Say what to forget" in await running.tell(ANN, "/forget ,")
    assert file.exists()
    assert "Forgotten" in await running.tell(ANN, "/forget bees yes")
    assert not file.exists()
    assert "bees" not in (file.parent / "MEMORY.md").read_text()
    assert "forgotten already" in await running.tell(ANN, "/forget 1")


@pytest.mark.parametrize("confirmed", ["yes", "1", "1 yes", "all, yes", f"{CANARY} yes"])
@pytest.mark.parametrize("words", [CANARY, "pets"])
async def test_one_thing_that_was_listed_is_confirmed_by_its_number_by_yes_or_by_both(
    running: Whole, words: str, confirmed: str
) -> None:
    file = await running.remember(ANN, f"Ann keeps a {CANARY}", name="pets")
    confirmed = confirmed.replace(CANARY, words)
    assert "nothing is listed" in (await running.tell(ANN, "/forget 1 yes")).lower()
    assert "1. " in await running.tell(ANN, f"/forget {words}")
    assert file.exists()
    assert "Forgotten: 1 fact." in await running.tell(ANN, f"/forget {confirmed}")
    assert on_disk(file.parent) == []


async def test_yes_alone_erases_nothing_where_several_things_were_listed(running: Whole) -> None:
    files = [await running.remember(ANN, f"Ann {does} bees", name=does) for does in ("keeps", "feeds")]
    assert "2. " in await running.tell(ANN, "/forget bees")
    assert "There are 2 things in the list" in await running.tell(ANN, "/forget yes")
    assert "2. " in await running.tell(ANN, "/forget bees yes")
    assert [file.exists() for file in files] == [True, True]
    assert "Forgotten: 2 facts." in await running.tell(ANN, "/forget 1, 2 yes")


@pytest.mark.parametrize("off", ["settings.toml", "ignore", "bare"])
async def test_what_is_kept_can_be_erased_where_memory_is_off(tmp_path: Path, off: str) -> None:
    async with whole(tmp_path / "home", bare_mode=off == "bare") as running:
        file = await running.remember(ANN, f"Ann keeps a {CANARY}", name="pets")
        if off == "settings.toml":
            (running.core.homes.home(ANN.principal) / off).write_text("[memory]\nauto_memory_enabled = false\n")
        if off == "ignore":
            await running.tell(ANN, "/ignore on")
        assert "`/forget WORDS`" in await running.tell(ANN, "/memory")
        assert "1. " in await running.tell(ANN, f"/forget {CANARY}")
        assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget yes")
        assert on_disk(file.parent) == []
        await running.tell(ANN, "Which animal do I keep?")
        assert CANARY not in str(running.chats[-1].body)


async def test_what_came_into_a_note_after_it_was_listed_stays(running: Whole) -> None:
    file = await running.remember(ANN, "Ann keeps bees", name="bees")
    await running.tell(ANN, "/forget bees")
    file.write_text(file.read_text() + "\n- The key is under the third stone\n")
    assert "Forgotten: 1 fact." in await running.tell(ANN, "/forget 1")
    left = "".join(each.read_text() for each in file.parent.glob("*.md"))  # its name told of the bees
    assert "third stone" in left
    assert "bees" not in left


async def test_a_session_begun_while_the_notes_were_being_cleared_is_not_carried_on(running: Whole) -> None:
    memory = await told(running)
    topic = Speaker(user="42", chat="42", thread="7")
    await running.tell(ANN, f"/forget {CANARY}")
    async with running.core.leases.hold(f"memory:{memory}", seconds=30, wait=5):
        forgetting = asyncio.create_task(running.tell(ANN, "/forget all"))
        await until(lambda: recorded(running), "nothing was recorded")
        await running.tell(topic, "Hello there")
        assert CANARY in str(running.chats[-1].body)
    assert "Forgotten" in await forgetting
    await running.settled()
    since = len(running.model.requests)
    await running.tell(topic, "Which animal do I prefer to any dog?")
    await running.settled()
    assert leaks(running, since=since) == []
    assert on_disk(memory.parent) == []


async def recorded(running: Whole) -> bool:
    async with running.core.database.read() as session:
        return await session.scalar(select(ErasureRow.id).limit(1)) is not None


async def test_what_an_agent_noted_is_listed_with_its_name_and_forgotten_too(running: Whole) -> None:
    await told(running)
    soil = running.core.homes.home(ANN.principal) / "agent-memory" / "gardener" / "soil.md"
    soil.parent.mkdir(parents=True)
    soil.write_text(note(f"The {CANARY} of Ann likes soil"))
    assert "agent gardener: " in await running.tell(ANN, f"/forget {CANARY}")
    assert "Forgotten" in await running.tell(ANN, "/forget all")
    assert not soil.exists()


async def test_what_is_listed_can_be_confirmed_for_ten_minutes_by_whom_it_was_shown_to(
    running: Whole, clock: Clock
) -> None:
    file = await running.remember(ANN, "Ann keeps bees", name="bees")
    await running.tell(ANN, "/forget bees")
    assert "from 1 to 1" in await running.tell(ANN, "/forget 2")
    clock.forward(minutes=11)
    assert "Nothing is listed" in await running.tell(ANN, "/forget 1")
    assert "find nothing" in await running.tell(ANN, "/forget quantum chromodynamics")
    assert "Say what to forget" in await running.tell(ANN, "/forget")
    assert file.exists()


async def test_in_a_shared_chat_only_who_said_it_or_an_owner_may_have_it_forgotten(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", 'owners = ["telegram:44"]\n') as running:
        memory = await told(running, ANN_IN_G)
        assert CANARY in await running.tell(BOB_IN_G, f"/forget {CANARY}")
        assert "Only who said it" in await running.tell(BOB_IN_G, "/forget all")
        assert on_disk(memory)
        assert "Forgotten" in await forget(running, ANN_IN_G)
        assert on_disk(memory.parent) == []
        await running.remember(ANN_IN_G, "Somebody keeps bees", name="bees")  # by hand: nobody is known to have said it
        await running.tell(ANN_IN_G, "/forget bees")
        assert "Only who said it" in await running.tell(ANN_IN_G, "/forget bees yes")
        eve = Speaker(user="44", chat="-100", name="Eve")
        assert "To have it forgotten" in await running.tell(eve, "/forget bees yes")
        assert "Forgotten" in await running.tell(eve, "/forget bees yes")


async def test_a_team_note_is_forgotten_in_a_chat_of_the_team_and_then_in_the_others(tmp_path: Path) -> None:
    project = 'owners = ["telegram:42"]\n[projects.garden]\nrepo = "demo/garden"\n'
    project += 'chats = ["telegram:-100", "telegram:-200"]\n'
    in_h = Speaker(user="42", chat="-200")
    async with whole(tmp_path / "home", project) as running:
        for who in (ANN_IN_G, in_h):
            await running.tell(who, "Hello there")
        await running.remember(ANN_IN_G, f"The team keeps a {CANARY}", name="pets", team=True)
        for _ in range(2):
            await running.core.night.clock.run_now("team-sync")
        assert on_disk((await running.scope(in_h)).memory_dir)
        await running.tell(ANN_IN_G, "/forget team/pets")
        assert "Forgotten" in await running.tell(ANN_IN_G, "/forget team/pets yes")
        for _ in range(2):
            await running.core.night.clock.run_now("team-sync")
        for who in (ANN_IN_G, in_h):
            assert on_disk((await running.scope(who)).memory_dir) == []


async def test_an_open_conversation_of_another_chat_of_the_team_loses_it_at_once(tmp_path: Path) -> None:
    project = 'owners = ["telegram:42"]\n[projects.garden]\nrepo = "demo/garden"\n'
    project += 'chats = ["telegram:-100", "telegram:-200"]\n'
    in_h = Speaker(user="42", chat="-200")
    async with whole(tmp_path / "home", project) as running:
        for who in (ANN_IN_G, in_h):
            await running.remember(who, f"The team keeps a {CANARY}", name="pets", team=True)
            await running.tell(who, "Hello there")
        assert CANARY in str(running.chats[-1].body)
        await running.tell(ANN_IN_G, "/forget team/pets")
        assert "Forgotten" in await running.tell(ANN_IN_G, "/forget team/pets yes")
        team = (await running.scope(in_h)).team_dir
        assert team is not None
        for file in team.iterdir():  # as the next exchange does
            file.unlink()
        since = len(running.model.requests)
        await running.tell(in_h, "I live in Kiel.")
        await running.settled()
        assert running.forks
        assert leaks(running, since=since) == []


async def test_what_an_agent_keeps_for_the_project_is_forgotten_in_a_chat_of_it_only(tmp_path: Path) -> None:
    project = '[projects.garden]\nrepo = "demo/garden"\nmembers = ["telegram:42"]\n'
    project += 'chats = ["telegram:-100", "telegram:42"]\n'
    agent = Agent(name="gardener", description="", prompt="", memory=AgentMemory.PROJECT)
    async with whole(tmp_path / "home", project) as running:
        home = running.core.settings.home
        for who in (ANN_IN_G, ANN):
            await running.tell(who, "Hello there")
        soil = agent_scope(await running.scope(ANN_IN_G), agent, home=home).memory_dir / "soil.md"
        soil.parent.mkdir(parents=True, exist_ok=True)
        soil.write_text(note(f"The {CANARY} likes soil"))
        assert CANARY in await running.tell(ANN, f"/forget {CANARY}")
        assert "can't be changed from here; say it in a chat of the project" in await running.tell(ANN, "/forget all")
        assert soil.exists()


async def test_what_was_erased_is_written_down_with_its_principal(running: Whole) -> None:
    await told(running)
    async with running.core.database.read() as session:
        said = (await session.scalars(select(MessageRow.id).where(MessageRow.said == SAID))).one()
    await forget(running)
    async with running.core.database.read() as session:
        rows = (await session.scalars(select(ErasureRow))).all()
    assert {(row.principal, row.project) for row in rows} == {(ANN.principal, "")}
    assert said in {row.message_id for row in rows}
    assert len({row.fact_hash for row in rows} - {""}) == 1


async def test_what_is_said_again_after_it_was_forgotten_is_remembered_anew(running: Whole) -> None:
    memory = await told(running)
    await forget(running)
    await running.tell(ANN, SAID)
    await running.settled()
    assert on_disk(memory)


async def test_while_memory_is_left_aside_nothing_of_it_goes_out_and_nothing_is_kept(
    tmp_path: Path, clock: Clock
) -> None:
    home = tmp_path / "home"
    async with whole(home, clock=clock) as running:
        memory = await told(running)
        assert "leave memory aside" in await running.tell(ANN, "/ignore on")
        since = len(running.model.requests)
        await running.tell(ANN, "Which animal do I prefer to a dog?")
        await running.tell(ANN, "I live in Kiel.")
        assert "off" in await running.tell(ANN, "/memory")
        await running.settled()
    async with whole(home, clock=clock) as again:
        await again.tell(ANN, "Which animal do I prefer to a dog?")
        await again.settled()
        assert (again.forks, again.recalls, leaks(again, since=0)) == ([], [], [])
        assert leaks(running, since=since) == []
        assert "use memory again" in await again.tell(ANN, "/ignore off")
        await again.tell(ANN, "Which animal do I prefer to a dog?")
        await again.settled()
        assert CANARY in str(again.chats[-1].body)
        assert "Kiel" not in str(again.forks[-1].body)
    assert all("Kiel" not in path.read_text() for path in memory.rglob("*.md"))


async def test_memory_that_one_topic_leaves_aside_is_there_in_the_others_and_at_night(running: Whole) -> None:
    memory = await told(running)
    topic = Speaker(user="42", chat="42", thread="7")
    await running.tell(topic, "/ignore on")
    await running.tell(topic, "Which animal do I prefer to a dog?")
    assert CANARY not in str(running.chats[-1].body)
    await running.tell(ANN, "Which animal do I prefer to a dog?")
    assert CANARY in str(running.chats[-1].body)
    await running.settled()
    assert await dream(running)
    assert on_disk(memory)


async def test_in_log_mode_what_was_said_while_memory_was_left_aside_is_never_logged(
    tmp_path: Path, clock: Clock
) -> None:
    async with whole(tmp_path / "home", '[memory]\nmemory_mode = "log"\n', clock=clock) as running:
        await running.tell(ANN, "/ignore on")
        await running.tell(ANN, "I live in Kiel.")
        await running.tell(ANN, "/ignore off")
        await running.tell(ANN, "I prefer tea to coffee.")
        await running.settled()
        clock.forward(hours=24)
        await running.core.night.clock.run_now("close-day")
        (log,) = (await running.scope(ANN)).memory_dir.rglob("logs/*/*/*.md")
        assert "tea" in log.read_text()
        assert "Kiel" not in log.read_text()


async def test_in_a_group_nothing_of_a_private_memory_can_be_found_forgotten_or_explained(running: Whole) -> None:
    memory = await told(running)
    for words in (f"/forget {CANARY}", "/forget all", f"/forget {next(memory.glob('pref*.md')).name} yes", "/why"):
        assert "prefer" not in await running.tell(ANN_IN_G, words)
    assert on_disk(memory)
