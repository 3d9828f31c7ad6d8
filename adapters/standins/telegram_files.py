"""The Bot API's methods for files."""

import struct
from pathlib import Path
from typing import Any

from adapters.standins.telegram_chats import Messenger, Room
from adapters.standins.telegram_posting import caption_of, post
from adapters.standins.telegram_wire import Given, Oddity, Refused, Upload

_PHOTO_BYTES = 10_000_000
_PHOTO_SIDES = 10_000
_PHOTO_RATIO = 20
_UPLOAD_BYTES = 50_000_000
_DOWNLOAD_BYTES = 20_000_000


def get_file(world: Messenger, given: Given, _: Oddity) -> dict[str, Any]:
    """Say where a file can be fetched."""
    file_id = given.get("file_id", "")
    upload = world.files.get(file_id)
    if upload is None:
        raise Refused.bad("wrong file_id or the file is temporarily unavailable")
    if len(upload.content) > _DOWNLOAD_BYTES and world.disk is None:
        raise Refused.bad("file is too big")
    unique = file_id.rpartition("-")[2]
    return {
        "file_id": file_id,
        "file_unique_id": unique,
        "file_size": len(upload.content),
        "file_path": f"files/{file_id}" if world.disk is None else _on_disk(world.disk, file_id, upload),
    }


def _on_disk(disk: Path, file_id: str, upload: Upload) -> str:
    """Do as a local server does, which puts files on its disk and names their whole path."""
    path = disk / file_id
    path.write_bytes(upload.content)
    return str(path)


def send_document(world: Messenger, given: Given, odd: Oddity) -> dict[str, Any]:
    """Post a file."""
    room = world.room(given.get("chat_id"))
    _check_right(room, "documents")
    upload = _file(world, given.get("document"), limit=_UPLOAD_BYTES)
    document = {**world.store(upload), "file_name": upload.name, "mime_type": upload.mime_type}
    return post(world, room, given, {"document": document, **caption_of(given, odd)})


def send_photo(world: Messenger, given: Given, odd: Oddity) -> dict[str, Any]:
    """Post a picture."""
    room = world.room(given.get("chat_id"))
    _check_right(room, "photos")
    upload = _file(world, given.get("photo"), limit=_PHOTO_BYTES)
    return post(world, room, given, {"photo": picture(world, upload), **caption_of(given, odd)})


def _check_right(room: Room, what: str) -> None:
    if what in room.forbidden:
        raise Refused.bad(f"not enough rights to send {what} to the chat")


def picture(world: Messenger, upload: Upload) -> list[dict[str, Any]]:
    """Keep a picture and return its sizes; what is no PNG, JPEG, GIF or WebP is refused."""
    head = upload.content[:32]
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        width, height = struct.unpack(">II", head[16:24])
        if width + height > _PHOTO_SIDES or max(width, height) > _PHOTO_RATIO * min(width, height):
            raise Refused.bad("PHOTO_INVALID_DIMENSIONS")
    elif head.startswith((b"\xff\xd8\xff", b"GIF8")) or head[8:12] == b"WEBP":
        width, height = 640, 480
    else:
        raise Refused.bad("IMAGE_PROCESS_FAILED")
    return [{**world.store(upload), "width": width, "height": height}]


def _file(world: Messenger, value: object, *, limit: int) -> Upload:
    if isinstance(value, Upload):
        if len(value.content) > limit:
            raise Refused(413, "Request Entity Too Large")
        if not value.content:
            raise Refused.bad("file must be non-empty")
        return value
    if isinstance(value, str) and value in world.files:
        return world.files[value]
    raise Refused.bad("wrong file identifier/HTTP URL specified" if value else "there is no file in the request")
