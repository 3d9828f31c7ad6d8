"""A dream that somebody asked for and that ends with its process: `/jobs` tells the end, whatever ended the process."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.llm.standin.answers import Answer
from scheduler.execution import Execution
from scheduler.runs import Outcome
from tests.acceptance.test_check_20 import AWAKE, is_dream, sittings
from tests.acceptance.whole import ANN, Clock, until, whole

OWNER = {"REVERIE_ACCESS__OWNERS": "telegram:42"}


async def _dies(*_: Any) -> None:
    """Write nothing more, as a process that is killed."""


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
async def test_after_a_restart_jobs_tells_that_a_dream_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    clock = Clock()
    if killed:
        monkeypatch.setattr(Execution, "_give_back", _dies)
    async with whole(tmp_path / "home", AWAKE, clock=clock, environ=OWNER) as running:
        await sittings(running, clock, 1)
        running.model.script(Answer(text="Done.", delay=60), when=is_dream)
        await running.tell(ANN, "/dream")

        async def begun() -> bool:
            return any(is_dream(request.body) for request in running.model.requests)

        await until(begun, "no dream has begun")
    clock.forward(minutes=3)
    async with whole(tmp_path / "home", AWAKE, clock=clock, environ=OWNER) as running:
        await running.core.night.clock.fire("end-sessions")  # any tick will do
        [run] = await running.core.night.runs.recent("dream")
        assert run.outcome is Outcome.FAILED
        told = await running.tell(ANN, "/jobs dream")
        assert "failed after" in told
        assert "it was cut off: the process that ran it has ended" in told
        assert await running.core.night.runs.prune(clock() + timedelta(days=91)) > 0
        assert await running.core.night.runs.recent("dream") == []
