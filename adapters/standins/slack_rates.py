"""The rates that the Slack stand-in grants: so many calls of a method in a channel, and 429 for more."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(kw_only=True, slots=True)
class Rate:
    """So many calls a second after a burst of so many, counted for each channel apart."""

    per_second: float
    burst: float
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait(self, channel: str, *, now: float) -> float:
        """Take one call; return 0 if it is granted, else after how many seconds the next one is."""
        left, since = self._left.get(channel, (self.burst, now))
        left = min(self.burst, left + (now - since) * self.per_second)
        granted = left >= 1.0
        self._left[channel] = (left - 1.0 if granted else left, now)
        return 0.0 if granted else (1.0 - left) / self.per_second


class Rates:
    """The rates by method; what has none is not limited."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._rates: dict[str, Rate] = {}

    def limit(self, method: str, *, per_second: float, burst: float) -> None:
        """Limit a method from now on."""
        self._rates[method] = Rate(per_second=per_second, burst=burst)

    def wait(self, method: str, channel: str) -> float:
        """Return 0 if a call is granted, else the seconds of its `Retry-After`."""
        rate = self._rates.get(method)
        return rate.wait(channel, now=self._now()) if rate else 0.0
