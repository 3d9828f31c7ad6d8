"""Shows an answer while it is written. The final text is not its business: that goes through the outbox."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType

import structlog

from adapters.base import Account, Adapter, Live, Step, StepState
from adapters.errors import AdapterError, Unsure
from adapters.waiting import happens
from gateway.agent.events import Event, TextSoFar, ToolEnded, ToolStarted
from gateway.agent.subagents import AGENT
from gateway.outbox import Outbox, Post
from gateway.signs import THINKING
from memory.counts import counted

log = structlog.get_logger(__name__)

_STAYS_AFTER = 0.7  # an answer that is done by then is posted once, whole, without an edit
_MOST_STEPS = 20  # of those before the first text, that are told of when it is there
_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "read": "Reading notes",
        "glob": "Looking through notes",
        "grep": "Searching notes",
        "write": "Writing a note",
        "edit": "Changing a note",
        "append": "Writing a note",
        "delete": "Deleting a note",
        AGENT: "Letting an agent work on it",
    }
)
"""What each tool does. Not with what: that may be private, and the chat may not."""


def _nobody(words: str) -> None:
    """Tell nobody."""


class LiveReply:
    """The visible side of one turn. Nothing here fails a turn.

    An answer that only one person may see, or that takes the place of another message, is not shown before it is done.
    """

    def __init__(
        self, adapter: Adapter, outbox: Outbox, post: Post, recipient: Account, *, says: Callable[[str], None]
    ) -> None:
        self._adapter = adapter
        self._outbox = outbox
        self._post = post
        self._recipient = recipient
        self._says = says
        self._live: Live | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._steps: dict[str, Step] = {}
        self._stays = adapter.live_stays(post.address)
        self._stays_from = asyncio.get_running_loop().time() + _STAYS_AFTER
        if post.only_for or post.message_id:
            self._closing.set()
        self.text = ""
        says(THINKING)
        if not self._stays:  # a draft can say that the bot thinks
            self._open()

    async def show(self, event: Event) -> None:
        """Show what just happened; waits for no platform."""
        match event:
            case TextSoFar(text=text):
                self.text = text
                if text.strip():
                    self._open()
                if self._live is not None:
                    await self._live.show(text)
            case ToolStarted(call=call, name=name):
                title = _TITLES.get(name, "Working")
                self._says(f"{title[0].lower()}{title[1:]}…")
                await self._step(Step(id=call, title=title))
            case ToolEnded(call=call, failed=failed):
                self._says(THINKING)
                await self._step(replace(self._steps[call], state=StepState.FAILED if failed else StepState.DONE))
            case _:
                pass

    async def _step(self, step: Step) -> None:
        self._steps[step.id] = step
        if not self._stays:
            self._open()
        if self._live is not None:
            await self._live.step(step)

    async def close(self) -> None:
        """Stop showing, so that the final text can take its place.

        A message that is being posted is waited for: whether it is there must be known.
        """
        self._closing.set()
        if self._opening is not None:
            try:
                await asyncio.wait({self._opening})
            finally:
                self._opening.cancel()
        if self._live is not None:
            for step in self._steps.values():
                if step.state is StepState.RUNNING:  # the answer was cut off
                    await self._live.step(replace(step, state=StepState.FAILED))
            await self._live.close()
            self._live = None

    def _open(self) -> None:
        if self._opening is None and not self._closing.is_set():
            self._opening = asyncio.create_task(self._opened())

    async def _opened(self) -> None:
        try:
            if not self._stays or await self._may_stay():
                await self._begin()
        except Exception:  # edge: what goes wrong with the showing is no fault of the turn
            log.exception("live_fault")

    async def _may_stay(self) -> bool:
        """Wait until a message that stays may be posted; False if that is too late, or if it was posted before."""
        pause = self._stays_from - asyncio.get_running_loop().time()
        while not await happens(self._closing, within=max(pause, 0.0)):
            if not await self._outbox.holds_back(self._post.address):
                # After a crash the message may be there already, and gets the final text.
                return await self._outbox.begin_live(self._post) is None
            pause = _STAYS_AFTER  # an answer before this one is still to be posted
        return False

    async def _begin(self) -> None:
        post = self._post
        try:
            live = await self._adapter.open_live(
                post.address, key=post.key, reply_to=post.reply_to, recipient=self._recipient
            )
        except AdapterError as error:
            log.info("live_not_shown", platform=post.address.platform, error=error)
            if self._stays and not isinstance(error, Unsure):
                await self._outbox.live_posted(post.key, "")
            return
        self._live = live
        if self._stays:
            await self._outbox.live_posted(post.key, live.message_id)
        for step in list(self._steps.values())[-_MOST_STEPS:]:
            await live.step(step)
        if self.text.strip():
            await live.show(self.text)


@asynccontextmanager
async def live_reply(
    adapter: Adapter, outbox: Outbox, post: Post, recipient: Account, *, says: Callable[[str], None] = _nobody
) -> AsyncIterator[LiveReply]:
    """Show an answer from now on, until this is left; `says` is told in words what the bot does."""
    reply = LiveReply(adapter, outbox, post, recipient, says=says)
    try:
        yield reply
    finally:
        await reply.close()


def footer(*, model: str, tokens: int, notes: int, seconds: float) -> str:
    """Return the line that says what an answer took."""
    return f"{model} · {tokens:,} tokens · {counted(notes, 'note')} · {seconds:.1f} s"
