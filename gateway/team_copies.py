"""The copies of a project's team memory, over all its chats: where they lie, what is in them, who said it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from anyio import to_thread

from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.team_exchanges import reached, why_resting
from memory.errors import LeaseLost
from memory.judgement import Sources
from memory.notes import Notes
from memory.ports import Fence, Leases
from memory.provenance import Moved, Placed, Source
from memory.scope import Scope
from memory.team.client import Rest
from memory.team.forgotten import Forgotten, holds_any
from memory.team.proposal import holds_copies, remove_copies
from memory.team.report import SyncReport
from memory.team.shared_pull import SharedPull
from memory.team.state import SyncState
from memory.team.tidy import Material, gather


class Sync(Protocol):
    """Brings a copy in line with the server; see `memory.team.client.TeamSync`."""

    async def sync(self, scope: Scope) -> SyncReport:
        """Pull, then push."""

    async def pull(self, scope: Scope, *, within: float, shared: SharedPull | None = None) -> None:
        """Only pull, for at most so many seconds."""

    def resting(self, scope: Scope) -> Rest | None:
        """Return why nothing of a scope's copy is pushed; None if it is."""

    async def state(self, scope: Scope) -> SyncState:
        """Return where a scope's copy stands with the server."""


class TeamCopies:
    """The copies of each project's team memory: where they lie, and what is in them."""

    def __init__(
        self, settings: Settings, scopes: Scopes, sync: Sync, *, notes: Notes, leases: Leases, forgotten: Forgotten
    ) -> None:
        self.settings = settings
        self.notes = notes
        self._sync = sync
        self._scopes = scopes
        self._leases = leases
        self._forgotten = forgotten

    async def by_project(self) -> Mapping[str, Sequence[Scope]]:
        """Return the scopes that hold a copy, by project: those of shared chats first, always in the same order."""
        found: dict[str, list[Scope]] = {name: [] for name in sorted(self.settings.projects)}
        for scope in await self._scopes.active():
            if scope.team_dir is not None and scope.repo and scope.project in found:
                found[scope.project].append(scope)
        return {name: sorted(each, key=lambda one: (not one.shared, one.principal)) for name, each in found.items()}

    async def others(self, scope: Scope) -> Sequence[Scope]:
        """Return the scopes that hold the other copies of what this one's copy is of, in the same order."""
        found = [copy for copies in (await self.by_project()).values() for copy in copies]
        return [each for each in found if each.repo == scope.repo and each.memory_dir != scope.memory_dir]

    async def bring_in_step(self, scope: Scope, *, within: float) -> None:
        """Have the other copies know what this one has told the server, so that what is next edited is no conflict.

        Each has `within` seconds for that; what is missed is left to its next exchange. The server is asked once for
        all that know the same.
        """
        shared = SharedPull()
        for other in await self.others(scope):
            await self._sync.pull(other, within=within, shared=shared)

    async def forgotten(self, copies: Sequence[Scope]) -> frozenset[str]:
        """Return the hashes of what was forgotten in any of them."""
        return frozenset[str]().union(*[await self._forgotten(scope) for scope in copies])

    async def material(self, copies: Sequence[Scope], *, first: Scope | None = None) -> Material:
        """Return what they share: the notes as `first` has them. What holds something forgotten is left out."""
        first = first or copies[0]
        dirs = [each.team_dir for each in copies if each.team_dir is not None and each.team_dir != first.team_dir]
        assert first.team_dir is not None
        found = await to_thread.run_sync(gather, first.team_dir, dirs)
        hashes = await self.forgotten(copies)
        return Material(notes=_without(found.notes, hashes), copies=_without(found.copies, hashes))

    def hold(self, project: str, *, wait: float = 0) -> AbstractAsyncContextManager[Fence]:
        """Hold a project, so that nobody else looks at it or answers meanwhile; raises `LeaseLost`."""
        return self._leases.hold(f"tidy:{project}", seconds=self.settings.memory.lease_seconds, wait=wait)

    async def exchange(self, scope: Scope) -> str:
        """Bring a copy in line with the server; returns why that was not done, "" if it was."""
        return (await self._exchanged(scope))[1]

    async def bring(self, scope: Scope, wanted: Mapping[str, str]) -> tuple[bool, str]:
        """Do so, and return whether these texts, by key and hash, are with the server then, and what is to be said."""
        report, failure = await self._exchanged(scope)
        if rests := self.resting(scope):
            return False, f"The server does not have it, as nothing is pushed for now: {rests}."
        if report is None or failure:
            return False, f"The server does not have it yet ({failure}); the next exchange brings it there."
        return True, reached(report, await self._sync.state(scope), wanted)

    async def _exchanged(self, scope: Scope) -> tuple[SyncReport | None, str]:
        try:
            report = await self._sync.sync(scope)
        except LeaseLost:
            return None, "another exchange of it is under way"
        return report, "" if report.failure is None else str(report.failure)

    def resting(self, scope: Scope) -> str:
        """Return why nothing of a copy is pushed for now, and what helps; "" if it is."""
        rest = self._sync.resting(scope)
        return why_resting(rest, scope.timezone) if rest is not None else ""

    async def clear(self, copies: Iterable[Scope], gone: Iterable[tuple[str, str]], *, synced: Scope) -> int:
        """Remove settled conflict copies wherever they lie, and return in how many homes that could not be done.

        What was merged has to be there first: each copy but `synced`, which is, is brought in line before.
        """
        failed, settled = 0, list(gone)
        for scope in copies:
            if not await to_thread.run_sync(holds_copies, scope, settled):
                continue
            if scope.memory_dir != synced.memory_dir and await self.exchange(scope):
                failed += 1
            else:
                await remove_copies(scope, settled, self.notes)
        return failed


def _without(texts: Mapping[str, str], hashes: frozenset[str]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if not holds_any(hashes, {key: text})}


class ProjectLedger:
    """Who said what in a project, over all its copies; a `memory.judgement.Sources` that keeps nothing."""

    def __init__(self, ledger: Sources, copies: Sequence[Scope]) -> None:
        self._ledger = ledger
        self._copies = copies

    async def sources(self, scope: Scope, hashes: Iterable[str]) -> Mapping[str, tuple[Source, ...]]:
        """Return who said these facts, in whichever chat."""
        wanted, found = list(hashes), dict[str, tuple[Source, ...]]()
        for copy in self._copies:
            for each, said in (await self._ledger.sources(copy, wanted)).items():
                found[each] = (*found.get(each, ()), *said)
        return found

    async def erased_since(self, scope: Scope, moment: datetime) -> bool:
        """Return whether anything was forgotten since then, in whichever chat."""
        return any([await self._ledger.erased_since(copy, moment) for copy in self._copies])

    async def carry(self, scope: Scope, moves: Sequence[Moved]) -> None:
        """Keep nothing: it is only proposed."""

    async def logged(self, scope: Scope, lines: Mapping[int, Placed]) -> None:
        """Keep nothing."""
