"""The night's distillation: day logs become topic notes and index lines."""

from functools import partial

from anyio import to_thread

from memory.consolidation import Consolidated, Consolidation, Ending, Task
from memory.consolidation_prompt import distil_prompt
from memory.dailylog import mark_processed, waiting_logs
from memory.ports import Clock, Fence, Progress
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

_LOGS_AT_ONCE = 31


class Distil:
    """Turns the logs of past days into topic notes and the index, under the guard that dreams have."""

    def __init__(self, consolidation: Consolidation, *, settings: MemorySettings, clock: Clock) -> None:
        self._consolidate = consolidation
        self._settings = settings
        self._clock = clock

    async def __call__(self, scope: Scope, *, progress: Progress | None = None) -> Consolidated:
        """Distil what waits, then mark those logs as processed; they stay, read-only.

        Logs wait also where log mode was switched off since. If the run does not end well, notes and logs are as before
        and the same logs wait for the next night. A log that grew meanwhile waits too. Excludes the dream, and another
        distillation, of the same memory.
        """
        if not scope.enabled:
            return Consolidated(ending=Ending.GATED, reason="memory is off here")
        return await self._consolidate(scope, partial(self._task, scope), progress=progress)

    async def _task(self, scope: Scope) -> Task | Consolidated:
        now = self._clock()
        logs = (await to_thread.run_sync(waiting_logs, scope, now))[:_LOGS_AT_ONCE]
        if not logs and scope.mode is not Mode.LOG:
            return Consolidated(ending=Ending.GATED, reason="this memory keeps no day logs")
        if not logs:
            return Consolidated(ending=Ending.UNCHANGED, reason="no log waits")

        async def settle(_: Fence) -> None:
            await to_thread.run_sync(mark_processed, scope, logs)

        return Task(
            purpose="distil",
            prompt=distil_prompt(scope, [log.path for log in logs], now=now),
            max_turns=self._settings.distil_max_turns,
            told=lambda _: f"Sorted {len(logs)} day log{'s' * (len(logs) > 1)} into memory",
            settle=settle,
        )
