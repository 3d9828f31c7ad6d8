"""Day logs: where they lie, how a day is closed from the stored transcript, how a night distils them into notes."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio
import anyio.to_thread

from memory import snapshot as snapshots
from memory.consolidation import Consolidated, Consolidation, Ending, Task
from memory.consolidation_prompt import distil_prompt
from memory.disk import Folder
from memory.errors import Conflict
from memory.facts import facts, without
from memory.notes import NoteMissing, Notes, content_hash
from memory.ports import Clock, Fence, History, Progress, Said
from memory.provenance import Ledger, NoLedger, Placed
from memory.scan import LOGS
from memory.scope import Mode, Scope
from memory.secret_scan import redact
from memory.settings import MemorySettings

_PROCESSED = ".processed"
_MARK = re.compile(r"<!-- m(\d+) -->[ \t]*$", re.MULTILINE | re.ASCII)
_NAME = re.compile(r"(\d{4})-(\d{2})-(\d{2})\.md\Z", re.ASCII)
_TEXT_CHARACTERS = 800
_NAME_CHARACTERS = 60
_TRIES = 5
_LOGS_AT_ONCE = 31
_PROCESSED_BYTES = 1024 * 1024


def log_path(scope: Scope, moment: datetime) -> Path:
    """Return the log of the day that `moment` falls on in the scope's time zone; it need not exist."""
    return log_of(scope, moment.astimezone(ZoneInfo(scope.timezone)).date())


def log_of(scope: Scope, day: date) -> Path:
    """Return the log of a local day; it need not exist."""
    return scope.memory_dir / LOGS / f"{day:%Y}" / f"{day:%m}" / f"{day.isoformat()}.md"


def day_bounds(scope: Scope, day: date) -> tuple[datetime, datetime]:
    """Return when a local day begins and ends, in UTC; 23 or 25 hours apart when clocks are changed."""
    zone = ZoneInfo(scope.timezone)
    begins, ends = (datetime.combine(each, time.min, tzinfo=zone) for each in (day, day + timedelta(days=1)))
    return begins.astimezone(UTC), ends.astimezone(UTC)


async def close_day(
    scope: Scope,
    day: date,
    *,
    history: History,
    notes: Notes,
    logged: Collection[int] = (),
    ledger: Ledger | None = None,
) -> int:
    """Add what was said that day and is not in its log yet, and return how many messages that were.

    `logged` names messages that the log holds in other words already. Each added line is marked with its message,
    so doing it again adds nothing. A secret in what was said is replaced by its kind. A scope that keeps no log, and a
    day that has been distilled, are left alone.
    """
    path = log_of(scope, day)
    if scope.mode is not Mode.LOG or await anyio.to_thread.run_sync(_is_processed, scope, path):
        return 0
    begins, ends = day_bounds(scope, day)
    said = [each for each in await history.said_between(scope, begins, ends) if each.text.strip()]
    for _ in range(_TRIES):
        present = await _present(scope, path, notes)
        known = {*logged, *(int(mark) for mark in _MARK.findall(present or ""))}
        missing = [each for each in said if each.message_id not in known]
        if not missing:
            return 0
        head = f"# {day.isoformat()} ({scope.timezone})\n" if present is None else _whole_lines(present)
        bullets = "".join(_bullet(scope, each) for each in missing)
        try:
            expected = "" if present is None else content_hash(present)
            await notes.write(scope, path, head + bullets, expected=expected)
        except Conflict:
            continue  # a turn was logged meanwhile: look again at what is missing
        await (ledger or NoLedger()).logged(scope, _placed(scope, path, missing))
        return len(missing)
    raise Conflict(f"the log of {day.isoformat()} did not stand still", actual="")


async def _present(scope: Scope, path: Path, notes: Notes) -> str | None:
    try:
        return (await notes.read(scope, path)).text
    except NoteMissing:
        return None


def _whole_lines(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _bullet(scope: Scope, said: Said) -> str:
    clock = said.at.astimezone(ZoneInfo(scope.timezone))
    speaker = "Reverie" if said.role == "assistant" else _one_line(said.speaker, _NAME_CHARACTERS) or "Someone"
    return f"- {clock:%H:%M} {speaker}: {_one_line(redact(said.text), _TEXT_CHARACTERS)} <!-- m{said.message_id} -->\n"


def _placed(scope: Scope, path: Path, added: Sequence[Said]) -> dict[int, Placed]:
    note = path.relative_to(scope.memory_dir).as_posix()
    said = [each for each in added if each.role == "user"]
    return {each.message_id: Placed(note=note, fact=fact) for each in said for fact in facts(_bullet(scope, each))}


def _one_line(text: str, room: int) -> str:
    """Put text on one line in which nothing can pass for one of our marks."""
    line = " ".join(text.replace("<!--", "&lt;!--").split())
    return line if len(line) <= room else f"{line[: room - 1]}…"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Log:
    """A log that waits to be distilled, with the hash that it had when it was looked at."""

    path: Path
    hash: str


class Distil:
    """Turns the logs of past days into topic notes and the index, under the guard that dreams have."""

    def __init__(self, consolidation: Consolidation, *, settings: MemorySettings, clock: Clock) -> None:
        self._consolidate = consolidation
        self._settings = settings
        self._clock = clock

    async def __call__(self, scope: Scope, *, progress: Progress | None = None) -> Consolidated:
        """Distil what waits, then mark those logs as processed; they stay, read-only.

        If the run does not end well, notes and logs are as before and the same logs wait for the next night. A log
        that grew meanwhile waits too. Excludes the dream, and another distillation, of the same memory.
        """
        if not scope.enabled or scope.mode is not Mode.LOG:
            return Consolidated(ending=Ending.GATED, reason="this memory keeps no day logs")
        return await self._consolidate(scope, partial(self._task, scope), progress=progress)

    async def _task(self, scope: Scope) -> Task | Consolidated:
        now = self._clock()
        waiting = await anyio.to_thread.run_sync(waiting_logs, scope, now)
        logs = waiting[:_LOGS_AT_ONCE]
        if not logs:
            return Consolidated(ending=Ending.UNCHANGED, reason="no log waits")

        async def settle(_: Fence) -> None:
            await anyio.to_thread.run_sync(_mark_processed, scope, logs)

        return Task(
            purpose="distil",
            prompt=distil_prompt(scope, [log.path for log in logs], now=now),
            max_turns=self._settings.distil_max_turns,
            told=lambda _: f"Sorted {len(logs)} day log{'s' * (len(logs) > 1)} into memory",
            settle=settle,
        )


def waiting_logs(scope: Scope, now: datetime) -> Sequence[_Log]:
    """Return the logs of past local days that are not processed as they stand, oldest first. Blocks."""
    today = now.astimezone(ZoneInfo(scope.timezone)).date()
    processed = _processed(scope)
    found: list[_Log] = []
    for path, saved in snapshots.read_all(scope).items():
        day = _day(path)
        if day is None or day >= today or path != log_of(scope, day):
            continue
        if processed.get(path.name) != saved.hash:
            found.append(_Log(path=path, hash=saved.hash))
    return sorted(found, key=lambda log: log.path.name)


def scrub(
    scope: Scope, *, messages: Collection[int], same: Callable[[str], bool], tells: Callable[[str], bool]
) -> None:
    """Take out of every log the lines of these messages and those unmarked ones that tell what is forgotten.

    A marked line is of another message, which may be another person's: it stays unless it is the `same`.

    A log that was processed stays so, and read-only. Blocks; the caller holds the lease of the memory directory.
    """
    processed = _processed(scope)
    redone: list[_Log] = []
    for path, saved in snapshots.read_all(scope).items():
        if not snapshots.is_log(scope, path):
            continue
        lines = saved.text.splitlines(keepends=True)
        marked = {fact for line in lines if _MARK.search(line) for fact in facts(line)}
        drop = partial(_drops, marked=marked, same=same, tells=tells)
        text = without("".join(line for line in lines if not _is_of(line, messages)), drop)
        if text == saved.text:
            continue
        with Folder.opened(path.parent, root=scope.memory_dir) as folder:
            folder.replace(path.name, text.encode())
        if processed.get(path.name) == saved.hash:
            redone.append(_Log(path=path, hash=content_hash(text)))
    if redone:
        _mark_processed(scope, redone)


def _drops(fact: str, *, marked: Collection[str], same: Callable[[str], bool], tells: Callable[[str], bool]) -> bool:
    return same(fact) or (fact not in marked and tells(fact))


def _is_of(line: str, messages: Collection[int]) -> bool:
    mark = _MARK.search(line)
    return mark is not None and int(mark[1]) in messages


def _day(path: Path) -> date | None:
    match = _NAME.match(path.name)
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None


def _is_processed(scope: Scope, path: Path) -> bool:
    return path.name in _processed(scope)


def _processed(scope: Scope) -> Mapping[str, str]:
    """Read which logs are processed, by name, each with the hash that it had."""
    try:
        with Folder.opened(scope.memory_dir / LOGS, root=scope.memory_dir) as folder:
            stored = folder.read(_PROCESSED, limit=_PROCESSED_BYTES)
    except FileNotFoundError:
        return {}
    lines = stored.data.decode("utf-8", "replace").splitlines() if stored else []
    return {name: mark for name, _, mark in (line.partition(" ") for line in lines)}


def _mark_processed(scope: Scope, logs: Iterable[_Log]) -> None:
    done = [log for log in logs if (now := snapshots.read_one(scope, log.path)) and now.hash == log.hash]
    marks = {**_processed(scope), **{log.path.name: log.hash for log in done}}
    text = "".join(f"{name} {mark}\n" for name, mark in sorted(marks.items()))
    with Folder.opened(scope.memory_dir / LOGS, root=scope.memory_dir) as folder:
        folder.replace(_PROCESSED, text.encode())
    for log in done:
        handle = os.open(log.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(handle, 0o400)
        finally:
            os.close(handle)
