import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import httpx
import pytest
import websockets
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from adapters.serving import hang_up, serving
from tests.ports import held_port
from tests.waiting import HANGS, until


async def _hello(_: Request) -> Response:
    return PlainTextResponse("hello")


async def _slow(request: Request) -> Response:
    _begun(request.app, "slow")
    await asyncio.sleep(600)
    return PlainTextResponse("late")


async def _stream(request: Request) -> Response:
    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b"drop"
            _begun(request.app, "stream")
            await asyncio.sleep(0.01)

    return StreamingResponse(drops())


def _begun(app: Starlette, what: str) -> None:
    app.state.begun = {*getattr(app.state, "begun", ()), what}


async def _lost(request: Request) -> Response:
    await hang_up(request)
    return PlainTextResponse("never seen")


async def _socket(socket: WebSocket) -> None:
    await socket.accept()
    await socket.receive_text()


def _app() -> Starlette:
    return Starlette(
        routes=[
            Route("/hello", _hello),
            Route("/slow", _slow),
            Route("/lost", _lost),
            Route("/stream", _stream),
            WebSocketRoute("/socket", _socket),
        ]
    )


async def test_a_request_is_answered_once_the_block_is_entered() -> None:
    async with serving(_app()) as base, httpx.AsyncClient() as client:
        assert (await client.get(f"{base}/hello")).text == "hello"


async def test_a_port_can_be_chosen_and_is_free_again_afterwards() -> None:
    with held_port() as port:
        for _ in range(2):
            async with serving(_app(), port=port) as base:
                assert base == f"http://127.0.0.1:{port}"
                with pytest.raises(OSError, match="in use"):
                    async with serving(_app(), port=port):
                        raise AssertionError("two servers on one port")


async def test_leaving_is_quick_and_silent_while_polls_streams_and_sockets_are_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="uvicorn.error")
    app = _app()
    async with httpx.AsyncClient(timeout=HANGS) as client, asyncio.timeout(HANGS):  # the poll would last much longer
        async with serving(app) as base:
            poll = asyncio.create_task(client.get(f"{base}/slow"))
            stream = asyncio.create_task(client.get(f"{base}/stream"))
            socket = await websockets.connect(base.replace("http", "ws") + "/socket")
            await until(lambda: getattr(app.state, "begun", ()) == {"slow", "stream"})
        for cut_off in (poll, stream):
            with pytest.raises(httpx.TransportError):
                await cut_off
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with serving(_app()):
            raise LookupError("mine")


async def test_a_response_can_be_lost_without_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(_app()) as base, httpx.AsyncClient() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"{base}/lost")
        assert (await client.get(f"{base}/hello")).text == "hello"
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


async def test_an_app_whose_lifespan_fails_raises_in_the_caller() -> None:
    @contextlib.asynccontextmanager
    async def broken(_: Starlette) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    with pytest.raises(RuntimeError, match="lifespan"):
        async with serving(Starlette(lifespan=broken)):
            raise AssertionError("served although its lifespan failed")
