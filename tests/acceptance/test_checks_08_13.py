"""Checks 8 to 13: which notes are listed, which are chosen for a message, what of them is shown, and how old."""

import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.llm.standin.answers import Answer, Failure
from gateway.llm.standin.request import Conversation, is_manifest_line, manifest_lines
from gateway.llm.standin.server import ModelStandin, Recorded
from tests.acceptance.whole import ANN, Clock, Whole, extends, is_recall, note, whole

NO_FALLBACK = "[memory]\nrecall_fallback = false\n"
HASTY = f"{NO_FALLBACK}recall_deadline = 2.0\n"
PATIENT = {"REVERIE_SESSION_SILENCE": "1e9"}
UNITS = 61_440


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home") as running:
        yield running


async def put(running: Whole, name: str, text: str, *, age: timedelta = timedelta()) -> Path:
    """Put a file of this age into Ann's memory."""
    file = (await running.scope(ANN)).memory_dir / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    then = (running.core.clock() - age).timestamp()
    os.utime(file, (then, then))
    return file


def manifest(request: Recorded) -> list[str]:
    return [line for line in Conversation.of(request.body).last_user_text.splitlines() if is_manifest_line(line)]


def names(request: Recorded) -> list[str]:
    return [line.file for line in manifest_lines(Conversation.of(request.body).last_user_text)]


def selects(running: Whole, *chosen: str) -> None:
    """Script what the selector answers next."""
    running.model.script({"selected_memories": list(chosen)}, when=is_recall)


def shown(request: Recorded) -> list[str]:
    """Return the notes that came along with the newest message of a request, as they are shown."""
    blocks = [block["text"] for block in request.body["messages"][-1]["content"] if block["type"] == "text"]
    return [block for block in blocks if "Memory note" in block]


def typed(kind: str, description: str, body: str = "Something.") -> str:
    return f"---\nname: x\ndescription: {description}\ntype: {kind}\n---\n\n{body}\n"


# -- 8


async def test_check_08_the_manifest_lists_notes_newest_first_with_known_types_only(running: Whole) -> None:
    memory = (await running.scope(ANN)).memory_dir
    await put(running, "a.md", typed("user", "about tea"), age=timedelta(hours=2))
    await put(running, "x/b.md", typed("bogus", "about coffee"), age=timedelta(hours=1))
    for other in ("x/MEMORY.md", "MEMORY.md", "c.txt"):
        await put(running, other, typed("user", "of no concern"))
    unreadable(memory)
    await running.tell(ANN, "Hello there.")
    await running.settled()
    for request in (running.recalls[0], running.forks[0]):
        newer, older = manifest(request)
        assert newer.startswith("- x/b.md (")
        assert newer.endswith("Z): about coffee")
        assert older.startswith("- [user] a.md (")
        assert older.endswith("Z): about tea")


def unreadable(memory: Path) -> None:
    """Put into a directory what can't be read though its name is that of a note; a mode alone does not bind root."""
    locked = memory / "locked.md"
    locked.write_text(typed("user", "of no concern"))
    if os.geteuid() == 0:
        locked.unlink()
        os.mkfifo(locked)
    locked.chmod(0)
    (memory / "loop.md").symlink_to("loop.md")
    (memory / "gone.md").symlink_to("nowhere.md")


@pytest.mark.parametrize(("closing", "described"), [(30, True), (31, False)])
async def test_check_08_frontmatter_that_closes_beyond_line_30_is_not_seen(
    running: Whole, closing: int, described: bool
) -> None:
    filling = "".join(f"k{number}: v\n" for number in range(closing - 4))
    text = f"---\ndescription: about tea\ntype: user\n{filling}---\n\nBody.\n"
    assert text.split("\n")[closing - 1] == "---"
    await put(running, "a.md", text)
    await running.tell(ANN, "Hello there.")
    (line,) = manifest(running.recalls[0])
    assert (line.startswith("- [user] a.md"), line.endswith("Z): about tea")) == (described, described)


async def test_check_08_of_205_notes_the_200_newest_are_listed(tmp_path: Path) -> None:
    # Without an index a fork is given the whole manifest too, else only what the index does not show.
    async with whole(tmp_path / "home", "[memory]\nskip_index = true\n") as running:
        for number in range(205):
            text, age = typed("project", f"fact {number}"), timedelta(minutes=number + 1)
            await put(running, f"n{number:03}.md", text, age=age)
        await running.tell(ANN, "Hello there.")
        await running.settled()
        for request in (running.recalls[0], running.forks[0]):
            assert names(request) == [f"n{number:03}.md" for number in range(200)]


# -- 9


async def test_check_09_rules_in_the_body_of_a_note_are_no_frontmatter(running: Whole) -> None:
    body = "About the garden.\n\n---\ndescription: not a description\ntype: user\n---\n\nTomatoes in May."
    await put(running, "garden.md", body + "\n")
    selects(running, "garden.md")
    await running.tell(ANN, "Hello there.")
    (line,) = manifest(running.recalls[0])
    assert line.startswith("- garden.md (")
    assert line.endswith("Z)")
    (block,) = shown(running.chats[0])
    assert f"\n\n{body}\n</reminder>" in block


# -- 10


async def test_check_10_a_name_comes_once_and_an_unknown_one_not_at_all(running: Whole) -> None:
    for name in ("a", "b"):
        await put(running, f"{name}.md", note(f"fact of {name}"))
    selects(running, "a.md", "ghost.md", "a.md")
    await running.tell(ANN, "Hello there.")
    (block,) = shown(running.chats[0])
    assert "fact of a" in block
    assert "ghost" not in str(running.chats[0].body["messages"])


async def test_check_10_of_seven_valid_names_five_are_taken(running: Whole) -> None:
    for number in range(7):
        await put(running, f"n{number}.md", note(f"fact number {number}"))
    selects(running, *(f"n{number}.md" for number in (6, 5, 4, 3, 2, 1, 0)))
    await running.tell(ANN, "Hello there.")
    blocks = shown(running.chats[0])
    assert len(blocks) == 5
    assert all(f"fact number {6 - place}" in block for place, block in enumerate(blocks))


@pytest.mark.parametrize(
    "selector",
    [
        Answer(text='{"selected_memories": ["a.md"]}', delay=600),
        Answer(text='{"selected_memories": ["a.md"'),
        Answer(text='{"selected_memories": "a.md"}'),
        Answer(text="[]"),
        Answer(text="no"),
        Failure(status=529),
    ],
    ids=["late", "cut-off", "no-list", "no-object", "prose", "down"],
)
async def test_check_10_a_broken_or_late_selector_costs_neither_the_reply_nor_time(
    tmp_path: Path, selector: Answer | Failure
) -> None:
    async with whole(tmp_path / "home", HASTY) as running:
        await put(running, "a.md", note("Ann keeps a zebra"))
        running.model.script(selector, when=is_recall)
        assert await running.tell(ANN, "which zebra?")  # long before the late one
        assert shown(running.chats[0]) == []
        assert len(running.recalls) == 1


# -- 11


async def test_check_11_a_word_asks_no_selector_and_two_words_ask_it_once_before_the_first_request(
    tmp_path: Path,
) -> None:
    async with whole(tmp_path / "home", NO_FALLBACK) as running:
        await put(running, "a.md", note("Ann keeps a zebra"))
        running.then("Hello.", "Hello, Ann.")
        await running.tell(ANN, "hello")
        assert (running.recalls, shown(running.chats[0])) == ([], [])
        selects(running, "a.md")
        await running.tell(ANN, "hello there")
        assert (len(running.recalls), len(running.chats)) == (1, 2)
        assert "Ann keeps a zebra" in shown(running.chats[1])[0]
        assert running.recalls[0].number < running.chats[1].number


@pytest.mark.parametrize("words", ["你今天好吗", "ありがとう"])
async def test_check_11_a_sentence_without_spaces_asks_it_too(running: Whole, words: str) -> None:
    await put(running, "a.md", note("Ann keeps a zebra"))
    await running.tell(ANN, words)
    assert len(running.recalls) == 1


async def test_check_11_what_was_shown_is_not_offered_again_in_the_session(running: Whole) -> None:
    for name in ("a", "b"):
        await put(running, f"{name}.md", note(f"fact of {name}"))
    for chosen in ("a.md", "b.md"):
        selects(running, chosen)
        await running.tell(ANN, "hello there")
    assert [sorted(names(request)) for request in running.recalls] == [["a.md", "b.md"], ["b.md"]]
    await running.tell(ANN, "hello there")  # none is left to choose from
    assert len(running.recalls) == 2
    await running.tell(ANN, "/new")  # what empties the context, as a compaction would
    await running.tell(ANN, "hello there")
    assert sorted(names(running.recalls[-1])) == ["a.md", "b.md"]


async def test_check_11_after_61_440_units_the_selector_is_left_alone_until_the_context_is_emptied(
    running: Whole,
) -> None:
    for number in range(20):
        await put(running, f"n{number:02}.md", note(f"fact {number}") + ("x" * 63 + "\n") * 100)
    units = []
    for turn in range(4):
        selects(running, *(f"n{turn * 5 + number:02}.md" for number in range(5)))
        await running.tell(ANN, "hello there")
        units.append(sum(len(block) for block in shown(running.chats[-1])))
    assert sum(units[:2]) < UNITS < sum(units[:3])
    assert (len(running.recalls), units[3]) == (3, 0)
    running.model.script({"selected_memories": []}, when=is_recall)
    await running.tell(ANN, "/new")
    await running.tell(ANN, "hello there")
    assert len(running.recalls) == 4


# -- 12


@pytest.mark.parametrize(
    ("width", "limit"), [(33, "4096 bytes"), (9, "200 lines")], ids=["10-kilobytes", "300-short-lines"]
)
async def test_check_12_a_long_note_is_cut_at_a_line_and_says_so(running: Whole, width: int, limit: str) -> None:
    lines = [f"{number:03} {'é' * (width // 2)}" for number in range(300)]
    file = await put(running, "long.md", typed("project", "long", "\n".join(lines)))
    selects(running, "long.md")
    await running.tell(ANN, "hello there")
    (block,) = shown(running.chats[0])
    text, _, cut = block.partition("\n\n(Cut at the limit of ")
    kept = text.split("\n\n", 1)[1].split("\n")
    assert kept == lines[: len(kept)]
    assert len(kept) <= 200
    assert len("\n".join(kept).encode()) <= 4096
    assert cut.startswith(limit)
    assert str(file) in cut
    rest = lines[: len(kept) + 1]
    assert len(rest) > 200 or len("\n".join(rest).encode()) > 4096  # no more than had to go


# -- 13


@pytest.mark.parametrize(
    ("age", "said", "warned"),
    [
        (timedelta(hours=47, minutes=59), "saved yesterday", False),
        (timedelta(hours=48), "saved 2 days ago", True),
        (-timedelta(hours=5), "saved today", False),
    ],
    ids=["47:59", "48:00", "future"],
)
async def test_check_13_age_is_elapsed_time_and_stays_as_it_was_said(
    tmp_path: Path, age: timedelta, said: str, warned: bool
) -> None:
    clock = Clock()
    async with whole(tmp_path / "home", clock=clock) as running:
        await put(running, "a.md", note("Ann keeps a zebra"), age=age)
        selects(running, "a.md")
        await running.tell(ANN, "hello there")
        (block,) = shown(running.chats[0])
    assert said in block
    assert ("may be out of date" in block) is warned


async def test_check_13_the_next_day_the_same_note_stands_in_the_history_byte_for_byte(tmp_path: Path) -> None:
    clock, model, raws = Clock(), ModelStandin(), list[bytes]()
    for day in range(3):
        async with whole(tmp_path / "home", clock=clock, model=model, environ=PATIENT) as running:
            if day == 0:
                await put(running, "a.md", note("Ann keeps a zebra"), age=timedelta(hours=30))
                selects(running, "a.md")
            await running.tell(ANN, "hello there")
            await running.settled()
            raws.append(running.chats[-1].raw)
        clock.forward(days=1)
    first, second, third = running.chats
    assert extends(second, first)
    assert extends(third, second)
    (block,) = shown(first)
    assert "saved yesterday" in block
    assert [raw.count(json.dumps(block, ensure_ascii=False).encode()) for raw in raws] == [1, 1, 1]
