"""How the Slack stand-in hands events, commands and interactions to the app: Socket Mode or signed requests.

Over sockets no event is forgotten before it is acknowledged: when its acknowledgement does not come in time,
or its socket closes, it is sent again, under a new envelope id (so that only its content identifies it), and
so is what was still open when a socket connects. Commands and interactions are sent once, as Slack does.
"""

import hashlib
import hmac
import json
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

import anyio
import httpx
from anyio.abc import TaskGroup
from starlette.websockets import WebSocket, WebSocketDisconnect

Kind = Literal["events_api", "slash_commands", "interactive"]


@dataclass(kw_only=True, slots=True, eq=False)
class Envelope:
    """One thing to hand to the app; `attempts` counts how often it was sent, `ids` are its envelope ids."""

    kind: Kind
    payload: dict[str, Any]
    attempts: int = 0
    reason: str = ""
    ids: list[str] = field(default_factory=list)
    holder: "_Link | None" = None
    due: float = 0.0

    @property
    def repeatable(self) -> bool:
        """Whether it is sent again when it was not acknowledged."""
        return self.kind == "events_api" or self.attempts == 0


@dataclass(kw_only=True, slots=True, eq=False)
class _Link:
    """One connected socket."""

    socket: WebSocket
    scope: anyio.CancelScope
    closed: anyio.Event = field(default_factory=anyio.Event)
    code: int = 1000
    gone: bool = False


class Deliveries:
    """The queue towards the app and what it acknowledged. All times in seconds."""

    def __init__(
        self,
        *,
        signing_secret: str,
        ack_timeout: float,
        retry_delays: Sequence[float],
        answered: Callable[[Envelope, Mapping[str, Any]], None],
        changed: Callable[[], None],
    ) -> None:
        self.ack_timeout, self.retry_delays = ack_timeout, tuple(retry_delays)
        self.events_url = ""
        self.pending: list[Envelope] = []
        self.acknowledged: list[Envelope] = []
        self.lost: list[Envelope] = []
        self.connected_in_all = 0
        self._secret, self._answered, self._changed = signing_secret, answered, changed
        self._links: deque[_Link] = deque()
        self._wake = anyio.Event()

    @property
    def sockets(self) -> int:
        """How many sockets are connected now."""
        return len(self._links)

    def add(self, kind: Kind, payload: dict[str, Any]) -> Envelope:
        """Queue something for the app."""
        envelope = Envelope(kind=kind, payload=payload)
        self.pending.append(envelope)
        self.wake()
        return envelope

    def wake(self) -> None:
        """Let the senders look at the queue again."""
        self._wake.set()
        self._wake = anyio.Event()
        self._changed()

    # Socket Mode

    async def serve_socket(self, socket: WebSocket, *, app_id: str) -> None:
        """Speak Socket Mode on an accepted socket until either side leaves."""
        link = _Link(socket=socket, scope=anyio.CancelScope())
        try:
            with link.scope:
                await socket.send_json(_hello(app_id, len(self._links) + 1))
                self._connect(link)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._send_due, link)
                    await self._receive(link)
                    tasks.cancel_scope.cancel()
            if not link.gone:
                await socket.close(link.code)
        finally:
            self._disconnect(link)
            link.closed.set()

    def _connect(self, link: _Link) -> None:
        self._links.append(link)
        self.connected_in_all += 1
        for envelope in self.pending:
            if envelope.holder is None:
                envelope.due = 0.0
        self.wake()

    def _disconnect(self, link: _Link) -> None:
        if link in self._links:
            self._links.remove(link)
        for envelope in [e for e in self.pending if e.holder is link]:
            envelope.holder, envelope.due, envelope.reason = None, 0.0, "connection_closed"
            if not envelope.repeatable:
                self._give_up(envelope)
        self.wake()

    async def _receive(self, link: _Link) -> None:
        try:
            while True:
                self._acknowledge(json.loads(await link.socket.receive_text()))
        except WebSocketDisconnect:
            link.gone = True

    def _acknowledge(self, answer: Mapping[str, Any]) -> None:
        for envelope in self.pending:
            if answer.get("envelope_id") in envelope.ids:
                self._done(envelope, answer.get("payload") or {})
                return

    async def _send_due(self, link: _Link) -> None:
        while True:
            wake = self._wake
            envelope, wait = self._claim(link)
            if envelope is None:
                with anyio.move_on_after(wait):
                    await wake.wait()
                continue
            try:
                await link.socket.send_json(_frame(envelope))
            except (WebSocketDisconnect, RuntimeError):
                return  # the socket closed meanwhile; the receiver notices and the envelope goes elsewhere

    def _claim(self, link: _Link) -> tuple[Envelope | None, float]:
        """Take the next envelope if it is this socket's turn; else say how long to wait for one at most."""
        now = time.monotonic()
        self._expire(now)
        due = [e for e in self.pending if e.due <= now]
        if self.events_url or not due or self._links[0] is not link:
            later = [e.due - now for e in self.pending if e.due > now]
            return None, max(min(later, default=60.0), 0.001)
        envelope = due[0]
        self._links.rotate(-1)
        envelope.attempts += 1
        envelope.holder = link
        envelope.due = now + self.ack_timeout
        envelope.ids.append(str(uuid.uuid4()))
        self.wake()  # the next one is another socket's
        return envelope, 0.0

    def _expire(self, now: float) -> None:
        for envelope in [e for e in self.pending if e.attempts and e.due <= now and e.holder]:
            envelope.holder, envelope.reason = None, "timeout"
            if not envelope.repeatable:
                self._give_up(envelope)
            elif envelope.attempts > len(self.retry_delays):
                envelope.due = float("inf")  # rests until a socket connects

    async def drop(self, *, code: int = 1011) -> None:
        """Close every socket without warning."""
        links = list(self._links)
        for link in links:
            link.code = code
            link.scope.cancel()
        for link in links:
            await link.closed.wait()

    async def announce_disconnect(self, *, reason: str = "refresh_requested") -> None:
        """Tell every connected app to reconnect, as Slack does when it refreshes a connection."""
        for link in list(self._links):
            await link.socket.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "stand-in"}})

    # HTTP

    async def serve_http(self) -> None:
        """Post what is queued to the events URL, as long as there is one; runs until cancelled."""
        async with httpx.AsyncClient(timeout=self.ack_timeout) as client, anyio.create_task_group() as tasks:
            while True:
                wake = self._wake
                self._start_posts(client, tasks)
                await wake.wait()

    def _start_posts(self, client: httpx.AsyncClient, tasks: TaskGroup) -> None:
        for envelope in self.pending if self.events_url else ():
            if not envelope.attempts:
                envelope.attempts, envelope.due = 1, float("inf")
                tasks.start_soon(self._post_until_taken, client, envelope)

    async def _post_until_taken(self, client: httpx.AsyncClient, envelope: Envelope) -> None:
        delays = self.retry_delays if envelope.kind == "events_api" else ()
        for delay in (*delays, None):
            reason, answer = await self._post(client, envelope)
            if not reason:
                self._done(envelope, answer)
                return
            if delay is None or reason == "no_retry":
                break
            envelope.reason = reason
            await anyio.sleep(delay)
            envelope.attempts += 1
        self._give_up(envelope)

    async def _post(self, client: httpx.AsyncClient, envelope: Envelope) -> tuple[str, Mapping[str, Any]]:
        headers, body = _http_form(envelope)
        try:
            response = await client.post(self.events_url, content=body, headers={**headers, **self.sign(body)})
        except httpx.TimeoutException:
            return "http_timeout", {}
        except httpx.TransportError:
            return "connection_failed", {}
        if not response.is_success:
            return ("no_retry" if response.headers.get("x-slack-no-retry") == "1" else "http_error"), {}
        return "", _answer_of(response)

    async def challenge(self, url: str) -> bool:
        """Ask the URL to prove that it belongs to the app, and use it for events from now on if it does."""
        challenge = uuid.uuid4().hex
        body = json.dumps({"token": "stand-in", "challenge": challenge, "type": "url_verification"}).encode()
        async with httpx.AsyncClient(timeout=self.ack_timeout) as client:
            response = await client.post(url, content=body, headers={**_JSON, **self.sign(body)})
        proven = response.is_success and challenge in response.text
        if proven:
            self.events_url = url
            self.wake()
        return proven

    def sign(self, body: bytes) -> dict[str, str]:
        """Return the headers by which the app knows that a request comes from Slack."""
        stamp = str(int(time.time()))
        digest = hmac.new(self._secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
        return {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={digest}"}

    def _done(self, envelope: Envelope, answer: Mapping[str, Any]) -> None:
        self.pending.remove(envelope)
        self.acknowledged.append(envelope)
        self._answered(envelope, answer)
        self.wake()

    def _give_up(self, envelope: Envelope) -> None:
        self.pending.remove(envelope)
        self.lost.append(envelope)
        self.wake()


_JSON: Mapping[str, str] = {"content-type": "application/json"}
_FORM: Mapping[str, str] = {"content-type": "application/x-www-form-urlencoded"}


def _hello(app_id: str, connections: int) -> dict[str, Any]:
    return {
        "type": "hello",
        "num_connections": connections,
        "connection_info": {"app_id": app_id},
        "debug_info": {"host": "stand-in", "build_number": 1, "approximate_connection_time": 18060},
    }


def _frame(envelope: Envelope) -> dict[str, Any]:
    frame = {
        "envelope_id": envelope.ids[-1],
        "type": envelope.kind,
        "payload": envelope.payload,
        "accepts_response_payload": envelope.kind != "events_api",
    }
    if envelope.kind == "events_api":
        frame |= {"retry_attempt": envelope.attempts - 1, "retry_reason": envelope.reason}
    return frame


def _http_form(envelope: Envelope) -> tuple[Mapping[str, str], bytes]:
    if envelope.kind == "slash_commands":
        return _FORM, urlencode(envelope.payload).encode()
    if envelope.kind == "interactive":
        return _FORM, urlencode({"payload": json.dumps(envelope.payload)}).encode()
    retry = {"x-slack-retry-num": str(envelope.attempts - 1), "x-slack-retry-reason": envelope.reason}
    return {**_JSON, **(retry if envelope.attempts > 1 else {})}, json.dumps(envelope.payload).encode()


def _answer_of(response: httpx.Response) -> Mapping[str, Any]:
    if response.headers.get("content-type", "").startswith("application/json") and response.content:
        answer = response.json()
        return answer if isinstance(answer, dict) else {}
    return {"text": response.text} if response.text else {}
