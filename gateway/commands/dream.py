"""/dream: put memory in order now; see how that stands, what it changed, and take it back."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from adapters.base import Adapter, Address
from gateway.buttons import Choice
from gateway.commands.table import Asked, Handler, Reply, not_understood
from gateway.dreaming import Dreaming, changes
from gateway.night_budget import NightBudget
from gateway.proposal_texts import code
from gateway.settings import Settings
from memory.counts import counted
from memory.dream import Gate, Standing
from memory.restore import Restored
from memory.scope import Scope
from memory.stamp import NEVER
from memory.undo import Undo, Undone
from scheduler.clock import SchedulerClock
from scheduler.errors import NotRunning

_USAGE = (
    "`/dream` puts memory in order now. `/dream status` says how it stands, `/dream stop` ends the one that runs, "
    "`/dream diff` shows what the last one changed, `/dream undo` takes it back."
)
_WORDS = ("run", "status", "stop", "diff", "undo")
_NONE = "Nothing to undo: no dream has changed anything here since the last undo."
_NOBODY = (
    "There is nothing to put in order here yet: nothing but commands was written in this chat. Write something else "
    "first."
)
_UNDER_WAY = "A dream is under way here already. `/dream status` says how far it is."
_HELPS = "`/dream` begins one now, `/dream status` says what the next one waits for."
_ANOTHER = "What the last dream changed is not what was shown above any more: `/dream diff` shows it."
_LONGEST_DIFF = 6000
_MARK = 16
_UNDO = re.compile(rf"undo(?: ([0-9a-f]{{{_MARK}}}))?")
"""The button under a diff says which dream it is about."""


@dataclass(frozen=True, kw_only=True)
class DreamCommand:
    """The handler and what it works on, all of it within the asker's scope."""

    settings: Settings
    dreaming: Dreaming
    undo: Undo
    budget: NightBudget
    scheduler: SchedulerClock
    adapters: Mapping[str, Adapter]

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by name."""
        return {"dream": self.dream}

    async def dream(self, asked: Asked) -> Reply:
        """Do what the first word says; nothing said: dream."""
        match asked.arguments.replace("`", "").lower():
            case "" | "run":
                return Reply(text=await self._begin(asked))
            case "status":
                tokens = spent(await self.budget.tonight(), self.budget.per_night) if self._is_owner(asked) else ""
                standing = await self.dreaming.dream.standing(asked.scope)
                return Reply(text="\n".join(filter(None, (described(asked.scope, standing), tokens))))
            case "stop":
                stopped = await self.dreaming.dream.stop(asked.scope)
                return Reply(text="The dream is being ended." if stopped else "No dream runs here now.")
            case "diff":
                return await self._diff(asked)
            case words if undo := _UNDO.fullmatch(words):
                return Reply(text=await self._take_back(asked, shown=undo[1] or ""))
            case _:
                return Reply(text=not_understood(asked.arguments, _WORDS, _USAGE))

    async def _begin(self, asked: Asked) -> str:
        scope, address = asked.scope, asked.claim.inbound.address
        if obstacle := await self._obstacle(scope, now=asked.claim.inbound.sent_at):
            return obstacle
        working = partial(self._working, address)
        try:
            if not self.dreaming.begin(scope, address, scheduler=self.scheduler, working=working):
                return _UNDER_WAY
        except NotRunning:
            return "I can't dream now: the scheduler is not running. `reverie doctor` says why."
        return "Dreaming… I say here what came of it. `/dream status` says how far it is, `/dream stop` ends it."

    async def _obstacle(self, scope: Scope, *, now: datetime) -> str:
        """Return what keeps a scope from dreaming now, in words for people; "" if nothing does."""
        gate = await self.dreaming.dream.obstacle(scope)
        if gate is not Gate.OPEN:
            return f"I can't dream here: {_WHY[gate]}."
        if not await self.dreaming.has_someone(scope, self.scheduler, now):
            return _NOBODY
        if await self.dreaming.dream.underway(scope) is not None:
            return _UNDER_WAY
        if not await self.budget(0):
            return "I can't dream now: tonight's tokens for dreams are used up. They are counted anew at midnight."
        return ""

    async def _diff(self, asked: Asked) -> Reply:
        patch = await self.undo.diff(asked.scope)
        if not patch:
            return Reply(text=await self._none(asked.scope, "show"))
        undo = [Choice(label="Undo", says=f"/dream undo {_mark(patch)}")] if self._may_undo(asked) else []
        return Reply(text=fenced(patch), choices=undo)

    async def _take_back(self, asked: Asked, *, shown: str = "") -> str:
        """Take the last dream back; with the mark of what was `shown`, only if it is still that one."""
        if not self._may_undo(asked):
            return "In a shared chat only an owner of this bot may take a dream back."
        if shown and (patch := await self.undo.diff(asked.scope)) and _mark(patch) != shown:
            return _ANOTHER
        result = await self.undo(asked.scope)
        return undone(asked.scope, result) if result.found else await self._none(asked.scope, "undo")

    async def _none(self, scope: Scope, what_for: str) -> str:
        why = why_none(scope, await self.dreaming.dream.standing(scope))
        return f"Nothing to {what_for}: {why}. {_HELPS}"

    async def _working(self, address: Address, status: str) -> None:
        adapter = self.adapters.get(address.platform)
        if adapter is not None:
            await adapter.working(address, status=status)

    def _may_undo(self, asked: Asked) -> bool:
        return not asked.scope.shared or self._is_owner(asked)

    def _is_owner(self, asked: Asked) -> bool:
        return asked.claim.inbound.account in self.settings.access.owners


_WHY = {
    Gate.OFF: "it is switched off",
    Gate.LOG_MODE: "new memories go to a day log, and the night sorts them",
    Gate.EMPTY: "there are no notes yet",
    Gate.OBSTRUCTED: Gate.OBSTRUCTED.value,
}


def described(scope: Scope, standing: Standing) -> str:
    """Return how a scope stands with its dreams, as a list."""
    last = "never" if standing.last == NEVER else _moment(scope, standing.last)
    lines = [f"- Last dream: {last}", f"- Next: {_next(scope, standing)}"]
    if standing.record is not None:
        taken_back = ", taken back since" if standing.record.undone_at else ""
        figures = changes(standing.record.files, standing.record.survival)
        lines.append(f"- What the last change was: {figures}{taken_back}")
    if standing.half_back:
        lines.append(
            "- Not wholly put back yet: a dream that was not kept, as a note can't be written; tried again soon"
        )
    if (now := standing.underway) is not None:
        lines.append(f"- Running: {now.phase}, turn {now.turn}, at least {now.files} files touched")
    return "\n".join(lines)


def _next(scope: Scope, standing: Standing) -> str:
    match standing.gate:
        case Gate.OPEN | Gate.THROTTLED:
            return "due, with the scheduler's next look outside of quiet hours"
        case Gate.TOO_SOON:
            return f"not before {_moment(scope, standing.due_at)}"
        case Gate.TOO_FEW_SITTINGS:
            return f"{standing.sittings} of {standing.enough} conversations since the last one"
        case _:
            return f"none: {_WHY[standing.gate]}"


def why_none(scope: Scope, standing: Standing) -> str:
    """Return why no change by a dream is kept that could be shown or taken back, as a clause after a colon."""
    if standing.record is not None and standing.record.undone_at is not None:
        return f"what the last dream changed was taken back on {_moment(scope, standing.record.undone_at)}"
    if standing.last == NEVER:
        return "there was no dream here yet"
    return f"no dream has changed anything that is kept; the last one began on {_moment(scope, standing.last)}"


def undone(scope: Scope, result: Undone) -> str:
    """Return what became of an undo."""
    if not result.found:
        return _NONE
    if result.busy:
        return "Memory is being written just now. Please try it again in a minute; nothing is undone yet."
    if result.logs_gone:
        return "I can't take that back: the day logs that it sorted are gone, and what they said is in the notes only."
    done = result.restored
    back = f"{counted(len(done.back), 'file')} as before{_named(scope, done.back, ' (', ')')}"
    lines = [f"The last dream is taken back: {back}."]
    if done.failed:
        lines = [
            f"The last dream is taken back in part: {back}. Not put back yet: {_reasoned(scope, done)}. No fact "
            "is lost. See that they can be, then `/dream undo` again."
        ]
    if done.merged:
        lines.append(f"Put back with what was added since: {_named(scope, done.merged)}.")
    if done.left:
        lines.append(f"Left as it is now, because it was changed since: {_named(scope, done.left)}.")
    if result.unrecorded:
        lines.append(f"That could not be written down ({result.unrecorded}): `/dream undo` would name it once more.")
    if done.beside:
        lines.append(f"What stood before in notes that were changed since is kept in {_named(scope, done.beside)}.")
    return " ".join(lines)


def _reasoned(scope: Scope, done: Restored) -> str:
    reasons = {path: done.reasons.get(path, "it can't be written") for path in done.failed}
    return ", ".join(f"{_named(scope, [path])} ({reason})" for path, reason in reasons.items())


def _named(scope: Scope, paths: Sequence[Path], before: str = "", behind: str = "") -> str:
    names = ", ".join(f"`{code(path.relative_to(scope.memory_dir).as_posix())}`" for path in paths)
    return f"{before}{names}{behind}" if names else ""


def fenced(patch: str) -> str:
    """Return a patch as a block of code, cut to what a chat can take; "" if there is none."""
    if not patch:
        return ""
    shown = patch if len(patch) <= _LONGEST_DIFF else patch[:_LONGEST_DIFF].rpartition("\n")[0] + "\n"
    more = "" if shown == patch else f"\n{len(patch.splitlines()) - len(shown.splitlines())} lines more are not shown."
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}diff\n{shown}{fence}{more}"


def _mark(patch: str) -> str:
    return hashlib.sha256(patch.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]


def _longest_run(text: str) -> int:
    runs = "".join(sign if sign == "`" else " " for sign in text).split()
    return max(map(len, runs), default=0)


def spent(used: int, most: int) -> str:
    """Return what dreams have used tonight, of what they may."""
    return f"- Tokens since midnight, all dreams of this gateway: {used:,} of {most:,}"


def _moment(scope: Scope, moment: datetime) -> str:
    return f"{moment.astimezone(ZoneInfo(scope.timezone)):%Y-%m-%d %H:%M}"
