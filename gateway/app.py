"""The composition root: every part is made here, once, and handed to those that need it."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from adapters.base import Adapter, Identity
from adapters.errors import AdapterError, Transient
from adapters.serving import serving
from adapters.waiting import happens
from gateway import home
from gateway.access import Access
from gateway.agent.fork import Runs
from gateway.agent.subagents import Subagents
from gateway.asgi import application
from gateway.commands.dream import DreamCommand
from gateway.commands.erasure import ErasureCommands
from gateway.commands.jobs import JobsCommand
from gateway.commands.memory import MemoryCommands
from gateway.commands.mode import ModeCommand
from gateway.commands.proposals import ProposalCommand
from gateway.commands.table import Commands
from gateway.commands.team import TeamCommand
from gateway.commands.user import UserCommands
from gateway.commands.why import WhyCommand
from gateway.db.engine import Database, connect, migrate
from gateway.db.leases import DatabaseLeases
from gateway.erasures import Erasures
from gateway.errors import StartRefused
from gateway.extraction import Extractions
from gateway.history import History
from gateway.inbox import Inbox
from gateway.intake import Intake
from gateway.llm import client as llm
from gateway.metrics import Metrics
from gateway.moves import Moves
from gateway.night import Night, open_night
from gateway.notices import Notices
from gateway.outbox import Outbox
from gateway.provenance import Provenance
from gateway.publishing import Publishing
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.staging import Staging
from gateway.team_writes import TeamWrites
from gateway.turn import Turns
from gateway.usage import Usage
from gateway.worker import Worker
from memory.agent_snapshots import Snapshots
from memory.instructions.layers import Instructions
from memory.paths import Homes
from memory.ports import Clock
from memory.recall import Recall
from memory.scan import Scanner
from memory.settings import MemoryEnv, enabled
from memory.team_notes import TeamNotes

log = structlog.get_logger(__name__)

_LEASE_SECONDS = 30.0
_SETTLE_SECONDS = 20.0  # how long a stopping gateway waits for turns, and then for deliveries
_ALL_NOTES = 100_000  # recall applies the manifest's own limit; this bounds a scan of a folder gone wild
_LATE_DELIVERY_SECONDS = 600.0
_LONGEST_PAUSE = 30.0


def utc_now() -> datetime:
    """Return the present moment; the clock of everything that is not a test."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Core:
    """The parts that the shell's commands share with the running gateway: memory and its database, no platform."""

    settings: Settings
    database: Database
    access: Access
    history: History
    provenance: Provenance
    erasures: Erasures
    usage: Usage
    homes: Homes
    scopes: Scopes
    notes: TeamNotes
    staging: Staging
    scanner: Scanner
    runs: Runs
    model: llm.Model
    outbox: Outbox
    notices: Notices
    leases: DatabaseLeases
    night: Night
    memory_on: bool
    clock: Clock
    metrics: Metrics


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """Everything that runs."""

    core: Core
    adapters: Mapping[str, Adapter]
    inbox: Inbox
    intake: Intake
    worker: Worker
    extractions: Extractions
    identities: dict[str, Identity]
    web: Starlette

    async def run(self, stop: asyncio.Event, *, announce: Callable[[str], None]) -> None:
        """Serve until `stop` is set, then finish what is under way. Raises `StartRefused` if a part can't start.

        On SQLite the caller holds the home's lock, so whatever is claimed was claimed by a process that died.
        """
        core = self.core
        if core.database.is_sqlite:
            await self.inbox.take_over()
            await core.outbox.take_over()
            await core.leases.take_over("extract")  # nothing but a gateway extracts
        async with asyncio.TaskGroup() as group:
            turns = group.create_task(self.worker.run())
            extractions = group.create_task(self.extractions.run())
            deliveries = group.create_task(core.outbox.deliver(self.adapters))
            settled = asyncio.Event()
            try:
                async with (
                    self._serving_http(announce),
                    core.night.clock,
                    core.night.watching(),
                    asyncio.TaskGroup() as doors,
                ):
                    for name, adapter in self.adapters.items():
                        doors.create_task(self._hold_open(name, adapter, settled, announce))
                    await stop.wait()
                    self.intake.close()  # nothing comes in any more; what goes out still needs the platforms
                    await self._settle(turns, extractions, deliveries)
                    settled.set()
            finally:
                await self._settle(turns, extractions, deliveries)

    async def _settle(
        self, turns: "asyncio.Task[None]", extractions: "asyncio.Task[None]", deliveries: "asyncio.Task[None]"
    ) -> None:
        """Finish what is under way, each part after those that make work for it; what is done already takes no time."""
        self.worker.close()
        await _finish(turns, _SETTLE_SECONDS)
        self.extractions.close()
        await _finish(extractions, self.core.settings.memory.extraction_drain)
        self.core.outbox.close()
        await _finish(deliveries, _SETTLE_SECONDS)

    @asynccontextmanager
    async def _serving_http(self, announce: Callable[[str], None]) -> AsyncIterator[None]:
        host, port = self.core.settings.http_address
        async with AsyncExitStack() as stack:
            try:
                base = await stack.enter_async_context(serving(self.web, host=host, port=port))
            except OSError as error:
                raise StartRefused(
                    f"{host}:{port} can't be listened on: {error.strerror}. "
                    "Stop what uses it, or set REVERIE_HTTP to another host:port."
                ) from error
            announce(f"HTTP      on, {base} (/healthz, /readyz)")
            yield

    async def _hold_open(
        self, name: str, adapter: Adapter, stop: asyncio.Event, announce: Callable[[str], None]
    ) -> None:
        """Receive from one platform until `stop`; a platform that can't be reached yet is tried again."""
        title, pause = name.capitalize(), 1.0
        while not stop.is_set():
            try:
                async with adapter.serve(self.intake) as identity:
                    self.identities[name] = identity
                    announce(f"{title:9} on, as {identity.name}" + (f" ({identity.note})" if identity.note else ""))
                    await stop.wait()
            except Transient as error:
                announce(f"{title:9} not yet: {error}; trying again in {pause:.0f} s")
                await happens(stop, within=pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except AdapterError as error:
                raise StartRefused(f"{title} can't be started: {error}") from error

    async def faults(self) -> Mapping[str, str]:
        """Return what keeps the gateway from working; empty if nothing does."""
        now = self.core.clock()
        found = {name: health.detail for name, adapter in self.adapters.items() if not (health := adapter.health()).ok}
        if not self.core.night.clock.healthy(now):
            found["scheduler"] = "its clock has not ticked lately"
        oldest = await self.core.outbox.oldest_waiting()
        if oldest is not None and now.timestamp() - oldest > _LATE_DELIVERY_SECONDS:
            found["outbox"] = "an answer has waited for delivery for more than ten minutes"
        return found


async def _finish(task: "asyncio.Task[None]", seconds: float) -> None:
    """Wait for a task that was asked to end; cancel it when its time is up."""
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        log.warning("cut_short", part=task.get_coro().__qualname__)  # type: ignore[union-attr]
        task.cancel()
        await asyncio.wait({task})


@asynccontextmanager
async def open_core(
    settings: Settings,
    *,
    adapters: Mapping[str, Adapter],
    model_url: str | None = None,
    bare: bool = False,
    environ: Mapping[str, str] = os.environ,
    clock: Clock = utc_now,
) -> AsyncIterator[Core]:
    """Open the database and make what works on it; raises `StartRefused`."""
    home.prepare(settings.home)
    database = connect(settings.database)
    try:
        await migrate(database)
        access = Access(database, settings, clock)
        # Bare mode wins over a REVERIE_DISABLE_AUTO_MEMORY that is false, which the chain alone would follow.
        bare = bare or MemoryEnv.read(environ).bare
        memory_on = not bare and enabled(settings.memory, environ=environ, bare=bare)
        homes = Homes(
            root=settings.home / "homes",
            settings=settings.memory,
            override=environ.get("REVERIE_MEMORY_PATH_OVERRIDE") or None,
            enabled=memory_on,
        )
        history = History(database, clock, silence=settings.session_silence)
        provenance = Provenance(database)
        outbox = Outbox(database, clock)
        leases = DatabaseLeases(database, clock)
        notes = TeamNotes(leases=leases, settings=settings.memory)
        usage = Usage(database, clock)
        scopes = Scopes(settings, homes, access, database)
        notices = Notices(outbox, history)
        metrics = Metrics(CollectorRegistry())
        erasures = Erasures(database, clock)
        async with llm.connect(settings.model, base_url=model_url) as model:
            runs = Runs(model, settings.model, notes, usage, clock, meter=metrics)
            async with open_night(
                settings,
                database=database,
                scopes=scopes,
                homes=homes,
                history=history,
                provenance=provenance,
                runs=runs,
                notes=notes,
                leases=leases,
                notices=notices,
                outbox=outbox,
                clock=clock,
                meter=metrics,
                team_removed=erasures.team_notes_gone,
            ) as night:
                yield Core(
                    settings=settings,
                    database=database,
                    access=access,
                    history=history,
                    provenance=provenance,
                    erasures=erasures,
                    usage=usage,
                    homes=homes,
                    scopes=scopes,
                    notes=notes,
                    staging=Staging(database, clock),
                    scanner=Scanner(limit=_ALL_NOTES),
                    runs=runs,
                    model=model,
                    outbox=outbox,
                    notices=notices,
                    leases=leases,
                    night=night,
                    memory_on=memory_on,
                    clock=clock,
                    metrics=metrics,
                )
    finally:
        await database.engine.dispose()


def assemble(core: Core, adapters: Mapping[str, Adapter]) -> Gateway:
    """Make the gateway around a core."""
    settings, clock = core.settings, core.clock
    inbox = Inbox(core.database, core.outbox, clock, lease=_LEASE_SECONDS)
    identities: dict[str, Identity] = {}
    team_writes = TeamWrites(core.notes, core.staging, core.database, core.outbox, settings.memory)
    instructions = Instructions(homes=core.homes, managed_dir=settings.managed_dir, settings=settings.instructions)
    turns = Turns(
        settings=settings,
        database=core.database,
        inbox=inbox,
        outbox=core.outbox,
        history=core.history,
        provenance=core.provenance,
        record_forgotten=core.erasures.record_facts,
        usage=core.usage,
        scopes=core.scopes,
        model=core.model,
        notes=core.notes,
        scanner=core.scanner,
        recall=Recall(core.runs.ask, core.scanner, settings.memory, clock, meter=core.metrics),
        instructions=instructions,
        subagents=_subagents(core),
        team=core.night.sync,
        team_writes=team_writes,
        commands=commands(
            core,
            instructions,
            lambda platform: identities[platform].note if platform in identities else "",
            adapters=adapters,
        ),
        adapters=adapters,
        clock=clock,
        meter=core.metrics,
        memory_off=_memory_off(core),
    )
    worker = Worker(inbox, turns, clock, concurrency=settings.workers, patience=settings.model.patience)
    extractions = Extractions(
        history=core.history,
        provenance=core.provenance,
        scopes=core.scopes,
        runs=core.runs,
        scanner=core.scanner,
        settings=settings.memory,
        leases=core.leases,
        notices=core.notices,
        clock=clock,
        concurrency=settings.workers,
        owners=settings.access.owners,
        team_writes=team_writes,
        meter=core.metrics,
    )
    gateway: Gateway

    async def faults() -> Mapping[str, str]:
        return await gateway.faults()

    routes = [*core.night.team_routes, *(route for adapter in adapters.values() for route in adapter.routes())]
    gateway = Gateway(
        core=core,
        adapters=adapters,
        inbox=inbox,
        intake=Intake(
            inbox, core.access, adapters, worker.stop, Moves(core.database, core.access, core.history, inbox)
        ),
        worker=worker,
        extractions=extractions,
        identities=identities,
        web=application(faults=faults, metrics=core.metrics.exposition, routes=routes),
    )
    return gateway


def _memory_off(core: Core) -> str:
    if core.memory_on:
        return ""
    return "environment" if core.settings.memory.auto_memory_enabled else "setting"


def _subagents(core: Core) -> Subagents:
    memory = core.settings.memory
    return Subagents(
        home=core.settings.home,
        model=core.model,
        settings=core.settings.model,
        memory=memory,
        notes=core.notes,
        scanner=core.scanner,
        usage=core.usage,
        clock=core.clock,
        max_turns=memory.agent_max_turns,
        snapshots=Snapshots(core.notes, core.leases, memory) if memory.agent_snapshots else None,
        meter=core.metrics,
        forgotten=core.erasures.since,
    )


def commands(
    core: Core,
    instructions: Instructions,
    identity_note: Callable[[str], str],
    *,
    adapters: Mapping[str, Adapter],
) -> Commands:
    """Return the commands with what they look at."""
    user = UserCommands(
        settings=core.settings,
        scopes=core.scopes,
        history=core.history,
        usage=core.usage,
        scanner=core.scanner,
        clock=core.clock,
        identity_note=identity_note,
        instruction_files=instructions,
    )
    memory = MemoryCommands(notes=core.notes, scanner=core.scanner, clock=core.clock)
    why = WhyCommand(provenance=core.provenance, scanner=core.scanner, clock=core.clock, home=core.settings.home)
    erasure = ErasureCommands(
        settings=core.settings,
        scopes=core.scopes,
        erasures=core.erasures,
        provenance=core.provenance,
        notes=core.notes,
        scanner=core.scanner,
        leases=core.leases,
    )
    jobs = JobsCommand(settings=core.settings, scheduler=core.night.clock, board=core.night.board, clock=core.clock)
    night = core.night
    dream = DreamCommand(
        settings=core.settings,
        dreaming=night.dreams,
        undo=night.undo,
        budget=night.budget,
        scheduler=night.clock,
        adapters=adapters,
    )
    mode = ModeCommand(settings=core.settings, scopes=core.scopes, close_log=night.close_log, clock=core.clock)
    team = TeamCommand(
        settings=core.settings,
        staging=core.staging,
        publishing=Publishing(core.staging, core.notes, core.provenance, night.sync, core.clock),
        sync=night.sync,
        board=night.board,
        scanner=core.scanner,
        provenance=core.provenance,
        notes=core.notes,
        proposals=ProposalCommand(settings=core.settings, proposals=night.proposals, decisions=night.decisions),
        clock=core.clock,
    )
    about_memory = {**memory.handlers, **why.handlers, **erasure.handlers, **dream.handlers, **mode.handlers}
    return Commands({**user.handlers, **about_memory, **jobs.handlers, **team.handlers})
