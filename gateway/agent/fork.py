"""The model as memory asks for it: side queries, forks of a session, fresh runs (`memory.ports.Ask`, `Fork`, `Run`)."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import anyio
import structlog

from gateway.agent import loop
from gateway.agent.events import TextSoFar, ToolEnded, ToolStarted
from gateway.errors import ModelFault, ModelRefused
from gateway.history import Session
from gateway.llm.client import Model, Reply, Request, Tokens
from gateway.settings import ModelSettings
from gateway.tools.definitions import DEFINITIONS
from gateway.tools.toolbox import Taken, Toolbox
from gateway.usage import Usage
from memory.errors import SideCallFailed
from memory.notes import Notes, Watch
from memory.ports import UNLIMITED, UNMETERED, Budget, Changes, Clock, Meter, Outcome, Progress, Rights, RunReport
from memory.scope import Scope
from memory.team_notes import TeamNotes

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Equipment:
    """What a run's tools work with, besides its rights; each is that of `gateway.tools.toolbox.Toolbox`.

    Without `notes` they are those of every run.
    """

    watches: tuple[Watch, ...] = ()
    guard: Watch | None = None
    notes: Notes | None = None
    drafts: TeamNotes | None = None
    taken: Taken | None = None


_PLAIN = Equipment()


class Runs:
    """Everything that memory has the model do, besides answering people."""

    def __init__(
        self,
        model: Model,
        settings: ModelSettings,
        notes: Notes,
        usage: Usage,
        clock: Clock,
        *,
        meter: Meter = UNMETERED,
    ) -> None:
        self._model = model
        self._settings = settings
        self._notes = notes
        self._usage = usage
        self._clock = clock
        self._meter = meter

    async def ask(
        self,
        scope: Scope,
        *,
        purpose: str,
        system: str,
        user: str,
        schema: Mapping[str, Any],
        max_tokens: int,
    ) -> Mapping[str, Any]:
        """Put a side query; see `memory.ports.Ask`."""
        request = Request(
            model=self._settings.recall,
            max_tokens=max_tokens,
            system=_text(system),
            tools=[],
            messages=[{"role": "user", "content": _text(user)}],
            output_schema=schema,
        )
        try:
            reply = await self._model.ask(request)
            await self._record(scope, purpose, self._settings.recall, reply.tokens)
            answer = json.loads(reply.text)
        except ModelFault as error:
            raise SideCallFailed(str(error)) from error
        except ValueError as error:  # no JSON, or a number of too many digits
            raise SideCallFailed("the answer is not JSON") from error
        if not isinstance(answer, dict):
            raise SideCallFailed("the answer is not a JSON object")
        return answer

    def fork_of(self, session: Session, scope: Scope, equipment: Equipment = _PLAIN) -> "SessionFork":
        """Return the fork that extends this session's last request."""
        return SessionFork(runs=self, session=session, scope=scope, equipment=equipment)

    async def run(
        self,
        scope: Scope,
        *,
        purpose: str,
        system: str,
        prompt: str,
        rights: Rights,
        max_turns: int,
        progress: Progress | None = None,
        changes: Changes | None = None,
        budget: Budget = UNLIMITED,
    ) -> RunReport:
        """Do a fresh run; see `memory.ports.Run`."""
        return await self.drive(
            scope,
            purpose=purpose,
            system=_text(system),
            before=[],
            prompt=prompt,
            rights=rights,
            max_turns=max_turns,
            progress=progress,
            budget=budget,
            equipment=_PLAIN if changes is None else Equipment(watches=(changes,)),
        )

    async def drive(
        self,
        scope: Scope,
        *,
        purpose: str,
        system: list[dict[str, Any]],
        before: Sequence[dict[str, Any]],
        prompt: str,
        rights: Rights,
        max_turns: int,
        progress: Progress | None = None,
        budget: Budget = UNLIMITED,
        equipment: Equipment = _PLAIN,
    ) -> RunReport:
        """Send `before` and one more user message, and run to the end."""
        toolbox = Toolbox(
            scope,
            rights,
            equipment.notes or self._notes,
            self._clock,
            guard=equipment.guard,
            watches=equipment.watches,
            meter=self._meter,
            run=purpose,
            drafts=equipment.drafts,
            taken=equipment.taken,
        )
        request = Request(
            model=self._settings.chat,
            max_tokens=self._settings.max_tokens,
            system=system,
            tools=list(DEFINITIONS),
            messages=[*before, {"role": "user", "content": _text(prompt)}],
        )
        telling = _Telling(progress, toolbox)
        model = _Metered(self._model, budget, partial(self._record, scope, purpose, self._settings.chat))
        began, outcome = time.monotonic(), Outcome.FAILED
        try:
            finished = await loop.to_the_end(model, request, toolbox, max_rounds=max_turns, told=telling.note)
            outcome = finished.outcome
        except _Spent:
            outcome = Outcome.SPENT
            log.warning("run_spent", purpose=purpose, tokens=model.tokens.total)
            return _report(outcome, "", model.requests, model.tokens, toolbox)
        except ModelRefused as error:
            outcome = Outcome.REFUSED
            log.error("run_refused", purpose=purpose, error=error)
            return _report(outcome, "", model.requests, model.tokens, toolbox)
        except ModelFault as error:
            log.warning("run_failed", purpose=purpose, error=error)
            return _report(outcome, "", model.requests, model.tokens, toolbox)
        except asyncio.CancelledError:
            outcome = Outcome.ABORTED
            with anyio.CancelScope(shield=True):
                await telling.tell()
            raise
        finally:
            self._meter.observe("run_seconds", time.monotonic() - began, purpose=purpose, outcome=outcome.value)
        whole = finished.tokens.input + finished.tokens.cache_read + finished.tokens.cache_write
        if whole:
            self._meter.observe("run_cache_hit_ratio", finished.tokens.cache_read / whole, purpose=purpose)
        return _report(finished.outcome, finished.text, finished.turns, finished.tokens, toolbox)

    async def _record(self, scope: Scope, purpose: str, model: str, tokens: Tokens) -> None:
        for kind, number in asdict(tokens).items():
            self._meter.count("run_tokens", number, purpose=purpose, kind=kind)
        await self._usage.record(principal=scope.principal, purpose=purpose, model=model, tokens=tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionFork:
    """A fork of one finished turn; see `memory.ports.Fork`."""

    runs: Runs
    session: Session
    scope: Scope
    equipment: Equipment

    async def __call__(self, prompt: str, *, rights: Rights, max_turns: int) -> RunReport:
        """Append the prompt to the session's request and run."""
        return await self.runs.drive(
            self.scope,
            purpose="extraction",
            system=self.session.system,
            before=self.session.messages,
            prompt=prompt,
            rights=rights,
            max_turns=max_turns,
            equipment=self.equipment,
        )


class _Spent(ModelFault):
    """The budget lets no further request through."""


class _Metered:
    """The model for one run: records the tokens of each answer as it comes, and asks the budget before each request.

    So what a run has used counts also if it fails, is stopped or is killed, and so does an answer that breaks off: a
    night of those must not be without end.
    """

    def __init__(self, model: Model, budget: Budget, record: Callable[[Tokens], Awaitable[None]]) -> None:
        self._model = model
        self._budget = budget
        self._record = record
        self.tokens = Tokens()
        self.requests = 0

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        """Ask the model; raises `_Spent` instead if there are no tokens left."""
        if not await self._budget(self.tokens.total):
            raise _Spent("the tokens for it are used up")
        self.requests += 1
        lost: list[Tokens] = []
        try:
            async with aclosing(self._model.stream(request, broken_off=lost.append)) as stream:
                async for event in stream:
                    if isinstance(event, Reply):
                        await self._count(event.tokens)
                    yield event
        finally:
            with anyio.CancelScope(shield=True):
                for tokens in lost:
                    await self._count(tokens)

    async def _count(self, tokens: Tokens) -> None:
        self.tokens += tokens
        await self._record(tokens)


class _Telling:
    """Tells progress after each tool."""

    def __init__(self, progress: Progress | None, toolbox: Toolbox) -> None:
        self._progress = progress
        self._toolbox = toolbox
        self._turn = 0
        self._tools = 0
        self._text = ""

    async def note(self, event: TextSoFar | ToolStarted | ToolEnded) -> None:
        match event:
            case TextSoFar(text=text):
                self._text = text
            case ToolEnded(turn=turn):
                self._turn, self._tools = turn, self._tools + 1
                await self.tell()

    async def tell(self) -> None:
        if self._progress is not None:
            await self._progress(turn=self._turn, text=self._text, tools=self._tools, written=self._toolbox.written)


def _report(outcome: Outcome, text: str, turns: int, tokens: Tokens, toolbox: Toolbox) -> RunReport:
    return RunReport(
        outcome=outcome,
        written=toolbox.written,
        failed=toolbox.failed,
        left_out=toolbox.left_out,
        opened=tuple(toolbox.opened),
        text=text,
        turns=turns,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
    )


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]
