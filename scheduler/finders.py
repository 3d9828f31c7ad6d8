"""Who is due: the scopes, and for each the slot that a firing finds, open or with the gate that keeps it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol
from zoneinfo import ZoneInfo

from memory.errors import MemoryFault
from memory.scope import Mode, Part, Scope
from scheduler.slots import Due, Every, Firing


class Scopes(Protocol):
    """Who there is to work for."""

    async def active(self) -> Sequence[Scope]:
        """Return the scope of every principal and project whose memory is on."""


DreamSince = Callable[[Scope], Awaitable[datetime]]
"""Says when a scope's last dream began; the epoch if it had none."""
DreamGate = Callable[[Scope, Firing], Awaitable[str]]
"""Names the gate that keeps a scope from dreaming, "" if all are open."""


class Dreamers:
    """The scopes that could dream, with the gate that keeps each from it."""

    def __init__(self, every: Every, *, scopes: Scopes, since: DreamSince, gate: DreamGate) -> None:
        self._every = every
        self._scopes = scopes
        self._since = since
        self._gate = gate

    async def __call__(self, firing: Firing) -> Sequence[Due]:
        """Return them.

        A scope's slot stays the same all its local day until a dream has ended well: dreams that don't are counted.
        """
        return [await self._of(scope, firing) for scope in await self._scopes.active()]

    async def _of(self, scope: Scope, firing: Firing) -> Due:
        at = self._every.latest(firing.now).at
        day = firing.now.astimezone(ZoneInfo(scope.timezone)).date().isoformat()
        if scope.mode is not Mode.AUTO:
            return Due(slot=day, at=at, scope=scope, gate="log mode")
        if firing.by_hand:
            # Whoever wants all to dream does not mean those who said that they want none; who names one asks for it.
            unasked = scope.leaves_out(Part.DREAM) and not firing.only
            return Due(slot=day, at=at, scope=scope, gate="opted out" if unasked else "")
        try:
            # The same slot with a gate as without: it may open again in a moment, and a run that was cut off goes on.
            gate, since = await self._gate(scope, firing), await self._since(scope)
        except (OSError, MemoryFault):  # the dream will fail of it too, which is recorded, and the others can dream
            return Due(slot=day, at=at, scope=scope)
        return Due(slot=f"{day} after {since.isoformat()}", at=at, scope=scope, gate=gate)


class Members:
    """The scopes that hold a copy of a team's memory."""

    def __init__(self, every: Every, *, scopes: Scopes) -> None:
        self._every = every
        self._scopes = scopes

    async def __call__(self, firing: Firing) -> Sequence[Due]:
        """Return all scopes; those without a copy have a gate."""
        latest = self._every.latest(firing.now)
        return [
            replace(latest, scope=scope, gate="" if scope.team_dir is not None and scope.repo else "no team memory")
            for scope in await self._scopes.active()
        ]
