"""The poll loop: what Telegram sent is stored before Telegram is told that it may forget it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog
import telegram
from telegram.error import Conflict, RetryAfter, TelegramError

from adapters.base import Health
from adapters.telegram.connection import ALLOWED_UPDATES, LONG_POLL
from adapters.telegram.errors import described, seconds_to_wait

_log = structlog.get_logger()


class Polling:
    """Asks for updates and hands each to `receive`, in order, again and again until it was taken.

    The offset moves only past what `receive` returned for. It is kept by Telegram, not by us: after a restart
    what was not confirmed comes again, and the inbox knows it.
    """

    def __init__(
        self,
        bot: telegram.Bot,
        receive: Callable[[telegram.Update], Awaitable[None]],
        *,
        clock: Callable[[], datetime],
        jitter: Callable[[], float],
        longest_pause: float = 30.0,
        first_pause: float = 1.0,
    ) -> None:
        self._bot, self._receive = bot, receive
        self._clock, self._jitter = clock, jitter
        self._first_pause, self._longest_pause = first_pause, longest_pause
        self._offset = 0
        self._failures = 0
        self._trouble = ""
        self._started_at = clock()
        self._last_good: datetime | None = None

    async def run(self) -> None:
        """Poll until cancelled; nothing else ends it."""
        self._started_at, self._last_good = self._clock(), None
        while True:
            try:
                await self._poll()
            except Exception as error:  # noqa: BLE001 - the edge: Telegram and the store may fail in any way
                await self._pause(error)

    def health(self) -> Health:
        """Judge by when a poll and all it brought were last done with."""
        now = self._clock()
        silence = (now - (self._last_good or self._started_at)).total_seconds()
        ok = silence < 2 * LONG_POLL.total_seconds() + self._longest_pause
        detail = "polling" if self._last_good else "no poll has been answered yet"
        if self._trouble:
            detail = f"polling fails since {silence:.0f} s: {self._trouble}"
        return Health(ok=ok, detail=detail)

    async def _poll(self) -> None:
        updates = await self._bot.get_updates(offset=self._offset, timeout=LONG_POLL, allowed_updates=ALLOWED_UPDATES)
        for update in updates:
            await self._receive(update)
            self._offset = update.update_id + 1
        self._failures, self._trouble, self._last_good = 0, "", self._clock()

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        self._trouble = described(error)
        pause = min(self._first_pause * 2 ** min(self._failures - 1, 10), self._longest_pause)
        pause *= 0.5 + self._jitter() / 2
        if isinstance(error, RetryAfter):
            pause = max(pause, seconds_to_wait(error))
        _log.warning("telegram_poll_failed", error=self._trouble, failures=self._failures, pause=round(pause, 2))
        await asyncio.sleep(pause)
        if isinstance(error, Conflict) and "webhook" in str(error):
            await drop_webhook(self._bot)


async def drop_webhook(bot: telegram.Bot) -> None:
    """Take a webhook away, which would keep us from polling; what waits for it comes by polling."""
    try:
        await bot.delete_webhook(drop_pending_updates=False)
    except TelegramError as error:
        _log.warning("telegram_webhook_not_dropped", error=described(error))
