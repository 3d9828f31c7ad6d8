"""What SQLite needs to be a database for many tasks: durable, checked, and never left locked by a cancelled one."""

import asyncio
import sqlite3
from collections.abc import Awaitable
from functools import partial
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy import URL, Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

_BUSY_SECONDS = 30.0  # how long a writer waits for one in another process, such as `reverie access`
Result = TypeVar("Result")


def sqlite_engine(url: URL) -> AsyncEngine:
    """Make an engine whose transactions begin as writers, unless their connection has the option `reading`."""
    # Errors must not quote what people wrote: they go to the log.
    arguments = {"timeout": _BUSY_SECONDS, "async_creator_fn": _connection}
    engine = create_async_engine(url, hide_parameters=True, connect_args=arguments)

    @event.listens_for(engine.sync_engine, "connect")
    def _pragmas(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions are ours: the driver would begin them too late
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")  # what was acknowledged to a platform survives a power cut
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer that begins as a reader can find itself behind another process's and fail; so it says so at once.
        reading = connection.get_execution_options().get("reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


class _Connection(aiosqlite.Connection):
    """A connection that a cancelled task can't leave with its transaction open, so that all others find it locked.

    A cancelled task waits until the thread has done what it was asked: a second cancellation may not cut the rollback
    off. And what is closed is rolled back first: SQLite keeps a closed file's transaction while a cursor is alive.
    """

    async def _execute(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        return await _to_the_end(super()._execute(fn, *args, **kwargs))  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        stopped = self.stop()
        if stopped is not None:
            await _to_the_end(stopped)

    def stop(self) -> "asyncio.Future[Any] | None":
        if not self._running:  # asked twice, the thread would never answer
            return None
        if self._connection is not None:
            self._tx.put_nowait((None, self._connection.rollback))
        return super().stop()


def _connection(*args: Any, **kwargs: Any) -> _Connection:
    connection = _Connection(partial(sqlite3.connect, *args, **kwargs), iter_chunk_size=64)
    connection._thread.daemon = True
    return connection


async def _to_the_end(work: Awaitable[Result]) -> Result:
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not complain of it
    raise cancelled
