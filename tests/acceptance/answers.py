"""Answers that come in several messages."""

from tests.acceptance.whole import Speaker, Whole


async def answer(running: Whole, who: Speaker, words: str) -> str:
    """Say something and return all that is posted for it."""
    before = len(running.adapter.calls)
    await running.tell(who, words)
    await running.settled()
    return "".join(call.part["text"] for call in running.adapter.calls[before:])
