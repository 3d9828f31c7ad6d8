"""How often a chat is written to with what is only shown: edits, drafts, signs, marks."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from telegram.error import RetryAfter

from adapters.telegram.errors import seconds_to_wait

_MOST_CHATS = 2000
_AT_ONCE = 3
"""Turns that a chat may take at once, after it was quiet: so the first words come soon after their message."""

_SLACK = 1.2
"""So much further apart than they may be, or the turns at once would be too many within a minute."""


@dataclass(kw_only=True, slots=True)
class _Chat:
    """When a chat may be written to, in seconds of the event loop's clock."""

    closed_until: float = 0.0
    full_until: float = 0.0


class Pacing:
    """One line per chat, whatever its topics: a group takes 20 messages a minute, posts and edits of all of them.

    A 429 closes the line to all that is only shown, for as long as Telegram says. What is posted for good waits for
    nothing but Telegram's own word, and counts among the turns. `every` is in seconds.
    """

    def __init__(self, *, every: float) -> None:
        self._every = every * _SLACK
        self._chats: OrderedDict[int, _Chat] = OrderedDict()

    def closed_for(self, chat: int) -> float:
        """Return for how many seconds nothing is to be shown there."""
        return max(self._line(chat).closed_until - anyio.current_time(), 0.0)

    def turn(self, chat: int) -> float:
        """Take the next turn of a chat and return when it comes; they come in order."""
        line, now = self._line(chat), anyio.current_time()
        at = max(line.full_until - (_AT_ONCE - 1) * self._every, now)
        line.full_until = max(line.full_until, now) + self._every
        return at

    @contextmanager
    def heeding(self, chat: int) -> Iterator[None]:
        """Ask something of a chat; a 429 closes its line, and is raised."""
        try:
            yield
        except RetryAfter as error:
            self._line(chat).closed_until = anyio.current_time() + seconds_to_wait(error)
            raise

    def _line(self, chat: int) -> _Chat:
        line = self._chats.setdefault(chat, _Chat())
        self._chats.move_to_end(chat)
        while len(self._chats) > _MOST_CHATS:
            self._chats.popitem(last=False)
        return line
