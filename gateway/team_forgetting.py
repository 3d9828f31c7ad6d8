"""What was forgotten of a team's notes in one chat: it leaves the project's other chats here, and then the server."""

import anyio
import structlog

from gateway.team_copies import TeamCopies
from gateway.team_exchanges import TeamExchanges
from memory.errors import Conflict, LeaseLost, PathRefused, WriteRefused
from memory.gone import Gone
from memory.notes import Notes
from memory.ports import Leases
from memory.scope import Scope
from memory.team.clearing import clear_copy

PUSH_SECONDS = 5.0
"""How long whoever has something forgotten waits for the server; the next exchange does what was not done."""
UNREACHED = " The team server could not be reached yet: it is told with the next exchange."
_log = structlog.get_logger(__name__)


class TeamForgetting:
    """Clears every copy of a project's team memory that this gateway holds, and tells the server."""

    def __init__(self, copies: TeamCopies, sync: TeamExchanges, notes: Notes, leases: Leases) -> None:
        self._copies = copies
        self._sync = sync
        self._notes = notes
        self._leases = leases

    async def __call__(self, scope: Scope, what: Gone) -> str:
        """Do so for what was forgotten in this scope; returns what is to be said of what could not be done, or "".

        It is the gateway that clears the other chats' copies, whatever those may write: what is forgotten is gone
        before anybody is told so.
        """
        others = await self._copies.others(scope)
        kept = [copy for copy in others if not await self._cleared(copy, what)]
        told = "" if await self._pushed(scope) else UNREACHED
        if not told:
            with anyio.move_on_after(PUSH_SECONDS):
                await self._copies.bring_in_step(scope, within=PUSH_SECONDS)
        return f"{told} In {len(kept)} other chats of the team it could not be taken out yet." if kept else told

    async def _cleared(self, copy: Scope, what: Gone) -> bool:
        try:
            await clear_copy(copy, what, self._notes, self._leases)
        except (Conflict, LeaseLost, PathRefused, WriteRefused) as error:
            _log.warning("team_copy_not_cleared", principal=copy.principal, cause=type(error).__name__)
            return False
        return True

    async def _pushed(self, scope: Scope) -> bool:
        with anyio.move_on_after(PUSH_SECONDS):
            try:
                report = await self._sync.push(scope, wait=PUSH_SECONDS)
            except LeaseLost:
                return False
            return report.failure is None and self._sync.resting(scope) is None
        return False
