"""Keeps a copy of a project's team memory in line with the server: pull, settle who wins, push.

A key that one side alone changed goes by that side. Where both did, the server's text stays under the name and the
local one is kept beside it; an index gets the lines of both. Nothing is pushed before one pull has succeeded.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path

import httpx
import structlog
from anyio import CancelScope, move_on_after

from memory.errors import LeaseLost
from memory.extract import writable
from memory.lease_names import exchanging
from memory.notes import Notes
from memory.ports import UNMETERED, Clock, Leases, Meter
from memory.scope import Scope
from memory.settings import MemorySettings
from memory.team.claim import claim
from memory.team.copy import Copy
from memory.team.errors import NoToken, SyncFailed
from memory.team.figures import tell_exchange, tell_start
from memory.team.forgotten import Forgotten, nothing_forgotten
from memory.team.local import Skip
from memory.team.remote import Fetched, Remote, Token
from memory.team.report import SyncReport
from memory.team.shared_pull import SharedPull
from memory.team.state import SyncState, SyncStates
from memory.team.taking import take
from memory.team.wire import BODY_BYTES, batches, name_batches

_log = structlog.get_logger(__name__)

_PULL_TRIES = 4
_PUSH_TRIES = 3
_FIRST_DELAY = 0.5
_LONGEST_DELAY = 32.0
_JITTER = 0.25
_PAUSE = timedelta(hours=24)

Removed = Callable[[Scope, Collection[str]], Awaitable[None]]
"""Told which notes, by their names in T, went or lost a fact in a scope: what was frozen of them is to end."""


async def told_nobody(scope: Scope, notes: Collection[str]) -> None:
    """Do nothing: for a host that freezes nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rest:
    """For which failure nothing of a copy is pushed, and until when at the latest."""

    failure: SyncFailed
    until: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class _Suppression:
    """Why pushes rest, and what has to be so that they go on resting."""

    failure: SyncFailed
    since: datetime
    credentials: bytes
    names: frozenset[str]


class TeamSync:
    """Brings copies in line with one server. One exchange per copy at a time, across processes.

    After a failure that would only repeat itself, pushes of that copy rest until a file is deleted, the token
    changes, the process restarts or 24 hours have passed.
    """

    def __init__(
        self,
        *,
        base_url: str,
        token: Token,
        http: httpx.AsyncClient,
        notes: Notes,
        states: SyncStates,
        leases: Leases,
        settings: MemorySettings,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        jitter: Callable[[], float],
        meter: Meter = UNMETERED,
        forgotten: Forgotten = nothing_forgotten,
        removed: Removed = told_nobody,
    ) -> None:
        """Take the parts; `jitter` returns a number in [0, 1); `removed` is called when a lease is held no more."""
        headers = {name: value.get_secret_value() for name, value in settings.team_headers.items()}
        self._remote = Remote(base_url, token=token, http=http, timeout=settings.team_timeout, headers=headers)
        self._notes = notes
        self._states = states
        self._leases = leases
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._meter = meter
        self._forgotten = forgotten
        self._removed = removed
        self._suppressed: dict[Path, _Suppression] = {}
        self._begun: set[Path] = set()
        self._maxima: dict[Path, tuple[int, datetime]] = {}

    async def sync(self, scope: Scope, *, shared: SharedPull | None = None) -> SyncReport:
        """Pull, then push. Raises `LeaseLost` if another process is at it; failures of the exchange are reported.

        Copies that are brought in line in one round are given the same `shared`, so that the server is asked once.
        """
        return await self._in_line(scope, partial(self._sync, shared=shared), direction="sync")

    async def pull(self, scope: Scope, *, within: float, shared: SharedPull | None = None) -> None:
        """Only pull, as a session begins, for at most so many seconds; what is missed is left to the next exchange.

        Never raises: no turn fails for what others have shared. `shared` is as in `sync`.
        """
        if scope.team_dir is None or not scope.repo:
            return
        try:
            with move_on_after(within) as limit:
                await self._in_line(scope, partial(self._pull, shared=shared), direction="pull")
            if limit.cancelled_caught:
                _log.warning("team_pull_late", project=scope.project)
        except (LeaseLost, OSError) as error:
            _log.warning("team_pull_failed", project=scope.project, cause=type(error).__name__)
        except Exception:  # noqa: BLE001  (the edge: the next exchange tries again)
            _log.exception("team_pull_failed", project=scope.project)

    async def push(self, scope: Scope, *, wait: float | None = None) -> SyncReport:
        """Only push, as after an edit; does nothing before the first pull.

        Raises `LeaseLost` if another exchange of this copy has not ended within `wait` seconds; None: the usual time.
        """
        return await self._in_line(scope, self._push, direction="push", wait=wait)

    def resting(self, scope: Scope) -> Rest | None:
        """Return why nothing of a scope's copy is pushed; None if it is. The next push may find that it is over."""
        found = self._suppressed.get(scope.memory_dir)
        if found is None or self._clock() - found.since >= _PAUSE:
            return None
        return Rest(failure=found.failure, until=found.since + _PAUSE)

    async def state(self, scope: Scope) -> SyncState:
        """Return where this scope's copy stands with the server, whichever exchange has brought it there."""
        return await self._states.get(scope.principal, scope.project)

    async def _in_line(
        self, scope: Scope, act: Callable[[Copy], Awaitable[None]], *, direction: str, wait: float | None = None
    ) -> SyncReport:
        if scope.team_dir is None or not scope.repo:
            raise ValueError("this scope has no team memory")
        report, began = SyncReport(), self._clock()
        wait = self._settings.lease_wait if wait is None else wait
        name, seconds = exchanging(scope), self._settings.lease_seconds
        try:
            async with self._leases.hold(name, seconds=seconds, wait=wait):
                began = self._clock()
                refused = await self._exchange(scope, scope.team_dir, act, report)
        finally:
            if report.lost:
                with CancelScope(shield=True):
                    await self._removed(scope, report.lost)
        tell_exchange(self._meter, report, direction, seconds=(self._clock() - began).total_seconds())
        report.still(refused)  # counted once, when it was found; told as long as it is so
        _log.info("team_synced", principal=scope.principal, project=scope.project, summary=report.summary())
        return report

    async def _exchange(
        self, scope: Scope, directory: Path, act: Callable[[Copy], Awaitable[None]], report: SyncReport
    ) -> Sequence[Skip]:
        """Carry it out on one copy; returns what of the server's is not taken, as far as that is known."""
        state = await self.state(scope)
        erases = scope.team_dir in writable(scope, self._settings)
        copy = Copy(
            scope,
            state,
            directory=directory,
            notes=self._notes,
            now=self._clock(),
            forgotten=self._forgotten,
            erases=erases,
            report=report,
            largest=self._settings.write_max_bytes,
        )
        try:
            await claim(copy, self._remote.address, notes=self._notes, leases=self._leases, settings=self._settings)
            await act(copy)
        except SyncFailed as failure:
            report.failure = failure
        finally:
            if copy.state != state:
                with CancelScope(shield=True):  # what was done is remembered, even while stopping
                    await self._states.put(scope.principal, scope.project, copy.state)
        return copy.state.refused

    async def _sync(self, copy: Copy, *, shared: SharedPull | None) -> None:
        await self._pull(copy, shared=shared)
        await self._push(copy)

    async def _pull(self, copy: Copy, *, shared: SharedPull | None = None) -> None:
        await copy.look()
        try:
            await take(copy, await (shared or SharedPull()).of(copy, self._fetched))
        except NoToken as failure:
            await self._rest(copy, failure)
            raise
        finally:
            if copy.scope.memory_dir not in self._begun:
                self._begun.add(copy.scope.memory_dir)
                tell_start(self._meter, copy)

    async def _fetched(self, copy: Copy) -> Fetched:
        known = copy.tag
        for tried in range(1, _PULL_TRIES):
            try:
                return await self._remote.fetch(copy.repo, known=known)
            except SyncFailed as failure:
                if not failure.passing:
                    raise
            delay = min(_FIRST_DELAY * 2 ** (tried - 1), _LONGEST_DELAY)
            await self._sleep(delay * (1 + _JITTER * self._jitter()))
        return await self._remote.fetch(copy.repo, known=known)

    async def _push(self, copy: Copy) -> None:
        await copy.look()
        if not copy.state.pulled:
            return
        copy.report.rests = await self._rests(copy)
        if copy.report.rests is not None:
            copy.to_push(self._maximum(copy))  # what can't travel anyway is told all the same
            self._meter.count("team_pushes_suppressed")
            return
        try:
            await self._push_all(copy)
        except SyncFailed as failure:
            if failure.maximum is not None:
                self._maxima[copy.scope.memory_dir] = failure.maximum, self._clock()
            if failure.permanent:
                await self._rest(copy, failure)
            raise

    def _maximum(self, copy: Copy) -> int | None:
        """Return how many entries the server takes: as set, or as it has said itself within the last day."""
        limits = [self._settings.team_max_entries]
        if (found := self._maxima.get(copy.scope.memory_dir)) and self._clock() - found[1] < _PAUSE:
            limits.append(found[0])
        return min((each for each in limits if each is not None), default=None)

    async def _push_all(self, copy: Copy) -> None:
        expected = copy.state.checksum
        for tried in range(1, _PUSH_TRIES + 1):
            texts, deletions = copy.to_push(self._maximum(copy))
            if not texts and not deletions:
                return
            if expected is None and copy.state.server:  # the last pull left something open: never write blindly
                expected = await self._after_conflict(copy, [*texts, *deletions])
                texts, deletions = copy.to_push(self._maximum(copy))
            try:
                await self._send(copy, texts, deletions, expected)
                return
            except SyncFailed as failure:
                if not failure.conflict or tried == _PUSH_TRIES:
                    raise
            copy.report.retries += 1
            expected = await self._after_conflict(copy, [*texts, *deletions])

    async def _send(self, copy: Copy, texts: Mapping[str, str], deletions: list[str], expected: str | None) -> None:
        for keys in name_batches(deletions, limit=BODY_BYTES):
            expected = await self._put(copy, {"entries": {}, "deleted": keys}, expected)
            copy.buried(keys)
        for batch in batches(texts, limit=BODY_BYTES):
            expected = await self._put(copy, {"entries": batch}, expected)
            copy.sent(batch)

    async def _put(self, copy: Copy, body: Mapping[str, object], expected: str | None) -> str:
        copy.report.batches += 1
        written = await self._remote.put(copy.repo, body, expected=expected)
        # Only a chain that began with the state we know whole ends in one; otherwise the next pull gets everything.
        whole = copy.state.checksum == expected
        known = written.checksum if whole else copy.state.checksum
        tombstones = copy.state.tombstones or written.tombstones
        version = max(copy.state.version, written.version if whole else 0)
        copy.state = replace(copy.state, checksum=known, tombstones=tombstones, version=version)
        return written.checksum

    async def _after_conflict(self, copy: Copy, keys: Iterable[str]) -> str | None:
        """Look who wrote; if it touches what is to be pushed, settle that first. Returns the tag to write against."""
        listed = await self._remote.hashes(copy.repo)
        same = all(listed.hashes.get(key) == copy.state.server.get(key) for key in keys)
        if same and (not listed.version or listed.version >= copy.state.version):  # the contract has none there
            return listed.checksum
        fetched = await self._remote.fetch(copy.repo, known=None)
        await copy.look()
        await take(copy, fetched)
        await copy.look()
        return fetched.checksum

    async def _rests(self, copy: Copy) -> SyncFailed | None:
        """Return the failure because of which nothing is pushed; None if it is."""
        suppression = self._suppressed.get(copy.scope.memory_dir)
        if suppression is None:
            return None
        over = self._clock() - suppression.since >= _PAUSE
        other = suppression.credentials != await self._credentials()
        if over or other or suppression.names - copy.local.names:
            del self._suppressed[copy.scope.memory_dir]
            return None
        return suppression.failure

    async def _rest(self, copy: Copy, failure: SyncFailed) -> None:
        self._suppressed[copy.scope.memory_dir] = _Suppression(
            failure=failure, since=self._clock(), credentials=await self._credentials(), names=copy.local.names
        )
        _log.warning("team_push_rests", project=copy.scope.project, status=failure.status)

    async def _credentials(self) -> bytes:
        return sha256((await self._remote.token()).encode()).digest()
