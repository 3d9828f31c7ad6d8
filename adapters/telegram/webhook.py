"""The webhook: Telegram calls us, and gets its 200 only when the message is stored."""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog
import telegram
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from telegram.error import TelegramError

from adapters.base import Health
from adapters.telegram.connection import ALLOWED_UPDATES, read_update
from adapters.telegram.errors import described

_CHECK_EVERY = 30.0
_STALE_AFTER = 120.0

_log = structlog.get_logger()


class Webhook:
    """Receives what Telegram pushes, and looks regularly whether Telegram can still reach us."""

    def __init__(
        self,
        bot: telegram.Bot,
        receive: Callable[[telegram.Update], Awaitable[None]],
        *,
        url: str,
        secret: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._bot, self._receive = bot, receive
        self._url, self._secret, self._clock = url, secret, clock
        self._last_good = clock()
        self._trouble = ""

    async def register(self) -> None:
        """Tell Telegram where we are; raises the library's errors.

        One connection at a time: with more, two messages of one chat could pass each other.
        """
        await self._bot.set_webhook(
            self._url, secret_token=self._secret, allowed_updates=ALLOWED_UPDATES, max_connections=1
        )
        self._last_good = self._clock()

    def route(self) -> Route:
        """Return the route that Telegram calls; what stands behind `/telegram/` is the operator's choice."""
        return Route("/telegram/{path:path}", self._called, methods=["POST"])

    async def run(self) -> None:
        """Ask Telegram from time to time how its calls went, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            try:
                self._judge(await self._bot.get_webhook_info())
            except TelegramError as error:
                self._trouble = described(error)
                _log.warning("telegram_webhook_check_failed", error=self._trouble)

    def health(self) -> Health:
        """Judge by when Telegram last called, or last said that its calls get through."""
        silence = (self._clock() - self._last_good).total_seconds()
        detail = self._trouble or "called by Telegram"
        return Health(ok=silence < _STALE_AFTER, detail=detail)

    def _judge(self, info: telegram.WebhookInfo) -> None:
        failed = info.last_error_date is not None and info.last_error_date > self._last_good
        if info.url == self._url and not (failed and info.pending_update_count):
            self._last_good, self._trouble = self._clock(), ""
            return
        self._trouble = info.last_error_message or "" if info.url == self._url else "another webhook is set"
        _log.warning("telegram_webhook_unreached", error=self._trouble, waiting=info.pending_update_count)

    async def _called(self, request: Request) -> Response:
        given = request.headers.get("X-Telegram-Bot-Api-Secret-Token", "")
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            return Response(status_code=403)
        try:
            update = read_update(json.loads(await request.body()))
        except ValueError:
            return Response(status_code=400)
        if update is not None:  # what can't be read is taken all the same, or it would come again for ever
            try:
                await self._receive(update)
            except Exception as error:  # noqa: BLE001 - the edge: not stored, so Telegram must come again
                _log.warning("telegram_update_not_stored", error=type(error).__name__)
                return Response(status_code=503)
        self._last_good = self._clock()
        self._trouble = ""
        return Response(status_code=200)
