"""/team proposals, accept, refuse, show P1: what the tidying of a team's memory proposes to the owners of the bot."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.commands.table import Asked, Reply
from gateway.db.proposed import PENDING
from gateway.decisions import Decisions
from gateway.proposal_texts import answers, code
from gateway.proposals import Proposals
from gateway.settings import Settings

_NUMBER = re.compile(r"[pP]?(\d{1,9})\Z", re.ASCII)
_USAGE = (
    "`/team proposals` lists what is proposed, `/team show P1` shows number 1, `/team accept 1` does it and "
    "`/team refuse 1` leaves everything as it is."
)
_NOT_YOURS = "Only an owner of this bot decides what is changed in a team's notes for good order."
_NOT_HERE = "That is of a project that this chat does not belong to: ask me in our private chat."


@dataclass(frozen=True, kw_only=True)
class ProposalCommand:
    """Answers those words of `/team` that are about proposals. Owners decide, in private or in a chat of the team."""

    settings: Settings
    proposals: Proposals
    decisions: Decisions

    def means(self, asked: Asked) -> bool:
        """Return whether a `/team` command is about proposals."""
        match _words(asked):
            case ["proposals" | "accept" | "refuse", *_]:
                return True
            case ["show", number, *_]:
                return number[:1] in ("p", "P") and _NUMBER.match(number) is not None
            case _:
                return False

    async def answer(self, asked: Asked) -> Reply:
        """List, show or decide."""
        if asked.claim.inbound.account not in self.settings.access.owners:
            return Reply(text=_NOT_YOURS)
        match _words(asked):
            case ["proposals"]:
                return await self._list(asked)
            case [("accept" | "refuse" | "show") as word, number] if found := _NUMBER.match(number):
                return await self._one(asked, word, int(found[1]))
            case _:
                return Reply(text=_USAGE)

    async def _list(self, asked: Asked) -> Reply:
        waits = await self.proposals.waiting([each for each in self.settings.projects if _may_see(asked, each)])
        lines = [f"- **{each.number}.** `{code(each.project)}`: {each.title}" for each in waits]
        text = "\n".join([*lines, "", _USAGE]) if lines else "Nothing is proposed at the moment."
        return Reply(text=text, choices=answers([each.number for each in waits]))

    async def _one(self, asked: Asked, word: str, number: int) -> Reply:
        proposal, account = await self.proposals.of(number), asked.claim.inbound.account
        if proposal is not None and not _may_see(asked, proposal.project):
            return Reply(text=_NOT_HERE)
        if word == "accept":
            return Reply(text=await self.decisions.accept(number, scope=asked.scope, account=account))
        if word == "refuse":
            return Reply(text=await self.decisions.refuse(number, account=account))
        text, shown = await self.decisions.show(number), await self.proposals.of(number)
        waits = shown is not None and shown.state == PENDING
        return Reply(text=text, choices=answers([number]) if waits else ())


def _words(asked: Asked) -> Sequence[str]:
    return asked.arguments.replace("`", "").lower().split()


def _may_see(asked: Asked, project: str) -> bool:
    """Whether a project's notes may be shown where somebody asks: a shared chat sees its own team's alone."""
    return not asked.scope.shared or (asked.scope.team_dir is not None and asked.scope.project == project)
