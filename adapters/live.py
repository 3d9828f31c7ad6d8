"""An answer while it is written: the loop that every platform's live answer shares."""

import asyncio
from typing import Protocol

import anyio
import structlog

from adapters.base import Step
from adapters.errors import AdapterError, Transient, Unsure
from adapters.waiting import happens

_log = structlog.get_logger(__name__)

_SLOWEST = 15.0  # seconds between two requests of one answer, however often it was refused
_SOFTER, _FASTER = 2.0, 0.9


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
    Where the platform names a time to wait, it goes on half as often after that, and each success makes it a tenth
    oftener again, up to `every`. What would vanish is shown again after `renew_after` seconds without anything new.
    """

    def __init__(
        self, surface: Surface, *, every: float, last_word_within: float, renew_after: float | None = None
    ) -> None:
        self.message_id = surface.message_id
        self._surface, self._every, self._last_word_within = surface, every, last_word_within
        self._renew_after = renew_after
        self._rhythm = every
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

    async def step(self, step: Step) -> None:
        """Show nothing of it: this surface has a place for the text only."""

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
            await self._news()
            self._changed.clear()
            if self._closing.is_set():
                return
            pause = await self._put()

    async def _news(self) -> None:
        """Wait for something new to show, but not longer than what is shown lasts."""
        if self._renew_after is None:
            await self._changed.wait()
        else:
            await happens(self._changed, within=self._renew_after)

    async def _put(self) -> float | None:
        """Show the newest text; return for how long to rest, None if this was the last."""
        if not self._newest.strip():
            return 0.0
        try:
            if not await self._surface.put(self._newest):
                return None
            self._rhythm = max(self._rhythm * _FASTER, self._every)
        except Transient as error:
            self._changed.set()  # this text is still to be shown
            if error.retry_after is not None:
                self._rhythm = max(min(self._rhythm * _SOFTER, _SLOWEST), self._every)
            return max(error.retry_after or 0.0, self._rhythm)
        except Unsure as error:
            _log.info("live_unsure", error=error)
        except AdapterError as error:
            _log.info("live_ended", error=error)
            return None
        return self._rhythm
