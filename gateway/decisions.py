"""What an administrator says to a proposal is done here: file by file, each only if it is still what they were shown.

Merged notes go first and to the server, conflict copies and deletions last, and the proposal is over only then: an
answer that was cut short is given again, by its message as soon as the gateway is back, and finds what is done already.
"""

from collections.abc import Sequence

import structlog

from adapters.base import Account
from gateway.db.proposed import PENDING
from gateway.proposal_texts import code, whole
from gateway.proposals import Proposal, Proposals
from gateway.team_copies import ProjectLedger, TeamCopies
from memory.attribution import kept_apart
from memory.errors import Conflict, LeaseLost, MemoryFault
from memory.facts import facts
from memory.judgement import Sources
from memory.paths import TEAM
from memory.ports import Clock
from memory.provenance import fact_hash, moves
from memory.scope import Scope
from memory.team.proposal import carry_out, overtaken
from memory.team.tidy import Material

log = structlog.get_logger(__name__)

_PATIENCE = 3.0  # seconds more than a process that has died may hold a project: its message comes again before that
_BUSY = "I am just at work on this team's memory. Please write it again in a minute; nothing is changed yet."
_UNKNOWN = "There is no proposal with this number; `/team proposals` lists those that wait."
_LOOKS_AGAIN = "The next look proposes what is right then."


class Decisions:
    """Accepts, refuses and shows proposals; whether somebody may is for the caller to look at."""

    def __init__(self, copies: TeamCopies, proposals: Proposals, ledger: Sources, clock: Clock) -> None:
        self._copies = copies
        self._proposals = proposals
        self._ledger = ledger
        self._clock = clock

    async def show(self, number: int) -> str:
        """Return the whole of a proposal, compared with what there is now."""
        proposal = await self._proposals.of(number)
        if proposal is None:
            return _UNKNOWN
        copies = (await self._copies.by_project()).get(proposal.project, ())
        if not copies:
            return f"No chat of `{code(proposal.project)}` has a copy of its memory now."
        await self._proposals.drop_forgotten(proposal.project, await self._copies.forgotten(copies))
        proposal = await self._proposals.of(number) or proposal
        return whole(proposal, (await self._copies.material(copies)).texts)

    async def refuse(self, number: int, *, account: Account) -> str:
        """Leave everything as it is, and keep that the same is not proposed again until it changes."""
        if await self._proposals.refuse(number, outcome=self._when("refused"), account=str(account)):
            return "Left as it is. The same is not proposed again until one of these notes changes."
        return _settled(await self._proposals.of(number))

    async def accept(self, number: int, *, scope: Scope, account: Account) -> str:
        """Do it in the copy of `scope` if that has one, else in the project's first, and tell what was done."""
        proposal = await self._proposals.of(number)
        if proposal is None or proposal.state != PENDING:
            return _settled(proposal)
        try:
            wait = self._copies.settings.memory.lease_seconds + _PATIENCE
            async with self._copies.hold(proposal.project, wait=wait):
                return await self._accept(number, scope, account)
        except LeaseLost:
            return _BUSY

    async def _accept(self, number: int, scope: Scope, account: Account) -> str:
        found = await self._proposals.of(number)
        copies = (await self._copies.by_project()).get(found.project, ()) if found else ()
        if found is None or not copies:
            return "No chat of this project has a copy of its memory now; nothing was changed."
        target = next((each for each in copies if each.memory_dir == scope.memory_dir), copies[0])
        if why := await self._copies.exchange(target):
            return f"Nothing was changed, as the team's server could not be asked: {why}. It still waits."
        await self._proposals.drop_forgotten(found.project, await self._copies.forgotten(copies))
        proposal = await self._proposals.of(number)
        if proposal is None or proposal.state != PENDING:
            return _settled(proposal)
        material = await self._copies.material(copies, first=target)
        if stale := overtaken(proposal.changes, material.texts):
            await self._proposals.close(number, "dead", outcome="the notes had changed by then", account=str(account))
            return f"Nothing was done, as these have changed since: {_names(stale)}. {_LOOKS_AGAIN}"
        # Noted before anything is written: from here on nobody can refuse it.
        if not await self._proposals.claim(number, account=str(account)):
            return _settled(await self._proposals.of(number))
        return await self._carry_out(proposal, copies, target, material, account)

    async def _carry_out(
        self, proposal: Proposal, copies: Sequence[Scope], target: Scope, material: Material, account: Account
    ) -> str:
        done: list[str] = []
        try:
            await carry_out(target, proposal.changes, self._copies.notes, done)
        except LeaseLost:
            if not done:
                await self._proposals.release(proposal.number)
            return f"Somebody else is writing there just now: {_part(done)} Say it again in a minute for the rest."
        except MemoryFault as error:
            why = "it was changed just now" if isinstance(error, Conflict) else str(error)
            await self._proposals.close(proposal.number, "dead", outcome=f"not all could be done: {why}")
            return f"Not all could be done, as of one file {why}. {_part(done)} {_LOOKS_AGAIN}"
        await self._carry_sources(proposal, copies, material)
        wanted = {each.key: each.result for each in proposal.changes if not (each.is_index or each.takes_copy)}
        there, told = await self._copies.bring(target, wanted)
        gone = [(change.key, change.replaces) for change in proposal.changes if change.takes_copy]
        behind = len(copies) if not there else await self._copies.clear(copies, gone, synced=target)
        await self._proposals.close(proposal.number, "accepted", outcome=self._when("accepted"), account=str(account))
        log.info("team_proposal_accepted", project=proposal.project, files=len(proposal.changes))
        later = " Conflict copies that could not be taken away yet go with the next look." if gone and behind else ""
        return f"Done: {proposal.title}. {told}{later}"

    async def _carry_sources(self, proposal: Proposal, copies: Sequence[Scope], material: Material) -> None:
        """Let the record of who said each fact go along, in every chat that has one."""
        touched = {each.key for each in proposal.changes if not each.is_index}
        before = {f"{TEAM}/{key}": facts(text) for key, text in material.texts.items() if key in touched}
        texts = {each.key: each.text for each in proposal.changes if not each.is_index}
        after = {f"{TEAM}/{key}": facts(text) for key, text in texts.items() if text is not None}
        hashes = {fact_hash(fact) for found in before.values() for fact in found}
        for scope in copies:
            said = await ProjectLedger(self._ledger, [scope]).sources(scope, hashes)
            said_by = {each: frozenset(one.speaker for one in who if one.speaker) for each, who in said.items()}
            await self._ledger.carry(scope, kept_apart(moves(before, after), said_by))

    def _when(self, verb: str) -> str:
        return f"it was {verb} on {self._clock():%Y-%m-%d %H:%M} UTC"


def _settled(proposal: Proposal | None) -> str:
    if proposal is None:
        return _UNKNOWN
    if proposal.state == PENDING:
        again = f"`/team accept {proposal.number}`"
        return f"It is being carried out, so it can't be refused. If that was cut short, {again} does the rest."
    return f"That is settled: {proposal.outcome}."


def _part(done: Sequence[str]) -> str:
    return f"Done so far: {_names(done)}." if done else "Nothing was done."


def _names(keys: Sequence[str]) -> str:
    return ", ".join(f"`{code(key)}`" for key in keys)
