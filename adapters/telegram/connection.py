"""The library's bot, set up so that one bad update blocks nothing and no token gets into a log."""

import copy
import logging
import os
from datetime import timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpx
import structlog
import telegram
from telegram.request import HTTPXRequest

from adapters.telegram.inbound import STOPPED
from adapters.telegram.settings import TelegramSettings

LONG_POLL = timedelta(seconds=25)
"""How long Telegram holds a poll open when nothing happens."""

ALLOWED_UPDATES = ("message", "edited_message", "my_chat_member", "callback_query", STOPPED)
"""What we ask Telegram for; a server that does not know one of them is expected to pass over it."""

_MEDIA_SECONDS = 120.0

_log = structlog.get_logger()


def connect(settings: TelegramSettings) -> telegram.Bot:
    """Make the bot; it is connected once `initialize` was awaited."""
    _settle_library()
    proxy, proxies = _proxy(settings), {"trust_env": _trusts_environment(settings)}
    return telegram.Bot(
        settings.token.get_secret_value(),
        base_url=f"{settings.api_url}/bot",
        base_file_url=f"{settings.api_url}/file/bot",
        local_mode=settings.local,
        request=HTTPXRequest(
            connection_pool_size=64,
            pool_timeout=10,
            connect_timeout=10,
            read_timeout=20,
            write_timeout=20,
            media_write_timeout=_MEDIA_SECONDS,
            proxy=proxy,
            httpx_kwargs=proxies,
        ),
        get_updates_request=_UpdatesRequest(
            connection_pool_size=2,
            pool_timeout=10,
            connect_timeout=10,
            read_timeout=10,
            write_timeout=10,
            proxy=proxy,
            httpx_kwargs=proxies,
        ),
    )


def downloads(settings: TelegramSettings) -> httpx.AsyncClient:
    """Make a client for files, which the library would read into memory whole; it goes the same way."""
    timeout = httpx.Timeout(20.0, pool=60.0)
    return httpx.AsyncClient(timeout=timeout, proxy=_proxy(settings), trust_env=_trusts_environment(settings))


def _proxy(settings: TelegramSettings) -> str | None:
    return settings.proxy.get_secret_value() if settings.proxy else None


def _trusts_environment(settings: TelegramSettings) -> bool:
    return settings.proxy is None and not _is_on_this_machine(settings.api_url)


def read_update(data: Any) -> telegram.Update | None:
    """Read one update as Telegram sent it; None, with a word in the log, if the library can't."""
    try:
        return telegram.Update.de_json(copy.deepcopy(data))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the next one must get its turn
        number = data.get("update_id") if isinstance(data, dict) else None
        _log.error("telegram_update_unreadable", update_id=number, error=type(error).__name__)
        return None


class _UpdatesRequest(HTTPXRequest):
    """Reduces an update that can't be read to its number: else `get_updates` would fail on it for ever."""

    __slots__ = ()

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Read an answer of getUpdates, as the library invites its users to do."""
        answer = HTTPXRequest.parse_json_payload(payload)
        updates = answer.get("result")
        if isinstance(updates, list):
            answer["result"] = [
                update if read_update(update) else {"update_id": update["update_id"]}
                for update in updates
                if isinstance(update, dict) and isinstance(update.get("update_id"), int)
            ]
        return answer


def _is_on_this_machine(url: str) -> bool:
    """Say whether a proxy named by the environment must be left out, because it would look on its own machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _settle_library() -> None:
    """Silence loggers that write addresses with the token, and choose the library's coming time type."""
    for name in ("httpx", "httpcore", "telegram"):
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))
    os.environ.setdefault("PTB_TIMEDELTA", "true")  # else each 429 comes with a deprecation warning
