"""The Socket Mode connection: opened, watched and closed; how alive it is, by what came through it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

import anyio
import structlog
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Health
from adapters.errors import Misconfigured, Transient
from adapters.slack.errors import reading, refusal_behind
from adapters.slack.sdk_log import Trouble, socket_logger
from adapters.slack.settings import Pace

_log = structlog.get_logger(__name__)
_MISSED_PINGS = 4
_CURE = "check SLACK_APP_TOKEN (xapp-…, with the scope connections:write) and that Socket Mode is on"


class Socket:
    """An open Socket Mode connection, which slack-sdk renews by itself."""

    def __init__(self, client: SocketModeClient, *, pace: Pace, now: Callable[[], datetime]) -> None:
        self._client, self._pace, self._now = client, pace, now
        self._alive_at = now()  # the handshake has just been answered
        client.message_listeners.append(self._heard)

    def health(self) -> Health:
        """Judge by the last pong and the last message, for a dead socket may well look connected."""
        alive_at = max(self._alive_at.timestamp(), self._client.last_ping_pong_time or 0.0)
        silent = self._now().timestamp() - alive_at
        ok = silent <= _MISSED_PINGS * self._pace.ping_every
        detail = "Socket Mode: connected" if ok else f"Socket Mode: silent for {silent:.0f} s"
        return Health(ok=ok, detail=detail)

    async def _heard(self, _client: Any, _message: dict[str, Any], _raw: str | None = None) -> None:
        self._alive_at = self._now()


@asynccontextmanager
async def open_socket(
    app: AsyncApp, *, app_token: str, client: AsyncWebClient, pace: Pace, now: Callable[[], datetime]
) -> AsyncIterator[Socket]:
    """Connect by Socket Mode and stay connected until left.

    Raises `Misconfigured` if Slack refuses the app token and `Transient` if it can't be reached in time.
    """
    address = await _first_address(client, app_token=app_token)
    logger, trouble = socket_logger()
    handler = AsyncSocketModeHandler(
        app,
        app_token,
        logger=logger,
        web_client=client,
        proxy=client.proxy,
        ping_interval=pace.ping_every,
    )
    connection = handler.client
    connection.proxy = client.proxy
    connection.wss_uri = address
    watching = asyncio.create_task(_watch(connection, trouble, every=pace.ping_every))
    try:
        with anyio.move_on_after(pace.connect_within) as attempt:
            await connection.connect()  # type: ignore[no-untyped-call]
        if attempt.cancelled_caught:
            raise Transient("Socket Mode: the socket that Slack named can't be opened")
        yield Socket(connection, pace=pace, now=now)
    finally:
        await _close(connection, watching)
        logger.removeFilter(trouble)


async def _watch(connection: SocketModeClient, trouble: Trouble, *, every: float) -> None:
    """Make a failing reconnection ask for a new address: the SDK would try the used-up one for ever.

    What the SDK says of its attempts is summed up in a line after 1, 2, 4, 8, … looks, for an outage may last.
    """
    down = 0
    while True:
        await anyio.sleep(every)
        if await connection.is_connected():
            if down:
                _log.info("slack.socket_up", seconds_down=round(down * every))
            down = 0
            continue
        connection.wss_uri = None
        down += 1
        if down & (down - 1) == 0 and connection.current_session is not None:  # until then `open_socket` tells
            _log.warning("slack.socket_down", error=trouble.last, seconds_down=round(down * every))


async def _first_address(client: AsyncWebClient, *, app_token: str) -> str:
    try:
        with reading():
            response = await client.apps_connections_open(app_token=app_token)
    except Misconfigured as error:
        refusal = refusal_behind(error) or str(error)
        raise Misconfigured(f"Socket Mode is refused ({refusal}): {_CURE}") from error
    return str(response["url"])


async def _close(connection: SocketModeClient, watching: asyncio.Task[None]) -> None:
    # The SDK cancels its tasks without waiting for them; left alone they would end after the loop.
    running = [connection.message_processor, connection.current_session_monitor, connection.message_receiver]
    tasks = [task for task in (watching, *running) if task is not None]
    watching.cancel()
    with anyio.CancelScope(shield=True), suppress(OSError, RuntimeError):
        await connection.close()  # type: ignore[no-untyped-call]
    for task in tasks:
        task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.gather(*tasks, return_exceptions=True)
