"""Erasure on disk: what somebody asked to have forgotten leaves notes, indexes, day logs and what is kept to undo.

The host records what was forgotten and ends the sessions that know of it; see `memory.provenance.Ledger`.
"""

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import filterfalse
from pathlib import Path

from anyio import to_thread

from memory import dailylog
from memory import snapshot as snapshots
from memory.disk import walk
from memory.errors import Conflict, NoteMissing, PathRefused, WriteRefused
from memory.facts import facts_of
from memory.gone import Gone
from memory.index import INDEX, is_index, pointers
from memory.lease_names import writing
from memory.notes import Note, Notes
from memory.older import older_or_same
from memory.paths import TEAM, make_private, writable_path
from memory.places import fixed, start_of
from memory.ports import Leases
from memory.prompt import NOTE_BYTES
from memory.redaction import index_without, neutral, redacted, title_of
from memory.scan import LOGS
from memory.scope import Scope

_TRIES = 5


async def erase_everywhere(
    found: Mapping[str, Scope],
    what: Gone,
    held: Sequence[str],
    *,
    messages: frozenset[int],
    notes: Notes,
    leases: Leases,
) -> None:
    """Do `erase` in the memory itself, and at each other of these places that holds something of it.

    Raises `WriteRefused`, before anything is changed, if a note is one of the `fixed`.
    """
    if there := fixed(found, held):
        raise WriteRefused(f"{there[0]} is shared by the project and can't be changed from here; ask in a chat of it")
    for start, place in found.items():
        here = [note.removeprefix(start) for note in held if start_of(note, found) == start]
        if here or not start:
            whole_notes = frozenset(note.removeprefix(start) for note in what.notes if start_of(note, found) == start)
            part = replace(what, notes=whole_notes)
            await erase(place, part, here, messages=messages, notes=notes, leases=leases)


async def hindrance(found: Mapping[str, Scope], what: Gone, held: Sequence[str], notes: Notes) -> str:
    """Return what stands in the way of `erase_everywhere`, as a clause with its cure; "" if nothing does."""
    for start, place in found.items():
        here = [note.removeprefix(start) for note in held if start_of(note, found) == start]
        if start and not here:
            continue
        whole_notes = frozenset(note.removeprefix(start) for note in what.notes if note.startswith(start))
        part, now = replace(what, notes=whole_notes), dict[str, str | None]()
        indexes = await to_thread.run_sync(_indexes, place)
        for name in dict.fromkeys([*filterfalse(is_index, here), *indexes]):  # indexes follow the notes
            try:
                present = await notes.read(place, place.memory_dir / name)
                await to_thread.run_sync(_refuse_to_change, place, part, name, present.text, now)
            except NoteMissing:
                continue
            except PathRefused as error:
                return f"`{start}{name}`: {error}; mend, rename or delete that file by hand"
            except WriteRefused as error:
                return f"`{start}{name}`: {error}"
    return ""


def unread(found: Mapping[str, Scope]) -> list[str]:
    """Return the files at these places that `memory.places.read_places` doesn't read to their end; blocking."""
    return [
        f"{start}{folder}{entry.name}"
        for start, place in found.items()
        for _, folder, entry in walk(place.memory_dir, enter=partial(_entered, place))
        if _is_cut(place, folder, entry)
    ]


def _is_cut(scope: Scope, folder: str, entry: os.DirEntry[str]) -> bool:
    with suppress(FileNotFoundError):
        if entry.stat(follow_symlinks=False).st_size > NOTE_BYTES:
            whole = None if folder.startswith(f"{TEAM}/") else scope.memory_dir / folder / entry.name
            return whole is None or snapshots.read_one(scope, whole) is None
    return False


def _entered(scope: Scope, folder: str) -> bool:
    return not folder.rpartition("/")[2].startswith(".") and (folder != TEAM or scope.team_dir is not None)


def _refuse_to_change(scope: Scope, what: Gone, name: str, text: str, now: dict[str, str | None]) -> None:
    """Refuse what is to change and can't; `now` gets to know what becomes of notes, which indexes follow. Blocks."""
    if is_index(name):
        if _index_left(scope, what, name, text, now) != text:
            _refuse_fixed(scope, name, keeps=True)
        return
    left, new = _left_of(name, text, what)
    now[name] = new if left else None
    _refuse_fixed(scope, name, keeps=bool(left))


def _refuse_fixed(scope: Scope, name: str, *, keeps: bool) -> None:
    """Refuse a file that can't be written, or, if something of it `keeps` its place, not without loss."""
    path = writable_path(scope, str(scope.memory_dir / name))
    _refuse_read_only(path)
    if not path.parent.stat().st_mode & stat.S_IWUSR or not os.access(path.parent, os.W_OK | os.X_OK):
        raise WriteRefused("its folder is read-only; make that writable")
    try:
        path.read_bytes().decode(errors="strict" if keeps else "replace")
    except UnicodeDecodeError:
        otherwise = "" if is_index(name) else ", or have the whole note forgotten by its name"
        raise WriteRefused(f"the file is not UTF-8 text; save it as UTF-8{otherwise}") from None
    except OSError as error:
        raise WriteRefused(f"the file can't be read ({error.strerror}); make it readable") from error


async def erase(
    scope: Scope, what: Gone, held: Sequence[str], *, messages: frozenset[int], notes: Notes, leases: Leases
) -> None:
    """Take it out of the notes that are `held` and their names, their indexes, the day logs and dreams' snapshots.

    Doing it again changes nothing. One that was cut short can be repeated: the notes, by which what is to be forgotten
    is found, lose it last. Raises what `Notes` raises.
    """
    await to_thread.run_sync(scrub_snapshots, scope, what, held)
    await _clear_indexes(scope, what, {}, notes)
    async with leases.hold(writing(scope), seconds=30.0, wait=30.0):
        tells = what.same if scope.shared else what.tells  # one person's words may hold another's
        await to_thread.run_sync(partial(dailylog.scrub, scope, messages=messages, same=what.same, tells=tells))
    gone_or_moved = {
        note: left
        for note in held
        if not is_index(note) and (left := await _erase_from(scope, note, what, notes)) != note
    }
    await _clear_indexes(scope, what, gone_or_moved, notes)
    async with leases.hold(writing(scope), seconds=30.0, wait=30.0):
        emptied = await to_thread.run_sync(_remove_emptied_indexes, scope, what)
        remove = partial(_remove_empty_folders, scope.memory_dir, [*gone_or_moved, *emptied], keep=scope.team_dir)
        await to_thread.run_sync(remove)
    await to_thread.run_sync(scrub_snapshots, scope, what, held)  # one may have been taken meanwhile


async def _erase_from(scope: Scope, note: str, what: Gone, notes: Notes) -> str | None:
    """Take it out of a note and return the note's name, None if it is gone; what was added to it since stays."""
    path, copy = scope.memory_dir / note, None
    for _ in range(_TRIES):
        try:
            present = await notes.read(scope, path)
            left, new = _left_of(note, present.text, what)
            if new != note:
                await to_thread.run_sync(_refuse_read_only, path)  # before there are two of it
                copy = await _copied(scope, note, left, copy, what=what, notes=notes)
                new = copy.path.relative_to(scope.memory_dir).as_posix()
                await _clear_indexes(scope, what, {note: new}, notes)
            if not left or new != note:
                await notes.delete(scope, path, expected=present.hash)
            elif left != present.text:
                await notes.write(scope, path, left, expected=present.hash)
        except NoteMissing:
            return None
        except Conflict:
            continue
        return new if left else None
    raise Conflict(f"the note {note} did not stand still", actual="")


def _refuse_read_only(path: Path) -> None:
    with suppress(FileNotFoundError):
        if not path.lstat().st_mode & stat.S_IWUSR:
            raise WriteRefused("the file is read-only; make it writable, or delete it by hand")


def _left_of(note: str, text: str, what: Gone) -> tuple[str, str]:
    """Return what is left of a note, "" for nothing, and the first of the names that suit it."""
    if note in what.notes and all(map(what.same, facts_of(text))):
        return "", note
    name = next(neutral(note, what.betrays))
    left = redacted(text, what.same, what.betrays, title=title_of(name), stays=what.stays)
    return left, name if left else note


async def _copied(scope: Scope, note: str, text: str, copy: Note | None, *, what: Gone, notes: Notes) -> Note:
    """Put what is left of a note under a name that tells nothing; the same one if it was put there before."""
    if copy is not None:
        return await notes.write(scope, copy.path, text, expected=copy.hash)
    for name in neutral(note, what.betrays):
        path = scope.memory_dir / name
        try:
            there = await notes.read(scope, path)
        except NoteMissing:
            return await notes.write(scope, path, text, expected="")
        if there.text == text:
            return there
    raise AssertionError("the names have no end")


async def _clear_indexes(scope: Scope, what: Gone, now: Mapping[str, str | None], notes: Notes) -> None:
    """Clear all indexes; `now` holds the names that notes have from now on, None for those that are gone."""
    for index in await to_thread.run_sync(_indexes, scope):
        try:
            present = await notes.read(scope, scope.memory_dir / index)
        except NoteMissing:
            continue
        text = await to_thread.run_sync(_index_left, scope, what, index, present.text, now)
        if text != present.text:
            await notes.write(scope, scope.memory_dir / index, text, expected=present.hash)


def _index_left(scope: Scope, what: Gone, index: str, text: str, now: Mapping[str, str | None]) -> str:
    """Return what is left of an index, "" if it only keeps a folder from being removed whose name betrays.

    In a shared one another person's fact may have the same words, and stays.
    """
    left = index_without(
        text,
        what.betrays,
        names=lambda name: now.get(name, name),
        folder=index.removesuffix(INDEX),
        drop=what.same if scope.shared else what.betrays,
    )
    needed = pointers(left) or facts_of(left, index) or not _in_telling_folder(index, what)
    return left if needed else ""


def _in_telling_folder(index: str, what: Gone) -> bool:
    return "/" in index and next(neutral(index, what.betrays)) != index


def _indexes(scope: Scope) -> list[str]:
    def entered(folder: str) -> bool:
        return folder != LOGS and _entered(scope, folder)

    found = (folder + entry.name for _, folder, entry in walk(scope.memory_dir, enter=entered))
    return sorted(name for name in found if is_index(name))


def _remove_emptied_indexes(scope: Scope, what: Gone) -> list[str]:
    """Remove the empty indexes that would keep a folder whose name betrays; `Notes` deletes none. Blocking."""
    telling = [index for index in _indexes(scope) if _in_telling_folder(index, what)]
    empty = [index for index in telling if not (scope.memory_dir / index).stat().st_size]
    for index in empty:
        (scope.memory_dir / index).unlink()
    return empty


def _remove_empty_folders(folder: Path, left: Iterable[str], *, keep: Path | None = None) -> None:
    """Remove the folders that notes have left empty: their names may tell what the notes told."""
    for note in left:
        for above in (folder / note).parents:
            if above in (folder, keep) or not above.is_relative_to(folder):
                break
            with suppress(OSError):  # it holds something, or is gone
                above.rmdir()


def scrub_snapshots(scope: Scope, what: Gone, held: Collection[str] = ()) -> None:
    """Take it out of all that dreams have kept to compare and to undo; blocking. `held` are notes that hold it now."""
    home, drops = snapshots.kept_beside(scope), older_or_same(what)
    for state in home.glob("*/*") if home.is_dir() else ():
        with suppress(FileNotFoundError):  # a dream that ends may be throwing its snapshot away
            _scrub_state(scope, state, what, held, drops)


def _scrub_state(scope: Scope, state: Path, what: Gone, held: Collection[str], drops: Callable[[str], bool]) -> None:
    """Scrub one state, indexes last: they lose the lines of notes of which nothing was left."""
    now: dict[str, str | None] = dict.fromkeys(what.notes)
    for path in sorted(state.rglob("*.md"), key=lambda path: (path.name == INDEX, path)):
        name, text = path.relative_to(state).as_posix(), path.read_bytes().decode()
        if path.name == INDEX:
            left = _index_left(scope, what, name, text, now)
            now[name] = name if left or not _in_telling_folder(name, what) else None
        else:
            left = _left_in_snapshot(name, text, what, drops)
            now[name] = _name_in_snapshot(state, name, left, what) if name in held or left != text else name
            now[name] = now[name] if left or not text.strip() else None
        new = now.get(name, name)
        if new is not None and (left != text or new != name):
            _put(state / new, left, mtime_ns=path.stat().st_mtime_ns)
        if new != name:
            path.unlink()
    _remove_empty_folders(state, now)


def _put(path: Path, text: str, *, mtime_ns: int) -> None:
    make_private(path.parent)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8", newline="")
    os.utime(path, ns=(mtime_ns, mtime_ns))  # an undo gives the file in memory this time


def _left_in_snapshot(name: str, text: str, what: Gone, drops: Callable[[str], bool]) -> str:
    if name in what.notes and all(map(drops, facts_of(text))):
        return ""
    title = title_of(next(neutral(name, what.betrays)))
    is_log = name.startswith(f"{LOGS}/")
    return redacted(text, drops, what.tells if is_log else what.betrays, title=title, stays=what.stays)


def _name_in_snapshot(state: Path, name: str, left: str, what: Gone) -> str:
    """Return the name that the note gets in memory too, unless another note of the state has it."""
    if name.startswith(f"{LOGS}/"):
        return name
    free = (new for new in neutral(name, what.betrays) if new == name or not _differs(state / new, left))
    return next(free)


def _differs(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes().decode() != text
