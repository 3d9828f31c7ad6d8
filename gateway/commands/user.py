"""What everybody can tell the bot: /start, /help, /new, /stop, /status."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from anyio import to_thread

from adapters.base import Adapter
from gateway.agent.subagents import FILE_TOOLS
from gateway.commands.table import MENU, Asked, Handler, Reply
from gateway.history import History
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.usage import Usage
from memory.agents import load_agents
from memory.counts import counted
from memory.instructions.layers import Instructions
from memory.instructions.telling import describe
from memory.paths import folder_name
from memory.ports import Clock
from memory.scan import Scans
from memory.scope import Mode, OptOut, Part, Scope

_DAY = 86_400.0
_PARTS = {
    Part.MEMORY: "memory",
    Part.RECALL: "recalling notes",
    Part.EXTRACTION: "saving notes after each answer",
    Part.DREAM: "the nightly tidying",
    Part.TEAM: "team memory",
}


_STANDIN = (
    "none is set, so the built-in stand-in answers: it follows rules and does not think. "
    "`ANTHROPIC_API_KEY` or `ANTHROPIC_BASE_URL` sets one; `reverie init` asks for it"
)
_WHERE = {
    "slack": "Write a command after mentioning me, in our direct messages, or as `/reverie status`.",
    "terminal": "`/quit` or Ctrl-D leaves.",
}
"""What else there is to know of commands on a platform."""


@dataclass(frozen=True, kw_only=True)
class UserCommands:
    """The handlers and what they look at."""

    settings: Settings
    scopes: Scopes
    history: History
    usage: Usage
    scanner: Scans
    clock: Clock
    instruction_files: Instructions
    adapters: Mapping[str, Adapter]

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {
            "start": self.start,
            "help": self.help,
            "new": self.new,
            "stop": self.stop,
            "status": self.status,
            "instructions": self.instructions,
        }

    async def start(self, _: Asked) -> Reply:
        """Introduce the bot."""
        return Reply(
            text="Hello, I'm **Reverie**. Just write to me. I remember what matters from one conversation to the next; "
            "you can see it with `/memory`, and if you tell me to remember or to forget something, I do.\n\n"
            "`/help` lists what else I understand."
        )

    async def help(self, asked: Asked) -> Reply:
        """List the commands and how to reach the bot here."""
        menu = "\n".join(f"- `/{name}` {summary}" for name, summary in MENU)
        if asked.scope.shared:
            how = (
                "Mention me or reply to me and I answer. "
                "I remember for this chat, apart from your private chat with me."
            )
        else:
            how = "Write to me as you would to a person. What you tell me here stays between us."
        return Reply(text="\n\n".join(filter(None, (how, menu, _WHERE.get(asked.claim.inbound.address.platform)))))

    async def new(self, _: Asked) -> Reply:
        """End the session."""
        return Reply(text="A new conversation. I still remember what I keep in memory.", ends_session=True)

    async def stop(self, _: Asked) -> Reply:
        """Answer a /stop that came through the line: nothing was running when it was its turn."""
        return Reply(text="There is nothing to stop.")

    async def status(self, asked: Asked) -> Reply:
        """Say what is on here."""
        scope, address = asked.scope, asked.claim.inbound.address
        session = await self.history.open_session(scope, str(address))
        lines = [
            f"- Chat: `{address}`, {'shared' if scope.shared else 'private'}",
            f"- Model: {f'`{self.settings.model.chat}`' if self.settings.model.is_set else _STANDIN}",
            f"- Conversation: {counted(len(session.messages), 'message')} so far"
            if session
            else "- Conversation: none open",
            await self._memory(asked),
            _left_out(scope),
            await self._agents(scope),
            f"- Time zone: {scope.timezone}",
            await self._spent(scope),
            f"- {seen}" if (seen := await self.adapters[address.platform].sight(address)) else "",
        ]
        return Reply(text="\n".join(line for line in lines if line))

    async def _spent(self, scope: Scope) -> str:
        if not self.settings.model.is_set:
            return ""  # what the stand-in counts is nothing that anybody pays for
        today = await self.usage.since(scope.principal, self.clock().timestamp() - _DAY)
        return f"- Last 24 hours: {sum(tokens.total for tokens in today.values()):,} tokens"

    async def instructions(self, asked: Asked) -> Reply:
        """Say which instruction files are loaded here, in which order."""
        told = describe(await self.instruction_files.load(asked.scope))
        # What is written for the model may say `~/`: here it would be taken for the home of whoever runs the gateway.
        home = f"homes/{folder_name(asked.scope.principal)}"
        whose = "this chat's folder" if asked.scope.shared else "your folder"
        where = f"`{home}` is {whose}, inside the one that the gateway keeps memory in"
        return Reply(text=f"{told.replace('`~/', f'`{home}/')}\n\n{where} (`REVERIE_HOME`, unless set otherwise).")

    async def _memory(self, asked: Asked) -> str:
        scope = asked.scope
        if not scope.enabled:
            return "- Memory: off"
        count = len(await self.scanner.scan(scope))
        how = "a daily log, sorted at night" if scope.mode is Mode.LOG else "notes"
        team = f", team memory of {scope.project}" if scope.team_dir is not None else ""
        chosen = await self.scopes.chosen(scope.principal)
        by = ", as set with `/mode`, whatever `reverie.toml` says" if chosen and chosen.mode else ""
        return f"- Memory: on, {counted(count, 'note')}, kept as {how}{by}{team}"

    async def _agents(self, scope: Scope) -> str:
        agents = await to_thread.run_sync(
            partial(load_agents, self.settings.home, scope.project_root, tools=FILE_TOOLS)
        )
        named = [f"`{each.name}` ({f'memory: {each.memory}' if each.memory else 'no memory'})" for each in agents.found]
        faulty = len({fault.file for fault in agents.faults})
        broken = f"{faulty} {'file needs' if faulty == 1 else 'files need'} mending, see `reverie doctor`"
        told = [", ".join(named), broken if faulty else ""]
        return f"- Agents: {'; '.join(part for part in told if part)}" if any(told) else ""


def _left_out(scope: Scope) -> str:
    wishes = ", ".join(dict.fromkeys(f"{_PARTS[each.part]} ({_said_by(each)})" for each in scope.opted_out))
    return f"- Opted out of: {wishes}" if wishes else ""


def _said_by(wish: OptOut) -> str:
    return f"`{wish.file}`, which can't be understood there: {wish.fault}" if wish.fault else f"`{wish.file}`"
