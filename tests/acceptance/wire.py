"""What lies between the gateway and a stand-in: ASGI middleware in which an exchange can be held, or lost."""

import asyncio
import itertools
from dataclasses import dataclass, field
from enum import StrEnum

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Moment(StrEnum):
    """Where in an exchange a test steps in."""

    ARRIVED = "arrived"
    """The request, or over a socket the client's frame, is here; nothing was done."""
    ACTED = "acted"
    """It was carried out, and nothing of the answer was sent. Over a socket: a frame is about to be sent."""
    STREAMING = "streaming"
    """A piece of the body is about to be sent."""


@dataclass(kw_only=True)
class Hold:
    """A place where an exchange waits until the test has done what it wants to do at that moment.

    With `lost`, what was held never gets through afterwards.
    """

    path: str
    moment: Moment
    nth: int = 1
    lost: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


class Lost(Exception):
    """What was held must not get through."""


class Wire:
    """What lies between the gateway and one stand-in; it does nothing but where a `Hold` is set."""

    def __init__(self) -> None:
        self.holds: list[Hold] = []

    async def passes(self, path: str, moment: Moment, *, piece: int = 0) -> None:
        """Wait, if a hold is set for this; raises `Lost` if it must not get through."""
        for hold in [hold for hold in self.holds if path.endswith(hold.path) and hold.moment is moment]:
            if moment is Moment.STREAMING and piece < hold.nth:
                continue
            if moment is not Moment.STREAMING and hold.nth > 1:
                hold.nth -= 1
                continue
            self.holds.remove(hold)
            hold.reached.set()
            await hold.go_on.wait()
            if hold.lost:
                raise Lost
            return


class Tapped:
    """ASGI middleware: a stand-in at the end of a wire."""

    def __init__(self, app: ASGIApp, wire: Wire) -> None:
        self._app, self._wire = app, wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, pieces = scope["path"], itertools.count(1)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._wire.passes(path, Moment.ACTED)
            elif message["type"] == "http.response.body":
                await self._wire.passes(path, Moment.STREAMING, piece=next(pieces))
            await send(message)

        try:
            await self._wire.passes(path, Moment.ARRIVED)
        except Lost:
            await send({"type": "http.response.start", "status": 502, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, sending)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]

        async def receiving() -> Message:
            message = await receive()
            try:
                if message["type"] == "websocket.receive":
                    await self._wire.passes(path, Moment.ARRIVED)
            except Lost:
                return {"type": "websocket.disconnect", "code": 1006}
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "websocket.send":
                await self._wire.passes(path, Moment.ACTED)
            await send(message)

        await self._app(scope, receiving, sending)
