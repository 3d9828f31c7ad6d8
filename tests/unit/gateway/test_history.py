import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from adapters.base import Address
from gateway.db.engine import Database
from gateway.erasures import Erasures
from gateway.history import Due, History, Line, Session, Turned
from memory.recall import Recalled
from memory.scope import Mode, Scope
from tests.postgres import sqlite_only

MakeScope = Callable[..., Scope]
HERE = "telegram:42"
HOUR = 3600.0


def in_mode(mode: Mode) -> Callable[[Address, str], Mode]:
    return lambda address, principal: mode


async def start(history: History, scope: Scope, conversation: str = HERE) -> Session:
    system = [{"type": "text", "text": "be kind"}]
    return await history.start_session(scope, conversation, system=system, today="2026-05-01")


def words(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


async def add_turn(
    database: Database,
    history: History,
    session: Session,
    text: str = "hi",
    *,
    recalled: Sequence[Recalled] = (),
    written: Sequence[Path] = (),
    broke_off: bool = False,
) -> None:
    lines = [
        Line(role="user", content=words(f"<note>x</note>{text}"), speaker="Ann", said=text),
        Line(role="assistant", content=[{"type": "tool_use", "id": "t", "name": "read", "input": {}}]),
        Line(role="user", content=[{"type": "tool_result", "tool_use_id": "t", "content": "…"}]),
        Line(role="assistant", content=words("yes"), said="yes"),
    ]
    turned = Turned(
        lines=lines,
        recalled=recalled,
        rules=(),
        written=written,
        told_date="2026-05-02",
        told_notes_at=5.0,
        inbox_id=1,
        broke_off=broke_off,
    )
    async with database.write() as transaction:
        await history.add_turn(transaction, session, turned)


async def only_due(history: History) -> tuple[Due, Session]:
    (session_id,) = await history.due()
    found = await history.due_extraction(session_id)
    assert found is not None
    return found


async def end(database: Database, history: History) -> None:
    async with database.write() as session:
        assert await history.end_session(session, HERE)


async def test_a_session_comes_back_as_it_was_stored(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    scope = make_scope()
    started = await start(history, scope)
    note = Recalled(name="tea.md", block="<b>", units=7, mtime=1.0)
    await add_turn(database, history, started, recalled=[note])
    session = await history.open_session(scope, HERE)
    assert session is not None
    assert (session.id, session.system, session.told_date) == (started.id, started.system, "2026-05-02")
    assert [message["role"] for message in session.messages] == ["user", "assistant", "user", "assistant"]
    assert session.messages[0]["content"] == words("<note>x</note>hi")
    assert (session.shown.names, session.shown.units) == (frozenset({"tea.md"}), 7)


async def test_a_note_that_is_recalled_again_counts_both_times_and_as_it_was_the_last_time(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    session = await start(history, make_scope())
    for units, mtime in ((7, 1.5), (9, 1764558553.1234567)):
        note = Recalled(name="tea.md", block="<b>", units=units, mtime=mtime)
        await add_turn(database, history, session, recalled=[note])
    again = await history.open_session(make_scope(), HERE)
    assert again is not None
    assert (again.shown.units, again.shown.mtimes) == (16, {"tea.md": 1764558553.1234567})


async def test_silence_ends_a_session(database: Database, history: History, make_scope: MakeScope, now: Any) -> None:
    await add_turn(database, history, await start(history, make_scope()))
    now.forward(8 * HOUR)
    assert await history.open_session(make_scope(), HERE) is not None
    now.forward(1)
    assert await history.open_session(make_scope(), HERE) is None
    due, _ = await only_due(history)
    assert due.forced


async def test_in_log_mode_no_silence_ends_a_session(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    log = replace(make_scope(), mode=Mode.LOG)
    await add_turn(database, history, await start(history, log))
    now.forward(1000 * HOUR)
    assert await history.end_silent(mode_of=in_mode(Mode.LOG)) == 0
    assert await history.open_session(log, HERE) is not None
    assert await history.end_silent(mode_of=in_mode(Mode.AUTO)) == 1
    assert await history.open_session(log, HERE) is None


async def test_what_is_said_while_memory_is_left_aside_is_told_to_nobody_who_logs(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    async def said() -> list[str]:
        day = timedelta(days=1)
        return [each.text for each in await history.said_between(make_scope(), now() - day, now() + day)]

    await add_turn(database, history, await start(history, make_scope()), "before")
    now.forward(1)
    await Erasures(database, now).ignore(make_scope(), HERE)
    await add_turn(database, history, await start(history, replace(make_scope(), enabled=False)), "aside")
    await add_turn(database, history, await start(history, make_scope(), "telegram:42/7"), "elsewhere")
    assert await said() == ["before", "yes", "elsewhere", "yes"]


async def test_every_turn_puts_the_silence_off(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    session = await start(history, make_scope())
    for _ in range(3):
        now.forward(7 * HOUR)
        await add_turn(database, history, session)
    assert await history.open_session(make_scope(), HERE) is not None


async def test_a_chat_that_is_bound_anew_begins_a_new_session(history: History, make_scope: MakeScope) -> None:
    first = await start(history, make_scope())
    assert await history.open_session(make_scope(project="coffee"), HERE) is None
    assert await history.open_session(make_scope(), HERE) is None
    assert (await start(history, make_scope())).id != first.id


async def test_another_principal_never_gets_the_session(history: History, make_scope: MakeScope) -> None:
    await start(history, make_scope())
    assert await history.open_session(make_scope("person:telegram:43"), HERE) is None


async def test_silent_sessions_are_ended_in_one_go_and_others_left(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    for conversation in ("telegram:1", "telegram:2"):
        await add_turn(database, history, await start(history, make_scope(), conversation))
    now.forward(9 * HOUR)
    await start(history, make_scope(), "telegram:3")
    assert await history.end_silent(mode_of=in_mode(Mode.AUTO)) == 2
    assert await history.end_silent(mode_of=in_mode(Mode.AUTO)) == 0
    assert await history.open_session(make_scope(), "telegram:3") is not None
    assert len(await history.due()) == 1


async def test_what_was_said_first_is_extracted_first_whichever_session_it_was_said_in(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    sessions = [await start(history, make_scope(), f"telegram:{number}") for number in (1, 2)]
    other = await start(history, make_scope("person:telegram:43"), "telegram:43")
    for session in (*sessions, other):
        await add_turn(database, history, session)
    assert await history.due() == [sessions[0].id, other.id]
    found = await history.due_extraction(sessions[0].id)
    assert found is not None
    await history.close_due(found[0], move_cursor=True)
    assert await history.due() == [sessions[1].id, other.id]


async def test_reading_a_session_waits_for_no_writer(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    await start(history, make_scope())
    async with database.write() as session:
        await session.execute(text("UPDATE sessions SET told_date = 'x'"))
        assert await history.open_session(make_scope(), HERE) is not None


async def test_a_turn_makes_its_extraction_due_with_the_persons_and_the_bots_words_counted(
    database: Database, history: History, make_scope: MakeScope, tmp_path: Path
) -> None:
    session = await start(history, make_scope())
    await add_turn(database, history, session, written=[tmp_path / "a.md"])
    due, snapshot = await only_due(history)
    assert (due.turns, due.new_messages, due.forced, due.attempts) == (1, 2, False, 0)
    assert due.direct_writes == (tmp_path / "a.md",)
    assert len(snapshot.messages) == 4


async def test_turns_that_end_during_a_run_give_one_more_run_that_the_throttle_does_not_hold(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    session = await start(history, make_scope())
    await add_turn(database, history, session, "one")
    first, _ = await only_due(history)
    await add_turn(database, history, session, "two")
    await add_turn(database, history, session, "three")
    assert await history.turns_after(first) == 2
    await history.close_due(first, move_cursor=True)
    second, snapshot = await only_due(history)
    assert (second.turns, second.new_messages, second.forced) == (2, 4, True)
    assert len(snapshot.messages) == 12
    assert await history.turns_after(second) == 0
    await history.close_due(second, move_cursor=True)
    assert await history.due() == []


async def test_a_throttled_extraction_sleeps_until_the_next_turn(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    session = await start(history, make_scope())
    await add_turn(database, history, session)
    due, _ = await only_due(history)
    await history.postpone_due(due, after=math.inf)
    now.forward(1000 * HOUR)
    assert await history.due() == []
    await add_turn(database, history, session)
    again, _ = await only_due(history)
    assert (again.turns, again.new_messages, again.forced) == (2, 4, False)


async def test_the_end_of_a_session_forces_what_the_throttle_held_back(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    await add_turn(database, history, await start(history, make_scope()))
    due, _ = await only_due(history)
    await history.postpone_due(due, after=math.inf)
    await end(database, history)
    forced, _ = await only_due(history)
    assert (forced.forced, forced.turns, forced.new_messages) == (True, 1, 2)


async def test_a_session_that_ends_with_nothing_new_makes_nothing_due(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    await add_turn(database, history, await start(history, make_scope()))
    due, _ = await only_due(history)
    await history.close_due(due, move_cursor=True)
    await end(database, history)
    assert await history.due() == []


async def test_a_turn_that_outlives_its_session_is_extracted_whatever_the_throttle_says(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    session = await start(history, make_scope())
    await end(database, history)
    await add_turn(database, history, session)
    due, _ = await only_due(history)
    assert due.forced


async def test_a_skip_that_keeps_the_cursor_leaves_the_words_to_the_next_run(
    database: Database, history: History, make_scope: MakeScope, tmp_path: Path
) -> None:
    session = await start(history, make_scope())
    await add_turn(database, history, session, written=[tmp_path / "a.md"])
    due, _ = await only_due(history)
    await history.close_due(due, move_cursor=False)
    await add_turn(database, history, session)
    after, _ = await only_due(history)
    assert (after.new_messages, after.direct_writes) == (4, (tmp_path / "a.md",))
    await history.close_due(after, move_cursor=True)
    await add_turn(database, history, session)
    moved, _ = await only_due(history)
    assert (moved.new_messages, moved.direct_writes) == (2, ())


async def test_a_failure_is_counted_and_waits_and_a_new_turn_starts_afresh(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    session = await start(history, make_scope())
    await add_turn(database, history, session)
    due, _ = await only_due(history)
    await history.failed_due(due, after=60)
    assert await history.due() == []
    now.forward(60)
    again, _ = await only_due(history)
    assert again.attempts == 1
    await add_turn(database, history, session)
    await history.failed_due(again, after=60)  # its own turn is not the last any more
    fresh, _ = await only_due(history)
    assert fresh.attempts == 0


async def test_what_fails_again_and_again_holds_up_nothing_that_was_said_later(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    sessions = [await start(history, make_scope(), f"telegram:{number}") for number in (1, 2)]
    for session in sessions:
        await add_turn(database, history, session)
    for failures in range(3):
        assert await history.due() == [sessions[0].id], failures
        due, _ = await only_due(history)
        await history.failed_due(due, after=60)
        now.forward(60)
    assert await history.due() == [session.id for session in sessions]


async def test_a_turn_that_broke_off_waits_for_the_next_one_or_the_sessions_end(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    session = await start(history, make_scope())
    await add_turn(database, history, session, broke_off=True)
    assert await history.due() == []
    await end(database, history)
    due, _ = await only_due(history)
    assert (due.turns, due.new_messages, due.forced) == (0, 2, True)


@pytest.mark.parametrize(("pauses", "sittings"), [([600, 3600], 1), ([3601], 2), ([3601, 60, 7200], 3)])
async def test_a_sitting_ends_with_an_hours_silence(
    *, database: Database, history: History, make_scope: MakeScope, now: Any, pauses: list[int], sittings: int
) -> None:
    scope, before = make_scope(), now() - timedelta(seconds=1)
    session, ends = await start(history, scope), [now()]
    await add_turn(database, history, session)
    for pause in pauses:
        now.forward(pause)
        ends = [*ends, now()] if pause > 3600 else [*ends[:-1], now()]
        await add_turn(database, history, session)
    assert len(await history.sittings_since(scope, before, enough=9)) == sittings - 1  # the last one still goes on
    now.forward(3600)
    assert len(await history.sittings_since(scope, before, enough=9)) == sittings
    assert await history.sittings_since(scope, before, enough=2) == [*reversed(ends)][:2]
    assert len(await history.sittings_since(scope, now(), enough=9)) == 0


async def test_sittings_count_per_conversation(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    scope = make_scope("chat:telegram:-1", shared=True)
    before = now() - timedelta(seconds=1)
    for thread in ("telegram:-1", "telegram:-1/7"):
        await add_turn(database, history, await start(history, scope, thread))
    assert len(await history.sittings_since(scope, before, enough=9)) == 0
    now.forward(3600)
    assert len(await history.sittings_since(scope, before, enough=9)) == 2


@sqlite_only  # counts its steps
async def test_of_a_long_history_no_more_is_read_than_is_needed_to_know_of_enough_sittings(
    *, database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    scope, before = make_scope(), now() - timedelta(seconds=1)
    session = await start(history, scope)
    for _ in range(200):
        await add_turn(database, history, session)
        now.forward(3601)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    async with database.read() as reading:  # every connection of the pool is this one
        raw = await (await reading.connection()).get_raw_connection()
        assert raw.driver_connection is not None
        await raw.driver_connection.set_progress_handler(count, 100)
    assert len(await history.sittings_since(scope, before, enough=500)) == 200
    all_of_it, steps = steps, 0
    assert len(await history.sittings_since(scope, before, enough=5)) == 5
    assert steps < all_of_it / 4


async def test_what_was_said_is_told_without_injected_text_and_tool_traffic(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    scope = make_scope()
    await add_turn(database, history, await start(history, scope), "tea, please")
    said = await history.said_between(scope, now(), now() + timedelta(seconds=1))
    assert [(one.role, one.speaker, one.text, one.at) for one in said] == [
        ("user", "Ann", "tea, please", now()),
        ("assistant", "", "yes", now()),
    ]
    assert await history.said_between(scope, now() - timedelta(seconds=9), now()) == []


async def test_the_first_words_that_no_extraction_has_looked_at_are_found(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    scope, start_of_all = make_scope(), now() - timedelta(days=1)
    session = await start(history, scope)
    await add_turn(database, history, session)
    assert await history.unseen(scope, start_of_all) == now()
    due, _ = await only_due(history)
    await history.close_due(due, move_cursor=True)
    assert await history.unseen(scope, start_of_all) is None
    now.moment += timedelta(hours=1)
    await add_turn(database, history, session)
    assert await history.unseen(scope, start_of_all) == now()
    assert await history.unseen(scope, now() + timedelta(seconds=1)) is None
    assert await history.unseen(make_scope("person:telegram:43"), start_of_all) is None


async def test_nothing_that_was_said_elsewhere_is_told(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    mine = make_scope()
    others = [make_scope("person:telegram:43"), make_scope("chat:telegram:-1", shared=True), make_scope(project="x")]
    for number, scope in enumerate(others):
        await add_turn(database, history, await start(history, scope, f"telegram:{number}"), "canary")
    day = timedelta(days=1)
    assert await history.said_between(mine, now() - day, now() + day) == []
    assert await history.sittings_since(mine, now() - day, enough=9) == []
    assert await history.latest_conversation(mine) is None


async def test_a_notice_goes_where_the_scope_was_last_heard(
    database: Database, history: History, make_scope: MakeScope, now: Any
) -> None:
    first = await start(history, make_scope(), "telegram:1")
    now.forward(5)
    await start(history, make_scope(), "telegram:2")
    now.forward(5)
    await add_turn(database, history, first)
    assert await history.latest_conversation(make_scope()) == "telegram:1"


async def test_loading_a_long_session_takes_four_questions(
    database: Database, history: History, make_scope: MakeScope
) -> None:
    session = await start(history, make_scope())
    for _ in range(10):
        await add_turn(database, history, session)
    asked: list[str] = []

    @event.listens_for(database.engine.sync_engine, "before_cursor_execute")
    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    await history.open_session(make_scope(), HERE)
    assert len([one for one in asked if one.startswith("SELECT")]) == 4
