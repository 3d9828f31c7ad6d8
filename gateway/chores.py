"""The gateway's chores: what only has to be done now and then, for no scope in particular."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

from anyio import to_thread

from gateway.history import History
from gateway.llm.kept_files import discard
from gateway.notices import counted
from gateway.scopes import Scopes
from gateway.team_states import FormerMembers
from memory.dream import Dream
from memory.errors import LeaseLost, MemoryFault
from memory.ports import Leases
from memory.retention import delete_old_logs, old_logs
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.team.leave import Left
from scheduler.jobs import Chore, JobContext, Work

_OFTEN = timedelta(minutes=10)
_NO_LOG = "no day log, as log_keep_days is not set"

Files = Callable[[float], Iterable[Path]]
"""Finds the files that no conversation has needed for long, as of a time in Unix seconds."""

Offers = Callable[[], Awaitable[int]]
"""Drops the buttons and questions that nobody can answer any more, and returns how many."""

Leaving = Callable[[Scope, Path], Awaitable[Left]]
"""Removes a copy of team memory; see `memory.team.leave.leave`."""


def chores(
    settings: MemorySettings,
    *,
    history: History,
    scopes: Scopes,
    former: FormerMembers,
    leave: Leaving,
    dream: Dream,
    leases: Leases,
    files: Files,
    offers: Offers,
    would: Mapping[str, Work],
) -> Sequence[Chore]:
    """Return the chores that the scheduler runs beside the jobs of memory; `would` is as in `MemoryWork`."""
    return (
        Chore(
            id="end-sessions",
            tells="ends conversations that have fallen silent",
            period=_OFTEN,
            run=partial(_end_sessions, history, scopes),
            would=would.get("end-sessions"),
        ),
        Chore(
            id="leave-teams",
            tells="takes team memory from those who left the team",
            period=timedelta(minutes=settings.team_pull_minutes),
            run=partial(_leave_teams, former, leave),
            would=partial(_would_leave_teams, former),
        ),
        Chore(
            id="recover-dreams",
            tells="puts back what a dream has written that was killed",
            period=_OFTEN,
            run=partial(_recover_dreams, dream, scopes),
            would=would.get("recover-dreams"),
        ),
        Chore(
            id="forget-logs",
            tells=_ageing(settings.log_keep_days),
            period=timedelta(days=1),
            run=partial(_forget_logs, scopes, leases, settings),
            would=partial(_would_forget_logs, scopes, settings),
        ),
        Chore(
            id="clear-away",
            tells="deletes files, buttons and questions of conversations that have long not gone on",
            period=timedelta(days=1),
            run=partial(_clear_away, files, offers),
            would=partial(_would_clear_away, files),
        ),
    )


async def _clear_away(files: Files, offers: Offers, context: JobContext) -> str:
    """Delete them; what can't be deleted now is left to the next time."""
    gone = 0
    for path in await _found(files, context):
        with suppress(OSError):
            await to_thread.run_sync(discard, path)
            gone += 1
    over = counted(await offers(), "button or question", "buttons and questions")
    return f"{counted(gone, 'file')}, {over} deleted"


async def _would_clear_away(files: Files, context: JobContext) -> str:
    return f"delete {counted(len(await _found(files, context)), 'file')}"


async def _found(files: Files, context: JobContext) -> list[Path]:
    return await to_thread.run_sync(lambda: list(files(context.firing.now.timestamp())))


async def _end_sessions(history: History, scopes: Scopes, _: JobContext) -> str:
    return f"{counted(await history.end_silent(mode_of=await scopes.modes()), 'silent conversation')} ended"


async def _leave_teams(former: FormerMembers, leave: Leaving, context: JobContext) -> str:
    """Remove the copies of those who belong to a team no more; one that can't be had now is left to the next time."""
    gone: list[Left] = []
    copies = await former.copies()
    for done, (scope, directory) in enumerate(copies):
        context.progress(f"{done} of {counted(len(copies), 'copy', 'copies')} seen to")
        with suppress(LeaseLost):
            gone.append(await leave(scope, directory))
    kept = sum(len(each.kept) for each in gone)
    return f"{counted(len(gone), 'copy', 'copies')} removed, {counted(kept, 'note')} kept"


async def _would_leave_teams(former: FormerMembers, _: JobContext) -> str:
    return f"remove {counted(len(await former.copies()), 'copy', 'copies')}"


async def _recover_dreams(dream: Dream, scopes: Scopes, context: JobContext) -> str:
    """Look in every memory, also where it is off by now, for what a killed dream has left."""
    known, found = await scopes.known(), 0
    for done, scope in enumerate(known):
        context.progress(f"{done} of {_memories(len(known))} looked at, {counted(found, 'dream')} put back")
        found += await dream.recover(scope)
    return f"{counted(found, 'dream')} put back"


def _memories(number: int) -> str:
    return counted(number, "memory", "memories")


def _ageing(keep_days: int | None) -> str:
    if keep_days is None:
        return f"deletes {_NO_LOG}"
    return f"deletes day logs that were sorted into notes and are older than {counted(keep_days, 'day')}"


async def _forget_logs(scopes: Scopes, leases: Leases, settings: MemorySettings, context: JobContext) -> str:
    """Delete old logs; those of a memory that is being rewritten, or can't be had, are left to the next time."""
    keep_days = settings.log_keep_days
    if keep_days is None:
        return "day logs are kept for ever, as log_keep_days is not set"
    now, seconds = context.firing.now, settings.lease_seconds
    delete = partial(delete_old_logs, keep_days=keep_days, now=now, leases=leases, seconds=seconds)
    deleted, left = await _summed(scopes, delete, context)
    return f"{counted(deleted, 'day log')} deleted{left}"


async def _would_forget_logs(scopes: Scopes, settings: MemorySettings, context: JobContext) -> str:
    keep_days = settings.log_keep_days
    if keep_days is None:
        return f"delete {_NO_LOG}"

    async def count(scope: Scope) -> int:
        return len(await old_logs(scope, keep_days=keep_days, now=context.firing.now))

    deleted, left = await _summed(scopes, count, context)
    return f"delete {counted(deleted, 'day log')}{left}"


async def _summed(scopes: Scopes, work: Callable[[Scope], Awaitable[int]], context: JobContext) -> tuple[int, str]:
    """Do it for every known memory; return the sum, and a word on those that are left to the next time."""
    total = left = 0
    known = await scopes.known()
    for done, scope in enumerate(known):
        context.progress(f"{done} of {_memories(len(known))} looked at, {counted(total, 'day log')} found")
        try:
            total += await work(scope)
        except (OSError, MemoryFault):
            left += 1
    return total, f"; {_memories(left)} left to the next time" if left else ""
