"""/memory: see what is remembered here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.commands.table import Asked, Handler, Reply
from gateway.notices import counted
from memory.dailylog import log_path
from memory.errors import MemoryFault
from memory.freshness import age_days, age_words
from memory.lookup import look_up
from memory.notes import Notes
from memory.ports import Clock
from memory.scan import Scans
from memory.scope import Mode, Scope

_LISTED = 40
_OFFERED = 10
_SHOWN = 6000


@dataclass(frozen=True, kw_only=True)
class MemoryCommands:
    """The handlers and what they look at; they read nothing outside the asker's scope."""

    notes: Notes
    scanner: Scans
    clock: Clock

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {"memory": self.memory}

    async def memory(self, asked: Asked) -> Reply:
        """List the notes, or show one."""
        if not asked.scope.enabled:
            return Reply(text="Memory is switched off here.")
        name = asked.arguments.removeprefix("show ").strip()
        return await (self._show(asked, name) if name else self._list(asked))

    async def _list(self, asked: Asked) -> Reply:
        headers = await self.scanner.scan(asked.scope)
        logged = self._logged(asked.scope)
        if not headers:
            return Reply(text=logged or "I remember nothing here yet. Tell me something worth keeping.")
        now = self.clock().timestamp()
        lines = [
            f"- `{header.name}` {header.description or '(no description)'} "
            f"({header.type or 'no type'}, {age_words(age_days(header.mtime, now))})"
            for header in headers[:_LISTED]
        ]
        more = f"\n\n… and {len(headers) - _LISTED} more." if len(headers) > _LISTED else ""
        listed = "\n".join(lines) + more
        shows = " ".join(filter(None, ("`/memory NAME` shows one.", logged)))
        return Reply(text=f"I remember {counted(len(headers), 'thing')} here:\n\n{listed}\n\n{shows}")

    def _logged(self, scope: Scope) -> str:
        """Say where in log mode that is which no note holds yet."""
        if scope.mode is not Mode.LOG:
            return ""
        today = log_path(scope, self.clock()).relative_to(scope.memory_dir).as_posix()
        return f"What is new is in the log of the day until the night sorts it: `/memory {today}` shows today's."

    async def _show(self, asked: Asked, name: str) -> Reply:
        scope, wanted = asked.scope, name.strip("`").strip()
        found = await look_up(scope, self.scanner, name) or await look_up(scope, self.scanner, wanted)
        names = [path.relative_to(scope.memory_dir).as_posix() for path in found]
        if not found:
            return Reply(text=f"I have no note `{name}` here. `/memory` lists them.")
        if len(found) > 1:
            return Reply(text=_which(wanted, names))
        try:
            note = await self.notes.read(scope, found[0])
        except MemoryFault as error:
            return Reply(text=f"I can't show `{names[0]}`: {error}.")
        return Reply(text=f"**{names[0]}**\n\n````markdown\n{note.text[:_SHOWN]}\n````")


def _which(wanted: str, found: Sequence[str]) -> str:
    more = f"\n\n… and {len(found) - _OFFERED} more." if len(found) > _OFFERED else ""
    lines = "\n".join(f"- `{name}`" for name in found[:_OFFERED])
    return f"Several notes fit `{wanted}`:\n\n{lines}{more}\n\n`/memory NAME` shows one."
