"""A double of an adapter that keeps its contract, for tests that need no platform."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import anyio
from starlette.routing import BaseRoute

from adapters.base import Account, Address, Capabilities, Health, Identity, Inbox, Outbound
from adapters.errors import AdapterError, Permanent

_LIMIT = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What the next `deliver` does instead of succeeding; `acts` says whether the platform carries it out first."""

    error: AdapterError
    acts: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """One message as the platform shows it."""

    address: Address
    key: str
    text: str
    reply_to: str = ""
    edits: int = 0


class RecordingAdapter:
    """A platform in memory. `shown` is what people see, by message id; `calls` is every `deliver`, as it came.

    `faults` are used up one per `deliver`; `gate`, if given, holds every `deliver` until it is set. Like a real
    platform it never tells a repeated post from a new one, and knows no message that it has not given an id.
    """

    def __init__(
        self,
        platform: str = "telegram",
        *,
        can_find: bool = False,
        live_stays: bool = True,
        faults: Sequence[Fault] = (),
        gate: anyio.Event | None = None,
    ) -> None:
        self.platform = platform
        self.capabilities = Capabilities(can_find=can_find)
        self.faults = list(faults)
        self.live_faults: list[Fault] = []
        self.shown: dict[str, Shown] = {}
        self.calls: list[Outbound] = []
        self.looked_for: list[str] = []
        self.statuses: list[str] = []
        self.inbox: Inbox | None = None
        self._stays = live_stays
        self._gate = gate
        self._last_id = 0

    @property
    def texts(self) -> list[str]:
        """What people see, oldest message first."""
        return [message.text for message in self.shown.values()]

    def serve(self, inbox: Inbox) -> AbstractAsyncContextManager[Identity]:
        """Keep the inbox for the test to put messages into."""
        return self._serving(inbox)

    @asynccontextmanager
    async def _serving(self, inbox: Inbox) -> AsyncIterator[Identity]:
        self.inbox = inbox
        try:
            yield Identity(id="bot", name="recorder")
        finally:
            self.inbox = None

    def routes(self) -> Sequence[BaseRoute]:
        """Return no routes: nothing calls in."""
        return ()

    def render(self, markdown: str) -> list[dict[str, Any]]:
        """Cut after every 400 characters."""
        starts = range(0, max(len(markdown), 1), _LIMIT)
        return [{"text": markdown[start : start + _LIMIT]} for start in starts]

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Add the label as a line."""
        return {**part, "text": f"{part['text']}\n{label}"}

    async def deliver(self, post: Outbound) -> str:
        """Post or edit, or do what the next fault says."""
        self.calls.append(post)
        if self._gate is not None:
            await self._gate.wait()
        return self._carry_out(post, self.faults)

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Look the key up among what is shown."""
        if not self.capabilities.can_find:
            raise AssertionError("find is only for platforms that can tell")
        if since.tzinfo is None:
            raise AssertionError("since must know its time zone")
        self.looked_for.append(post.key)
        return next((id_ for id_, message in self.shown.items() if message.key == post.key), None)

    async def working(self, address: Address, *, status: str) -> None:
        """Note the status."""
        self.statuses.append(status)

    def live_stays(self, address: Address) -> bool:
        """Say what the test has set."""
        return self._stays

    async def open_live(self, address: Address, *, key: str, reply_to: str, recipient: Account) -> "RecordingLive":
        """Post a message for it if it stays."""
        post = Outbound(address=address, key=key, part={"text": "…"}, reply_to=reply_to)
        return RecordingLive(self, self._carry_out(post, self.live_faults) if self._stays else "")

    def health(self) -> Health:
        """Say that all is well while it is served."""
        return Health(ok=self.inbox is not None, detail="recording")

    def _carry_out(self, post: Outbound, faults: list[Fault]) -> str:
        fault = faults.pop(0) if faults else None
        if fault is not None and not fault.acts:
            raise fault.error
        message_id = self._put(post)
        if fault is not None:
            raise fault.error
        return message_id

    def _put(self, post: Outbound) -> str:
        if post.message_id:
            before = self.shown.get(post.message_id)
            if before is None:
                raise Permanent("there is no such message to edit")
            self.shown[post.message_id] = replace(before, text=post.part["text"], edits=before.edits + 1)
            return post.message_id
        self._last_id += 1
        message = Shown(address=post.address, key=post.key, text=post.part["text"], reply_to=post.reply_to)
        self.shown[str(self._last_id)] = message
        return str(self._last_id)


class RecordingLive:
    """A live answer of `RecordingAdapter`; `texts` is all that it was told to show."""

    def __init__(self, adapter: RecordingAdapter, message_id: str) -> None:
        self.message_id = message_id
        self.texts: list[str] = []
        self.closed = False
        self._adapter = adapter

    async def show(self, markdown: str) -> None:
        """Show the text at once."""
        if self.closed:
            raise AssertionError("nothing is shown after close")
        self.texts.append(markdown)
        if self.message_id:
            message = self._adapter.shown[self.message_id]
            self._adapter.shown[self.message_id] = replace(message, text=markdown)

    async def close(self) -> None:
        """Stop showing."""
        self.closed = True
