"""Serve a Starlette app from the running event loop, for as long as a block lasts."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

_HANG_UP = "reverie.server"


@contextlib.asynccontextmanager
async def serving(app: Starlette, *, host: str = "127.0.0.1", port: int = 0, grace: float = 0.2) -> AsyncIterator[str]:
    """Serve `app` over HTTP and WebSocket and yield its base URL, `http://host:port` without a final slash.

    Port 0 takes a free port. Requests are answered once the block is entered. When it is left, no new ones
    are taken, sockets are closed with code 1012, requests get `grace` seconds to end, and what is left (long
    polls, streams) is cut off and cancelled. Signals stay with the caller; only errors of the app are logged.
    Raises `OSError` if the address can't be bound, `RuntimeError` if the app's lifespan does not start.
    """
    listener = _listen(host, port)
    guarded = _Guarded(app)
    server = guarded.server = _server(guarded)
    with contextlib.closing(listener):
        await _start(server, listener)
        ticking = asyncio.create_task(server.main_loop())
        try:
            yield f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        finally:
            ticking.cancel()
            with anyio.CancelScope(shield=True):
                await _stop(server, guarded, grace)


async def hang_up(connection: HTTPConnection) -> None:
    """Close the connection of a request that `serving` is answering, after what was already sent and no more.

    The client sees a lost response (or a stream that was cut off). What the app sends afterwards goes nowhere
    and is no error. Raises `KeyError` if the app is served by anything else.
    """
    server: uvicorn.Server = connection.scope["extensions"][_HANG_UP]
    open_now = server.server_state.connections
    client = connection.scope["client"]
    for mine in [each for each in open_now if getattr(each, "client", None) == client]:
        mine.transport.close()
        while mine in open_now:  # noqa: ASYNC110 - the server has no event for it; takes a turn or two of the loop
            await asyncio.sleep(0)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=2048)
    listener.setblocking(False)  # noqa: FBT003 - the library's own signature
    return listener


class _Guarded:
    """The app, with its running calls in sight, to cancel them without a traceback in the log."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self.server: uvicorn.Server | None = None
        self._running: set[asyncio.Task[object]] = set()
        self._cancelling = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        scope.setdefault("extensions", {})[_HANG_UP] = self.server
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            await self._app(scope, receive, send)
        except (ClientDisconnect, WebSocketDisconnect):
            return  # the other side left while the app was reading: no error of the app
        except asyncio.CancelledError:
            if not self._cancelling:
                raise
        finally:
            self._running.discard(task)

    async def finish(self, *, within: float) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=within)

    async def cancel(self) -> None:
        self._cancelling = True
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _server(app: _Guarded) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http="h11",
        ws="websockets-sansio",
        lifespan="on",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        log_config=None,
        log_level="error",  # its info lines print URLs, and those hold bot tokens
        access_log=False,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server


async def _start(server: uvicorn.Server, listener: socket.socket) -> None:
    """Start without `Server.serve`, which takes over the process's signals."""
    try:
        await server.startup(sockets=[listener])
    except SystemExit as stopped:
        raise RuntimeError("the web app did not start: its lifespan failed") from stopped


async def _stop(server: uvicorn.Server, app: _Guarded, grace: float) -> None:
    """Stop without `Server.shutdown`, which waits for open streams and logs those that it cancels."""
    for listening in server.servers:
        listening.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    await app.finish(within=grace)
    for connection in list(server.server_state.connections):
        connection.transport.abort()
    await asyncio.sleep(0)  # the loop tells each connection that it is lost: a response cut off is then no error
    await app.cancel()
    await server.lifespan.shutdown()
