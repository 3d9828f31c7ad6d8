"""The core: what the running gateway and the shell's commands share, made here once; memory and its database."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from adapters.base import Adapter
from gateway import home
from gateway.access import Access
from gateway.agent.fork import Runs
from gateway.db.engine import Database, connect, migrate
from gateway.db.leases import DatabaseLeases
from gateway.erasures import Erasures
from gateway.history import History
from gateway.llm import client as llm
from gateway.llm.kept_files import KeptFiles
from gateway.metrics import Metrics
from gateway.night import Night, open_night
from gateway.notices import Notices
from gateway.outbox import Outbox
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.staging import Staging
from gateway.usage import Usage
from memory.paths import Homes
from memory.ports import Clock
from memory.scan import Scanner
from memory.settings import MemoryEnv, enabled
from memory.team_notes import TeamNotes

_ALL_NOTES = 100_000  # recall applies the manifest's own limit; this bounds a scan of a folder gone wild


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
            root=settings.memory_base / "homes",
            settings=settings.memory,
            override=environ.get("REVERIE_MEMORY_PATH_OVERRIDE") or None,
            enabled=memory_on,
            kept=settings.own_paths,
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
        kept = KeptFiles(settings.memory_base / "homes", most_bytes=settings.attachments.request_bytes)
        async with llm.connect(settings.model, base_url=model_url, kept=kept) as model:
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
