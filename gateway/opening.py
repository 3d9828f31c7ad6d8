"""The session that a message is answered in: the one that goes on, or a new one with what is frozen for it."""

import asyncio
from dataclasses import dataclass
from functools import partial

import structlog

from gateway.agent.prompt import fits, identity, scope_now, system_blocks
from gateway.agent.subagents import Subagents
from gateway.db.engine import Database
from gateway.errors import OutOfDate
from gateway.history import History, Session
from gateway.inbox import Claim
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.agents import agents_prompt
from memory.changes import Changes, changes
from memory.instructions.layers import Instructions
from memory.instructions.telling import render
from memory.ports import UNMETERED, Clock, Meter
from memory.prompt import index_targets, memory_prompt
from memory.scan import Scanner
from memory.scope import Part, Scope
from memory.team.client import TeamSync

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Opens sessions; `memory_off` says what turned memory off for everybody: `environment`, `setting` or "" (none)."""

    settings: Settings
    database: Database
    history: History
    scopes: Scopes
    instructions: Instructions
    subagents: Subagents
    team: TeamSync
    clock: Clock
    meter: Meter = UNMETERED
    memory_off: str = ""

    async def session(self, claim: Claim, scope: Scope) -> tuple[Scope, Session]:
        """Return the session that goes on, or a new one, and the scope that it is for."""
        while True:
            try:
                return scope, await self._open(claim, scope) or await self._start(claim, scope)
            except OutOfDate as error:
                log.info("session_begun_again", reason=str(error))
                scope = await self.scopes.of(claim.inbound.address, claim.principal)

    async def _open(self, claim: Claim, scope: Scope) -> Session | None:
        conversation = str(claim.inbound.address)
        session = await self.history.open_session(scope, conversation)
        if session is None or fits(session.system, scope, self.settings.memory):
            return session
        async with self.database.write() as transaction:
            await self.history.end_session(transaction, conversation)
        return None

    async def _start(self, claim: Claim, scope: Scope) -> Session:
        local = scope_now(scope, self.clock())
        mark = await self.history.mark(scope)
        if scope.enabled:
            await self.team.pull(scope, within=self.settings.memory.team_pull_deadline)
        else:
            self.meter.count("memory_disabled", by=self.memory_off or "preference")
        if scope.project and scope.team_dir is None:
            self.meter.count("team_memory_disabled", by=self._team_off(scope))
        agents = await self.subagents.known(scope)
        instructions = await self.instructions.load(scope)
        for file in instructions.files:
            self.meter.count("instruction_files_loaded", layer=file.kind.value)
        for kind in instructions.unreadable:
            self.meter.count("instruction_files_unreadable", layer=kind.value)
        frozen = [
            identity(claim.inbound, now=local),
            render(instructions),
            agents_prompt(agents.found),
        ]
        identity_text = "\n\n".join(part for part in frozen if part)
        system = system_blocks(identity_text, await memory_prompt(scope, self.settings.memory, meter=self.meter))
        return await self.history.start_session(
            scope, str(claim.inbound.address), system=system, today=local.date().isoformat(), mark=mark
        )

    def _team_off(self, scope: Scope) -> str:
        if self.memory_off:
            return self.memory_off
        if not scope.enabled or scope.leaves_out(Part.TEAM):
            return "preference"
        return "membership" if self.settings.memory.team_memory_enabled else "setting"


async def changed_since_told(scanner: Scanner, scope: Scope, session: Session, *, began: float) -> Changes:
    """Return what changed in memory since the session was told of it; `began` is the monotonic moment of its turn."""
    if not scope.enabled:
        return Changes()
    headers = await scanner.scan(scope, since=began)  # recall's scan, if it made one
    index = index_targets(session.system[-1]["text"])
    known = index | {name for name in session.shown.names if name.endswith(".md") and name[0] != "@"}
    look = partial(changes, scope, headers, known=known, since=session.told_notes_at)
    return await asyncio.to_thread(look)
