"""One row per (job, scope, slot): whoever inserts it runs it, on any number of replicas."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    and_,
    case,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from memory.columns import UtcDateTime
from memory.ports import Clock
from memory.transactions import Transactions
from scheduler.errors import RunGivenUp, RunLost

metadata = MetaData()

BY_HAND = " by hand "
"""Stands in the slots of runs that somebody asked for, before the moment of that; no tick ever finds such a slot."""

_runs = Table(
    "job_runs",
    metadata,
    Column("job", String, primary_key=True),
    Column("scope", String, primary_key=True),
    Column("slot", String, primary_key=True),
    Column("token", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("holder", String, nullable=False),
    Column("lease_until", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("outcome", String),  # NULL: running
    Column("detail", String, nullable=False),
    Index("job_runs_by_time", "job", "started_at"),
)


class Outcome(StrEnum):
    """How a run ended."""

    DONE = "done"
    FAILED = "failed"
    MISSED = "missed"
    """Not run: the slot's time had passed by more than the job's grace."""
    BUSY = "busy"
    """Not run yet, as somebody else was at the work; the slot is taken up again at the next tick that finds it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A slot that this holder has to itself until its lease runs out; `token` only grows, per slot."""

    job: str
    scope: str
    slot: str
    token: int


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRun:
    """The record of a slot; `outcome` is None while it runs, and `detail` then says how far it is."""

    job: str
    scope: str
    slot: str
    token: int
    attempts: int
    holder: str
    lease_until: datetime
    started_at: datetime
    finished_at: datetime | None
    outcome: Outcome | None
    detail: str

    @property
    def by_hand(self) -> bool:
        """Whether somebody asked for it."""
        return BY_HAND in self.slot

    def stopped(self, now: datetime) -> bool:
        """Return whether it has no end though its holder is gone: its lease has run out."""
        return self.outcome is None and self.lease_until < now


class Runs:
    """The table of runs. `holder` names this process; every method is a transaction or two of its own."""

    def __init__(self, database: Transactions, *, clock: Clock, holder: str) -> None:
        self._database = database
        self._clock = clock
        self._holder = holder

    async def claim(
        self, job: str, scope: str, slot: str, *, lease: timedelta, attempts: int, pause: timedelta = timedelta()
    ) -> Run | None:
        """Take the slot, or return None if another holder has it, it rests or it is settled.

        A slot whose holder let its lease run out, or whose run failed, is taken over with a greater token,
        until it has been tried `attempts` times; after a failure it rests for `pause`, each time twice as long.
        A lease that lies further ahead than two such is void: the clock was ahead when it was taken.
        One that was put off is taken over at once.
        Raises `RunGivenUp`, once, when it finds that the last of them died over it.
        """
        if await self._insert(job, scope, slot, until=self._clock() + lease, outcome=None, detail=""):
            return Run(job=job, scope=scope, slot=slot, token=1)
        return await self._take_over(job, scope, slot, lease=lease, attempts=attempts, pause=pause)

    async def renew(self, run: Run, *, lease: timedelta, note: str = "") -> None:
        """Put the end of the lease further off and note how far the run is.

        Raises `RunLost` if another holder took the slot over.
        """
        await self._change(run, lease_until=self._clock() + lease, detail=note)

    async def release(self, run: Run) -> None:
        """Give an unfinished run back, so that it is taken over at once and not counted as an attempt."""
        await self._change(run, lease_until=self._clock() - timedelta(microseconds=1), attempts=_runs.c.attempts - 1)

    async def finish(self, run: Run, outcome: Outcome, detail: str) -> None:
        """Record the end of a run; raises `RunLost` if another holder took the slot over."""
        await self._change(run, outcome=outcome.value, detail=detail, finished_at=self._clock())

    async def put_off(self, run: Run, detail: str) -> None:
        """Record why a run came to nothing without having failed: it is no attempt; raises `RunLost`."""
        ended = {"outcome": Outcome.BUSY.value, "detail": detail, "finished_at": self._clock()}
        await self._change(run, **ended, attempts=_runs.c.attempts - 1)

    async def without_end(self) -> Sequence[JobRun]:
        """Return the runs that have no outcome, of whichever job; looks at every row, so it is for the start."""
        return await self._select(select(_runs).where(_runs.c.outcome.is_(None)))

    async def without_end_since(self, moment: datetime, jobs: Collection[str]) -> Sequence[JobRun]:
        """Return the runs of these jobs that have no outcome, of those that began since then."""
        begun = _runs.c.job.in_(jobs), _runs.c.started_at >= moment
        return await self._select(select(_runs).where(*begun, _runs.c.outcome.is_(None)))

    async def cut_off(self, run: JobRun, detail: str) -> bool:
        """Record that a run has failed whose holder let its lease run out; false if something has become of it.

        It ended when its lease did, at the latest, and counts as an attempt.
        """
        now = self._clock()
        abandoned = _runs.c.token == run.token, _runs.c.outcome.is_(None), _runs.c.lease_until < now
        ended = update(_runs).where(_slot(run.job, run.scope, run.slot), *abandoned).returning(_runs.c.token)
        values = {"outcome": Outcome.FAILED.value, "detail": detail, "finished_at": min(run.lease_until, now)}
        async with self._database.write() as session:
            return await session.scalar(ended.values(**values, attempts=max(run.attempts, 1))) is not None

    async def last_slot(self, job: str, scope: str, *, before: str) -> str | None:
        """Return the last slot before this one of which there is a record, without those by hand.

        Right for slots that sort as they follow one another; costs the same however many there are.
        """
        mine = _runs.c.job == job, _runs.c.scope == scope, _runs.c.slot < before
        query = select(_runs.c.slot).where(*mine, ~_runs.c.slot.contains(BY_HAND))
        async with self._database.read() as session:
            return await session.scalar(query.order_by(_runs.c.slot.desc()).limit(1))

    async def last_missed(self, job: str, *, since: datetime) -> JobRun | None:
        """Return the last record of slots of a job that were missed, of those that were made since then."""
        missed = _runs.c.job == job, _runs.c.started_at >= since, _runs.c.outcome == Outcome.MISSED.value
        found = await self._select(select(_runs).where(*missed).order_by(_runs.c.started_at.desc()).limit(1))
        return found[0] if found else None

    async def record(self, job: str, scope: str, slot: str, outcome: Outcome, *, detail: str) -> bool:
        """Record the end of a slot that was never run; returns false if it has a row already."""
        return await self._insert(job, scope, slot, until=self._clock(), outcome=outcome, detail=detail)

    async def recover(self, job: str, scope: str, *, slots: str) -> None:
        """Record that what failed in the slots that begin with `slots` has come right since."""
        here = _runs.c.job == job, _runs.c.scope == scope, _runs.c.slot.startswith(slots, autoescape=True)
        failed = update(_runs).where(*here, _runs.c.outcome == Outcome.FAILED.value)
        async with self._database.write() as session:
            await session.execute(failed.values(outcome=Outcome.DONE.value, detail="right again; " + _runs.c.detail))

    async def find(self, job: str, scope: str, slot: str) -> JobRun | None:
        """Return the record of a slot."""
        found = await self._select(select(_runs).where(_slot(job, scope, slot)))
        return found[0] if found else None

    async def outcomes(self, job: str, *, since: datetime) -> Mapping[tuple[str, str], Outcome | None]:
        """Return the outcome of each (scope, slot) that was begun since then; None where it has none yet."""
        begun = _runs.c.job == job, _runs.c.started_at >= since
        query = select(_runs.c.scope, _runs.c.slot, _runs.c.outcome).where(*begun)
        async with self._database.read() as session:
            rows = (await session.execute(query)).all()
        return {(row.scope, row.slot): _outcome(row.outcome) for row in rows}

    async def recent(self, job: str | None = None, *, limit: int = 20) -> Sequence[JobRun]:
        """Return the latest runs, newest first, of one job or of all."""
        query = select(_runs).order_by(_runs.c.started_at.desc(), _runs.c.slot.desc()).limit(limit)
        return await self._select(query if job is None else query.where(_runs.c.job == job))

    async def last_of_scopes(self, job: str, *, limit: int, offset: int = 0) -> Sequence[JobRun]:
        """Return the last run of each scope: those that failed first, then those that run, then the newest."""
        place = func.row_number().over(
            partition_by=_runs.c.scope, order_by=(_runs.c.started_at.desc(), _runs.c.slot.desc())
        )
        placed = select(_runs, place.label("place")).where(_runs.c.job == job).subquery()
        rank = case((placed.c.outcome == Outcome.FAILED.value, 0), (placed.c.outcome.is_(None), 1), else_=2)
        order = rank, placed.c.started_at.desc(), placed.c.scope
        return await self._select(
            select(placed).where(placed.c.place == 1).order_by(*order).limit(limit).offset(offset)
        )

    async def _select(self, query: Select[Any]) -> list[JobRun]:
        async with self._database.read() as session:
            rows = (await session.execute(query)).all()
        return [
            JobRun(
                job=row.job,
                scope=row.scope,
                slot=row.slot,
                token=row.token,
                attempts=row.attempts,
                holder=row.holder,
                lease_until=row.lease_until,
                started_at=row.started_at,
                finished_at=row.finished_at,
                outcome=_outcome(row.outcome),
                detail=row.detail,
            )
            for row in rows
        ]

    async def prune(self, before: datetime) -> int:
        """Delete the rows of runs that ended, or whose holder died, before the moment, and return how many."""
        async with self._database.write() as session:
            connection = await session.connection()
            return (await connection.execute(delete(_runs).where(_over(before)))).rowcount

    async def count(self, before: datetime) -> int:
        """Return how many rows `prune` would delete."""
        ended = select(func.count()).select_from(_runs).where(_over(before))
        async with self._database.read() as session:
            return await session.scalar(ended) or 0

    async def _insert(
        self, job: str, scope: str, slot: str, *, until: datetime, outcome: Outcome | None, detail: str
    ) -> bool:
        now = self._clock()
        row = insert(_runs).values(
            job=job,
            scope=scope,
            slot=slot,
            token=1,
            attempts=1,
            holder=self._holder,
            lease_until=until,
            started_at=now,
            finished_at=None if outcome is None else now,
            outcome=None if outcome is None else outcome.value,
            detail=detail,
        )
        try:
            async with self._database.write() as session:
                await session.execute(row)
        except IntegrityError:
            return False
        return True

    async def _take_over(
        self, job: str, scope: str, slot: str, *, lease: timedelta, attempts: int, pause: timedelta
    ) -> Run | None:
        now = self._clock()
        void = or_(_runs.c.lease_until < now, _runs.c.lease_until > now + 2 * lease)
        abandoned = and_(_runs.c.outcome.is_(None), void)
        failed = and_(_runs.c.outcome == Outcome.FAILED.value, _rested(pause, attempts=attempts, now=now))
        here = _slot(job, scope, slot)
        taken = (
            update(_runs)
            .where(here, or_(abandoned, failed, _runs.c.outcome == Outcome.BUSY.value), _runs.c.attempts < attempts)
            .values(
                token=_runs.c.token + 1,
                attempts=_runs.c.attempts + 1,
                holder=self._holder,
                lease_until=now + lease,
                started_at=now,
                finished_at=None,
                outcome=None,
                detail="",
            )
            .returning(_runs.c.token)
        )
        given_up = update(_runs).where(here, abandoned)
        detail = f"{attempts} holders of this run stopped without a word"
        async with self._database.write() as session:
            token = await session.scalar(taken)
            if token is not None:
                return Run(job=job, scope=scope, slot=slot, token=token)
            gone = given_up.values(outcome=Outcome.FAILED.value, detail=detail, finished_at=now)
            ended = await session.scalar(gone.returning(_runs.c.token))
        if ended is not None:
            raise RunGivenUp(detail)
        return None

    async def _change(self, run: Run, **values: object) -> None:
        own = and_(_slot(run.job, run.scope, run.slot), _runs.c.token == run.token, _runs.c.outcome.is_(None))
        async with self._database.write() as session:
            changed = await session.scalar(update(_runs).where(own).values(**values).returning(_runs.c.token))
        if changed is None:
            raise RunLost(f"the run of {run.job} for {run.slot} was taken over")


def _rested(pause: timedelta, *, attempts: int, now: datetime) -> ColumnElement[bool]:
    tried = range(1, attempts)
    return or_(
        false(), *(and_(_runs.c.attempts == n, _runs.c.finished_at <= now - pause * 2 ** (n - 1)) for n in tried)
    )


def _over(before: datetime) -> ColumnElement[bool]:
    return or_(_runs.c.finished_at < before, and_(_runs.c.outcome.is_(None), _runs.c.lease_until < before))


def _outcome(stored: str | None) -> Outcome | None:
    return None if stored is None else Outcome(stored)


def _slot(job: str, scope: str, slot: str) -> ColumnElement[bool]:
    return and_(_runs.c.job == job, _runs.c.scope == scope, _runs.c.slot == slot)
