"""An answer while it is written: as one of Slack's streams in a thread, else as a message that is edited."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import anyio
import structlog
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Account, Address
from adapters.errors import AdapterError, Misconfigured, Permanent, Unsure
from adapters.live import LiveText, Surface
from adapters.slack.errors import posting, refusal_behind
from adapters.slack.settings import Pace
from adapters.text.slack import render, streamable

_log = structlog.get_logger(__name__)

_MAX_APPEND = 11_000  # characters of one append; Slack takes 12 000
_NO_STREAMS = frozenset(
    {
        "unknown_method",
        "method_deprecated",
        "missing_scope",
        "not_allowed_token_type",
        "feature_not_enabled",
        "feature_disabled",
        "no_permission",
        "access_denied",
    }
)
"""Refusals of chat.startStream that hold for every thread; the others concern one thread or one recipient."""

_INVISIBLE = "\u2061\u2062\u2063\u2064"


def metadata(key: str) -> dict[str, Any]:
    """Return the metadata by which a post of this key can be found again."""
    return {"event_type": "reverie_post", "event_payload": {"key": key}}


def mark(key: str) -> str:
    """Return invisible characters that stand for the key in the text of a stream.

    chat.startStream takes no metadata; only the stop does. Until then this finds the message after a crash.
    """
    digest = hashlib.sha256(key.encode()).digest()[:8]
    return "".join(_INVISIBLE[byte >> shift & 3] for byte in digest for shift in (6, 4, 2, 0))


def is_post_of(message: Mapping[str, Any], *, key: str) -> bool:
    """Say whether a message of ours carries the key, as metadata or as the mark of a stream that goes on."""
    found = message.get("metadata") or {}
    payload = found.get("event_payload") or {}
    own = found.get("event_type") == "reverie_post"
    return payload.get("key") == key if own else mark(key) in str(message.get("text") or "")


class Stream:
    """A Slack stream, to which text can only be added."""

    def __init__(self, client: AsyncWebClient, *, channel: str, ts: str, key: str, stream_for: float) -> None:
        self._client, self._channel, self.message_id, self._key = client, channel, ts, key
        self._shown = ""
        self._ends_at = anyio.current_time() + stream_for

    async def put(self, markdown: str) -> bool:
        """Add what is new; False if the text no longer goes on from what was shown, or Slack is about to end it."""
        text = streamable(markdown)
        if not text.startswith(self._shown) or anyio.current_time() >= self._ends_at:
            return False
        more = text[len(self._shown) :][:_MAX_APPEND]
        if not more:
            return True
        try:
            with posting():
                await self._client.chat_appendStream(channel=self._channel, ts=self.message_id, markdown_text=more)
        except Unsure:
            return False  # added once more, it might stand there twice
        self._shown += more
        return True

    async def finish(self) -> None:
        """End the stream; the message is an ordinary one afterwards, with its key as metadata."""
        await stop_stream(self._client, channel=self._channel, ts=self.message_id, key=self._key)


class Edited:
    """An ordinary message that is edited again and again."""

    def __init__(self, client: AsyncWebClient, *, channel: str, ts: str, key: str) -> None:
        self._client, self._channel, self.message_id, self._key = client, channel, ts, key

    async def put(self, markdown: str) -> bool:
        """Show the last part, which is what grows; the final text puts the first one here and posts the others."""
        with posting():
            await self._client.chat_update(
                channel=self._channel, ts=self.message_id, metadata=metadata(self._key), **render(markdown)[-1]
            )
        return True

    async def finish(self) -> None:
        """Leave the message as it is."""


async def stop_stream(client: AsyncWebClient, *, channel: str, ts: str, key: str) -> None:
    """End a stream; a failure is only noted, for the edit that follows tells whether it mattered."""
    try:
        with posting():
            await client.chat_stopStream(channel=channel, ts=ts, metadata=metadata(key))
    except AdapterError as error:
        _log.info("slack.stream_stop_failed", reason=type(error).__name__)


class LiveDoor:
    """Opens live answers, and remembers when the workspace has no streams."""

    def __init__(self, client: AsyncWebClient, *, pace: Pace) -> None:
        self._client, self._pace = client, pace
        self._has_streams = True
        self._open: set[LiveText] = set()

    async def open(self, address: Address, *, key: str, recipient: Account) -> LiveText:
        """Post the message that will show the answer; raises `AdapterError` if it may not be there."""
        ts = await self._start(address, key=key, recipient=recipient) if address.thread else ""
        pace, channel = self._pace, address.chat
        surface: Surface
        if ts:
            surface, every = (
                Stream(self._client, channel=channel, ts=ts, key=key, stream_for=pace.stream_for),
                pace.append_every,
            )
        else:
            ts = await self._post(address, key=key)
            surface, every = Edited(self._client, channel=channel, ts=ts, key=key), pace.edit_every
        showing = LiveText(surface, every=every, last_word_within=pace.answer_within)
        self._open = {other for other in self._open if not other.over} | {showing}
        return showing

    async def aclose(self) -> None:
        """End what is still shown."""
        await asyncio.gather(*(showing.close() for showing in self._open))

    async def _start(self, address: Address, *, key: str, recipient: Account) -> str:
        """Start a stream and return its ts, empty if Slack has none for this conversation."""
        if not self._has_streams:
            return ""
        try:
            with posting():
                response = await self._client.chat_startStream(
                    channel=address.chat,
                    thread_ts=address.thread,
                    markdown_text=f"{mark(key)}\n",
                    recipient_team_id=recipient.workspace or address.workspace,
                    recipient_user_id=recipient.user,
                )
        except (Permanent, Misconfigured) as error:
            refusal = refusal_behind(error)
            self._has_streams = refusal not in _NO_STREAMS
            _log.info("slack.no_stream", error=refusal)
            return ""
        return str(response["ts"])

    async def _post(self, address: Address, *, key: str) -> str:
        with posting():
            response = await self._client.chat_postMessage(
                channel=address.chat, thread_ts=address.thread or None, text="…", metadata=metadata(key)
            )
        return str(response["ts"])
