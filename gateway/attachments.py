"""What comes along with a message: fetched once its sender may speak, and made into what a model can take.

Pictures and PDFs are kept as files of the principal's (`gateway.llm.kept_files`); texts, and what was said in a voice
message, become words. What can't be taken is said in a sentence, for the model and the person.
"""

import asyncio
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
import structlog

from adapters.base import Adapter, Attachment, Inbound
from adapters.errors import AdapterError, Permanent, Transient
from gateway.errors import NotTranscribed
from gateway.llm.kept_files import FOLDER, keep
from gateway.pictures import UnreadablePictureError, fit_for_model
from gateway.settings import AttachmentSettings
from gateway.voice import Transcriber
from memory.paths import make_private

log = structlog.get_logger(__name__)

_TRIES = 3
_MOST_LETTERS = 100_000
_VOICE = frozenset({"voice", "audio", "video_note"})
_NOTHING_TO_FETCH = "there is nothing in it that I could open"


@dataclass(frozen=True, kw_only=True, slots=True)
class Came:
    """What came along: blocks for the request, as a transcript keeps them, and words that were spoken."""

    blocks: tuple[dict[str, Any], ...] = ()
    spoken: str = ""
    remarks: tuple[str, ...] = ()
    """A sentence for each that could not be taken, and on what was done with others."""

    @property
    def is_nothing(self) -> bool:
        """Whether nothing of it could be taken."""
        return not (self.blocks or self.spoken)


NOTHING = Came()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Taken:
    blocks: tuple[dict[str, Any], ...] = ()
    spoken: str = ""


class _NotTakenError(Exception):
    """What came can't be taken; the message says why, in words for people."""


class _Room:
    """How much of a message's files one request can carry, as base64."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def take(self, content: bytes) -> None:
        """Take the room of a file; raises `_NotTakenError` where there is too little, as no model would ever see it."""
        needed = 4 * math.ceil(len(content) / 3)
        if needed > self._most:
            raise _NotTakenError(f"I can look at no more than {self._most * 3 // 4 / 1e6:.3g} MB, and it has more")
        if needed > self._left:
            raise _NotTakenError("with what else came along it is more than I can look at at once")
        self._left -= needed


class Attachments:
    """Takes what came along. `home` gives a principal's folder."""

    def __init__(
        self, settings: AttachmentSettings, *, home: Callable[[str], Path], transcriber: Transcriber | None
    ) -> None:
        self._settings, self._home, self._transcriber = settings, home, transcriber
        self._one_at_a_time = anyio.CapacityLimiter(1)  # files are read into memory whole

    async def take(self, inbound: Inbound, principal: str, adapter: Adapter) -> Came:
        """Fetch all that came along with a message, side by side, and return what a model can take of it.

        Raises nothing of the platform's: what can't be had, or not in time, is said in words.
        """
        few, more = inbound.attachments[: self._settings.most], inbound.attachments[self._settings.most :]
        room = _Room(self._settings.request_bytes)
        took = await asyncio.gather(*(self._take(each, inbound, principal, adapter, room) for each in few))
        remarks = [why for why in took if isinstance(why, str)]
        if more:
            remarks.append(f"{len(more)} more came along, and I look at {self._settings.most} at once.")
        taken = [each for each in took if isinstance(each, _Taken)]
        spoken = "\n".join(each.spoken for each in taken if each.spoken)
        if spoken:
            remarks.append("What was spoken was turned into words by a program.")
        blocks = tuple(block for each in taken for block in each.blocks)
        return Came(blocks=blocks, spoken=spoken, remarks=tuple(remarks))

    async def _take(
        self, came: Attachment, inbound: Inbound, principal: str, adapter: Adapter, room: _Room
    ) -> _Taken | str:
        try:
            with anyio.fail_after(self._settings.fetch_seconds):
                return await self._taken(came, inbound, principal, adapter, room)
        except TimeoutError:
            why = "it did not arrive in time"
        except OSError as error:  # such as a full disk
            log.error("attachment_not_kept", error=type(error).__name__, errno=error.errno)
            why = "it can't be kept now"
        except _NotTakenError as error:
            why = str(error)
        log.info("attachment_not_taken", kind=came.kind, platform=inbound.address.platform)
        return f"{_named(came)} can't be looked at: {why}."

    async def _taken(self, came: Attachment, inbound: Inbound, principal: str, adapter: Adapter, room: _Room) -> _Taken:
        if not came.file_id:
            raise _NotTakenError(_NOTHING_TO_FETCH)
        if came.kind in _VOICE and self._transcriber is None:
            raise _NotTakenError(
                "I can't listen to what is spoken here; whoever runs this bot can set `voice.command` so that I can"
            )
        folder = self._home(principal) / FOLDER
        await asyncio.to_thread(make_private, folder)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as fresh:
            path = Path(fresh) / "came"
            await self._fetch(came, inbound, path, adapter)
            if came.kind in _VOICE:
                return await self._heard(came, path, inbound.language)
            return await anyio.to_thread.run_sync(_read, came, path, folder, room, limiter=self._one_at_a_time)

    async def _fetch(self, came: Attachment, inbound: Inbound, path: Path, adapter: Adapter) -> None:
        limit = self._settings.picture_bytes if came.kind == "photo" else self._settings.file_bytes
        if came.size is not None and came.size > limit:
            raise _NotTakenError(f"it is larger than {limit // 1_000_000} MB")
        for attempt in range(1, _TRIES + 1):
            try:
                await adapter.fetch(came, address=inbound.address, into=path, limit=limit)
                return
            except Permanent as error:
                raise _NotTakenError(str(error)) from error
            except AdapterError as error:
                if attempt == _TRIES:
                    raise _NotTakenError("the platform does not give it to me now") from error
                await asyncio.sleep((error.retry_after if isinstance(error, Transient) else None) or 0.5 * attempt)

    async def _heard(self, came: Attachment, path: Path, language: str) -> _Taken:
        if self._transcriber is None:
            raise _NotTakenError(_NOTHING_TO_FETCH)
        try:
            words = await self._transcriber(path, media_type=came.media_type, language=language)
        except NotTranscribed as error:
            raise _NotTakenError(str(error)) from error
        if not words.strip():
            raise _NotTakenError("I hear no words in it")
        if came.of_quoted:
            told = f"{_named(came)} of the message that is answered, turned into words by a program"
            return _Taken(blocks=({"type": "text", "text": f"{told}:\n{words.strip()}"},))
        return _Taken(spoken=words.strip())


def _read(came: Attachment, path: Path, folder: Path, room: _Room) -> _Taken:
    """Make a file that was fetched into blocks; judged by what it holds, not by what it is called."""
    content = path.read_bytes()
    if content.startswith(b"%PDF-"):
        room.take(content)
        return _Taken(blocks=(keep(folder, content, kind="document", media_type="application/pdf"),))
    if came.kind in {"photo", "sticker"} or came.media_type.startswith("image/"):
        try:
            small, media_type = fit_for_model(content)
        except UnreadablePictureError as error:
            raise _NotTakenError(str(error)) from error
        room.take(small)
        return _Taken(blocks=(keep(folder, small, kind="image", media_type=media_type),))
    return _Taken(blocks=({"type": "text", "text": _text_file(came, content)},))


def _text_file(came: Attachment, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _NotTakenError("it is neither a text, nor a picture, nor a PDF") from error
    if "\0" in text:
        raise _NotTakenError("it is neither a text, nor a picture, nor a PDF")
    cut = f"\n[{len(text) - _MOST_LETTERS} more characters are left out]" if len(text) > _MOST_LETTERS else ""
    return f"{_named(came)}:\n{text[:_MOST_LETTERS]}{cut}"


def _named(came: Attachment) -> str:
    name = " ".join("".join(char if char.isprintable() and char not in "<>" else " " for char in came.name).split())
    return f'The {came.kind.replace("_", " ")} "{name[:80]}"' if name else f"The {came.kind.replace('_', ' ')}"
