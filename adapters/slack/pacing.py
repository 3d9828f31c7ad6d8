"""How often a channel may be written to: what Slack has refused for now is not asked again before its time."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from adapters.errors import Transient

_MOST_LINES = 2000
_SLOWEST = 15.0  # seconds between two edits, however often Slack has refused
_FIRST_STEP = 0.5
_SOFTER, _FASTER = 2.0, 0.9


class Pacing:
    """One line for each method and channel, shared by all that is shown there at a time.

    Slack counts most methods by workspace and posts by channel, and tells neither count. A refusal closes the line for
    as long as Slack says, to everybody, and makes what is only shown meanwhile come half as often; each success makes
    it come a tenth oftener again. What is posted for good waits for nothing but Slack's own word.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, str], _Line] = OrderedDict()

    @contextmanager
    def turn(self, method: str, channel: str, *, every: float = 0.0) -> Iterator[None]:
        """Make one request, at the earliest `every` seconds after the last one of the line that had such a distance.

        Raises `Transient`, before anything is asked, while the line is closed.
        """
        line, now = self._line(method, channel), anyio.current_time()
        wait = max(line.closed_until, line.next_at if every else 0.0) - now
        if wait > 0:
            raise Transient(f"Slack wants {method} to wait", retry_after=wait)
        if every:
            line.next_at = now + max(every, line.every)
        try:
            yield
        except Transient as error:
            if error.retry_after is not None:
                line.closed_until = anyio.current_time() + error.retry_after
                line.every = min(max(every, line.every, _FIRST_STEP) * _SOFTER, _SLOWEST)
            raise
        line.every *= _FASTER

    def _line(self, method: str, channel: str) -> "_Line":
        line = self._lines.setdefault((method, channel), _Line())
        self._lines.move_to_end((method, channel))
        while len(self._lines) > _MOST_LINES:
            self._lines.popitem(last=False)
        return line


@dataclass(kw_only=True, slots=True)
class _Line:
    """When the next request may go out, in seconds of the event loop's clock, and how far apart they are to be."""

    closed_until: float = 0.0
    next_at: float = 0.0
    every: float = 0.0
