"""The close of a day: what was said and is in no log yet gets its line there, from the stored transcript."""

from collections.abc import Collection, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from anyio import to_thread

from memory import dailylog
from memory.errors import Conflict, NoteMissing, WriteRefused
from memory.facts import facts
from memory.notes import Notes, content_hash
from memory.ports import History, Said
from memory.provenance import Ledger, NoLedger, Placed
from memory.scope import Mode, Part, Scope
from memory.secret_scan import redact

_TEXT_CHARACTERS = 800
_NAME_CHARACTERS = 60
_TRIES = 5
_MAX_BYTES = 1024 * 1024


async def close_day(
    scope: Scope,
    day: date,
    *,
    history: History,
    notes: Notes,
    logged: Collection[int] = (),
    between: tuple[datetime, datetime] | None = None,
    ledger: Ledger | None = None,
    max_bytes: int = _MAX_BYTES,
) -> int:
    """Add what was said that day and is not in its log yet, and return how many messages that were.

    `logged` names messages that the log holds in other words already; `between` is what belongs to the day, if that is
    not what a clock shows. Each added line is marked with its message, so doing it again adds nothing. A secret in what
    was said is replaced by its kind. What is distilled already stays as it is, and so does a log of `max_bytes`, or
    one that a hand has made unreadable: what comes then goes to a further part of the day's log. A scope that keeps no
    log or has opted out of extraction, and a day whose log was distilled and deleted, are left alone.
    """
    if scope.mode is not Mode.LOG or scope.leaves_out(Part.EXTRACTION):
        return 0
    if await to_thread.run_sync(dailylog.is_gone, scope, day):
        return 0
    said = await history.said_between(scope, *(between or dailylog.day_bounds(scope, day)))
    wanted = [each for each in said if each.text.strip() and each.message_id not in logged]
    added = overtaken = 0
    while missing := await _missing(scope, day, wanted):
        path = await to_thread.run_sync(partial(dailylog.open_log, scope, day, max_bytes=max_bytes))
        try:
            written = await _add(scope, day, path, missing, notes, max_bytes=max_bytes)
        except (Conflict, WriteRefused) as error:
            # Somebody has logged a turn meanwhile, or the night has taken the log up: look again at what is missing.
            meanwhile = isinstance(error, Conflict) or await to_thread.run_sync(dailylog.is_processed, scope, path)
            overtaken += 1
            if not meanwhile:
                raise
            if overtaken == _TRIES:
                raise Conflict(f"the log of {day.isoformat()} did not stand still", actual="") from error
            continue
        await (ledger or NoLedger()).logged(scope, _placed(scope, path, written, max_bytes))
        wanted = missing[len(written) :]
        added += len(written)
    return added


async def _missing(scope: Scope, day: date, wanted: Sequence[Said]) -> list[Said]:
    if not wanted:
        return []
    known = await to_thread.run_sync(dailylog.marked, scope, day)
    return [each for each in wanted if each.message_id not in known]


async def _add(
    scope: Scope, day: date, path: Path, missing: Sequence[Said], notes: Notes, *, max_bytes: int
) -> Sequence[Said]:
    """Add as many lines as there is room for, and return whose they are; at least one."""
    present = await _present(scope, path, notes)
    text = f"# {day.isoformat()} ({scope.timezone})\n" if present is None else _whole_lines(present)
    left, written = max_bytes - len(text.encode()), 0
    for each in missing:
        bullet = _bullet(scope, each, max_bytes)
        left -= len(bullet.encode())
        if left < 0 and written:
            break
        text, written = text + bullet, written + 1
    await notes.write(scope, path, text, expected="" if present is None else content_hash(present))
    return missing[:written]


async def _present(scope: Scope, path: Path, notes: Notes) -> str | None:
    try:
        return (await notes.read(scope, path)).text
    except NoteMissing:
        return None


def _whole_lines(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _bullet(scope: Scope, said: Said, max_bytes: int) -> str:
    clock = said.at.astimezone(ZoneInfo(scope.timezone))
    speaker = "Reverie" if said.role == "assistant" else _one_line(said.speaker, _NAME_CHARACTERS) or "Someone"
    text = _one_line(redact(said.text), min(_TEXT_CHARACTERS, max_bytes // 32))  # half a log holds one in any script
    return f"- {clock:%H:%M} {speaker}: {text} <!-- m{said.message_id} -->\n"


def _placed(scope: Scope, path: Path, added: Sequence[Said], max_bytes: int) -> dict[int, Placed]:
    note = path.relative_to(scope.memory_dir).as_posix()
    said = [each for each in added if each.role == "user"]
    return {
        each.message_id: Placed(note=note, fact=fact)
        for each in said
        for fact in facts(_bullet(scope, each, max_bytes))
    }


def _one_line(text: str, room: int) -> str:
    """Put text on one line in which nothing can pass for one of our marks."""
    line = " ".join(text.replace("<!--", "&lt;!--").split())
    return line if len(line) <= room else f"{line[: room - 1]}…"
