import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

import anyio
import pytest
from sqlalchemy import select

from adapters.base import Button
from adapters.doubles import Fault, RecordingAdapter
from adapters.errors import Misconfigured, Permanent, Transient, Unsure
from gateway.db.engine import Database
from gateway.db.models import OutboxRow
from gateway.outbox import MAYBE_TWICE, Outbox, Post, unrendered
from tests.waiting import HANGS, until

MakePost = Callable[..., Post]


@asynccontextmanager
async def delivering(outbox: Outbox, *adapters: RecordingAdapter) -> AsyncIterator[None]:
    task = asyncio.create_task(outbox.deliver({adapter.platform: adapter for adapter in adapters}))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        outbox.close()
        async with asyncio.timeout(HANGS):
            await task


async def deliver_what_waits(outbox: Outbox, *adapters: RecordingAdapter) -> None:
    async with delivering(outbox, *adapters):
        pass


async def rows(database: Database) -> Sequence[OutboxRow]:
    async with database.read() as session:
        return (await session.scalars(select(OutboxRow).order_by(OutboxRow.id))).all()


async def state(database: Database) -> list[str]:
    return [row.state for row in await rows(database)]


async def test_parts_of_a_conversation_arrive_in_their_order(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    await outbox.send([post(f"1:{number}", f"part {number}") for number in range(12)])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == [f"part {number}" for number in range(12)]


async def test_markdown_is_rendered_when_it_is_delivered_and_its_parts_stay_together(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    long = replace(post("n"), part=unrendered("a" * 400 + "b" * 400 + "c"))
    await outbox.send([long, post("1", "the next one")])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["a" * 400, "b" * 400, "c", "the next one"]
    assert [call.key for call in adapter.calls] == ["n:0", "n:1", "n:2", "1"]
    await outbox.send([long])
    await deliver_what_waits(outbox, adapter)
    assert len(adapter.calls) == 4, "and its key posts once"


async def test_buttons_of_markdown_that_waits_stand_below_its_last_part_alone(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    yes = Button(label="Yes", token="t1")
    await outbox.send([replace(post("n"), part=unrendered("a" * 400 + "b", [yes]))])
    await deliver_what_waits(outbox, adapter)
    assert [each.buttons for each in adapter.shown.values()] == [(), (yes,)]


async def test_markdown_is_rendered_beside_the_loop(outbox: Outbox, post: MakePost) -> None:
    class Renders(RecordingAdapter):
        """Notes in which threads it renders."""

        threads: ClassVar[set[int]] = set()

        def render(self, *args: Any, **given: Any) -> list[dict[str, Any]]:
            self.threads.add(threading.get_ident())
            return super().render(*args, **given)

    adapter = Renders()
    await outbox.send([replace(post("1"), part=unrendered("x" * 900))])
    await deliver_what_waits(outbox, adapter)
    assert len(adapter.texts) == 3
    assert threading.get_ident() not in adapter.threads


async def test_a_part_of_rendered_markdown_whose_answer_was_lost_is_looked_for(
    outbox: Outbox, post: MakePost, now: Any
) -> None:
    adapter = RecordingAdapter(can_find=True, faults=[Fault(error=Unsure("lost"), acts=True)])
    await outbox.send([replace(post("n"), part=unrendered("a" * 400 + "b"))])
    await deliver_what_waits(outbox, adapter)
    now.forward(600)
    await deliver_what_waits(outbox, adapter)
    assert (adapter.texts, adapter.looked_for) == (["a" * 400, "b"], ["n:0"])


async def test_a_slow_chat_does_not_hold_up_another(
    database: Database, outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    gate = anyio.Event()
    slow = RecordingAdapter("terminal", gate=gate)
    await outbox.send([post("1", platform="terminal"), post("2")])
    async with delivering(outbox, slow, adapter):
        await until(lambda: adapter.texts == ["hi"])
        assert slow.texts == []
        gate.set()
    assert await state(database) == ["sent", "sent"]


async def test_close_finishes_what_is_under_way_and_what_is_ready(
    outbox: Outbox, post: MakePost, database: Database
) -> None:
    gate = anyio.Event()
    slow = RecordingAdapter(gate=gate)
    await outbox.send([post("1", "one"), post("2", "two")])
    async with delivering(outbox, slow):
        await until(lambda: len(slow.calls) == 1)
        outbox.close()
        gate.set()
    assert slow.texts == ["one", "two"]
    assert await state(database) == ["sent", "sent"]


async def test_a_key_posts_once_however_often_it_is_sent(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    for words in ("first", "second"):
        await outbox.send([post("same", words)])
        await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["first"]


async def test_what_is_sent_keeps_the_platforms_id(
    database: Database, outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    await outbox.send([post("1")])
    await deliver_what_waits(outbox, adapter)
    (row,) = await rows(database)
    assert (row.message_id, row.unsure, row.attempts) == ("1", False, 1)


async def test_a_platforms_pause_is_kept_and_holds_its_own_chat_only(
    outbox: Outbox, post: MakePost, now: Any, database: Database
) -> None:
    adapter = RecordingAdapter(faults=[Fault(error=Transient("slow down", retry_after=30))])
    await outbox.send([post("1", "a1", chat="1"), post("2", "a2", chat="1"), post("3", "b", chat="2")])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["b"]
    now.forward(29)
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["b"]
    now.forward(1)
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["b", "a1", "a2"]


async def test_what_was_surely_not_posted_is_posted_again_without_a_label(
    outbox: Outbox, post: MakePost, now: Any
) -> None:
    adapter = RecordingAdapter(faults=[Fault(error=Transient("away")), Fault(error=Misconfigured("token"))])
    await outbox.send([post("1")])
    for _ in range(3):
        await deliver_what_waits(outbox, adapter)
        now.forward(600)
    assert adapter.texts == ["hi"]
    assert len(adapter.calls) == 3


@pytest.mark.parametrize("acts", [True, False])
async def test_where_the_platform_can_tell_a_lost_answer_leads_to_a_look_and_one_post(
    outbox: Outbox, post: MakePost, now: Any, acts: bool
) -> None:
    adapter = RecordingAdapter(can_find=True, faults=[Fault(error=Unsure("lost"), acts=acts)])
    await outbox.send([post("1")])
    await deliver_what_waits(outbox, adapter)
    now.forward(600)
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["hi"]
    assert adapter.looked_for == ["1"]


@pytest.mark.parametrize(("acts", "seen"), [(True, 2), (False, 1)])
async def test_where_the_platform_can_not_tell_the_second_post_says_so(
    outbox: Outbox, post: MakePost, now: Any, acts: bool, seen: int
) -> None:
    adapter = RecordingAdapter(faults=[Fault(error=Unsure("lost"), acts=acts)])
    await outbox.send([post("1")])
    await deliver_what_waits(outbox, adapter)
    now.forward(600)
    await deliver_what_waits(outbox, adapter)
    assert len(adapter.texts) == seen
    assert adapter.texts[-1] == f"hi\n{MAYBE_TWICE}"


async def test_a_process_that_died_while_posting_leaves_its_successor_unsure(
    outbox: Outbox, post: MakePost, database: Database
) -> None:
    gate = anyio.Event()
    dying = RecordingAdapter(gate=gate)
    await outbox.send([post("1")])
    task = asyncio.create_task(outbox.deliver({"telegram": dying}))
    await until(lambda: len(dying.calls) == 1)
    task.cancel()
    await asyncio.wait({task})
    assert await state(database) == ["sending"]
    adapter = RecordingAdapter()
    await outbox.take_over()
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == [f"hi\n{MAYBE_TWICE}"]


async def test_a_fault_of_the_adapter_ends_no_other_delivery(outbox: Outbox, post: MakePost) -> None:
    class Broken(RecordingAdapter):
        async def deliver(self, post: Any) -> str:
            if post.key == "bad":
                raise ZeroDivisionError
            return await super().deliver(post)

    adapter = Broken()
    await outbox.send([post("bad", chat="1"), post("good", chat="2")])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["hi"]


async def test_a_part_that_is_refused_for_good_does_not_block_its_conversation(
    database: Database, outbox: Outbox, post: MakePost
) -> None:
    adapter = RecordingAdapter(faults=[Fault(error=Permanent("blocked"))])
    await outbox.send([post("1", "one"), post("2", "two")])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["two"]
    assert await state(database) == ["dead", "sent"]


async def test_a_live_answer_is_replaced_by_its_final_text(
    database: Database, outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    assert await outbox.begin_live(post("1", "…")) is None
    live = await adapter.open_live(post("1").address, key="1", reply_to="", recipient=None)  # type: ignore[arg-type]
    await outbox.live_posted("1", live.message_id)
    await deliver_what_waits(outbox, adapter)
    assert await state(database) == ["live"]
    await outbox.send([post("1", "final"), post("2", "more")])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["final", "more"]


async def test_a_rerun_after_a_crash_edits_the_live_message_and_posts_no_second(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    await outbox.begin_live(post("1", "…"))
    live = await adapter.open_live(post("1").address, key="1", reply_to="", recipient=None)  # type: ignore[arg-type]
    await outbox.live_posted("1", live.message_id)
    assert await outbox.begin_live(post("1", "…")) == live.message_id
    await outbox.send([post("1", "final")])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["final"]


async def test_a_live_message_whose_id_was_lost_in_a_crash_is_looked_for(outbox: Outbox, post: MakePost) -> None:
    adapter = RecordingAdapter(can_find=True)
    await outbox.begin_live(post("1", "…"))
    await adapter.open_live(post("1").address, key="1", reply_to="", recipient=None)  # type: ignore[arg-type]
    assert await outbox.begin_live(post("1", "…")) == ""
    await outbox.send([post("1", "final")])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["final"]


async def test_a_live_message_that_was_surely_not_posted_needs_no_label(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost
) -> None:
    await outbox.begin_live(post("1", "…"))
    await outbox.live_posted("1", "")
    await outbox.send([post("1", "final")])
    await deliver_what_waits(outbox, adapter)
    assert adapter.texts == ["final"]


async def test_a_late_word_about_a_live_message_changes_nothing_once_it_is_final(
    database: Database, outbox: Outbox, post: MakePost
) -> None:
    await outbox.begin_live(post("1", "…"))
    await outbox.send([post("1", "final")])
    await outbox.live_posted("1", "77")
    (row,) = await rows(database)
    assert (row.message_id, row.unsure) == ("", True)


async def test_parts_for_a_platform_that_is_off_wait_for_it_without_a_word_in_health(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost, now: Any
) -> None:
    await outbox.send([post("1", platform="terminal")])
    await deliver_what_waits(outbox, adapter)
    assert await outbox.oldest_waiting() is None
    now.forward(3600)
    terminal = RecordingAdapter("terminal", faults=[Fault(error=Transient("away", retry_after=5))])
    await deliver_what_waits(outbox, terminal)
    assert await outbox.oldest_waiting() == now().timestamp() - 3600
    now.forward(5)
    await deliver_what_waits(outbox, terminal)
    assert terminal.texts == ["hi"]
    assert await outbox.oldest_waiting() is None


async def test_an_answer_older_than_a_day_is_given_up(
    database: Database, outbox: Outbox, adapter: RecordingAdapter, post: MakePost, now: Any
) -> None:
    await outbox.send([post("1")])
    now.forward(24 * 3600 + 1)
    await deliver_what_waits(outbox, adapter)
    assert adapter.calls == []
    assert await state(database) == ["dead"]


async def test_nothing_that_is_sent_while_the_line_is_looked_at_waits_for_the_next_look(
    outbox: Outbox, adapter: RecordingAdapter, post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.consumer._IDLE_SECONDS", 600.0)
    async with delivering(outbox, adapter), asyncio.timeout(HANGS):
        for number in range(30):
            await outbox.send([post(str(number), str(number))])
            await until(lambda: len(adapter.texts) == number + 1)  # noqa: B023
    assert adapter.texts == [str(number) for number in range(30)]
