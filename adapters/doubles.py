"""Doubles of an adapter and of an inbox that keep their contracts, for tests that need no platform or no gateway."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio
from starlette.routing import BaseRoute

from adapters.base import (
    Account,
    Address,
    Amended,
    Attachment,
    Button,
    Capabilities,
    Health,
    Identity,
    Inbound,
    Inbox,
    Outbound,
    OutFile,
    Pressed,
    Step,
)
from adapters.errors import AdapterError, Permanent

_LIMIT = 400
Thing = TypeVar("Thing")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What the next `deliver` does instead of succeeding; `acts` says whether the platform carries it out first."""

    error: AdapterError
    acts: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """One message as the platform shows it."""

    address: Address
    key: str
    text: str
    reply_to: str = ""
    edits: int = 0
    buttons: tuple[Button, ...] = ()
    file: str = ""
    only_for: Account | None = None


class RecordingInbox:
    """An inbox in memory. `broken` is how many of the next calls fail; `changed` is set, anew, with each that ends."""

    def __init__(self) -> None:
        self.got: list[Inbound] = []
        self.moves: list[tuple[str, str]] = []
        self.amendments: list[Amended] = []
        self.presses: list[Pressed] = []
        self.reached: list[tuple[str, bool]] = []
        self.toast = ""
        self.page = ""
        self.tried = 0
        self.broken = 0
        self.changed = anyio.Event()

    async def put(self, inbound: Inbound) -> None:
        """Keep the message."""
        self._take(self.got, inbound)

    async def moved(self, old: Address, new: Address) -> None:
        """Keep the move."""
        self._take(self.moves, (str(old), str(new)))

    async def amended(self, amended: Amended) -> None:
        """Keep the change."""
        self._take(self.amendments, amended)

    async def pressed(self, pressed: Pressed) -> str:
        """Keep the press, and say what the test has set."""
        self._take(self.presses, pressed)
        return self.toast

    async def reachable(self, chat: Address, reachable: bool) -> None:  # noqa: FBT001  # a fact, not a switch
        """Keep whether the chat is reached."""
        self._take(self.reached, (str(chat), reachable))

    async def home(self, account: Account) -> str:
        """Return what the test has set."""
        return self.page

    async def until(self, enough: Callable[[], bool]) -> None:
        """Wait until enough has come; the caller sets the limit."""
        while not enough():
            await self.changed.wait()

    async def first(self, count: int) -> list[str]:
        """Wait for messages and return the texts of all that came."""
        await self.until(lambda: len(self.got) >= count)
        return [inbound.text for inbound in self.got]

    def _take(self, kept: list[Thing], thing: Thing) -> None:
        self.tried += 1
        if self.broken:
            self.broken -= 1
            raise OSError("the disk is full: secret words of the message")
        kept.append(thing)
        self.changed.set()
        self.changed = anyio.Event()


class RecordingAdapter:
    """A platform in memory. `shown` is what people see, by message id; `calls` is every `deliver`, as it came.

    `faults` are used up one per `deliver`; `gate`, if given, holds every `deliver` until it is set. Like a real
    platform it never tells a repeated post from a new one, and knows no message that it has not given an id.
    """

    def __init__(
        self,
        platform: str = "telegram",
        *,
        can_find: bool = False,
        live_stays: bool = True,
        faults: Sequence[Fault] = (),
        gate: anyio.Event | None = None,
    ) -> None:
        self.platform = platform
        self.capabilities = Capabilities(can_find=can_find)
        self.faults = list(faults)
        self.live_faults: list[Fault] = []
        self.shown: dict[str, Shown] = {}
        self.calls: list[Outbound] = []
        self.looked_for: list[str] = []
        self.statuses: list[str] = []
        self.files: dict[str, bytes] = {}
        """What can be fetched, by file id."""
        self.sees = ""
        self.seen: set[str] = set()
        """The messages of people that carry a mark."""
        self.inbox: Inbox | None = None
        self._stays = live_stays
        self._gate = gate
        self._last_id = 0

    @property
    def texts(self) -> list[str]:
        """What people see, oldest message first."""
        return [message.text for message in self.shown.values()]

    def serve(self, inbox: Inbox) -> AbstractAsyncContextManager[Identity]:
        """Keep the inbox for the test to put messages into."""
        return self._serving(inbox)

    @asynccontextmanager
    async def _serving(self, inbox: Inbox) -> AsyncIterator[Identity]:
        self.inbox = inbox
        try:
            yield Identity(id="bot", name="recorder")
        finally:
            self.inbox = None

    def routes(self) -> Sequence[BaseRoute]:
        """Return no routes: nothing calls in."""
        return ()

    def render(
        self, markdown: str, *, buttons: Sequence[Button] = (), file: OutFile | None = None
    ) -> list[dict[str, Any]]:
        """Cut after every 400 characters."""
        starts = range(0, max(len(markdown), 1), _LIMIT)
        parts: list[dict[str, Any]] = [{"text": markdown[start : start + _LIMIT]} for start in starts]
        if file is not None:
            parts[0]["file"] = file.name
        if buttons:
            parts[-1]["buttons"] = [asdict(button) for button in buttons]
        return parts

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Add the label as a line."""
        return {**part, "text": f"{part['text']}\n{label}"}

    async def deliver(self, post: Outbound) -> str:
        """Post or edit, or do what the next fault says."""
        self.calls.append(post)
        if self._gate is not None:
            await self._gate.wait()
        return self._carry_out(post, self.faults)

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Look the key up among what is shown."""
        if not self.capabilities.can_find:
            raise AssertionError("find is only for platforms that can tell")
        if since.tzinfo is None:
            raise AssertionError("since must know its time zone")
        self.looked_for.append(post.key)
        return next((id_ for id_, message in self.shown.items() if message.key == post.key), None)

    async def fetch(self, attachment: Attachment, *, address: Address, into: Path, limit: int) -> None:
        """Write what the test has put there."""
        content = self.files.get(attachment.file_id)
        if content is None:
            raise Permanent("there is no such file")
        if len(content) > limit:
            raise Permanent(f"it is larger than {limit} bytes")
        await anyio.Path(into).write_bytes(content)

    async def acknowledge(self, address: Address, message_id: str, *, seen: bool) -> None:
        """Note the mark."""
        if seen:
            self.seen.add(message_id)
        else:
            self.seen.discard(message_id)

    async def sight(self, address: Address) -> str:
        """Say what the test has set; by itself everything is seen."""
        return self.sees

    async def working(self, address: Address, *, status: str) -> None:
        """Note the status."""
        self.statuses.append(status)

    def live_stays(self, address: Address) -> bool:
        """Say what the test has set."""
        return self._stays

    async def open_live(self, address: Address, *, key: str, reply_to: str, recipient: Account) -> "RecordingLive":
        """Post a message for it if it stays."""
        post = Outbound(address=address, key=key, part={"text": "…"}, reply_to=reply_to)
        return RecordingLive(self, self._carry_out(post, self.live_faults) if self._stays else "")

    def health(self) -> Health:
        """Say that all is well while it is served."""
        return Health(ok=self.inbox is not None, detail="recording")

    def _carry_out(self, post: Outbound, faults: list[Fault]) -> str:
        fault = faults.pop(0) if faults else None
        if fault is not None and not fault.acts:
            raise fault.error
        message_id = self._put(post)
        if fault is not None:
            raise fault.error
        return message_id

    def _put(self, post: Outbound) -> str:
        if post.message_id:
            before = self.shown.get(post.message_id)
            if before is None:
                raise Permanent("there is no such message to edit")
            edited = {"text": post.part["text"], "buttons": _buttons(post), "edits": before.edits + 1}
            self.shown[post.message_id] = replace(before, **edited)
            return post.message_id
        self._last_id += 1
        self.shown[str(self._last_id)] = Shown(
            address=post.address,
            key=post.key,
            text=post.part["text"],
            reply_to=post.reply_to,
            buttons=_buttons(post),
            file=post.part.get("file", ""),
            only_for=post.only_for,
        )
        return str(self._last_id)


def _buttons(post: Outbound) -> tuple[Button, ...]:
    return tuple(Button(**button) for button in post.part.get("buttons", ()))


class RecordingLive:
    """A live answer of `RecordingAdapter`; `texts` and `steps` are all that it was told to show."""

    def __init__(self, adapter: RecordingAdapter, message_id: str) -> None:
        self.message_id = message_id
        self.texts: list[str] = []
        self.steps: list[Step] = []
        self.closed = False
        self._adapter = adapter

    async def show(self, markdown: str) -> None:
        """Show the text at once."""
        if self.closed:
            raise AssertionError("nothing is shown after close")
        self.texts.append(markdown)
        if self.message_id:
            message = self._adapter.shown[self.message_id]
            self._adapter.shown[self.message_id] = replace(message, text=markdown)

    async def step(self, step: Step) -> None:
        """Note the step."""
        self.steps.append(step)

    async def close(self) -> None:
        """Stop showing."""
        self.closed = True
