"""What the gateway and an adapter say to each other.

The way in:  platform event -> `Inbound` -> `await inbox.put()` -> only then acknowledged to the platform.
The way out: `render()` cuts Markdown into parts, `deliver()` posts one part and returns the platform's message id;
`find()` looks whether a part whose answer was lost got through; `open_live()` shows an answer while it is written.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from starlette.routing import BaseRoute

_WITH_WORKSPACE = frozenset({"slack"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A conversation: where a message came from and where its answer goes.

    `workspace` is Slack's team id, empty elsewhere; `thread` is a Telegram topic id or a Slack `thread_ts`.
    """

    platform: str
    chat: str
    workspace: str = ""
    thread: str = ""

    def __post_init__(self) -> None:
        """Refuse ids that `parse` could not read back."""
        _check_ids(self.workspace, self.chat, self.thread)

    def __str__(self) -> str:
        """Write `telegram:-100/7` or `slack:T1/C1/169.1`, the form that settings and logs use."""
        parts = [self.chat] if self.platform not in _WITH_WORKSPACE else [self.workspace, self.chat]
        return f"{self.platform}:{'/'.join([*parts, *([self.thread] if self.thread else [])])}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read what `__str__` writes; raises `ValueError` that says which form is expected."""
        platform, parts = _split(text, "telegram:CHAT[/TOPIC] or slack:TEAM/CHANNEL[/THREAD]")
        workspace = parts.pop(0) if platform in _WITH_WORKSPACE else ""
        if not 1 <= len(parts) <= 2:
            raise ValueError(f"{text!r} is no chat: write telegram:CHAT[/TOPIC] or slack:TEAM/CHANNEL[/THREAD]")
        return cls(platform=platform, workspace=workspace, chat=parts[0], thread="".join(parts[1:]))

    @property
    def whole_chat(self) -> "Address":
        """The chat without its topic or thread."""
        return Address(platform=self.platform, workspace=self.workspace, chat=self.chat)


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """A user as the platform knows them: `telegram:42`, `slack:T1/U1`. Ids are identity; names are data."""

    platform: str
    user: str
    workspace: str = ""

    def __post_init__(self) -> None:
        """Refuse ids that `parse` could not read back."""
        _check_ids(self.workspace, self.user)

    def __str__(self) -> str:
        """Write the form that settings use."""
        return f"{self.platform}:{self.workspace + '/' if self.platform in _WITH_WORKSPACE else ''}{self.user}"

    @classmethod
    def parse(cls, text: str) -> "Account":
        """Read what `__str__` writes; raises `ValueError` that says which form is expected."""
        platform, parts = _split(text, "telegram:USER or slack:TEAM/USER")
        workspace = parts.pop(0) if platform in _WITH_WORKSPACE else ""
        if len(parts) != 1:
            raise ValueError(f"{text!r} is no account: write telegram:USER or slack:TEAM/USER")
        return cls(platform=platform, workspace=workspace, user=parts[0])


def _check_ids(*ids: str) -> None:
    if any("/" in each or each != each.strip() for each in ids):
        raise ValueError("a platform's id holds no slash and no space around it")


def _split(text: str, form: str) -> tuple[str, list[str]]:
    platform, colon, rest = text.strip().partition(":")
    parts = rest.split("/")
    if not platform or not colon or not all(parts) or (platform in _WITH_WORKSPACE and len(parts) < 2):
        raise ValueError(f"{text!r} is not of the form {form}")
    return platform, parts


class ChatKind(StrEnum):
    """Whose memory a chat reaches: a person's (private) or its own (shared)."""

    PRIVATE = "private"
    SHARED = "shared"


@dataclass(frozen=True, kw_only=True, slots=True)
class Inbound:
    """One message that a person sent.

    `external_id` is unique within the platform and the same each time the platform repeats the message.
    `addressed` says that the bot is meant: a private chat, a mention, a reply to the bot, or a command for it;
    what is not addressed is not answered. `text` has the bot's own mention taken out. `attachments` names the kinds
    of what came along (`photo`, `voice`); nothing is downloaded. `in_conversation` is false for what was said to a chat
    as a whole where each conversation is a thread, as Slack's slash commands in channels are: there is nothing that it
    could stop or end.
    """

    external_id: str
    address: Address
    kind: ChatKind
    account: Account
    name: str
    text: str
    message_id: str
    sent_at: datetime
    addressed: bool
    chat_title: str = ""
    language: str = ""
    attachments: tuple[str, ...] = ()
    in_conversation: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Outbound:
    """One part to post, or, with `message_id`, to put in place of what that message shows.

    `key` is ours, unique per post and the same on every retry; where the platform keeps metadata the adapter sends it
    along, so that `find` can look for it. `reply_to` is the platform's id of the message that is answered.
    """

    address: Address
    key: str
    part: Mapping[str, Any]
    reply_to: str = ""
    message_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a platform can do, so that the gateway never asks for its name."""

    can_find: bool
    """`find` can tell whether a post got through."""


class Inbox(Protocol):
    """Where an adapter puts what came in."""

    async def put(self, inbound: Inbound) -> None:
        """Store the message durably before returning; a repeated `external_id` changes nothing.

        Raises whatever the store raises: the adapter must then not acknowledge the event, so that it comes again.
        """

    async def moved(self, old: Address, new: Address) -> None:
        """Store durably that a whole chat goes on under another id; told again, in either order, it changes nothing.

        Raises as `put` does.
        """


class Live(Protocol):
    """An answer while it is being written. Failures to show it are swallowed: the final text is sent apart."""

    @property
    def message_id(self) -> str:
        """The message that was posted for it and that the final text must replace; empty if nothing stays (a draft)."""

    async def show(self, markdown: str) -> None:
        """Show the whole text so far; returns at once, the adapter decides how often it really sends."""

    async def close(self) -> None:
        """Stop showing; after this the message, if any, is an ordinary one that `deliver` can edit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """Whether inbound events can arrive: `ok` false turns readiness red; `detail` says why in one line."""

    ok: bool
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who the bot is on a platform, for `/status` and the start-up lines."""

    id: str
    name: str
    note: str = field(default="")
    """What the operator should know, e.g. that privacy mode hides group messages."""


class Adapter(Protocol):
    """One platform. All methods raise only `adapters.errors`."""

    @property
    def platform(self) -> str:
        """The name in addresses, such as `telegram`."""

    @property
    def capabilities(self) -> Capabilities:
        """What the platform can do."""

    def serve(self, inbox: Inbox) -> AbstractAsyncContextManager[Identity]:
        """Check the credentials, then receive events until left.

        Raises, on entry and never later, `Misconfigured`, or `Transient` if the platform can't be reached now.
        """

    def routes(self) -> Sequence[BaseRoute]:
        """Return the HTTP routes that the platform calls; none when the adapter polls or holds a socket."""

    def render(self, markdown: str) -> list[dict[str, Any]]:
        """Cut Markdown into parts within the platform's limits; deterministic, at least one part, any input."""

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Return the part with one more line of plain text at its end; for a post that may be there twice."""

    async def deliver(self, post: Outbound) -> str:
        """Post or edit one part once, without retries of its own, and return its message id."""

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Look for an earlier post of the same key; None if it is surely absent. Only if `can_find`."""

    async def working(self, address: Address, *, status: str) -> None:
        """Show that the bot works (typing, or `status` in words where the platform has it); empty status clears it."""

    def live_stays(self, address: Address) -> bool:
        """Whether `open_live` posts a message that stays there (an edit or a stream) or only a draft that vanishes."""

    async def open_live(self, address: Address, *, key: str, reply_to: str, recipient: Account) -> Live:
        """Begin to show an answer; where it stays, its message has been posted when this returns."""

    def health(self) -> Health:
        """Say whether events can arrive, from the last event and ping, never from a flag alone."""
