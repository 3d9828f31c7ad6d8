"""Extraction: after a finished turn, a fork of it keeps what is worth keeping.

    Pending --decide--> run | skip, keep the cursor | skip, move the cursor;   run --extract--> Extracted

The host owns what lasts: the due row, the cursor, the one run at a time per memory directory, and the lease
of a write.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from functools import partial
from itertools import accumulate
from pathlib import Path

import structlog
from anyio import to_thread

from memory.counts import counted
from memory.dailylog import is_processed, local_day, open_log, takes_more
from memory.index import INDEX, pointers
from memory.metadata import parse
from memory.ports import UNMETERED, Clock, Fork, Meter, Outcome, Rights, RunReport
from memory.prompt import MAX_BYTES, read_text
from memory.prompt_sections import EXTRACTION_HEADING, LOG_HEADING, how_to_save, types
from memory.scan import LOGS, NoteHeader, Scans, manifest
from memory.scope import Mode, Part, Scope
from memory.settings import MemorySettings

MANIFEST_BYTES = 1024
"""How much room the notes that the cached index does not show may take in a run's message, in UTF-8 bytes.

An index at its limit and the rules before it are about 37 KB; what is not read from the cache stays under 5 % of that
with this list, the message and a short answer. More is found by `grep`, which the run has.
"""

_HEAD_BYTES = 16_384
_TITLE_CHARACTERS = 60
_TITLES = 3
"""How many titles a notice in summary names."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """What has gathered in a session since its extraction cursor."""

    new_messages: int
    """Messages of the person and the bot; tool rounds and injected text don't count."""
    turns: int
    """Finished turns since the last run, or since a skip that moved the cursor, this one included."""
    talks: int = 0
    """How many turns these messages are of: besides the finished ones those that were stopped or looked at in vain."""
    direct_writes: tuple[Path, ...] = ()
    """Files that the bot itself wrote in these turns: only writes that succeeded."""
    shown: str = ""
    """The system prompt that the fork shares with its turn; what its index shows need not be told again."""
    forced: bool = False
    """The throttle does not apply: a trailing run after a coalesced one, or the end of the session."""
    said_between: tuple[datetime, datetime] | None = None
    """When the first and the last of these messages were said; None: just now."""
    heard: str = ""
    """What humans said in them, by number, and how a fact names its source; see `memory.citations`."""


class Verdict(StrEnum):
    """Whether to run, and if not, what becomes of the cursor."""

    RUN = "run"
    SKIP_KEEP_CURSOR = "skip_keep_cursor"
    SKIP_MOVE_CURSOR = "skip_move_cursor"


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A verdict and its reason, a constant name for logs and metrics; "" for a run."""

    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extracted:
    """What a run left: `saved` holds the titles of its topic notes, `team_saved` counts those in T."""

    report: RunReport
    saved: tuple[str, ...]
    team_saved: int
    notice: str
    """One short line for the chat, or ""."""
    cursor_moves: bool


def decide(scope: Scope, pending: Pending, settings: MemorySettings) -> Decision:
    """Apply the guards in their order: memory on, something new, throttle, direct write.

    The host has made sure that it is not in bare or remote mode, that this was a turn of the main agent (sub-agents and
    forks have none of their own) and that no run is in progress for this memory directory. A skip for a direct write
    moves the cursor and starts the throttle's count again; the others pile up.
    """
    if not scope.enabled or not settings.extraction_enabled or scope.leaves_out(Part.EXTRACTION):
        return _keep("disabled")
    if pending.new_messages <= 0:
        return _keep("nothing_new")
    if not pending.forced and pending.turns < settings.extraction_throttle:
        return _keep("throttled")
    if _written_itself(scope, pending, settings):
        return Decision(verdict=Verdict.SKIP_MOVE_CURSOR, reason="direct_write")
    return Decision(verdict=Verdict.RUN)


def _written_itself(scope: Scope, pending: Pending, settings: MemorySettings) -> bool:
    """Tell whether the bot has noted what there was to note, so that nobody need look.

    In a shared chat one speaker's "remember this" must not silence what the others said, nor anywhere what was said in
    turns that a run has failed on, that another run has put off, or that were stopped.
    """
    alone = pending.talks <= 1 or (
        not pending.forced and pending.talks == pending.turns == settings.extraction_throttle
    )
    return alone and not scope.shared and any(path.is_relative_to(scope.memory_dir) for path in pending.direct_writes)


def _keep(reason: str) -> Decision:
    return Decision(verdict=Verdict.SKIP_KEEP_CURSOR, reason=reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class DayLog:
    """The log that a run adds to in log mode, and whether its messages are of other days as well."""

    path: Path
    day: date
    of_days: bool


def day_log(scope: Scope, pending: Pending, settings: MemorySettings, *, now: datetime) -> DayLog | None:
    """Return the log of the day on which the last of the messages was said; None where notes are kept. Blocks."""
    if scope.mode is not Mode.LOG:
        return None
    first, last = (local_day(scope, moment) for moment in pending.said_between or (now, now))
    path = open_log(scope, last, max_bytes=settings.write_max_bytes)
    return DayLog(path=path, day=last, of_days=first != last)


def rights(scope: Scope, settings: MemorySettings, *, log: DayLog | None) -> Rights:
    """Return what a run may do: read A and T, write A, and T only where it is listed as well.

    T lies inside A; whoever applies the rights takes A for A without T. In log mode only the log may be added to.
    """
    team = () if scope.team_dir is None else (scope.team_dir,)
    if log is not None:
        return Rights(read=(scope.memory_dir, *team), write=(), append_only=log.path)
    return Rights(read=(scope.memory_dir, *team), write=writable(scope, settings))


def writable(scope: Scope, settings: MemorySettings) -> tuple[Path, ...]:
    """Return A, and T where it may be written without asking: in a shared chat, or if the settings say so."""
    if scope.team_dir is not None and (scope.shared or settings.team_writes == "direct"):
        return (scope.memory_dir, scope.team_dir)
    return (scope.memory_dir,)


async def extraction_prompt(
    scope: Scope, pending: Pending, scanner: Scans, settings: MemorySettings, *, log: DayLog | None
) -> str:
    """Return the run's one message, as short as it can be: with the turn's answer it is all that no cache has.

    The rules, the places and the index stand in the memory prompt that the fork shares with its turn. Named are the
    notes that the index there does not show, as these could be written a second time. Where the mode was switched since
    the prompt was frozen, its rules are told anew.
    """
    headers = await scanner.scan(scope)
    notes = await to_thread.run_sync(partial(_not_shown, scope, headers[: settings.scan_limit], pending.shown))
    # Without an index the manifest is the only list of notes that the run is given, whatever its share of the input.
    room = None if settings.skip_index else MANIFEST_BYTES
    where = _saved_in_notes(scope, pending, settings) if log is None else _added_to(log, pending)
    parts = [_task(pending, settings), where, _just_written(scope, pending), _existing(notes, room), pending.heard]
    return "\n\n".join(part for part in parts if part)


def _task(pending: Pending, settings: MemorySettings) -> str:
    return (
        f'This is a memory extraction run: see "{EXTRACTION_HEADING.removeprefix("## ")}". Look only at the last '
        f"{pending.new_messages} messages before this one; you have {settings.extraction_max_turns} turns."
    )


def _added_to(log: DayLog, pending: Pending) -> str:
    days = (
        f"\nIt is the log of {log.day}: begin a bullet on another day's message with that date." if log.of_days else ""
    )
    switched = EXTRACTION_HEADING in pending.shown and LOG_HEADING not in pending.shown
    rules = (
        "\nA log is kept here now: leave notes and index as they are, and only add short bullets to the log's end with "
        "`append`, each beginning with the time: `- 14:05 Ann: prefers the early train`."
        if switched
        else ""
    )
    return f"Day log: {log.path}{days}{rules}"


def _saved_in_notes(scope: Scope, pending: Pending, settings: MemorySettings) -> str:
    if LOG_HEADING not in pending.shown:
        return ""
    rules = [types(scope), how_to_save(scope, index=not settings.skip_index)]
    return "\n\n".join(["No log is kept here any more: save in notes, as follows, and add to no log.", *rules])


def _just_written(scope: Scope, pending: Pending) -> str:
    written = [path for path in pending.direct_writes if path.is_relative_to(scope.memory_dir)]
    if not written:
        return ""
    names = ", ".join(f"`{path.relative_to(scope.memory_dir)}`" for path in written)
    return f"Just written in these messages, so do not save the same again: {names}"


def _not_shown(scope: Scope, headers: Sequence[NoteHeader], shown: str) -> list[NoteHeader]:
    """Leave out the notes whose present line in the index stands in `shown` word for word."""
    lines = frozenset(shown.split("\n"))
    known = {target for line, target in pointers(_index(scope, scope.memory_dir)) if line in lines}
    if scope.team_dir is not None:
        folder = scope.team_dir.relative_to(scope.memory_dir).as_posix()
        team = pointers(_index(scope, scope.team_dir))
        known |= {f"{folder}/{target}" for line, target in team if line in lines}
    return [header for header in headers if header.name not in known]


def _index(scope: Scope, directory: Path) -> str:
    return read_text(scope.memory_dir, directory / INDEX, limit=MAX_BYTES)


def _existing(headers: Sequence[NoteHeader], room: int | None) -> str:
    if not headers:
        return ""
    lines = [manifest([header]) for header in headers]
    if room is not None:
        sizes = accumulate(len(line.encode()) + 1 for line in lines)
        lines = lines[: max(1, sum(size <= room for size in sizes))]
    left = len(headers) - len(lines)
    more = [f"({left} older ones are left out; `grep` for the subject)"] if left else []
    return "\n".join(["Notes that the index above does not show (update one rather than duplicate it):", *lines, *more])


async def extract(
    scope: Scope,
    pending: Pending,
    *,
    fork: Fork,
    scanner: Scans,
    settings: MemorySettings,
    clock: Clock,
    meter: Meter = UNMETERED,
) -> Extracted:
    """Run the fork and say what it left.

    The cursor moves if the run completed, or ran into its turn limit after it had written something; a failed
    or aborted run leaves it, and the person is not told. A run whose writes failed has failed, however it ended.
    """
    now = clock()
    log = await to_thread.run_sync(partial(day_log, scope, pending, settings, now=now))
    prompt = await extraction_prompt(scope, pending, scanner, settings, log=log)
    report = await fork(prompt, rights=rights(scope, settings, log=log), max_turns=settings.extraction_max_turns)
    if report.failed:  # the model may well have come to its end all the same: what it could not write would be lost
        report = replace(report, outcome=Outcome.FAILED)
    titles = await to_thread.run_sync(partial(_titles, scope, report.written))
    removed = await to_thread.run_sync(partial(_removed, scope, report.written))
    # A run that the model refuses for good would be refused again, and hold up what was said after it.
    moves = report.outcome in (Outcome.COMPLETED, Outcome.REFUSED) or (
        report.outcome is Outcome.TURN_CAP and bool(report.written)
    )
    moves = moves and not (log is not None and await to_thread.run_sync(_refuses, scope, log, report, settings))
    team = sum(1 for path in titles if scope.team_dir is not None and path.is_relative_to(scope.team_dir))
    _log.info(
        "memory.extraction", outcome=report.outcome.value, messages=pending.new_messages, turns=report.turns,
        files=len(report.written), failed_files=len(report.failed), memories=len(titles), team_memories=team,
        input_tokens=report.input_tokens, output_tokens=report.output_tokens,
        cache_read_tokens=report.cache_read_tokens, cache_write_tokens=report.cache_write_tokens,
    )  # fmt: skip
    meter.observe("extraction_seconds", (clock() - now).total_seconds(), outcome=report.outcome.value)
    _meter_run(meter, report, messages=pending.new_messages, memories=len(titles) - team, team=team)
    return Extracted(
        report=report,
        saved=tuple(titles.values()),
        team_saved=team,
        notice=_notice(scope, report, titles, team, settings, removed=removed) if moves else "",
        cursor_moves=moves,
    )


def _refuses(scope: Scope, log: DayLog, report: RunReport, settings: MemorySettings) -> bool:
    """Return whether a log can't be added to any more; the next run adds to a further part of that day. Blocks.

    The night has taken it up meanwhile, or, before the run had added to it, a hand has made it unreadable.
    """
    if is_processed(scope, log.path):
        return True
    return log.path not in report.written and not takes_more(scope, log.path, max_bytes=settings.write_max_bytes)


def _meter_run(meter: Meter, report: RunReport, *, messages: int, memories: int, team: int) -> None:
    meter.count("extractions", outcome=report.outcome.value)
    meter.observe("extraction_messages", messages)
    meter.observe("extraction_turns", report.turns)
    meter.count("extracted_files", len(report.written))
    meter.count("extracted_memories", memories, memory="personal")
    meter.count("extracted_memories", team, memory="team")


def _titles(scope: Scope, written: Sequence[Path]) -> dict[Path, str]:
    """Return the titles of the topic notes among the written files that are there (not deleted)."""
    logs = scope.memory_dir / LOGS
    found: dict[Path, str] = {}
    for path in written:
        inside = path.is_relative_to(scope.memory_dir) and not path.is_relative_to(logs)
        if inside and path.suffix == ".md" and path.name != INDEX and path.is_file():
            found[path] = _title(scope, path)
    return found


def _removed(scope: Scope, written: Sequence[Path]) -> list[str]:
    """Return the names of the notes among the written files that are not there any more."""
    inside = (path for path in written if path.is_relative_to(scope.memory_dir) and path.name != INDEX)
    return [path.relative_to(scope.memory_dir).as_posix() for path in inside if not path.exists()]


def _title(scope: Scope, path: Path) -> str:
    metadata, _ = parse(read_text(scope.memory_dir, path, limit=_HEAD_BYTES))
    words = "".join(c if c.isprintable() else " " for c in str(metadata.get("name") or "")).split()
    title = " ".join(words) or path.stem
    return title if len(title) <= _TITLE_CHARACTERS else f"{title[: _TITLE_CHARACTERS - 1]}…"


def _notice(
    scope: Scope,
    report: RunReport,
    titles: dict[Path, str],
    team: int,
    settings: MemorySettings,
    *,
    removed: Sequence[str],
) -> str:
    if settings.notices == "off":
        return ""
    gone = f"Removed {', '.join(removed)}" if removed else ""
    if not titles:
        if gone:
            return f"{gone}{_secrets(report)}"
        logged = any(path.is_relative_to(scope.memory_dir / LOGS) for path in report.written)
        return f"Added to today's log{_secrets(report)}" if logged else ""
    kinds = ((len(titles) - team, ""), (team, "team "))
    counts = [counted(number, f"{kind}memory", f"{kind}memories") for number, kind in kinds if number]
    named = list(titles.values())
    if settings.notices == "summary" and len(named) > _TITLES:
        named = [*named[:_TITLES], f"{len(named) - _TITLES} more"]
    saved = f"Saved {' · '.join(counts)}: {', '.join(named)}"
    return " · ".join(filter(None, (saved, gone))) + _secrets(report)


def _secrets(report: RunReport) -> str:
    """Tell what was left out: nobody hears what a fork says, and it may have been meant to be kept."""
    if not report.left_out:
        return ""
    kinds = ", ".join(dict.fromkeys(report.left_out))
    return f" ({counted(len(report.left_out), 'secret')} left out: {kinds})"
