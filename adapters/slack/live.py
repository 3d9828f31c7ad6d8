"""An answer while it is written: as one of Slack's streams in a thread, else as a message that is edited.

Slack ends a stream about five minutes after its start, and a stream can only grow. So before that time, or when the
text no longer goes on from what was shown, the stream is ended by us and *the same message* goes on as one that is
edited, with the whole text, what the stream had not taken among it. There is one message from the first word to the
last: nothing that a crash could leave behind as half an answer, and the final text takes the place of all of it.
"""

import asyncio
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import anyio
import structlog
from slack_sdk.models.messages.chunk import Chunk, MarkdownTextChunk, TaskUpdateChunk
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Account, Address, Step, StepState
from adapters.errors import AdapterError, Misconfigured, Permanent, Unsure
from adapters.live import LiveText, Surface
from adapters.slack.errors import posting, refusal_behind
from adapters.slack.marks import mark, metadata
from adapters.slack.pacing import Pacing
from adapters.slack.settings import Pace
from adapters.text.slack import Growing, streamable

_log = structlog.get_logger(__name__)

_MAX_APPEND = 11_000  # characters of one append; Slack takes 12 000
_MAX_TITLE = 250  # characters of a task's title; Slack takes 256
_NO_TEXT = "\u2060"  # what stands for the text while there are only steps: the loop passes over an empty one
_STOPPED = "stopped_by_user"
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

_STATES = MappingProxyType(
    {StepState.RUNNING: "in_progress", StepState.DONE: "complete", StepState.FAILED: "error"},
)


class Edited:
    """An ordinary message that is edited again and again; it has no place for steps."""

    def __init__(
        self, client: AsyncWebClient, *, channel: str, ts: str, key: str, pacing: Pacing, every: float
    ) -> None:
        self._client, self._channel, self.message_id, self._key = client, channel, ts, key
        self._pacing, self._every = pacing, every
        self._growing = Growing()

    def note(self, step: Step) -> None:
        """Leave it to the words of the status."""

    async def put(self, markdown: str) -> bool:
        """Show the last part, which is what grows; the final text puts the first one here and posts the others."""
        if markdown == _NO_TEXT:
            return True
        with self._pacing.turn("chat.update", self._channel, every=self._every), posting():
            await self._client.chat_update(
                channel=self._channel,
                ts=self.message_id,
                metadata=metadata(self._key),
                **self._growing.render(markdown)[-1],
            )
        return True

    async def finish(self) -> None:
        """Leave the message as it is."""


class Stream:
    """A Slack stream, with its steps as task cards, that goes on as edits of its message when it can't go on itself."""

    def __init__(self, client: AsyncWebClient, *, edited: Edited, channel: str, key: str, stream_for: float) -> None:
        self._client, self._edited, self._channel, self._key = client, edited, channel, key
        self.message_id = edited.message_id
        self._shown = ""
        self._steps: dict[str, Step] = {}
        self._ends_at = anyio.current_time() + stream_for
        self._over = False

    def note(self, step: Step) -> None:
        """Show the state of a step with what is added next."""
        self._steps[step.id] = step

    async def put(self, markdown: str) -> bool:
        """Add what is new, or put the whole text in its place; False if a person has stopped it."""
        text = "" if markdown == _NO_TEXT else streamable(markdown)
        if not self._over and (not text.startswith(self._shown) or anyio.current_time() >= self._ends_at):
            await self._end()
        try:
            while not self._over and (self._steps or len(text) > len(self._shown)):
                await self._append(text[len(self._shown) :][:_MAX_APPEND])
        except (Unsure, Permanent) as error:  # added once more, it might stand there twice
            if refusal_behind(error) == _STOPPED:
                return False
            await self._end()
        return await self._edited.put(markdown) if self._over else True

    async def finish(self) -> None:
        """End the stream; the message is an ordinary one afterwards, with its key as metadata."""
        if not self._over:
            await self._end()

    async def _append(self, more: str) -> None:
        steps, self._steps = self._steps, {}
        chunks: list[Chunk] = [_task(step) for step in steps.values()]
        if chunks and more:
            chunks.append(MarkdownTextChunk(text=more))
        given: dict[str, Any] = {"chunks": _plain(chunks)} if chunks else {"markdown_text": more}
        try:
            with posting():
                await self._client.chat_appendStream(channel=self._channel, ts=self.message_id, **given)
        except AdapterError:
            self._steps = steps | self._steps  # told again, a step only has the same state
            raise
        self._shown += more

    async def _end(self) -> None:
        self._over = True
        await stop_stream(self._client, channel=self._channel, ts=self.message_id, key=self._key)


class Showing(LiveText):
    """A live answer that has a place for steps."""

    def __init__(self, surface: Edited | Stream, *, every: float, last_word_within: float) -> None:
        self._steps = surface
        shown: Surface = surface
        super().__init__(shown, every=every, last_word_within=last_word_within)

    async def step(self, step: Step) -> None:
        """Take the newest state of a step; it is shown with the text, or alone while there is none."""
        self._steps.note(step)
        self._newest = self._newest or _NO_TEXT
        self._changed.set()


def _task(step: Step) -> TaskUpdateChunk:
    title = step.title.strip()[:_MAX_TITLE] or step.id[:_MAX_TITLE]
    return TaskUpdateChunk(id=step.id, title=title, status=_STATES[step.state])


def _plain(chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    return [chunk.to_dict() for chunk in chunks]


async def stop_stream(client: AsyncWebClient, *, channel: str, ts: str, key: str) -> None:
    """End a stream; a failure is only noted, for the edit that follows tells whether it mattered."""
    try:
        with posting():
            await client.chat_stopStream(channel=channel, ts=ts, metadata=metadata(key))
    except AdapterError as error:
        _log.info("slack.stream_stop_failed", reason=type(error).__name__)


class LiveDoor:
    """Opens live answers, and remembers when the workspace has no streams."""

    def __init__(self, client: AsyncWebClient, *, pace: Pace, pacing: Pacing) -> None:
        self._client, self._pace, self._pacing = client, pace, pacing
        self._has_streams = True
        self._open: set[Showing] = set()

    async def open(self, address: Address, *, key: str, recipient: Account) -> Showing:
        """Post the message that will show the answer; raises `AdapterError` if it may not be there."""
        started = await self._start(address, key=key, recipient=recipient) if address.thread else ""
        pace, channel = self._pace, address.chat
        ts = started or await self._post(address, key=key)
        edited = Edited(self._client, channel=channel, ts=ts, key=key, pacing=self._pacing, every=pace.edit_every)
        surface: Edited | Stream = edited
        if started:
            surface = Stream(self._client, edited=edited, channel=channel, key=key, stream_for=pace.stream_for)
        every = pace.append_every if started else pace.edit_every
        showing = Showing(surface, every=every, last_word_within=pace.answer_within)
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
            with self._pacing.turn("chat.startStream", address.chat), posting():
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
        with self._pacing.turn("chat.postMessage", address.chat), posting():
            response = await self._client.chat_postMessage(
                channel=address.chat, thread_ts=address.thread or None, text="…", metadata=metadata(key)
            )
        return str(response["ts"])
