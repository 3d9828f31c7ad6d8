"""Files that people send, fetched from the stand-in over real HTTP."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from pydantic import SecretStr, ValidationError
from structlog.testing import capture_logs

from adapters.base import Attachment
from adapters.errors import Permanent, Transient
from adapters.standins.telegram import DROPPED, Chat, TelegramStandin
from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.settings import TelegramSettings
from tests.unit.adapters.telegram_stage import ANN, Inbox, picture, place, serve

LIMIT = 30_000_000


@pytest.fixture
def standin() -> TelegramStandin:
    return TelegramStandin()


@pytest.fixture
def ann(standin: TelegramStandin) -> Chat:
    return standin.private(ANN)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "came"


@pytest.fixture
async def adapter(standin: TelegramStandin, inbox: Inbox) -> AsyncIterator[TelegramAdapter]:
    async with serve(standin, inbox) as made:
        yield made


async def fetched(adapter: TelegramAdapter, inbox: Inbox, into: Path, *, limit: int = LIMIT) -> bytes:
    """Fetch what came along with the last message."""
    await inbox.first(1)
    (came,) = inbox.got[-1].attachments
    await adapter.fetch(came, address=place(7), into=into, limit=limit)
    return await anyio.Path(into).read_bytes()


class TestComing:
    @pytest.mark.parametrize("kind", ["voice", "audio", "video_note", "document", "animation", "sticker"])
    async def test_each_kind_is_told_and_can_be_fetched(
        self, standin: TelegramStandin, inbox: Inbox, adapter: TelegramAdapter, into: Path, kind: str
    ) -> None:
        standin.file(standin.private(ANN), ANN, b"content", kind=kind, name="a.bin")
        assert await fetched(adapter, inbox, into) == b"content"
        (came,) = inbox.got[0].attachments
        assert (came.kind, came.size) == (kind, 7)
        assert came.name == ("a.bin" if kind in {"audio", "document", "animation"} else "")
        assert "/" in came.media_type

    async def test_who_answers_a_picture_asks_about_it(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter, into: Path
    ) -> None:
        shown = standin.photo(ann, ANN, picture(), caption="my cat")
        standin.say(ann, ANN, "what is this?", reply_to=shown)
        await inbox.first(2)
        assert inbox.got[1].attachments == tuple(replace(each, of_quoted=True) for each in inbox.got[0].attachments)
        assert await fetched(adapter, inbox, into) == picture()
        assert inbox.got[1].quoted is not None
        assert inbox.got[1].quoted.text == "my cat"


class TestRefusing:
    async def test_what_is_larger_than_telegram_gives_is_said_without_asking_for_it(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter, into: Path
    ) -> None:
        standin.document(ann, ANN, bytes(20_000_001), name="big", mime_type="a/b")
        with pytest.raises(Permanent, match="20 MB"):
            await fetched(adapter, inbox, into)
        assert not await anyio.Path(into).exists()
        assert "getFile" not in {call.method for call in standin.calls}

    async def test_what_turns_out_larger_than_the_limit_is_given_up_and_leaves_no_file(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, adapter: TelegramAdapter, into: Path
    ) -> None:
        standin.document(ann, ANN, b"abc", name="grows", mime_type="a/b")
        await inbox.first(1)
        standin.grow(inbox.got[0].attachments[0].file_id, b"x" * 200_000)
        with pytest.raises(Permanent, match="larger than 0"):
            await fetched(adapter, inbox, into, limit=100_000)
        assert not await anyio.Path(into).exists()

    @pytest.mark.parametrize("came", [Attachment(kind="photo", file_id="gone"), Attachment(kind="story")])
    async def test_what_is_gone_or_never_was_a_file_can_not_be_had(
        self, adapter: TelegramAdapter, into: Path, came: Attachment
    ) -> None:
        with pytest.raises(Permanent):
            await adapter.fetch(came, address=place(7), into=into, limit=LIMIT)

    @pytest.mark.parametrize("status", [429, 502, 0])
    async def test_what_is_refused_for_now_may_be_asked_for_again(
        self, standin: TelegramStandin, inbox: Inbox, adapter: TelegramAdapter, into: Path, status: int
    ) -> None:
        standin.file(standin.private(ANN), ANN, b"content")
        standin.fail("getFile", status=status)
        with pytest.raises(Transient):
            await fetched(adapter, inbox, into)
        assert await fetched(adapter, inbox, into) == b"content"

    async def test_no_token_gets_into_an_error_or_the_log(
        self, standin: TelegramStandin, ann: Chat, inbox: Inbox, into: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        standin.file(ann, ANN, b"content")
        with capture_logs() as lines:
            async with serve(standin, inbox) as adapter:
                await inbox.first(1)
                standin.fail_download(DROPPED)
                with pytest.raises(Transient) as caught:
                    await fetched(adapter, inbox, into)
        told = f"{caught.value} {caught.value.__cause__} {lines} {caplog.text}"
        assert "stand-in" not in told
        assert not await anyio.Path(into).exists()


class TestLocalServer:
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Path:
        (tmp_path / "disk").mkdir()
        return tmp_path / "disk"

    async def test_its_files_are_read_from_its_disk_and_have_no_limit_of_telegrams(
        self, disk: Path, inbox: Inbox, into: Path
    ) -> None:
        standin = TelegramStandin(disk=disk)
        async with serve(standin, inbox, settings={"local": True}) as adapter:
            standin.file(standin.private(ANN), ANN, bytes(20_000_001))
            assert len(await fetched(adapter, inbox, into)) == 20_000_001

    async def test_its_files_too_are_given_up_when_they_are_larger_than_the_limit(
        self, disk: Path, inbox: Inbox, into: Path
    ) -> None:
        standin = TelegramStandin(disk=disk)
        async with serve(standin, inbox, settings={"local": True}) as adapter:
            standin.file(standin.private(ANN), ANN, b"x" * 1000)
            with pytest.raises(Permanent, match="larger"):
                await fetched(adapter, inbox, into, limit=999)
        assert not await anyio.Path(into).exists()

    async def test_a_file_of_a_disk_that_is_not_ours_is_not_looked_for_on_ours(
        self, disk: Path, inbox: Inbox, into: Path
    ) -> None:
        standin = TelegramStandin(disk=disk)
        async with serve(standin, inbox) as adapter:
            standin.file(standin.private(ANN), ANN, b"content")
            with pytest.raises(Permanent, match="its own disk"):
                await fetched(adapter, inbox, into)

    def test_a_local_server_has_an_address_of_its_own(self) -> None:
        with pytest.raises(ValidationError, match="api_url"):
            TelegramSettings(token=SecretStr("1:a"), local=True)


class Proxy:
    """Passes requests on to whatever host they name, and keeps the names."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, url, rest = head.split(" ", 2)
            self.asked.append(urlsplit(url).path.rpartition("/")[2])
            there = urlsplit(url)
            onward, out = await asyncio.open_connection(there.hostname, there.port)
            with contextlib.closing(out):
                rest = rest.replace("\r\n", "\r\nConnection: close\r\n", 1).replace("Connection: keep-alive\r\n", "")
                out.write(f"{method} {there.path} {rest}".encode())
                sending = asyncio.create_task(self._copy(reader, out))
                await self._copy(onward, writer)
                sending.cancel()

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while chunk := await source.read(65536):
            target.write(chunk)
            await target.drain()


async def test_what_is_asked_and_fetched_goes_through_the_proxy_that_is_set(
    standin: TelegramStandin, ann: Chat, inbox: Inbox, into: Path
) -> None:
    proxy = Proxy()
    standin.file(ann, ANN, b"content")
    async with proxy.serving() as url, serve(standin, inbox, settings={"proxy": url}) as adapter:
        assert await fetched(adapter, inbox, into) == b"content"
    assert {"getMe", "getUpdates", "getFile"} <= set(proxy.asked)
    assert any(name.startswith("file-") for name in proxy.asked)


@pytest.mark.parametrize("proxy", ["proxy:3128", "ftp://proxy", "http://"])
def test_what_can_be_no_proxy_is_refused_at_once(proxy: str) -> None:
    with pytest.raises(ValidationError, match="proxy"):
        TelegramSettings(token=SecretStr("1:a"), proxy=SecretStr(proxy))
