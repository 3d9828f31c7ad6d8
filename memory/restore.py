"""Puts back what a run wrote, and nothing else: what others changed since is merged where that is safe, or left."""

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
import structlog

from memory import snapshot as snapshots
from memory.decoding import decoded_exactly
from memory.disk import Folder, Stored
from memory.errors import Conflict, LeaseLost, PathRefused, WriteRefused
from memory.index import INDEX, merged, pointers, without
from memory.journal import Written
from memory.lease_names import writing
from memory.metadata import parse
from memory.notes import Notes, content_hash
from memory.paths import TEAM
from memory.ports import Leases
from memory.rewind import Plan, Step, more, plan
from memory.scope import Scope
from memory.snapshot import Saved, Snapshot, hash_of, is_log

_log = structlog.get_logger(__name__)
_TRIES = 5
_SECONDS = 30.0
_RESTLESS = "others change it all the time"


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """Which files are as they were again, which hold besides what others have added, and which were left.

    `beside` are notes that hold facts from before which would else stand nowhere. `failed` could not be put back now:
    it has to be tried again. `reasons` says for people why, of each of these.
    """

    back: tuple[Path, ...] = ()
    merged: tuple[Path, ...] = ()
    left: tuple[Path, ...] = ()
    beside: tuple[Path, ...] = ()
    failed: tuple[Path, ...] = ()
    reasons: Mapping[Path, str] = field(default_factory=dict)


async def put_back(
    scope: Scope,
    before: Snapshot,
    written: Mapping[Path, Written],
    *,
    notes: Notes,
    leases: Leases,
    wait: float = _SECONDS,
) -> Restored:
    """Put back the run's files; no fact from before, nor one that others have added, stands nowhere at any time.

    What was before is written first, and only when all of it stands the run's new notes go. Indexes come last: then
    lines that point to notes have lost their files. Folders that the run has made, and that hold nothing now, go too.
    Doing it again changes nothing, so that one that was cut short can be repeated. A file gets the very name and bytes
    that it had: what people's and models' paths are held to says nothing of a file that was there. For each the lease
    of the memory directory is waited for up to `wait` seconds.
    """
    putting = _Putting(scope, before, written, notes, leases, wait=wait)
    await putting()
    new = [path for path in written if path not in before.files and path.is_relative_to(scope.memory_dir)]
    if made := await anyio.to_thread.run_sync(_made, scope, before.folder, new):
        with suppress(LeaseLost):  # somebody writes all the time: then they stay
            async with leases.hold(writing(scope), seconds=_SECONDS, wait=_SECONDS):
                await anyio.to_thread.run_sync(_remove_empty, made)
    return putting.restored()


class _Putting:
    """One putting back, and what became of each file so far."""

    def __init__(
        self,
        scope: Scope,
        before: Snapshot,
        written: Mapping[Path, Written],
        notes: Notes,
        leases: Leases,
        *,
        wait: float,
    ) -> None:
        self._scope = scope
        self._before = before
        self._written = written
        self._notes = notes
        self._leases = leases
        self._wait = wait
        self._ends: dict[Path, str] = {}
        self._reasons: dict[Path, str] = {}

    def restored(self) -> Restored:
        """Return what became of all of them."""
        found: dict[str, list[Path]] = {}
        for path, end in sorted(self._ends.items(), key=lambda each: (each[0].name == INDEX, each[0])):
            found.setdefault(end, []).append(path)
        reasons = {path: self._reasons[path] for path in found.get("failed", ())}
        return Restored(**{end: tuple(paths) for end, paths in found.items()}, reasons=reasons)

    async def __call__(self) -> None:
        """Put back the notes as they are planned, anew whenever somebody else changes one meanwhile; then indexes."""
        for _ in range(_TRIES):
            steps = await anyio.to_thread.run_sync(plan, self._scope, self._before, self._written)
            for path in steps.same:
                await self._is_same(path)
            for path in steps.left:
                _log.warning("consolidation_file_left", reason="somebody else has changed it since")
                self._ends.setdefault(path, "left")
            if await self._carried_out(steps):
                break
        else:
            self._fail([step.path for step in steps.steps], _RESTLESS)
        for path in sorted(self._written):
            if path.is_relative_to(self._scope.memory_dir) and path.name == INDEX:
                await self._put_index(path)
        for path in [path for path, end in self._ends.items() if end == "beside"]:
            await self._point_to(path)

    async def _point_to(self, path: Path) -> None:
        """Name a note that is new beside the others in the index, if there is one."""
        index = await anyio.to_thread.run_sync(snapshots.read_one, self._scope, self._scope.index)
        name = path.relative_to(self._scope.memory_dir).as_posix()
        if index is None or is_log(self._scope, path) or name in {to for _, to in pointers(index.text)}:
            return
        note = await anyio.to_thread.run_sync(snapshots.read_one, self._scope, path)
        about = str(parse(note.text)[0].get("description") or "") if note else ""
        with suppress(Conflict, LeaseLost, PathRefused, WriteRefused):  # the note itself stands
            folder = self._scope.memory_dir
            await self._notes.add_pointer(self._scope, folder, title=path.stem, file=name, hook=about)

    async def _carried_out(self, steps: Plan) -> bool:
        """Take the steps, and return False once one was overtaken."""
        pending, failed = list(steps.steps), False
        while pending:
            step = _next(steps, pending, failed=failed)
            if step is None:
                self._fail([step.path for step in pending if step.removes], "it goes once the others are back")
                self._fail([step.path for step in pending if not step.removes], "what it holds stands nowhere else yet")
                break
            pending.remove(step)
            try:
                await self._take(step)
            except Conflict:
                return False
            except (LeaseLost, PathRefused, WriteRefused, OSError) as error:
                self._fail([step.path], _told(error))
                failed = True
            else:
                self._ends[step.path] = step.end
                steps.done(step)
        return True

    async def _take(self, step: Step) -> None:
        if step.removes and not step.text:
            await self._notes.delete(self._scope, step.path, expected=step.expected)
            return
        await self._put(step.path, step.text, step.expected)

    async def _put(self, path: Path, text: str, expected: str) -> None:
        """Give a file this text, with its other bytes, mode and time where that is its text of before."""
        saved = self._before.files.get(path)
        as_it_was = saved if saved is not None and saved.text == text else None
        data = text.encode() if as_it_was is None else as_it_was.data
        async with self._leases.hold(writing(self._scope), seconds=_SECONDS, wait=self._wait) as fence:
            await fence.check()
            await anyio.to_thread.run_sync(_put, self._scope, path, data, expected)
            if as_it_was is not None:
                await anyio.to_thread.run_sync(_as_before, self._scope, path, as_it_was)

    async def _is_same(self, path: Path) -> None:
        """Note that a file's text is as before, by whomever."""
        if self._ends.get(path) != "beside" and (path in self._before.files or self._written[path].text):
            self._ends[path] = "back"
        await self._as_before(path)

    def _fail(self, paths: Sequence[Path], reason: str) -> None:
        for path in paths:
            _log.warning("consolidation_file_not_put_back", reason=reason)
            self._ends[path], self._reasons[path] = "failed", reason

    async def _put_index(self, path: Path) -> None:
        for _ in range(_TRIES):
            present = await anyio.to_thread.run_sync(snapshots.read_one, self._scope, path)
            saved = self._before.files.get(path)
            if hash_of(present) == hash_of(saved):
                await self._is_same(path)
                return
            text = await anyio.to_thread.run_sync(
                _index_wanted, path, self._before, self._written, present.text if present else ""
            )
            try:
                await self._write_index(path, text, hash_of(present))
            except Conflict:
                continue
            except (LeaseLost, PathRefused, WriteRefused, OSError) as error:
                self._fail([path], _told(error))
                return
            if text == (saved.text if saved else ""):
                self._ends[path] = "back"
            elif self._waits(path):
                self._fail([path], "it names notes that are not put back yet")
            else:
                self._ends[path] = "merged"
            return
        self._fail([path], _RESTLESS)

    def _waits(self, index: Path) -> bool:
        """Return whether an index can't be as before yet, for a note that it names, or did, could not be put back."""
        saved = self._before.files.get(index)
        named = {
            to for text in (saved.text if saved else "", self._written[index].text or "") for _, to in pointers(text)
        }
        return any(self._ends.get(index.parent / to) == "failed" for to in named)

    async def _write_index(self, path: Path, text: str, expected: str) -> None:
        if text or path in self._before.files:
            await self._put(path, text, expected)
            return
        # Nobody else ever deletes an index.
        async with self._leases.hold(writing(self._scope), seconds=_SECONDS, wait=self._wait):
            await anyio.to_thread.run_sync(_remove, self._scope, path, expected)

    async def _as_before(self, path: Path) -> None:
        """Give a file whose text is as before its bytes, mode and time back as well."""
        if (saved := self._before.files.get(path)) is None:
            return
        with suppress(LeaseLost):  # the text stands
            async with self._leases.hold(writing(self._scope), seconds=_SECONDS, wait=self._wait):
                await anyio.to_thread.run_sync(_as_before, self._scope, path, saved)


def _told(error: Exception) -> str:
    """Return for people why a file could not be written; without names of folders, which some errors hold."""
    match error:
        case LeaseLost():
            return "memory is being written just now"
        case OSError():
            return f"the file can't be written: {error.strerror or 'the file system failed'}"
    return str(error)


def _next(steps: Plan, pending: Sequence[Step], *, failed: bool) -> Step | None:
    """Return the step to take now: one that costs no fact, removals last and only after all else has succeeded.

    Where notes have exchanged facts, none is safe: one has to be the first, and what it costs is in the snapshot.
    """
    writes = [step for step in pending if not step.removes]
    able = writes or ([] if failed else pending)
    return next((step for step in able if steps.is_safe(step)), None if failed or not able else able[0])


def _index_wanted(path: Path, before: Snapshot, written: Mapping[Path, Written], there: str) -> str:
    """Return what an index should hold: what it did, with what others have added, but no line without its file."""
    text, run = before.files[path].text if path in before.files else "", written[path].text or ""
    # A line of the run's goes as well, unless it names a new note that had to be left.
    ours = {line for line, to in pointers(run) if path.parent / to in before.files}
    seen = ours.union(line for line, _ in pointers(text))
    whole = merged(there, text, seen=seen, exists=lambda to: _exists(path, to))
    known = {*before.files, *written}
    whole = without(whole, lambda _, to: path.parent / to in known and not _exists(path, to))
    said = [line for line in more(_plain(there), [*_plain(run), *_plain(text)]) if line.strip()]
    return "\n".join([*filter(None, [whole.rstrip("\n")]), *said, ""]) if said else whole


def _plain(index_text: str) -> list[str]:
    """Return the lines that are no pointers."""
    return without(index_text, lambda _, to: True).splitlines()


def _exists(index: Path, target: str) -> bool:
    return (index.parent / target).is_file()


def _made(scope: Scope, snapshot: Path, new: Sequence[Path]) -> list[Path]:
    """Return the folders that a run has made for its new files, innermost first; neither T nor one before it."""
    above = {folder for path in new for folder in path.parents if folder.is_relative_to(scope.memory_dir)}
    names = {folder: folder.relative_to(scope.memory_dir).as_posix() for folder in above}
    keep = {scope.memory_dir, scope.memory_dir / TEAM}
    made = [each for each in above - keep if each.is_dir() and not snapshots.had_folder(snapshot, names[each])]
    return sorted(made, key=lambda folder: len(folder.parts), reverse=True)


def _remove_empty(made: Sequence[Path]) -> None:
    for folder in made:
        with suppress(OSError):  # somebody has put something there, or it is no folder any more
            folder.rmdir()


def _remove(scope: Scope, path: Path, expected: str) -> None:
    if (actual := hash_of(snapshots.read_one(scope, path))) != expected:
        raise Conflict("the index was changed just now", actual=actual)
    with Folder.opened(path.parent, root=scope.memory_dir) as at:
        at.remove(path.name)


def _put(scope: Scope, path: Path, data: bytes, expected: str) -> None:
    """Put bytes in the place of a file that has this hash; raises `Conflict` if it has another."""
    with Folder.opened(path.parent, root=scope.memory_dir, create=True) as at:
        at.replace(path.name, data, unless=lambda: _compare(at.read(path.name, limit=snapshots.LARGEST), expected))


def _compare(stored: Stored | None, expected: str) -> None:
    try:
        actual = content_hash(decoded_exactly(stored.data)) if stored else ""
    except UnicodeDecodeError:
        raise WriteRefused("a file that is no UTF-8 text is in its place by now: move that away") from None
    if actual != expected:
        raise Conflict("the file was changed just now", actual=actual)
    if stored is not None and stored.read_only:
        raise WriteRefused("the file is read-only: it is kept as it is")


def _as_before(scope: Scope, path: Path, saved: Saved) -> None:
    present = snapshots.read_one(scope, path)
    if present is None or present.text != saved.text:  # somebody changes it just now
        return
    with suppress(OSError, PathRefused), Folder.opened(path.parent, root=scope.memory_dir) as at:
        if present.data != saved.data:
            at.replace(path.name, saved.data)
        if stat.S_IMODE(path.lstat().st_mode) == snapshots.PRIVATE != saved.mode:
            path.chmod(saved.mode)
        os.utime(path, ns=(saved.mtime_ns, saved.mtime_ns), follow_symlinks=False)
