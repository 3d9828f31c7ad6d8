"""Shows an answer while it is written. The final text is not its business: that goes through the outbox."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog

from adapters.base import Account, Adapter, Live
from adapters.errors import AdapterError, Unsure
from gateway.agent.events import Event, TextSoFar, ToolStarted
from gateway.outbox import Outbox, Post

log = structlog.get_logger(__name__)

_TYPING_SECONDS = 4.0  # Telegram's typing sign fades after five
_STAYS_AFTER = 0.7  # an answer that is done by then is posted once, whole, without an edit
_WORDS = {
    "read": "reading notes…",
    "glob": "looking through notes…",
    "grep": "searching notes…",
    "write": "writing a note…",
    "edit": "editing a note…",
    "append": "writing a note…",
    "delete": "deleting a note…",
}


class LiveReply:
    """The visible side of one turn. Nothing here fails a turn."""

    def __init__(self, adapter: Adapter, outbox: Outbox, post: Post, recipient: Account) -> None:
        self._adapter = adapter
        self._outbox = outbox
        self._post = post
        self._recipient = recipient
        self._live: Live | None = None
        self._closed = False
        self._status = "thinking…"
        self._stays_from = asyncio.get_running_loop().time() + _STAYS_AFTER
        self.text = ""

    async def show(self, event: Event) -> None:
        """Show what just happened."""
        match event:
            case TextSoFar(text=text):
                self.text = text
                await self._show_text(text)
            case ToolStarted(name=name):
                self._status = _WORDS.get(name, "working…")
                await self._working()
            case _:
                pass

    async def _show_text(self, text: str) -> None:
        if self._live is None and not self._closed and text.strip():
            await self._open()
        if self._live is not None:
            await self._live.show(text)

    async def _open(self) -> None:
        address = self._post.address
        stays = self._adapter.live_stays(address)
        if stays and not await self._may_stay():
            return
        try:
            self._live = await self._adapter.open_live(
                address, key=self._post.key, reply_to=self._post.reply_to, recipient=self._recipient
            )
        except AdapterError as error:
            self._closed = True
            log.info("live_not_shown", platform=address.platform, error=error)
            if stays and not isinstance(error, Unsure):
                await self._outbox.live_posted(self._post.key, "")
            return
        if stays:
            await self._outbox.live_posted(self._post.key, self._live.message_id)

    async def _may_stay(self) -> bool:
        """Return whether a message that stays may be posted now."""
        time = asyncio.get_running_loop().time()
        if time < self._stays_from:
            return False
        if await self._outbox.holds_back(self._post.address):
            self._stays_from = time + _STAYS_AFTER  # an answer before this one is still to be posted: look again then
            return False
        self._closed = await self._outbox.begin_live(self._post) is not None
        return not self._closed  # a rerun after a crash: the message is there already and gets the final text

    async def close(self) -> None:
        """Stop showing, so that the final text can take its place."""
        self._closed = True
        if self._live is not None:
            await self._live.close()
            self._live = None

    async def keep_working(self) -> None:
        """Renew the typing sign until cancelled."""
        while True:
            await self._working()
            await asyncio.sleep(_TYPING_SECONDS)

    async def _working(self) -> None:
        with suppress(AdapterError):
            await self._adapter.working(self._post.address, status=self._status)


@asynccontextmanager
async def live_reply(adapter: Adapter, outbox: Outbox, post: Post, recipient: Account) -> AsyncIterator[LiveReply]:
    """Show that the bot works from now on; everything is closed when left."""
    reply = LiveReply(adapter, outbox, post, recipient)
    typing = asyncio.create_task(reply.keep_working())
    try:
        yield reply
    finally:
        typing.cancel()
        await asyncio.wait({typing})
        await reply.close()
