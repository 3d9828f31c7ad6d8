"""People and chats of the Telegram stand-in: who is there, what they do, and what they see."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from adapters.standins.telegram_chats import Chat, Messenger, Person, Room, Shown
from adapters.standins.telegram_methods import picture
from adapters.standins.telegram_text import CAPTION_LIMIT, TEXT_LIMIT, typed_entities, units
from adapters.standins.telegram_updates import Updates
from adapters.standins.telegram_wire import Upload

_OWNER = Person(id=1, first_name="Owner", username="owner")
_TOPIC_COLOUR = 0x6FB9F0
_SERVICE = {
    "forum_topic_created",
    "forum_topic_closed",
    "left_chat_member",
    "migrate_from_chat_id",
    "migrate_to_chat_id",
    "new_chat_members",
    "new_chat_title",
    "pinned_message",
}


class People:
    """Acts for the people that chat with one bot; what they do becomes updates for it."""

    def __init__(self, world: Messenger, updates: Updates, *, changed: Callable[[], None]) -> None:
        self.bot = world.bot
        self._world, self._updates, self._changed = world, updates, changed
        self._query_ids = itertools.count(1)

    # ---- people and chats

    def person(
        self,
        id: int,  # noqa: A002 - the API's word
        *,
        first_name: str = "",
        username: str = "",
        language_code: str = "",
    ) -> Person:
        """Register a person, or give a known one other names; a stranger until `private` is called."""
        known = self._world.people.get(id)
        if known is not None and not first_name:
            return known
        person = Person(id=id, first_name=first_name or f"User {id}", username=username, language_code=language_code)
        self._world.people[id] = person
        return person

    def private(self, person: Person) -> Chat:
        """Return the person's private chat with the bot, started."""
        self._world.people.setdefault(person.id, person)
        room = self._world.add_room(Chat(id=person.id, type="private", person=person))
        room.members.setdefault(person.id, "member")
        return room.chat

    def group(
        self,
        id: int,  # noqa: A002 - the API's word
        *,
        title: str = "",
        topics: Mapping[int, str] | None = None,
        topics_by: Person = _OWNER,
        bot_status: str = "member",
    ) -> Chat:
        """Return a group with the bot in it, made when first named; `-100…` ids are supergroups.

        `topics` (id to name) make it a forum; a topic's id is that of the service message with which
        `topics_by` opened it, before the bot came. `bot_status` is `member` or `administrator`.
        """
        if id in self._world.rooms:
            return self._world.rooms[id].chat
        kind = "supergroup" if str(id).startswith("-100") or topics else "group"
        chat = Chat(id=id, type=kind, title=title or f"Group {id}", is_forum=bool(topics))
        room = self._world.add_room(chat)
        room.members |= {_OWNER.id: "creator", self.bot.id: bot_status}
        self._world.people.setdefault(_OWNER.id, _OWNER)
        for topic, name in sorted((topics or {}).items()):
            room.ids = itertools.count(topic)
            self._open_topic(room, name, topics_by)
        return chat

    def open_topic(self, chat: Chat, name: str, *, by: Person) -> int:
        """Open a topic in a forum or a private chat and return its id, that of the message that says so."""
        room = self._room(chat)
        if chat.person is None and not chat.is_forum:
            raise ValueError(f"{chat.id} is a group without topics")
        created = self._open_topic(room, name, by)
        self._put("message", created)
        return int(created["message_id"])

    def close_topic(self, chat: Chat, thread: int) -> None:
        """Close a topic: only administrators may write there."""
        self._room(chat).closed_topics.add(thread)

    def set_bot_status(self, chat: Chat, status: str, *, by: Person) -> None:
        """Block (`kicked`), add (`member`), promote or remove the bot; `my_chat_member` tells it."""
        room = self._room(chat)
        old, room.members[self.bot.id] = room.members[self.bot.id], status
        change = {
            name: {
                "status": value,
                "user": self.bot.api(),
                **({"until_date": 0} if value == "kicked" else {}),
            }
            for name, value in (("old_chat_member", old), ("new_chat_member", status))
        }
        self._put(
            "my_chat_member",
            {"chat": chat.api(), "from": by.api(), "date": self._world.now(), **change},
        )

    def migrate(self, chat: Chat, *, to: int) -> Chat:
        """Upgrade a group to a supergroup; from now on its old id is answered with `migrate_to_chat_id`."""
        old = self._room(chat)
        new = self.group(to, title=chat.title, bot_status=old.members[self.bot.id])
        old.moved_to = to
        self._service(old, {"migrate_to_chat_id": to})
        self._service(self._room(new), {"migrate_from_chat_id": chat.id})
        return new

    # ---- what people do

    def say(
        self,
        chat: Chat,
        person: Person,
        text: str,
        *,
        reply_to: int | None = None,
        thread: int | None = None,
    ) -> int:
        """Write a text and return its message id; commands and mentions become entities."""
        if not 1 <= units(text) <= TEXT_LIMIT:
            raise ValueError(f"a person can send 1 to {TEXT_LIMIT} UTF-16 units at once, not {units(text)}")
        entities = typed_entities(text)
        content = {"text": text, **({"entities": entities} if entities else {})}
        return self.send(chat, person, content, reply_to=reply_to, thread=thread)

    def photo(
        self,
        chat: Chat,
        person: Person,
        content: bytes,
        *,
        caption: str = "",
        album: str = "",
        thread: int | None = None,
    ) -> int:
        """Send a picture; those of one `album` share a `media_group_id`. No picture: `Refused`."""
        if units(caption) > CAPTION_LIMIT:
            raise ValueError(f"a caption has at most {CAPTION_LIMIT} UTF-16 units, not {units(caption)}")
        upload = Upload(name="photo", content=content, mime_type="image/*")
        entities = typed_entities(caption)
        fields = {"photo": picture(self._world, upload), "caption": caption, "media_group_id": album}
        fields["caption_entities"] = entities
        return self.send(chat, person, {k: v for k, v in fields.items() if v}, thread=thread)

    def document(self, chat: Chat, person: Person, content: bytes, *, name: str, mime_type: str) -> int:
        """Send a file."""
        stored = self._world.store(Upload(name=name, content=content, mime_type=mime_type))
        return self.send(chat, person, {"document": {**stored, "file_name": name, "mime_type": mime_type}})

    def send(
        self,
        chat: Chat,
        person: Person,
        content: Mapping[str, Any],
        *,
        reply_to: int | None = None,
        thread: int | None = None,
    ) -> int:
        """Send anything, given as the fields of the API's `Message`, and return its message id."""
        room = self._room(chat)
        if reply_to is not None and reply_to not in room.messages:
            raise ValueError(f"there is no message {reply_to} in {chat.id} to reply to")
        if thread is not None and thread not in room.topics:
            raise ValueError(f"{chat.id} has no topic {thread}")
        self._world.people.setdefault(person.id, person)
        message = self._world.post(room, person, content, reply_to=reply_to, thread=thread)
        if self._reaches_bot(room, message):
            self._put("message", message)
        self._changed()
        return int(message["message_id"])

    def edit(self, chat: Chat, message_id: int, text: str) -> None:
        """Change the text of a person's message."""
        room = self._room(chat)
        message = room.messages[message_id]
        entities = typed_entities(text)
        message.pop("entities", None)
        message |= {
            "text": text,
            "edit_date": self._world.now(),
            **({"entities": entities} if entities else {}),
        }
        if self._reaches_bot(room, message):
            self._put("edited_message", message)
        self._changed()

    def delete(self, chat: Chat, message_id: int) -> None:
        """Take a message away; the bot is not told."""
        del self._room(chat).messages[message_id]
        self._changed()

    def press(self, chat: Chat, person: Person, message_id: int, data: str) -> str:
        """Press a button of the bot's message and return the id of the query that the bot gets."""
        room = self._room(chat)
        shown = next((each for each in room.shown() if each.message_id == message_id), None)
        if shown is None or data not in shown.buttons:
            raise ValueError(f"message {message_id} in {chat.id} has no button {data!r}")
        query_id = str(next(self._query_ids))
        self._world.queries.add(query_id)
        query = {
            "id": query_id,
            "from": person.api(),
            "message": room.messages[message_id],
            "chat_instance": str(chat.id),
            "data": data,
        }
        self._put("callback_query", query)
        return query_id

    # ---- what can be seen

    def chat(self, id: int) -> Chat | None:  # noqa: A002 - the API's word
        """Return the chat of this id, if it was opened."""
        room = self._world.rooms.get(id)
        return room.chat if room else None

    def messages(self, chat: Chat) -> list[Shown]:
        """Return what is visible in the chat now, in order, service messages included."""
        return self._room(chat).shown()

    def draft(self, chat: Chat) -> str | None:
        """Return the draft that the person sees; None after the bot has posted a message."""
        return self._room(chat).draft

    def actions(self, chat: Chat) -> tuple[str, ...]:
        """Return every chat action that the bot has sent to the chat."""
        return tuple(self._room(chat).actions)

    @property
    def pending(self) -> tuple[dict[str, Any], ...]:
        """The updates that the bot has not confirmed yet."""
        return self._updates.pending

    # ---- inside

    def _room(self, chat: Chat) -> Room:
        return self._world.rooms[chat.id]

    def _put(self, kind: str, content: dict[str, Any]) -> None:
        self._updates.put(kind, content)
        self._changed()

    def _open_topic(self, room: Room, name: str, by: Person) -> dict[str, Any]:
        content = {"forum_topic_created": {"name": name, "icon_color": _TOPIC_COLOUR}}
        created = self._world.post(room, by, content, reply_to=None, thread=None)
        created |= {"message_thread_id": created["message_id"], "is_topic_message": True}
        room.topics[created["message_id"]] = name
        return created

    def _service(self, room: Room, content: Mapping[str, Any]) -> None:
        self._put("message", self._world.post(room, _OWNER, content, reply_to=None, thread=None))

    def _reaches_bot(self, room: Room, message: Mapping[str, Any]) -> bool:
        status = room.members[self.bot.id]
        if status in {"kicked", "left"} or room.moved_to is not None:
            return False
        if room.chat.person is not None or not self._world.privacy or status == "administrator":
            return True
        if not _SERVICE.isdisjoint(message):
            return True
        answered = message.get("reply_to_message", {})
        to_bot = answered.get("from", {}).get("id") == self.bot.id and "forum_topic_created" not in answered
        return to_bot or self._is_named(message)

    def _is_named(self, message: Mapping[str, Any]) -> bool:
        text = message.get("text", message.get("caption", "")).encode("utf-16-le")
        for entity in message.get("entities", message.get("caption_entities", ())):
            start = 2 * entity["offset"]
            typed = text[start : start + 2 * entity["length"]].decode("utf-16-le").lower()
            name, at, target = typed.partition("@")
            named = target == self.bot.username.lower()
            if entity["type"] == "bot_command" and (named or not at):
                return True
            if entity["type"] == "mention" and not name and named:
                return True
        return False
