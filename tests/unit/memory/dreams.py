"""A dream whose run is a script, over one memory directory; for the tests of dreams and of what guards them."""

import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory.consolidation import Consolidation
from memory.doubles import LocalLeases, RecordingMeter
from memory.dream import Dream
from memory.judgement import NoSources
from memory.notes import Notes
from memory.ports import UNLIMITED, Budget, Changes, Outcome, Progress, Rights, RunReport, Said
from memory.scope import Mode, Scope
from memory.settings import MemorySettings
from memory.stamp import stamp
from memory.undo import Undo

NOW = datetime(2026, 5, 3, 3, tzinfo=UTC)
Script = Callable[["ScriptedRun", Scope], Awaitable[None]]


class ScriptedRun:
    """A run that writes what a test tells it to, through notes, and tells its progress as a real one does."""

    def __init__(self, notes: Notes) -> None:
        self.notes = self.watched = notes
        self.budget: Budget = UNLIMITED
        self.script: Script | None = None
        self.outcome = Outcome.COMPLETED
        self.prompts: list[str] = []
        self.systems: list[str] = []
        self.rights: Rights | None = None
        self.written: list[Path] = []
        self._progress: Progress | None = None

    async def __call__(
        self,
        scope: Scope,
        *,
        purpose: str,
        system: str,
        prompt: str,
        rights: Rights,
        max_turns: int,
        progress: Progress | None = None,
        changes: Changes | None = None,
        budget: Budget = UNLIMITED,
    ) -> RunReport:
        self.watched = self.notes.watched(changes) if changes else self.notes
        self.budget = budget
        self.prompts.append(prompt)
        self.systems.append(system)
        self.rights, self._progress = rights, progress
        if self.script is not None:
            await self.script(self, scope)
        return RunReport(outcome=self.outcome, written=tuple(self.written), text="Tidied up.", turns=2)

    async def write(self, scope: Scope, name: str, text: str) -> None:
        path = scope.memory_dir / name
        expected = (await self.notes.read(scope, path)).hash if path.exists() else ""
        await self.watched.write(scope, path, text, expected=expected)
        await self._tell(path)

    async def delete(self, scope: Scope, name: str) -> None:
        await self.watched.delete(scope, scope.memory_dir / name, expected=None)
        await self._tell(scope.memory_dir / name)

    async def _tell(self, path: Path) -> None:
        self.written.append(path)
        assert self._progress is not None
        await self._progress(turn=1, text="", tools=1, written=[path])


class CountedHistory:
    """A history of so many sittings."""

    def __init__(self, sittings: int) -> None:
        self.sittings = sittings
        self.asked: list[datetime] = []

    async def sittings_since(self, scope: Scope, since: datetime, *, enough: int) -> Sequence[datetime]:
        self.asked.append(since)
        return [NOW - timedelta(hours=2 + 12 * back) for back in range(min(self.sittings, enough))]

    async def said_between(self, scope: Scope, start: datetime, end: datetime) -> Sequence[Said]:
        raise AssertionError("a dream reads no transcript by itself")


class Night:
    """Everything that a dream needs, over one memory directory with two notes."""

    def __init__(self, root: Path, *, fresh: bool = True, shared: bool = False, **settings: Any) -> None:
        self.directory = root / "memory"
        self.directory.mkdir(exist_ok=True)
        self.now = NOW
        self.leases = LocalLeases()
        self.settings = MemorySettings(**settings)
        self.notes = Notes(leases=self.leases, settings=self.settings)
        self.run = ScriptedRun(self.notes)
        self.history = CountedHistory(5)
        self.told: list[str] = []
        self.scope = Scope(
            principal="ann",
            project="",
            memory_dir=self.directory,
            team_dir=None,
            mode=Mode.AUTO,
            shared=shared,
            enabled=True,
            timezone="UTC",
            readable=(self.directory,),
            writable=(self.directory,),
        )
        self.meter = RecordingMeter()
        if fresh:
            self.put("a.md", "- one fact about tea\n- another fact about trains\n- a third fact about Kiel\n")
            self.put("MEMORY.md", "- [A](a.md) — tea\n")
        self.ledger = NoSources()
        self.budget: Budget = UNLIMITED
        self.consolidation = Consolidation(
            self.run,
            notes=self.notes,
            leases=self.leases,
            notice=self.notice,
            settings=self.settings,
            clock=self.clock,
            ledger=self.ledger,
            budget=self.left,
        )
        self.undo = Undo(
            notes=self.notes, leases=self.leases, settings=self.settings, clock=self.clock, meter=self.meter
        )
        self.dream = Dream(
            self.consolidation, history=self.history, settings=self.settings, clock=self.clock, meter=self.meter
        )

    def clock(self) -> datetime:
        return self.now

    async def left(self, spent: int) -> bool:
        return await self.budget(spent)

    async def notice(self, scope: Scope, text: str) -> None:
        self.told.append(text)

    def put(self, name: str, text: str) -> None:
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (self.directory / name).write_text(text)
        os.utime(self.directory / name, ns=(1_700_000_000_123_456_789,) * 2)

    def state(self) -> dict[str, tuple[str, int]]:
        """Return every file with its text and time."""
        files = [path for path in self.directory.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.directory)): (path.read_text(), path.stat().st_mtime_ns) for path in files}

    def dreamt(self, ago: timedelta) -> None:
        stamp(self.directory, self.now - ago, 0)

    def texts(self) -> dict[str, str]:
        """Return the text of every note and index."""
        return {name: text for name, (text, _) in self.state().items() if name.endswith(".md")}


async def tidy(run: ScriptedRun, scope: Scope) -> None:
    """Move two facts to another note and mend the index, as a good dream does."""
    await run.write(scope, "b.md", "- another fact about trains\n- a third fact about Kiel\n")
    await run.write(scope, "a.md", "- one fact about tea\n")
    await run.write(scope, "MEMORY.md", "- [A](a.md) — tea\n- [B](b.md) — trains, Kiel\n")
