"""Log mode can be switched per chat at any time, in both directions, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pytest

from gateway.llm.standin.answers import Answer, Failure
from gateway.llm.standin.request import Conversation
from memory.dailylog import log_path
from memory.log_marks import MARK
from memory.scope import Mode
from tests.acceptance.extraction_runs import Held
from tests.acceptance.whole import ANN, BOB, Clock, Speaker, Whole, calls, note, whole

OWNED = {"REVERIE_ACCESS__OWNERS": "telegram:42"}
LOG = '[memory]\nmemory_mode = "log"\n'
HELD_BACK = "extraction_throttle = 50\n"
QUIET = "[scheduler]\nstart_delay = 3600\n"  # only the test fires jobs
GROUP = Speaker(user="42", chat="-100")
METRIC, KIEL = "I prefer answers in metric units.", "I live in Kiel."


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.ahead = datetime.combine(datetime.now(UTC).date(), time(12), tzinfo=UTC) - datetime.now(UTC)
    return clock


@pytest.fixture
async def logging(tmp_path: Path, clock: Clock) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home", LOG + QUIET, clock=clock, environ=OWNED) as running:
        yield running


async def log_now(running: Whole, clock: Clock) -> Path:
    return log_path(await running.scope(ANN), clock())


async def notes(running: Whole) -> str:
    return "".join(path.read_text() for path in (await running.scope(ANN)).memory_dir.glob("*.md"))


async def say_unextracted(running: Whole, words: str) -> None:
    """Say something whose extraction fails, so that it is still due."""
    running.then_fork(Failure(status=500))
    await running.tell(ANN, words)
    await running.settled()


def is_distillation(body: dict[str, Any]) -> bool:
    return "day log" in Conversation.of(body).prompt and "You are Reverie" not in Conversation.of(body).system


async def test_switched_off_what_was_not_logged_is_and_the_night_sorts_the_log_all_the_same(
    logging: Whole, clock: Clock
) -> None:
    await say_unextracted(logging, METRIC)
    log = await log_now(logging, clock)
    assert not log.exists()
    answer = await logging.tell(ANN, "/mode auto")
    assert "(`auto`)" in answer
    assert "sorted into notes in the coming night" in answer
    assert f"Ann: {METRIC} <!-- m" in log.read_text()
    await logging.settled()
    assert "metric" in await notes(logging)  # it was due, and is extracted as the new mode has it
    clock.forward(hours=13)
    reads, writes = ("read", {"file_path": str(log)}), {"file_path": "from_log.md", "content": note("metric")}
    logging.model.script(calls(reads, ("write", writes)), when=is_distillation)
    logging.model.script("Sorted.", when=is_distillation)
    assert await logging.core.night.clock.fire("close-day") == []
    [ran] = await logging.core.night.clock.fire("distil")
    assert "changed" in ran.detail
    assert log.stat().st_mode & 0o777 == 0o400
    assert await logging.core.night.clock.fire("distil") == []


async def test_the_session_ends_with_a_switch_and_the_next_prompt_is_of_the_new_mode(
    logging: Whole, clock: Clock
) -> None:
    await logging.tell(ANN, METRIC)
    await logging.tell(ANN, "/mode auto")
    await logging.tell(ANN, KIEL)
    request = logging.chats[-1].body
    assert "metric" not in str(request["messages"])
    assert "Keeping the day log" not in str(request["system"])
    assert "as set with `/mode`" in await logging.tell(ANN, "/status")
    await logging.settled()
    assert "Kiel" in await notes(logging)
    log = await log_now(logging, clock)
    assert "Kiel" not in log.read_text()


async def test_switched_on_what_was_due_goes_to_the_log_of_its_own_day_and_no_earlier_day_is_closed(
    tmp_path: Path, clock: Clock
) -> None:
    async with whole(tmp_path / "home", f"[memory]\n{HELD_BACK}{QUIET}", clock=clock, environ=OWNED) as running:
        await running.tell(ANN, KIEL)
        await running.tell(ANN, "That is all for today.")
        then = await log_now(running, clock)
        clock.forward(hours=24)
        assert "(`log`)" in await running.tell(ANN, "/mode log")
        await running.settled()
        assert "Kiel" in then.read_text()
        assert "Kiel" not in await notes(running)
        await running.core.night.clock.fire("close-day")
        assert not MARK.search(then.read_text())
        assert not (await log_now(running, clock)).exists()


async def test_back_and_forth_within_a_day_what_is_said_in_log_mode_is_in_the_log_once(
    tmp_path: Path, clock: Clock
) -> None:
    async with whole(tmp_path / "home", LOG + HELD_BACK + QUIET, clock=clock, environ=OWNED) as running:
        log = await log_now(running, clock)
        for number, then in enumerate(("auto", "log", "default", "auto", "log")):
            await running.tell(ANN, f"Message number {number}.")
            await running.tell(ANN, f"/mode {then}")
            await running.settled()
        await running.tell(ANN, "Message number 5.")
        clock.forward(hours=24)
        await running.core.night.clock.fire("close-day")
        text = log.read_text()
        assert [text.count(f"Ann: Message number {number}. <!--") for number in range(6)] == [1, 0, 1, 1, 0, 1]
        assert (await running.scope(ANN)).mode is Mode.LOG


async def test_an_extraction_that_runs_during_the_switch_still_reaches_the_log(logging: Whole, clock: Clock) -> None:
    log = await log_now(logging, clock)
    append = calls(("append", {"file_path": str(log), "content": "- 12:00 Ann: metric units"}))
    held = Held(append)
    logging.then_fork(held, "Done.")
    await logging.tell(ANN, METRIC)
    await held.began.wait()
    await logging.tell(ANN, "/mode auto")
    assert "- 12:00 Ann: metric units" not in log.read_text()
    held.go.set()
    await logging.settled()
    assert "- 12:00 Ann: metric units" in log.read_text()
    clock.forward(hours=13)
    assert len(await logging.core.night.clock.fire("distil")) == 1


async def test_a_distillation_that_runs_during_the_switch_keeps_what_it_wrote_and_the_new_lines(
    logging: Whole, clock: Clock
) -> None:
    await logging.tell(ANN, METRIC)
    await logging.settled()
    first = await log_now(logging, clock)
    clock.forward(hours=24)
    await logging.core.night.clock.fire("close-day")
    await say_unextracted(logging, KIEL)
    reads, writes = ("read", {"file_path": str(first)}), {"file_path": "sorted.md", "content": note("metric")}
    held = Held(calls(reads, ("write", writes)))
    for answer in (held, Answer(text="Sorted.")):
        logging.model.script(answer, when=is_distillation)
    distilling = asyncio.create_task(logging.core.night.clock.fire("distil"))
    await held.began.wait()
    await logging.tell(ANN, "/mode auto")
    held.go.set()
    [ran] = await distilling
    assert "changed" in ran.detail
    assert first.stat().st_mode & 0o777 == 0o400
    assert f"Ann: {KIEL}" in (await log_now(logging, clock)).read_text()
    assert "metric" in await notes(logging)


async def test_a_dream_that_runs_during_the_switch_is_kept_and_what_is_said_then_is_logged(
    tmp_path: Path, clock: Clock
) -> None:
    async with whole(tmp_path / "home", QUIET, clock=clock, environ=OWNED) as running:
        await running.remember(ANN, "Ann drinks tea", name="tea")
        await running.tell(ANN, "Hello there")
        await running.settled()
        write = calls(("write", {"file_path": "dreamt.md", "content": note("Ann drinks green tea")}))
        held = Held(write)
        for answer in (held, Answer(text="Sorted.")):
            running.model.script(answer)
        dreaming = asyncio.create_task(running.core.night.clock.run_now("dream"))
        await held.began.wait()
        await running.tell(ANN, "/mode log")
        held.go.set()
        [ran] = await dreaming
        assert "changed" in ran.detail
        await running.tell(ANN, KIEL)
        await running.settled()
        assert "green" in await notes(running)
        assert "Kiel" not in await notes(running)
        assert "Kiel" in (await log_now(running, clock)).read_text()


async def test_days_that_nobody_closed_are_closed_at_once_each_with_what_was_said_on_it(
    tmp_path: Path, clock: Clock
) -> None:
    async with whole(tmp_path / "home", f"{LOG}extraction_enabled = false\n{QUIET}", clock=clock) as running:
        logs = []
        for number in range(3):
            await running.tell(ANN, f"Message number {number}.")
            logs.append(await log_now(running, clock))
            if number == 0:
                await running.core.night.clock.fire("close-day")  # of the day before; then there is nobody to do it
            clock.forward(hours=24)
        for _ in range(2):
            await running.core.night.clock.fire("close-day")
        found = [[number for number in range(3) if f"Message number {number}. <!--" in log.read_text()] for log in logs]
        assert found == [[0], [1], [2]]


async def test_silence_ends_no_conversation_and_the_close_logs_what_a_throttle_held_back(
    tmp_path: Path, clock: Clock
) -> None:
    async with whole(tmp_path / "home", LOG + HELD_BACK + QUIET, clock=clock) as running:
        await running.tell(ANN, KIEL)
        log = await log_now(running, clock)
        clock.forward(hours=24)
        [ran] = await running.core.night.clock.run_now("end-sessions")
        await running.settled()
        assert (ran.detail, running.forks) == ("0 silent conversations ended", [])
        await running.core.night.clock.fire("close-day")
        assert log.read_text().count(f"Ann: {KIEL}") == 1
        await running.tell(ANN, "Where do I live?")
        assert KIEL in str(running.chats[-1].body["messages"])


async def test_a_switch_ends_every_conversation_of_the_memory_and_what_was_held_back_there_is_extracted(
    tmp_path: Path, clock: Clock
) -> None:
    topic = Speaker(user="42", chat="42", thread="7")
    async with whole(tmp_path / "home", f"[memory]\n{HELD_BACK}{QUIET}", clock=clock, environ=OWNED) as running:
        await running.tell(topic, KIEL)
        await running.settled()
        assert running.forks == []
        await running.tell(ANN, "/mode log")
        await running.settled()
        assert "Kiel" in (await log_now(running, clock)).read_text()
        await running.tell(topic, "Hello again")
        assert KIEL not in str(running.chats[-1].body["messages"])
        assert "That is what the settings say" in await running.tell(ANN, "/mode default")
        for words in ("One more word.", "/mode default", "And another."):
            await running.tell(topic, words)
        assert "One more word." in str(running.chats[-1].body["messages"])


async def test_what_is_said_with_memory_left_aside_is_not_closed_into_the_log_while_an_extraction_waits(
    logging: Whole, clock: Clock
) -> None:
    await say_unextracted(logging, METRIC)
    await logging.tell(Speaker(user="42", chat="42", thread="7"), "/ignore on")
    await logging.tell(Speaker(user="42", chat="42", thread="7"), KIEL)
    log = await log_now(logging, clock)
    clock.forward(hours=24)
    await logging.core.night.clock.fire("close-day")
    assert METRIC in log.read_text()
    assert "Kiel" not in log.read_text()


async def test_only_an_owner_switches_a_chat_and_no_other_chat_changes_with_it(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", environ=OWNED) as running:
        assert "Only an owner" in await running.tell(BOB, "/mode log")
        assert (await running.scope(BOB)).mode is Mode.AUTO
        assert "for this chat" in await running.tell(GROUP, "/mode log")
        assert [(await running.scope(who)).mode for who in (GROUP, ANN, BOB)] == [Mode.LOG, Mode.AUTO, Mode.AUTO]
        assert "(`log`)" in await running.tell(Speaker(user="43", chat="-100", name="Bob"), "/mode")
        assert "`/mode log`" in await running.tell(ANN, "/mode sideways")


async def test_the_mode_outlives_a_restart_and_default_goes_back_to_the_settings(tmp_path: Path) -> None:
    mine = '[chats."telegram:42"]\nmode = "auto"\n'
    async with whole(tmp_path / "home", mine, environ=OWNED) as running:
        assert "goes before the settings" in await running.tell(ANN, "/mode log")
    async with whole(tmp_path / "home", mine, environ=OWNED) as running:
        assert (await running.scope(ANN)).mode is Mode.LOG
        assert "That is what the settings say" in await running.tell(ANN, "/mode default")
        assert (await running.scope(ANN)).mode is Mode.AUTO


async def test_old_logs_are_deleted_by_their_job_if_the_operator_says_so(tmp_path: Path, clock: Clock) -> None:
    kept = LOG + "log_keep_days = 30\n" + QUIET
    async with whole(tmp_path / "home", kept, clock=clock, environ=OWNED) as running:
        await running.tell(ANN, METRIC)
        await running.settled()
        log = await log_now(running, clock)
        clock.forward(hours=24)
        for answer in (calls(("read", {"file_path": str(log)})), "Nothing was worth keeping."):
            running.model.script(answer, when=is_distillation)
        for job in ("close-day", "distil"):
            await running.core.night.clock.run_now(job)
        assert log.stat().st_mode & 0o777 == 0o400
        [ran] = await running.core.night.clock.run_now("forget-logs")
        assert (ran.detail, log.exists()) == ("0 day logs deleted", True)
        clock.forward(days=30)
        [looked] = await running.core.night.clock.dry_run("forget-logs")
        assert (looked.does, log.exists()) == ("delete 1 day log", True)
        [ran] = await running.core.night.clock.run_now("forget-logs")
        assert (ran.detail, log.exists()) == ("1 day log deleted", False)


async def test_a_chat_whose_first_days_the_gateway_was_down_for_has_them_in_its_logs(
    tmp_path: Path, clock: Clock
) -> None:
    settings = LOG + HELD_BACK + QUIET
    async with whole(tmp_path / "home", settings, clock=clock, environ=OWNED) as running:
        await running.tell(ANN, KIEL)
        log = await log_now(running, clock)
    clock.forward(hours=60)
    async with whole(tmp_path / "home", settings, clock=clock, environ=OWNED) as running:
        closed = await running.core.night.clock.fire("close-day")
        assert [each.outcome.value for each in closed] == ["done"] * 3  # with the day before, or today's morning
        assert log.read_text().count(f"Ann: {KIEL}") == 1


async def test_what_is_said_after_a_hand_has_spoilt_the_log_is_kept_and_distilled(logging: Whole, clock: Clock) -> None:
    await logging.tell(ANN, METRIC)
    await logging.settled()
    log = await log_now(logging, clock)
    log.write_bytes(log.read_bytes() + b"- caf\xe9 by hand\n")
    await logging.tell(ANN, KIEL)
    await logging.settled()
    assert "Kiel" in log.with_name(f"{log.stem}.2.md").read_text()
    await say_unextracted(logging, "My name is Ann.")
    clock.forward(hours=14)
    await logging.core.night.clock.fire("close-day")
    assert "My name is Ann." in log.with_name(f"{log.stem}.2.md").read_text()
    for answer in (calls(("read", {"file_path": str(log.with_name(f"{log.stem}.2.md"))})), "Sorted."):
        logging.model.script(answer, when=is_distillation)
    await logging.core.night.clock.fire("distil")
    asked, _ = [request.body for request in logging.model.requests if is_distillation(request.body)]
    assert "caf\N{REPLACEMENT CHARACTER} by hand" in str(asked["messages"])
    assert log.stat().st_mode & 0o777 == 0o400
