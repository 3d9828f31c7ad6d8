"""The database: can it be reached, does it have our schema, can it be written, is it whole."""

import sqlite3
from importlib.resources import files
from pathlib import Path

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.checks.finding import Finding, fail, ok, refused
from gateway.db.engine import Database, connect
from gateway.errors import StartRefused
from gateway.settings import Settings

_BUSY_MILLISECONDS = 5000  # a gateway that runs writes too, each time for a moment


async def check_database(settings: Settings) -> list[Finding]:
    """Look without changing anything; a SQLite file that is missing is not made."""
    try:
        database = connect(settings.database)
    except StartRefused as error:
        return [refused("database", error)]
    url = database.engine.url
    shown = url.render_as_string(hide_password=True)
    try:
        missing = _missing_file(url.database) if database.is_sqlite else None
        return [missing or await _look(database, shown)]
    except (DBAPIError, sqlite3.Error, OSError) as error:
        reason = str(getattr(error, "orig", None) or error or type(error).__name__).splitlines()[0]
        return [fail("database", f"{shown} can't be used: {reason}", _CURE)]
    finally:
        await database.engine.dispose()


_CURE = "Check that it runs and may be written, and DATABASE_URL; if a file is damaged, restore a backup."


def _missing_file(name: str | None) -> Finding | None:
    file = Path(name or ":memory:")
    if name in {None, "", ":memory:"} or file.exists():
        return None
    if file.parent.exists() and not file.parent.is_dir():
        return fail("database", f"{file} can't be made: {file.parent} is not a folder", "Mend DATABASE_URL.")
    return ok("database", f"{file} does not exist yet; the first start makes it")


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
