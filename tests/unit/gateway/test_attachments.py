"""What came along with a message: fetched, judged by what it holds, and said in words where it can't be taken."""

import errno
import io
import os
import select
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from adapters.base import Attachment, Inbound
from adapters.doubles import RecordingAdapter
from adapters.errors import Transient
from gateway.attachments import Attachments, Came
from gateway.errors import NotTranscribed
from gateway.llm.kept_files import KeptFiles, discard, unused
from gateway.pictures import UnreadablePictureError, fit_for_model
from gateway.settings import AttachmentSettings
from gateway.voice import Command, Transcriber

Say = Callable[..., Inbound]
PRINCIPAL = "person:telegram:42"


def picture(kind: str = "PNG", size: tuple[int, int] = (4, 3), **options: Any) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, kind, **options)
    return out.getvalue()


class Platform(RecordingAdapter):
    """Fails the first `failures` fetches."""

    failures = 0

    async def fetch(self, attachment: Attachment, **where: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise Transient("busy", retry_after=0.0)
        await super().fetch(attachment, **where)


@pytest.fixture
def platform() -> Platform:
    return Platform()


@pytest.fixture
def take(tmp_path: Path, said: Say, platform: Platform) -> Callable[..., Any]:
    async def taken(
        *came: Attachment, transcriber: Transcriber | None = None, most: int = 3, file_bytes: int = 5_000, **more: int
    ) -> Came:
        settings = AttachmentSettings(most=most, file_bytes=file_bytes, **more)
        attachments = Attachments(settings, home=lambda principal: tmp_path / principal, transcriber=transcriber)
        return await attachments.take(replace(said("see"), attachments=came), PRINCIPAL, platform)

    return taken


def file(content: bytes, platform: Platform, kind: str = "document", **facts: Any) -> Attachment:
    name = f"f{len(platform.files)}"
    platform.files[name] = content
    return Attachment(kind=kind, file_id=name, **facts)


async def test_pictures_and_pdfs_are_kept_as_files_and_put_into_requests(
    take: Callable[..., Any], platform: Platform, tmp_path: Path
) -> None:
    came = await take(file(picture(), platform, "photo"), file(b"%PDF-1.7 ...", platform))
    assert [block["type"] for block in came.blocks] == ["image", "document"]
    assert not came.remarks
    kept = KeptFiles(tmp_path, most_bytes=10_000)
    [message] = kept.filled([{"role": "user", "content": list(came.blocks)}])
    assert [block["source"]["media_type"] for block in message["content"]] == ["image/png", "application/pdf"]
    assert all(block["source"]["type"] == "base64" for block in message["content"])


async def test_the_same_picture_is_stored_once_and_readable_by_the_owner_alone(
    take: Callable[..., Any], platform: Platform, tmp_path: Path
) -> None:
    first = await take(file(picture(), platform, "photo"))
    assert (await take(file(picture(), platform, "photo"))).blocks == first.blocks
    [stored] = (tmp_path / PRINCIPAL / "attachments").iterdir()
    assert (stored.stat().st_mode & 0o777, stored.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize(
    ("content", "kind", "why"),
    [
        (b"<html>log in</html>", "photo", "no picture"),
        (picture()[:-20], "photo", "no picture"),
        (b"\x00\x01\x02", "document", "neither a text"),
        ("caf\u00e9".encode("latin-1"), "document", "neither a text"),
        (b"x" * 6_000, "document", "larger than"),
    ],
)
async def test_what_is_not_what_it_says_is_told_and_not_taken(
    take: Callable[..., Any], platform: Platform, content: bytes, kind: str, why: str
) -> None:
    came = await take(file(content, platform, kind, name="a<b>.bin"))
    assert came.is_nothing
    assert why in came.remarks[0]
    assert f'The {kind} "a b .bin"' in came.remarks[0]


async def test_a_large_picture_is_made_small_and_turned_upright(
    take: Callable[..., Any], platform: Platform, tmp_path: Path
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    came = await take(file(picture("JPEG", (3000, 30), exif=exif), platform, "photo"), file_bytes=10**6)
    with Image.open(tmp_path / came.blocks[0]["source"]["file"]) as stored:
        assert max(stored.size) == stored.height == 1568


async def test_a_text_file_is_shown_as_text_and_cut_with_a_word(take: Callable[..., Any], platform: Platform) -> None:
    came = await take(
        file("naïve".encode(), platform, name="a.txt"), file(b"x" * 100_007, platform), file_bytes=200_000
    )
    assert came.blocks[0]["text"] == 'The document "a.txt":\nnaïve'
    assert came.blocks[1]["text"].endswith("[7 more characters are left out]")


async def test_a_platform_that_is_busy_is_asked_again_and_given_up_in_words(
    take: Callable[..., Any], platform: Platform
) -> None:
    platform.failures = 2
    assert not (await take(file(b"hi", platform))).remarks
    platform.failures = 3
    assert "does not give it to me now" in (await take(file(b"hi", platform))).remarks[0]


async def test_more_than_is_looked_at_and_what_holds_nothing_is_said(
    take: Callable[..., Any], platform: Platform
) -> None:
    many = [file(b"hi", platform) for _ in range(5)]
    came = await take(*many)
    assert (len(came.blocks), came.remarks) == (3, ("2 more came along, and I look at 3 at once.",))
    assert "nothing in it" in (await take(Attachment(kind="location"))).remarks[0]


async def test_a_voice_message_becomes_words_by_the_operators_program(
    take: Callable[..., Any], platform: Platform
) -> None:
    voice = file(b"good morning", platform, "voice", media_type="audio/ogg")
    came = await take(voice, transcriber=Command(["cat", "{file}"], seconds=20))
    assert came.spoken == "good morning"
    assert "voice.command" in (await take(voice)).remarks[0]


async def test_what_is_heard_in_an_answered_message_is_not_among_the_askers_words(
    take: Callable[..., Any], platform: Platform
) -> None:
    voice = file(b"I am Carl.", platform, "voice", of_quoted=True)
    came = await take(voice, transcriber=Command(["cat", "{file}"], seconds=20))
    assert came.spoken == ""
    assert came.blocks[0]["text"].startswith("The voice of the message that is answered, turned into words")
    assert came.blocks[0]["text"].endswith(":\nI am Carl.")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["false"], "failed"),
        (["/nowhere/listen"], "could not be started"),
        (["sleep", "20"], "too long"),
        (["true"], "no words"),
    ],
)
async def test_a_program_that_does_not_hear_it_is_told_in_words(
    take: Callable[..., Any], platform: Platform, command: list[str], why: str
) -> None:
    seconds = 0.2 if command[0] == "sleep" else 20
    came = await take(file(b"x", platform, "voice"), transcriber=Command(command, seconds=seconds))
    assert came.is_nothing
    assert why in came.remarks[0]


async def test_nothing_of_a_voice_message_stays_on_disk(
    take: Callable[..., Any], platform: Platform, tmp_path: Path
) -> None:
    async def deaf(audio: Path, *, media_type: str, language: str) -> str:
        raise NotTranscribed("it is noise")

    await take(file(b"x", platform, "voice"), transcriber=deaf)
    assert list((tmp_path / PRINCIPAL / "attachments").iterdir()) == []


async def test_a_program_that_takes_too_long_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    os.mkfifo(alive := tmp_path / "alive")
    end = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    child = f"sleep 60 > {alive} & echo up > {tmp_path / 'up'}; wait"
    with pytest.raises(NotTranscribed, match="too long"):
        await Command(["/bin/sh", "-c", child], seconds=1)(tmp_path / "x", media_type="", language="")
    assert (tmp_path / "up").exists()
    assert select.select([end], [], [], 10)[0]  # nobody holds the other end any more
    os.close(end)


@pytest.mark.parametrize("broken", [RuntimeError, NotImplementedError, TypeError, MemoryError, struct.error])
async def test_a_picture_that_breaks_its_reader_is_told_and_the_rest_is_taken(
    take: Callable[..., Any], platform: Platform, monkeypatch: pytest.MonkeyPatch, broken: type[Exception]
) -> None:
    def fails(picture: Image.Image) -> None:
        raise broken

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.verify", fails)
    came = await take(file(picture(), platform, "photo"), file(b"words", platform, name="a.txt"))
    assert [block["type"] for block in came.blocks] == ["text"]
    assert "no picture" in came.remarks[0]


@pytest.mark.parametrize("kind", ["EPS", "DDS", "ICO", "PCX"])
def test_no_reader_is_tried_that_phones_and_apps_have_no_use_for(kind: str) -> None:
    with pytest.raises(UnreadablePictureError):
        fit_for_model(picture(kind))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "MPO"])
def test_what_phones_and_apps_send_is_read(kind: str) -> None:
    assert fit_for_model(picture(kind))[1].startswith("image/")


@pytest.mark.parametrize(("kind", "most"), [("PNG", 20_000_000), ("JPEG", 50_000_000)])
def test_a_small_file_with_a_huge_picture_is_refused_unread(kind: str, most: int) -> None:
    with pytest.raises(UnreadablePictureError, match="too many pixels"):
        fit_for_model(picture(kind, (10_000, most // 10_000 + 1)))


def test_a_large_photo_is_never_in_memory_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, load = [(0, 0)], JpegImageFile.load

    def watched(self: JpegImageFile) -> Any:
        loaded.append(self.size)
        return load(self)

    monkeypatch.setattr(JpegImageFile, "load", watched)
    fit_for_model(picture("JPEG", (8000, 4000)))
    assert max(max(size) for size in loaded) == 2000


async def test_on_a_full_disk_a_file_is_told_of_and_nothing_of_it_stays(
    take: Callable[..., Any], platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gateway.llm.kept_files.os.fsync", full)
    came = await take(file(picture(), platform, "photo"), file(b"words", platform, name="a.txt"))
    assert [block["type"] for block in came.blocks] == ["text"]
    assert "can't be kept now" in came.remarks[0]
    assert list((tmp_path / PRINCIPAL / "attachments").iterdir()) == []


async def test_what_fits_no_request_is_refused_with_the_reason_and_not_kept(
    take: Callable[..., Any], platform: Platform, tmp_path: Path
) -> None:
    pdfs = [file(b"%PDF-1.7" + bytes(length), platform) for length in (2_000_000, 1_000_000, 600_000)]
    came = await take(*pdfs, file_bytes=3_000_000, request_bytes=2_000_000)
    assert len(came.blocks) == 1
    assert "no more than 1.5 MB" in came.remarks[0]
    assert "with what else came along" in came.remarks[1]
    assert len(list((tmp_path / PRINCIPAL / "attachments").iterdir())) == 1
    assert not any(
        "not kept" in str(message)
        for message in KeptFiles(tmp_path, most_bytes=2_000_000).filled(
            [{"role": "user", "content": list(came.blocks)}]
        )
    )


async def test_files_that_are_gone_or_too_many_leave_a_sentence(
    take: Callable[..., Any], platform: Platform, tmp_path: Path
) -> None:
    came = await take(file(picture(), platform, "photo"), file(picture(size=(5, 5)), platform, "photo"))
    marked = [{**block, "cache_control": {"type": "ephemeral"}} for block in came.blocks]
    room = len(
        KeptFiles(tmp_path, most_bytes=10_000).filled([{"role": "user", "content": marked[1:]}])[0]["content"][0][
            "source"
        ]["data"]
    )
    [message] = KeptFiles(tmp_path, most_bytes=room).filled([{"role": "user", "content": marked}])
    assert [block["type"] for block in message["content"]] == ["text", "image"]
    assert message["content"][0]["cache_control"] == {"type": "ephemeral"}
    for path in list(unused(tmp_path, before=float("inf"))):
        discard(path)
    [message] = KeptFiles(tmp_path, most_bytes=10_000).filled([{"role": "user", "content": marked}])
    assert {block["text"] for block in message["content"]} == {"[A picture stood here; it is not kept any more.]"}
