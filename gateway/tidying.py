"""Has the model look how a team's memory could be put in order, once a day for each project, and proposes that.

Nothing of a team's is changed here but conflict copies that somebody has already agreed to see merged.
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo

from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Address
from gateway.buttons import Buttons
from gateway.db.proposed import PENDING
from gateway.errors import JobFailed
from gateway.outbox import Post, unrendered
from gateway.proposal_texts import answers, told
from gateway.proposals import Proposal, Proposals, post_key
from gateway.settings import Settings
from gateway.team_copies import ProjectLedger, TeamCopies
from memory.judgement import Ending, Sources
from memory.notes import INDEX, content_hash
from memory.ports import Fence
from memory.scope import Scope
from memory.team.forgotten import holds_any
from memory.team.proposal import overtaken, title_of
from memory.team.tidy import Material, Tidied, Tidy, scope_of
from scheduler.jobs import JobContext
from scheduler.slots import Due, Every, Firing

_NO_COPY = "no chat has a copy of its notes"


class Conversations(Protocol):
    """Knows where a scope was last talked to; see `gateway.history.History`."""

    async def latest_conversation(self, scope: Scope) -> str | None:
        """Return it; None if nobody ever talked there."""


class TeamTidying:
    """The job: finds the projects that are due, and looks at one."""

    def __init__(
        self,
        settings: Settings,
        copies: TeamCopies,
        tidy: Tidy,
        *,
        proposals: Proposals,
        ledger: Sources,
        conversations: Conversations,
        buttons: Buttons,
        every: Every,
    ) -> None:
        self._settings = settings
        self._copies = copies
        self._tidy = tidy
        self._proposals = proposals
        self._ledger = ledger
        self._conversations = conversations
        self._buttons = buttons
        self._every = every
        self._home = Path(os.path.realpath(settings.memory_base))

    async def due(self, firing: Firing) -> Sequence[Due]:
        """Return the slot of each project, the same all day on every replica; see `scheduler.slots.Finder`."""
        latest, zone = self._every.latest(firing.now), self._settings.timezone
        day = firing.now.astimezone(ZoneInfo(zone)).date().isoformat()
        return [
            replace(
                latest,
                slot=day,
                scope=scope_of(self._home, project, timezone=zone),
                gate=await self._gate(project, copies, by_hand=firing.by_hand),
            )
            for project, copies in (await self._copies.by_project()).items()
        ]

    async def _gate(self, project: str, copies: Sequence[Scope], *, by_hand: bool) -> str:
        if not self._settings.memory.team_tidy_enabled:
            return "team_tidy_enabled is off"
        if not self._settings.access.owners:
            return "nobody could answer: access.owners is empty"
        if not copies:
            return _NO_COPY
        material, last = await self._copies.material(copies), await self._proposals.latest(project)
        if not material.texts:
            return "no notes yet"
        if waits := _waits(last, material):
            return waits
        same = last is not None and last.seen == material.digest and last.state != "dead"
        # A look that left conflict copies is repeated; one whose proposal was refused is not.
        again = last is not None and last.state == "empty" and material.copies
        return "nothing has changed since it last looked" if same and not again and not by_hand else ""

    async def look(self, context: JobContext) -> str:
        """Look at one project and propose what could be done; raises `JobFailed`, and then nothing has changed."""
        project = context.scope.project
        async with self._copies.hold(project) as fence:
            copies = (await self._copies.by_project()).get(project, ())
            if not copies:
                return _NO_COPY
            context.progress("fetching what others have shared")
            if why := await self._copies.exchange(copies[0]):
                raise JobFailed(f"the team's server could not be asked: {why}")
            accepted = await self._proposals.touched(project, "accepted")
            await self._copies.clear(copies, frozenset[tuple[str, str]]().union(*accepted), synced=copies[0])
            await self._proposals.drop_forgotten(project, await self._copies.forgotten(copies))
            material, last = await self._copies.material(copies), await self._proposals.latest(project)
            if waits := _waits(last, material):
                return waits
            if last is not None and last.state == PENDING:
                await self._proposals.close(last.number, "dead", outcome="the notes have changed since")
            return await self._looked(context, copies, material, fence)

    async def _looked(self, context: JobContext, copies: Sequence[Scope], material: Material, fence: Fence) -> str:
        project, ledger = context.scope.project, ProjectLedger(self._ledger, copies)
        refused = await self._proposals.touched(project, "refused")
        alone = frozenset[str]().union(*(_unchanged(files, material) for files in refused))
        left = [key for key in alone if key in material.texts]
        told = _Told(context.progress)
        tidied = await self._tidy(context.scope, material, ledger=ledger, left_alone=left, progress=told)
        if tidied.ending is Ending.SPENT:  # no tokens: not before tomorrow
            return f"{tidied.ending.value}: {tidied.reason}"
        if not tidied.ending.good:
            raise JobFailed(f"{tidied.ending.value}: {tidied.reason}")
        await fence.check()
        notes = [change for change in tidied.changes if not change.is_index] or tidied.changes
        again = [change.key for change in notes if change.key in alone]
        if again or not tidied.changes:
            await self._proposals.found_nothing(project, seen=material.digest)
            return "not proposed again what was refused and has not changed" if again else "nothing to propose"
        return await self._propose(project, copies, material, tidied)

    async def _propose(self, project: str, copies: Sequence[Scope], material: Material, tidied: Tidied) -> str:
        if holds_any(await self._copies.forgotten(copies), {c.key: c.text for c in tidied.changes if c.text}):
            raise JobFailed("aborted: something was forgotten meanwhile")
        title, audience = title_of(tidied.changes), await self._audience(copies)

        def posts(session: AsyncSession, number: int) -> list[Post]:
            text = told(number, project, title, tidied.changes, material.texts, removed=len(tidied.removed))
            return [self._post(session, number, text, place, principal) for place, principal in audience]

        proposal = await self._proposals.add(
            project, seen=material.digest, title=title, changes=tidied.changes, removed=tidied.removed, posts=posts
        )
        whom = f"told in {len(audience)} chats" if len(audience) != 1 else "told in 1 chat"
        return f"proposal {proposal.number}: {title}; {whom}"

    def _post(self, session: AsyncSession, number: int, text: str, place: Address, principal: str) -> Post:
        offer = self._buttons.offer(
            answers([number]), principal=principal, conversation=place, accounts=self._settings.access.owners
        )
        offer.keep(session)
        part = unrendered(text, offer.buttons)
        return Post(key=post_key(number, place), principal=principal, address=place, part=part)

    async def _audience(self, copies: Sequence[Scope]) -> Sequence[tuple[Address, str]]:
        """Return the owners' private chats; if none of them ever wrote there, the first shared chat of the project."""
        if found := await self._proposals.private_chats(self._settings.access.owners):
            return found
        for scope in (each for each in copies if each.shared):
            if conversation := await self._conversations.latest_conversation(scope):
                return [(Address.parse(conversation), scope.principal)]
        return []


class _Told:
    """Tells the job how far its run is; a `memory.ports.Progress`."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told

    async def __call__(self, *, turn: int, text: str, tools: int, written: Sequence[Path]) -> None:
        self._told(f"turn {turn}, {len(written)} {'file' if len(written) == 1 else 'files'} written on the side")


def _waits(last: Proposal | None, material: Material) -> str:
    """Name the proposal that waits for an answer and could still be done; "" if there is none."""
    if last is None or last.state != PENDING or overtaken(last.changes, material.texts):
        return ""
    return f"proposal {last.number} waits for an answer"


def _unchanged(files: Collection[tuple[str, str]], material: Material) -> frozenset[str]:
    """Return the files that a refusal was about, none once one of them has changed; an index changes all the time."""
    notes = [each for each in files if not each[0].endswith(INDEX)] or files
    hashes = {key: content_hash(text) for key, text in material.texts.items()}
    return frozenset(key for key, _ in notes) if all(hashes.get(key, "") == old for key, old in notes) else frozenset()
