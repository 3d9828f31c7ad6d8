import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from adapters.doubles import RecordingLive
from gateway.db.models import FactRow, InboxRow, MessageRow, OutboxRow, SessionRow, UsageRow
from gateway.errors import ClaimLost
from gateway.inbox import Claim
from gateway.llm.standin.answers import Answer, Failure, Flaw
from gateway.turn import FULL, Turns
from tests.acceptance.whole import ANN, BOB, Clock, Speaker, Whole, calls, note, until, whole


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def running(tmp_path: Path, clock: Clock) -> AsyncIterator[Whole]:
    async with whole(tmp_path / "home", clock=clock) as running:
        yield running


def said(running: Whole, number: int = -1) -> str:
    """Return all text of a chat request's messages."""
    return str(running.chats[number].body["messages"])


def asked_to_look(running: Whole) -> list[str]:
    prompts = [str(request.body["messages"][-1]["content"]) for request in running.forks]
    return [prompt.split("the last ")[1].split(" before")[0] for prompt in prompts if "the last " in prompt]


async def test_a_turn_is_stored_with_all_that_follows_from_it(running: Whole) -> None:
    answer = await running.tell(ANN, "Hello there, I prefer tea.")
    await running.settled()
    async with running.core.database.read() as session:
        lines = (await session.scalars(select(MessageRow).order_by(MessageRow.id))).all()
        purposes = set((await session.scalars(select(UsageRow.purpose))).all())
        states = set((await session.scalars(select(InboxRow.state))).all())
    assert [(line.role, line.said, line.speaker) for line in lines] == [
        ("user", "Hello there, I prefer tea.", "Ann"),
        ("assistant", answer, ""),
    ]
    assert {line.principal for line in lines} == {ANN.principal}
    assert {"chat", "extraction"} <= purposes
    assert states == {"done"}


async def test_new_ends_the_transcript_and_so_does_a_long_silence(running: Whole, clock: Clock) -> None:
    await running.tell(ANN, "The first of my words.")
    await running.tell(ANN, "/new")
    await running.tell(ANN, "The second of my words.")
    assert "first of my" not in said(running)
    clock.forward(hours=7.9)
    await running.tell(ANN, "The third of my words.")
    assert "second of my" in said(running)
    clock.forward(hours=8.1)
    await running.tell(ANN, "The fourth of my words.")
    assert "third of my" not in said(running)


async def test_a_stopped_answer_keeps_what_was_written_and_the_next_message_is_answered(
    running: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives: list[RecordingLive] = []
    opened = running.adapter.open_live

    async def seen(*args: Any, **given: Any) -> RecordingLive:
        lives.append(await opened(*args, **given))
        return lives[-1]

    monkeypatch.setattr(running.adapter, "open_live", seen)
    write = calls(("write", {"file_path": "tea.md", "content": note("Ann drinks tea")}))
    running.then(replace(write, text="I note it."), Answer(text="word " * 3000, chunk_delay=0.05))
    inbound = ANN.says("Tell me a long story.")
    await running.gateway.intake.put(inbound)

    async def begun() -> bool:
        return any("word" in text for live in lives for text in live.texts)

    await until(begun, "the answer was not begun")
    await running.gateway.intake.put(ANN.says("/stop"))

    async def answered() -> str | None:
        return next((each.text for each in running.adapter.shown.values() if each.reply_to == inbound.message_id), None)

    answer = await until(answered, "no word came")
    assert answer.startswith("I note it.\n\nword")
    assert answer.endswith("(stopped)")
    await running.settled()
    await running.tell(ANN, "And now something else.")
    assert "(stopped)" in said(running)
    await running.settled()
    assert asked_to_look(running) == ["2 messages"]  # the note was written before the stop, so its turn needs no run


async def test_a_claim_that_was_lost_commits_nothing(running: Whole) -> None:
    turns = running.gateway.worker._turns
    assert isinstance(turns, Turns)
    claim = Claim(
        id=99, token="lost", inbound=ANN.says("Hello there"), principal=ANN.principal, attempts=1, stopped=False,
        received_at=0.0,
    )  # fmt: skip
    with pytest.raises(ClaimLost):
        await turns.run(claim)
    async with running.core.database.read() as session:
        for row in (MessageRow, OutboxRow, UsageRow):
            assert await session.scalar(select(func.count()).select_from(row)) == 0


async def test_a_rerun_posts_under_the_same_keys(running: Whole) -> None:
    turns = running.gateway.worker._turns
    claim = Claim(
        id=7, token="a", inbound=ANN.says("x"), principal=ANN.principal, attempts=1, stopped=False, received_at=0.0
    )
    first = turns.posts(claim, "y" * 900)
    again = turns.posts(replace(claim, token="b", attempts=2), "z" * 900)
    assert [post.key for post in first] == [post.key for post in again] == ["7:0", "7:1", "7:2"]
    assert [post.reply_to for post in first] == [claim.inbound.message_id, "", ""]
    assert turns.posts(claim, "y", kind="down")[0].key == "7-down:0"


@pytest.mark.parametrize(
    "fault",
    [Failure(status=401), Failure(status=529), Answer(text="Half an answer, " * 9, flaw=Flaw.DROP, flaw_after=3)],
    ids=["key", "overloaded", "broken"],
)
async def test_while_the_model_is_away_the_message_is_kept_and_then_answered_once(
    running: Whole, clock: Clock, fault: Answer | Failure
) -> None:
    running.then(fault, fault, "Here I am again.")
    word = await running.tell(ANN, "Are you there?")
    assert word.startswith("I can't think right now: ")
    assert "kept" in word
    for _ in range(2):
        await running.settled()
        clock.forward(seconds=70)
    await running.settled()
    assert running.adapter.texts == [word, "Here I am again."]
    assert "Half an answer" not in str([request.body for request in running.model.requests])


async def test_what_an_answer_used_that_broke_off_is_recorded_though_nothing_of_it_is_kept(running: Whole) -> None:
    running.then(Answer(text="Half an answer, " * 9, flaw=Flaw.DROP, flaw_after=3))
    assert (await running.tell(ANN, "Are you there?")).startswith("I can't think right now: ")
    async with running.core.database.read() as session:
        [used] = (await session.scalars(select(UsageRow).where(UsageRow.purpose == "chat"))).all()
    assert used.principal == ANN.principal
    assert used.input_tokens + used.cache_write_tokens > 0
    assert used.output_tokens > 0


async def test_what_a_stopped_answer_used_is_recorded(running: Whole) -> None:
    running.then(calls(("glob", {"pattern": "*.md"})), Answer(text="word " * 3000, chunk_delay=0.05))
    await running.gateway.intake.put(ANN.says("Tell me a long story."))

    async def goes_on() -> bool:
        return len(running.chats) == 2

    await until(goes_on, "the answer was not begun")
    await running.gateway.intake.put(ANN.says("/stop"))
    await running.settled()
    async with running.core.database.read() as session:
        [used] = (await session.scalars(select(UsageRow).where(UsageRow.purpose == "chat"))).all()
    assert used.output_tokens > 0


async def test_what_the_model_declines_is_told_and_leaves_no_trace_in_the_session(running: Whole) -> None:
    running.then(Answer(text="Well, first you", stop_reason="refusal"))
    assert await running.tell(ANN, "Something unspeakable.") == "I can't answer this: the model declines to answer it."
    await running.tell(ANN, "Something nice then.")
    assert "unspeakable" not in said(running)


async def test_a_note_is_told_as_new_once(running: Whole) -> None:
    await running.tell(ANN, "Hello to you.")
    await running.settled()
    await running.remember(ANN, "Ann has a dog", name="dog")
    await running.tell(ANN, "Thank you so much.")
    await running.tell(ANN, "And again, thanks.")
    last = [str(request.body["messages"][-1]) for request in running.chats]
    assert ["`dog.md`" in text for text in last] == [False, True, False]


async def test_conversations_do_not_see_each_other(running: Whole) -> None:
    await running.tell(ANN, "The code word is zebra.")
    await running.tell(BOB, "Which code word was it?")
    await running.tell(replace(ANN, thread="7"), "Which code word was it?")
    assert "code word is zebra" not in said(running, 1) + said(running, 2)


async def test_when_memory_is_switched_over_the_session_begins_anew(tmp_path: Path) -> None:
    for toml, heading in (
        ("", "## How to save"),
        ('[memory]\nmemory_mode = "log"\n', "## Keeping the day log"),
        ("[memory]\nauto_memory_enabled = false\n", "# This chat"),
    ):
        async with whole(tmp_path / "home", toml) as running:
            await running.tell(ANN, f"The word is {heading}.")
            await running.settled()
            assert len(running.chats[0].body["messages"]) == 1
            assert heading in running.chats[0].body["system"][-1]["text"]
            async with running.core.database.read() as session:
                still_open = select(func.count()).select_from(SessionRow).where(~SessionRow.ended)
                assert await session.scalar(still_open) == 1


async def test_a_conversation_that_is_full_ends_with_its_turn_and_says_so(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", "[model]\nsession_tokens = 10000\n") as running:
        await running.tell(ANN, "Remember this long text: " + "word " * 8000)
        await running.settled()
        assert [call.part["text"] for call in running.adapter.calls].count(FULL) == 1
        await running.tell(ANN, "And now?")
        assert len(running.chats[-1].body["messages"]) == 1


async def test_a_conversation_goes_on_when_what_it_said_before_was_not_what_the_model_refuses(running: Whole) -> None:
    await running.tell(ANN, "The first word.")
    running.then(Failure(status=400, message="max_tokens: must be less"), Failure(status=400, message="max_tokens"))
    assert "can't answer" in await running.tell(ANN, "Are you there?")
    await running.settled()
    await running.tell(ANN, "And now?")
    assert "The first word." in said(running)


async def test_a_request_that_the_model_finds_too_long_is_put_again_in_a_new_conversation(running: Whole) -> None:
    await running.tell(ANN, "The first word.")
    running.then(Failure(status=400, message="prompt is too long: 210000 tokens > 200000 maximum"), "Here I am.")
    assert await running.tell(ANN, "Are you there?") == "Here I am."
    assert len(running.chats[-1].body["messages"]) == 1


@pytest.mark.parametrize("words", ["Tell me a long story.", "/help"])
async def test_what_may_be_long_is_laid_out_beside_the_loop(
    running: Whole, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    rendered, longest = running.adapter.render, {"": 0}

    def noted(markdown: str, **given: Any) -> list[dict[str, Any]]:
        place = "here" if threading.current_thread() is threading.main_thread() else "beside"
        longest[place] = max(longest.get(place, 0), len(markdown))
        return rendered(markdown, **given)

    monkeypatch.setattr(running.adapter, "render", noted)
    running.then("word " * 300)
    await running.tell(ANN, words)
    assert longest["beside"] > 300
    assert longest.get("here", 0) < 10


async def test_of_a_turn_that_is_over_nothing_is_shown_any_more(running: Whole) -> None:
    running.then(Answer(text="Here I am.", delay=0.3), Failure(status=400, message="max_tokens"))
    for words in ("Are you there?", "And now?"):
        await running.tell(ANN, words)
        await running.settled()
        await until(lambda: nothing_shown(running), "a sign is left")
    assert running.adapter.statuses.count("") == 2


async def nothing_shown(running: Whole) -> bool:
    return running.adapter.statuses[-1] == ""


async def test_of_what_is_forwarded_nobody_here_is_the_source_and_no_command_is_run(running: Whole) -> None:
    group, fact = Speaker(user="42", chat="-100"), "is allergic to peanuts since birth"
    path = (await running.scope(group)).memory_dir / "carl.md"
    running.then(calls(("write", {"file_path": str(path), "content": note(fact)})), Answer(text="noted"))
    for words in (fact, "/new"):
        await running.gateway.intake.put(replace(group.says(words), forwarded_from="Carl"))
        await running.settled()
    async with running.core.database.read() as session:
        said = (await session.scalars(select(MessageRow.said).where(MessageRow.role == "user"))).all()
        spoken = (await session.execute(select(FactRow.account, FactRow.message_id))).all()
        ended = (await session.scalars(select(SessionRow.ended))).all()
    assert spoken == []
    assert (list(filter(None, said)), ended) == ([], [False])
