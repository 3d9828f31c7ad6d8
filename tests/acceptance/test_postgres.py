"""The whole gateway on PostgreSQL: what it was told outlives it, and two replicas share one line of messages."""

import re
from collections import Counter
from pathlib import Path

from gateway.llm.standin.request import Conversation
from gateway.llm.standin.server import ModelStandin
from tests.acceptance.whole import ANN, Clock, Speaker, Whole, until, whole

GROUP = Speaker(user="42", chat="-100")
CHATS, MESSAGES = 4, 3
TREE = re.compile(r"tree (\d)\.(\d)")


async def test_what_it_was_told_is_recalled_after_a_restart_not_elsewhere(tmp_path: Path, postgres_url: str) -> None:
    clock, environ = Clock(), {"DATABASE_URL": postgres_url}
    async with whole(tmp_path / "home", clock=clock, environ=environ) as before:
        await before.tell(ANN, "I prefer answers in metric units.")
        await before.settled()
    assert not (tmp_path / "home" / "reverie.db").exists()
    clock.forward(days=3)
    async with whole(tmp_path / "home", clock=clock, environ=environ) as after:
        answer = await after.tell(ANN, "Which units do I prefer?")
        assert "I prefer answers in metric units" in answer
        assert "3 days old" in answer
        assert "metric" not in await after.tell(GROUP, "Which units do I prefer?")
        await after.settled()


async def test_two_replicas_answer_each_message_once_and_each_chat_in_order(tmp_path: Path, postgres_url: str) -> None:
    chats = [Speaker(user=str(number), chat=str(number)) for number in range(CHATS)]
    model, environ = ModelStandin(), {"DATABASE_URL": postgres_url}
    async with (
        whole(tmp_path / "home", model=model, environ=environ) as one,
        whole(tmp_path / "home", model=model, environ=environ) as other,
    ):
        asked = []
        for number in range(MESSAGES):
            for who, replica in zip(chats, (one, other) * CHATS, strict=False):
                inbound = who.says(f"Tell me about tree {who.chat}.{number}")
                asked.append(inbound.message_id)
                await replica.gateway.intake.put(inbound)

        async def all_answered() -> bool:
            return sum(answers(one, other).values()) >= len(asked)

        await until(all_answered, "not all was answered")
        await one.settled()
        await other.settled()
    assert answers(one, other) == Counter(asked)
    worked = [tree[-1] for request in one.chats if (tree := TREE.findall(Conversation.of(request.body).prompt))]
    for who in chats:
        assert [number for chat, number in worked if chat == who.chat] == [str(number) for number in range(MESSAGES)]


def answers(*replicas: Whole) -> Counter[str]:
    """Count the messages that were posted in answer to each."""
    shown = [one for each in replicas for one in each.adapter.shown.values()]
    return Counter(one.reply_to for one in shown if one.reply_to)
