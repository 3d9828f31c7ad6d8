"""Posting a file, once."""

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

import anyio
import structlog
from slack_sdk.errors import SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Outbound
from adapters.errors import AdapterError, Misconfigured, Permanent, Transient
from adapters.slack.errors import posting, reading, refusal_behind
from adapters.slack.marks import mark

_log = structlog.get_logger(__name__)
_LOOKS = (0.0, 0.3, 1.0, 3.0)
"""Seconds before each look for the message: Slack posts it a moment after it has said that it did."""


class Find(Protocol):
    """Finds a post again by its key."""

    async def __call__(self, post: Outbound, *, since: datetime, with_file: bool = False) -> str | None:
        """Return its ts, None if it is not there."""


class Uploads:
    """Files of one workspace that go out.

    A message with a file takes no metadata and no blocks, so it is marked, and its text is Slack's mrkdwn.
    """

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client

    async def post(self, post: Outbound, *, found: Find) -> str:
        """Upload the file of a part, share it with the part's text, and return the message's ts.

        Nothing is to be seen before the last of the three requests. The ts is empty if Slack does not tell it in time.
        """
        file, since = post.part["file"], datetime.now(UTC)
        content = await _read(file)
        try:
            with posting():
                response = await self._client.files_upload_v2(
                    content=content,
                    filename=file["name"],
                    title=file["name"],
                    channel=post.address.chat,
                    thread_ts=post.address.thread or None,
                    initial_comment=f"{mark(post.key)}{post.part['text']}",
                )
        except SlackRequestError as error:  # its text holds what was answered to the file
            raise Transient("Slack did not take the file") from error
        except Misconfigured as error:
            if refusal_behind(error) != "missing_scope":
                raise
            raise Permanent("Slack did not take the file: the app lacks the scope files:write") from error
        told = await _or_nothing(self._ts(str(response["files"][0]["id"]), post.address.chat))
        return told or await _or_nothing(found(post, since=since, with_file=True))

    async def _ts(self, file_id: str, channel: str) -> str:
        for pause in _LOOKS:
            await anyio.sleep(pause)
            with reading():
                response = await self._client.files_info(file=file_id)
            shares = (response.get("file") or {}).get("shares") or {}
            for places in shares.values():
                if places.get(channel):
                    return str(places[channel][-1]["ts"])
        return ""


async def _or_nothing(look: Awaitable[str | None]) -> str:
    try:
        return await look or ""
    except AdapterError as error:  # it is posted, so this must not look like a failure to
        _log.info("slack.file_not_seen", error=type(error).__name__)
        return ""


async def _read(file: Mapping[str, Any]) -> bytes:
    try:
        return await anyio.Path(file["path"]).read_bytes()
    except OSError as error:
        raise Permanent(f"the file can't be read ({type(error).__name__})") from error
