"""Dreams that somebody asked for: they run as jobs do, and whoever asked sees the sign of work and hears the end."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import anyio
import structlog

from adapters.base import Address
from adapters.errors import AdapterError
from gateway.notices import Notices, counted
from memory.consolidation import Consolidated, Ending
from memory.dream import Dream
from memory.journal import Survival
from memory.paths import UNNAMED
from memory.ports import Progress
from memory.scope import Scope
from scheduler.clock import Begun, SchedulerClock
from scheduler.jobs import Firing

log = structlog.get_logger(__name__)

_JOB = "dream"
STATUS = "is putting memory in order…"
_WORKING_SECONDS = 4.0  # Telegram's typing sign fades after five
_LONGEST_SUMMARY = 1500
_AS_THEY_WERE = "The notes are as they were."
_NOT_BEGUN = f"I could not begin to dream. {_AS_THEY_WERE} Try it again later."
_HALF_BACK = (
    "Not all notes could be put back yet, as one could not be written. No fact is lost: what is missing is kept apart, "
    "and it is tried again by itself. `/dream status` says whether it is done."
)

Working = Callable[[str], Awaitable[None]]
"""Shows that the bot works, with a status in words; empty words end it. May raise `AdapterError`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asker:
    address: Address
    working: Working


class Dreaming:
    """Runs dreams for the clock; one that was asked for in a chat tells its end there instead of the usual line."""

    def __init__(self, dream: Dream, notices: Notices) -> None:
        self.dream = dream
        self._notices = notices
        self._askers: dict[Path, _Asker] = {}
        self._begun: set[Path] = set()
        self._waiting: set[asyncio.Task[None]] = set()

    async def has_someone(self, scope: Scope, scheduler: SchedulerClock, now: datetime) -> bool:
        """Return whether the job works for a scope, which it does not before anybody has talked there."""
        words = _words(scope)
        found = await scheduler.job(_JOB).candidates(Firing(now=now, by_hand=True, only=words))
        return any(due.is_of(words) for due in found)

    def begin(self, scope: Scope, address: Address, *, scheduler: SchedulerClock, working: Working) -> bool:
        """Begin a dream that is recorded as a job by hand, and return at once, False if one was begun here already.

        Raises `scheduler.errors.NotRunning`.
        """
        if scope.memory_dir in self._begun:
            return False
        begun = scheduler.begin(_JOB, only=_words(scope))
        self._begun.add(scope.memory_dir)
        self._askers[scope.memory_dir] = _Asker(address=address, working=working)
        task = asyncio.create_task(self._see_it_begin(scope, begun))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return True

    async def __call__(self, scope: Scope, *, forced: bool, progress: Progress | None = None) -> Consolidated:
        """Dream now; see `memory.dream.Dream`."""
        asker = self._askers.pop(scope.memory_dir, None) if forced else None
        if asker is None:
            return await self.dream(scope, forced=forced, progress=progress)
        text = ""
        try:
            async with _working(asker):
                done = await self.dream(scope, forced=True, progress=progress, told=lambda _: "")
            text = summary(done)
            return done
        finally:
            with anyio.CancelScope(shield=True):  # the gateway may be stopping: it is delivered by the next one
                await self._tell(scope, asker, text or await self._cut_off(scope))

    async def _cut_off(self, scope: Scope) -> str:
        half = await self.dream.is_half_back(scope)
        return f"The dream was cut off. {_HALF_BACK if half else _AS_THEY_WERE}"

    async def _see_it_begin(self, scope: Scope, begun: Begun) -> None:
        """Say so if the job came to its end without a dream: there is nobody else who could."""
        try:
            await begun.ended.wait()
        finally:
            self._begun.discard(scope.memory_dir)
        asker = self._askers.pop(scope.memory_dir, None)
        if asker is not None:
            log.warning("dream_not_begun", principal=scope.principal, cause=begun.error)
            await self._tell(scope, asker, _NOT_BEGUN)

    async def _tell(self, scope: Scope, asker: _Asker, text: str) -> None:
        await self._notices.say(str(asker.address), scope.principal, text, key=f"dream:{secrets.token_hex(8)}")


def _words(scope: Scope) -> str:
    """Return what the job knows a scope by."""
    return f"{scope.principal}/{scope.project or UNNAMED}"


@asynccontextmanager
async def _working(asker: _Asker) -> AsyncIterator[None]:
    """Show that the bot works until left."""

    async def again() -> None:
        while True:
            with suppress(AdapterError):
                await asker.working(STATUS)
            await asyncio.sleep(_WORKING_SECONDS)

    showing = asyncio.create_task(again())
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait({showing})
        with suppress(AdapterError):
            await asker.working("")


def summary(done: Consolidated) -> str:
    """Return what came of a dream, for whoever asked for it."""
    words = " ".join(done.summary.split())
    words = words if len(words) <= _LONGEST_SUMMARY else f"{words[:_LONGEST_SUMMARY]}…"
    match done.ending:
        case Ending.CHANGED:
            parts = [f"Memory is in order: {changes(len(done.touched), done.survival)}.", words]
            return "\n\n".join([*filter(None, parts), "`/dream diff` shows what changed, `/dream undo` takes it back."])
        case Ending.UNCHANGED:
            return "Memory is in order: nothing needed changing."
        case Ending.GATED | Ending.BUSY:
            return f"I did not dream: {done.reason}."
        case Ending.STOPPED | Ending.ABORTED:
            return f"The dream was ended: {done.reason}. {_HALF_BACK if done.half_back else _AS_THEY_WERE}"
        case _:
            return f"I did not keep this dream: {done.reason}. {_HALF_BACK if done.half_back else _AS_THEY_WERE}"


def changes(files: int, survival: Survival | None) -> str:
    """Return in figures what a dream did."""
    changed = f"{counted(files, 'file')} changed"
    if survival is None:
        return changed
    kept = f"{survival.facts_kept} of {survival.facts_before} facts kept ({survival.share:.0%})"
    notes = f"{survival.notes_before} → {survival.notes_after} notes"
    return f"{changed}, {kept}, {notes}, {_size(survival.bytes_before)} → {_size(survival.bytes_after)}"


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1024 else f"{count / 1024:.1f} KB"
