"""What model calls cost, in tokens, by purpose."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from sqlalchemy import BigInteger, ColumnElement, cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from gateway.db.engine import Database
from gateway.db.models import UsageRow
from gateway.llm.client import Model, Reply, Request, Tokens
from memory.ports import Clock


class Usage:
    """The record of calls."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def add(self, session: AsyncSession, *, principal: str, purpose: str, model: str, tokens: Tokens) -> None:
        """Record calls inside the caller's transaction."""
        session.add(
            UsageRow(
                principal=principal,
                purpose=purpose,
                model=model,
                input_tokens=tokens.input,
                output_tokens=tokens.output,
                cache_read_tokens=tokens.cache_read,
                cache_write_tokens=tokens.cache_write,
                at=self._clock().timestamp(),
            )
        )

    async def record(self, *, principal: str, purpose: str, model: str, tokens: Tokens) -> None:
        """Record calls in a transaction of their own."""
        async with self._database.write() as session:
            self.add(session, principal=principal, purpose=purpose, model=model, tokens=tokens)

    async def since(self, principal: str, start: float) -> Mapping[str, Tokens]:
        """Return the tokens by purpose since `start` (Unix seconds)."""
        sums = (
            select(
                UsageRow.purpose,
                _sum(UsageRow.input_tokens),
                _sum(UsageRow.output_tokens),
                _sum(UsageRow.cache_read_tokens),
                _sum(UsageRow.cache_write_tokens),
            )
            .where(UsageRow.principal == principal, UsageRow.at >= start)
            .group_by(UsageRow.purpose)
        )
        async with self._database.read() as session:
            rows = (await session.execute(sums)).all()
        return {
            purpose: Tokens(input=into, output=out, cache_read=read, cache_write=write)
            for purpose, into, out, read, write in rows
        }


class Counted:
    """The model for one run; `tokens` are those of all its answers so far, also of one that broke off."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.tokens = Tokens()

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        """Ask the model."""
        async with aclosing(self._model.stream(request, broken_off=self._count)) as stream:
            async for event in stream:
                if isinstance(event, Reply):
                    self._count(event.tokens)
                yield event

    def _count(self, tokens: Tokens) -> None:
        self.tokens += tokens


def _sum(column: InstrumentedAttribute[int]) -> ColumnElement[int]:
    return cast(func.sum(column), BigInteger)  # PostgreSQL's own sum of these is no whole number, but a Decimal
