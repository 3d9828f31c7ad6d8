"""Posting, editing and finding again: each request once, for a repeated post is a double answer."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adapters.base import Address, Outbound
from adapters.errors import Permanent
from adapters.slack.errors import error_name, posting, reading, refusal_behind
from adapters.slack.inbound import Bot
from adapters.slack.live import is_post_of, metadata, stop_stream

_log = structlog.get_logger(__name__)

_BLOCKS_REFUSED = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
_PAGE = 200
_CLOCKS_APART = timedelta(minutes=2)


class Posts:
    """What Reverie has posted in one workspace."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client

    async def deliver(self, post: Outbound) -> str:
        """Post or edit one part and return its ts; a part whose blocks Slack refuses is sent as text."""
        send = self._edit if post.message_id else self._post
        with posting():
            try:
                response = await send(post, post.part)
            except SlackApiError as error:
                if error_name(error) not in _BLOCKS_REFUSED:
                    raise
                _log.warning("slack.blocks_refused", error=error_name(error))
                response = await send(post, {"text": post.part["text"], "blocks": []})
        return str(response["ts"])

    async def find(self, post: Outbound, *, bot: Bot, since: datetime) -> str | None:
        """Look through the post's thread, or its channel, for a message of ours with the post's key."""
        cursor: str | None = None
        while True:
            try:
                with reading():
                    page = await self._history(post.address, since=since - _CLOCKS_APART, cursor=cursor)
            except Permanent as error:
                if refusal_behind(error) == "thread_not_found":
                    return None
                raise
            for message in page.get("messages") or ():
                ours = bot.user == message.get("user") or bot.bot == message.get("bot_id")
                if ours and is_post_of(message, key=post.key):
                    return str(message["ts"])
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return None

    async def _post(self, post: Outbound, part: Mapping[str, Any]) -> AsyncSlackResponse:
        return await self._client.chat_postMessage(
            channel=post.address.chat,
            thread_ts=post.address.thread or None,
            text=part["text"],
            blocks=part["blocks"] or None,
            metadata=metadata(post.key),
            unfurl_links=False,
            unfurl_media=False,
        )

    async def _edit(self, post: Outbound, part: Mapping[str, Any]) -> AsyncSlackResponse:
        try:
            return await self._update(post, part)
        except SlackApiError as error:
            if error_name(error) != "streaming_state_conflict":
                raise
        # A stream that a crash left open: Slack takes no edit before it is ended.
        await stop_stream(self._client, channel=post.address.chat, ts=post.message_id, key=post.key)
        return await self._update(post, part)

    async def _update(self, post: Outbound, part: Mapping[str, Any]) -> AsyncSlackResponse:
        return await self._client.chat_update(
            channel=post.address.chat,
            ts=post.message_id,
            text=part["text"],
            blocks=part["blocks"],  # left out, Slack would keep the old ones
            metadata=metadata(post.key),
        )

    async def _history(self, address: Address, *, since: datetime, cursor: str | None) -> AsyncSlackResponse:
        arguments: dict[str, Any] = {
            "channel": address.chat,
            "oldest": f"{since.timestamp():.6f}",
            "include_all_metadata": True,
            "limit": _PAGE,
            "cursor": cursor,
        }
        if address.thread:
            return await self._client.conversations_replies(ts=address.thread, **arguments)
        return await self._client.conversations_history(**arguments)
