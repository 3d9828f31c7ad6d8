"""Fetching what people have sent.

Telegram gives bots 20 MB of a file at most, at an address that holds the token. A local Bot API server gives more, and
names a path on its own disk instead, which has to be ours too.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import anyio
import httpx
import structlog
import telegram
from telegram.error import BadRequest, TelegramError

from adapters.base import Attachment
from adapters.errors import AdapterError, Permanent, Transient, Unsure
from adapters.telegram.connection import downloads
from adapters.telegram.errors import translated
from adapters.telegram.settings import TelegramSettings

_GIVEN_BYTES = 20_000_000
_CHUNK = 64 * 1024
_TOO_BIG = "it is larger than 20 MB, and Telegram gives bots no more"
_GONE = "Telegram does not have it any more"

_log = structlog.get_logger(__name__)


class Files:
    """The files of one bot."""

    def __init__(self, bot: telegram.Bot, settings: TelegramSettings) -> None:
        self._bot, self._settings = bot, settings
        self._base = f"{settings.api_url}/file/bot{settings.token.get_secret_value()}/"
        self._client: httpx.AsyncClient | None = None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Be able to fetch for as long as this lasts."""
        async with downloads(self._settings) as client:
            self._client = client
            try:
                yield
            finally:
                self._client = None

    async def fetch(self, attachment: Attachment, *, into: Path, limit: int) -> None:
        """Write a file's bytes, `limit` of them at most, to a new file; raises as `adapters.base.Adapter` says."""
        if not attachment.file_id:
            raise Permanent(f"there is nothing to open in a {attachment.kind.replace('_', ' ')}")
        self._check(attachment.size, limit=limit)
        file = await self._described(attachment.file_id)
        self._check(file.file_size, limit=limit)
        path = str(file.file_path or "").removeprefix(self._base)
        try:
            if self._settings.local and path.startswith("/"):
                await _copy(Path(path), into=into, limit=limit)
            else:
                await self._download(path, into=into, limit=limit)
        except BaseException:
            await anyio.Path(into).unlink(missing_ok=True)
            raise

    def _check(self, size: int | None, *, limit: int) -> None:
        if size is not None and size > _GIVEN_BYTES and not self._settings.local:
            raise Permanent(_TOO_BIG)
        _check_size(size or 0, limit=limit)

    async def _described(self, file_id: str) -> telegram.File:
        try:
            return await self._bot.get_file(file_id)
        except BadRequest as error:
            raise Permanent(_TOO_BIG if "too big" in str(error).lower() else _GONE) from error
        except TelegramError as error:
            raise _for_now(translated(error)) from error

    async def _download(self, path: str, *, into: Path, limit: int) -> None:
        if self._client is None:
            raise Transient("Telegram is not connected")
        if path.startswith("/") or not path:
            raise Permanent(
                "the Bot API server keeps it on its own disk (`local` in the settings says that I share it)"
            )
        try:
            async with self._client.stream("GET", self._base + quote(path)) as response:
                _check_answer(response)
                async with await anyio.open_file(into, "wb") as target:
                    taken = 0
                    async for chunk in response.aiter_bytes(_CHUNK):
                        taken += len(chunk)
                        _check_size(taken, limit=limit)
                        await target.write(chunk)
        except httpx.HTTPError as error:
            # without the cause, whose request holds the token
            raise Transient(f"Telegram broke off ({type(error).__name__})") from None


async def _copy(path: Path, *, into: Path, limit: int) -> None:
    """Copy a file of the local server's; a path that is not there is one of another machine's."""
    try:
        async with await anyio.open_file(path, "rb") as source, await anyio.open_file(into, "wb") as target:
            taken = 0
            while chunk := await source.read(_CHUNK):
                taken += len(chunk)
                _check_size(taken, limit=limit)
                await target.write(chunk)
    except OSError as error:
        _log.warning("telegram_local_file_unreadable", error=type(error).__name__)
        raise Permanent("the Bot API server's files can't be read from here") from error


def _check_size(size: int, *, limit: int) -> None:
    if size > limit:
        raise Permanent(f"it is larger than {limit / 1_000_000:.3g} MB")


def _check_answer(response: httpx.Response) -> None:
    if response.status_code == 429 or response.status_code >= 500:
        after = response.headers.get("Retry-After", "")
        raise Transient(
            f"Telegram: HTTP {response.status_code}", retry_after=float(after) if after.isdecimal() else None
        )
    if response.status_code != 200:
        raise Permanent(_GONE)


def _for_now(error: AdapterError) -> AdapterError:
    """Return the error of a question: one whose answer was lost is simply asked again."""
    return Transient(str(error)) if isinstance(error, Unsure) else error
