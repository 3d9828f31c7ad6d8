"""The database: can it be reached, does it have our schema, can it be written, is it whole; whose root it lies in."""

import os
import sqlite3
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.checks.finding import Finding, fail, ok, refused, warn
from gateway.db.engine import Database, connect
from gateway.errors import StartRefused
from gateway.settings import Settings
from memory.paths import Homes, SharedDirectory
from memory.settings import MemoryEnv

_BUSY_MILLISECONDS = 5000  # a gateway that runs writes too, each time for a moment


async def check_database(settings: Settings) -> list[Finding]:
    """Look without changing anything; a SQLite file that is missing is not made."""
    try:
        database = connect(settings.database)
    except StartRefused as error:
        return refused("database", error)
    url = database.engine.url
    shown = url.render_as_string(hide_password=True)
    try:
        missing = _missing_file(url.database, settings.home) if database.is_sqlite else None
        return [missing or await _look(database, shown), *_roots(settings)]
    except (DBAPIError, sqlite3.Error, OSError) as error:
        reason = str(getattr(error, "orig", None) or error or type(error).__name__).splitlines()[0]
        return [fail("database", f"{shown} can't be used: {reason}", _CURE)]
    finally:
        await database.engine.dispose()


_CURE = "Check that it runs and may be written, and DATABASE_URL; if a file is damaged, restore a backup."


def _missing_file(name: str | None, home: Path) -> Finding | None:
    file = Path(name or ":memory:")
    if name in {None, "", ":memory:"} or file.exists():
        return None
    if file.parent.exists() and not file.parent.is_dir():
        cure = "Set REVERIE_HOME to a folder." if file.parent == home else "Mend DATABASE_URL."
        return fail("database", f"{file} can't be made: {file.parent} is not a folder", cure)
    return ok("database", f"{file} does not exist yet; the first start makes it")


def _roots(settings: Settings) -> Iterator[Finding]:
    """Name each project whose root holds something of the gateway's own, and what comes of it."""
    override = MemoryEnv.read(os.environ).path_override
    base = settings.memory_base / "homes"
    try:
        homes = Homes(base, settings=settings.memory, override=override, kept=settings.own_paths)
    except SharedDirectory:  # the gateway does not start, and says so
        return
    for name, root in ((name, project.root) for name, project in settings.projects.items() if project.root):
        store = homes.overlapping(root)
        if store is not None:
            said = f"the root of {name}, {root}, and {store}, which is the gateway's own, lie in one another"
            yield warn("project root", f"{said}: the root counts as none", "Move one of them out of the other.")
            continue
        if not root.is_dir():
            said = f"the root of {name}, {root}, is no folder here, so nothing in it holds"
            yield warn("project root", said, f"Make it, or mend root in [projects.{name}].")
        for file in homes.closed_below(root):
            said = f"{file} lies in the root of {name}: nobody's tools read it or what is called like it"
            yield warn("project root", said, "Better put it elsewhere, for instance into the home.")


async def _look(database: Database, shown: str) -> Finding:
    async with database.engine.connect() as plain:
        reader = await plain.execution_options(reading=True)
        if database.is_sqlite:
            await reader.execute(text(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}"))
            faults = (await reader.execute(text("PRAGMA quick_check(1)"))).scalars().all()
            if list(faults) != ["ok"]:
                return fail("database", f"{shown} is damaged: {faults[0]}", "Stop the gateway and restore a backup.")
        present = await reader.run_sync(_revision)
        await reader.rollback()
        if not await _writable(reader, database):
            return fail("database", f"{shown} is read-only", "Point DATABASE_URL at the primary server.")
    return _schema(present, shown)


async def _writable(connection: AsyncConnection, database: Database) -> bool:
    """Take SQLite's write lock and let it go, or ask PostgreSQL."""
    writer = await connection.execution_options(reading=False)
    asked = "SELECT 'off'" if database.is_sqlite else "SHOW transaction_read_only"
    answer = (await writer.execute(text(asked))).scalar()
    await writer.rollback()
    return answer == "off"


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _schema(present: str | None, shown: str) -> Finding:
    known = ScriptDirectory(str(files("gateway.db") / "migrations"))
    if present is None:
        return ok("database", f"{shown} answers, and has no tables yet; the first start makes them")
    try:
        known.get_revision(present)
    except CommandError:
        cure = "Install the newer version again, or restore a backup made before the upgrade."
        return fail("database", f"{shown} has schema {present}, which is newer than this Reverie knows", cure)
    behind = "" if present == known.get_current_head() else "; the next start brings it up to date"
    return ok("database", f"{shown} answers, may be written, has schema {present}{behind}")
