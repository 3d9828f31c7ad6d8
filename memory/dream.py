"""Decides when a scope's notes are put in order by a run of their own, and does so: the dream."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path

import anyio.to_thread

from memory import journal as journals
from memory import snapshot as snapshots
from memory import stamp as stamps
from memory.consolidation import Consolidated, Consolidation, Ending, Task
from memory.consolidation_prompt import dream_prompt
from memory.counts import counted
from memory.journal import Journal, Record, Settling, Underway, has_begun
from memory.ports import UNMETERED, Clock, History, Meter, Progress
from memory.scope import Mode, Part, Scope
from memory.settings import MemorySettings

_TOLD = 100
"""So many sittings a dream is told of at most; no more of a long history is read for that."""
_PUNCTUAL = 0.95
"""The part of the scan's distance that counts: of two ticks that far apart, one may come a little early or late."""


class Gate(StrEnum):
    """Which gate keeps a scope from dreaming, in the order in which they are tried, cheapest first."""

    OPEN = "open"
    OFF = "off"
    """Memory or the dream is off."""
    LOG_MODE = "log mode"
    """The night distils the logs instead."""
    OBSTRUCTED = f"{stamps.NAME} in the memory folder is no plain file that can be written: remove it"
    TOO_SOON = "too soon"
    EMPTY = "no notes yet"
    THROTTLED = "throttled"
    """The sittings were counted a moment ago."""
    TOO_FEW_SITTINGS = "too few sittings"


@dataclass(kw_only=True)
class ScanTimes:
    """When each scope's sittings were last counted in this process, by memory directory."""

    last: MutableMapping[Path, datetime] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How a scope stands with its dreams: the last that ended well, the gate that is closed and what it waits for."""

    last: datetime
    gate: Gate
    due_at: datetime
    """When enough time has gone by since the last one."""
    sittings: int
    enough: int
    underway: Underway | None = None
    """How far the one is that runs now, in whichever process."""
    record: Record | None = None
    """The latest that changed something."""
    half_back: bool = False
    """Whether one that was not kept could not be put back wholly yet."""


class Dream:
    """Decides who is due, and dreams: one dream per memory directory at a time, on any number of replicas."""

    def __init__(
        self,
        consolidation: Consolidation,
        *,
        history: History,
        settings: MemorySettings,
        clock: Clock,
        scans: ScanTimes | None = None,
        meter: Meter = UNMETERED,
    ) -> None:
        self._consolidate = consolidation
        self._history = history
        self._settings = settings
        self._clock = clock
        self._scans = scans or ScanTimes()
        self._meter = meter

    async def last(self, scope: Scope) -> datetime:
        """Return when the dream that ended well last began; `memory.stamp.NEVER` if there was none."""
        return await anyio.to_thread.run_sync(stamps.last_consolidated, scope.memory_dir)

    async def due(self, scope: Scope) -> Gate:
        """Return the first gate that is closed, or `OPEN`; counts sittings only if all others are open."""
        last = await self.last(scope)
        gate = await self._gate(scope, last, forced=False)
        if gate is not Gate.OPEN:
            return gate
        now, scanned = self._clock(), self._scans.last.get(scope.memory_dir)
        distance = timedelta(minutes=self._settings.dream_scan_minutes) * _PUNCTUAL
        if scanned is not None and abs(now - scanned) < distance:  # what lies far ahead a wrong clock has left
            return Gate.THROTTLED
        self._scans.last[scope.memory_dir] = now  # before the count, so that one that fails is throttled too
        enough = self._settings.dream_min_sittings
        sittings = len(await self._history.sittings_since(scope, last, enough=enough))
        return Gate.OPEN if sittings >= enough else Gate.TOO_FEW_SITTINGS

    async def standing(self, scope: Scope) -> Standing:
        """Return how the scope stands; counts sittings, and leaves no trace of it, so that no tick is throttled."""
        last, enough = await self.last(scope), self._settings.dream_min_sittings
        gate = await self._gate(scope, last, forced=False)
        sittings = len(await self._history.sittings_since(scope, last, enough=enough))
        if gate is Gate.OPEN and sittings < enough:
            gate = Gate.TOO_FEW_SITTINGS
        changed = await anyio.to_thread.run_sync(journals.last_change, scope)
        return Standing(
            last=last,
            gate=gate,
            due_at=last + timedelta(hours=self._settings.dream_min_hours),
            sittings=sittings,
            enough=enough,
            underway=await self.underway(scope),
            record=changed[1] if changed else None,
            half_back=await self.is_half_back(scope),
        )

    async def obstacle(self, scope: Scope) -> Gate:
        """Return the gate that is closed even for somebody who asks for a dream, or `OPEN`."""
        return await self._gate(scope, stamps.NEVER, forced=True)

    async def underway(self, scope: Scope) -> Underway | None:
        """Return how far the run is that rewrites this memory now, in whichever process; None if there is none."""
        begun = await anyio.to_thread.run_sync(journals.unfinished, scope)
        if not begun or not await self._consolidate.is_held(scope):
            return None
        return await anyio.to_thread.run_sync(journals.underway, begun[-1])

    async def is_half_back(self, scope: Scope) -> bool:
        """Return whether a dream that is over has left something that is still to be put back; it is tried again."""
        begun = [folder for folder in await anyio.to_thread.run_sync(journals.unfinished, scope) if has_begun(folder)]
        return bool(begun) and not await self._consolidate.is_held(scope)

    async def stop(self, scope: Scope) -> bool:
        """Ask the run that is under way to end, in whichever process it is, and return whether there was one."""
        begun = await anyio.to_thread.run_sync(journals.unfinished, scope)
        if not begun or not await self._consolidate.is_held(scope):
            return False
        await anyio.to_thread.run_sync(Journal(scope, begun[-1]).stop)
        return True

    async def recover(self, scope: Scope) -> bool:
        """Put back what a dream has written that was killed; see `Consolidation.recover`."""
        return await self._consolidate.recover(scope)

    async def __call__(
        self,
        scope: Scope,
        *,
        forced: bool = False,
        progress: Progress | None = None,
        told: Callable[[Consolidated], str] | None = None,
    ) -> Consolidated:
        """Dream now. `forced` passes the gates of time and number, and `auto_dream_enabled`; never the others.

        What a dream that did not end well has written is put back, and the time of the last one stays. The owner is
        told in one line if something changed, in the words of `told` if given. After a dream that was killed the files
        are as it left them until the next one, or `recover`.
        """
        began, done = self._clock(), Consolidated(ending=Ending.ABORTED)
        try:
            task = partial(self._task, scope, began, forced=forced, told=told or improved)
            done = await self._consolidate(scope, task, progress=progress)
            return done
        finally:
            self._measure(done, began)

    def _measure(self, done: Consolidated, began: datetime) -> None:
        self._meter.count("dreams", outcome=done.ending.value)
        if done.ending in (Ending.GATED, Ending.BUSY):
            return
        self._meter.observe("dream_seconds", (self._clock() - began).total_seconds())
        survival = done.survival
        if survival is None:
            return
        self._meter.observe("dream_survival_ratio", survival.share, outcome=done.ending.value)
        if done.ending is Ending.CHANGED:
            self._meter.count("dream_facts", survival.facts_kept, fate="kept")
            self._meter.count("dream_facts", survival.facts_before - survival.facts_kept, fate="removed")
            self._meter.count("dream_bytes", survival.bytes_before, when="before")
            self._meter.count("dream_bytes", survival.bytes_after, when="after")

    async def _task(
        self, scope: Scope, now: datetime, *, forced: bool, told: Callable[[Consolidated], str]
    ) -> Task | Consolidated:
        last = await self.last(scope)
        # Under the lease the gates are tried again: another replica may just have dreamed.
        gate = await self._gate(scope, last, forced=forced)
        if gate is not Gate.OPEN:
            return Consolidated(ending=Ending.GATED, reason=gate.value)
        if last != stamps.NEVER:
            self._meter.observe("dream_hours", (now - last) / timedelta(hours=1))

        sittings = await self._history.sittings_since(scope, last, enough=_TOLD)
        return Task(
            purpose="dream",
            prompt=dream_prompt(scope, now=now, last=last, sittings=sittings, most=_TOLD),
            max_turns=self._settings.dream_max_turns,
            told=told,
            settling=Settling(began_at=now),
        )

    async def _gate(self, scope: Scope, last: datetime, *, forced: bool) -> Gate:
        by_itself = self._settings.auto_dream_enabled and not scope.leaves_out(Part.DREAM)
        if not scope.enabled or not (forced or by_itself):
            return Gate.OFF
        if scope.mode is Mode.LOG:
            return Gate.LOG_MODE
        if await anyio.to_thread.run_sync(stamps.is_obstructed, scope.memory_dir):
            return Gate.OBSTRUCTED
        if not forced and self._clock() - last < timedelta(hours=self._settings.dream_min_hours):
            return Gate.TOO_SOON
        empty = await anyio.to_thread.run_sync(snapshots.is_empty, scope)
        return Gate.EMPTY if empty else Gate.OPEN


def improved(done: Consolidated) -> str:
    """Return the line for the owner after a dream that changed something."""
    return f"Improved {counted(len(done.touched), 'memory', 'memories')}"
