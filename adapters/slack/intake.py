"""What stands between Slack's events and the inbox: open while serving, waited for on leaving."""

import anyio

from adapters.base import Inbound, Inbox


class NotServingError(Exception):
    """An event came while nobody serves: it stays unacknowledged, so that Slack sends it again."""


class Intake:
    """Puts messages into the inbox, as long as there is one."""

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
        """Store the message durably; raises what the inbox raises, and `NotServingError` if closed."""
        if self._inbox is None:
            raise NotServingError
        self._putting += 1
        try:
            await self._inbox.put(inbound)
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
