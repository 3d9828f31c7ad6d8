"""Fetching what people have uploaded.

Slack gives the bytes to whoever sends the bot's token along, and a page for people, with status 200, to all others:
also to a token without the scope. So the token goes to Slack's own hosts only, and what comes is looked at.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Attachment
from adapters.errors import Misconfigured, Permanent, Transient
from adapters.slack.errors import reading, refusal_behind

_CHUNK = 64 * 1024
_FIRST = 16
_TIMEOUT = aiohttp.ClientTimeout(total=300.0, sock_connect=10.0, sock_read=30.0)
_GONE = frozenset({"file_not_found", "file_deleted"})
_UNREADABLE = "Slack did not give the file: the app lacks the scope files:read"
_MISTAKEN = "what Slack gave is not the file"

_BEGINNINGS: Mapping[str, tuple[bytes, ...]] = MappingProxyType(
    {
        "image/png": (b"\x89PNG\r\n\x1a\n",),
        "image/jpeg": (b"\xff\xd8\xff",),
        "image/gif": (b"GIF87a", b"GIF89a"),
        "image/webp": (b"RIFF",),
        "application/pdf": (b"%PDF-",),
    }
)


class Files:
    """The files of one workspace."""

    def __init__(self, client: AsyncWebClient, *, api_url: str) -> None:
        self._client, self._api_url = client, api_url

    async def fetch(self, attachment: Attachment, *, into: Path, limit: int) -> None:
        """Write a file's bytes, `limit` of them at most, to a new file; raises as `adapters.base.Adapter` says."""
        if not attachment.file_id:
            raise Permanent(f"Slack does not say where this {attachment.kind} is")
        _check_size(attachment.size, limit=limit)
        file = await self._described(attachment.file_id)
        _check_size(file.get("size"), limit=limit)
        await self._write(file, into=into, limit=limit)

    async def _described(self, file_id: str) -> Mapping[str, Any]:
        """Ask for the file as it is now: events may carry a stub of it, and its address is not kept."""
        try:
            with reading():
                response = await self._client.files_info(file=file_id)
        except Misconfigured as error:
            if refusal_behind(error) != "missing_scope":
                raise
            raise Permanent(_UNREADABLE) from error
        except Permanent as error:
            gone = refusal_behind(error) in _GONE
            raise Permanent("the file is gone" if gone else f"Slack does not show the file ({error})") from error
        file: Mapping[str, Any] = response.get("file") or {}
        if file.get("mode") in {"tombstone", "hidden_by_limit"}:
            raise Permanent("the file is gone, or too old for this workspace's plan")
        return file

    async def _write(self, file: Mapping[str, Any], *, into: Path, limit: int) -> None:
        url = str(file.get("url_private_download") or file.get("url_private") or "")
        if not is_of(url, api_url=self._api_url) or file.get("is_external"):
            raise Permanent("the file lies outside Slack")
        try:
            with reading():
                await self._copy(url, str(file.get("mimetype") or ""), into=into, limit=limit)
        except BaseException:
            await anyio.Path(into).unlink(missing_ok=True)
            raise

    async def _copy(self, url: str, media_type: str, *, into: Path, limit: int) -> None:
        session = self._client.session
        if session is None:
            raise Transient("Slack is not connected")
        headers = {"Authorization": f"Bearer {self._client.token}"}
        async with (
            session.get(
                url, headers=headers, allow_redirects=False, timeout=_TIMEOUT, proxy=self._client.proxy
            ) as response,
            await anyio.open_file(into, "wb") as target,
        ):
            _check_answer(response, media_type)
            chunk = await _beginning(response.content, media_type)
            taken = 0
            while chunk:
                taken += len(chunk)
                _check_size(taken, limit=limit)
                await target.write(chunk)
                chunk = await response.content.read(_CHUNK)


def is_of(url: str, *, api_url: str) -> bool:
    """Say whether the token may be sent there: to the API's own host, or, by HTTPS, to one that belongs to it."""
    try:
        asked, api = urlsplit(url), urlsplit(api_url)
        same = (asked.scheme, asked.hostname, asked.port) == (api.scheme, api.hostname, api.port)
        below = asked.port in {None, 443} and str(asked.hostname or "").endswith(f".{api.hostname}")
    except ValueError:
        return False
    return (same or (below and asked.scheme == "https")) and asked.username is None


def _check_size(size: object, *, limit: int) -> None:
    if isinstance(size, int) and size > limit:
        raise Permanent(f"the file is larger than {limit} bytes")


def _check_answer(response: aiohttp.ClientResponse, media_type: str) -> None:
    if response.status == 429 or response.status >= 500:
        after = response.headers.get("Retry-After", "")
        raise Transient(f"Slack: HTTP {response.status}", retry_after=float(after) if after.isdecimal() else None)
    if response.status in {404, 410}:
        raise Permanent("the file is gone")
    if response.status != 200:  # a redirection leads to a page where people sign in
        raise Permanent(_UNREADABLE)
    if response.content_type == "text/html" and media_type != "text/html":
        raise Permanent(_UNREADABLE)


async def _beginning(content: aiohttp.StreamReader, media_type: str) -> bytes:
    """Read the first bytes; raises `Permanent` if they are those of something else."""
    try:
        first = await content.readexactly(_FIRST)
    except asyncio.IncompleteReadError as short:
        first = short.partial
    beginnings = _BEGINNINGS.get(media_type)
    if beginnings and not first.startswith(beginnings):
        raise Permanent(_MISTAKEN)
    return first
