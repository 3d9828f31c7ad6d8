"""Approvals: tools that are run only when the person says so, while their turn waits.

The question is a post with buttons; the answer comes in like any message, but goes round the line, in which the turn
itself stands (`gateway.intake`). It counts only from whoever is answered, or an owner, and only for a question that
still waits. Nobody answers: denied.

    waiting --answered--> once | always | denied
       +----expired, or the turn ended----> closed

A question waits only under the claim of the turn that asked it: a crash ends it, and the turn that begins anew asks
anew.
"""

import asyncio
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog
from sqlalchemy import delete, exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account, Adapter, Inbound
from gateway.buttons import Buttons, Choice
from gateway.db.engine import Database
from gateway.db.models import ApprovalRow, InboxRow, SessionRow
from gateway.inbox import Claim
from gateway.outbox import Outbox, posts_for
from memory.ports import Clock

log = structlog.get_logger(__name__)

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters that people mistake for one another
_FIRST = ("file_path", "path", "name")
"""Arguments that say what a tool touches: they are shown first."""
_MOST_SHOWN, _SHOWN, _WHERE_SHOWN = 8, 160, 300
"""How many arguments are shown, and how many characters of one; of where it goes, more."""
_LOOK_SECONDS = 0.5  # how long an answer that another process took can lie unseen
_KEPT_SECONDS = 24 * 3600.0


class Decision(StrEnum):
    """What a person says to a tool."""

    ONCE = "once"
    ALWAYS = "always"
    """For the rest of the conversation's session."""
    DENIED = "denied"


_COMMANDS = {"/allow": Decision.ONCE, "/always": Decision.ALWAYS, "/deny": Decision.DENIED}
_SHORT = {
    Decision.ONCE: frozenset({"1", "yes", "y", "ok", "allow", "是", "好", "好的", "可以", "同意", "允许"}),
    Decision.ALWAYS: frozenset({"2", "always", "总是", "一直允许", "始终允许"}),
    Decision.DENIED: frozenset({"3", "no", "n", "deny", "否", "不", "不行", "不可以", "拒绝"}),
}
_SAID = {
    Decision.ONCE: "Allowed, this once.",
    Decision.ALWAYS: "Allowed, for the rest of this conversation.",
    Decision.DENIED: "Denied.",
}
_OVER = "That question is over: it was answered, or nobody did in time."


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """What is said to an answer; unless it has `decided` something, only to whoever gave it."""

    says: str
    decided: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """Asks for one turn. `tools` are those that have to be asked for."""

    approvals: "Approvals"
    claim: Claim
    session_id: int
    tools: frozenset[str]

    async def allowed(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a tool may be run; waits for the person where it has to."""
        return tool not in self.tools or await self.approvals.ask(self.claim, self.session_id, tool, arguments)


class Approvals:
    """The questions that wait. `seconds` is how long one does; `owners` may answer for everybody."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        buttons: Buttons,
        adapters: Mapping[str, Adapter],
        clock: Clock,
        *,
        seconds: float,
        owners: Collection[Account] = (),
    ) -> None:
        self._database, self._outbox, self._buttons, self._adapters = database, outbox, buttons, adapters
        self._clock, self._seconds, self._owners = clock, seconds, frozenset(owners)
        self._answered = asyncio.Condition()

    async def ask(self, claim: Claim, session_id: int, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Ask the person whose message is answered, and wait; False if they, or the time, say no."""
        if await self._always(session_id, tool):
            return True
        asked = await self._put(claim, session_id, tool, arguments)
        log.info("approval_asked", tool=tool, inbox_id=claim.id)
        try:
            decision = await self._wait(asked)
        finally:
            await self._close(asked)
        log.info("approval_settled", tool=tool, inbox_id=claim.id, decision=decision or "expired")
        return decision in (Decision.ONCE, Decision.ALWAYS)

    async def answer(self, inbound: Inbound) -> Answered | None:
        """Take a message as an answer to what waits in its conversation; returns what to say, None if it is none.

        Short words count only while exactly one question waits; what comes with attachments is never an answer.
        """
        if inbound.attachments:
            return None
        word, *rest = inbound.own_words.split(maxsplit=1) or [""]
        named = _COMMANDS.get(word.split("@")[0].casefold())
        decision = named or _short(inbound.own_words)
        if decision is None:
            return None
        async with self._database.write() as session:
            waiting = await self._waiting(session, inbound)
            if named is not None and rest:
                waiting = [row for row in waiting if row.id == rest[0].strip().casefold()]
            if len(waiting) != 1:
                return None if named is None else Answered(says=_OVER, decided=False)
            waiting[0].decision = decision.value
        async with self._answered:
            self._answered.notify_all()
        return Answered(says=_SAID[decision], decided=True)

    async def _put(self, claim: Claim, session_id: int, tool: str, arguments: Mapping[str, Any]) -> str:
        number = "".join(secrets.choice(_ALPHABET) for _ in range(5))
        offer = self._buttons.offer(
            [
                Choice(label=label, says=f"/{word} {number}")
                for label, word in (("Once", "allow"), ("Always here", "always"), ("No", "deny"))
            ],
            principal=claim.principal,
            conversation=claim.inbound.address,
            accounts={claim.inbound.account, *self._owners},
            alone=claim.inbound.only_for_sender,
        )
        adapter = self._adapters[claim.inbound.address.platform]
        parts = adapter.render(_question(tool, arguments, number), buttons=offer.buttons)
        posts = posts_for(claim.inbound, parts, key=f"{claim.id}-ask-{number}", principal=claim.principal)
        async with self._database.write() as session:
            session.add(
                ApprovalRow(
                    id=number,
                    principal=claim.principal,
                    conversation=str(claim.inbound.address),
                    account=str(claim.inbound.account),
                    inbox_id=claim.id,
                    claim=claim.token,
                    session_id=session_id,
                    tool=tool,
                    decision="",
                    closed=False,
                    until=self._clock().timestamp() + self._seconds,
                )
            )
            offer.keep(session)
            await self._outbox.enqueue(session, posts)
        self._outbox.wake()
        return number

    async def _wait(self, number: str) -> Decision | None:
        while True:
            async with self._database.read() as session:
                row = await session.get_one(ApprovalRow, number)
            if row.decision:
                return Decision(row.decision)
            if self._clock().timestamp() >= row.until:
                return None
            try:
                async with asyncio.timeout(_LOOK_SECONDS), self._answered:
                    await self._answered.wait()
            except TimeoutError:
                continue

    async def _close(self, number: str) -> None:
        async with self._database.write() as session:
            await session.execute(update(ApprovalRow).where(ApprovalRow.id == number).values(closed=True))

    async def _always(self, session_id: int, tool: str) -> bool:
        given = select(ApprovalRow.id).where(
            ApprovalRow.session_id == session_id,
            ApprovalRow.tool == tool,
            ApprovalRow.decision == Decision.ALWAYS.value,
        )
        async with self._database.read() as session:
            return await session.scalar(given.limit(1)) is not None

    async def _waiting(self, session: AsyncSession, inbound: Inbound) -> list[ApprovalRow]:
        now = self._clock().timestamp()
        turn_waits = exists().where(
            InboxRow.id == ApprovalRow.inbox_id,
            InboxRow.claim == ApprovalRow.claim,
            InboxRow.state == "claimed",
            InboxRow.claimed_until > now,
        )
        here = select(ApprovalRow).where(
            ApprovalRow.conversation == str(inbound.address),
            ~ApprovalRow.closed,
            ApprovalRow.decision == "",
            ApprovalRow.until > now,
            turn_waits,
        )
        if inbound.account not in self._owners:
            here = here.where(ApprovalRow.account == str(inbound.account))
        return list((await session.scalars(here.with_for_update())).all())


def _short(text: str) -> Decision | None:
    said = text.strip().rstrip(".!。！").casefold()
    return next((decision for decision, words in _SHORT.items() if said in words), None)


def _question(tool: str, arguments: Mapping[str, Any], number: str) -> str:
    order = sorted(arguments, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    lines = [_shown(name, arguments[name]) for name in order[:_MOST_SHOWN]]
    if len(order) > _MOST_SHOWN:
        lines.append(f"(and {len(order) - _MOST_SHOWN} more)")
    return (
        f"May I use **{tool}**?\n\n{chr(10).join(f'- `{line}`' for line in lines) or '(nothing)'}\n\n"
        f"1 once, 2 always in this conversation, 3 no; or `/allow {number}`, `/always {number}`, `/deny {number}`."
    )


def _shown(name: str, value: object) -> str:
    return f"{_cut(_plain(name), _SHOWN)}: {_cut(_plain(str(value)), _WHERE_SHOWN if name in _FIRST else _SHOWN)}"


def _plain(text: str) -> str:
    """Return a text on one line in which nothing is invisible, changes the direction or ends the quotation."""
    one_line = " ".join(text.replace("`", "'").split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in one_line)


def _cut(text: str, most: int) -> str:
    """Leave out the middle of what is too long: either end may be what decides."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … ({len(text) - 2 * half} more characters) … {text[-half:]}"


async def prune(database: Database, clock: Clock) -> int:
    """Drop the questions that nothing can need any more; an `always` holds as long as its session. Returns how many."""
    ended = exists().where(SessionRow.id == ApprovalRow.session_id, SessionRow.ended)
    needless = or_(ApprovalRow.decision != Decision.ALWAYS.value, ended)
    old = delete(ApprovalRow).where(ApprovalRow.until < clock().timestamp() - _KEPT_SECONDS, needless)
    async with database.write() as session:
        return len((await session.scalars(old.returning(ApprovalRow.id))).all())
