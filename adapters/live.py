"""An answer while it is written: the loop that every platform's live answer shares."""

import asyncio
from typing import Protocol

import anyio
import structlog

from adapters.errors import AdapterError, Transient, Unsure
from adapters.waiting import happens

_log = structlog.get_logger(__name__)


class Surface(Protocol):
    """Where a live answer is shown."""

    message_id: str
    """The message that stays, or empty."""

    async def put(self, markdown: str) -> bool:
        """Show the whole text so far; False if this surface can go no further. Raises `AdapterError`."""

    async def finish(self) -> None:
        """Leave an ordinary message behind; called once, after the last `put`. Raises nothing."""


class LiveText:
    """Shows the newest text on a surface; implements `adapters.base.Live`.

    A task of its own sends, not oftener than every `every` seconds, so `show` returns at once and raises nothing; what
    came in between is skipped. A text that was refused for now is tried again; a refusal for good ends the showing.
    """

    def __init__(self, surface: Surface, *, every: float, last_word_within: float) -> None:
        self.message_id = surface.message_id
        self._surface, self._every, self._last_word_within = surface, every, last_word_within
        self._newest = ""
        self._changed = asyncio.Event()
        self._closing = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def over(self) -> bool:
        """Whether nothing more will be sent."""
        return self._task.done()

    async def show(self, markdown: str) -> None:
        """Take the whole text so far."""
        self._newest = markdown
        self._changed.set()

    async def close(self) -> None:
        """End the showing.

        A request that is under way is waited for, at most `last_word_within` seconds, and not cut off: the platform
        would still carry it out, perhaps after the edit that brings the final text.
        """
        if self._closing.is_set():
            return
        self._closing.set()
        self._changed.set()
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([self._task], timeout=self._last_word_within)
        finally:
            self._task.cancel()
        await asyncio.wait([self._task])
        await self._surface.finish()

    async def _run(self) -> None:
        pause: float | None = 0.0
        while pause is not None and not await happens(self._closing, within=pause):
            await self._changed.wait()
            self._changed.clear()
            if self._closing.is_set():
                return
            pause = await self._put()

    async def _put(self) -> float | None:
        """Show the newest text; return for how long to rest, None if this was the last."""
        if not self._newest.strip():
            return 0.0
        try:
            return self._every if await self._surface.put(self._newest) else None
        except Transient as error:
            self._changed.set()  # this text is still to be shown
            return max(error.retry_after or 0.0, self._every)
        except Unsure as error:
            _log.info("live_unsure", error=error)
            return self._every
        except AdapterError as error:
            _log.info("live_ended", error=error)
            return None
