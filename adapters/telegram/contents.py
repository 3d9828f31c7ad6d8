"""What a message holds besides its text: files that can be fetched, and what can be said in words instead.

Everything here reads a `Message` and, of what is answered in another chat, an `ExternalReplyInfo`: both name what they
hold alike.
"""

from collections.abc import Iterator
from typing import Any

from telegram import ExternalReplyInfo, Message, PhotoSize, Sticker

from adapters.base import Attachment

_FILES = ("photo", "voice", "audio", "video", "video_note", "animation", "document", "sticker")
_TYPES = {"photo": "image/jpeg", "voice": "audio/ogg", "video_note": "video/mp4", "sticker": "image/webp"}
"""What Telegram makes of these kinds whatever they were; of the others it says the type."""

Holder = Message | ExternalReplyInfo


def attachments(holder: Holder) -> tuple[Attachment, ...]:
    """Return the files that came along; of a photo its largest size."""
    return tuple(_attachments(holder))


def in_words(holder: Holder) -> str:
    """Return in words what is no file and no text: a place, a contact, a poll and the like; empty if there is none."""
    return "\n".join(_words(holder))


def _attachments(holder: Holder) -> Iterator[Attachment]:
    for kind in _FILES:
        file = getattr(holder, kind)
        if kind == "document" and holder.animation:  # Telegram names an animation twice
            continue
        if kind == "photo" and file:
            file = max(file, key=_area)
        if file and not (isinstance(file, Sticker) and _moves(file)):
            yield Attachment(
                kind=kind,
                file_id=file.file_id,
                name=getattr(file, "file_name", None) or "",
                media_type=getattr(file, "mime_type", None) or _TYPES.get(kind, ""),
                size=file.file_size,
            )


def _area(size: PhotoSize) -> int:
    return size.width * size.height


def _moves(sticker: Sticker) -> bool:
    return sticker.is_animated or sticker.is_video


def _words(holder: Holder) -> Iterator[str]:
    if holder.venue:
        yield f"(A place: {holder.venue.title}, {holder.venue.address}, {_where(holder.venue.location)})"
    elif holder.location:
        yield f"(A location: {_where(holder.location)})"
    if contact := holder.contact:
        name = " ".join(filter(None, (contact.first_name, contact.last_name)))
        yield f"(A contact: {name}, {contact.phone_number})"
    if poll := holder.poll:
        options = "".join(f"\n- {option.text}" for option in poll.options)
        yield f"(A poll: {poll.question}){options}"
    if holder.checklist:
        tasks = "".join(f"\n- {task.text}" for task in holder.checklist.tasks)
        yield f"(A checklist: {holder.checklist.title}){tasks}"
    if holder.dice:
        yield f"(Thrown: {holder.dice.emoji} {holder.dice.value})"
    if holder.sticker and _moves(holder.sticker):
        yield f"(A moving sticker: {holder.sticker.emoji or 'without a meaning'})"
    if holder.story:
        yield f"(A story of {holder.story.chat.effective_name or 'somebody'}, which bots can't see)"
    if holder.game:
        yield f"(A game: {holder.game.title})"


def _where(location: Any) -> str:
    return f"latitude {location.latitude:.5f}, longitude {location.longitude:.5f}"
