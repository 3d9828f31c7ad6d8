"""The database and the notes, opened for a command that needs neither model nor scheduler."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from gateway import home
from gateway.access import Access
from gateway.db.engine import connect, migrate
from gateway.db.leases import DatabaseLeases
from gateway.scopes import Scopes
from gateway.settings import Settings, load
from gateway.shell.starting import open_quietly
from memory.notes import Notes
from memory.paths import Homes
from memory.scan import Scanner
from memory.settings import MemoryEnv

Result = TypeVar("Result")
_ALL_NOTES = 100_000  # this bounds a scan of a folder gone wild


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Store:
    """What can be looked at and set without the gateway's SDKs, which take seconds to import.

    `notes` are for reading; a scope's `enabled` says nothing here, as what is remembered may be looked at either way.
    """

    settings: Settings
    access: Access
    scopes: Scopes
    notes: Notes
    scanner: Scanner


def with_store(work: Callable[[Store], Awaitable[Result]]) -> Result:
    """Do this with the store open; raises `StartRefused` if it can't be opened."""

    async def go() -> Result:
        async with _store() as store:
            return await work(store)

    return asyncio.run(go())


@asynccontextmanager
async def _store() -> AsyncIterator[Store]:
    settings = load()
    open_quietly(settings)
    home.prepare(settings.home)
    database = connect(settings.database)
    try:
        await migrate(database)
        access = Access(database, settings, _utc_now)
        override = MemoryEnv.read(os.environ).path_override
        homes = Homes(
            root=settings.memory_base / "homes", settings=settings.memory, override=override, kept=settings.own_paths
        )
        yield Store(
            settings=settings,
            access=access,
            scopes=Scopes(settings, homes, access, database),
            notes=Notes(leases=DatabaseLeases(database, _utc_now), settings=settings.memory),
            scanner=Scanner(limit=_ALL_NOTES),
        )
    finally:
        await database.engine.dispose()
