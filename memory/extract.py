"""Extraction: after a finished turn, a fork of it keeps what is worth keeping.

    Pending --decide--> run | skip, keep the cursor | skip, move the cursor;   run --extract--> Extracted

The host owns what lasts: the due row, the cursor, the one run at a time per memory directory, and the lease
of a write.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
from anyio import to_thread

from memory.dailylog import log_path
from memory.index import INDEX
from memory.metadata import parse
from memory.ports import Clock, Fork, Outcome, Rights, RunReport
from memory.prompt import read_text
from memory.prompt_sections import (
    EXTRACTION_HEADING,
    HOW_TO_SAVE_HEADING,
    LOG_HEADING,
    NOT_TO_SAVE_HEADING,
    REMINDER_TAG,
    TYPES_HEADING,
)
from memory.scan import LOGS, NoteHeader, manifest
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

_HEAD_BYTES = 16_384
_TITLE_CHARACTERS = 60
_TITLES = 3
"""How many titles a notice in summary names."""

_log = structlog.get_logger(__name__)


class Scans(Protocol):
    """Lists the notes of a scope, newest first; the memory package's `Scanner`."""

    async def scan(self, scope: Scope) -> list[NoteHeader]:
        """Return the headers, without the index and the day logs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pending:
    """What has gathered in a session since its extraction cursor."""

    new_messages: int
    """Messages of the person and the bot; tool rounds and injected text don't count."""
    turns: int
    """Finished turns since the last run, or since a skip that moved the cursor, this one included."""
    direct_writes: tuple[Path, ...] = ()
    """Files that the bot itself wrote in these turns: only writes that succeeded."""
    forced: bool = False
    """The throttle does not apply: a trailing run after a coalesced one, or the end of the session."""


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


def decide(scope: Scope, pending: Pending, settings: MemorySettings, *, main_agent: bool = True) -> Decision:
    """Apply the guards in their order: main agent, memory on, something new, throttle, direct write.

    The host has made sure that it is not in bare or remote mode and that no run is in progress for
    this memory directory. A skip for a direct write moves the cursor and starts the throttle's count again;
    the others pile up.
    """
    if not main_agent:
        return _keep("not_main_agent")
    if not scope.enabled or not settings.extraction_enabled:
        return _keep("disabled")
    if pending.new_messages <= 0:
        return _keep("nothing_new")
    if not pending.forced and pending.turns < settings.extraction_throttle:
        return _keep("throttled")
    # In a shared chat one speaker's "remember this" must not silence what the others said.
    if not scope.shared and any(path.is_relative_to(scope.memory_dir) for path in pending.direct_writes):
        return Decision(verdict=Verdict.SKIP_MOVE_CURSOR, reason="direct_write")
    return Decision(verdict=Verdict.RUN)


def _keep(reason: str) -> Decision:
    return Decision(verdict=Verdict.SKIP_KEEP_CURSOR, reason=reason)


def rights(scope: Scope, settings: MemorySettings, *, now: datetime) -> Rights:
    """Return what a run may do: read A and T, write A, and T only where it is listed as well.

    T lies inside A; whoever applies the rights takes A for A without T. In log mode only today's log may be
    added to.
    """
    team = () if scope.team_dir is None else (scope.team_dir,)
    if scope.mode is Mode.LOG:
        return Rights(read=(scope.memory_dir, *team), write=(), append_only=log_path(scope, now))
    return Rights(read=(scope.memory_dir, *team), write=writable(scope, settings))


def writable(scope: Scope, settings: MemorySettings) -> tuple[Path, ...]:
    """Return A, and T where it may be written without asking: in a shared chat, or if the settings say so."""
    if scope.team_dir is not None and (scope.shared or settings.team_writes == "direct"):
        return (scope.memory_dir, scope.team_dir)
    return (scope.memory_dir,)


async def extraction_prompt(
    scope: Scope, pending: Pending, scanner: Scans, settings: MemorySettings, *, now: datetime
) -> str:
    """Return the run's one message; it is short, as the rules stand in the prompt that the fork shares."""
    headers = await scanner.scan(scope)
    parts = [
        _task(scope, pending, settings),
        _where(scope, settings, now),
        _reminders(scope),
        _just_written(scope, pending),
        _existing(headers[: settings.scan_limit]),
    ]
    return "\n\n".join(part for part in parts if part)


def _task(scope: Scope, pending: Pending, settings: MemorySettings) -> str:
    how = LOG_HEADING if scope.mode is Mode.LOG else HOW_TO_SAVE_HEADING
    sections = [EXTRACTION_HEADING, NOT_TO_SAVE_HEADING, how]
    if scope.mode is not Mode.LOG:
        sections.insert(1, TYPES_HEADING)
    named = ", ".join(f'"{heading.removeprefix("## ")}"' for heading in sections)
    return (
        f"This is a memory extraction run, asked for by the host. The rules stand above: {named}. Look only "
        f"at the last {pending.new_messages} messages before this one. You have "
        f"{settings.extraction_max_turns} turns."
    )


def _where(scope: Scope, settings: MemorySettings, now: datetime) -> str:
    lines = [f"Memory directory: {scope.memory_dir}"]
    if scope.mode is Mode.LOG:
        lines.append(f"Day log: {log_path(scope, now)}")
        lines.append("Only `append` to the day log; change nothing else and nothing that is in it.")
    elif scope.team_dir is not None:
        lines.append(f"Team directory: {scope.team_dir}")
        if scope.team_dir not in rights(scope, settings, now=now).write:
            lines.append("The team directory is read-only in this run.")
    return "\n".join(lines)


def _reminders(scope: Scope) -> str:
    words = (
        f"Text inside <{REMINDER_TAG}> tags and system text is injected, never a source: a fact needs a "
        "human sentence. Keep who said it and when; resolve relative dates against the message's time, and "
        "keep both."
    )
    if scope.shared:
        words += " Name the speaker of each fact."
    if scope.team_dir is not None:
        words += " No secrets, such as keys or passwords, in team memory."
    return words


def _just_written(scope: Scope, pending: Pending) -> str:
    written = [path for path in pending.direct_writes if path.is_relative_to(scope.memory_dir)]
    if not written:
        return ""
    names = ", ".join(f"`{path.relative_to(scope.memory_dir)}`" for path in written)
    return f"Just written in these messages, so do not save the same again: {names}"


def _existing(headers: Sequence[NoteHeader]) -> str:
    return f"Existing notes (update one rather than duplicate it):\n{manifest(headers)}" if headers else ""


async def extract(  # noqa: PLR0917 (the host's side was written against this order)
    scope: Scope, pending: Pending, fork: Fork, scanner: Scans, settings: MemorySettings, clock: Clock
) -> Extracted:
    """Run the fork and say what it left.

    The cursor moves if the run completed, or ran into its turn limit after it had written something; a failed
    or aborted run leaves it, and the person is not told.
    """
    now = clock()
    prompt = await extraction_prompt(scope, pending, scanner, settings, now=now)
    report = await fork(prompt, rights=rights(scope, settings, now=now), max_turns=settings.extraction_max_turns)
    titles = await to_thread.run_sync(partial(_titles, scope, report.written))
    moves = report.outcome is Outcome.COMPLETED or (report.outcome is Outcome.TURN_CAP and bool(report.written))
    team = sum(1 for path in titles if scope.team_dir is not None and path.is_relative_to(scope.team_dir))
    _log.info(
        "memory.extraction", outcome=report.outcome.value, messages=pending.new_messages, turns=report.turns,
        files=len(report.written), memories=len(titles), team_memories=team, input_tokens=report.input_tokens,
        output_tokens=report.output_tokens, cache_read_tokens=report.cache_read_tokens,
        cache_write_tokens=report.cache_write_tokens,
    )  # fmt: skip
    return Extracted(
        report=report,
        saved=tuple(titles.values()),
        team_saved=team,
        notice=_notice(scope, report, titles, team, settings) if moves else "",
        cursor_moves=moves,
    )


def _titles(scope: Scope, written: Sequence[Path]) -> dict[Path, str]:
    """Return the titles of the topic notes among the written files that are there (not deleted)."""
    logs = scope.memory_dir / LOGS
    found: dict[Path, str] = {}
    for path in written:
        inside = path.is_relative_to(scope.memory_dir) and not path.is_relative_to(logs)
        if inside and path.suffix == ".md" and path.name != INDEX and path.is_file():
            found[path] = _title(scope, path)
    return found


def _title(scope: Scope, path: Path) -> str:
    metadata, _ = parse(read_text(scope.memory_dir, path, limit=_HEAD_BYTES))
    words = "".join(c if c.isprintable() else " " for c in str(metadata.get("name") or "")).split()
    title = " ".join(words) or path.stem
    return title if len(title) <= _TITLE_CHARACTERS else f"{title[: _TITLE_CHARACTERS - 1]}…"


def _notice(scope: Scope, report: RunReport, titles: dict[Path, str], team: int, settings: MemorySettings) -> str:
    if settings.notices == "off":
        return ""
    if not titles:
        logged = any(path.is_relative_to(scope.memory_dir / LOGS) for path in report.written)
        return "Added to today's log" if logged else ""
    counts = (_count(len(titles) - team, "memory"), _count(team, "team memory"))
    named = list(titles.values())
    if settings.notices == "summary" and len(named) > _TITLES:
        named = [*named[:_TITLES], f"{len(named) - _TITLES} more"]
    return f"Saved {' · '.join(count for count in counts if count)}: {', '.join(named)}"


def _count(number: int, noun: str) -> str:
    if number == 0:
        return ""
    return f"1 {noun}" if number == 1 else f"{number} {noun.removesuffix('y')}ies"
