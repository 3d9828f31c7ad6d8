"""The terminal as a platform: one person, one private chat, on standard input and output."""

import asyncio
import getpass
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from starlette.routing import BaseRoute

from adapters.base import (
    Account,
    Address,
    Attachment,
    Button,
    Capabilities,
    ChatKind,
    Health,
    Identity,
    Inbound,
    Inbox,
    Live,
    Outbound,
    OutFile,
    Step,
)
from adapters.errors import Permanent

ADDRESS = Address(platform="terminal", chat="local")
ACCOUNT = Account(platform="terminal", user="local")


class TerminalAdapter:
    """Reads a line, waits for its answer, reads the next; `finished` is set at the end of the input.

    If somebody else sets it, such as by Ctrl-C, no further line is read.
    """

    platform = "terminal"
    capabilities = Capabilities(can_find=False)

    def __init__(self, *, source: TextIO = sys.stdin, sink: TextIO = sys.stdout) -> None:
        self._source = source
        self._sink = sink
        self._answered = asyncio.Event()
        self._answered.set()  # nothing was asked yet
        self._asked = ""
        self._shown = ""
        self.finished = asyncio.Event()

    def serve(self, inbox: Inbox) -> AbstractAsyncContextManager[Identity]:
        """Read lines until the input ends."""
        return self._serving(inbox)

    @asynccontextmanager
    async def _serving(self, inbox: Inbox) -> AsyncIterator[Identity]:
        tasks = asyncio.create_task(self._read(inbox)), asyncio.create_task(self._say_leaving())
        try:
            yield Identity(id="local", name="the terminal")
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _say_leaving(self) -> None:
        await self.finished.wait()
        if not self._answered.is_set():
            self._write("\n· Leaving after this answer.\n")

    async def _read(self, inbox: Inbox) -> None:
        try:
            while not self.finished.is_set() and (line := await self._line()):
                if line.strip() in ("/quit", "/exit"):
                    return
                if line.strip() and await self._taken(inbox, line.strip()):
                    await self._answered.wait()
        finally:
            self.finished.set()

    async def _taken(self, inbox: Inbox, line: str) -> bool:
        self._answered.clear()
        inbound = _inbound(line)
        self._asked = inbound.message_id
        try:
            await inbox.put(inbound)
        except Exception as error:  # noqa: BLE001 - the edge: a stopping or failing gateway; the person can say it again
            self._write(f"· This was not taken ({type(error).__name__}).\n")
            self._answered.set()
            return False
        return True

    async def _line(self) -> str:
        if self._source.isatty():
            self._write("you> ")
        return await _in_daemon_thread(self._source.readline)

    def routes(self) -> Sequence[BaseRoute]:
        """Return none: nothing calls us."""
        return ()

    def render(
        self, markdown: str, *, buttons: Sequence[Button] = (), file: OutFile | None = None
    ) -> list[dict[str, Any]]:
        """Return the text as it is, for Markdown reads well in a terminal, and the path of a file. No buttons."""
        return [{"text": f"{file.path}\n{markdown}" if file else markdown}]

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Return the part with the label below it."""
        return {"text": f"{part['text']}\n{label}"}

    async def deliver(self, post: Outbound) -> str:
        """Print what of the text is not on the screen yet."""
        text = str(post.part["text"])
        rest = text.removeprefix(self._shown) if self._shown and text.startswith(self._shown) else f"\n{text}"
        if post.reply_to == self._asked:  # an answer to a line of an earlier run comes as an aside
            self._write(f"{rest}\n\n")
            self._answered.set()
        else:
            self._write(f"· {text}\n")
        self._shown = ""
        return post.key

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Not offered: a screen has no memory."""
        raise NotImplementedError("the terminal can't look up what it showed")

    async def fetch(self, attachment: Attachment, *, address: Address, into: Path, limit: int) -> None:
        """Refuse: a line holds no files."""
        raise Permanent("a terminal has no files")

    async def acknowledge(self, address: Address, message_id: str, *, seen: bool) -> None:
        """Mark nothing: whoever typed it sees it."""

    async def sight(self, address: Address) -> str:
        """Return nothing: the bot sees all that is typed."""
        return ""

    async def working(self, address: Address, *, status: str) -> None:
        """Show nothing: the answer comes soon enough."""

    def live_stays(self, address: Address) -> bool:
        """Return that nothing stays which the final text would have to replace."""
        return False

    async def open_live(self, address: Address, *, key: str, reply_to: str, recipient: Account) -> Live:
        """Print text as it comes."""
        self._write("\n")
        return _Screen(self)

    def health(self) -> Health:
        """Return that a terminal is there or the program is not."""
        return Health(ok=True, detail="the terminal")

    def print_more(self, markdown: str) -> None:
        """Print what was added to the text since the last call."""
        if markdown.startswith(self._shown):
            self._write(markdown.removeprefix(self._shown))
            self._shown = markdown

    def _write(self, text: str) -> None:
        self._sink.write(text)
        self._sink.flush()


class _Screen:
    """A live answer on the screen."""

    message_id = ""

    def __init__(self, terminal: TerminalAdapter) -> None:
        self._terminal = terminal

    async def show(self, markdown: str) -> None:
        self._terminal.print_more(markdown)

    async def step(self, step: Step) -> None:
        """Show nothing: it would stand amid the text."""

    async def close(self) -> None:
        """Leave what is printed."""


def _inbound(text: str) -> Inbound:
    now = datetime.now(UTC)
    return Inbound(
        external_id=uuid.uuid4().hex,
        address=ADDRESS,
        kind=ChatKind.PRIVATE,
        account=ACCOUNT,
        name=_user_name(),
        text=text,
        message_id=now.isoformat(),
        sent_at=now,
        addressed=True,
    )


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        return "you"


async def _in_daemon_thread(read: Callable[[], str]) -> str:
    """Read in a thread that does not keep the process alive: a line may never come."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def settle(text: str) -> None:
        if not line.done():
            line.set_result(text)

    def work() -> None:
        text = read()
        with suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(settle, text)

    threading.Thread(target=work, daemon=True, name="terminal").start()
    return await line
