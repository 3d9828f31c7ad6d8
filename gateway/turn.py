"""One turn: from a claimed message to an answer that is committed, with everything that follows from it, at once."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial

import anyio
import structlog

from adapters.base import Adapter, Button
from gateway.agent import loop
from gateway.agent.events import Finished
from gateway.agent.prompt import clean_name, recent_tools, scope_now, user_content
from gateway.agent.rules import TouchedRules
from gateway.agent.subagents import Subagents
from gateway.approvals import Approvals, Asking
from gateway.attachments import NOTHING, Attachments, Came
from gateway.buttons import Buttons
from gateway.commands.table import Commands
from gateway.db.engine import Database
from gateway.errors import Declined, ModelFault, ModelRefused, TooLong
from gateway.history import History, Line, Session, Turned
from gateway.inbox import Claim, Inbox
from gateway.llm.client import Model, Request, Tokens
from gateway.opening import Opening, changed_since_told
from gateway.outbox import Outbox, Post, posts_for
from gateway.provenance import Provenance
from gateway.reply import LiveReply, footer, live_reply
from gateway.scopes import Scopes
from gateway.settings import Settings
from gateway.signs import THINKING, Signs
from gateway.staging import Origin
from gateway.team_writes import TeamWrites, of_sender, turn_run
from gateway.tools.definitions import DEFINITIONS
from gateway.tools.guard import Hears, Record, Removals, TurnWitness, author_guard, unrecorded
from gateway.tools.toolbox import Toolbox
from gateway.usage import Counted, Usage
from memory.agent_memory import recall_for
from memory.extract import writable
from memory.instructions.layers import Instructions
from memory.ports import UNMETERED, Clock, Meter, Outcome, Rights
from memory.prompt import date_note, tail_note
from memory.provenance import Spoken, Witness
from memory.recall import Recall, Recalled
from memory.scan import Scanner
from memory.scope import Scope

log = structlog.get_logger(__name__)

STOP = "stop"
"""The message with which a turn's task is cancelled when its person said /stop."""
STOPPED = "(stopped)"
TOO_SLOW = "(this took too long, so I stopped here)"
BROKEN = "_The model can't take up our conversation as it was: we begin a new one. What I noted of it is kept._"
LEFT_OUT = "The model could not take what came along, so it is left out."
FULL = "_This conversation has grown too long to go on with: we begin a new one. What matters of it I keep in memory._"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Prepared:
    """What a turn sends: the session with the new message at its tail."""

    session: Session
    line: Line
    recalled: tuple[Recalled, ...]
    today: str
    told_notes_at: float
    began: float
    """When, in seconds of a clock that is never set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Equipped:
    """What a turn acts with, and what has seen it act."""

    toolbox: Toolbox
    rules: TouchedRules
    witness: Witness
    removals: Removals


@dataclass(frozen=True, kw_only=True)
class Turns:
    """Runs turns. Raises `ModelFault` if the model gave no answer, `ClaimLost` if another worker has the message."""

    settings: Settings
    database: Database
    inbox: Inbox
    outbox: Outbox
    history: History
    provenance: Provenance
    usage: Usage
    scopes: Scopes
    model: Model
    opening: Opening
    scanner: Scanner
    recall: Recall
    instructions: Instructions
    subagents: Subagents
    team_writes: TeamWrites
    commands: Commands
    buttons: Buttons
    attachments: Attachments
    approvals: Approvals
    asked: frozenset[str]
    """The tools that wait for a person's word."""
    adapters: Mapping[str, Adapter]
    signs: Signs
    clock: Clock
    meter: Meter = UNMETERED
    record_forgotten: Record = unrecorded

    async def run(self, claim: Claim) -> None:
        """Answer one message, a command or an ordinary one."""
        with self.signs.answering(claim):
            await self._run(claim)

    async def _run(self, claim: Claim) -> None:
        if claim.stopped:
            await self.inbox.bury(claim, error=STOP, replies=self.posts(claim, STOPPED))
            return
        is_command = self.commands.is_command(claim.inbound.own_words)
        if not is_command:
            self.signs.says(claim, THINKING)
        scope = await self.scopes.of(claim.inbound.address, claim.principal)
        await (self._command(claim, scope) if is_command else self._chat(claim, scope))

    async def _command(self, claim: Claim, scope: Scope) -> None:
        reply = await self.commands.run(claim, scope)
        offer = self.buttons.offer(
            reply.choices,
            principal=claim.principal,
            conversation=claim.inbound.address,
            accounts=[claim.inbound.account],
            alone=claim.inbound.only_for_sender,
        )
        # A long one takes its time to lay out, which is not for a transaction.
        answer = await asyncio.to_thread(self.posts, claim, reply.text, buttons=offer.buttons)
        async with self.database.write() as session:
            await self.inbox.finish(session, claim)
            if reply.ends_session:
                await self.history.end_session(session, str(claim.inbound.address))
            offer.keep(session)
            await self.outbox.enqueue(session, answer)
        self.outbox.wake()

    async def _chat(self, claim: Claim, scope: Scope) -> None:
        claim, came = await self._take(claim)
        if not claim.inbound.text and came.is_nothing and came.remarks:
            await self._answer_at_once(claim, " ".join(came.remarks))
            return
        try:
            await self._converse(claim, scope, came)
        except Declined:
            raise
        except ModelRefused as error:
            log.warning("conversation_refused", error=error, came=len(came.blocks))
            if came.blocks:  # it may be a picture or document that it can't take: once more without
                await self._without(came, claim, scope)
            else:  # it may be what was said before
                await self._begin_anew(claim, scope, FULL if isinstance(error, TooLong) else BROKEN)

    async def _take(self, claim: Claim) -> tuple[Claim, Came]:
        """Return what came along with a message, and the message with what was spoken among its words."""
        inbound = claim.inbound
        if not inbound.attachments:
            return claim, NOTHING
        adapter = self.adapters[inbound.address.platform]
        self.signs.says(claim, "looking at what came along…")
        came = await self.attachments.take(inbound, claim.principal, adapter)
        text = "\n".join(filter(None, (inbound.text, came.spoken)))
        return replace(claim, inbound=replace(inbound, text=text)), came

    async def _without(self, came: Came, claim: Claim, scope: Scope) -> None:
        """Answer a message without what came along; where that is refused too, what was said before is at fault."""
        left_out = replace(came, blocks=(), remarks=(*came.remarks, LEFT_OUT))
        try:
            await self._converse(claim, scope, left_out)
        except ModelRefused as error:
            await self._begin_anew(claim, scope, FULL if isinstance(error, TooLong) else BROKEN, left_out)

    async def _answer_at_once(self, claim: Claim, word: str) -> None:
        async with self.database.write() as session:
            await self.inbox.finish(session, claim)
            await self.outbox.enqueue(session, self.posts(claim, word))
        self.outbox.wake()

    async def _begin_anew(self, claim: Claim, scope: Scope, word: str, came: Came = NOTHING) -> None:
        """Put the message in a new session; if it is refused there too, the old one was not at fault and goes on."""
        conversation = str(claim.inbound.address)
        async with self.database.write() as session:
            former = await self.history.end_session(session, conversation)
        try:
            await self._converse(claim, scope, came)
        except ModelRefused:
            async with self.database.write() as session:
                await self.history.take_back(session, conversation, former)
            raise
        await self.outbox.send(self._notice(claim, word))

    async def _converse(self, claim: Claim, scope: Scope, came: Came) -> None:
        async with self._live(claim) as reply:
            began = self.clock()
            scope, session = await self.opening.session(claim, scope)
            prepared = await self._prepare(claim, scope, session, came)
            equipped = self._equip(claim, scope, session, began=began)
            counted = Counted(self.model)
            try:
                finished = await self._answer(prepared, counted, equipped.toolbox, reply)
            except (ModelFault, asyncio.CancelledError):
                await self._record_lost(claim, counted.tokens)
                raise
        await self._commit(claim, scope, prepared, equipped, finished)

    def _live(self, claim: Claim) -> AbstractAsyncContextManager[LiveReply]:
        inbound = claim.inbound
        adapter, first = self.adapters[inbound.address.platform], self.posts(claim, "…")[0]
        return live_reply(adapter, self.outbox, first, inbound.account, says=partial(self.signs.says, claim))

    async def _prepare(self, claim: Claim, scope: Scope, session: Session, came: Came) -> _Prepared:
        now, began = self.clock(), time.monotonic()
        local = scope_now(scope, now)
        recalled = await recall_for(
            self.recall,
            scope,
            claim.inbound.text,
            agents=(await self.subagents.known(scope)).found,
            home=self.settings.memory_base,
            shown=session.shown,
            recent_tools=recent_tools(session.messages),
        )
        changed = await changed_since_told(self.scanner, scope, session, began=began)
        notes = [_date(session, local), f"Sent at {local:%H:%M}.", tail_note(changed.changed, changed.gone)]
        line = Line(
            role="user",
            content=user_content(claim.inbound, notes=notes, recalled=recalled, came=came),
            speaker=clean_name(claim.inbound.name),
            said=claim.inbound.own_words,
        )
        return _Prepared(
            session=session,
            line=line,
            recalled=recalled,
            today=local.date().isoformat(),
            told_notes_at=now.timestamp(),
            began=began,
        )

    async def _answer(self, prepared: _Prepared, model: Counted, toolbox: Toolbox, reply: LiveReply) -> Finished:
        request, rounds = self._request(prepared), self.settings.model.max_tool_rounds
        try:
            async with asyncio.timeout(self.settings.model.turn_minutes * 60):
                return await loop.to_the_end(model, request, toolbox, max_rounds=rounds, told=reply.show)
        except TimeoutError:
            return _stopped(reply.text, TOO_SLOW, tokens=model.tokens)
        except asyncio.CancelledError as cancelled:
            if cancelled.args != (STOP,):
                raise
            return _stopped(reply.text, STOPPED, tokens=model.tokens)

    async def _record_lost(self, claim: Claim, tokens: Tokens) -> None:
        """Record what was used for an answer of which nothing is kept."""
        if not tokens.total:
            return
        with anyio.CancelScope(shield=True):
            await self.usage.record(
                principal=claim.principal, purpose="chat", model=self.settings.model.chat, tokens=tokens
            )

    async def _commit(
        self, claim: Claim, scope: Scope, prepared: _Prepared, equipped: _Equipped, finished: Finished
    ) -> None:
        toolbox, removals = equipped.toolbox, equipped.removals
        turned = Turned(
            lines=(prepared.line, *finished.lines),
            recalled=prepared.recalled,
            rules=equipped.rules.new,
            # After a write that failed the session's own run has to look at everything once more.
            written=() if toolbox.failed else toolbox.written,
            opened=toolbox.opened,
            broke_off=finished.outcome is not Outcome.COMPLETED,
            told_date=prepared.today,
            told_notes_at=prepared.told_notes_at,
            inbox_id=claim.id,
        )
        below = self._footer(prepared, finished)
        # A long one takes its time to lay out.
        answer = await asyncio.to_thread(self.posts, claim, finished.text, below=below)
        async with self.database.write() as session:
            await self.inbox.finish(session, claim)
            await self.history.add_turn(session, prepared.session, turned)
            await self.provenance.record_turn(
                session, prepared.session.id, scope, equipped.witness, forgotten=removals.recorded, back=removals.back
            )
            self.usage.add(
                session,
                principal=claim.principal,
                purpose="chat",
                model=self.settings.model.chat,
                tokens=finished.tokens,
            )
            await self.outbox.enqueue(session, answer)
            await self.team_writes.ask(
                session,
                scope,
                str(claim.inbound.address),
                run=turn_run(claim.id),
                key=f"{claim.id}-team",
                only_for=claim.inbound.account if claim.inbound.only_for_sender else None,
            )
            if finished.context > self.settings.model.session_tokens:
                await self.history.end_session(session, str(claim.inbound.address))
                await self.outbox.enqueue(session, self._notice(claim, FULL))
        self.outbox.wake()

    def _equip(self, claim: Claim, scope: Scope, session: Session, *, began: datetime) -> _Equipped:
        rights = _rights(scope, self.settings)
        rules = TouchedRules(self.instructions, scope, session.shown.names)
        removals = Removals(self.record_forgotten)
        hears = partial(self.provenance.said, session.id, _spoken(claim, began), principal=scope.principal)
        witnessed = partial(
            TurnWitness,
            hears,
            self.provenance.sources,
            erased=partial(self.provenance.erased_since, scope, began, besides=removals.recorded),
            today=scope_now(scope, began).date().isoformat(),
        )
        sayers = partial(_in_words, hears) if claim.inbound.forwarded_from else hears
        witness = witnessed(keep=partial(self.provenance.keep, scope, sayers))
        guard = author_guard(
            scope,
            self.provenance.sources,
            speakers=[str(claim.inbound.account)],
            owners=self.settings.access.owners,
        )
        authors = of_sender(claim.inbound, scope)
        asking = Asking(approvals=self.approvals, claim=claim, session_id=session.id, tools=self.asked)
        toolbox = Toolbox(
            scope,
            rights,
            self.team_writes.signed(authors),
            self.clock,
            agent=self.subagents.tool(scope, rights, guard=guard, permitted=asking.allowed),
            after_read=rules,
            guard=guard,
            watches=(witness, removals),
            meter=self.meter,
            drafts=self.team_writes.drafts(scope, _origin(claim), authors, watch=witnessed()),
            allowed=asking.allowed,
        )
        return _Equipped(toolbox=toolbox, rules=rules, witness=witness, removals=removals)

    def _request(self, prepared: _Prepared) -> Request:
        message = {"role": prepared.line.role, "content": prepared.line.content}
        return Request(
            model=self.settings.model.chat,
            max_tokens=self.settings.model.max_tokens,
            system=prepared.session.system,
            tools=list(DEFINITIONS),
            messages=[*prepared.session.messages, message],
        )

    def _notice(self, claim: Claim, word: str) -> list[Post]:
        return [replace(post, reply_to="") for post in self.posts(claim, word, kind="cut")]

    def _footer(self, prepared: _Prepared, finished: Finished) -> str:
        if not self.settings.reply.footer or finished.outcome is Outcome.ABORTED:
            return ""
        return footer(
            model=self.settings.model.chat,
            tokens=finished.tokens.total,
            notes=len(prepared.recalled),
            seconds=time.monotonic() - prepared.began,
        )

    def posts(
        self, claim: Claim, markdown: str, *, kind: str = "", buttons: Sequence[Button] = (), below: str = ""
    ) -> list[Post]:
        """Return the parts that answer this message. The same claim and kind give the same keys on every run.

        `below` is a line of plain text that is no part of the answer and stands under its last part.
        """
        inbound = claim.inbound
        adapter = self.adapters[inbound.address.platform]
        parts = adapter.render(markdown, buttons=buttons)
        if below:
            parts[-1] = adapter.labelled(parts[-1], below)
        return posts_for(
            inbound,
            parts,
            key=f"{claim.id}{kind and '-' + kind}",
            principal=claim.principal,
            reply_to=inbound.message_id,
            message_id="" if kind else inbound.in_place_of,
        )


def _stopped(text: str, why: str, *, tokens: Tokens) -> Finished:
    """Keep what was written so far, so that the conversation knows of it."""
    said = f"{text}\n\n{why}".strip()
    line = Line(role="assistant", content=[{"type": "text", "text": said}], said=said)
    return Finished(outcome=Outcome.ABORTED, text=said, lines=(line,), tokens=tokens, turns=0)


def _origin(claim: Claim) -> Origin:
    inbound = claim.inbound
    return Origin(
        run=turn_run(claim.id),
        conversation=str(inbound.address),
        account=inbound.account,
        speaker=clean_name(inbound.name),
        inbox_id=claim.id,
    )


def _spoken(claim: Claim, now: datetime) -> Spoken:
    inbound = claim.inbound
    name = clean_name(inbound.name)
    return Spoken(message_id=0, account=str(inbound.account), speaker=name, text=inbound.own_words, at=now)


async def _in_words(hears: Hears) -> Sequence[Spoken]:
    """Return what was said without what was only passed on: who does that is not the source of anything in it."""
    return [spoken for spoken in await hears() if spoken.text]


def _rights(scope: Scope, settings: Settings) -> Rights:
    if not scope.enabled:
        return Rights(read=tuple(root for root in scope.readable if root != scope.memory_dir), write=())
    return Rights(read=scope.readable, write=writable(scope, settings.memory))


def _date(session: Session, local: datetime) -> str:
    before = date.fromisoformat(session.told_date)
    return date_note(local.date(), before=before)
