"""Whatever ends a run after it has written, the fact keeps its author: they may still have it forgotten."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.llm.standin.answers import Failure
from gateway.provenance import Provenance
from memory.provenance import fact_hash
from tests.acceptance.whole import Speaker, Whole, calls, note, until, whole

BOB = Speaker(user="43", chat="-100", name="Bob")
FACT = "Bob keeps a zebrafish. (Bob, 2026-12-01)"
WRITE = calls(("write", {"file_path": "fish.md", "content": note(FACT)}))
READ = calls(("read", {"file_path": "fish.md"}))


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home", 'owners = ["telegram:99"]\n') as running:
        yield running


async def answered(running: Whole, words: str) -> None:
    async def posted() -> bool:
        return any(words in str(call.part) for call in running.adapter.calls)

    await until(posted, f"{words!r} was not said")
    await running.settled()


async def forgets(running: Whole) -> str:
    await running.tell(BOB, "/forget zebrafish")
    return await running.tell(BOB, "/forget 1")


@pytest.mark.parametrize("again", [(READ,), (READ, WRITE)], ids=["reads it", "writes the same"])
@pytest.mark.parametrize("status", [500, 400])
async def test_a_turn_that_failed_after_its_write_and_is_tried_again_leaves_the_fact_its_author(
    running: Whole, status: int, again: tuple[Any, ...]
) -> None:
    running.then("Hello.")
    running.then_fork(*["Nothing to add."] * 3)
    await running.tell(BOB, "Good morning to you all")
    running.then(WRITE, Failure(status=status), *again, "It is noted.")
    await running.gateway.intake.put(BOB.says("Remember: I keep a zebrafish."))
    await answered(running, "It is noted.")
    assert "Forgotten: 1 fact." in await forgets(running)
    assert not ((await running.scope(BOB)).memory_dir / "fish.md").exists()


async def test_an_extraction_that_ended_before_it_recorded_leaves_the_fact_its_author(
    running: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = Provenance.record, list[str]()

    async def record(*given: Any) -> None:
        if not failed:
            failed.append("once")
            raise RuntimeError("the process dies")
        await real(*given)

    monkeypatch.setattr(Provenance, "record", record)
    running.then("Aha.")
    running.then_fork(WRITE, "Done.", READ, WRITE, "It is there.")
    await running.tell(BOB, "I keep a zebrafish.")
    await until(lambda: _asked(running, 5), "it was not tried again")
    await running.settled()
    assert failed
    assert "Forgotten: 1 fact." in await forgets(running)


async def _asked(running: Whole, times: int) -> bool:
    return len(running.forks) >= times


async def test_a_turns_fact_has_its_message_as_its_source_once_that_is_stored(running: Whole) -> None:
    running.then(WRITE, "Noted.")
    running.then_fork("Nothing to add.")
    await running.tell(BOB, "Remember: I keep a zebrafish.")
    await running.settled()
    scope = await running.scope(BOB)
    ((source,),) = (await running.core.provenance.sources(scope, [fact_hash(FACT)])).values()
    assert (source.account, source.speaker) == ("telegram:43", "Bob")
    assert source.message_id
