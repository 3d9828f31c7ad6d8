"""The settings of the scheduler."""

from datetime import time

from pydantic import BaseModel, ConfigDict, Field


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
    """How often a slot is tried: a dream that fails, so many times a day."""
    retry_minutes: float = Field(default=60.0, ge=0)
    """How long a dream or distillation that failed rests; after each further failure twice as long."""
    job_limit_minutes: float = Field(default=120.0, gt=0)
    """A run that takes longer is stopped and recorded as failed."""
    concurrency: int = Field(default=2, ge=1)
    """How many scopes a replica dreams or distils for at once, so that a night of many does not use up the model's
    rate limits and leave those who chat waiting; of each other job, for how many scopes it runs at once."""

    close_day_minutes: float = Field(default=5.0, gt=0)
    close_day_back: int = Field(default=7, ge=1, le=30)
    """How many days a close that was missed is caught up for; those before are recorded as missed."""
    distil_from: time = time(1)
    distil_until: time = time(5)
    """The local window of the distillation; outside of it a run that is due counts as late."""
    dream_minutes: float = Field(default=10.0, gt=0)
    quiet_from: time = time(22)
    quiet_until: time = time(7)
    """Between these local times of a scope no dream is begun unless by hand. A dream ends with a line in the chat,
    which at night would ring; one that falls due at night is begun in the early morning, when there is least talk to
    get in the way of. The same time twice: no quiet hours."""
    runs_kept_days: float = Field(default=90.0, gt=0)
