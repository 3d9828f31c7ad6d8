"""What people do in the workspace of the Slack stand-in, and how they and its channels come to be."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from adapters.standins.slack_delivery import Deliveries
from adapters.standins.slack_values import Channel, Message, Person, StoredFile, member_ids
from adapters.standins.slack_workspace import Workspace


class People:
    """Everything in the workspace that the app does not do itself."""

    def __init__(self, workspace: Workspace, deliveries: Deliveries) -> None:
        self.workspace = workspace
        self.deliveries = deliveries
        self.team_id = workspace.team_id

    # who is there

    def person(
        self,
        *,
        id: str,  # noqa: A002 - Slack's own word
        name: str,
        real_name: str = "",
        tz: str = "Europe/Berlin",
        locale: str = "en-US",
    ) -> Person:
        """Add a person, or change what is known of them."""
        made = Person(id=id, name=name, real_name=real_name, tz=tz, locale=locale)
        self.workspace.people[id] = made
        return made

    def channel(
        self,
        *,
        id: str,  # noqa: A002 - Slack's own word
        name: str,
        members: Iterable[Person | str] = (),
        bot_is_member: bool = True,
        kind: Literal["channel", "group"] = "channel",
    ) -> Channel:
        """Add a channel, public or (`group`) private, with these people and the bot, if it was invited."""
        ids = member_ids(members) + ([self.workspace.bot.id] if bot_is_member else [])
        made = Channel(id=id, name=name, kind=kind, members=ids)
        self.workspace.channels[id] = made
        return made

    def dm(self, person: Person | str) -> Channel:
        """Return the direct conversation of a person with the bot."""
        return self.workspace.open_im(member_ids([person]))

    def file(
        self,
        person: Person | str,
        name: str,
        content: bytes,
        *,
        mimetype: str = "application/octet-stream",
        stub: bool = False,
        page: bool = False,
        length: int | None = None,
    ) -> str:
        """Upload a person's file and return its id for `say`.

        With `stub`, events carry only a stub of it; with `page`, who fetches it gets a page of Slack's for its bytes;
        `length` is the size that Slack names, if it is not to be the true one.
        """
        made = StoredFile(
            id=f"F{self.workspace.number():010d}",
            name=name,
            user=member_ids([person])[0],
            mimetype=mimetype,
            content=content,
            length=len(content) if length is None else length,
            page=page,
            access="check_file_info" if stub else "visible",
        )
        self.workspace.files[made.id] = made
        return made.id

    # what people do

    def say(
        self,
        channel: Channel | str,
        person: Person | str,
        text: str,
        *,
        thread_ts: str | None = None,
        files: Sequence[str] = (),
        shares: str = "",
    ) -> str:
        """Post as a person, queue the events, return the timestamp; `LookupError` for who isn't there.

        `shares` is the timestamp of a message of the same channel that is passed on with it.
        """
        place, user = self._channel(channel), self.workspace.people[member_ids([person])[0]].id
        if user not in place.members:
            raise LookupError(f"{user} is no member of {place.id}")
        if thread_ts and place.find(thread_ts) is None:
            raise LookupError(f"no message {thread_ts} in {place.id}")
        message = Message(
            ts=self.workspace.next_ts(),
            user=user,
            text=text,
            thread_ts=thread_ts or "",
            files=list(files),
            attachments=[self._shared(place, shares)] if shares else [],
            subtype="file_share" if files else "",
        )
        return self.workspace.post(place, message).ts

    def _shared(self, place: Channel, ts: str) -> dict[str, Any]:
        _, message, _ = self._message(place, ts)
        author = self.workspace.people[message.user]
        return {
            "id": 1,
            "ts": ts,
            "is_share": True,
            "is_msg_unfurl": True,
            "channel_id": place.id,
            "author_id": author.id,
            "author_name": author.real_name or author.name,
            "text": message.text,
            "fallback": message.text,
            "from_url": f"https://stand-in.slack.example/archives/{place.id}/p{ts.replace('.', '')}",
        }

    def edit(self, channel: Channel | str, ts: str, text: str) -> None:
        """Edit a person's message (`message_changed`)."""
        place, message, before = self._message(channel, ts)
        message.text, message.edited = text, True
        self.workspace.change(place, message, before)

    def unfurl(self, channel: Channel | str, ts: str, url: str) -> None:
        """Attach a link's preview to a message, as Slack does by itself (`message_changed`, no edit)."""
        place, message, before = self._message(channel, ts)
        message.attachments.append({"from_url": url, "original_url": url, "fallback": url, "id": 1})
        self.workspace.change(place, message, before)

    def delete(self, channel: Channel | str, ts: str) -> None:
        """Delete a message (`message_deleted`)."""
        place, message, _ = self._message(channel, ts)
        self.workspace.delete(place, message)

    def join(self, channel: Channel | str, person: Person | str) -> None:
        """Let a person, or the bot, enter a channel (subtype `channel_join`, `member_joined_channel`)."""
        place, user = self._channel(channel), member_ids([person])[0]
        place.members.append(user)
        text = f"<@{user}> has joined the channel"
        self.workspace.post(place, Message(ts=self.workspace.next_ts(), user=user, text=text, subtype="channel_join"))
        kind = {"channel": "C", "group": "G"}.get(place.kind, "")
        self.workspace.emit_in(
            place, {"type": "member_joined_channel", "user": user, "channel_type": kind, "team": self.team_id}
        )

    def leave(self, channel: Channel | str, person: Person | str) -> None:
        """Let a person leave a channel (`member_left_channel`), or take the bot out of it (`channel_left`)."""
        place, user = self._channel(channel), member_ids([person])[0]
        event: dict[str, Any] = {"type": "member_left_channel", "user": user, "team": self.team_id}
        if user == self.workspace.bot.id:
            event = {"type": "group_left" if place.kind == "group" else "channel_left", "actor_id": place.members[0]}
        self.workspace.emit_in(place, event)
        place.members.remove(user)

    def archive(self, channel: Channel | str, *, back: bool = False) -> None:
        """Archive a channel (`channel_archive`), or bring it `back` (`channel_unarchive`)."""
        place = self._channel(channel)
        place.is_archived = not back
        kind = "group" if place.kind == "group" else "channel"
        who = next((member for member in place.members if member != self.workspace.bot.id), "USLACKBOT")
        self.workspace.emit_in(place, {"type": f"{kind}_unarchive" if back else f"{kind}_archive", "user": who})

    def open_home(self, person: Person | str, *, tab: Literal["home", "messages"] = "home") -> None:
        """Open the app's home or messages tab (`app_home_opened`)."""
        user = member_ids([person])[0]
        self.workspace.emit({"type": "app_home_opened", "user": user, "channel": self.dm(user).id, "tab": tab})

    def open_assistant(self, person: Person | str) -> str:
        """Begin a thread in the assistant view (`assistant_thread_started`) and return its timestamp."""
        user, place = member_ids([person])[0], self.dm(person)
        root = Message(
            ts=self.workspace.next_ts(),
            user=self.workspace.bot.id,
            bot_id=self.workspace.bot_id,
            text="New Assistant Thread",
            subtype="assistant_app_thread",
        )
        place.messages.append(root)
        thread = {"user_id": user, "context": {}, "channel_id": place.id, "thread_ts": root.ts}
        self.workspace.emit({"type": "assistant_thread_started", "assistant_thread": thread})
        return root.ts

    def press_stop(self, channel: Channel | str, person: Person | str, thread_ts: str) -> None:
        """Click the stop button of an agent session: its streams end, `agent_session_stopped` is sent."""
        place = self._channel(channel)
        streams = [m for m in self.workspace.visible(place, thread_ts=thread_ts) if self.workspace.streaming(m)]
        for message in streams:
            message.stream = "stopped_by_user"
        self.workspace.emit_in(
            place,
            {
                "type": "agent_session_stopped",
                "user": member_ids([person])[0],
                "thread_ts": thread_ts,
                "streaming_message_ts": [message.ts for message in streams],
            },
        )

    def command(self, channel: Channel | str, person: Person | str, command: str, text: str = "") -> None:
        """Enter a slash command (Slack has none in threads); its answer is in `ephemeral` or the channel."""
        place, who = self._channel(channel), self.workspace.people[member_ids([person])[0]]
        names = {"im": "directmessage", "group": "privategroup"}
        self.deliveries.add(
            "slash_commands",
            {
                "token": "stand-in",
                "team_id": self.team_id,
                "team_domain": "stand-in",
                "channel_id": place.id,
                "channel_name": names.get(place.kind, place.name),
                "user_id": who.id,
                "user_name": who.name,
                "command": command,
                "text": text,
                "api_app_id": self.workspace.app_id,
                "is_enterprise_install": "false",
                "response_url": self._response_url(place.id, who.id),
                "trigger_id": f"{self.workspace.number()}.1.x",
            },
        )

    def press(self, channel: Channel | str, person: Person | str, ts: str, action_id: str) -> None:
        """Press a button of a message (`block_actions`); raises `LookupError` if it has no such button."""
        place, message, shaped = self._message(channel, ts)
        who = self.workspace.people[member_ids([person])[0]]
        thread = {"thread_ts": shaped["thread_ts"]} if "thread_ts" in shaped else {}
        button, container = _button(message.blocks, action_id), {"is_ephemeral": False, **thread}
        self._pressed(place, who, ts, button, container=container, shaped=shaped)

    def press_aside(self, ts: str, action_id: str) -> None:
        """Press a button of a message that only one person sees, as that person."""
        word = next((word for word in self.workspace.ephemeral if word["ts"] == ts), None)
        if word is None:
            raise LookupError(f"nobody sees a message {ts}")
        place, who = self._channel(word["channel"]), self.workspace.people[word["user"]]
        container = {"is_ephemeral": True, **({"thread_ts": word["thread_ts"]} if word["thread_ts"] else {})}
        self._pressed(place, who, ts, _button(word["blocks"], action_id), container=container, shaped=None)

    def _pressed(
        self,
        place: Channel,
        who: Person,
        ts: str,
        button: dict[str, Any],
        *,
        container: dict[str, Any],
        shaped: dict[str, Any] | None,
    ) -> None:
        action = button | {"action_ts": self.workspace.next_ts()}
        self.deliveries.add(
            "interactive",
            {
                "type": "block_actions",
                "token": "stand-in",
                "api_app_id": self.workspace.app_id,
                **({"message": shaped} if shaped else {}),
                "user": {"id": who.id, "username": who.name, "name": who.name, "team_id": self.team_id},
                "team": {"id": self.team_id, "domain": "stand-in"},
                "channel": {"id": place.id, "name": place.name},
                "container": {"type": "message", "message_ts": ts, "channel_id": place.id, **container},
                "response_url": f"{self._response_url(place.id, who.id)}?ts={ts}",
                "trigger_id": f"{self.workspace.number()}.1.x",
                "actions": [action],
            },
        )

    def _response_url(self, channel: str, user: str) -> str:
        return f"{self.workspace.base}/respond/{channel}/{user}"

    def _channel(self, channel: Channel | str) -> Channel:
        return self.workspace.channels[channel if isinstance(channel, str) else channel.id]

    def _message(self, channel: Channel | str, ts: str) -> tuple[Channel, Message, dict[str, Any]]:
        place = self._channel(channel)
        message = place.find(ts)
        if message is None:
            raise LookupError(f"no message {ts} in {place.id}")
        return place, message, self.workspace.shape(place, message)


def _button(blocks: Sequence[Mapping[str, Any]] | None, action_id: str) -> dict[str, Any]:
    for block in blocks or ():
        for element in [*block.get("elements", ()), block.get("accessory") or {}]:
            if element.get("action_id") == action_id:
                return {**element, "block_id": block.get("block_id", "")}
    raise LookupError(f"there is no button {action_id} there")
