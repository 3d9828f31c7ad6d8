"""Day logs on disk: where they lie, which of them wait for the night, and which are processed and stay as they are.

A day has one file, `logs/YYYY/MM/YYYY-MM-DD.md`. What comes when that is full or processed already, or can't be read
as text, goes to a further part of the same day, `YYYY-MM-DD.2.md` and so on, which waits for the night as any log does.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from glob import iglob
from itertools import count, takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

from memory import snapshot as snapshots
from memory.decoding import decoded
from memory.disk import Folder, Stored
from memory.errors import PathRefused
from memory.facts import facts, without
from memory.log_marks import MARK
from memory.notes import content_hash
from memory.scan import LOGS
from memory.scope import Scope

_PROCESSED = ".processed"
_PLACE = re.compile(r"(\d{4})/(\d{2})/\1-\2-(\d{2})(?:\.([2-9]|[1-9]\d{1,5}))?\.md\Z", re.ASCII)  # see `log_of`
_PROCESSED_BYTES = 4 * 1024 * 1024
_LARGEST = 4 * 1024 * 1024
_MARKED_BYTES = 16 * 1024 * 1024  # our lines come before what a hand may have added to a full log
_ROOM = 64 * 1024  # what a run may add to a log that was not full when it began


def log_path(scope: Scope, moment: datetime) -> Path:
    """Return the log of the day that `moment` falls on in the scope's time zone; it need not exist."""
    return log_of(scope, local_day(scope, moment))


def log_of(scope: Scope, day: date, part: int = 1) -> Path:
    """Return the log of a local day, or a further part of it; it need not exist."""
    name = day.isoformat() if part == 1 else f"{day.isoformat()}.{part}"
    return scope.memory_dir / LOGS / f"{day:%Y}" / f"{day:%m}" / f"{name}.md"


def local_day(scope: Scope, moment: datetime) -> date:
    """Return the date that the scope's clock shows at a moment."""
    return moment.astimezone(ZoneInfo(scope.timezone)).date()


def day_bounds(scope: Scope, day: date) -> tuple[datetime, datetime]:
    """Return when a local day begins and ends, in UTC; 23 or 25 hours apart when clocks are changed."""
    zone = ZoneInfo(scope.timezone)
    begins, ends = (datetime.combine(each, time.min, tzinfo=zone) for each in (day, day + timedelta(days=1)))
    return begins.astimezone(UTC), ends.astimezone(UTC)


def parts(scope: Scope, day: date) -> list[Path]:
    """Return the files of a day's log in order, also those that are gone by now but were processed. Blocks."""
    processed = _processed(scope)
    paths = (log_of(scope, day, part) for part in count(1))
    return list(takewhile(lambda path: path.name in processed or _status(path) is not None, paths))


def open_log(scope: Scope, day: date, *, max_bytes: int) -> Path:
    """Return where to add to the log of a day: the first part that is text, and neither processed nor full. Blocks."""
    processed = _processed(scope)
    full = max(max_bytes - _ROOM, max_bytes // 2)
    paths = (log_of(scope, day, part) for part in count(1))
    return next(path for path in paths if path.name not in processed and _takes_more(scope, path, full))


def is_processed(scope: Scope, path: Path) -> bool:
    """Return whether a log was distilled, whatever has become of it since. Blocks."""
    return path.name in _processed(scope)


def takes_more(scope: Scope, path: Path, *, max_bytes: int) -> bool:
    """Return whether a log can be added to as it stands now. Blocks."""
    return not is_processed(scope, path) and _takes_more(scope, path, max_bytes)


def marked(scope: Scope, day: date) -> frozenset[int]:
    """Return the messages that a day's log holds marked lines of, also where it is no text by now. Blocks."""
    stored = (_stored(scope, path, limit=_MARKED_BYTES) for path in parts(scope, day))
    texts = (each.data.decode("utf-8", "replace") for each in stored if each is not None)
    return frozenset(int(mark) for text in texts for mark in MARK.findall(text))


def is_gone(scope: Scope, day: date) -> bool:
    """Return whether some of a day's log was distilled and has been deleted since. Blocks."""
    return any(_status(path) is None for path in parts(scope, day))


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """A log with the hash that it had when it was looked at; of one that is no text, that of its bytes."""

    path: Path
    hash: str


def look(scope: Scope, path: Path) -> Log | None:
    """Return a log as it stands; None if there is none, or it is larger than any that is taken up. Blocks."""
    data = _data(scope, path)
    return None if data is None else Log(path=path, hash=content_hash(data.decode("utf-8-sig", "surrogateescape")))


def broken_text(scope: Scope, path: Path) -> str | None:
    """Return what a log holds that is not UTF-8, with U+FFFD for what can't be read; None if it is. Blocks."""
    data = _data(scope, path) or b""
    try:
        data.decode()
    except UnicodeDecodeError:
        return decoded(data)
    return None


def too_large(scope: Scope, now: datetime, *, max_bytes: int) -> Sequence[Path]:
    """Return the logs of past local days that would wait, but are larger than what can be read. Blocks, reads none."""
    processed = _processed(scope)
    known = ((path, _status(path)) for path in _past(scope, local_day(scope, now)))
    return [
        path
        for path, status in known
        if status and status.st_size > max_bytes and (path.name not in processed or status.st_mode & stat.S_IWUSR)
    ]


def waiting_logs(scope: Scope, now: datetime) -> Sequence[Log]:
    """Return the logs of past local days that are not processed as they stand, oldest first. Blocks."""
    processed = _processed(scope)
    return [log for log in _past_logs(scope, local_day(scope, now)) if processed.get(log.path.name) != log.hash]


def processed_logs(scope: Scope, before: date) -> Sequence[Log]:
    """Return the logs of days before this one that are processed as they stand, oldest first. Blocks."""
    processed = _processed(scope)
    return [log for log in _past_logs(scope, before) if processed.get(log.path.name) == log.hash]


def _past_logs(scope: Scope, before: date) -> Sequence[Log]:
    """Return the logs of days before this one, oldest first. Blocks."""
    return [log for path in _past(scope, before) if (log := look(scope, path)) is not None]


def may_wait(scope: Scope, now: datetime) -> bool:
    """Return whether a log of a past day looks as if it waits: what is processed is read-only. Blocks, reads no log."""
    past = _past(scope, local_day(scope, now))
    if not past:
        return False
    processed = _processed(scope)
    known = ((path, _status(path)) for path in past)
    return any(path.name not in processed or (status and status.st_mode & stat.S_IWUSR) for path, status in known)


def mark_processed(scope: Scope, logs: Iterable[Log]) -> None:
    """Note that these logs are distilled, and make them read-only; not those that have changed meanwhile. Blocks."""
    done = [log for log in logs if look(scope, log.path) == log]
    _mark(scope, {**_processed(scope), **{log.path.name: log.hash for log in done}})
    for log in done:
        _set_mode(log.path, 0o400)


def mark_waiting(scope: Scope, paths: Collection[Path]) -> None:
    """Let logs that were distilled wait for the night again, as what came of them was taken back. Blocks.

    One that has been deleted stays processed: its day had it.
    """
    there = [path for path in paths if _status(path) is not None]
    for path in there:
        _set_mode(path, 0o600)
    names = {path.name for path in there}
    _mark(scope, {name: mark for name, mark in _processed(scope).items() if name not in names})


def _mark(scope: Scope, marks: Mapping[str, str]) -> None:
    text = "".join(f"{name} {mark}\n" for name, mark in sorted(marks.items()))
    with Folder.opened(scope.memory_dir / LOGS, root=scope.memory_dir) as folder:
        folder.replace(_PROCESSED, text.encode())


def _set_mode(log: Path, mode: int) -> None:
    handle = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def scrub(
    scope: Scope, *, messages: Collection[int], same: Callable[[str], bool], tells: Callable[[str], bool]
) -> None:
    """Take out of every log the lines of these messages and those unmarked ones that tell what is forgotten.

    A marked line is of another message, which may be another person's: it stays unless it is the `same`. What stands
    around the lines, such as a heading, goes if it tells.

    A log that was processed stays so, and read-only. Blocks; the caller holds the lease of the memory directory.
    """
    processed = _processed(scope)
    redone: list[Log] = []
    for path, present in _texts(scope).items():
        lines = present.splitlines(keepends=True)
        marked = {fact for line in lines if MARK.search(line) for fact in facts(line)}
        drop = partial(_drops, marked=marked, same=same, tells=tells)
        text = without(
            "".join(line for line in lines if not _is_of(line, messages)),
            drop,
            betrays=lambda line: tells(_legible(line)),
        )
        if text == present:
            continue
        with Folder.opened(path.parent, root=scope.memory_dir) as folder:
            folder.replace(path.name, text.encode("utf-8", "surrogateescape"))
        if processed.get(path.name) == content_hash(present):
            redone.append(Log(path=path, hash=content_hash(text)))
    if redone:
        mark_processed(scope, redone)


def _texts(scope: Scope) -> Mapping[Path, str]:
    """Return what the logs hold; bytes that are not UTF-8 are lone surrogates, by which they are written back."""
    read = {path: saved.text for path, saved in snapshots.read_all(scope).items() if snapshots.is_log(scope, path)}
    broken = ((path, _data(scope, path)) for path in _past(scope, date.max) if path not in read)
    return read | {path: data.decode("utf-8-sig", "surrogateescape") for path, data in broken if data is not None}


def _drops(fact: str, *, marked: Collection[str], same: Callable[[str], bool], tells: Callable[[str], bool]) -> bool:
    return same(_legible(fact)) or (fact not in marked and tells(_legible(fact)))


def _legible(text: str) -> str:
    return text.encode("utf-8", "ignore").decode()


def _is_of(line: str, messages: Collection[int]) -> bool:
    mark = MARK.search(line)
    return mark is not None and int(mark[1]) in messages


def _past(scope: Scope, before: date) -> list[Path]:
    """Return the paths of the logs of days before this one, by day and part."""
    logs = scope.memory_dir / LOGS
    places = iglob("[0-9]*/[0-9]*/*.md", root_dir=logs)  # noqa: PTH207  (years of days at each tick: no path for each)
    placed = ((place, _day_and_part(place)) for place in places)
    found = sorted((when, place) for place, when in placed if when is not None and when[0] < before)
    return [logs / place for _, place in found]


def _day_and_part(place: str) -> tuple[date, int] | None:
    match = _PLACE.match(place)
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()[:3])), int(match[4] or 1)
    except ValueError:
        return None


def _takes_more(scope: Scope, path: Path, full: int) -> bool:
    status = _status(path)
    if status is None:
        return True
    room = status.st_size < full and bool(status.st_mode & stat.S_IWUSR)
    return room and snapshots.read_one(scope, path) is not None


def _data(scope: Scope, path: Path) -> bytes | None:
    try:
        stored = _stored(scope, path, limit=_LARGEST)
    except OSError:
        return None
    return None if stored is None or len(stored.data) > _LARGEST else stored.data


def _stored(scope: Scope, path: Path, *, limit: int) -> Stored | None:
    """Read a log, which is None if it is not there or no plain file."""
    try:
        with Folder.opened(path.parent, root=scope.memory_dir) as folder:
            return folder.read(path.name, limit=limit)
    except (FileNotFoundError, PathRefused):
        return None


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _processed(scope: Scope) -> Mapping[str, str]:
    """Read which logs are processed, by name, each with the hash that it had."""
    try:
        with Folder.opened(scope.memory_dir / LOGS, root=scope.memory_dir) as folder:
            stored = folder.read(_PROCESSED, limit=_PROCESSED_BYTES)
    except FileNotFoundError:
        return {}
    lines = stored.data.decode("utf-8", "replace").splitlines() if stored else []
    return {name: mark for name, _, mark in (line.partition(" ") for line in lines)}
