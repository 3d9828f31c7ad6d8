"""Doubles of memory's ports that keep their guarantees, for tests and for one process without a database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memory.errors import LeaseLost
from memory.ports import Counted, Fence, Observed


class LocalFence:
    """A token of `LocalLeases`."""

    def __init__(self, leases: "LocalLeases", name: str, token: int) -> None:
        self.token = token
        self._leases = leases
        self._name = name

    async def check(self) -> None:
        """Raise `LeaseLost` unless this is the newest token of its name."""
        if self._leases.newest(self._name) != self.token:
            raise LeaseLost(f"the lease {self._name!r} was taken over")


class LocalLeases:
    """Leases inside one event loop: first come, first served; tokens only grow.

    A lease here never runs out by time, since its holder can't be lost without the process. `take_over` plays
    the other replica that found the lease run out.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._tokens: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, name: str, *, seconds: float, wait: float) -> AsyncIterator[Fence]:
        """Hold `name`; raises `LeaseLost` if it was not free within `wait` seconds."""
        if seconds <= 0 or wait < 0:
            raise ValueError("a lease lasts more than 0 seconds and is waited for 0 seconds or more")
        lock = self._locks.setdefault(name, asyncio.Lock())
        try:
            async with asyncio.timeout(wait):
                await lock.acquire()
        except TimeoutError:
            raise LeaseLost(f"the lease {name!r} was not free within {wait:g} s") from None
        try:
            yield LocalFence(self, name, self.take_over(name))
        finally:
            lock.release()

    def newest(self, name: str) -> int:
        """Return the newest token that was given out for `name`, 0 if none."""
        return self._tokens.get(name, 0)

    def take_over(self, name: str) -> int:
        """Give out the next token, which makes every earlier one stale."""
        self._tokens[name] = self.newest(name) + 1
        return self._tokens[name]

    def held(self, name: str) -> bool:
        """Return whether somebody holds `name` now."""
        return name in self._locks and self._locks[name].locked()


class RecordingMeter:
    """A `Meter` that keeps what it was told, in order: the figure, its labels' values and the number."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, dict[str, str], float]] = []
        self.observed: list[tuple[str, dict[str, str], float]] = []

    def count(self, what: Counted, number: float = 1, /, **labels: str) -> None:
        """Keep an addition to a counter."""
        self.counted.append((what, labels, number))

    def observe(self, what: Observed, value: float, /, **labels: str) -> None:
        """Keep a measurement."""
        self.observed.append((what, labels, value))

    def values(self, what: Counted | Observed) -> list[float]:
        """Return the numbers that one figure was told, in order."""
        return [number for name, _, number in [*self.counted, *self.observed] if name == what]
