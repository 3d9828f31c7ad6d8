"""Notes: plain Markdown files, read by anyone in the scope and changed only here.

Every change is made under the lease of the scope's memory directory, compared with what its writer had read,
checked against the lease's fence and put in place atomically. Writers of one directory may sit in other
processes and on other machines; people may edit the files by hand at any time.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, Self, TypeVar

import anyio.to_thread

from memory.decoding import decoded
from memory.disk import Folder, Stored
from memory.errors import Conflict, NoteMissing, Overtaken, PathRefused, WriteRefused
from memory.index import INDEX, is_index, merged, pointer, pointers, with_pointer, without
from memory.lease_names import writing
from memory.log_marks import unmarked
from memory.metadata import parse
from memory.paths import in_team, readable_path, writable_path
from memory.ports import Fence, Leases
from memory.scan import LOGS
from memory.scope import Scope
from memory.secret_scan import cleared_as_shown, secrets_in
from memory.settings import MemorySettings

__all__ = ["INDEX", "Note", "Notes", "content_hash", "parse", "pointer", "pointers"]

T = TypeVar("T")
_REMEMBERED_READS = 512
_TRIES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A file as it was read or written: `hash` is what a writer hands back as `expected`.

    `warnings` are sentences for the writer about what was written all the same, such as a secret in private
    memory. `left_out` holds the kind of each secret that was not written.
    """

    path: Path
    text: str
    hash: str
    mtime_ns: int
    warnings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def content_hash(text: str) -> str:
    """Return `sha256:` and the hex digest of the text's UTF-8 bytes; works on lone surrogates too."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Watch(Protocol):
    """Sees the changes of one run: whose each fact is, how much goes, or what is to be put back if need be."""

    async def __call__(self, scope: Scope, path: Path, *, before: str, after: str) -> None:
        """See a change right before it is made, under the lease; may refuse it with `WriteRefused`."""


class Notes:
    """Reads and writes the notes of a scope.

    Paths are absolute or relative to the scope's memory directory. Every method may raise `PathRefused`;
    those that write also `WriteRefused`, `Conflict` and `LeaseLost`, in which case nothing was written.
    """

    def __init__(self, *, leases: Leases, settings: MemorySettings | None = None) -> None:
        self._leases = leases
        self._settings = settings or MemorySettings()
        self._seen: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._watch: Watch | None = None
        self._clears = False

    def watched(self, watch: Watch) -> "Notes":
        """Return the same notes for one run, whose changes `watch` sees."""
        same = copy(self)
        same._watch = watch
        return same

    def without_secrets(self) -> Self:
        """Return the same notes for who passes on what others say: no secret gets into a file of A that has it not yet.

        What a person has written there by hand stays. In T a secret is refused, whoever writes.
        """
        same = copy(self)
        same._clears = True
        return same

    async def read(self, scope: Scope, path: Path) -> Note:
        """Return the file, as `memory.decoding.decoded` reads it. Raises `NoteMissing` if there is none."""
        real = await anyio.to_thread.run_sync(readable_path, scope, str(path))
        root = next(root for root in scope.readable if real.is_relative_to(root))
        stored = await anyio.to_thread.run_sync(self._load, real, root)
        if stored is None:
            raise NoteMissing("there is no file at this path")
        return self._note(real, decoded(stored.data), stored.mtime_ns)

    async def write(self, scope: Scope, path: Path, text: str, *, expected: str | None) -> Note:
        """Put `text` in the place of the file.

        `expected` is the hash that the writer read, "" for "there must be none", None for "never read". A
        topic note that differs raises `Conflict`; so does one that exists and was never read. An index that
        differs is merged instead: pointer lines that the writer can't have seen stay.
        """
        real = await self._writable(scope, path)

        async def wanted(present: Note | None) -> str:
            if not is_index(real.name) or present is None or content_hash(present.text) == expected:
                _compare(present, expected)
                return text
            seen = self._seen.get(expected or "", frozenset[str]())
            merge = partial(merged, present.text, text, seen=seen)
            return await self._in(real.parent, scope, lambda at: merge(exists=at.holds))

        return await self._changed(scope, real, wanted)

    async def edit(
        self, scope: Scope, path: Path, old: str, new: str, *, expected: str | None, replace_all: bool = False
    ) -> Note:
        """Replace `old`, which must occur once unless `replace_all`, in what the file holds now.

        Finding `old` is proof enough of having read it, so `expected` may be None; a hash that differs is a
        `Conflict` only if `old` can't be found any more.
        """
        real = await self._writable(scope, path)

        async def wanted(present: Note | None) -> str:
            if present is None:
                raise NoteMissing("there is no file at this path")
            return _replaced(present, old, new, expected=expected, replace_all=replace_all)

        return await self._changed(scope, real, wanted)

    async def append(self, scope: Scope, path: Path, text: str) -> Note:
        """Add `text` as whole lines to the end of the file, which is made if there is none.

        To a day log, which keeps much of what is said word for word, no secret is added, whoever writes, and nothing
        that passes for the mark of a message.
        """
        real = await self._writable(scope, path)
        logged = real.is_relative_to(scope.memory_dir / LOGS)
        notes, text = (self.without_secrets(), unmarked(text)) if logged else (self, text)
        lines = text if text.endswith("\n") else f"{text}\n"

        async def wanted(present: Note | None) -> str:
            before = present.text if present else ""
            return before + ("\n" if before and not before.endswith("\n") else "") + lines

        return await notes._changed(scope, real, wanted)

    async def delete(self, scope: Scope, path: Path, *, expected: str | None) -> None:
        """Remove the file and the pointer lines to it in the index beside it and at the top of its directory.

        The pointers go first, so that a deletion that was cut short can be repeated. Raises `NoteMissing` if
        there was neither a file nor a pointer.
        """
        real = await self._writable(scope, path)
        if is_index(real.name):
            raise WriteRefused("the index itself is never deleted: edit its lines instead")
        async with self._held(scope) as fence:
            stored = await self._stored(real, scope)
            # What is no text can at least be deleted.
            present = None if stored is None else self._note(real, decoded(stored.data), stored.mtime_ns)
            if present is not None and expected is not None:
                _compare(present, expected)
            if present is not None:
                await self._see(scope, real, before=present.text, after="")
            indexes = _indexes(scope, real)
            cleared = [await _again(partial(self._unpoint, scope, index, real, fence)) for index in indexes]
            if present is not None:
                await fence.check()
                await self._in(real.parent, scope, lambda at: at.remove(real.name))
            elif not any(cleared):
                raise NoteMissing("there is no file at this path")

    async def add_pointer(self, scope: Scope, directory: Path, *, title: str, file: str, hook: str) -> Note:
        """Put the pointer line for `file`, relative to `directory`, into that directory's index, once."""
        real = await self._writable(scope, directory / INDEX)

        async def wanted(present: Note | None) -> str:
            return with_pointer(present.text if present else "", pointer(title, file, hook), file)

        return await self._changed(scope, real, wanted)

    async def _changed(self, scope: Scope, real: Path, wanted: Callable[[Note | None], Awaitable[str]]) -> Note:
        """Give the file, as it is under the lease, the text that `wanted` makes of what it holds."""

        async def once() -> Note:
            present = await self._present(real, scope)
            return await self._put(scope, real, await wanted(present), present=present, fence=fence)

        async with self._held(scope) as fence:
            return await _again(once)

    async def _unpoint(self, scope: Scope, index: Path, gone: Path, fence: Fence) -> bool:
        present = await self._present(index, scope)
        if present is None:
            return False
        name = gone.relative_to(index.parent).as_posix()
        text = without(present.text, lambda _, target: target == name)
        if text == present.text:
            return False
        # Without the checks of a write: what stays was there before, and a deletion must not fail for it.
        await self._replace(scope, index, text, present, fence)
        return True

    async def _put(self, scope: Scope, real: Path, text: str, *, present: Note | None, fence: Fence) -> Note:
        before = present.text if present else ""
        text, left_out = await anyio.to_thread.run_sync(self._cleared, scope, real, text, present)
        warnings = await anyio.to_thread.run_sync(self._checked, scope, real, text)
        if present is not None and before == text:  # a repeated write keeps the time of the first
            mtime_ns = present.mtime_ns
        else:
            await self._see(scope, real, before=before, after=text)
            mtime_ns = await self._replace(scope, real, text, present, fence)
        return replace(self._note(real, text, mtime_ns), warnings=warnings, left_out=left_out)

    async def _see(self, scope: Scope, real: Path, *, before: str, after: str) -> None:
        if self._watch is not None:
            await self._watch(scope, real, before=before, after=after)

    async def _replace(self, scope: Scope, real: Path, text: str, present: Note | None, fence: Fence) -> int:
        data = text.encode("utf-8")

        def act(at: Folder) -> int:
            def changed() -> None:
                _refuse_changed(at.read(real.name, limit=self._settings.write_max_bytes), present)

            return at.replace(real.name, data, unless=changed)

        await fence.check()
        return await self._in(real.parent, scope, act, create=True)

    def _cleared(self, scope: Scope, real: Path, text: str, present: Note | None) -> tuple[str, tuple[str, ...]]:
        if not self._clears or in_team(scope, real):
            return text, ()
        name = real.relative_to(_write_root(scope, real)).as_posix()
        if present is None and secrets_in(name, ""):
            raise WriteRefused("the name of this file, or of its folder, holds a secret: give it another")
        known = present.text if present else ""
        return cleared_as_shown(text, known=known)

    def _checked(self, scope: Scope, real: Path, text: str) -> tuple[str, ...]:
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise WriteRefused("the text is not valid Unicode: it holds half of a surrogate pair") from None
        if size > self._settings.write_max_bytes:
            limit = self._settings.write_max_bytes // 1024
            raise WriteRefused(f"the file would be larger than {limit} KiB: split it by topic")
        shared = in_team(scope, real)
        name = real.relative_to(scope.team_dir).as_posix() if shared and scope.team_dir else ""  # it is shared as well
        labels = ", ".join(finding.label for finding in secrets_in(name, text))
        if labels and shared:
            raise WriteRefused(f"team memory is shared and this text holds a secret ({labels}): leave it out")
        return (f"this note holds a secret in plain text ({labels})",) if labels else ()

    async def _writable(self, scope: Scope, path: Path) -> Path:
        real = await anyio.to_thread.run_sync(writable_path, scope, str(path))
        if real.suffix != ".md":
            raise PathRefused("a note is a Markdown file: its name ends in .md")
        return real

    async def _present(self, real: Path, scope: Scope) -> Note | None:
        stored = await self._stored(real, scope)
        if stored is None:
            return None
        try:
            return self._note(real, stored.data.decode("utf-8-sig"), stored.mtime_ns)
        except UnicodeDecodeError:
            raise WriteRefused("the present file is not UTF-8 text: writing would destroy what it holds") from None

    async def _stored(self, real: Path, scope: Scope) -> Stored | None:
        stored = await anyio.to_thread.run_sync(self._load, real, _write_root(scope, real))
        if (
            stored is not None and stored.read_only
        ):  # replacing a file asks for no right on it: this is for us to respect
            raise WriteRefused("the file is read-only: it is kept as it is")
        return stored

    def _load(self, real: Path, root: Path) -> Stored | None:
        limit = self._settings.write_max_bytes
        try:
            with Folder.opened(real.parent, root=root) as folder:
                stored = folder.read(real.name, limit=limit)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PathRefused(f"the file can't be read: {error.strerror}") from error
        if stored is not None and len(stored.data) > limit:
            raise PathRefused(f"the file is larger than {limit // 1024} KiB, which no note may be")
        return stored

    async def _in(self, folder: Path, scope: Scope, act: Callable[[Folder], T], *, create: bool = False) -> T:
        """Act in a folder that may be written; runs to its end even if the caller is cancelled meanwhile.

        Without that a cancelled writer would release its lease while its thread is still about to replace the
        file.
        """

        def run() -> T:
            try:
                with Folder.opened(folder, root=_write_root(scope, folder), create=create) as at:
                    return act(at)
            except FileNotFoundError:
                raise NoteMissing("there is no file at this path") from None
            except OSError as error:
                raise WriteRefused(f"the file can't be written: {error.strerror}") from error

        task = asyncio.ensure_future(anyio.to_thread.run_sync(run))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # nobody is left to hear it, and asyncio complains of one that nobody looked at
            raise

    @asynccontextmanager
    async def _held(self, scope: Scope) -> AsyncIterator[Fence]:
        seconds, wait = self._settings.lease_seconds, self._settings.lease_wait
        async with self._leases.hold(writing(scope), seconds=seconds, wait=wait) as fence:
            yield fence

    def _note(self, real: Path, text: str, mtime_ns: int) -> Note:
        note = Note(path=real, text=text, hash=content_hash(text), mtime_ns=mtime_ns)
        if is_index(real.name):
            self._seen[note.hash] = frozenset(line for line, _ in pointers(text))
            self._seen.move_to_end(note.hash)
            while len(self._seen) > _REMEMBERED_READS:
                self._seen.popitem(last=False)
        return note


async def _again(once: Callable[[], Awaitable[T]]) -> T:
    """Do again, with what is there now, what somebody's hand has overtaken."""
    for _ in range(_TRIES - 1):
        with suppress(Overtaken):
            return await once()
    return await once()


def _write_root(scope: Scope, real: Path) -> Path:
    return next(root for root in scope.writable if real.is_relative_to(root))


def _indexes(scope: Scope, real: Path) -> list[Path]:
    top = scope.team_dir if scope.team_dir is not None and in_team(scope, real) else _write_root(scope, real)
    return list(dict.fromkeys((real.parent / INDEX, top / INDEX)))


def _compare(present: Note | None, expected: str | None) -> None:
    actual = present.hash if present else ""
    if expected is None and present is not None:
        raise Conflict(
            "the file exists already: read it first, then write it with what you read in mind", actual=actual
        )
    if expected is not None and expected != actual:
        reason = "changed since you read it: read it again" if present else "is gone: write it as a new file"
        raise Conflict(f"the file {reason}", actual=actual)


def _refuse_changed(now: Stored | None, present: Note | None) -> None:
    """Notice somebody who edits by hand, without a lease, between the comparison and the replacement.

    The texts are compared: two changes within one tick of the file system have the same time.
    """
    text = decoded(now.data) if now else None
    if text != (present.text if present else None):
        actual = "" if text is None else content_hash(text)
        raise Overtaken("the file was changed by hand just now: read it again", actual=actual)


def _replaced(present: Note, old: str, new: str, *, expected: str | None, replace_all: bool) -> str:
    if "\r\n" in present.text and old not in present.text:  # models write \n whatever the file has
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    count = present.text.count(old) if old else 0
    if count == 0 and expected is not None and expected != present.hash:
        raise Conflict("the file changed since you read it: read it again", actual=present.hash)
    if count == 0:
        raise WriteRefused("the text to be replaced does not occur in the file: read it again and quote it exactly")
    if count > 1 and not replace_all:
        raise WriteRefused(f"the text to be replaced occurs {count} times: quote more of what is around it")
    return present.text.replace(old, new)
