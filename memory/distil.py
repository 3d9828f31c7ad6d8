"""The night's distillation: day logs become topic notes and index lines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from anyio import to_thread

from memory.consolidation import Consolidated, Consolidation, Ending, Task
from memory.consolidation_prompt import distil_prompt
from memory.counts import counted, listed
from memory.dailylog import Log, broken_text, too_large, waiting_logs
from memory.journal import Settling
from memory.ports import Clock, Progress
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

_LOGS_AT_ONCE = 31
_BROKEN_BYTES = 64 * 1024  # of logs that are no text; they stand in the prompt, as the tools refuse to read them
_NAMED = 3


class Distil:
    """Turns the logs of past days into topic notes and the index, under the guard that dreams have."""

    def __init__(self, consolidation: Consolidation, *, settings: MemorySettings, clock: Clock) -> None:
        self._consolidate = consolidation
        self._settings = settings
        self._clock = clock

    async def __call__(self, scope: Scope, *, progress: Progress | None = None) -> Consolidated:
        """Distil what waits, then mark the logs that were opened as processed; they stay, read-only.

        Logs wait also where log mode was switched off since. If the run does not end well, notes and logs are as before
        and the same logs wait for the next night. A log that grew meanwhile waits too. Excludes the dream, and another
        distillation, of the same memory. A log that is too large to be read is left out, and the reason says so.
        """
        if not scope.enabled:
            return Consolidated(ending=Ending.GATED, reason="memory is off here")
        left: list[Path] = []
        taken: list[Path] = []
        done = await self._consolidate(scope, partial(self._task, scope, left, taken), progress=progress)
        told = (_left_out(left, self._settings.write_max_bytes), _unopened(done, taken) if done.ending.good else "")
        return replace(done, reason="; ".join(filter(None, (done.reason, *told))))

    async def _task(self, scope: Scope, left: list[Path], taken: list[Path]) -> Task | Consolidated:
        now = self._clock()
        logs, broken, large = await to_thread.run_sync(_taken, scope, now, self._settings.write_max_bytes)
        left += large
        taken += [log.path for log in logs]
        if not logs and not left and scope.mode is not Mode.LOG:
            return Consolidated(ending=Ending.GATED, reason="this memory keeps no day logs")
        if not logs:
            return Consolidated(ending=Ending.UNCHANGED, reason="no log waits")

        return Task(
            purpose="distil",
            prompt="\n\n".join([distil_prompt(scope, taken, now=now), *broken.values()]),
            max_turns=self._settings.distil_max_turns,
            told=lambda done: f"Sorted {counted(len(done.settling.logs), 'day log')} into memory",
            settling=Settling(logs={_name(scope, log.path): log.hash for log in logs}),
            shown=frozenset(_name(scope, path) for path in broken),
        )


def _name(scope: Scope, log: Path) -> str:
    return log.relative_to(scope.memory_dir).as_posix()


def _unopened(done: Consolidated, logs: Sequence[Path]) -> str:
    """Say how many of the logs the run has left for another night; empty if it left none."""
    unopened = len(logs) - len(done.settling.logs)
    return f"{unopened} of {counted(len(logs), 'day log')} not opened: left for the next night" if unopened else ""


def _taken(scope: Scope, now: datetime, max_bytes: int) -> tuple[Sequence[Log], Mapping[Path, str], Sequence[Path]]:
    """Return the logs to take up, what those of them hold that are no text, and those that are too large. Blocks."""
    large = list(too_large(scope, now, max_bytes=max_bytes))
    logs: list[Log] = []
    broken: dict[Path, str] = {}
    room = _BROKEN_BYTES
    for log in waiting_logs(scope, now):
        if log.path in large or len(logs) == _LOGS_AT_ONCE:
            continue
        text = broken_text(scope, log.path)
        size = len((text or "").encode())
        if size > _BROKEN_BYTES:
            large.append(log.path)
        elif size <= room:
            logs.append(log)
            room -= size
            if text is not None:
                broken[log.path] = _shown(log.path, text)
    return logs, broken, large


def _shown(path: Path, text: str) -> str:
    return f"The log {path.name} is not valid UTF-8, so no tool reads it. It holds, up to its last line:\n\n{text}"


def _left_out(logs: Sequence[Path], max_bytes: int) -> str:
    """Say which logs wait in vain, and how that can be helped; empty if there are none."""
    if not logs:
        return ""
    names = listed([path.name for path in logs], _NAMED)
    most = f"{max_bytes // 1024} KiB, or {_BROKEN_BYTES // 1024} KiB where not all is UTF-8"
    return f"left out as too large: {names} (at most {most}: split it by hand)"
