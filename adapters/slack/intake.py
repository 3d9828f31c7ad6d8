"""What stands between Slack's events and the inbox: open while serving, waited for on leaving."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from adapters.base import Account, Address, Amended, Inbound, Inbox, Pressed

Result = TypeVar("Result")


class NotServingError(Exception):
    """An event came while nobody serves: it stays unacknowledged, so that Slack sends it again."""


class Intake:
    """Puts what came into the inbox, as long as there is one.

    Everything raises what the inbox raises, and `NotServingError` if closed.
    """

    def __init__(self) -> None:
        self._inbox: Inbox | None = None
        self._putting = 0
        self._idle = anyio.Event()

    @property
    def is_open(self) -> bool:
        """Whether messages are taken."""
        return self._inbox is not None

    def open(self, inbox: Inbox) -> None:
        """Take messages from now on."""
        self._inbox = inbox

    async def put(self, inbound: Inbound) -> None:
        """Store a message durably."""
        await self._with(lambda inbox: inbox.put(inbound))

    async def amended(self, amended: Amended) -> None:
        """Store what became of a message."""
        await self._with(lambda inbox: inbox.amended(amended))

    async def pressed(self, pressed: Pressed) -> str:
        """Take a press of a button; returns a word for whoever pressed it, if there is one."""
        return await self._with(lambda inbox: inbox.pressed(pressed))

    async def reachable(self, chat: Address, *, reachable: bool) -> None:
        """Store whether the bot can post in a chat."""
        await self._with(lambda inbox: inbox.reachable(chat, reachable))

    async def home(self, account: Account) -> str:
        """Return what a person may see on their own page."""
        return await self._with(lambda inbox: inbox.home(account))

    async def _with(self, act: Callable[[Inbox], Awaitable[Result]]) -> Result:
        if self._inbox is None:
            raise NotServingError
        self._putting += 1
        try:
            return await act(self._inbox)
        finally:
            self._putting -= 1
            if not self._putting:
                self._idle.set()

    def close(self) -> None:
        """Refuse what comes from now on."""
        self._inbox = None

    async def drain(self, *, within: float) -> None:
        """Close, and wait until what is being put has been put, `within` seconds at the most."""
        self.close()
        self._idle = anyio.Event()
        with anyio.move_on_after(within, shield=True):
            if self._putting:
                await self._idle.wait()
