"""/mode: how this chat's memory is written, in notes at once or in a day log that the night sorts; owners switch it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from gateway.commands.table import Asked, Handler, Reply, not_understood
from gateway.db.modes import Chosen
from gateway.scopes import Scopes
from gateway.settings import Settings
from memory.errors import Conflict, LeaseLost, MemoryFault
from memory.ports import UNMETERED, Clock, Meter
from memory.scope import Mode, Scope

_HOW = {
    Mode.AUTO: "I keep what I learn here in notes at once (`auto`).",
    Mode.LOG: "I add what I learn here to a log of the day, which the night sorts into notes (`log`).",
}
_USAGE = "`/mode log` and `/mode auto` switch, `/mode default` goes back to what `reverie.toml` says."
_NOT_YOURS = "Only an owner of this bot can switch it."
_BUSY = "I am just saving what was said. Please write it again in a minute; nothing is switched yet."
_WISHES: Mapping[str, Mode | None] = {"log": Mode.LOG, "auto": Mode.AUTO, "default": None}


@dataclass(frozen=True, kw_only=True)
class ModeCommand:
    """The handler and what it works on. `close_log` gives every turn that is in no log yet its lines there."""

    settings: Settings
    scopes: Scopes
    close_log: Callable[[Scope], Awaitable[int]]
    clock: Clock
    meter: Meter = UNMETERED

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {"mode": self.mode}

    async def mode(self, asked: Asked) -> Reply:
        """Say which mode holds here, or switch it for all that shares this memory."""
        words, theirs = asked.arguments.replace("`", "").lower(), asked.claim.inbound.account
        if words and words not in _WISHES:
            return Reply(text=not_understood(words, _WISHES, _USAGE))
        if not words:
            chosen = await self.scopes.chosen(asked.scope.principal)
            whose = "" if theirs in self.settings.access.owners else f" {_NOT_YOURS}"
            return Reply(text=f"{_HOW[asked.scope.mode]} {told(chosen, asked.scope)}\n\n{_USAGE}{whose}")
        if theirs not in self.settings.access.owners:
            return Reply(text=_NOT_YOURS)
        try:
            return await self._switch(asked, _WISHES[words])
        except (LeaseLost, Conflict):
            return Reply(text=_BUSY)
        except MemoryFault as error:
            return Reply(text=f"I can't close today's log, so nothing is switched: {error}.")

    async def _switch(self, asked: Asked, mode: Mode | None) -> Reply:
        """Close the logs first: what is said from then on is extracted as the mode says that holds then."""
        before, inbound = asked.scope, asked.claim.inbound
        scopes = {before.memory_dir: before}
        scopes |= {scope.memory_dir: scope for scope in await self.scopes.of_principal(before.principal)}
        changes = mode is None or any(scope.mode is not mode for scope in scopes.values())
        for scope in scopes.values():
            if changes and scope.enabled and scope.mode is Mode.LOG:
                await self.close_log(scope)
        await self.scopes.choose(before.principal, mode, account=inbound.account, now=self.clock(), changes=changes)
        self.meter.count("memory_toggled", by="mode", to=mode or "default")
        after = await self.scopes.of(inbound.address, before.principal)
        text = f"{_HOW[after.mode]} {told(await self.scopes.chosen(before.principal), after)}"
        if after.mode is before.mode:
            return Reply(text=text)
        if before.mode is Mode.LOG:
            text += " What the log holds is sorted into notes in the coming night."
        return Reply(text=f"{text} This conversation begins anew.")


def told(chosen: Chosen | None, scope: Scope) -> str:
    """Return who has the say about the mode: somebody with `/mode`, or the settings."""
    if chosen is None or chosen.mode is None:
        return "That is what the settings say."
    where = "this chat" if scope.shared else "all private chats of this person"
    day = chosen.at.astimezone(ZoneInfo(scope.timezone)).date()
    return f"It was set with `/mode` on {day} for {where}, and goes before the settings."
