"""Whatever a server of team memory answers, and however: a call ends in time and in bounds, and fails in one way."""

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from adapters.serving import serving
from memory.team.errors import SyncFailed
from memory.team.remote import ANSWER_BYTES, Remote
from memory.team.wire import PATH, entity_tag
from tests.unit.memory.team_members import Member, ann, answers, team_server
from tests.waiting import HANGS

__all__ = ["ann", "team_server"]

TOKEN = "TOPSECRET-4711"


@asynccontextmanager
async def remote(url: str, *, token: str = TOKEN, seconds: float = HANGS) -> AsyncIterator[Remote]:
    async def given() -> str:
        return token

    async with httpx.AsyncClient() as http:
        yield Remote(url, token=given, http=http, timeout=seconds)


async def failure(url: str, *, token: str = TOKEN, seconds: float = HANGS) -> SyncFailed:
    async with remote(url, token=token, seconds=seconds) as server:
        with pytest.raises(SyncFailed) as raised:
            await server.fetch("a/b", known=None)
    return raised.value


def app(answer: Callable[[Request], Awaitable[Response]]) -> Starlette:
    return Starlette(routes=[Route(PATH, answer, methods=["GET", "PUT"])])


@pytest.mark.parametrize("token", [f"{TOKEN}\r", f"{TOKEN}\n", f"{TOKEN} ", f"{TOKEN}ö", f"{TOKEN}\0"])
async def test_no_failure_quotes_the_token(token: str) -> None:
    failed = await failure("http://127.0.0.1:9", token=token)
    assert TOKEN not in str(failed)
    assert failed.__suppress_context__, "and no log shows what it came from"


@pytest.mark.parametrize("url", ["http://[::1", "http://host:port", "http://127.0.0.1:9", "http://x\0y", "http://"])
async def test_an_address_that_nobody_can_ask_is_a_failure_like_any_other(url: str) -> None:
    assert (await failure(url)).status is None


@pytest.mark.parametrize("tag", ["é", "a\nb", "x\r\nX-Evil: 1", "a\0b", 'a"b', "two words", "x" * 257, ""])
async def test_a_tag_that_can_not_be_sent_back_counts_as_none(ann: Member, tag: str) -> None:
    assert entity_tag(tag, None) is None
    body = {"checksum": tag, "content": {"entries": {"a.md": "x"}}}
    ann.wire.scripted.append(answers("GET", 200, body=body))
    for _ in range(2):
        assert (await ann.sync.sync(ann.scope)).failure is None
    assert not any("if-none-match" in request.headers for request in ann.wire.seen if request.method == "GET")


async def test_an_answer_that_swells_beyond_bounds_is_not_read_to_its_end() -> None:
    bomb = gzip.compress(b'{"content":{"entries":{}},"x":"' + b"a" * (ANSWER_BYTES + 1) + b'"}')

    async def answer(request: Request) -> Response:
        assert request.headers["accept-encoding"] == "gzip, deflate"
        return Response(bomb, headers={"content-encoding": "gzip"})

    async with serving(app(answer)) as url:
        assert "larger than" in str(await failure(url))


@pytest.mark.parametrize("packed", ["gzip, gzip", "br"])
async def test_an_answer_that_is_packed_otherwise_than_was_asked_for_is_not_unpacked(packed: str) -> None:
    async def answer(request: Request) -> Response:
        return Response(b"x", headers={"content-encoding": packed})

    async with serving(app(answer)) as url:
        assert "packed" in str(await failure(url))


async def test_a_plain_and_a_packed_answer_say_the_same() -> None:
    body = b'{"checksum":"c","version":7,"content":{"entries":{"a.md":"x"}}}'

    async def answer(request: Request) -> Response:
        if "known" in request.headers.get("if-none-match", ""):
            return Response(body)
        return Response(gzip.compress(body), headers={"content-encoding": "gzip"})

    async with serving(app(answer)) as url, remote(url) as server:
        assert await server.fetch("a/b", known="known") == await server.fetch("a/b", known=None)


async def test_an_answer_that_comes_byte_by_byte_has_no_longer_than_any_other() -> None:
    over = anyio.Event()

    async def drip() -> AsyncIterator[bytes]:
        while not over.is_set():
            yield b" "
            with anyio.move_on_after(0.01):
                await over.wait()

    async def answer(request: Request) -> Response:
        return StreamingResponse(drip())

    async with serving(app(answer)) as url:
        assert "did not answer in full" in str(await failure(url, seconds=0.2))
        over.set()


async def test_no_turn_fails_for_a_pull(ann: Member) -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise RuntimeError("something that nobody thought of")

    ann.wire.scripted.append(broken)
    await ann.sync.pull(ann.scope, within=HANGS)
    assert ann.wire.methods() == ["GET"]
