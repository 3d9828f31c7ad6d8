"""One database: engine, sessions for reading and writing, and the schema's version."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, func, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from gateway.db.sqlite import sqlite_engine
from gateway.errors import StartRefused
from memory.ports import Clock

_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x52455645524945  # "REVERIE": PostgreSQL's number for the lock under which one replica migrates


class Database:
    """Sessions on one engine. Write transactions are short, and on SQLite one at a time."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        # SQLite lets its waiting writers poll, unfairly, each on a connection of its own: with 32 writers the slowest
        # waits twenty times as long and readers find no connection. In one process they stand in line instead.
        self._turn: AbstractAsyncContextManager[object] = asyncio.Lock() if self.is_sqlite else nullcontext()

    @property
    def is_sqlite(self) -> bool:
        """Whether this is the one-machine database."""
        return self.engine.dialect.name == "sqlite"

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction for writing; commits when left, rolls back on an error. Must not be nested.

        A task that is cancelled while it commits can't know whether it has.
        """
        async with self._turn, AsyncSession(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """Open a consistent view for reading; on SQLite it never waits for a writer."""
        async with self.engine.connect() as connection:
            reading = await connection.execution_options(**self._reading)
            async with AsyncSession(reading, expire_on_commit=False) as session:
                yield session

    @property
    def _reading(self) -> dict[str, Any]:
        return {"reading": True} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}


_CLOCKS_APART = timedelta(seconds=5)
"""How far clocks may be apart: leases, which each replica reads by its own, are of thirty seconds and more."""
_NONE = timedelta()


def machine_clock() -> datetime:
    """Return the moment by this machine's own clock."""
    return datetime.now(UTC)


class DatabaseClock:
    """Compares a clock with that of the database, which all replicas share; on one machine there is nothing to do."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def apart(self) -> str:
        """Say that the clocks are too far apart for leases to hold, and the cure; "" if they are not.

        The way to the database and back is not counted.
        """
        if self._database.is_sqlite:
            return ""
        async with self._database.read() as session:
            await session.connection()
            before = self._clock()
            shown: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
            after = self._clock()
        ahead, behind = max(before - shown, _NONE), max(shown - after, _NONE)
        if max(ahead, behind) <= _CLOCKS_APART:
            return ""
        side = "ahead of" if ahead else "behind"
        return (
            f"The clock of this machine is {max(ahead, behind).total_seconds():.0f} s {side} the database's, so that "
            "two replicas could do the same work. Set the clocks of both machines by NTP (timedatectl set-ntp true)."
        )


_FORMS = (
    "Write sqlite+aiosqlite:///path/to/file.db or postgresql+asyncpg://host/name, "
    "with the user, a colon, the password and an @ before the host."  # as an example it would be redacted as a secret
)


def connect(url: str) -> Database:
    """Make the engine; raises `StartRefused` if the URL is of no kind that we know. Nothing is opened yet."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # its text may hold the password
        raise StartRefused("DATABASE_URL is no database URL", cure=_FORMS) from error
    return Database(_engine(parsed))


def _engine(url: URL) -> AsyncEngine:
    if url.drivername == "sqlite+aiosqlite" and url.database and url.database != ":memory:":
        return sqlite_engine(url)
    if url.drivername == "postgresql+asyncpg":
        # Four replicas together stay under the hundred connections that a server allows by default.
        return create_async_engine(url, hide_parameters=True, pool_size=10, max_overflow=10, pool_pre_ping=True)
    if url.drivername == "sqlite+aiosqlite":
        raise StartRefused("DATABASE_URL names no file: a database in memory would forget everything", cure=_FORMS)
    raise StartRefused(f"DATABASE_URL starts with {url.drivername}://, which Reverie can't use", cure=_FORMS)


async def migrate(database: Database) -> None:
    """Bring the schema to this version; raises `StartRefused` if it can't be reached or is newer than this program."""
    try:
        if database.is_sqlite:
            _make_private(Path(database.engine.url.database or ""))
        async with database.engine.begin() as connection:
            await connection.run_sync(_upgrade)
    except (DBAPIError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        reason = next(iter(str(cause).splitlines()), "") or type(cause).__name__
        raise StartRefused(
            f"The database at {database.engine.url.render_as_string(hide_password=True)} can't be used: {reason}",
            cure="Check that it exists, can be written, and that DATABASE_URL is right.",
        ) from error


def _make_private(file: Path) -> None:
    file.touch(mode=0o600)  # SQLite itself would let others read it


def alembic_config(connection: Connection) -> Config:
    """Return what Alembic's commands need to work on this connection."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
    config = alembic_config(connection)
    present = _revision(connection)
    known = ScriptDirectory.from_config(config)
    try:
        if present is not None:
            known.get_revision(present)
    except CommandError as error:
        raise StartRefused(
            f"The database has schema version {present}, which is newer than this Reverie knows",
            cure="Install the newer version again, or restore a backup made before the upgrade. Nothing was changed.",
        ) from error
    if present != known.get_current_head():
        command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
