"""What works while nobody chats: the scheduler's jobs, wired to memory; and team memory, served and kept in step."""

import asyncio
import os
import random
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from gateway.agent.fork import Runs
from gateway.db.engine import Database
from gateway.errors import JobFailed
from gateway.history import History
from gateway.notices import Notices
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.team_states import DatabaseSyncStates
from memory.consolidation import Consolidated, Consolidation, Ending
from memory.dailylog import Distil, close_day, day_bounds
from memory.dream import Dream, Gate
from memory.notes import Notes
from memory.ports import UNMETERED, Clock, Leases, Meter
from memory.scope import Scope
from memory.team.client import TeamSync
from memory.team.server import Grant, TokenTable, routes
from memory.team.store import Limits, TeamStore
from scheduler.clock import SchedulerClock
from scheduler.jobs import Chore, JobContext, MemoryWork, jobs
from scheduler.runs import Runs as JobRuns

_SILENCE_MINUTES = 10
_IN_PROCESS = "http://team.invalid"  # our own store is asked over the same contract, without a socket


@dataclass(frozen=True, kw_only=True)
class Night:
    """The scheduler's clock and what it drives."""

    clock: SchedulerClock
    runs: JobRuns
    sync: TeamSync
    team_routes: Sequence[BaseRoute]


@asynccontextmanager
async def open_night(
    settings: Settings,
    *,
    database: Database,
    scopes: Scopes,
    history: History,
    provenance: Provenance,
    runs: Runs,
    notes: Notes,
    leases: Leases,
    notices: Notices,
    clock: Clock,
    meter: Meter = UNMETERED,
) -> AsyncIterator[Night]:
    """Make the jobs and what they work with; nothing ticks before `Night.clock` is entered."""
    store = TeamStore(database, clock=clock, limits=Limits())
    own_token = secrets.token_urlsafe(32)
    repos = frozenset(project.repo or name for name, project in settings.projects.items())
    grants = {own_token: Grant(author="gateway", repos=repos), **_granted(settings)}
    team_routes = routes(store, TokenTable(grants), Limits())
    # Another server's token is unknown to our own store.
    given = settings.memory.team_token if settings.memory.team_server_url else None
    async with _http(settings, team_routes) as http:
        sync = TeamSync(
            base_url=str(settings.memory.team_server_url or _IN_PROCESS),
            token=_constant(given.get_secret_value() if given else own_token),
            http=http,
            notes=notes,
            states=DatabaseSyncStates(database),
            leases=leases,
            settings=settings.memory,
            clock=clock,
            sleep=asyncio.sleep,
            jitter=random.random,
            meter=meter,
        )
        consolidation = Consolidation(
            runs.run,
            notes=notes,
            leases=leases,
            notice=notices,
            settings=settings.memory,
            clock=clock,
            ledger=provenance,
        )
        work = _Work(
            dream=Dream(consolidation, history=history, settings=settings.memory, clock=clock, meter=meter),
            distil=Distil(consolidation, settings=settings.memory, clock=clock),
            sync=sync,
            sync_every=timedelta(minutes=settings.memory.team_pull_minutes),
            history=history,
            provenance=provenance,
            notes=notes,
        )
        job_runs = JobRuns(database, clock=clock, holder=f"{socket.gethostname()}:{os.getpid()}")
        silence = Chore(id="end-sessions", period=timedelta(minutes=_SILENCE_MINUTES), run=work.end_sessions)
        table = jobs(settings.scheduler, scopes=scopes, runs=job_runs, work=work.table, chores=[silence])
        yield Night(
            clock=SchedulerClock(table, runs=job_runs, settings=settings.scheduler, clock=clock),
            runs=job_runs,
            sync=sync,
            team_routes=team_routes,
        )


class _Work:
    """The jobs' work, each with one line on what came of it."""

    def __init__(
        self,
        *,
        dream: Dream,
        distil: Distil,
        sync: TeamSync,
        sync_every: timedelta,
        history: History,
        provenance: Provenance,
        notes: Notes,
    ) -> None:
        self._dream = dream
        self._distil = distil
        self._sync = sync
        self._sync_every = sync_every
        self._history = history
        self._provenance = provenance
        self._notes = notes

    @property
    def table(self) -> MemoryWork:
        """What the scheduler is handed."""
        return MemoryWork(
            close_day=self.close_day,
            distil=self.distil,
            dream_due_since=self.dream_due_since,
            dream=self.dream,
            sync_team=self.sync_team,
            sync_every=self._sync_every,
        )

    async def close_day(self, context: JobContext) -> str:
        scope, day = context.scope, context.day
        # What extraction has looked at stands in the log in its words, or was not worth a line.
        logged = await self._history.extracted_between(scope, *day_bounds(scope, day))
        added = await close_day(
            scope, day, history=self._history, notes=self._notes, logged=logged, ledger=self._provenance
        )
        return f"{_counted(added, 'message')} added to the log of {day}"

    async def distil(self, context: JobContext) -> str:
        return _told(await self._distil(context.scope))

    async def dream_due_since(self, scope: Scope) -> datetime | None:
        return await self._dream.last(scope) if await self._dream.due(scope) is Gate.OPEN else None

    async def dream(self, context: JobContext) -> str:
        return _told(await self._dream(context.scope, forced=context.by_hand))

    async def sync_team(self, context: JobContext) -> str:
        report = await self._sync.sync(context.scope)
        if report.failure is not None:
            raise report.failure
        return report.summary()

    async def end_sessions(self, _: JobContext) -> str:
        return f"{_counted(await self._history.end_silent(), 'silent conversation')} ended"


def _told(done: Consolidated) -> str:
    """Return the run's outcome in one line; raises `JobFailed` where it did not end well, so that it is tried again."""
    if not done.ending.good and done.ending is not Ending.GATED:
        raise JobFailed(done.reason if done.ending is Ending.FAILED else f"{done.ending.value}: {done.reason}")
    touched = f"{_counted(len(done.touched), 'file')} changed" if done.touched else ""
    return "; ".join(part for part in (done.ending.value, touched, done.reason) if part)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


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
