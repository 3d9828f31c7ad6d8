"""What is being forgotten: nobody writes it back meanwhile, and what was cut short can be brought to its end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.llm.standin.server import Scripted
from memory import erasure
from memory.errors import WriteRefused
from memory.gone import Item, gone
from memory.provenance import fact_hash
from tests.acceptance.test_erasure import CANARY, forget, on_disk
from tests.acceptance.whole import Clock, Speaker, Whole, calls, note, until, whole

BOB = Speaker(user="43", chat="-100", name="Bob")
CARL = Speaker(user="45", chat="-100", name="Carl", thread="7")
FACT = f"Bob keeps a {CANARY}. (Bob, 2026-12-01)"
TAKES_OUT = "gateway.commands.erasure.erase_everywhere"
COPY = calls(("write", {"file_path": "animals.md", "content": note(FACT)}))
AGENT = calls(("Agent", {"name": "gardener", "prompt": f"Note: {FACT}"}))


@pytest.fixture
async def running(tmp_path: Path, clock: Clock) -> AsyncIterator[Whole]:
    agents = tmp_path / "home" / "agents"
    agents.mkdir(parents=True)
    (agents / "gardener.md").write_text("---\nname: gardener\ndescription: Beds\nmemory: user\n---\nSay what grows.\n")
    async with whole(tmp_path / "home", 'owners = ["telegram:99"]\n', clock=clock) as running:
        yield running


async def noted(running: Whole) -> Path:
    """Let Bob have his fact noted, and return the memory directory."""
    memory = (await running.scope(BOB)).memory_dir
    running.then(calls(("write", {"file_path": "fish.md", "content": note(FACT)})), "Noted.")
    running.then_fork(*["Nothing to add."] * 4)
    await running.tell(BOB, f"Remember: I keep a {CANARY}.")
    await running.settled()
    return memory


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[Any]], *, after: bool = False) -> None:
    """Let something happen once while the files are being cleared, before or after that."""
    real = erasure.erase_everywhere

    async def take_out(*given: Any, **named: Any) -> None:
        monkeypatch.setattr(TAKES_OUT, real)
        if after:
            await real(*given, **named)
        await act()
        await real(*given, **named) if not after else None

    monkeypatch.setattr(TAKES_OUT, take_out)


@pytest.mark.parametrize("answer", [COPY, AGENT], ids=["turn", "agent"])
async def test_who_begins_while_it_is_taken_out_writes_nothing_back(
    running: Whole, monkeypatch: pytest.MonkeyPatch, answer: Scripted
) -> None:
    memory = await noted(running)
    running.then(answer, "I have tried.")
    for each in (calls(("write", {"file_path": "z.md", "content": note(FACT)})), "Done."):
        running.model.script(each, when=lambda body: "Say what grows." in str(body["system"]))
    meanwhile(monkeypatch, lambda: running.tell(CARL, "Which animals do we keep? Put them in order."))
    assert "Forgotten: 1 fact." in await forget(running, BOB)
    assert "something was forgotten meanwhile" in str([request.body for request in running.model.requests])
    assert on_disk(memory.parents[2]) == []


async def test_what_a_hand_puts_back_meanwhile_goes_as_well(running: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = await noted(running)

    async def copy() -> None:
        (memory / "copy.md").write_text(note(FACT))

    meanwhile(monkeypatch, copy, after=True)
    assert "Forgotten: 1 fact." in await forget(running, BOB)
    assert on_disk(memory.parent) == []


async def test_who_said_it_may_try_again_what_could_not_be_taken_out(
    running: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await noted(running)

    async def fails(*_: Any, **__: Any) -> None:
        raise WriteRefused("the disk is full")

    monkeypatch.setattr(TAKES_OUT, fails)
    assert "only in part: the disk is full." in await forget(running, BOB)
    monkeypatch.undo()
    assert "Forgotten: 1 fact." in await forget(running, BOB)
    assert on_disk(memory.parent) == []


@pytest.mark.parametrize("minutes", [0, 11], ids=["at once", "when what was listed has run out"])
async def test_what_was_begun_when_the_process_died_goes_on_with_the_same_message(
    running: Whole, clock: Clock, minutes: int
) -> None:
    memory, scope = await noted(running), await running.scope(BOB)
    await running.tell(BOB, f"/forget {CANARY}")
    what = gone({"fish.md": (memory / "fish.md").read_text()}, [Item(note="fish.md", hash=fact_hash(FACT))])
    await running.core.erasures.begin(scope, messages=[], what=what)
    clock.forward(minutes=minutes)
    assert "Forgotten: 1 fact." in await running.tell(BOB, "/forget 1")
    assert on_disk(memory.parent) == []
    assert not await running.core.erasures.unfinished(scope)
    assert "Nothing is listed" in await running.tell(BOB, "/forget 1") or minutes == 0


async def test_who_stops_it_half_way_leaves_a_memory_that_takes_up_new_facts(
    running: Whole, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    await noted(running)
    scope, provenance = await running.scope(BOB), running.core.provenance

    async def stopped() -> None:
        await running.gateway.intake.put(BOB.says("/stop"))
        await until(_never, "it was not stopped")

    meanwhile(monkeypatch, stopped)
    assert "(stopped)" in await forget(running, BOB)
    clock.forward(seconds=1)
    assert not await provenance.erased_since(scope, clock())
    assert "Forgotten: 1 fact." in await forget(running, BOB)


async def _never() -> None:
    """Never come to an end by itself."""


async def test_a_note_that_is_too_large_to_be_read_to_its_end_is_named(running: Whole) -> None:
    memory = await noted(running)
    comment = f"<!-- {'x' * 1_200_000} -->\n"
    (memory / "big.md").write_text(f"{comment * 4}- Bob keeps a quagga.\n")
    (memory / "large.md").write_text(f"{comment}- Bob keeps an okapi.\n")
    told = await running.tell(BOB, "/forget quagga")
    assert "I find nothing" in told
    assert told.endswith("Too large to be read to the end, so look there by hand: `big.md`.")
    assert "Bob keeps an okapi" in await running.tell(BOB, "/forget okapi")
    assert (await forget(running, BOB)).endswith("look there by hand: `big.md`.")
