"""What Telegram's servers know: people, chats, messages and files, kept while bots come and go."""

import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.standins.telegram_wire import Refused, Upload

DRAFT_SECONDS = 30.0
"""How long a draft is to be seen after it was last sent."""

_MINUTE = 60.0
_BLOCKED = "Forbidden: bot was blocked by the user"
_KICKED = "Forbidden: bot was kicked from the {} chat"
_STRANGER = "Forbidden: bot can't initiate conversation with a user"


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A Telegram user, a human or a bot."""

    id: int
    first_name: str
    last_name: str = ""
    username: str = ""
    language_code: str = ""
    is_bot: bool = False

    def api(self) -> dict[str, Any]:
        """Write it as the API's `User`."""
        names = {"last_name": self.last_name, "username": self.username, "language_code": self.language_code}
        present = {name: value for name, value in names.items() if value}
        return {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name, **present}


@dataclass(frozen=True, kw_only=True, slots=True)
class Chat:
    """A chat; `type` is `private`, `group` or `supergroup`."""

    id: int
    type: str
    title: str = ""
    person: Person | None = None
    is_forum: bool = False

    def api(self) -> dict[str, Any]:
        """Write it as the API's `Chat`."""
        if self.person is not None:
            user = self.person.api()
            return {"id": self.id, "type": self.type} | {
                name: user[name] for name in ("first_name", "last_name", "username") if name in user
            }
        forum = {"is_forum": True} if self.is_forum else {}
        return {"id": self.id, "type": self.type, "title": self.title, **forum}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A message as it is visible in its chat now."""

    message_id: int
    sender: int
    from_bot: bool
    text: str
    """The text, or the caption of a file."""
    entities: tuple[Mapping[str, Any], ...]
    reply_to: int | None
    thread: int | None
    edited: bool
    date: int
    file_id: str
    reactions: tuple[str, ...]
    buttons: tuple[str, ...]
    """The `callback_data` of its keyboard."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """An answer that is being written, as its person sees it; without text it says "Thinking…"."""

    id: int
    text: str
    can_stop: bool
    until: float


@dataclass(kw_only=True)
class Room:
    """A chat with what changes in it; messages are kept as the API's `Message` objects."""

    chat: Chat
    ids: "itertools.count[int]"
    messages: dict[int, dict[str, Any]] = field(default_factory=dict)
    members: dict[int, str] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)
    closed_topics: set[int] = field(default_factory=set)
    reactions: dict[int, tuple[str, ...]] = field(default_factory=dict)
    drafts: dict[int | None, Draft] = field(default_factory=dict)
    """By topic, one each."""

    allows_reactions: bool = True
    forbidden: set[str] = field(default_factory=set)
    """What the bot may not send: `photos`, `documents`."""

    taken: list[float] = field(default_factory=list)
    """When the bot's last posts and edits came."""

    actions: list[str] = field(default_factory=list)
    moved_to: int | None = None

    def shown(self) -> list[Shown]:
        """Return what is visible now, in order."""
        return [self._shown(message) for _, message in sorted(self.messages.items())]

    def _shown(self, message: dict[str, Any]) -> Shown:
        keyboard = message.get("reply_markup", {}).get("inline_keyboard", [])
        kinds = ("document", "voice", "audio", "video", "video_note", "sticker")
        named: dict[str, Any] = next((message[kind] for kind in kinds if kind in message), {})
        file = named or (message.get("photo") or [{}])[-1]
        return Shown(
            message_id=message["message_id"],
            sender=message["from"]["id"],
            from_bot=message["from"]["is_bot"],
            text=message.get("text", message.get("caption", "")),
            entities=tuple(message.get("entities", message.get("caption_entities", ()))),
            reply_to=message.get("reply_to_message", {}).get("message_id"),
            thread=message.get("message_thread_id") if message.get("is_topic_message") else None,
            edited="edit_date" in message,
            date=message["date"],
            file_id=file.get("file_id", ""),
            reactions=self.reactions.get(message["message_id"], ()),
            buttons=tuple(b["callback_data"] for row in keyboard for b in row if "callback_data" in b),
        )


class Messenger:
    """All chats of one bot. Message ids count per group, and over all private chats together."""

    def __init__(
        self,
        bot: Person,
        clock: Callable[[], float],
        *,
        privacy: bool,
        group_limit: int | None,
        disk: Path | None,
    ) -> None:
        self.bot = bot
        self.privacy = privacy
        self.disk = disk
        self._group_limit = group_limit
        self.rooms: dict[int, Room] = {}
        self.people: dict[int, Person] = {bot.id: bot}
        self.files: dict[str, Upload] = {}
        self.grown: dict[str, Upload] = {}
        self.queries: set[str] = set()
        self.commands: dict[str, list[dict[str, str]]] = {}
        self.clock = clock
        self._private_ids = itertools.count(1)

    def now(self) -> int:
        """Return the time in whole seconds, as messages carry it."""
        return int(self.clock())

    def add_room(self, chat: Chat) -> Room:
        """Open a chat, or return the one that is there."""
        if chat.id not in self.rooms:
            ids = self._private_ids if chat.type == "private" else itertools.count(1)
            self.rooms[chat.id] = Room(chat=chat, ids=ids, members={self.bot.id: "member"})
        return self.rooms[chat.id]

    def room(self, chat_id: object) -> Room:
        """Return the chat that a request names; raises `Refused` if it names none, or one that has moved."""
        if chat_id is None:
            raise Refused.bad("chat_id is empty")
        if isinstance(chat_id, int) and chat_id in self.rooms:
            return self._reachable(self.rooms[chat_id])
        if chat_id in self.people and chat_id != self.bot.id:
            raise Refused(403, _STRANGER)
        raise Refused.bad("chat not found")

    def _reachable(self, room: Room) -> Room:
        if room.moved_to is not None:
            raise Refused(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=room.moved_to,
            )
        if room.members[self.bot.id] in {"kicked", "left"}:
            raise Refused(403, _BLOCKED if room.chat.person else _KICKED.format(room.chat.type))
        return room

    def check_thread(self, room: Room, thread: int | None) -> None:
        """Refuse a topic that the chat doesn't have, or a closed one; the General topic has no id."""
        if thread is None:
            return
        if thread not in room.topics:
            raise Refused.bad("message thread not found")
        if thread in room.closed_topics and room.members[self.bot.id] != "administrator":
            raise Refused.bad("TOPIC_CLOSED")

    def count_in(self, room: Room) -> None:
        """Count a post or an edit of the bot's; a group that takes no more for now refuses it."""
        if self._group_limit is None or room.chat.person is not None:
            return
        now = self.clock()
        room.taken = [at for at in room.taken if at > now - _MINUTE]
        if len(room.taken) >= self._group_limit:
            wait = max(int(room.taken[0] + _MINUTE - now) + 1, 1)
            raise Refused(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        room.taken.append(now)

    def post(
        self,
        room: Room,
        sender: Person,
        content: Mapping[str, Any],
        *,
        reply_to: int | None,
        thread: int | None,
    ) -> dict[str, Any]:
        """Put a message into a chat and return it as the API shows it."""
        message_id = next(room.ids)
        message: dict[str, Any] = {
            "message_id": message_id,
            "from": sender.api(),
            "chat": room.chat.api(),
            "date": self.now(),
            **self._context(room, reply_to, thread),
            **content,
        }
        room.messages[message_id] = message
        if sender.id == self.bot.id:
            room.drafts.pop(thread, None)
        room.members.setdefault(sender.id, "member")
        return message

    def _context(self, room: Room, reply_to: int | None, thread: int | None) -> dict[str, Any]:
        """Say what a message answers and where it stands, with two traps that the real API has.

        In a topic, a message that answers nothing claims to answer the one that opened the topic. In a group
        without topics, a reply carries the id of the first message of its chain as `message_thread_id`.
        """
        context: dict[str, Any] = {}
        answered = room.messages.get(reply_to if reply_to is not None else thread or 0)
        if answered is not None:
            context["reply_to_message"] = {k: v for k, v in answered.items() if k != "reply_to_message"}
        if thread is not None:
            context |= {"message_thread_id": thread, "is_topic_message": True}
        elif answered is not None and room.chat.type == "supergroup" and not room.topics:
            context["message_thread_id"] = answered.get("message_thread_id", answered["message_id"])
        return context

    def store(self, upload: Upload) -> dict[str, Any]:
        """Keep a file and return its ids and size; the same content gets another `file_id` each time."""
        unique = hashlib.sha256(upload.content).hexdigest()[:16]
        file_id = f"file-{len(self.files) + 1}-{unique}"
        self.files[file_id] = upload
        return {"file_id": file_id, "file_unique_id": unique, "file_size": len(upload.content)}
