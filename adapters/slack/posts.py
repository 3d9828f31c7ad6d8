"""Posting, editing and finding again: each request once, for a repeated post is a double answer."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adapters.base import Address, Outbound
from adapters.errors import Permanent
from adapters.slack.asides import Asides
from adapters.slack.errors import error_name, posting, reading, refusal_behind
from adapters.slack.inbound import Bot, is_private
from adapters.slack.live import stop_stream
from adapters.slack.marks import is_post_of, metadata
from adapters.slack.pacing import Pacing
from adapters.slack.uploads import Uploads

_log = structlog.get_logger(__name__)

_BLOCKS_REFUSED = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"})
_CANT_BE_EDITED = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
_PAGE = 200
_CLOCKS_APART = timedelta(minutes=2)


class Posts:
    """What Reverie has posted in one workspace, where `bot` tells who we are."""

    def __init__(self, client: AsyncWebClient, *, bot: Callable[[], Bot], pacing: Pacing) -> None:
        self._client, self._bot, self._pacing = client, bot, pacing
        self._uploads = Uploads(client)
        self.asides = Asides(client)

    async def deliver(self, post: Outbound) -> str:
        """Post or edit one part and return its ts.

        What is for one person is posted in channels as an ephemeral message, which is not found again, and edited only
        when its button was pressed: else another one is posted. What takes the place of a message that only one person
        sees is for them too. In direct messages there is nobody else, so there it is an ordinary post.
        """
        user = self.asides.only_for(post)
        if user and not is_private(post.address.chat, kind=""):
            return await self.asides.post(post, user=user)
        if post.part.get("file"):
            return await self._with_file(post)
        if not post.message_id:
            return await self._send(post)
        try:
            return await self._send(post)
        except Permanent as error:
            if refusal_behind(error) not in _CANT_BE_EDITED:
                raise
        return await self._anew(post)

    async def find(self, post: Outbound, *, since: datetime, with_file: bool = False) -> str | None:
        """Look through the post's thread, or its channel, for a message of ours with the post's key."""
        bot, cursor = self._bot(), None
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
                filed = bool(message.get("files")) or not with_file
                if ours and filed and is_post_of(message, key=post.key):
                    return str(message["ts"])
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return None

    async def _anew(self, post: Outbound) -> str:
        """Post what should have been an edit of a message that is gone, unless that was done before."""
        _log.info("slack.message_gone")
        done = await self.find(post, since=_moment(post.message_id))
        return await self._send(_at(post, done or ""))

    async def _with_file(self, post: Outbound) -> str:
        """Post a file; a message that it is to take the place of is deleted, for no file can be put into one."""
        if not post.message_id:
            return await self._uploads.post(post, found=self.find)
        done = await self.find(post, since=_moment(post.message_id), with_file=True)
        ts = done or await self._uploads.post(_at(post, ""), found=self.find)
        if post.message_id != ts:
            await self._delete(post)
        return ts

    async def _delete(self, post: Outbound) -> None:
        await stop_stream(self._client, channel=post.address.chat, ts=post.message_id, key=post.key)
        try:
            with posting():
                await self._client.chat_delete(channel=post.address.chat, ts=post.message_id)
        except Permanent as error:  # it is gone, or was never ours
            _log.info("slack.not_deleted", error=refusal_behind(error))

    async def _send(self, post: Outbound) -> str:
        """Post or edit; a part whose blocks Slack refuses is sent as text."""
        act, method = (self._edit, "chat.update") if post.message_id else (self._post, "chat.postMessage")
        with self._pacing.turn(method, post.address.chat), posting():
            try:
                response = await act(post, post.part)
            except SlackApiError as error:
                if error_name(error) not in _BLOCKS_REFUSED:
                    raise
                _log.warning("slack.blocks_refused", error=error_name(error))
                response = await act(post, {"text": post.part["text"], "blocks": []})
        return str(response["ts"])

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


def _at(post: Outbound, message_id: str) -> Outbound:
    return replace(post, message_id=message_id)


def _moment(ts: str) -> datetime:
    """Return when a message was posted; its ts is the seconds since 1970."""
    try:
        return datetime.fromtimestamp(float(ts), tz=UTC)
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(0, tz=UTC) + _CLOCKS_APART
