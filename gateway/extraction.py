"""Extraction, durably: what is due is a row committed with its turn; whoever runs takes it up, also after a restart."""

import asyncio
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import structlog
from sqlalchemy.exc import DBAPIError

from adapters.base import Account, Address
from adapters.waiting import happens
from gateway.agent.fork import Equipment
from gateway.agent.prompt import shows_former_team
from gateway.extraction_runs import ExtractionRuns
from gateway.history import Due, History, Session
from gateway.notices import Notices
from gateway.provenance import Provenance
from gateway.scopes import Scopes
from gateway.team_writes import TeamWrites
from memory.errors import LeaseLost
from memory.extract import Pending, Verdict, decide, extract
from memory.lease_names import extracting
from memory.ports import UNMETERED, Clock, Fork, Leases, Meter
from memory.provenance import Erased
from memory.scan import Scans
from memory.scope import Scope
from memory.settings import MemorySettings

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 1.0
_LEASE_SECONDS = 30.0
_BUSY_SECONDS = 1.0  # another session's run is in progress for the same memory directory
_ATTEMPTS = 20  # half a day with these pauses; then the messages wait for the session's next turn
_BACKOFF_SECONDS = 5.0
_LONGEST_BACKOFF = 3600.0


class Forks(Protocol):
    """What extraction asks of `gateway.agent.fork.Runs`."""

    def fork_of(self, session: Session, scope: Scope, equipment: Equipment) -> Fork:
        """Return the fork that extends this session's last request, and works with this equipment."""


class Extractions:
    """Runs the extractions that are due, one at a time per memory directory."""

    def __init__(
        self,
        *,
        history: History,
        provenance: Provenance,
        scopes: Scopes,
        runs: Forks,
        scanner: Scans,
        settings: MemorySettings,
        leases: Leases,
        notices: Notices,
        clock: Clock,
        concurrency: int,
        owners: Collection[Account] = (),
        team_writes: TeamWrites | None = None,
        meter: Meter = UNMETERED,
    ) -> None:
        self._history = history
        self._provenance = provenance
        self._scopes = scopes
        self._runs = runs
        self._scanner = scanner
        self._settings = settings
        self._leases = leases
        self._notices = notices
        self._clock = clock
        self._team_writes = team_writes
        self._prepared = ExtractionRuns(provenance=provenance, owners=owners, team_writes=team_writes)
        self._meter = meter
        self._free = asyncio.Semaphore(concurrency)
        self._under_way: set[int] = set()
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Begin what is due, then no more; `run` returns when that has ended."""
        self._closing.set()

    async def run(self) -> None:
        """Look for due extractions and run them until `close`, after a last look."""
        async with asyncio.TaskGroup() as group:
            closing = False
            while not closing:
                closing = self._closing.is_set()
                for session_id in await self._due():
                    if session_id not in self._under_way:
                        self._under_way.add(session_id)
                        group.create_task(self._one(session_id))
                await happens(self._closing, within=_LOOK_SECONDS)

    async def _due(self) -> Sequence[int]:
        try:
            return await self._history.due()
        except (DBAPIError, OSError):  # a database that is away comes back
            log.exception("extraction_look_failed")
            return ()

    async def _one(self, session_id: int) -> None:
        failing: Due | None = None
        try:
            async with self._free:
                with _edge(session_id):
                    found = await self._history.due_extraction(session_id)
                    if found is not None:
                        failing, session = found
                        await self._consider(failing, session)
                        failing = None
                with _edge(session_id):
                    if failing is not None:  # whatever it is, it must not be tried without a pause
                        self._meter.count("extractions", outcome="error")
                        await self._history.failed_due(failing, after=_backoff(failing))
        finally:
            self._under_way.discard(session_id)

    async def _consider(self, due: Due, session: Session) -> None:
        address = Address.parse(session.conversation)
        if await self._scopes.ignoring(address, session.principal):  # what is said there is never taken up, nor logged
            await self._history.close_due(due, move_cursor=True)
            return
        scope = await self._scopes.of(address, session.principal)
        bound_anew = (scope.principal, scope.project) != (session.principal, session.project)
        if bound_anew or shows_former_team(session.system, scope):
            # This is no longer its memory, or the transcript holds what may not be shown to it any more.
            await self._history.close_due(due, move_cursor=True)
            return
        pending = Pending(
            new_messages=due.new_messages,
            turns=due.turns,
            talks=due.talks,
            direct_writes=due.direct_writes,
            shown="\n".join(block["text"] for block in session.system),
            forced=due.forced,
        )
        decision = decide(scope, pending, self._settings)
        if decision.verdict is not Verdict.RUN:
            log.info("extraction_skipped", reason=decision.reason)
            self._meter.count("extraction_skips", reason=decision.reason)
            await self._skip(due, decision.verdict, decision.reason)
            return
        try:
            async with self._leases.hold(extracting(scope), seconds=_LEASE_SECONDS, wait=0.0):
                erased = partial(self._provenance.erased_since, scope, self._clock())
                still_due = await self._history.due_extraction(due.session_id)
                if await erased():  # whoever is forgetting something holds this lease, and so was killed at it
                    await self._history.postpone_due(due, after=_BUSY_SECONDS)
                elif still_due == (due, session):  # another replica may have been here, or another turn ended
                    await self._extract(scope, due, session, pending, erased)
        except LeaseLost:
            await self._history.postpone_due(due, after=_BUSY_SECONDS)

    async def _skip(self, due: Due, verdict: Verdict, reason: str) -> None:
        if verdict is Verdict.SKIP_MOVE_CURSOR:
            await self._history.close_due(due, move_cursor=True)
        elif reason == "throttled":
            await self._history.postpone_due(due, after=math.inf)
        else:
            await self._history.close_due(due, move_cursor=False)

    async def _extract(self, scope: Scope, due: Due, session: Session, pending: Pending, erased: Erased) -> None:
        run = await self._prepared.run(scope, due, session, pending, erased=erased)
        done = await extract(
            scope,
            run.pending,
            fork=self._runs.fork_of(session, scope, run.equipment),
            scanner=self._scanner,
            settings=self._settings,
            clock=self._clock,
            meter=self._meter,
        )
        coalesced = await self._history.turns_after(due)
        if coalesced:
            log.info("extraction_coalesced", turns=coalesced)
            self._meter.count("extraction_turns_coalesced", coalesced)
        await self._provenance.record(scope, run.witness, run.heard)
        if run.equipment.drafts is not None and self._team_writes is not None:
            await self._team_writes.ask_now(scope, session.conversation, run=run.name, key=f"team:{run.name}")
        if await erased():  # what the run was not allowed to note is looked at again, without what was forgotten
            await self._history.postpone_due(due, after=_BUSY_SECONDS)
        elif done.cursor_moves:
            await self._history.close_due(due, move_cursor=True)
        else:
            await self._history.failed_due(due, after=_backoff(due))
        if done.notice:
            await self._notices.tell(
                session.conversation, scope.principal, done.notice, key=f"saved:{due.session_id}:{due.upto}"
            )


@contextmanager
def _edge(session_id: int) -> Iterator[None]:
    """Log whatever goes wrong inside, and go on: the row is still there, and a later look tries again."""
    try:
        yield
    except Exception:  # edge: one session's extraction must not end those of the others
        log.exception("extraction_fault", session_id=session_id)


def _backoff(due: Due) -> float:
    if due.attempts + 1 >= _ATTEMPTS:
        return math.inf
    return min(_BACKOFF_SECONDS * 2.0**due.attempts, _LONGEST_BACKOFF)
