"""The display names of a workspace's people, looked up once and kept for a while."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import anyio

from adapters.errors import AdapterError


class People:
    """A bounded cache of names. At most one look-up runs per person; a failed one gives the id, kept briefly.

    `look_up` asks Slack for one user and raises `AdapterError`. Close with `aclose()`.
    """

    def __init__(
        self,
        look_up: Callable[[str], Awaitable[str]],
        *,
        keep: int = 2000,
        keep_for: float = 6 * 3600.0,
        keep_failure_for: float = 60.0,
    ) -> None:
        self._look_up = look_up
        self._keep, self._keep_for, self._keep_failure_for = keep, keep_for, keep_failure_for
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def names(self, users: Iterable[str], *, within: float) -> Mapping[str, str]:
        """Return a name for each user after at most `within` seconds; who is not known by then has the id."""
        users = list(users)
        asking = {self._ask(user) for user in users if self._current(user) is None}
        if asking:
            # Not cancelled when late: the answer serves the person's next message.
            await asyncio.wait(asking, timeout=within)
        return {user: self._current(user) or user for user in users}

    async def aclose(self) -> None:
        """Give up the look-ups that still run."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _current(self, user: str) -> str | None:
        name, until = self._known.get(user, ("", 0.0))
        return name if until > anyio.current_time() else None

    def _ask(self, user: str) -> asyncio.Task[None]:
        if user not in self._asking:
            task = asyncio.create_task(self._learn(user))
            self._asking[user] = task
            task.add_done_callback(lambda _: self._asking.pop(user, None))
        return self._asking[user]

    async def _learn(self, user: str) -> None:
        try:
            name, good_for = await self._look_up(user) or user, self._keep_for
        except AdapterError:
            name, good_for = user, self._keep_failure_for
        self._known[user] = (name, anyio.current_time() + good_for)
        self._known.move_to_end(user)
        while len(self._known) > self._keep:
            self._known.popitem(last=False)


def display_name(user: Mapping[str, Any]) -> str:
    """Return the name that Slack shows for a `users.info` user, empty if it has none."""
    profile = user.get("profile") or {}
    shown = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
    return next((str(name) for name in shown if name), "")
