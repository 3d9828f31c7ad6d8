"""What can go wrong in the scheduler.

SchedulerFault
├── UnknownJob    no job of this name is declared (carries the names that are)
├── NotRunning    the clock was asked for something before it was entered
└── RunLost       a run's lease ran out and another holder has taken it over
"""

from collections.abc import Sequence


class SchedulerFault(Exception):
    """Base of everything the scheduler raises."""


class UnknownJob(SchedulerFault):
    """No job has this name; `known` lists those that there are."""

    def __init__(self, name: str, *, known: Sequence[str]) -> None:
        super().__init__(f"there is no job {name!r}; the jobs are {', '.join(known)}")
        self.known = tuple(known)


class NotRunning(SchedulerFault):
    """The clock is not running."""


class RunLost(SchedulerFault):
    """The run's token is no longer the newest: what it would record is not recorded."""
