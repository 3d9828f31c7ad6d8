"""Tells the team of an edit soon after it was made, while the gateway runs.

On top of the exchanges by the clock, never instead of them: changes are noticed on the host where they are made, and
those between two watchers, or before the first, wait for the next exchange.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
import structlog
from anyio import to_thread
from watchfiles import awatch

from memory.errors import LeaseLost
from memory.paths import make_private
from memory.scope import Scope
from memory.team.local import is_conflict_copy
from memory.team.report import SyncReport

_log = structlog.get_logger(__name__)

FLUSH_SECONDS = 2.0
"""How long a stopping gateway waits for what is being pushed, and pushes what is still waiting."""
_LOOK_SECONDS = 60.0  # a copy that is new is watched no later than this
_GATHER = 200  # milliseconds; the debounce proper is ours
_THREAD = 1000  # milliseconds; for so long a cancelled watcher may still hold its thread


class Push(Protocol):
    """Pushes one copy; see `memory.team.client.TeamSync.push`."""

    async def __call__(self, scope: Scope, *, wait: float) -> SyncReport:
        """Push what this side has changed, if anything; raises `LeaseLost` if another exchange is under way."""


class Changes(Protocol):
    """Watches directories and all that is below them."""

    def __call__(self, directories: Collection[Path], stop: asyncio.Event) -> AsyncIterator[Collection[Path]]:
        """Yield the paths that have changed, until `stop`; raises `OSError` or `RuntimeError` if it can't watch."""


Comes = Callable[[asyncio.Event, float], Awaitable[bool]]
"""Waits for an event at most so many seconds and returns whether it is set."""


async def file_changes(directories: Collection[Path], stop: asyncio.Event) -> AsyncIterator[Collection[Path]]:
    """Watch by what the operating system tells; see `Changes`."""
    watched = awatch(*directories, watch_filter=None, debounce=_GATHER, stop_event=stop, rust_timeout=_THREAD)
    async for changes in watched:
        yield {Path(path) for _, path in changes}


async def comes(event: asyncio.Event, within: float) -> bool:
    """Wait for an event; see `Comes`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await event.wait()
    return event.is_set()


@dataclass(kw_only=True, slots=True)
class _Watched:
    """One copy: whether it was edited since somebody last asked, and whether the server may not know of it yet."""

    scope: Scope
    edited: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: bool = False
    pushing: bool = False
    task: "asyncio.Task[None] | None" = None


class TeamWatch:
    """One watcher for all copies; each is pushed when nothing was edited in it for `debounce` seconds.

    A push that fails is tried again with the next edit, by the next exchange, or when the gateway stops. What a pull
    has written is no edit: the push finds nothing that this side alone has, and sends nothing.
    """

    def __init__(
        self,
        push: Push,
        *,
        scopes: Callable[[], Awaitable[Sequence[Scope]]],
        debounce: float,
        changes: Changes = file_changes,
        comes: Comes = comes,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """Take the parts; `scopes` returns those whose memory is on, with or without a team."""
        self._push = push
        self._scopes = scopes
        self._debounce = debounce
        self._changes = changes
        self._comes = comes
        self._look_seconds = look_seconds
        self._copies: dict[Path, _Watched] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch until left, then push what is waiting, for at most `FLUSH_SECONDS`."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch(group, stop))
            try:
                yield
            finally:
                stop.set()
                with anyio.move_on_after(FLUSH_SECONDS, shield=True):
                    await asyncio.wait({watching})
                    await self._flush()
                for copy in self._copies.values():
                    if copy.task is not None:
                        copy.task.cancel()

    async def _watch(self, group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        """Keep one watcher over the copies that there are; when there are others, it is replaced."""
        places: Mapping[Path, int] = {}
        while not stop.is_set():
            places = await self._places(otherwise=places)
            over = asyncio.Event()
            reading = group.create_task(self._read(group, places, over))
            while not await comes(stop, self._look_seconds) and await self._places(otherwise=places) == places:
                pass
            over.set()
            await asyncio.wait({reading})

    async def _places(self, *, otherwise: Mapping[Path, int]) -> Mapping[Path, int]:
        """Return the directories of the copies, which are made, each with what tells it from one made anew there."""
        try:
            scopes = {scope.team_dir: scope for scope in await self._scopes() if scope.team_dir and scope.repo}
            places = await to_thread.run_sync(_made, scopes)
        except Exception:  # noqa: BLE001  (the edge: a database that is away comes back)
            _log.exception("team_watch_look_failed")
            return otherwise
        for place in places:
            self._copies.setdefault(place, _Watched(scope=scopes[place])).scope = scopes[place]
        return places

    async def _read(self, group: asyncio.TaskGroup, places: Collection[Path], over: asyncio.Event) -> None:
        if not places:
            return
        try:
            async for paths in self._changes(tuple(places), over):
                for place in {place for path in paths if (place := _place(path, places))}:
                    self._edited(group, self._copies[place])
        except (OSError, RuntimeError) as error:  # no more watches, or none on this file system
            _log.warning("team_watch_failed", copies=len(places), cause=type(error).__name__)

    def _edited(self, group: asyncio.TaskGroup, copy: _Watched) -> None:
        copy.waiting = True
        copy.edited.set()
        if copy.task is None or copy.task.done():
            copy.task = group.create_task(self._soon(copy))

    async def _soon(self, copy: _Watched) -> None:
        """Push once the editing rests, and again as long as something was edited meanwhile."""
        while copy.edited.is_set():
            copy.edited.clear()
            if not await self._comes(copy.edited, self._debounce):
                await self._tell(copy, wait=0.0)

    async def _tell(self, copy: _Watched, *, wait: float) -> None:
        copy.waiting, copy.pushing = False, True
        try:
            report = await self._push(copy.scope, wait=wait)
            copy.waiting |= report.failure is not None
        except LeaseLost:  # an exchange is under way, which may have looked before the edit
            copy.waiting = True
            copy.edited.set()
        except Exception:  # noqa: BLE001  (the edge: the next edit tries again)
            copy.waiting = True
            _log.exception("team_watch_push_failed", project=copy.scope.project)
        finally:
            copy.pushing = False

    async def _flush(self) -> None:
        tasks = [copy.task for copy in self._copies.values() if copy.task is not None]
        for copy in self._copies.values():
            if copy.task is not None and not copy.pushing:
                copy.task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        waiting = [copy for copy in self._copies.values() if copy.waiting]
        await asyncio.gather(*(self._tell(copy, wait=FLUSH_SECONDS) for copy in waiting))


def _made(places: Collection[Path]) -> dict[Path, int]:
    """Make the directories; blocking. Leaves out what can't be made."""
    found = {}
    for place in places:
        with suppress(OSError):
            make_private(place)
            found[place] = place.stat().st_ino
    return found


def _place(path: Path, places: Collection[Path]) -> Path | None:
    """Return the copy in which a change may be one of a note; None for a write under way and a conflict copy."""
    place = next((parent for parent in path.parents if parent in places), None)
    if place is None or is_conflict_copy(path.name) or path.suffix not in {"", ".md"}:
        return None
    return None if any(part.startswith(".") for part in path.relative_to(place).parts) else place
