"""What the tests of the Telegram adapter share: the stand-in with its people, and an adapter that serves it."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
from pydantic import SecretStr

from adapters.base import Account, Address, Button, Outbound, OutFile
from adapters.doubles import RecordingInbox
from adapters.serving import serving
from adapters.standins.telegram import Person, TelegramStandin
from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.settings import TelegramSettings
from tests.waiting import HANGS

ANN = Person(id=7, first_name="Ann", username="ann", language_code="de")
BO = Person(id=8, first_name="Bo", username="bo")
ANN_THERE = Account(platform="telegram", user="7")
GROUP = -1005


class Inbox(RecordingInbox):
    """Waits no longer than a test may hang."""

    async def until(self, enough: Callable[[], bool]) -> None:
        with anyio.fail_after(HANGS):
            await super().until(enough)


def settings_at(url: str, **more: Any) -> TelegramSettings:
    """Return settings for the stand-in's token."""
    return TelegramSettings(token=SecretStr("4200000000:stand-in"), api_url=url, **more)


@contextlib.asynccontextmanager
async def serve(
    standin: TelegramStandin, inbox: RecordingInbox, *, settings: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[TelegramAdapter]:
    """Serve an adapter on the stand-in, which must find no fault with it."""
    pace = {"draft_every": 0.02, "edit_every": 0.02, "first_pause": 0.01} | more
    async with serving(standin.app) as url:
        adapter = TelegramAdapter(settings_at(url, **(settings or {})), **pace)
        async with adapter.serve(inbox):
            yield adapter
        assert standin.faults == []


def place(chat: int, thread: str = "") -> Address:
    """Return an address."""
    return Address(platform="telegram", chat=str(chat), thread=thread)


async def say(
    adapter: TelegramAdapter,
    chat: int,
    markdown: str,
    *,
    buttons: Sequence[Button] = (),
    file: OutFile | None = None,
    message_id: str = "",
    reply_to: str = "",
    thread: str = "",
) -> list[str]:
    """Render and post all parts; returns the ids of the messages."""
    parts = adapter.render(markdown, buttons=buttons, file=file)
    return [
        await adapter.deliver(
            Outbound(
                address=place(chat, thread),
                key=f"k:{number}",
                part=part,
                message_id="" if number else message_id,
                reply_to="" if number else reply_to,
            )
        )
        for number, part in enumerate(parts)
    ]


def a_file(path: Path, content: bytes, *, media_type: str = "text/plain") -> OutFile:
    """Write a file that is to be sent."""
    path.write_bytes(content)
    return OutFile(path=path, name=path.name, media_type=media_type)


def picture(*, width: int = 3, height: int = 2, more: int = 0) -> bytes:
    """Return the beginning of a PNG, which is all that is looked at."""
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + size + b"\x08" * (8 + more)
