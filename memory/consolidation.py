"""A run that may rewrite a whole memory directory, under guard: all of it stands, or none of it does."""

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from memory import snapshot as snapshots
from memory.consolidation_prompt import system_prompt
from memory.errors import Conflict, LeaseLost, PathRefused, WriteRefused
from memory.facts import facts, vanished
from memory.index import INDEX
from memory.notes import Notes
from memory.paths import TEAM
from memory.ports import Clock, Fence, Leases, Notice, Outcome, Progress, Rights, Run, RunReport
from memory.provenance import Ledger, NoLedger, moves
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.snapshot import Saved, Snapshot

_log = structlog.get_logger(__name__)


class Ending(StrEnum):
    """How a consolidation ended. Only after the first two does what it wrote stand."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    """It went beyond what a run may do: too much removed, or a write where it has none to do."""
    FAILED = "failed"
    ABORTED = "aborted"
    GATED = "gated"
    """There was nothing to do, or it was not the time for it."""
    BUSY = "busy"
    """Another holder has the lease, or took it over."""

    @property
    def good(self) -> bool:
        """Whether the run counts as done."""
        return self in {Ending.CHANGED, Ending.UNCHANGED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Consolidated:
    """What a consolidation did: files that differ from before, facts that are gone, and the run's own words.

    `reason` says why it was not kept, or not begun. `snapshot` is where the state before lies, if there is need of it.
    """

    ending: Ending
    touched: tuple[Path, ...] = ()
    removed: tuple[str, ...] = ()
    summary: str = ""
    reason: str = ""
    snapshot: Path | None = None


_ENDED_BADLY = {
    Outcome.ABORTED: (Ending.ABORTED, "it was stopped"),
    Outcome.REFUSED: (Ending.FAILED, "the model refuses the run"),
    Outcome.FAILED: (Ending.FAILED, "the model gave no usable answer"),
    # Half of a merge is worse than none: the new note may repeat what is still in the old ones.
    Outcome.TURN_CAP: (Ending.FAILED, "it did not come to its end within its turns"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What one consolidation is to do."""

    purpose: str
    prompt: str
    max_turns: int
    told: Callable[[Consolidated], str]
    """The line for the owner if something changed."""
    settle: Callable[[Fence], Awaitable[None]]
    """What is noted once it has ended well, while the lease is still held."""


class Consolidation:
    """Gives a run the right to write in A, and puts everything back unless it ended well.

    One at a time per memory directory, on any number of replicas. The owner is told in one line if something changed.
    """

    def __init__(
        self,
        run: Run,
        *,
        notes: Notes,
        leases: Leases,
        notice: Notice,
        settings: MemorySettings,
        clock: Clock,
        ledger: Ledger | None = None,
    ) -> None:
        self._run = run
        self._ledger = ledger or NoLedger()
        self._notes = notes
        self._leases = leases
        self._notice = notice
        self._settings = settings
        self._clock = clock

    async def __call__(
        self, scope: Scope, task_of: Callable[[], Awaitable[Task | Consolidated]], *, progress: Progress | None
    ) -> Consolidated:
        """Do what `task_of` returns, asked under the lease; if it returns a result, that is it.

        When cancelled, puts back what is known to be the run's, and is cancelled. A run during which something is
        forgotten is stopped after its next tool: it has read what is to be forgotten.
        """
        name, seconds = f"dream:{scope.memory_dir}", self._settings.lease_seconds
        try:
            async with self._leases.hold(name, seconds=seconds, wait=0) as fence:
                task = await task_of()
                return task if isinstance(task, Consolidated) else await self._do(scope, task, fence, progress)
        except LeaseLost:
            return Consolidated(ending=Ending.BUSY, reason="another consolidation holds this memory")

    async def _do(self, scope: Scope, task: Task, fence: Fence, progress: Progress | None) -> Consolidated:
        done = await self._guarded(scope, task, fence, progress)
        if done.ending.good:
            await fence.check()
            await task.settle(fence)
        if done.ending is Ending.CHANGED and self._settings.notices != "off":
            await self._notice(scope, task.told(done))
        return done

    async def _guarded(self, scope: Scope, task: Task, fence: Fence, progress: Progress | None) -> Consolidated:
        began = self._clock()
        before = await anyio.to_thread.run_sync(snapshots.take, scope, began)
        watch = _Watch(scope, progress, partial(self._ledger.erased_since, scope, began))
        rights = Rights(read=(scope.memory_dir,), write=(scope.memory_dir,))
        report: RunReport | None = None
        try:
            with anyio.move_on_after(self._settings.dream_max_minutes * 60) as watch.limit:
                report = await self._run(
                    scope,
                    purpose=task.purpose,
                    system=system_prompt(scope),
                    prompt=task.prompt,
                    rights=rights,
                    max_turns=task.max_turns,
                    progress=watch,
                )
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._put_back(scope, before, watch)
            raise
        await fence.check()
        await watch.note(report.written if report else ())
        return await self._settled(scope, before, watch, report)

    async def _settled(self, scope: Scope, before: Snapshot, watch: "_Watch", report: RunReport | None) -> Consolidated:
        after = await anyio.to_thread.run_sync(snapshots.read_all, scope)
        forgotten = await watch.forgotten()
        gone = tuple(vanished(_facts(scope, before.files), _facts(scope, after)))
        ending, reason = self._judge(scope, before, watch.written, gone, report)
        if forgotten:
            ending, reason = Ending.ABORTED, "something was forgotten meanwhile"
        summary = report.text if report else ""
        if not ending.good:
            await self._put_back(scope, before, watch)
            _log.warning("consolidation_not_kept", principal=scope.principal, ending=ending.value, reason=reason)
            kept = before.folder if await self._left(scope, before, watch) else None
            if kept is None:  # else the failures of a few days would push out what can still be undone
                await anyio.to_thread.run_sync(snapshots.discard, before)
            return Consolidated(ending=ending, summary=summary, reason=reason, snapshot=kept)
        touched = tuple(path for path in sorted(watch.written) if _hash(after.get(path)) != before.hash(path))
        if not touched:
            await anyio.to_thread.run_sync(snapshots.discard, before)
            return Consolidated(ending=Ending.UNCHANGED, summary=summary)
        await anyio.to_thread.run_sync(snapshots.keep_after, before, scope, touched)
        await self._ledger.carry(scope, moves(_by_note(scope, before.files), _by_note(scope, after)))
        return Consolidated(
            ending=Ending.CHANGED, touched=touched, removed=gone, summary=summary, snapshot=before.folder
        )

    def _judge(
        self,
        scope: Scope,
        before: Snapshot,
        written: Collection[Path],
        gone: Sequence[str],
        report: RunReport | None,
    ) -> tuple[Ending, str]:
        if report is None:
            return Ending.FAILED, f"it took more than {self._settings.dream_max_minutes:g} minutes"
        if report.outcome is not Outcome.COMPLETED:
            return _ENDED_BADLY[report.outcome]
        stray = [path for path in written if not _may_write(scope, path)]
        if stray:
            return Ending.REFUSED, f"it wrote {len(stray)} files that are not its to write"
        total, share = len(_facts(scope, before.files)), self._settings.dream_max_removed
        if len(gone) > max(1, share * total):  # a single contradicted fact may go from the smallest memory
            return Ending.REFUSED, f"it would have removed {len(gone)} of {total} facts"
        return Ending.CHANGED, ""

    async def _put_back(self, scope: Scope, before: Snapshot, watch: "_Watch") -> None:
        """Put back the run's files, indexes last: then lines that point to its new notes have lost their files."""
        if await watch.forgotten():
            before = await anyio.to_thread.run_sync(snapshots.reread, before, scope)
        for path in sorted(watch.written, key=lambda path: (path.name == INDEX, path)):
            if not path.is_relative_to(scope.memory_dir):
                continue
            present = await anyio.to_thread.run_sync(snapshots.read_one, scope, path)
            saved = before.files.get(path)
            if _hash(present) == before.hash(path):
                if saved is not None:
                    await anyio.to_thread.run_sync(_set_time, path, saved.mtime_ns)
                continue
            if path.name != INDEX and _hash(present) != watch.written[path]:
                _log.warning("consolidation_file_left", reason="somebody else has changed it since")
                continue
            await self._put_back_one(scope, path, saved, present)

    async def _left(self, scope: Scope, before: Snapshot, watch: "_Watch") -> bool:
        """Return whether a file of the run could not be put back."""
        for path in watch.written:
            present = await anyio.to_thread.run_sync(snapshots.read_one, scope, path)
            if _hash(present) != before.hash(path):
                return True
        return False

    async def _put_back_one(self, scope: Scope, path: Path, saved: Saved | None, present: Saved | None) -> None:
        try:
            if saved is None and path.name != INDEX:
                await self._notes.delete(scope, path, expected=_hash(present))
                return
            text = saved.text if saved else ""
            # An index is merged with the lines that others added since; the other files are known to be the run's.
            expected = _hash(saved) if path.name == INDEX else _hash(present)
            note = await self._notes.write(scope, path, text, expected=expected)
            if saved is not None and note.text == saved.text:
                await anyio.to_thread.run_sync(_set_time, path, saved.mtime_ns)
        except (Conflict, LeaseLost, PathRefused, WriteRefused) as error:
            _log.warning("consolidation_file_left", reason=str(error))


class _Watch:
    """Notes each file that the run wrote with the hash that it then had: what differs later is somebody else's."""

    def __init__(self, scope: Scope, told: Progress | None, forgotten: Callable[[], Awaitable[bool]]) -> None:
        self.written: dict[Path, str] = {}
        self.limit: anyio.CancelScope | None = None
        self.forgotten = forgotten
        self._scope = scope
        self._told = told

    async def __call__(self, *, turn: int, text: str, tools: int, written: Sequence[Path]) -> None:
        await self._hash(written)
        if self.limit is not None and await self.forgotten():
            self.limit.cancel()
        if self._told is not None:
            await self._told(turn=turn, text=text, tools=tools, written=written)

    async def note(self, written: Sequence[Path]) -> None:
        """Take up what only the report names."""
        await self._hash([path for path in written if path not in self.written])

    async def _hash(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self.written[path] = await self._present(path)
            if self.written[path]:
                continue
            for index in {path.with_name(INDEX), self._scope.index}:  # a deletion clears pointers on its way
                self.written[index] = await self._present(index)

    async def _present(self, path: Path) -> str:
        return _hash(await anyio.to_thread.run_sync(snapshots.read_one, self._scope, path))


def _facts(scope: Scope, files: Mapping[Path, Saved]) -> list[str]:
    """Return the facts of the notes; the index only points to them, and logs are not for a run to change."""
    notes = [path for path in files if path.name != INDEX and not snapshots.is_log(scope, path)]
    return [fact for path in notes for fact in facts(files[path].text)]


def _by_note(scope: Scope, files: Mapping[Path, Saved]) -> dict[str, list[str]]:
    notes = (path for path in files if path.name != INDEX)
    return {path.relative_to(scope.memory_dir).as_posix(): facts(files[path].text) for path in notes}


def _hash(saved: Saved | None) -> str:
    return saved.hash if saved else ""


def _may_write(scope: Scope, path: Path) -> bool:
    inside = path.is_relative_to(scope.memory_dir) and not path.is_relative_to(scope.memory_dir / TEAM)
    return inside and not snapshots.is_log(scope, path)


def _set_time(path: Path, moment_ns: int) -> None:
    with suppress(FileNotFoundError):  # somebody may take the file away at any time
        os.utime(path, ns=(moment_ns, moment_ns), follow_symlinks=False)
