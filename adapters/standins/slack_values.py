"""What a workspace of the Slack stand-in holds: people, channels, messages, files, agent sessions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

MentionOrder = Literal["message_first", "mention_first"]
View = Literal["classic", "assistant", "agent"]
"""What an app's manifest makes of the direct messages with it."""
StreamState = Literal["", "open", "stopped", "stopped_by_user"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A member of the workspace; the bot is one too."""

    id: str
    name: str
    real_name: str = ""
    tz: str = "Europe/Berlin"
    tz_offset: int = 3600
    locale: str = "en-US"
    is_bot: bool = False


@dataclass(kw_only=True, slots=True, eq=False)
class Channel:
    """A conversation and what was posted there, in the order of its timestamps."""

    id: str
    name: str = ""
    kind: Literal["channel", "group", "im", "mpim"] = "channel"
    members: list[str] = field(default_factory=list)
    messages: list["Message"] = field(default_factory=list)
    is_archived: bool = False

    def find(self, ts: str) -> "Message | None":
        """Return the message of that timestamp, or None."""
        return next((message for message in self.messages if message.ts == ts), None)


@dataclass(kw_only=True, slots=True, eq=False)
class Message:
    """A message as it stands now; `stream` says whether it can be appended to."""

    ts: str
    user: str
    text: str = ""
    bot_id: str = ""
    thread_ts: str = ""
    blocks: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    files: list[str] = field(default_factory=list)
    attachments: list[dict[str, Any]] = field(default_factory=list)
    subtype: str = ""
    edited: bool = False
    broadcast: bool = False
    reactions: dict[str, list[str]] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    stream: StreamState = ""
    started_at: float = 0.0

    @property
    def root(self) -> str:
        """The timestamp of the thread that this message is in or could begin."""
        return self.thread_ts or self.ts


@dataclass(kw_only=True, slots=True, eq=False)
class StoredFile:
    """An uploaded file; `access` is `check_file_info` where an event carries only a stub of it."""

    id: str
    name: str
    user: str
    mimetype: str = "application/octet-stream"
    title: str = ""
    length: int = 0
    content: bytes | None = None
    shared: bool = False
    access: str = "visible"
    posted: list[tuple[str, str]] = field(default_factory=list)
    """Where it was shared: channel and timestamp."""
    page: bool = False
    """Whether its address leads to a page of Slack's and not to its bytes, whoever asks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSession:
    """What `agents.sessions.*` set for a thread."""

    status: str
    title: str = ""


def member_ids(members: Iterable[Person | str]) -> list[str]:
    """Return the ids of people that are given as values or as ids."""
    return [member if isinstance(member, str) else member.id for member in members]
