"""/memory: see what is remembered here."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.buttons import Choice, short
from gateway.commands.table import Asked, Handler, Reply
from memory.counts import counted
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
_NO_MORE = "That note is here no more. `/memory` lists those that are."
_PRESSABLE = 8
_MARK = 16
_PRESSED = re.compile(rf"note ([0-9a-f]{{{_MARK}}})")
"""What the buttons under a list say: a note's name must not outlive it, and buttons stay for a day."""
_PAGE = re.compile(r"page ([1-9]\d{0,5})", re.ASCII)


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
        if page := _PAGE.fullmatch(asked.arguments):
            return await self._list(asked, int(page[1]))
        name = asked.arguments.removeprefix("show ").strip()
        if pressed := _PRESSED.fullmatch(name):
            headers = await self.scanner.scan(asked.scope)
            meant = [each.name for each in headers if _mark(each.name) == pressed[1]]
            return await self._show(asked, meant[0]) if meant else Reply(text=_NO_MORE)
        return await (self._show(asked, name) if name else self._list(asked, 1))

    async def _list(self, asked: Asked, page: int) -> Reply:
        headers = await self.scanner.scan(asked.scope)
        logged = self._logged(asked.scope)
        if not headers:
            return Reply(text=logged or "I remember nothing here yet. Tell me something worth keeping.")
        there = headers[(page - 1) * _LISTED : page * _LISTED]
        if not there:
            return Reply(text=f"There is no page {page}.")
        now = self.clock().timestamp()
        lines = [
            f"- `{header.name}` {header.description or '(no description)'} "
            f"({header.type or 'no type'}, {age_words(age_days(header.mtime, now))})"
            for header in there
        ]
        left = len(headers) - page * _LISTED
        more = f"\n\n… and {left} more. `/memory page {page + 1}` goes on." if left > 0 else ""
        following = [Choice(label="Next", says=f"/memory page {page + 1}")] if left > 0 else []
        listed = "\n".join(lines) + more
        shows = " ".join(filter(None, ("`/memory NAME` shows one.", logged)))
        text = f"I remember {counted(len(headers), 'thing')} here:\n\n{listed}\n\n{shows}"
        return Reply(text=text, choices=[*_shows([each.name for each in there]), *following])

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
            notes = {each.name for each in await self.scanner.scan(scope)}  # a day's logs are none
            return Reply(text=_which(wanted, names), choices=_shows([each for each in names if each in notes]))
        try:
            note = await self.notes.read(scope, found[0])
        except MemoryFault as error:
            return Reply(text=f"I can't show `{names[0]}`: {error}.")
        return Reply(text=f"**{names[0]}**\n\n````markdown\n{note.text[:_SHOWN]}\n````")


def _shows(names: Sequence[str]) -> list[Choice]:
    return [Choice(label=short(name), says=f"/memory note {_mark(name)}") for name in names[:_PRESSABLE]]


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]


def _which(wanted: str, found: Sequence[str]) -> str:
    more = f"\n\n… and {len(found) - _OFFERED} more." if len(found) > _OFFERED else ""
    lines = "\n".join(f"- `{name}`" for name in found[:_OFFERED])
    return f"Several notes fit `{wanted}`:\n\n{lines}{more}\n\n`/memory NAME` shows one."
