"""What people of the Telegram stand-in send besides plain texts: files, albums, forwards, places."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.standins.telegram_chats import Chat, Person
from adapters.standins.telegram_files import picture
from adapters.standins.telegram_people import People
from adapters.standins.telegram_text import CAPTION_LIMIT, typed_entities, units
from adapters.standins.telegram_wire import Upload

_MIME_TYPES = {
    "voice": "audio/ogg",
    "audio": "audio/mpeg",
    "video": "video/mp4",
    "video_note": "",
    "sticker": "",
    "animation": "video/mp4",
    "document": "application/octet-stream",
}
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "voice": {"duration": 3},
    "audio": {"duration": 180, "title": "Song"},
    "video": {"duration": 3, "width": 640, "height": 480},
    "video_note": {"duration": 3, "length": 240},
    "animation": {"duration": 3, "width": 320, "height": 240},
    "sticker": {
        "type": "regular",
        "width": 512,
        "height": 512,
        "is_animated": False,
        "is_video": False,
        "emoji": "\U0001f642",
    },
    "document": {},
}
_NAMED = {"audio", "video", "animation", "document"}
_ALBUM = (2, 10)


class Sendings(People):
    """Sends files and the like for people; each returns the message's id."""

    def photo(
        self,
        chat: Chat,
        person: Person,
        content: bytes,
        *,
        caption: str = "",
        album: str = "",
        thread: int | None = None,
        reply_to: int | None = None,
    ) -> int:
        """Send a picture; those of one `album` share a `media_group_id`. No picture: `Refused`."""
        upload = Upload(name="photo", content=content, mime_type="image/*")
        fields = {"photo": picture(self._world, upload), "media_group_id": album, **_caption(caption)}
        return self.send(chat, person, {k: v for k, v in fields.items() if v}, thread=thread, reply_to=reply_to)

    def album(
        self, chat: Chat, person: Person, pictures: Sequence[bytes], *, caption: str = "", thread: int | None = None
    ) -> list[int]:
        """Send 2 to 10 pictures at once, with a caption under the first, as the apps do."""
        if not _ALBUM[0] <= len(pictures) <= _ALBUM[1]:
            raise ValueError(f"an album has 2 to 10 pictures, not {len(pictures)}")
        group = str(next(self._query_ids))
        return [
            self.photo(chat, person, each, caption="" if number else caption, album=group, thread=thread)
            for number, each in enumerate(pictures)
        ]

    def file(
        self,
        chat: Chat,
        person: Person,
        content: bytes,
        *,
        kind: str = "document",
        name: str = "",
        mime_type: str = "",
        caption: str = "",
        thread: int | None = None,
        reply_to: int | None = None,
        **fields: Any,
    ) -> int:
        """Send a file as `document`, `voice`, `audio`, `video`, `video_note`, `animation` or `sticker`.

        `fields` are further ones of that kind in the API, such as `is_animated` of a sticker.
        """
        mime_type = mime_type or _MIME_TYPES[kind]
        stored = self._world.store(Upload(name=name or kind, content=content, mime_type=mime_type))
        about: dict[str, Any] = {**stored, **_FIELDS[kind], **fields}
        about |= {"file_name": name} if name and kind in _NAMED else {}
        about |= {"mime_type": mime_type} if mime_type else {}
        held: dict[str, Any] = {kind: about, **_caption(caption)}
        if kind == "animation":
            held["document"] = {name: about[name] for name in about if name not in _FIELDS["animation"]}
        return self.send(chat, person, held, thread=thread, reply_to=reply_to)

    def document(self, chat: Chat, person: Person, content: bytes, *, name: str, mime_type: str) -> int:
        """Send a file."""
        return self.file(chat, person, content, name=name, mime_type=mime_type)

    def grow(self, file_id: str, content: bytes) -> None:
        """Let the download of a file bring other content than its size says."""
        self._world.grown[file_id] = replace(self._world.files[file_id], content=content)

    def forward(
        self, chat: Chat, person: Person, text: str, *, of: Person | Chat | str, thread: int | None = None
    ) -> int:
        """Forward a text that a person or a chat has said elsewhere; a name alone is that of one who hides."""
        said = {"text": text, "forward_origin": {"date": self._world.now(), **_origin(of)}}
        return self.send(chat, person, said, thread=thread)


def _origin(of: Person | Chat | str) -> dict[str, Any]:
    if isinstance(of, Person):
        return {"type": "user", "sender_user": of.api()}
    if isinstance(of, Chat):
        return {"type": "chat", "sender_chat": of.api()}
    return {"type": "hidden_user", "sender_user_name": of}


def _caption(caption: str) -> dict[str, Any]:
    if units(caption) > CAPTION_LIMIT:
        raise ValueError(f"a caption has at most {CAPTION_LIMIT} UTF-16 units, not {units(caption)}")
    entities = typed_entities(caption)
    return {key: value for key, value in (("caption", caption), ("caption_entities", entities)) if value}
