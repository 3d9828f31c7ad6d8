"""The model as memory asks for it: side queries, forks of a session, fresh runs (`memory.ports.Ask`, `Fork`, `Run`)."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import structlog

from gateway.agent import loop
from gateway.agent.events import Finished, TextSoFar, ToolEnded, ToolStarted
from gateway.errors import ModelFault, ModelRefused
from gateway.history import Session
from gateway.llm.client import Model, Request, Tokens
from gateway.settings import ModelSettings
from gateway.tools.definitions import DEFINITIONS
from gateway.tools.toolbox import Toolbox
from gateway.usage import Usage
from memory.errors import SideCallFailed
from memory.notes import Notes, Watch
from memory.ports import UNMETERED, Clock, Meter, Outcome, Progress, Rights, RunReport
from memory.scope import Scope

log = structlog.get_logger(__name__)


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
        except json.JSONDecodeError as error:
            raise SideCallFailed("the answer is not JSON") from error
        if not isinstance(answer, dict):
            raise SideCallFailed("the answer is not a JSON object")
        return answer

    def fork_of(self, session: Session, scope: Scope, *, watch: Watch | None = None) -> "SessionFork":
        """Return the fork that extends this session's last request; `watch` sees what it changes."""
        return SessionFork(self, session, scope, watch)

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
        watch: Watch | None = None,
    ) -> RunReport:
        """Send `before` and one more user message, and run to the end."""
        notes = self._notes if watch is None else self._notes.watched(watch)
        toolbox = Toolbox(scope, rights, notes, self._clock, meter=self._meter, run=purpose)
        request = Request(
            model=self._settings.chat,
            max_tokens=self._settings.max_tokens,
            system=system,
            tools=list(DEFINITIONS),
            messages=[*before, {"role": "user", "content": _text(prompt)}],
        )
        telling = _Telling(progress, toolbox)
        began, outcome = time.monotonic(), Outcome.FAILED
        try:
            finished = await self._to_the_end(request, toolbox, telling, max_turns=max_turns)
            outcome = finished.outcome
        except ModelRefused as error:
            outcome = Outcome.REFUSED
            log.error("run_refused", purpose=purpose, error=error)
            return _report(Outcome.REFUSED, "", 0, Tokens(), toolbox.written)
        except ModelFault as error:
            log.warning("run_failed", purpose=purpose, error=error)
            return _report(Outcome.FAILED, "", 0, Tokens(), toolbox.written)
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
        await self._record(scope, purpose, self._settings.chat, finished.tokens)
        return _report(finished.outcome, finished.text, finished.turns, finished.tokens, toolbox.written)

    async def _to_the_end(self, request: Request, toolbox: Toolbox, telling: "_Telling", *, max_turns: int) -> Finished:
        async with aclosing(loop.run(self._model, request, toolbox, max_rounds=max_turns)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    return event
                await telling.note(event)
        raise AssertionError("the loop ends with Finished")

    async def _record(self, scope: Scope, purpose: str, model: str, tokens: Tokens) -> None:
        for kind, number in asdict(tokens).items():
            self._meter.count("run_tokens", number, purpose=purpose, kind=kind)
        await self._usage.record(principal=scope.principal, purpose=purpose, model=model, tokens=tokens)


class SessionFork:
    """A fork of one finished turn; see `memory.ports.Fork`."""

    def __init__(self, runs: Runs, session: Session, scope: Scope, watch: Watch | None) -> None:
        self._runs = runs
        self._session = session
        self._scope = scope
        self._watch = watch

    async def __call__(self, prompt: str, *, rights: Rights, max_turns: int) -> RunReport:
        """Append the prompt to the session's request and run."""
        return await self._runs.drive(
            self._scope,
            purpose="extraction",
            system=self._session.system,
            before=self._session.messages,
            prompt=prompt,
            rights=rights,
            max_turns=max_turns,
            watch=self._watch,
        )


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


def _report(outcome: Outcome, text: str, turns: int, tokens: Tokens, written: tuple[Path, ...]) -> RunReport:
    return RunReport(
        outcome=outcome,
        written=written,
        text=text,
        turns=turns,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write,
    )


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]
