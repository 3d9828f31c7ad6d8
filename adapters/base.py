"""What the gateway and an adapter say to each other.

The way in:  platform event -> `Inbound` -> `await inbox.put()` -> only then acknowledged to the platform. What is no
new message has a method of its own there: an edit, a pressed button, a chat that moved or that the bot lost. What came
along with a message is named in it, and fetched only when it is wanted: `fetch()`.

The way out: `render()` cuts Markdown into parts, `deliver()` posts one part and returns the platform's message id;
`find()` looks whether a part whose answer was lost got through; `open_live()` shows an answer while it is written.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
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
class Attachment:
    """Something that came along with a message, as the platform describes it; nothing of it has been fetched.

    `kind` is `photo`, `voice`, `audio`, `video`, `document`, `sticker`, `location` and the like. Without a `file_id`
    there is nothing to fetch. `size` is in bytes, None where the platform does not say. `of_quoted`: it came with the
    message that this one answers, so nothing in it is the sender's.
    """

    kind: str
    file_id: str = ""
    name: str = ""
    media_type: str = ""
    size: int | None = None
    of_quoted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Quoted:
    """What a message answers: the words of another one, or the part of them that its sender has marked."""

    name: str
    text: str
    mine: bool = False
    """The bot itself had said it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inbound:
    """One message that a person sent.

    `external_id` is unique within the platform and the same each time the platform repeats the message.
    `addressed` says that the bot is meant: a private chat, a mention, a reply to the bot, or a command for it; what is
    not is answered only where a chat's settings, or a thread that the bot takes part in, make it so. `for_another`
    says that somebody else is meant by name, `thread_reply` that it was said in a thread under a message, where whoever
    takes part is spoken to; topics are none. `text` has the bot's own mention taken out. `in_conversation` is false
    for what was said to a chat as a whole where each conversation is a thread, as Slack's slash commands in channels
    are: there is nothing that it could stop or end. With `forwarded_from`, the name of whoever said it elsewhere, the
    text is not the sender's own.

    Pictures of one album have one `batch`. `more_may_follow` says that this may be only a part of what was sent at
    once: an album, or a text so long that the person's app cut it in two.

    `only_for_sender`: nobody else has seen it, and nobody else is to see the answer. `in_place_of` is the id of the
    bot's message whose button was pressed: the answer takes its place.
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
    attachments: tuple[Attachment, ...] = ()
    in_conversation: bool = True
    for_another: bool = False
    thread_reply: bool = False
    quoted: Quoted | None = None
    forwarded_from: str = ""
    batch: str = ""
    more_may_follow: bool = False
    only_for_sender: bool = False
    in_place_of: str = ""

    @property
    def own_words(self) -> str:
        """What the sender says in words of their own: what is forwarded is another's, and decides nothing."""
        return "" if self.forwarded_from else self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Amended:
    """A message that its sender has changed: `external_id` is that message's own. No `text`: it was deleted."""

    external_id: str
    address: Address
    account: Account
    text: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pressed:
    """A button that somebody pressed: `token` is what `Button` held, `message_id` the message that it stands under."""

    external_id: str
    address: Address
    kind: ChatKind
    account: Account
    name: str
    token: str
    message_id: str
    language: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Button:
    """A button under a message. `token` is at most 64 bytes of ASCII, and means nothing to the platform."""

    label: str
    token: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OutFile:
    """A file that is to be sent; `path` stays readable, and unchanged, until it is delivered."""

    path: Path
    name: str
    media_type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Outbound:
    """One part to post, or, with `message_id`, to put in place of what that message shows.

    `key` is ours, unique per post and the same on every retry; where the platform keeps metadata the adapter sends it
    along, so that `find` can look for it. `reply_to` is the platform's id of the message that is answered. With
    `only_for`, nobody else sees the post, where the platform has such posts.
    """

    address: Address
    key: str
    part: Mapping[str, Any]
    reply_to: str = ""
    message_id: str = ""
    only_for: Account | None = None


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

    async def amended(self, amended: Amended) -> None:
        """Store that a message was changed or deleted; one that is unknown or answered stays as it was.

        Raises as `put` does.
        """

    async def pressed(self, pressed: Pressed) -> str:
        """Take a press of a button; returns a word to whoever pressed it if nothing comes of it, else nothing.

        Raises as `put` does.
        """

    async def reachable(self, chat: Address, reachable: bool) -> None:  # noqa: FBT001  # a fact, not a switch
        """Store whether the bot can post in a chat: it was blocked or taken out, or let in again. Raises as `put`."""

    async def home(self, account: Account) -> str:
        """Return, as Markdown, what this person may see on a page of their own that the platform shows only to them."""


class StepState(StrEnum):
    """How far a step is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Something that the bot does on the way to its answer, in plain words; `id` is unique within the answer."""

    id: str
    title: str
    state: StepState = StepState.RUNNING


class Live(Protocol):
    """An answer while it is being written. Failures to show it are swallowed: the final text is sent apart."""

    @property
    def message_id(self) -> str:
        """The message that was posted for it and that the final text must replace; empty if nothing stays (a draft)."""

    async def show(self, markdown: str) -> None:
        """Show the whole text so far; returns at once, the adapter decides how often it really sends."""

    async def step(self, step: Step) -> None:
        """Show that a step has begun or ended, where the platform has a place for it; returns at once."""

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

    def render(
        self, markdown: str, *, buttons: Sequence[Button] = (), file: OutFile | None = None
    ) -> list[dict[str, Any]]:
        """Cut Markdown into parts within the platform's limits; deterministic, at least one part, any input.

        The file goes with the first part, whose text is then its caption; the buttons stand under the last.
        """

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Return the part with one more line of plain text at its end; for a post that may be there twice."""

    async def deliver(self, post: Outbound) -> str:
        """Post or edit one part once, without retries of its own, and return its message id."""

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Look for an earlier post of the same key; None if it is surely absent. Only if `can_find`."""

    async def fetch(self, attachment: Attachment, *, address: Address, into: Path, limit: int) -> None:
        """Write what came along into a new file, of `limit` bytes at most.

        Raises `Permanent`, in words that may be told to the sender, for what can't be had: too big, gone, a missing
        right, or something else than the platform said; no file is left then. Raises `Transient` as `deliver` does.
        """

    async def acknowledge(self, address: Address, message_id: str, *, seen: bool) -> None:
        """Mark a person's message as seen, while it waits, or take the mark away. Raises nothing."""

    async def sight(self, address: Address) -> str:
        """Say in a sentence what the bot gets to see in this chat; empty if that is all. Raises nothing."""

    async def working(self, address: Address, *, status: str) -> None:
        """Show that the bot works (typing, or `status` in words where the platform has it); empty status clears it."""

    def live_stays(self, address: Address) -> bool:
        """Whether `open_live` posts a message that stays there (an edit or a stream) or only a draft that vanishes."""

    async def open_live(self, address: Address, *, key: str, reply_to: str, recipient: Account) -> Live:
        """Begin to show an answer; where it stays, its message has been posted when this returns."""

    def health(self) -> Health:
        """Say whether events can arrive, from the last event and ping, never from a flag alone."""
