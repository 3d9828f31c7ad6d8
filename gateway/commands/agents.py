"""/agents: who can be set to work here, what they remember, and a project's newer snapshot of that: take it or not."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from anyio import to_thread

from gateway.agent.subagents import Subagents
from gateway.buttons import Choice
from gateway.commands.table import Asked, Handler, Reply, not_understood
from gateway.proposal_texts import code
from gateway.settings import Settings
from memory.agent_memory import agent_scope
from memory.agent_snapshots import SnapshotCheck, SnapshotNotes, Snapshots, SnapshotState
from memory.agents import Agent, AgentMemory
from memory.counts import counted, listed
from memory.errors import Conflict, LeaseLost, MemoryFault
from memory.paths import ensure
from memory.scan import Scans
from memory.scope import Scope

_NONE = "No agents can be set to work here. Whoever runs this bot can describe some; the README says how."
_USAGE = (
    "`/agents` lists who can be set to work here. Where a snapshot of an agent's memory waits, `/agents NAME take` "
    "puts it in the place of the notes, and `/agents NAME keep` leaves them as they are."
)
_NOT_YOURS = "Only an owner of this bot decides that in a chat that several people share."
_READ_ONLY = "This memory belongs to the project: say it in one of the project's chats."
_BUSY = "That memory is just being written. Please write it again in a minute; nothing is changed yet."
_NOTHING_WAITS = "No snapshot waits for this agent."
_CODE = 4
_LISTED = 20
_LONGEST_TIME = 40
_WHOSE = {
    AgentMemory.USER: "in all projects",
    AgentMemory.PROJECT: "shared with the project",
    AgentMemory.LOCAL: "for this project",
}


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    """A snapshot that waits for somebody's word."""

    agent: Agent
    memory: Scope
    found: SnapshotCheck
    notes: SnapshotNotes
    snapshots: Snapshots

    @property
    def code(self) -> str:
        """What is to be written to confirm just this: other notes or another snapshot have another code."""
        shown = [str(self.memory.memory_dir), self.found.updated_at, *self.notes.marks]
        return hashlib.sha256("\n".join(shown).encode("utf-8", "surrogatepass")).hexdigest()[:_CODE]


@dataclass(frozen=True, kw_only=True)
class AgentsCommand:
    """The handler and what it works on, all of it within the asker's scope."""

    settings: Settings
    subagents: Subagents
    scanner: Scans

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {"agents": self.agents}

    async def agents(self, asked: Asked) -> Reply:
        """List the agents, or decide about the snapshot of one's memory."""
        match asked.arguments.replace("`", "").lower().split():
            case []:
                return Reply(text=await self._list(asked.scope))
            case [name, ("take" | "keep") as word, *confirmed] if len(confirmed) <= (word == "take"):
                return await self._decide(asked, name.removeprefix("@"), word, "".join(confirmed))
            case _:
                return Reply(text=not_understood(asked.arguments, (), _USAGE))

    async def _list(self, scope: Scope) -> str:
        found = (await self.subagents.known(scope)).found
        lines = [await self._line(scope, agent) for agent in found]
        return "\n".join(["**Agents that can be set to work here**", "", *lines]) if lines else _NONE

    async def _line(self, scope: Scope, agent: Agent) -> str:
        line = f"- `{agent.name}` {code(agent.description)}"
        memory = await self._memory(scope, agent)
        if agent.memory is None:
            return f"{line} (no memory)"
        if not memory.enabled:
            return f"{line} (memory `{agent.memory}`: off here)"
        count = counted(len(await self.scanner.scan(memory)), "note")
        line = f"{line} (memory `{agent.memory}`, {_WHOSE[agent.memory]}: {count})"
        waiting = await self._waiting(memory, agent)
        return f"{line}\n  - {_offer(waiting)}" if waiting else line

    async def _decide(self, asked: Asked, name: str, word: str, confirmed: str) -> Reply:
        agent = (await self.subagents.known(asked.scope)).named(name)
        if agent is None:
            return Reply(text=f"There is no agent `{code(name)}` here. `/agents` lists them.")
        waiting = await self._waiting(await self._memory(asked.scope, agent), agent)
        if waiting is None:
            return Reply(text=_NOTHING_WAITS)
        if refusal := self._refusal(asked, waiting):
            return Reply(text=refusal)
        try:
            return await (_keep(waiting) if word == "keep" else _take(waiting, confirmed))
        except (LeaseLost, Conflict):
            return Reply(text=_BUSY)
        except MemoryFault as error:
            return Reply(text=f"I can't do that: {error}.")

    def _refusal(self, asked: Asked, waiting: _Waiting) -> str:
        """Return why it is not this person's to decide, or not here; "" if it is."""
        if not waiting.memory.writable:
            return _READ_ONLY
        theirs = not asked.scope.shared or asked.claim.inbound.account in self.settings.access.owners
        return "" if theirs else _NOT_YOURS

    async def _memory(self, scope: Scope, agent: Agent) -> Scope:
        return await to_thread.run_sync(partial(agent_scope, scope, agent, home=self.subagents.memory_base))

    async def _waiting(self, memory: Scope, agent: Agent) -> _Waiting | None:
        """Return the snapshot that somebody has to decide about; a `user` memory begins by itself."""
        snapshots = self.subagents.snapshots
        if snapshots is None or not memory.enabled:
            return None
        found = await snapshots.check(memory, agent)
        if found.state is SnapshotState.NONE:
            return None
        if found.state is SnapshotState.INITIALISE and agent.memory is AgentMemory.USER:
            return None
        notes = await snapshots.notes(memory, agent)
        return _Waiting(agent=agent, memory=memory, found=found, notes=notes, snapshots=snapshots)


async def _keep(waiting: _Waiting) -> Reply:
    await to_thread.run_sync(ensure, waiting.memory)
    await waiting.snapshots.keep(waiting.memory, waiting.found)
    return Reply(text=f"The notes of `{waiting.agent.name}` stay as they are. A newer snapshot will be offered again.")


async def _take(waiting: _Waiting, confirmed: str) -> Reply:
    agent, memory = waiting.agent, waiting.memory
    await to_thread.run_sync(ensure, memory)
    if waiting.found.state is SnapshotState.INITIALISE:
        left = await waiting.snapshots.initialise(memory, agent, waiting.found)
        return Reply(text=f"`{agent.name}` begins with the notes of the snapshot.{_left(left)}")
    if confirmed != waiting.code:
        changed = "That is not the code, or something has changed since. " if confirmed else ""
        return Reply(text=changed + _asked(waiting), choices=_answers(waiting))
    left = await waiting.snapshots.replace(memory, agent, waiting.found)
    return Reply(text=f"`{agent.name}` has the notes of the snapshot now.{_left(left)}")


def _offer(waiting: _Waiting) -> str:
    name, time = waiting.agent.name, _time(waiting.found)
    if not waiting.memory.writable:
        return f"A snapshot of {time} waits; an owner decides about it in one of the project's chats."
    if waiting.found.state is SnapshotState.INITIALISE:
        return f"A snapshot of {time} waits to begin with: `/agents {name} take`."
    return (
        f"A newer snapshot, of {time}, waits: `/agents {name} take` puts it in the place of the notes, "
        f"`/agents {name} keep` leaves them."
    )


def _asked(waiting: _Waiting) -> str:
    return (
        f"The snapshot of {_time(waiting.found)} would take the place of the notes of `{waiting.agent.name}`, for "
        f"good. These go: {_names(waiting.notes.memory)}. These come: {_names(waiting.notes.snapshot)}. To have it "
        f"done, write `/agents {waiting.agent.name} take {waiting.code}`; `/agents {waiting.agent.name} keep` leaves "
        "all as it is."
    )


def _answers(waiting: _Waiting) -> list[Choice]:
    said = f"/agents {waiting.agent.name}"
    return [
        Choice(label="Take the snapshot", says=f"{said} take {waiting.code}"),
        Choice(label="Keep the notes", says=f"{said} keep"),
    ]


def _names(names: Sequence[str]) -> str:
    return listed([f"`{code(name)}`" for name in names], _LISTED) or "none"


def _left(names: Sequence[str]) -> str:
    return f" These could not be taken over and are as they were: {_names(names)}." if names else ""


def _time(found: SnapshotCheck) -> str:
    shown = "".join(char for char in found.updated_at if char.isprintable())[:_LONGEST_TIME]
    return f"`{code(shown)}`"
