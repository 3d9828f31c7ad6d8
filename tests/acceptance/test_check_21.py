"""Check 21: in log mode a conversation runs on past midnight, and only the night's job writes the index."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.llm.standin.request import Conversation
from tests.acceptance.whole import ANN, Clock, Whole, calls, extends, note, whole

LOG_MODE = '[memory]\nmemory_mode = "log"\n[scheduler]\nstart_delay = 3600\n'


def just_before_midnight() -> tuple[Clock, datetime]:
    """Return a clock that shows 23:59:15, and the last moment of its day."""
    clock = Clock()
    midnight = datetime.combine(clock().date(), datetime.max.time(), tzinfo=UTC)
    clock.ahead = midnight - datetime.now(UTC)
    clock.forward(seconds=-45)
    return clock, midnight


async def across_midnight(running: Whole, clock: Clock, midnight: datetime) -> tuple[Path, Path]:
    """Say something on either side of midnight, and return the logs of both days."""
    await running.tell(ANN, "I prefer answers in metric units.")
    await running.settled()
    clock.forward(minutes=2)
    await running.tell(ANN, "I live in Kiel.")
    await running.settled()
    memory = (await running.scope(ANN)).memory_dir
    before, after = (memory / f"logs/{day:%Y/%m/%Y-%m-%d}.md" for day in (midnight, clock()))
    return before, after


async def test_check_21_each_day_has_its_file_and_the_prefix_survives_midnight(tmp_path: Path) -> None:
    clock, midnight = just_before_midnight()
    async with whole(tmp_path / "home", LOG_MODE, clock=clock) as running:
        days = await across_midnight(running, clock, midnight)
        assert ["metric" in day.read_text() for day in days] == [True, False]
        assert ["Kiel" in day.read_text() for day in days] == [False, True]
        first, second = running.chats
        assert extends(second, first)
        assert str(second.body["messages"][-1]).count("The date has changed") == 1
        assert not (await running.scope(ANN)).index.exists()


def is_distillation(body: dict[str, Any]) -> bool:
    return "day log" in Conversation.of(body).prompt and "You are Reverie" not in Conversation.of(body).system


async def test_check_21_the_night_distils_the_day_that_is_over_and_leaves_its_log_as_it_was(tmp_path: Path) -> None:
    clock, midnight = just_before_midnight()
    async with whole(tmp_path / "home", LOG_MODE, clock=clock) as running:
        yesterday, today = await across_midnight(running, clock, midnight)
        logged = yesterday.read_text()
        await running.core.night.clock.fire("close-day")
        await running.core.night.clock.fire("distil")
        index = (await running.scope(ANN)).index
        assert not index.exists()  # it is not one o'clock yet
        clock.forward(hours=1)
        written = calls(
            ("read", {"file_path": str(yesterday)}),
            ("write", {"file_path": "units.md", "content": note("Ann prefers metric units")}),
            ("write", {"file_path": "MEMORY.md", "content": "- [Units](units.md): metric\n"}),
        )
        for answer in (written, "Sorted."):
            running.model.script(answer, when=is_distillation)
        await running.core.night.clock.fire("distil")
        assert index.read_text() == "- [Units](units.md): metric\n"
        assert logged in yesterday.read_text()
        assert (yesterday.stat().st_mode & 0o777, today.stat().st_mode & 0o777) == (0o400, 0o600)
        assert await running.core.night.clock.fire("distil") == []
