"""Sending one answer: whole or as events, slowly if asked to, and broken if asked to."""

import json
from collections.abc import Callable, Iterator, Mapping

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.llm.standin.answers import CORRUPT, Answer, Flaw, Reply, error_body, sse


class AnswerResponse(Response):
    """An HTTP response that can drop its connection, and that notices when the client leaves.

    `done` is told `answered`, `flawed` or `disconnected`, once.
    """

    def __init__(
        self,
        reply: Reply,
        answer: Answer,
        *,
        streamed: bool,
        headers: Mapping[str, str],
        chunk_delay: float,
        done: Callable[[str], None],
    ) -> None:
        kind = "text/event-stream; charset=utf-8" if streamed else "application/json"
        super().__init__(headers={**headers, "content-type": kind, "cache-control": "no-cache"})
        self._reply = reply
        self._answer = answer
        self._streamed = streamed
        self._chunk_delay = chunk_delay
        self._done = done
        self._outcome = "disconnected"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, until it is done or the client has left."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, receive, tasks.cancel_scope)
                await (self._send_events(send) if self._streamed else self._send_whole(send))
                tasks.cancel_scope.cancel()
        finally:
            self._done(self._outcome)

    async def _watch(self, receive: Receive, sending: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        sending.cancel()

    async def _send_whole(self, send: Send) -> None:
        body = json.dumps(self._reply.whole(), ensure_ascii=False).encode()
        cut = self._answer.flaw is Flaw.DROP
        length = (b"content-length", str(len(body)).encode())
        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": body[: len(body) // 2] if cut else body, "more_body": cut})
        self._outcome = "flawed" if cut else "answered"

    async def _send_events(self, send: Send) -> None:
        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for chunk in self._chunks():
            if chunk.startswith(b"event: content_block_delta") and self._chunk_delay:
                await anyio.sleep(self._chunk_delay)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if self._answer.flaw is not Flaw.DROP:
            # A drop leaves the body open: the server then closes the connection without the final chunk.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        self._outcome = "answered" if self._answer.flaw is Flaw.NONE else "flawed"

    def _chunks(self) -> Iterator[bytes]:
        """Encode the events, up to where the flaw strikes: in a shorter stream, after its last delta."""
        flaw, left = self._answer.flaw, self._answer.flaw_after
        for event in self._reply.events():
            at_end = event["type"] == "message_delta"
            if flaw is not Flaw.NONE and (at_end or (event["type"] == "content_block_delta" and left <= 0)):
                yield from self._broken(flaw)
                return
            left -= event["type"] == "content_block_delta"
            yield sse(event)

    def _broken(self, flaw: Flaw) -> Iterator[bytes]:
        if flaw is Flaw.CORRUPT:
            yield CORRUPT
        elif flaw is Flaw.ERROR:
            yield sse(error_body(529, "", request_id=self.headers["request-id"]))
