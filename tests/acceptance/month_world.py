"""The world of a simulated month: its time, and the shortcuts that a time without threads and power cuts allows."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from unittest.mock import patch

from memory import disk


class FakeClock:
    """The time of the simulation, which goes on only when it is told to."""

    def __init__(self, start: datetime) -> None:
        self.now = start

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        """Let so much time go by."""
        self.now += timedelta(seconds=seconds)

    def to(self, moment: datetime) -> None:
        """Let the time go by up to a moment; one that has passed already changes nothing."""
        self.now = max(self.now, moment)


def aged_files(clock: FakeClock) -> Any:
    """Have the files that memory writes carry the fake time: freshness and erasure go by it."""
    replace, numbers = disk.Folder.replace, count()

    def aged(self: disk.Folder, name: str, data: bytes, *, unless: Callable[[], None] = lambda: None) -> int:
        replace(self, name, data, unless=unless)
        moment = round(clock.now.timestamp() * 1_000_000) * 1000 + next(numbers) % 1000
        os.utime(name, ns=(moment, moment), dir_fd=self._handle)
        return moment

    return patch.object(disk.Folder, "replace", aged)


def unsynced(connection: Any, _: object) -> None:
    """Have a connection to SQLite wait for no disk; a listener of SQLAlchemy's."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = OFF")
    cursor.close()


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Have the database and the disk answer at once, without threads, and without a sync as there is no power cut.

    Nothing else goes on meanwhile, so that both would only cost time.
    """

    class Line:
        def put_nowait(self, asked: tuple[asyncio.Future[Any] | None, Callable[[], Any]]) -> None:
            future, act = asked
            try:
                found = act()
            except Exception as error:  # noqa: BLE001  (whoever asked gets it)
                if future is not None:
                    future.set_exception(error)
            else:
                if future is not None:
                    future.set_result(found)

    class NoThread:
        def __init__(self, **_: object) -> None:
            self.daemon = True

        def start(self) -> None:
            """Do nothing."""

    async def run_sync(act: Callable[..., Any], *arguments: object, **_: object) -> Any:
        return act(*arguments)

    async def straight(work: Awaitable[Any]) -> Any:
        return await work

    with (
        patch("gateway.db.sqlite._to_the_end", straight),
        patch("aiosqlite.core.SimpleQueue", Line),
        patch("aiosqlite.core.Thread", NoThread),
        patch("anyio.to_thread.run_sync", run_sync),
        patch("os.fsync"),
    ):
        yield
