"""The sign that the bot is at work, wherever Slack has one, and its end."""

import asyncio
from collections import OrderedDict

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Address
from adapters.errors import AdapterError
from adapters.slack.errors import posting, refusal_behind
from adapters.slack.reactions import Reactions
from adapters.slack.views import Views

_log = structlog.get_logger(__name__)
_FOR_GOOD = frozenset(
    {"unknown_method", "method_deprecated", "missing_scope", "not_allowed_token_type", "access_denied"}
)
_WORDS, _SESSION = "assistant.threads.setStatus", "agents.sessions.setStatus"
_MOST_CHATS = 2000


class Status:
    """Shows that the bot works: in words under a thread, as a session "processing", or by a mark on a message.

    Words go to any thread. In the agent view the thread is also an agent session, which shows a button to stop it
    and which nobody but us brings back from "processing". Where there is no thread, in direct messages of an app
    without that view, Slack shows no status: there the person's newest message is marked as seen.

    A way that is refused for good is not tried again. Requests for one conversation go out one after the other, even
    those whose caller has given up, so that none can be carried out after the one that clears the sign.
    """

    def __init__(self, client: AsyncWebClient, *, views: Views, reactions: Reactions) -> None:
        self._client, self._views, self._reactions = client, views, reactions
        self._refused: set[str] = set()
        self._last: dict[Address, asyncio.Task[None]] = {}
        self._shown: dict[Address, str] = {}
        self._sessions: set[Address] = set()
        self._newest: OrderedDict[str, str] = OrderedDict()

    def heard(self, address: Address, message_id: str) -> None:
        """Note the newest message of a conversation without a thread."""
        if address.thread:
            return
        self._newest[address.chat] = message_id
        self._newest.move_to_end(address.chat)
        while len(self._newest) > _MOST_CHATS:
            self._newest.popitem(last=False)

    async def show(self, address: Address, *, status: str) -> None:
        """Show the words, or, if they are empty, clear what is shown. Failures are swallowed."""
        await asyncio.shield(self._begin(address, status=status))

    def answered(self, address: Address) -> None:
        """Begin to clear what is shown, now that an answer stands there."""
        if address in self._shown or address in self._last:
            self._begin(address, status="")

    async def leave(self, address: Address) -> None:
        """Bring a session that somebody stopped back from "processing", whoever has begun it."""
        self._sessions.add(address)
        self._shown.setdefault(address, "")
        await self.show(address, status="")

    async def aclose(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._last.values(), return_exceptions=True)

    def _begin(self, address: Address, *, status: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._in_turn(self._last.get(address), address, status=status))
        self._last[address] = task
        task.add_done_callback(lambda done: self._last.pop(address) if self._last.get(address) is done else None)
        return task

    async def _in_turn(self, before: "asyncio.Task[None] | None", address: Address, *, status: str) -> None:
        if before is not None:
            await asyncio.wait([before])
        if status:
            await self._set(address, status=status)
        elif address in self._shown:
            await self._clear(address)

    async def _set(self, address: Address, *, status: str) -> None:
        if not address.thread:
            await self._mark(address)
            return
        self._shown[address] = status
        if (self._views.agent or _WORDS in self._refused) and address not in self._sessions:
            await self._session(address, status="processing")
        await self._words(address, status=status)
        if _WORDS in self._refused and address not in self._sessions:
            await self._session(address, status="processing")

    async def _clear(self, address: Address) -> None:
        shown = self._shown.pop(address)
        if not address.thread:
            await self._reactions.mark(address.chat, shown, seen=False)
            return
        if shown:
            await self._words(address, status="")
        if address in self._sessions:
            await self._session(address, status="active")

    async def _mark(self, address: Address) -> None:
        if address not in self._shown and address.chat in self._newest:
            self._shown[address] = self._newest[address.chat]
            await self._reactions.mark(address.chat, self._shown[address], seen=True)

    async def _words(self, address: Address, *, status: str) -> None:
        if _WORDS in self._refused:
            return
        try:
            with posting():
                await self._client.assistant_threads_setStatus(
                    channel_id=address.chat, thread_ts=address.thread, status=status
                )
        except AdapterError as error:
            self._note(_WORDS, error)

    async def _session(self, address: Address, *, status: str) -> None:
        if _SESSION in self._refused:
            return
        try:
            with posting():
                await self._client.agents_sessions_setStatus(
                    channel_id=address.chat,
                    thread_ts=address.thread,
                    status=status,
                    title=self._views.title_of(address) or None,
                )
        except AdapterError as error:
            self._note(_SESSION, error)
            return
        if status == "processing":
            self._sessions.add(address)
        else:
            self._sessions.discard(address)

    def _note(self, way: str, error: AdapterError) -> None:
        refusal = refusal_behind(error)
        if refusal in _FOR_GOOD:
            self._refused.add(way)
        _log.info("slack.no_status", way=way, error=refusal or type(error).__name__)
