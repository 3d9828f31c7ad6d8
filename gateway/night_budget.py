"""The tokens of a night: what all dreams and distillations of the gateway may use between two midnights."""

from datetime import datetime, time
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, cast, func, select

from gateway.db.engine import Database
from gateway.db.models import UsageRow
from gateway.settings import Settings
from memory.ports import Clock

_PURPOSES = ("dream", "distil", "tidy")


class NightBudget:
    """A `memory.ports.Budget`: what is left of a run's tokens and of the night's, over all scopes and replicas.

    What a run has used is recorded with each answer of the model, so runs side by side overdraw it by one answer each.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._zone = ZoneInfo(settings.timezone)
        self._per_run = settings.memory.dream_tokens_per_run
        self._clock = clock
        self.per_night = settings.memory.dream_tokens_per_night

    async def __call__(self, spent: int) -> bool:
        """Return whether a run that has used `spent` tokens so far may go on."""
        return spent < self._per_run and await self.tonight() < self.per_night

    async def tonight(self) -> int:
        """Return how many tokens have been used since the last midnight."""
        today = self._clock().astimezone(self._zone).date()
        midnight = datetime.combine(today, time.min, tzinfo=self._zone)
        kinds = UsageRow.input_tokens, UsageRow.output_tokens, UsageRow.cache_read_tokens, UsageRow.cache_write_tokens
        total = cast(func.coalesce(func.sum(sum(kinds[1:], kinds[0])), 0), BigInteger)
        used = select(total).where(UsageRow.purpose.in_(_PURPOSES), UsageRow.at >= midnight.timestamp())
        async with self._database.read() as session:
            return int(await session.scalar(used) or 0)
