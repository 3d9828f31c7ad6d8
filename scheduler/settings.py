"""The settings of the scheduler."""

import re
from datetime import time
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?\Z", re.ASCII)


def _shown_by_a_clock(given: object) -> object:
    """Pass on what a clock on the wall can show: pydantic also takes seconds of a day, and times with a zone."""
    if (isinstance(given, time) and given.tzinfo is None) or (isinstance(given, str) and _CLOCK.match(given)):
        return given
    raise ValueError(f'{given} is no time of day; write it as "22:00", in quotes and without a zone: it is local time')


LocalTime = Annotated[time, BeforeValidator(_shown_by_a_clock)]
"""A time of day in whatever zone each scope has."""


class SchedulerSettings(BaseModel):
    """When the jobs fire. Times are in the unit of their name, else in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start_delay: float = Field(default=5.0, ge=0)
    """How long after the start everything fires once, to take up what a downtime left."""
    heartbeat: float = Field(default=10.0, gt=0)
    """How often the clock proves that it is alive; three beats without one make it unhealthy."""
    lease: float = Field(default=120.0, gt=0)
    """How long a run that no longer renews its lease is waited for before another replica takes it over."""
    attempts: int = Field(default=3, ge=1)
    """How often a slot is tried: a dream that fails, so many times a day. Days that come after one whose close fails
    wait for so many tries; it is tried on, ever more seldom, as long as `close_day_back` says."""
    retry_minutes: float = Field(default=60.0, ge=0)
    """How long a dream or distillation that failed rests; after each further failure twice as long."""
    job_limit_minutes: float = Field(default=120.0, gt=0)
    """A run that takes longer is stopped and recorded as failed."""
    concurrency: int = Field(default=2, ge=1)
    """How many scopes a replica dreams or distils for at once, so that a night of many does not use up the model's
    rate limits and leave those who chat waiting; of each other job, for how many scopes it runs at once."""

    close_day_minutes: float = Field(default=5.0, gt=0)
    close_day_back: int = Field(default=7, ge=1, le=30)
    """How many days a close that was missed or has failed is caught up for; those before are recorded as missed."""
    distil_from: LocalTime = time(1)
    distil_until: LocalTime = time(5)
    """The local window of the distillation; outside of it a run that is due counts as late."""
    dream_minutes: float = Field(default=10.0, gt=0)
    quiet_from: LocalTime = time(22)
    quiet_until: LocalTime = time(7)
    """Between these local times of a scope no dream is begun unless by hand. A dream ends with a line in the chat,
    which at night would ring; one that falls due at night is begun in the early morning, when there is least talk to
    get in the way of. The same time twice: no quiet hours."""
    runs_kept_days: float = Field(default=90.0, gt=0)
