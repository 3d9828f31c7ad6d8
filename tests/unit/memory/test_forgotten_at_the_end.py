"""What is forgotten between a dream's judgement and its record is in nothing that the dream leaves."""

from datetime import datetime
from pathlib import Path

import pytest

from memory.consolidation import Ending
from memory.provenance import Placed
from memory.scope import Scope
from memory.snapshot import kept_beside
from tests.unit.memory.dreams import Night, tidy

POINTER = "- [B](b.md) — trains, Kiel\n"


@pytest.fixture
def night(tmp_path: Path) -> Night:
    night = Night(tmp_path)
    night.run.script = tidy
    return night


def clears_the_index(night: Night, monkeypatch: pytest.MonkeyPatch, *, recorded: bool) -> None:
    """Let the index lose a line as soon as the run is judged, and let that be known then, or not before it is kept."""
    judged = list[bool]()

    async def sources(scope: Scope, hashes: object) -> dict[str, tuple[Placed, ...]]:
        judged.append(True)
        night.put("MEMORY.md", night.texts()["MEMORY.md"].replace(POINTER, ""))
        return {}

    asked = list[bool]()

    async def erased_since(scope: Scope, moment: datetime) -> bool:
        asked.extend(judged)
        return recorded and len(asked) > 1

    monkeypatch.setattr(night.ledger, "sources", sources)
    monkeypatch.setattr(night.ledger, "erased_since", erased_since)


async def test_a_run_is_put_back_if_something_was_forgotten_after_it_was_judged(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = night.texts()
    clears_the_index(night, monkeypatch, recorded=True)
    result = await night.dream(night.scope)
    assert (result.ending, result.reason) == (Ending.ABORTED, "something was forgotten meanwhile")
    assert {name: text for name, text in night.texts().items() if name != "MEMORY.md"} == {"a.md": before["a.md"]}


async def test_of_an_index_it_is_kept_what_it_holds_at_the_end(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    clears_the_index(night, monkeypatch, recorded=False)
    assert (await night.dream(night.scope)).ending is Ending.CHANGED
    kept = [path.read_text() for path in kept_beside(night.scope).rglob("after/MEMORY.md")]
    assert len(kept) == 1
    assert "trains" not in kept[0]
