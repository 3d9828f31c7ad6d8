"""Every slot accounted for: those that nothing ran for are recorded as missed, and runs that were cut off end."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from memory.ports import Clock
from scheduler.execution import Execution
from scheduler.jobs import Due, Job, Policy
from scheduler.runs import JobRun, Runs

_APART = timedelta(minutes=5)
"""More than the clocks of replicas may differ, and than the record of a run takes to be stored."""

_NO_MORE = "this version has no job of that name, so nothing takes it up"

Key = tuple[str, str]
"""A job and a scope, or a scope and a slot."""


class Accounting:
    """Looks after the slots that nobody sees to any more. `in_hand` has those that firings of this process are at."""

    def __init__(
        self,
        jobs: Mapping[str, Job],
        *,
        runs: Runs,
        execution: Execution,
        clock: Clock,
        in_hand: Mapping[Key, Collection[str]],
    ) -> None:
        self._jobs = jobs
        self._runs = runs
        self._execution = execution
        self._clock = clock
        self._in_hand = in_hand
        self._open: dict[str, Collection[str]] = {}
        self._noted: dict[Key, str] = {}
        self._turned_away: dict[Key, set[str]] = {}
        self._since: datetime | None = None
        self._known: Collection[str] = ()
        """The declared jobs, and others that have runs without an end: those of a former version, or a newer one."""

    def turn_away(self, job: Job, dues: Sequence[Due]) -> None:
        """Remember that slots of one scope found an earlier firing still at it; only a job that skips loses them."""
        if job.policy is Policy.SKIP:
            key = job.id, dues[0].scope_key
            self._turned_away.setdefault(key, set()).update({due.slot for due in dues} - {*self._in_hand[key]})

    async def look(self, job: Job, found: Sequence[Due]) -> None:
        """Record what has become of slots that a firing of the job, which found these, does not see to."""
        if job.policy is Policy.SKIP:
            await self._note_passed(job, [due for due in found if not due.gate])
        await self._end_cut_off(job, {(due.scope_key, due.slot) for due in found})

    async def _note_passed(self, job: Job, dues: Sequence[Due]) -> None:
        """Note, of each scope, the slots that went by since its last; of one that had a gate meanwhile there are none.

        A slot is noted only once the next has come: till then another replica may run it.
        """
        before = self._open.get(job.id)
        self._open[job.id] = frozenset(due.scope_key for due in dues)
        for due in dues:
            known = self._noted.get((job.id, due.scope_key)) == due.slot
            if not known and (before is None or due.scope_key in before):
                await self._note_gap(job, due)

    async def _note_gap(self, job: Job, due: Due) -> None:
        key = job.id, due.scope_key
        last = await self._runs.last_slot(*key, before=due.slot)
        if last is not None and (passed := job.trigger.passed(_end_of(last), due.at)):
            first, end = passed
            if any(first.slot <= slot <= end.slot for slot in self._in_hand.get(key, ())):
                return  # it waits for its turn, and is looked at again when it has had that
            gap = replace(due, slot=first.slot if first == end else f"{first.slot} to {end.slot}", at=end.at)
            await self._execution.miss(job, gap, f"missed: {self._reason(job, key, first, end)}")
        self._noted[key] = due.slot
        if key in self._turned_away:
            self._turned_away[key] &= {due.slot}

    def _reason(self, job: Job, key: Key, first: Due, end: Due) -> str:
        count = (end.at - first.at) // job.trigger.period + 1
        away = {slot for slot in self._turned_away.get(key, ()) if first.slot <= slot <= end.slot}
        why = "an earlier run was still under way" if len(away) == count else "nothing ran"
        if count == 1:
            return f"{why} for 1 slot, {first.at:%Y-%m-%d %H:%M} UTC"
        return f"{why} for {count} slots, {first.at:%Y-%m-%d %H:%M} to {end.at:%Y-%m-%d %H:%M} UTC"

    async def _end_cut_off(self, looked: Job, found: Collection[Key]) -> None:
        """End the runs whose lease has run out and whose slot nothing will find again.

        Runs that have an end are not looked at again, so that it costs the same however many there are.
        """
        now = self._clock()
        left: list[JobRun] = []
        for run in await self._without_end():
            if run.stopped(now) and self._is_lost(run, looked, found):
                await self._execution.cut_off(run, note="" if run.job in self._jobs else _NO_MORE)
            else:
                left.append(run)
        self._since = min((run.started_at for run in left), default=now) - _APART
        self._known = {*self._jobs, *(run.job for run in left)}

    async def _without_end(self) -> Sequence[JobRun]:
        if self._since is None:
            return await self._runs.without_end()
        return await self._runs.without_end_since(self._since, self._known)

    def _is_lost(self, run: JobRun, looked: Job, found: Collection[Key]) -> bool:
        """Return whether no policy takes the run up again; where a finder says what is due, only it can tell."""
        job = self._jobs.get(run.job)
        if run.by_hand or job is None:
            return True
        if job is looked:
            return (run.scope, run.slot) not in found
        # Of what goes by the trigger alone the next tick has another slot, and this process has had its first.
        return job.finder is None and job.id in self._open


def _end_of(slot: str) -> datetime:
    """Return when a slot began, or the last one of those that were recorded together."""
    return datetime.fromisoformat(slot.rpartition(" to ")[2])
