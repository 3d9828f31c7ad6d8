"""What is seen of extraction runs, and an answer of the model that a test can hold back."""

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from gateway.llm.standin.server import Given, Recorded
from tests.acceptance.whole import PATIENCE, Whole

NOTHING = "Nothing new to keep."


def asked(running: Whole) -> list[str]:
    """Return how many messages each extraction run was told to look at."""
    prompts = [request.body["messages"][-1]["content"][0] for request in running.forks]
    return [text["text"].split("the last ")[1].split(" before")[0] for text in prompts if text["type"] == "text"]


def results(request: Recorded) -> list[Mapping[str, Any]]:
    """Return what the tools gave that a run had asked for in the request before."""
    return [block for block in request.body["messages"][-1]["content"] if block["type"] == "tool_result"]


def notices(running: Whole) -> list[str]:
    """Return what was posted without being an answer."""
    return [call.part["text"] for call in running.adapter.calls if not call.reply_to]


def told(logged: Sequence[MutableMapping[str, Any]], event: str, **facts: object) -> list[MutableMapping[str, Any]]:
    """Return the log lines of an event with these facts."""
    return [line for line in logged if line["event"] == event and facts.items() <= line.items()]


async def figure(running: Whole, counter: str, **labels: str) -> float:
    """Return what `/metrics` shows of a counter, added up over the labels that are not given."""
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"{running.url}/metrics")).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    ours = [sample for sample in samples if sample.name == f"reverie_{counter}_total"]
    return sum(sample.value for sample in ours if labels.items() <= sample.labels.items())


class Held:
    """An answer of the model that waits until a test lets it go; counts how many wait at once."""

    def __init__(self, then: Given = NOTHING) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()
        self.inside = self.most = 0
        self._then = then

    async def __call__(self, _: dict[str, Any]) -> Given:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.began.set()
        async with asyncio.timeout(PATIENCE):
            await self.go.wait()
        self.inside -= 1
        return self._then
