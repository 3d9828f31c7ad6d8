"""People and chats of the Telegram stand-in: who is there, what they do, and what they see."""

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any

from adapters.standins.telegram_chats import Chat, Draft, Messenger, Person, Room, Shown
from adapters.standins.telegram_members import member
from adapters.standins.telegram_privacy import reaches_bot
from adapters.standins.telegram_text import TEXT_LIMIT, typed_entities, units
from adapters.standins.telegram_updates import Updates

_OWNER = Person(id=1, first_name="Owner", username="owner")
_TOPIC_COLOUR = 0x6FB9F0


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
        """Block (`kicked`), add (`member`), promote, silence (`restricted`) or remove the bot; it is told."""
        room = self._room(chat)
        old, room.members[self.bot.id] = room.members[self.bot.id], status
        change = {
            name: member(self.bot, value) for name, value in (("old_chat_member", old), ("new_chat_member", status))
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
        quote: str = "",
    ) -> int:
        """Write a text and return its message id; commands and mentions become entities.

        `quote` marks a part of what is answered.
        """
        if not 1 <= units(text) <= TEXT_LIMIT:
            raise ValueError(f"a person can send 1 to {TEXT_LIMIT} UTF-16 units at once, not {units(text)}")
        entities = typed_entities(text)
        content: dict[str, Any] = {"text": text, **({"entities": entities} if entities else {})}
        if quote:
            content["quote"] = self._quote(chat, reply_to, quote)
        return self.send(chat, person, content, reply_to=reply_to, thread=thread)

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
        if reaches_bot(self._world, room, message):
            self._put("message", message)
        self._changed()
        return int(message["message_id"])

    def edit(self, chat: Chat, message_id: int, text: str) -> None:
        """Change the text of a person's message, or the caption of their file."""
        room = self._room(chat)
        message = room.messages[message_id]
        words, marks = ("text", "entities") if "text" in message else ("caption", "caption_entities")
        entities = typed_entities(text)
        message.pop(marks, None)
        message |= {words: text, "edit_date": self._world.now(), **({marks: entities} if entities else {})}
        if reaches_bot(self._world, room, message):
            self._put("edited_message", message)
        self._changed()

    def _quote(self, chat: Chat, reply_to: int | None, quote: str) -> dict[str, Any]:
        answered = self._room(chat).messages.get(reply_to or 0, {})
        before, found, _ = answered.get("text", answered.get("caption", "")).partition(quote)
        if not found:
            raise ValueError(f"message {reply_to} in {chat.id} does not say {quote!r}")
        return {"text": quote, "position": units(before), "is_manual": True}

    def delete(self, chat: Chat, message_id: int) -> None:
        """Take a message away; the bot is not told."""
        del self._room(chat).messages[message_id]
        self._changed()

    def press(self, chat: Chat, person: Person, message_id: int, data: str) -> str:
        """Press a button of the bot's message and return the id of the query that the bot gets.

        Of a message that was deleted meanwhile the person's app still shows the button, and the bot learns only the id.
        """
        room = self._room(chat)
        if message_id not in room.messages:
            gone = {"chat": chat.api(), "message_id": message_id, "date": 0}
            return self._query(chat, person, gone, data)
        shown = next((each for each in room.shown() if each.message_id == message_id), None)
        if shown is None or data not in shown.buttons:
            raise ValueError(f"message {message_id} in {chat.id} has no button {data!r}")
        return self._query(chat, person, room.messages[message_id], data)

    def _query(self, chat: Chat, person: Person, message: Mapping[str, Any], data: str) -> str:
        query_id = str(next(self._query_ids))
        self._world.queries.add(query_id)
        query = {
            "id": query_id,
            "from": person.api(),
            "message": message,
            "chat_instance": str(chat.id),
            "data": data,
        }
        self._put("callback_query", query)
        return query_id

    def stop(self, chat: Chat, *, thread: int | None = None) -> None:
        """Press the stop button of the draft that is to be seen; it goes away, and the bot is told."""
        draft = self._draft(chat, thread)
        if draft is None or not draft.can_stop:
            raise ValueError(f"there is no draft in {chat.id} that could be stopped")
        del self._room(chat).drafts[thread]
        where = {"message_thread_id": thread} if thread is not None else {}
        self._put("stopped_message_generation", {"chat": chat.api(), "draft_id": draft.id, **where})

    def react(self, chat: Chat, person: Person, message_id: int, emoji: str) -> None:
        """React to a message; a bot is told in private chats, and as administrator, if it has asked for that."""
        room = self._room(chat)
        reactions = [{"type": "emoji", "emoji": emoji}]
        if room.chat.person is not None or room.members[self.bot.id] == "administrator":
            change = {"old_reaction": [], "new_reaction": reactions, "date": self._world.now(), "user": person.api()}
            self._put("message_reaction", {"chat": chat.api(), "message_id": message_id, **change})

    def allow(self, chat: Chat, *, reactions: bool = True, forbidden: Collection[str] = ()) -> None:
        """Set whether a chat has reactions, and what of `photos` and `documents` the bot may not send there."""
        room = self._room(chat)
        room.allows_reactions, room.forbidden = reactions, set(forbidden)

    # ---- what can be seen

    def chat(self, id: int) -> Chat | None:  # noqa: A002 - the API's word
        """Return the chat of this id, if it was opened."""
        room = self._world.rooms.get(id)
        return room.chat if room else None

    def messages(self, chat: Chat) -> list[Shown]:
        """Return what is visible in the chat now, in order, service messages included."""
        return self._room(chat).shown()

    def draft(self, chat: Chat, *, thread: int | None = None) -> str | None:
        """Return the text of the draft that the person sees, empty for "Thinking…"; None if there is none.

        It vanishes when the bot posts there, and 30 s after it was last sent.
        """
        draft = self._draft(chat, thread)
        return None if draft is None else draft.text

    def actions(self, chat: Chat) -> tuple[str, ...]:
        """Return every chat action that the bot has sent to the chat."""
        return tuple(self._room(chat).actions)

    @property
    def pending(self) -> tuple[dict[str, Any], ...]:
        """The updates that the bot has not confirmed yet."""
        return self._updates.pending

    # ---- inside

    def _draft(self, chat: Chat, thread: int | None) -> Draft | None:
        draft = self._room(chat).drafts.get(thread)
        return draft if draft is not None and draft.until > self._world.clock() else None

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
