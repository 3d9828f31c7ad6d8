"""Which of Slack's views an app has for its conversations, and what each wants to be told.

In the assistant view, which ends in 2027, every conversation is a thread that Slack begins with
`assistant_thread_started`. In the agent view a person's message begins one, and suggestions stand above all of them.
An app without either has plain direct messages. Slack has no question for it, so it shows in what Slack takes:
suggestions without a thread are the agent view's. (By its reference the assistant view takes them too, but there no
message comes without a thread. By which word they are refused elsewhere is not documented, so any refusal is a no.)
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Address, Inbound
from adapters.errors import AdapterError, Transient, Unsure
from adapters.slack.errors import posting, refusal_behind

_log = structlog.get_logger(__name__)
_LONGEST_TITLE = 60
_MOST_TITLES = 2000
_MOST_PROMPTS = 4


class Views:
    """Tells Slack the suggestions and the titles of conversations; failures cost nothing but these."""

    def __init__(self, client: AsyncWebClient, *, prompts: Sequence[str]) -> None:
        self._client = client
        self._prompts = [{"title": each, "message": each} for each in prompts[:_MOST_PROMPTS]]
        self._asking: asyncio.Task[None] | None = None
        self._titles: OrderedDict[Address, str] = OrderedDict()
        self._untitled: set[tuple[str, str]] = set()
        self.agent: bool | None = None
        """Whether the app has the agent view; None while that is not known."""

    async def is_agent(self, channel: str, *, within: float) -> bool:
        """Return whether the app has the agent view, after at most `within` seconds; no, while that is not known."""
        if self.agent is None and self._prompts:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self.opened(channel))
            await asyncio.wait([self._asking], timeout=within)
        return bool(self.agent)

    async def opened(self, channel: str) -> None:
        """Suggest something in direct messages that a person has opened."""
        if not self._prompts:
            return
        refusal = await self._suggest(channel)
        self.agent = not refusal if refusal is not None else self.agent

    async def thread_started(self, thread: Mapping[str, Any]) -> None:
        """Suggest something in a thread of the assistant view."""
        self.agent = False
        channel, ts = str(thread.get("channel_id") or ""), str(thread.get("thread_ts") or "")
        if len(self._untitled) >= _MOST_TITLES:
            self._untitled.clear()
        self._untitled.add((channel, ts))
        if self._prompts:
            await self._suggest(channel, thread=ts)

    def heard(self, inbound: Inbound) -> None:
        """Take the first words of a conversation for its title."""
        if not inbound.address.thread or inbound.address in self._titles:
            return
        self._titles[inbound.address] = _title(inbound.text)
        while len(self._titles) > _MOST_TITLES:
            self._titles.popitem(last=False)

    async def entitle(self, address: Address) -> None:
        """Give a thread of the assistant view its title; in the agent view that is done with its first status."""
        place = (address.chat, address.thread)
        if place in self._untitled and self.title_of(address):
            self._untitled.discard(place)
            await self._entitle(address)

    def title_of(self, address: Address) -> str:
        """Return the title of a conversation, empty if it has none."""
        return self._titles.get(address, "")

    async def aclose(self) -> None:
        """Give up what is still asked."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _suggest(self, channel: str, *, thread: str = "") -> str | None:
        """Return Slack's refusal, empty if it took the suggestions, None if it did not answer."""
        try:
            with posting():
                await self._client.assistant_threads_setSuggestedPrompts(
                    channel_id=channel, thread_ts=thread or None, prompts=self._prompts
                )
        except (Transient, Unsure):
            return None
        except AdapterError as error:
            _log.info("slack.no_suggestions", error=refusal_behind(error))
            return refusal_behind(error) or type(error).__name__
        return ""

    async def _entitle(self, address: Address) -> None:
        try:
            with posting():
                await self._client.assistant_threads_setTitle(
                    channel_id=address.chat, thread_ts=address.thread, title=self._titles[address]
                )
        except AdapterError as error:
            _log.info("slack.no_title", error=refusal_behind(error) or type(error).__name__)


def _title(text: str) -> str:
    """Return the first words of a text, cut between two of them where there is a gap."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST_TITLE:
        return line
    return line[: _LONGEST_TITLE - 1].rsplit(" ", 1)[0] + "…"
