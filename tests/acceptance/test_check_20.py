"""Check 20, as a person and an operator see it: when a memory is put in order, and that a bad dream leaves no trace.

The holder of the check is the lease, its sessions are sittings: stretches of talk without an hour's silence.
"""

import os
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.db.leases import DatabaseLeases
from gateway.llm.standin.answers import Answer, Failure
from gateway.llm.standin.server import Scripted
from memory.snapshot import kept_beside
from memory.stamp import NAME
from tests.acceptance.presses import offered, press
from tests.acceptance.whole import ANN, BOB, Clock, Speaker, Whole, calls, note, until, whole

DREAM = "This is a memory consolidation"
AWAKE = '[scheduler]\nstart_delay = 3600\nquiet_from = "00:00"\nquiet_until = "00:00"\n'
ANN_IN_G = Speaker(user="42", chat="-100")
BOB_IN_G = Speaker(user="43", chat="-100", name="Bob")
FACTS = {
    "tea": "Prefers green tea in the early morning",
    "train": "Takes the late train home on Fridays",
    "nuts": "Is allergic to peanuts and cashews",
    "kiel": "Lives near the harbour of Kiel",
    "bees": "Keeps three hives of bees behind the house",
}


def is_dream(body: dict[str, Any]) -> bool:
    return DREAM in str(body["messages"][0])


@pytest.fixture
async def running(tmp_path: Path, clock: Clock) -> AsyncIterator[Whole]:
    toml = AWAKE + "[memory]\ndream_max_turns = 8\n"
    async with whole(tmp_path / "home", toml, clock=clock) as running:
        yield running


async def sittings(running: Whole, clock: Clock, count: int, who: Speaker = ANN) -> Path:
    """Sit together so many times, hours apart, and return the memory directory, which holds some notes."""
    for _ in range(count):
        await running.tell(who, "Hi")
        await running.settled()
        clock.forward(hours=2)
    memory = (await running.scope(who)).memory_dir
    for name, words in FACTS.items():
        said = f"{words} (Ann, 2026-05-01)" if who.shared else words
        (memory / f"{name}.md").write_text(f"---\nname: {name}\n---\n\n- {said}\n")
    (memory / "MEMORY.md").write_text("".join(f"- [{name}]({name}.md)\n" for name in FACTS))
    return memory


def dreamt(memory: Path, clock: Clock, **ago: float) -> None:
    """Let the last consolidation be so long ago."""
    (memory / NAME).write_text("elsewhere 7\n")
    moment = (clock() - timedelta(**ago)).timestamp()
    os.utime(memory / NAME, (moment, moment))


def dreams(running: Whole, *answers: Scripted) -> None:
    """Script what the next dream does."""
    for answer in answers:
        running.model.script(answer, when=is_dream)


def runs(running: Whole) -> int:
    """Return how many dreams have begun."""
    return sum(is_dream(request.body) and len(request.body["messages"]) == 1 for request in running.model.requests)


async def tick(running: Whole) -> None:
    await running.core.night.clock.fire("dream")


def state(memory: Path) -> dict[str, tuple[str, int]]:
    """Return every file of a memory, its snapshots included, with text and time."""
    files = [path for path in memory.parent.rglob("*") if path.is_file()]
    return {str(path): (path.read_text(), path.stat().st_mtime_ns) for path in files}


def improved(running: Whole) -> list[str]:
    return [text for text in running.adapter.texts if "Improved" in text]


# -- when


async def test_23_hours_are_too_soon_whatever_else_is_there(running: Whole, clock: Clock) -> None:
    memory = await sittings(running, clock, 7)
    dreamt(memory, clock, hours=23)
    await tick(running)
    assert runs(running) == 0


async def test_four_sittings_are_too_few_and_are_not_counted_again_within_ten_minutes(
    running: Whole, clock: Clock
) -> None:
    memory = await sittings(running, clock, 4)
    dreamt(memory, clock, hours=24)
    await tick(running)
    assert runs(running) == 0
    await running.tell(ANN, "Hi")
    clock.forward(minutes=9)
    await tick(running)
    assert runs(running) == 0
    clock.forward(hours=2)
    await tick(running)
    assert runs(running) == 1


async def test_after_24_hours_and_five_sittings_it_is_dreamt_once(running: Whole, clock: Clock) -> None:
    memory = await sittings(running, clock, 5)
    dreamt(memory, clock, hours=24)
    for _ in range(3):
        await tick(running)
        clock.forward(minutes=11)
    assert runs(running) == 1


@pytest.mark.parametrize(("held", "dreams_now"), [(True, 0), (False, 1)], ids=["living", "dead"])
async def test_a_living_holder_keeps_others_away_and_a_dead_one_does_not(
    running: Whole, clock: Clock, held: bool, dreams_now: int
) -> None:
    memory = await sittings(running, clock, 5)
    (memory / NAME).write_bytes(b"\xff garbage \0")
    dreamt_at = (clock() - timedelta(hours=25)).timestamp()
    os.utime(memory / NAME, (dreamt_at, dreamt_at))
    elsewhere = DatabaseLeases(running.core.database, clock)
    async with elsewhere.hold(f"dream:{memory}", seconds=30, wait=0):
        if not held:  # it renews no more, and its hour has passed
            clock.forward(minutes=61)
        await tick(running)
    assert runs(running) == dreams_now


@pytest.mark.parametrize("first", [True, False])
async def test_a_run_that_fails_leaves_the_time_of_the_last_as_it_was(
    running: Whole, clock: Clock, first: bool
) -> None:
    memory = await sittings(running, clock, 5)
    if not first:
        dreamt(memory, clock, hours=25)
        os.utime(memory / NAME, ns=(1_777_000_000_000_000_001,) * 2)
    before = state(memory)
    dreams(running, calls(("write", {"file_path": "new.md", "content": note("half a merge")})), Failure(status=500))
    await tick(running)
    assert runs(running) == 1
    assert state(memory) == before
    assert improved(running) == []


# -- stopping


async def test_a_person_stops_a_dream_and_it_is_put_back_once_and_never_announced(running: Whole, clock: Clock) -> None:
    memory = await sittings(running, clock, 1)
    dreamt(memory, clock, hours=25)
    before = state(memory)
    write = calls(("write", {"file_path": "new.md", "content": note("half a merge")}))
    dreams(running, write, Answer(text="Done.", delay=60))
    assert "Dreaming…" in await running.tell(ANN, "/dream")
    await shown(running, "/dream status", "updating, turn 1, at least 1 files")
    assert "being ended" in await running.tell(ANN, "/dream stop")
    await heard(running, "The dream was ended: it was stopped. The notes are as they were.")
    assert state(memory) == before
    assert improved(running) == []
    await recorded(running, "stopped; it was stopped")
    assert "No dream runs here" in await running.tell(ANN, "/dream stop")


async def recorded(running: Whole, words: str) -> None:
    """Wait until the run of the dream has this end on record."""

    async def found() -> bool:
        return any(words in each.detail for each in await running.core.night.runs.recent("dream"))

    await until(found, f"no run is recorded with {words!r}")


async def shown(running: Whole, command: str, words: str) -> None:
    async def found() -> bool:
        return words in await running.tell(ANN, command)

    await until(found, f"{command} does not show {words!r}")


async def heard(running: Whole, words: str) -> None:
    async def found() -> bool:
        return any(words in text for text in running.adapter.texts)

    await until(found, f"{words!r} was not heard in {running.adapter.texts}")


# -- bad dreams


def drops_a_third() -> list[Scripted]:
    gone = [("delete", {"file_path": f"{name}.md"}) for name in ("tea", "train")]
    return [calls(*gone), "Tidied."]


def writes_outside() -> list[Scripted]:
    canary = {"content": note("canary")}
    paths = ["../out.md", "../../../out.md", "team/out.md", "logs/2026/05/2026-05-01.md"]
    return [calls(*(("write", {"file_path": path, **canary}) for path in paths)), "Tidied."]


def never_ends() -> list[Scripted]:
    return [calls(("write", {"file_path": f"{n}.md", "content": note(f"merge {n}")})) for n in range(40)]


def blames() -> list[Scripted]:
    other = "---\nname: nuts\n---\n\n- Can't have cashews nor peanuts: is allergic (Bob, 2026-05-02)\n"
    return [
        calls(("read", {"file_path": "nuts.md"})),
        calls(("write", {"file_path": "nuts.md", "content": other})),
        "Ok.",
    ]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (drops_a_third, "it would have removed 2 of 5 facts"),
        (writes_outside, "files that are not its to write"),
        (never_ends, "it did not come to its end within its turns"),
        (blames, "it would have given 1 fact to another person"),
    ],
)
async def test_a_bad_dream_is_refused_and_leaves_no_trace(
    running: Whole, clock: Clock, script: Callable[[], list[Scripted]], reason: str
) -> None:
    for who in (BOB_IN_G, ANN_IN_G):
        await running.tell(who, "Hi")
    memory = await sittings(running, clock, 5, ANN_IN_G)
    (memory / "ways.md").write_text("- Sings in a choir every week (Bob, 2026-05-02)\n") if script is blames else None
    before = state(memory)
    dreams(running, *script())
    await tick(running)
    (record,) = await running.core.night.runs.recent("dream")
    assert reason in record.detail
    assert state(memory) == before
    assert list(running.core.settings.home.rglob("out.md")) == []
    assert improved(running) == []


async def test_a_dream_that_takes_too_long_is_cut_off_and_leaves_no_trace(tmp_path: Path, clock: Clock) -> None:
    toml = AWAKE + "[memory]\ndream_max_minutes = 0.01\n"
    async with whole(tmp_path / "home", toml, clock=clock) as running:
        memory = await sittings(running, clock, 5)
        before = state(memory)
        dreams(running, calls(("delete", {"file_path": "tea.md"})), Answer(text="…", delay=30))
        await tick(running)
        assert state(memory) == before


# -- good ones


def merges(*names: str) -> list[Scripted]:
    """Merge some notes into one, as a good dream does."""
    lines = "".join(f"- {FACTS[name]}\n" for name in names)
    rest = "".join(f"- [{name}]({name}.md)\n" for name in FACTS if name not in names)
    text = f"---\nname: ways\n---\n\n{lines}"
    gone = (("delete", {"file_path": f"{name}.md"}) for name in names)
    index = {"file_path": "MEMORY.md", "content": f"- [ways](ways.md)\n{rest}"}
    look = calls(("read", {"file_path": "MEMORY.md"}))
    return [
        look,
        calls(("write", {"file_path": "ways.md", "content": text}), *gone),
        look,
        calls(("write", index)),
        "Merged.",
    ]


async def test_what_a_dream_changed_is_measured_shown_and_taken_back_once(running: Whole, clock: Clock) -> None:
    memory = await sittings(running, clock, 1)
    before = {path.name: path.read_text() for path in memory.glob("*.md")}
    dreams(running, *merges("tea", "train"))
    assert "Dreaming…" in await running.tell(ANN, "/dream")
    await heard(running, "5 of 5 facts kept (100%), 5 → 4 notes")
    assert running.adapter.statuses[-1] == ""
    assert improved(running) == []
    assert "--- a/MEMORY.md\n+++ b/MEMORY.md" in await running.tell(ANN, "/dream diff")
    await heard(running, "+++ /dev/null")
    await heard(running, f"+- {FACTS['train']}")
    assert "5 of 5 facts kept" in await running.tell(ANN, "/dream status")
    assert "is not what was shown" in await running.tell(ANN, "/dream undo 0123456789abcdef")
    undo = await offered(running, "Undo", where=ANN)
    assert "taken back: 4 files as before" in await press(running, ANN, undo)
    assert {path.name: path.read_text() for path in memory.glob("*.md")} == before
    assert "Nothing to undo" in await running.tell(ANN, "/dream undo")
    assert "reverie_dream_survival_ratio_count" in running.core.metrics.exposition("")[0].decode()


async def test_an_undo_keeps_what_was_added_since_and_brings_nothing_back_that_was_forgotten(
    running: Whole, clock: Clock
) -> None:
    memory = await sittings(running, clock, 1)
    dreams(running, *merges("tea", "train", "bees"))
    await running.tell(ANN, "/dream")
    await heard(running, "facts kept")
    with (memory / "kiel.md").open("a") as kiel:
        kiel.write("- Moves in autumn\n")
    (memory / "new.md").write_text(note("Ann has a dog"))
    await running.tell(ANN, "/forget hives of bees")
    assert "Forgotten" in await running.tell(ANN, "/forget 1")
    await running.tell(ANN, "/dream undo")
    left = {path.name: path.read_text() for path in memory.glob("*.md")}
    assert "Moves in autumn" in left["kiel.md"]
    assert "new.md" in left
    assert FACTS["tea"] in left["tea.md"]
    assert not any("hives" in text for text in left.values())
    assert "bees.md" not in left


async def test_in_a_shared_chat_only_an_owner_takes_a_dream_back(running: Whole, clock: Clock) -> None:
    await sittings(running, clock, 1, BOB_IN_G)
    assert "only an owner" in await running.tell(BOB_IN_G, "/dream undo")
    assert "Last dream: never" in await running.tell(BOB_IN_G, "/dream status")


async def test_status_says_what_a_dream_waits_for(running: Whole, clock: Clock) -> None:
    assert "no notes yet" in await running.tell(BOB, "/dream")
    memory = await sittings(running, clock, 3)
    assert "3 of 5 conversations" in await running.tell(ANN, "/dream status")
    dreamt(memory, clock, hours=1)
    assert "not before" in await running.tell(ANN, "/dream status")


# -- tokens


async def test_a_run_that_has_used_up_its_tokens_is_put_back_and_not_tried_again_that_night(
    tmp_path: Path, clock: Clock
) -> None:
    toml = AWAKE + "[memory]\ndream_tokens_per_run = 50\n"
    async with whole(tmp_path / "home", toml, clock=clock) as running:
        memory = await sittings(running, clock, 5)
        if clock().hour >= 20:  # the ticks below are to fall into one day
            clock.forward(hours=24 - clock().hour)
        before = state(memory)
        dreams(running, *merges("tea", "train"))
        for _ in range(3):
            await tick(running)
            clock.forward(minutes=61)
        (record,) = await running.core.night.runs.recent("dream")
        assert "it used up its tokens before its end" in record.detail
        assert state(memory) == before
        assert sum(is_dream(request.body) for request in running.model.requests) == 1


async def test_when_the_nights_tokens_are_used_up_nobody_dreams_until_midnight(tmp_path: Path, clock: Clock) -> None:
    toml = AWAKE + "[memory]\ndream_tokens_per_night = 50\n"
    async with whole(tmp_path / "home", toml, clock=clock) as running:
        for who in (ANN, BOB):
            await sittings(running, clock, 1, who)
        await running.core.night.clock.run_now("dream")
        assert sum(is_dream(request.body) for request in running.model.requests) in {1, 2}
        assert "tokens for dreams are used up" in await running.tell(ANN, "/dream")
        clock.forward(hours=24)
        assert "Dreaming…" in await running.tell(ANN, "/dream")
        await heard(running, "I did not keep this dream: it used up its tokens")


# -- a gateway that dies


async def test_a_gateway_that_died_in_a_dream_puts_it_back_when_it_is_started_again(
    tmp_path: Path, clock: Clock
) -> None:
    async with whole(tmp_path / "home", AWAKE, clock=clock) as running:
        memory = await sittings(running, clock, 1)
        before = {path.name: path.read_text() for path in memory.glob("*.md")}
        dreams(running, *merges("tea", "train"))
        await running.core.night.clock.run_now("dream")
        (folder,) = kept_beside(await running.scope(ANN)).iterdir()
        (folder / "record.json").unlink()  # as if it had died right before its end
        assert {path.name: path.read_text() for path in memory.glob("*.md")} != before
    async with whole(tmp_path / "home", AWAKE, clock=clock) as running:
        clock.forward(minutes=2)
        await running.core.night.clock.fire("recover-dreams")
        assert {path.name: path.read_text() for path in memory.glob("*.md")} == before
        await heard(running, "was cut off; the notes are as they were")
