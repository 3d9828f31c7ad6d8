"""What works while nobody chats: the scheduler's jobs, wired to memory; and team memory, served and kept in step."""

import asyncio
import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from gateway.agent.fork import Runs
from gateway.chores import chores
from gateway.db.engine import Database, DatabaseClock, machine_clock
from gateway.decisions import Decisions
from gateway.dreaming import Dreaming, changes
from gateway.dry_runs import DryRuns
from gateway.errors import JobFailed
from gateway.history import History
from gateway.night_budget import NightBudget
from gateway.notices import Notices, counted
from gateway.outbox import Outbox
from gateway.proposals import Proposals
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.team_copies import TeamCopies
from gateway.team_exchanges import TeamExchanges
from gateway.team_forgetting import TeamForgetting
from gateway.team_states import DatabaseForgotten, DatabaseSyncStates, FormerMembers
from gateway.tidying import TeamTidying
from memory.closing import close_day
from memory.consolidation import Consolidated, Consolidation, Ending
from memory.dailylog import day_bounds
from memory.distil import Distil
from memory.dream import Dream, Gate
from memory.errors import LeaseLost, MemoryFault
from memory.notes import Notes
from memory.paths import Homes
from memory.ports import UNMETERED, Clock, Leases, Meter
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.team.client import Removed, TeamSync, told_nobody
from memory.team.leave import leave
from memory.team.server import Grant, TokenTable, routes
from memory.team.store import Limits, TeamStore
from memory.team.tidy import Tidy
from memory.team.watch import TeamWatch
from memory.undo import Undo
from scheduler.board import Board
from scheduler.clock import SchedulerClock
from scheduler.days import Days
from scheduler.errors import NotNow
from scheduler.jobs import Due, Firing, JobContext, MemoryWork, jobs
from scheduler.runs import Runs as JobRuns
from scheduler.slots import Every

_PULL_SECONDS = 10.0
_ELSEWHERE = "another process is at it"
_IN_PROCESS = "http://team.invalid"  # our own store is asked over the same contract, without a socket


@dataclass(frozen=True, kw_only=True)
class Night:
    """The scheduler's clock and what it drives."""

    clock: SchedulerClock
    database_clock: DatabaseClock
    """Compares this machine's clock with the database's; while they are apart, no job is run here."""
    runs: JobRuns
    board: Board
    sync: TeamExchanges
    dreams: Dreaming
    undo: Undo
    budget: NightBudget
    proposals: Proposals
    decisions: Decisions
    team_forgetting: TeamForgetting
    close_log: Callable[[Scope], Awaitable[int]]
    """Closes every open day of a scope in log mode, today up to now."""
    watching: Callable[[], AbstractAsyncContextManager[None]]
    """Pushes edits of team memory soon after they were made, as long as it is entered."""
    team_routes: Sequence[BaseRoute]


@asynccontextmanager
async def open_night(
    settings: Settings,
    *,
    database: Database,
    scopes: Scopes,
    homes: Homes,
    history: History,
    provenance: Provenance,
    runs: Runs,
    notes: Notes,
    leases: Leases,
    notices: Notices,
    outbox: Outbox,
    clock: Clock,
    compared: Clock = machine_clock,
    meter: Meter = UNMETERED,
    team_removed: Removed = told_nobody,
) -> AsyncIterator[Night]:
    """Make the jobs and what they work with; nothing ticks before `Night.clock` is entered.

    What is compared with the database's clock is `compared`, which is the machine's own also where another `clock` is
    injected: that one is left out of it unless it is given here too.
    """
    store = TeamStore(database, clock=clock, limits=Limits())
    own_token = secrets.token_urlsafe(32)
    repos = frozenset(project.repo or name for name, project in settings.projects.items())
    grants = {own_token: Grant(author="gateway", repos=repos), **_granted(settings)}
    team_routes = routes(store, TokenTable(grants), Limits(), meter=meter)
    elsewhere = settings.memory.team_server_url is not None
    given = settings.memory.team_token
    foreign_token = given.get_secret_value() if given else ""
    states, forgotten = DatabaseSyncStates(database), DatabaseForgotten(database)
    async with _http(settings, team_routes) as http:
        sync = TeamExchanges(
            base_url=str(settings.memory.team_server_url or _IN_PROCESS),
            token=_constant(foreign_token if elsewhere else own_token),  # each server sees its own token only
            http=http,
            notes=notes,
            states=states,
            leases=leases,
            settings=settings.memory,
            clock=clock,
            sleep=asyncio.sleep,
            jitter=random.random,
            meter=meter,
            forgotten=forgotten,
            removed=team_removed,
        )
        former = FormerMembers(settings, homes, scopes.of_all, database)
        budget = NightBudget(database, settings, clock)
        consolidation = Consolidation(
            runs.run,
            notes=notes,
            leases=leases,
            notice=notices,
            settings=settings.memory,
            clock=clock,
            ledger=provenance,
            budget=budget,
        )
        left = partial(leave, notes=notes, states=states, leases=leases, settings=settings.memory)
        dreaming = partial(Dream, consolidation, history=history, settings=settings.memory, clock=clock)
        dreams = Dreaming(dreaming(meter=meter), notices)
        proposals = Proposals(database, outbox, clock)
        copies = TeamCopies(settings, scopes, sync, notes=notes, leases=leases, forgotten=forgotten)
        tidying = TeamTidying(
            settings,
            copies,
            Tidy(runs.run, notes=notes, leases=leases, settings=settings.memory, clock=clock, budget=budget),
            proposals=proposals,
            ledger=provenance,
            conversations=history,
            every=Every(period=timedelta(minutes=settings.scheduler.dream_minutes)),
        )
        database_clock = DatabaseClock(database, compared)
        dry_runs = DryRuns(
            settings.memory,
            history=history,
            scopes=scopes,
            dream=dreaming,
            states=states,
            copies=copies,
        )
        job_runs = JobRuns(database, clock=clock, holder=f"{socket.gethostname()}:{os.getpid()}")
        work = _Work(
            dreams=dreams,
            asking=dreaming,  # one of its own for each question, as a dream remembers when it looked
            distil=Distil(consolidation, settings=settings.memory, clock=clock),
            sync=sync,
            sync_every=timedelta(minutes=settings.memory.team_pull_minutes),
            copies=copies,
            tidying=tidying,
            dry_runs=dry_runs,
            history=history,
            provenance=provenance,
            notes=notes,
            days=Days(settings.scheduler, scopes=scopes, runs=job_runs, unseen=history.unseen),
            settings=settings.memory,
            clock=clock,
        )
        routine = chores(
            settings.memory,
            history=history,
            scopes=scopes,
            former=former,
            leave=left,
            dream=dreams.dream,
            leases=leases,
            would=dry_runs.table,
        )
        watch = TeamWatch(sync.push, scopes=scopes.active, debounce=settings.memory.team_debounce)
        table = jobs(settings.scheduler, scopes=scopes, runs=job_runs, work=work.table, chores=routine)
        scheduler = SchedulerClock(
            table,
            runs=job_runs,
            settings=settings.scheduler,
            clock=clock,
            meter=meter,
            expected=(JobFailed, MemoryFault),
            obstacle=database_clock.apart,
        )
        yield Night(
            clock=scheduler,
            database_clock=database_clock,
            runs=job_runs,
            board=Board(scheduler, runs=job_runs, clock=clock),
            sync=sync,
            dreams=dreams,
            undo=Undo(
                notes=notes, leases=leases, settings=settings.memory, clock=clock, ledger=provenance, meter=meter
            ),
            budget=budget,
            proposals=proposals,
            decisions=Decisions(copies, proposals, provenance, clock),
            team_forgetting=TeamForgetting(copies, sync, notes, leases),
            close_log=work.close_log,
            watching=watch.running if settings.memory.team_watch else nullcontext,
            team_routes=team_routes,
        )


class _Told:
    """Tells a job how far its run is; a `memory.ports.Progress`."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self.begun = False

    async def __call__(self, *, turn: int, text: str, tools: int, written: Sequence[Path]) -> None:
        self.begun = True
        self._context.progress(f"turn {turn}, {counted(len(written), 'file')} written")


class _Work:
    """The jobs' work, each with one line on what came of it."""

    def __init__(
        self,
        *,
        dreams: Dreaming,
        asking: Callable[[], Dream],
        distil: Distil,
        sync: TeamSync,
        sync_every: timedelta,
        copies: TeamCopies,
        tidying: TeamTidying,
        dry_runs: DryRuns,
        history: History,
        provenance: Provenance,
        notes: Notes,
        days: Days,
        settings: MemorySettings,
        clock: Clock,
    ) -> None:
        self._days = days
        self._settings = settings
        self._clock = clock
        self._dreams = dreams
        self._asking = asking
        self._distil = distil
        self._sync = sync
        self._sync_every = sync_every
        self._copies = copies
        self._tidying = tidying
        self._dry_runs = dry_runs
        self._history = history
        self._provenance = provenance
        self._notes = notes

    @property
    def table(self) -> MemoryWork:
        """What the scheduler is handed."""
        return MemoryWork(
            close_day=self.close_day,
            distil=self.distil,
            dream_since=self._dreams.dream.last,
            dream_gate=self.dream_gate,
            dream=self.dream,
            sync_team=self.sync_team,
            sync_every=self._sync_every,
            tidy_team=self.tidy_team,
            teams=self._tidying.due,
            unseen=self._history.unseen,
            would=self._dry_runs.table,
        )

    async def close_day(self, context: JobContext) -> str:
        scope, day = context.scope, context.day
        context.progress(f"looking for what was said on {day} and is in no log yet")
        return f"{counted(await self._close(scope, day, context.due), 'message')} added to the log of {day}"

    async def close_log(self, scope: Scope) -> int:
        """Close every day of a scope in log mode that is open, today up to now, and return how many messages came."""
        unclosed = await self._days.unclosed(scope, self._clock())
        return sum([await self._close(scope, due.day, due) for due in unclosed if due.day is not None])

    async def _close(self, scope: Scope, day: date, due: Due) -> int:
        begins, ends = due.since or day_bounds(scope, day)[0], due.at
        # What extraction has looked at stands in the log in its words, or was not worth a line.
        logged = await self._history.extracted_between(scope, begins, ends)
        return await close_day(
            scope,
            day,
            history=self._history,
            notes=self._notes,
            logged=logged,
            between=(begins, ends),
            ledger=self._provenance,
            max_bytes=self._settings.write_max_bytes,
        )

    async def distil(self, context: JobContext) -> str:
        progress = _Told(context)
        return _told(await self._distil(context.scope, progress=progress), begun=progress.begun)

    async def dream_gate(self, scope: Scope, firing: Firing) -> str:
        gate = await (self._asking() if firing.dry else self._dreams.dream).due(scope)
        return "" if gate is Gate.OPEN else gate.value

    async def dream(self, context: JobContext) -> str:
        progress = _Told(context)
        done = await self._dreams(context.scope, forced=context.by_hand, progress=progress)
        return _told(done, begun=progress.begun)

    async def sync_team(self, context: JobContext) -> str:
        context.progress("exchanging with the server of the team's memory")
        try:
            report = await self._sync.sync(context.scope)
        except LeaseLost as error:
            raise NotNow(_ELSEWHERE) from error
        if report.pushed or report.deleted:
            context.progress(f"{report.summary()}; bringing the other copies in step")
            await self._copies.bring_in_step(context.scope, within=_PULL_SECONDS)
        if report.failure is not None:
            raise report.failure
        return report.summary()

    async def tidy_team(self, context: JobContext) -> str:
        begun: list[str] = []

        def progress(line: str) -> None:
            begun.append(line)
            context.progress(line)

        try:
            return await self._tidying.look(replace(context, progress=progress))
        except LeaseLost as error:
            if begun:
                raise
            raise NotNow(_ELSEWHERE) from error


_SETTLED = (Ending.GATED, Ending.SPENT, Ending.STOPPED)
"""Ends that are none of a failure: to try it again today would be against what somebody, or the budget, has said."""


def _told(done: Consolidated, *, begun: bool) -> str:
    """Return the run's outcome in one line; raises `JobFailed` where it did not end well, so that it is tried again.

    A lease that was not to be had is no failure, and raises `NotNow`; one that was lost on the way is one, as it would
    cost the model's work again at each tick.
    """
    if done.ending is Ending.BUSY and not begun:
        raise NotNow(done.reason)
    if not done.ending.good and done.ending not in _SETTLED:
        raise JobFailed(done.reason if done.ending is Ending.FAILED else f"{done.ending.value}: {done.reason}")
    touched = changes(len(done.touched), done.survival) if done.touched else ""
    return "; ".join(part for part in (done.ending.value, touched, done.reason) if part)


def _granted(settings: Settings) -> dict[str, Grant]:
    """Return what the operator has given to other gateways, by token."""
    return {
        grant.token.get_secret_value(): Grant(author=name, repos=frozenset(grant.repos))
        for name, grant in settings.memory.team_grants.items()
    }


def _constant(token: str) -> Callable[[], Awaitable[str]]:
    async def given() -> str:
        return token

    return given


def _http(settings: Settings, team_routes: Sequence[BaseRoute]) -> httpx.AsyncClient:
    if settings.memory.team_server_url is not None:
        return httpx.AsyncClient()
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=Starlette(routes=team_routes)))
