"""/jobs: what the scheduler did last and does next; for owners, in private."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio

from gateway.commands.table import Asked, Handler, Reply, not_understood
from gateway.settings import Settings
from gateway.settings_faults import nearest
from memory.ports import Clock
from scheduler.board import Board, JobStatus, how, local
from scheduler.clock import Looked, Ran, SchedulerClock
from scheduler.errors import NotRunning, UnknownJob, UnknownScope

PER_JOB = 3
"""How many scopes of each job an overview shows."""
PER_PAGE = 20
"""How many scopes of a job are shown at once."""
_PATIENCE = 5.0  # seconds that a run by hand is waited for before the answer says where to look
_USAGE = "Write `/jobs`, `/jobs NAME`, `/jobs NAME 2` for more, or `/jobs run NAME [--scope PRINCIPAL] [--dry-run]`."
_NOT_YOURS = "Only an owner of this bot can see its jobs."
_NOT_HERE = "Jobs are about everybody's memory: ask me in our private chat."


@dataclass(frozen=True, kw_only=True)
class JobsCommand:
    """The handler and what it looks at. It shows whose memory was worked on and how that ended, never what is in it."""

    settings: Settings
    scheduler: SchedulerClock
    board: Board
    clock: Clock

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {"jobs": self.jobs}

    async def jobs(self, asked: Asked) -> Reply:
        """List jobs and their runs, or run one."""
        if asked.claim.inbound.account not in self.settings.access.owners:
            return Reply(text=_NOT_YOURS)
        if asked.scope.shared:
            return Reply(text=_NOT_HERE)
        given = asked.arguments.replace("`", "")
        try:
            return Reply(text=await self._answer(shlex.split(given), asked.scope.timezone))
        except (UnknownJob, UnknownScope) as error:
            return Reply(text=_unknown(error, given))
        except NotRunning:
            return Reply(text="I can't run it now: the scheduler is not running. `reverie doctor` says why.")
        except ValueError:
            return Reply(text=not_understood(given, ("run",), _USAGE))

    async def _answer(self, words: Sequence[str], timezone: str) -> str:
        """Do what the words say; raises `ValueError` if they say nothing that is known."""
        match list(words):
            case []:
                now, statuses = self.clock(), await self.board.overview(limit=PER_JOB)
                head = f"Times are those of {timezone}; `/jobs NAME` shows one job, `/jobs run NAME` runs it now."
                return "\n\n".join([head, *(told(status, now=now, timezone=timezone, mark="`") for status in statuses)])
            case ["run", name, *options]:
                return await self._run(name, options)
            case [name] if name != "run":
                return await self._page(name, 1, timezone)
            case [name, page] if page.isdecimal() and 0 < int(page) < 1_000_000:
                return await self._page(name, int(page), timezone)
            case _:
                raise ValueError(words)

    async def _page(self, name: str, page: int, timezone: str) -> str:
        status = await self.board.of(name, limit=PER_PAGE, page=page)
        text = told(status, now=self.clock(), timezone=timezone, mark="`")
        return f"{text}\n\n`/jobs {name} {page + 1}` shows more." if status.more else text

    async def _run(self, name: str, options: Sequence[str]) -> str:
        only, dry = _options(options)
        if dry:
            return would(name, await self.scheduler.dry_run(name, only=only), mark="`")
        begun = self.scheduler.begin(name, only=only)
        with anyio.move_on_after(_PATIENCE):
            await begun.ended.wait()
        if not begun.ended.is_set():
            return f"{name} is running; `/jobs {name}` shows how it goes."
        return f"{name}: {begun.error}" if begun.error else "\n".join(outcomes(name, begun.ran, mark="`"))


def _unknown(error: UnknownJob | UnknownScope, given: str) -> str:
    name = given.removeprefix("run ").partition(" ")[0]
    meant = nearest(name, error.known) if isinstance(error, UnknownJob) else ""
    return f"{str(error)[0].upper()}{str(error)[1:]}{meant}."


def told(status: JobStatus, *, now: datetime, timezone: str, mark: str = "") -> str:
    """Return what a job does, when it does so next, and its last runs, a line for each scope."""
    following = "nobody to do it for" if status.following is None else f"next {local(status.following, timezone)}"
    bold = "**" if mark else ""
    lines = [f"{bold}{status.job.id}{bold}: {status.job.tells}; {following}"]
    for run in status.last:
        whose = f"{mark}{run.scope}{mark} " if run.scope else ""
        lines.append(f"- {whose}{local(run.started_at, timezone)}: {how(run, now=now)}")
    lines += [] if status.last else ["- no run"]
    if (missed := status.missed) is not None:
        whose = f"{mark}{missed.scope}{mark} " if missed.scope else ""
        lines.append(f"- not long ago: {whose}{local(missed.started_at, timezone)}: {how(missed, now=now)}")
    return "\n".join([*lines, "- … and more scopes"] if status.more else lines)


def outcomes(name: str, ran: Iterable[Ran], *, mark: str = "") -> list[str]:
    """Return what a run by hand did, a line for each scope."""
    lines = [": ".join(filter(None, (_named(name, each.scope, mark), each.outcome.value, each.detail))) for each in ran]
    return lines or [f"{name}: nothing to do"]


def _named(job: str, scope: str, mark: str) -> str:
    return f"{job} {mark}{scope}{mark}" if scope else job


def would(name: str, looked: Sequence[Looked], *, mark: str = "") -> str:
    """Return what a dry run found: what the clock would run, and what keeps it from the rest."""
    lines = [f"{name}, dry run: nothing was changed"]
    for each in sorted(looked, key=lambda one: (bool(one.gate), one.scope, one.slot)):
        whose = f"{mark}{each.scope or 'the gateway'}{mark}"
        if not each.gate:
            lines.append(f"- {whose}: would {each.does or f'run, for {each.slot}'}")
        else:
            by_hand = f"; by hand it would {each.does or 'run'}" if each.by_hand else ""
            lines.append(f"- {whose}: not now: {each.gate}{by_hand}")
    return "\n".join(lines if looked else [*lines, "- there is no scope to work for"])


def _options(words: Sequence[str]) -> tuple[str, bool]:
    """Return which scope is meant and whether only to look; raises `ValueError` for anything else."""
    only, dry = "", False
    rest = iter(word.replace("\u2014", "--") for word in words)  # phones turn two hyphens into a dash
    for word in rest:
        if word == "--dry-run":
            dry = True
        elif word == "--scope":
            only = next(rest, "")
            if not only:
                raise ValueError("no scope")
        else:
            raise ValueError(word)
    return only, dry
