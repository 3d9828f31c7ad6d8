"""The workspace behind the Slack stand-in: its state, and the events that every change of it causes."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from adapters.standins.slack_blocks import Limits, RefusalError
from adapters.standins.slack_values import AgentSession, Channel, MentionOrder, Message, Person, StoredFile, View


class Workspace:
    """All state of one team with one bot. What Slack tells an app about goes to `publish` as an event."""

    stream_seconds = 300.0
    """How long a stream stays open after its start, whether or not it is appended to."""

    def __init__(
        self,
        *,
        team_id: str,
        bot: Person,
        bot_id: str,
        app_id: str,
        now: Callable[[], float],
        publish: Callable[[dict[str, Any]], None],
        changed: Callable[[], None],
    ) -> None:
        self.team_id, self.team_name, self.bot, self.bot_id, self.app_id = (
            team_id,
            "Stand-in",
            bot,
            bot_id,
            app_id,
        )
        self.now, self._publish, self.changed = now, publish, changed
        self.base = "http://127.0.0.1"
        self.limits = Limits()
        self.view: View = "classic"
        self.mention_order: MentionOrder = "message_first"
        self.people: dict[str, Person] = {bot.id: bot}
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, StoredFile] = {}
        self.statuses: dict[tuple[str, str], str] = {}
        self.titles: dict[tuple[str, str], str] = {}
        self.prompts: dict[tuple[str, str], list[dict[str, str]]] = {}
        self.sessions: dict[tuple[str, str], AgentSession] = {}
        self.views: dict[str, dict[str, Any]] = {}
        self.tickets: set[str] = set()
        self.ephemeral: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)
        self._last_ts = 0

    def number(self) -> int:
        """Return a number that was not returned before."""
        return next(self._numbers)

    def next_ts(self) -> str:
        """Return a timestamp after every earlier one, by the clock where that is possible."""
        self._last_ts = max(int(self.now() * 1_000_000) // 100 * 100, self._last_ts + 100)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    # who and where

    def channel(self, id_: object) -> Channel:
        """Return a channel that the bot can know of; raises `channel_not_found`."""
        channel = self.channels.get(str(id_)) or next(
            (c for c in self.channels.values() if c.name and f"#{c.name}" == id_), None
        )
        if channel is None or (channel.kind != "channel" and self.bot.id not in channel.members):
            raise RefusalError("channel_not_found")
        return channel

    def postable(self, id_: object) -> Channel:
        """Return the channel to post to, a person's id meaning their direct messages; raises like Slack."""
        if str(id_) in self.people and str(id_) != self.bot.id:
            return self.open_im([str(id_)])
        channel = self.channel(id_)
        if channel.is_archived:
            raise RefusalError("is_archived")
        if self.bot.id not in channel.members:
            raise RefusalError("not_in_channel")
        return channel

    def person(self, id_: object) -> Person:
        """Return a member of the workspace; raises `user_not_found`."""
        if str(id_) not in self.people:
            raise RefusalError("user_not_found")
        return self.people[str(id_)]

    def open_im(self, users: Sequence[str]) -> Channel:
        """Return the direct conversation of the bot with these people, made if there is none yet."""
        members = sorted({self.person(user).id for user in users} | {self.bot.id})
        kind: Literal["im", "mpim"] = "im" if len(members) == 2 else "mpim"
        for channel in self.channels.values():
            if channel.kind == kind and sorted(channel.members) == members:
                return channel
        suffix = next(user for user in members if user != self.bot.id)[1:] if kind == "im" else f"G{self.number():08d}"
        made = Channel(id=f"D{suffix}" if kind == "im" else suffix, kind=kind, members=members)
        self.channels[made.id] = made
        return made

    # what is posted

    def post(self, channel: Channel, message: Message) -> Message:
        """Put a new message into the channel and tell the app about it."""
        channel.messages.append(message)
        if message.bot_id:
            self.statuses.pop((channel.id, message.root), None)  # Slack clears it when the app answers
        self._tell_posted(channel, message)
        self.changed()
        return message

    def change(self, channel: Channel, message: Message, before: Mapping[str, Any]) -> None:
        """Tell the app that a message became another; `before` is its form until now."""
        self.emit_in(
            channel,
            {
                "type": "message",
                "subtype": "message_changed",
                "hidden": True,
                "message": self.shape(channel, message),
                "previous_message": dict(before),
                "ts": self.next_ts(),
            },
        )
        self.changed()

    def delete(self, channel: Channel, message: Message) -> None:
        """Take a message away and tell the app."""
        channel.messages.remove(message)
        self.emit_in(
            channel,
            {
                "type": "message",
                "subtype": "message_deleted",
                "hidden": True,
                "deleted_ts": message.ts,
                "previous_message": self.shape(channel, message),
                "ts": self.next_ts(),
            },
        )
        self.changed()

    def streaming(self, message: Message) -> bool:
        """Whether the message is a stream that still takes text."""
        return message.stream == "open" and self.now() - message.started_at < self.stream_seconds

    def visible(self, channel: Channel, *, thread_ts: str | None = None) -> list[Message]:
        """Return what stands in the channel, or in one of its threads with its first message, in order."""
        return [m for m in channel.messages if thread_ts is None or m.root == thread_ts]

    # events

    def _tell_posted(self, channel: Channel, message: Message) -> None:
        event = {**self.shape(channel, message), "channel_type": _CHANNEL_TYPES[channel.kind]}
        event.pop("metadata", None)
        events = [event]
        if channel.kind != "im" and not message.bot_id and f"<@{self.bot.id}>" in message.text:
            mention = {k: v for k, v in event.items() if k not in {"channel_type", "subtype"}}
            events.append({**mention, "type": "app_mention"})
        for one in events if self.mention_order == "message_first" else reversed(events):
            self.emit_in(channel, {**one, "event_ts": message.ts})

    def emit_in(self, channel: Channel, event: dict[str, Any]) -> None:
        """Tell the app about something in a channel, if its bot is a member there."""
        if self.bot.id in channel.members:
            kind = {"channel_type": _CHANNEL_TYPES[channel.kind]} if event["type"] == "message" else {}
            self.emit({**event, "channel": channel.id, **kind})

    def emit(self, event: dict[str, Any]) -> None:
        """Hand an event to the app, with an id of its own."""
        self._publish(
            {
                "token": "stand-in",
                "team_id": self.team_id,
                "context_team_id": self.team_id,
                "api_app_id": self.app_id,
                "event": {"event_ts": event.get("ts") or self.next_ts(), **event},
                "type": "event_callback",
                "event_id": f"Ev{self.number():010d}",
                "event_time": int(self.now()),
                "is_ext_shared_channel": False,
                "authorizations": [
                    {
                        "enterprise_id": None,
                        "team_id": self.team_id,
                        "user_id": self.bot.id,
                        "is_bot": True,
                        "is_enterprise_install": False,
                    }
                ],
            }
        )

    # shapes of the API

    def shape(self, channel: Channel, message: Message) -> dict[str, Any]:
        """Return a message in the form of `conversations.history` and of events, with its metadata."""
        shaped: dict[str, Any] = {
            "type": "message",
            "user": message.user,
            "ts": message.ts,
            "text": message.text,
        }
        shaped["team"] = self.team_id
        optional = {
            "subtype": message.subtype,
            "blocks": message.blocks,
            "attachments": message.attachments,
            "metadata": message.metadata,
            "files": [self.file_shape(self.files[id_]) for id_ in message.files],
            "reactions": [{"name": n, "users": u, "count": len(u)} for n, u in message.reactions.items()],
            "edited": {"user": message.user, "ts": message.ts} if message.edited else None,
        }
        shaped |= {name: value for name, value in optional.items() if value}
        if message.bot_id:
            shaped |= {
                "bot_id": message.bot_id,
                "app_id": self.app_id,
                "bot_profile": {"id": message.bot_id, "name": self.bot.name, "app_id": self.app_id},
            }
        return shaped | dict(self._thread_facts(channel, message))

    def _thread_facts(self, channel: Channel, message: Message) -> Iterator[tuple[str, Any]]:
        if message.thread_ts:
            root = channel.find(message.thread_ts)
            yield "thread_ts", message.thread_ts
            yield "parent_user_id", root.user if root else ""
            return
        replies = [m for m in channel.messages if m.thread_ts == message.ts]
        if replies:
            yield "thread_ts", message.ts
            yield "reply_count", len(replies)
            yield "reply_users", sorted({reply.user for reply in replies})
            yield "latest_reply", replies[-1].ts

    def file_shape(self, file: StoredFile) -> dict[str, Any]:
        """Return a file in the form of `files.info`, or the stub of it that some events carry."""
        if file.access == "check_file_info":
            return {"id": file.id, "mode": "file_access", "file_access": "check_file_info"}
        url = f"{self.base}/files-pri/{self.team_id}-{file.id}/{file.name}"
        return {
            "id": file.id,
            "name": file.name,
            "title": file.title or file.name,
            "mimetype": file.mimetype,
            "filetype": file.name.rpartition(".")[2],
            "user": file.user,
            "size": file.length,
            "mode": "hosted",
            "url_private": url,
            "url_private_download": f"{url}?download=1",
            "file_access": "visible",
        }

    def channel_shape(self, channel: Channel) -> dict[str, Any]:
        """Return a channel in the form of `conversations.info`."""
        shaped: dict[str, Any] = {
            "id": channel.id,
            "is_channel": channel.kind == "channel",
            "is_group": channel.kind == "group",
            "is_im": channel.kind == "im",
            "is_mpim": channel.kind == "mpim",
            "is_archived": channel.is_archived,
            "is_private": channel.kind != "channel",
            "context_team_id": self.team_id,
        }
        if channel.kind == "im":
            return shaped | {"user": next(m for m in channel.members if m != self.bot.id)}
        return shaped | {
            "name": channel.name,
            "name_normalized": channel.name,
            "is_member": self.bot.id in channel.members,
        }

    def person_shape(self, person: Person, *, with_locale: bool) -> dict[str, Any]:
        """Return a person in the form of `users.info`."""
        real_name = person.real_name or person.name
        shaped: dict[str, Any] = {
            "id": person.id,
            "team_id": self.team_id,
            "name": person.name,
            "real_name": real_name,
            "deleted": False,
            "tz": person.tz,
            "tz_label": person.tz,
            "tz_offset": person.tz_offset,
            "is_bot": person.is_bot,
            "is_restricted": False,
            "is_ultra_restricted": False,
            "is_app_user": False,
            "profile": {"real_name": real_name, "display_name": person.name, "team": self.team_id},
        }
        return shaped | ({"locale": person.locale} if with_locale else {})


_CHANNEL_TYPES: Mapping[str, str] = {"channel": "channel", "group": "group", "im": "im", "mpim": "mpim"}
