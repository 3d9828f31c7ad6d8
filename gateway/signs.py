"""The signs that a message was taken: where its answer can't begin at once, and while it is written.

A message that is answered soon needs nothing but the sign of its turn. One that waits, for a free worker or for the
rest of itself, gets the same sign at once; one that is behind another in its conversation gets a mark instead, for
there the other's sign stands.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from adapters.base import Adapter, Inbound
from adapters.errors import AdapterError
from adapters.waiting import happens
from gateway.inbox import Claim, Standing

log = structlog.get_logger(__name__)

THINKING = "thinking…"
_BEGINS_WITHIN = 0.1
"""Seconds that a turn has to begin before anything is shown for its message without it."""
_RENEWED_EVERY = 4.0  # Telegram's typing sign fades after five seconds
_APART = 1.0  # seconds between two words for the same message, however quick the work is
_TAKEN_AWAY_WITHIN = 2.0
"""Seconds that a gateway which stops leaves what is still to be taken away."""

_Key = tuple[str, str]


@dataclass(kw_only=True, slots=True, eq=False)
class _Sign:
    """What is shown for one message; `turns` of it run in this process: a second one if its words were changed."""

    inbound: Inbound
    words: str = THINKING
    turns: int = 0
    shown: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Signs:
    """Shows that the bot is at work on a message. Nothing here is waited for, and nothing fails a turn.

    `standing` tells what has become of a message; without `acknowledge` no message is marked.
    """

    def __init__(
        self,
        adapters: Mapping[str, Adapter],
        *,
        standing: Callable[[Inbound], Awaitable[Standing]],
        acknowledge: bool,
    ) -> None:
        self._adapters, self._standing, self._acknowledge = adapters, standing, acknowledge
        self._signs: dict[_Key, _Sign] = {}
        self._showing: dict[_Sign, asyncio.Task[None]] = {}
        self._marking: dict[_Key, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def taken(self, inbound: Inbound) -> None:
        """Show that a message was stored, unless its turn begins at once. What nobody else sees has no sign."""
        if not inbound.only_for_sender:
            self._of(inbound)

    @contextmanager
    def answering(self, claim: Claim) -> Iterator[None]:
        """Let the sign stand while a message is answered; it and the mark go away however that ends."""
        if claim.inbound.only_for_sender:
            yield
            return
        sign = self._of(claim.inbound)
        sign.turns += 1
        try:
            yield
        finally:
            sign.turns -= 1
            if not sign.turns:
                self._forget(sign)
                ending = asyncio.create_task(self._end(sign, marked=claim.behind))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    def says(self, claim: Claim, words: str) -> None:
        """Say what is done for a message now; from the first word on its sign is shown."""
        sign = self._signs.get(_key(claim.inbound))
        if sign is not None and (sign.words != words or not sign.shown):
            sign.words = words
            sign.changed.set()

    async def aclose(self) -> None:
        """Show nothing more for what waits, and let what is to be taken away go."""
        for task in self._showing.values():
            task.cancel()
        under_way = {*self._showing.values(), *self._marking.values(), *self._ending}
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=_TAKEN_AWAY_WITHIN)
            for task in late:
                task.cancel()

    def _of(self, inbound: Inbound) -> _Sign:
        sign = self._signs.get(_key(inbound))
        if sign is None:
            sign = self._signs[_key(inbound)] = _Sign(inbound=inbound)
            task = self._showing[sign] = asyncio.create_task(self._show(sign))
            task.add_done_callback(lambda _: self._showing.pop(sign))
        return sign

    def _forget(self, sign: _Sign) -> None:
        if self._signs.get(_key(sign.inbound)) is sign:
            del self._signs[_key(sign.inbound)]

    async def _show(self, sign: _Sign) -> None:
        """Show a sign as long as its message is next to be answered, or is answered here."""
        try:
            await happens(sign.changed, within=_BEGINS_WITHIN)
            while sign.turns or await self._is_next(sign) or sign.turns:
                sign.changed.clear()
                sign.shown = True
                await _swallowing(self._adapter(sign).working(sign.inbound.address, status=sign.words))
                await asyncio.sleep(_APART)
                await happens(sign.changed, within=_RENEWED_EVERY - _APART)
        except Exception:  # edge: a platform or a database that is away fails no turn
            log.exception("sign_fault")
        finally:
            self._forget(sign)

    async def _is_next(self, sign: _Sign) -> bool:
        standing = await self._standing(sign.inbound)
        if standing is Standing.BEHIND:
            self._mark(sign.inbound)
        if standing is Standing.OVER and sign.shown:  # it was taken back
            await _swallowing(self._adapter(sign).working(sign.inbound.address, status=""))
        return standing is Standing.NEXT

    def _mark(self, inbound: Inbound) -> None:
        if not self._acknowledge or inbound.in_place_of:  # a pressed button is no message of theirs
            return
        adapter = self._adapters[inbound.address.platform]
        marking = adapter.acknowledge(inbound.address, inbound.message_id, seen=True)
        task = self._marking[_key(inbound)] = asyncio.create_task(_swallowing(marking))
        task.add_done_callback(lambda _: self._marking.pop(_key(inbound), None))

    async def _end(self, sign: _Sign, *, marked: bool) -> None:
        """Take away what is shown, after the last request that shows it."""
        if showing := self._showing.get(sign):
            showing.cancel()
            await asyncio.wait({showing})
        adapter, inbound = self._adapter(sign), sign.inbound
        if sign.shown:
            await _swallowing(adapter.working(inbound.address, status=""))
        if marked and self._acknowledge and not inbound.in_place_of:
            if marking := self._marking.get(_key(inbound)):
                await asyncio.wait({marking})
            await _swallowing(adapter.acknowledge(inbound.address, inbound.message_id, seen=False))

    def _adapter(self, sign: _Sign) -> Adapter:
        return self._adapters[sign.inbound.address.platform]


def _key(inbound: Inbound) -> _Key:
    return inbound.address.platform, inbound.external_id


async def _swallowing(request: Coroutine[Any, Any, None]) -> None:
    try:
        await request
    except AdapterError as error:
        log.info("sign_not_shown", error=error)
