"""What Slack tells of people and channels, looked up once and kept for a while."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, TypeVar

import anyio

from adapters.errors import AdapterError

Value = TypeVar("Value")


class Lookups(Generic[Value]):
    """A bounded cache. At most one look-up runs per id; one that failed is not repeated for a while.

    `look_up` asks Slack for one id and raises `AdapterError`. Close with `aclose()`.
    """

    def __init__(
        self,
        look_up: Callable[[str], Awaitable[Value]],
        *,
        keep: int = 2000,
        keep_for: float = 6 * 3600.0,
        keep_failure_for: float = 60.0,
    ) -> None:
        self._look_up = look_up
        self._keep, self._keep_for, self._keep_failure_for = keep, keep_for, keep_failure_for
        self._known: OrderedDict[str, tuple[Value | None, float]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def get(self, ids: Iterable[str], *, within: float) -> Mapping[str, Value]:
        """Return what is known of each id after at most `within` seconds; what is not known by then is left out."""
        ids = list(ids)
        asking = {self._ask(each) for each in ids if not self._is_current(each)}
        if asking:
            # Not cancelled when late: the answer serves the next message.
            await asyncio.wait(asking, timeout=within)
        found = {each: self._known[each][0] for each in ids if self._is_current(each)}
        return {each: value for each, value in found.items() if value is not None}

    def forget(self, id_: str) -> None:
        """Ask anew the next time."""
        self._known.pop(id_, None)

    async def aclose(self) -> None:
        """Give up the look-ups that still run."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_current(self, id_: str) -> bool:
        return id_ in self._known and self._known[id_][1] > anyio.current_time()

    def _ask(self, id_: str) -> asyncio.Task[None]:
        if id_ not in self._asking:
            task = asyncio.create_task(self._learn(id_))
            self._asking[id_] = task
            task.add_done_callback(lambda _: self._asking.pop(id_, None))
        return self._asking[id_]

    async def _learn(self, id_: str) -> None:
        value: Value | None = None
        try:
            value, good_for = await self._look_up(id_), self._keep_for
        except AdapterError:
            good_for = self._keep_failure_for
        self._known[id_] = (value, anyio.current_time() + good_for)
        self._known.move_to_end(id_)
        while len(self._known) > self._keep:
            self._known.popitem(last=False)
