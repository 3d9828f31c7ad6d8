"""/memory: see what is remembered here."""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.commands.table import Asked, Handler, Reply
from memory.errors import MemoryFault, PathRefused
from memory.freshness import age_days, age_words
from memory.notes import NoteMissing, Notes
from memory.paths import readable_path
from memory.ports import Clock
from memory.scan import Scans

_LISTED = 40
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
        if not headers:
            return Reply(text="I remember nothing here yet. Tell me something worth keeping.")
        now = self.clock().timestamp()
        lines = [
            f"- `{header.name}` {header.description or '(no description)'} "
            f"({header.type or 'no type'}, {age_words(age_days(header.mtime, now))})"
            for header in headers[:_LISTED]
        ]
        more = f"\n\n… and {len(headers) - _LISTED} more." if len(headers) > _LISTED else ""
        return Reply(
            text=f"I remember {len(headers)} things here:\n\n{chr(10).join(lines)}{more}\n\n`/memory NAME` shows one."
        )

    async def _show(self, asked: Asked, name: str) -> Reply:
        for candidate in (name, name.strip("`"), f"{name.strip('`')}.md"):
            try:
                path = readable_path(asked.scope, candidate)
                if not path.is_relative_to(asked.scope.memory_dir):  # a project's own files are no memory
                    continue
            except PathRefused:
                continue
            try:
                note = await self.notes.read(asked.scope, path)
            except NoteMissing:
                continue
            except MemoryFault as error:
                return Reply(text=f"I can't show `{candidate}`: {error}.")
            return Reply(text=f"**{candidate}**\n\n````markdown\n{note.text[:_SHOWN]}\n````")
        return Reply(text=f"I have no note `{name}` here. `/memory` lists them.")
