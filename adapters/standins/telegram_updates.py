"""The queue of updates, handed out by long polling or pushed to a webhook. Never de-duplicated."""

import asyncio
import copy
import itertools
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
from telegram.constants import UpdateType

from adapters.standins.telegram_wire import Refused

_NOT_BY_DEFAULT = {"chat_member", "message_reaction", "message_reaction_count"}
_KINDS = frozenset({*UpdateType, "stopped_message_generation"})
_LONGEST_POLL = 50
_FIRST_UPDATE = 700_000_001
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_OTHER_POLL = "other getUpdates request; make sure that only one bot instance is running"
_WEBHOOK_ACTIVE = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"


class Updates:
    """Updates in order, until a later `getUpdates` with a higher offset, or the webhook's 2xx, confirms them.

    `pause` is the wait in seconds before a webhook delivery is tried again; it doubles up to `longest_pause`.
    """

    def __init__(self, clock: Callable[[], float], *, pause: float = 0.1, longest_pause: float = 1.0) -> None:
        self._clock = clock
        self._pause, self._longest_pause = pause, longest_pause
        self._ids = itertools.count(_FIRST_UPDATE)
        self._pending: list[dict[str, Any]] = []
        self._allowed: frozenset[str] = frozenset()
        self._poll: asyncio.Future[None] | None = None
        self._webhook: dict[str, Any] = {}
        self._secret = ""
        self._stirred = asyncio.Event()

    @property
    def pending(self) -> tuple[dict[str, Any], ...]:
        """What the bot has not confirmed yet."""
        return tuple(self._pending)

    def put(self, kind: str, content: dict[str, Any]) -> None:
        """Queue an update, unless the bot has not asked for its kind."""
        wanted = kind in self._allowed if self._allowed else kind not in _NOT_BY_DEFAULT
        if not wanted:
            return
        self._pending.append({"update_id": next(self._ids), kind: copy.deepcopy(content)})
        self._stirred.set()
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(None)

    async def poll(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        """Answer `getUpdates`; a newer call ends an older one that still waits with 409, as the API does."""
        if self._webhook:
            raise Refused(409, f"Conflict: {_WEBHOOK_ACTIVE}")
        self.allow(given.get("allowed_updates"))
        self._forget(given.get("offset", 0))
        self._end_poll(_OTHER_POLL)
        timeout = min(given.get("timeout", 0), _LONGEST_POLL)
        if not self._pending and timeout > 0:
            await self._wait(for_seconds=timeout)
        limit = given.get("limit", 100)
        return self._pending[: limit if 1 <= limit <= 100 else 100]

    async def _wait(self, *, for_seconds: float) -> None:
        self._poll = mine = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(for_seconds):
                await mine
        except TimeoutError:
            return
        finally:
            if self._poll is mine:
                self._poll = None

    def _end_poll(self, by: str) -> None:
        if self._poll is not None and not self._poll.done():
            self._poll.set_exception(Refused(409, f"Conflict: terminated by {by}"))

    def _forget(self, offset: int) -> None:
        if offset < 0:
            self._pending = self._pending[offset:]
        else:
            self._pending = [update for update in self._pending if update["update_id"] >= offset]

    def allow(self, kinds: object) -> None:
        """Note which kinds the bot wants from now on: an empty list is the default, None no change."""
        if kinds is None:
            return
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            raise Refused.bad("can't parse allowed updates: array of String expected")
        self._allowed = frozenset(kinds) & _KINDS

    def set_webhook(self, given: dict[str, Any]) -> None:
        """Begin to push to `url`, or stop if it is empty. Plain HTTP is taken for loopback addresses only."""
        url, secret = given.get("url", ""), given.get("secret_token", "")
        parts = urlsplit(url)
        if url and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise Refused.bad("bad webhook: An HTTPS URL must be provided for webhook")
        if secret and not _SECRET.fullmatch(secret):
            raise Refused.bad("secret token contains unallowed characters")
        self.allow(given.get("allowed_updates"))
        if given.get("drop_pending_updates"):
            self._pending.clear()
        self._secret = secret
        self._webhook = {"url": url, "max_connections": given.get("max_connections", 40)} if url else {}
        if url:
            self._end_poll("setWebhook request")
        self._stirred.set()

    def webhook_info(self) -> dict[str, Any]:
        """Answer `getWebhookInfo`."""
        allowed = {"allowed_updates": sorted(self._allowed)} if self._allowed else {}
        return {
            "url": "",
            "has_custom_certificate": False,
            "pending_update_count": len(self._pending),
            **allowed,
            **self._webhook,
        }

    async def push_forever(self) -> None:
        """Push updates to the webhook, one after the other, each until it is answered with 2xx."""
        async with httpx.AsyncClient(timeout=30) as client:
            pause = self._pause
            while True:
                if not (self._webhook and self._pending):
                    await self._stirred.wait()
                    self._stirred.clear()
                    continue
                update = self._pending[0]
                if await self._push(client, update):
                    self._pending = [other for other in self._pending if other is not update]
                    pause = self._pause
                    continue
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._longest_pause)

    async def _push(self, client: httpx.AsyncClient, update: dict[str, Any]) -> bool:
        webhook = self._webhook
        headers = {"X-Telegram-Bot-Api-Secret-Token": self._secret} if self._secret else {}
        try:
            response = await client.post(webhook["url"], json=update, headers=headers)
        except httpx.HTTPError as error:
            failure = f"Connection failed: {type(error).__name__}"
        else:
            if response.is_success:
                return True
            failure = f"Wrong response from the webhook: {response.status_code} {response.reason_phrase}"
        webhook |= {"last_error_date": int(self._clock()), "last_error_message": failure}
        return False
