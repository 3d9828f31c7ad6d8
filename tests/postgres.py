"""PostgreSQL databases for the tests: each test has one to itself, in which there is nothing but the tables."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import NullPool, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from gateway.db.engine import connect, migrate

sqlite_only = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""Marks a test that looks at what only SQLite has."""

_SHAPE = text(
    "SELECT concat(string_agg(relname, ' ' ORDER BY relname), (SELECT max(version_num) FROM alembic_version)) "
    "FROM pg_class WHERE relnamespace = 'public'::regnamespace"
)
_EMPTY = text("""
    DO $$ DECLARE name text; BEGIN
        SET LOCAL session_replication_role = replica;  -- in any order, whatever refers to it
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version' LOOP
            EXECUTE format('DELETE FROM %I', name);
        END LOOP;
        PERFORM setval(format('%I', sequencename)::regclass, 1, false) FROM pg_sequences WHERE last_value IS NOT NULL;
    END $$
""")


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A server with a migrated database that all others are copied from.

    Copying takes longer than most tests, so a database is emptied and used again, unless a test has changed its tables.
    """

    engine: AsyncEngine
    template: str
    shape: str
    _clean: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """Yield the URL of a migrated database."""
        name = self._clean.pop() if self._clean else await _made(self.engine, self.template)
        try:
            yield _url(self.engine, name)
        finally:
            if await self._emptied(name):
                self._clean.append(name)
            else:
                await _dropped(self.engine, name)

    @asynccontextmanager
    async def nothing(self) -> AsyncIterator[str]:
        """Yield the URL of a database without any table."""
        name = await _made(self.engine, "template0")
        try:
            yield _url(self.engine, name)
        finally:
            await _dropped(self.engine, name)

    async def close(self) -> None:
        for name in (*self._clean, self.template):
            await _dropped(self.engine, name)
        await self.engine.dispose()

    async def _emptied(self, name: str) -> bool:
        engine = create_async_engine(_url(self.engine, name), poolclass=NullPool)
        try:
            async with engine.begin() as connection:
                await connection.execute(text("SET LOCAL lock_timeout = '1s'"))
                if await connection.scalar(_SHAPE) != self.shape:
                    return False
                await connection.execute(_EMPTY)
        except DBAPIError:  # held by what the test has left open, or not allowed to this user
            return False
        return True


@asynccontextmanager
async def postgres_on(url: str) -> AsyncIterator[Postgres]:
    """Make the database that all others are copied from; `url` names any database on the server."""
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"), isolation_level="AUTOCOMMIT")
    template = await _made(engine, "template0")
    database = connect(_url(engine, template))
    await migrate(database)
    async with database.read() as session:
        shape: Any = await session.scalar(_SHAPE)
    await database.engine.dispose()  # a database that somebody uses can't be copied
    made = Postgres(engine=engine, template=template, shape=shape)
    try:
        yield made
    finally:
        await made.close()


async def _made(engine: AsyncEngine, template: str) -> str:
    name = f"reverie_test_{uuid4().hex}"
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    return name


async def _dropped(engine: AsyncEngine, name: str) -> None:
    async with engine.connect() as connection:
        await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


def _url(engine: AsyncEngine, name: str) -> str:
    return engine.url.set(database=name).render_as_string(hide_password=False)
