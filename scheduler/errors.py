"""What can go wrong in the scheduler.

SchedulerFault
├── UnknownJob    no job of this name is declared (carries the names that are)
├── UnknownScope  a job was to be run for a scope that it does not work for
├── NotRunning    the clock was asked for something before it was entered
├── NotReady      no slot may be claimed here now, for a reason that is not the job's
├── NotNow        somebody else is at a job's work; no failure, and its slot is looked at again at the next tick
├── RunLost       a run's lease ran out and another holder has taken it over
└── RunGivenUp    a run has cost all its holders their lives; it is recorded as failed and not tried again
"""

from collections.abc import Sequence


class SchedulerFault(Exception):
    """Base of everything the scheduler raises."""


class UnknownJob(SchedulerFault):
    """No job has this name; `known` lists those that there are."""

    def __init__(self, name: str, *, known: Sequence[str]) -> None:
        super().__init__(f"there is no job {name!r}; the jobs are {', '.join(known)}")
        self.known = tuple(known)


class UnknownScope(SchedulerFault):
    """The job works for no scope of this name."""

    def __init__(self, job: str, words: str) -> None:
        super().__init__(f"{job} works for no scope {words!r}; a dry run of it names those that it works for")


class NotRunning(SchedulerFault):
    """The clock is not running."""


class NotReady(SchedulerFault):
    """Nothing may be claimed here now; the message says why, and what helps."""


class NotNow(SchedulerFault):
    """Raised by a job that can't have its work, as somebody else is at it; tried again at the next tick."""


class RunLost(SchedulerFault):
    """The run's token is no longer the newest: what it would record is not recorded."""


class RunGivenUp(SchedulerFault):
    """As often as the slot may be tried, its holder died; raised once, by whoever finds that out and records it."""
