"""Watches a consolidation from outside: what it writes is noted first, and it ends when it must."""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from memory import snapshot as snapshots
from memory.errors import LeaseLost, WriteRefused
from memory.index import INDEX
from memory.journal import Journal, Underway
from memory.judgement import Ending
from memory.meanwhile import Meanwhile
from memory.paths import in_team
from memory.ports import Fence, Progress
from memory.scope import Scope

_LOOK_SECONDS = 0.5  # how often it is looked whether somebody, in whichever process, wants the run to end


class Watching:
    """One run under watch; a `memory.ports.Progress`. `changes` is its `memory.ports.Changes`."""

    def __init__(
        self,
        scope: Scope,
        folder: Path,
        fence: Fence,
        told: Progress | None,
        forgotten: Callable[[], Awaitable[bool]],
    ) -> None:
        self.journal = Journal(scope, folder)
        self.paths: dict[Path, None] = {}
        """What the run may have written, in order."""
        self.limit: anyio.CancelScope | None = None
        self._scope = scope
        self._meanwhile = Meanwhile(scope, folder)
        self._fence = fence
        self._told = told
        self._forgotten = forgotten
        self._stopped = False

    async def changes(self, scope: Scope, path: Path, *, before: str, after: str) -> None:
        """Note a change that is about to be made, and the indexes that a deletion clears on its way."""
        if in_team(scope, path):
            raise WriteRefused("team memory is not this run's to change: leave it as it is")
        await self._still_held()
        await anyio.to_thread.run_sync(partial(self._meanwhile.see, path, before=before, after=after))
        await anyio.to_thread.run_sync(self.journal.note, path, after)
        self.paths[path] = None
        if not after:
            await anyio.to_thread.run_sync(self._meanwhile.see_gone, path)
            await self._touch_indexes(path)

    async def __call__(self, *, turn: int, text: str, tools: int, written: Sequence[Path]) -> None:
        """Note how far the run is; see `memory.ports.Progress`."""
        await self.note(written)
        await self._tell(turn=turn, tools=tools)
        if self.limit is not None and await self._forgotten():
            self.limit.cancel()
        if self._told is not None:
            await self._told(turn=turn, text=text, tools=tools, written=written)

    async def begin(self) -> None:
        """Say that the run may write from now on, and who holds the lease."""
        await self._tell(turn=0, tools=0)
        await anyio.to_thread.run_sync(self.journal.begin)

    async def _tell(self, *, turn: int, tools: int) -> None:
        host, token = platform.node(), self._fence.token
        underway = Underway(host=host, token=token, turn=turn, tools=tools, files=len(self.paths))
        await anyio.to_thread.run_sync(self.journal.tell, underway)

    async def note(self, written: Sequence[Path]) -> None:
        """Take up what only the run itself names, with what it holds now."""
        for path in [path for path in written if path not in self.paths]:
            self.paths[path] = None
            if not path.is_relative_to(self._scope.memory_dir):
                continue
            version = snapshots.hash_of(await anyio.to_thread.run_sync(snapshots.read_one, self._scope, path))
            await anyio.to_thread.run_sync(self.journal.touch, path, version)
            if not version:
                await self._touch_indexes(path)

    async def look_after(self) -> None:
        """End the run as soon as somebody asks for it; runs beside it until cancelled."""
        while not await anyio.to_thread.run_sync(self.journal.stopped):  # noqa: ASYNC110  (a file: whoever asks may be another process)
            await asyncio.sleep(_LOOK_SECONDS)
        self._stopped = True
        if self.limit is not None:
            self.limit.cancel()

    async def ended_otherwise(self) -> tuple[Ending, str] | None:
        """Return how the run ended if not by itself, also if it came to its end after it was told to stop."""
        if await self._forgotten():
            return Ending.ABORTED, "something was forgotten meanwhile"
        if self._stopped or await anyio.to_thread.run_sync(self.journal.stopped):
            return Ending.STOPPED, "it was stopped"
        return None

    async def _still_held(self) -> None:
        try:
            await self._fence.check()
        except LeaseLost:
            if self.limit is not None:
                self.limit.cancel()
            raise

    async def _touch_indexes(self, gone: Path) -> None:
        for index in {gone.with_name(INDEX), self._scope.index}:
            if index not in self.paths:
                self.paths[index] = None
                await anyio.to_thread.run_sync(self.journal.touch, index, "")
