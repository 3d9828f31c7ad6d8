"""What works while nobody chats: the scheduler's jobs, wired to memory; and team memory, served and kept in step."""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from starlette.routing import BaseRoute

from gateway import approvals
from gateway.agent.fork import Runs
from gateway.buttons import Buttons
from gateway.chores import chores
from gateway.db.engine import Database, DatabaseClock, machine_clock
from gateway.decisions import Decisions
from gateway.dreaming import Dreaming
from gateway.dry_runs import DryRuns
from gateway.errors import JobFailed
from gateway.history import History
from gateway.llm.kept_files import unused
from gateway.night_budget import NightBudget
from gateway.night_work import NightWork
from gateway.notices import Notices
from gateway.outbox import Outbox
from gateway.proposals import Proposals
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.team_copies import TeamCopies
from gateway.team_exchanges import TeamExchanges
from gateway.team_forgetting import TeamForgetting
from gateway.team_serving import open_team
from gateway.team_states import FormerMembers
from gateway.tidying import TeamTidying
from memory.consolidation import Consolidation
from memory.distil import Distil
from memory.dream import Dream
from memory.errors import MemoryFault
from memory.notes import Notes
from memory.paths import Homes
from memory.ports import UNMETERED, Clock, Leases, Meter
from memory.scope import Scope
from memory.team.client import Removed, told_nobody
from memory.team.leave import leave
from memory.team.tidy import Tidy
from memory.team.watch import TeamWatch
from memory.undo import Undo
from scheduler.board import Board
from scheduler.clock import SchedulerClock
from scheduler.days import Days
from scheduler.jobs import jobs
from scheduler.runs import Runs as JobRuns
from scheduler.slots import Every


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
    async with open_team(
        settings, database=database, notes=notes, leases=leases, clock=clock, meter=meter, removed=team_removed
    ) as team:
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
        left = partial(leave, notes=notes, states=team.states, leases=leases, settings=settings.memory)
        dreaming = partial(Dream, consolidation, history=history, settings=settings.memory, clock=clock)
        dreams = Dreaming(dreaming(meter=meter), notices)
        proposals, buttons = Proposals(database, outbox, clock), Buttons(database, clock)
        copies = TeamCopies(settings, scopes, team.sync, notes=notes, leases=leases, forgotten=team.forgotten)
        tidying = TeamTidying(
            settings,
            copies,
            Tidy(runs.run, notes=notes, leases=leases, settings=settings.memory, clock=clock, budget=budget),
            proposals=proposals,
            ledger=provenance,
            conversations=history,
            buttons=buttons,
            every=Every(period=timedelta(minutes=settings.scheduler.dream_minutes)),
        )
        database_clock = DatabaseClock(database, compared)
        dry_runs = DryRuns(
            settings.memory,
            history=history,
            scopes=scopes,
            dream=dreaming,
            states=team.states,
            copies=copies,
        )
        job_runs = JobRuns(database, clock=clock, holder=f"{socket.gethostname()}:{os.getpid()}")
        work = NightWork(
            dreams=dreams,
            asking=dreaming,  # one of its own for each question, as a dream remembers when it looked
            distil=Distil(consolidation, settings=settings.memory, clock=clock),
            sync=team.sync,
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
            files=partial(_unused_files, settings),
            offers=partial(_prune_offers, buttons, database, clock),
            would=dry_runs.table,
        )
        watch = TeamWatch(team.sync.push, scopes=scopes.active, debounce=settings.memory.team_debounce)
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
            sync=team.sync,
            dreams=dreams,
            undo=Undo(
                notes=notes, leases=leases, settings=settings.memory, clock=clock, ledger=provenance, meter=meter
            ),
            budget=budget,
            proposals=proposals,
            decisions=Decisions(copies, proposals, provenance, clock),
            team_forgetting=TeamForgetting(copies, team.sync, notes, leases),
            close_log=work.close_log,
            watching=watch.running if settings.memory.team_watch else nullcontext,
            team_routes=team.routes,
        )


async def _prune_offers(buttons: Buttons, database: Database, clock: Clock) -> int:
    return await buttons.prune() + await approvals.prune(database, clock)


def _unused_files(settings: Settings, now: float) -> Iterator[Path]:
    return unused(settings.memory_base / "homes", before=now - settings.attachments.keep_days * 86_400.0)
