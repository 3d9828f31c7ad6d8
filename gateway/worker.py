"""The worker: claims messages, runs their turns side by side, and decides what becomes of one that failed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import structlog
from sqlalchemy.exc import DBAPIError

from gateway.consumer import Consumer
from gateway.errors import ClaimLost, ModelRefused, ModelUnavailable
from gateway.inbox import Claim, Inbox
from gateway.outbox import Post
from gateway.turn import STOP, STOPPED
from memory.ports import Clock

log = structlog.get_logger(__name__)

_BEAT_SECONDS = 3.0  # how often a lease is renewed, and a /stop from another process noticed
_FIRST_WAIT = 2.0
_LONGEST_WAIT = 60.0
_FAULTS_ALLOWED = 3  # attempts at a message that fails for a reason of ours
_CRASHES_ALLOWED = 20  # attempts after which a message is taken for the cause that the process dies
_GIVEN_UP = "Something went wrong on my side and I could not answer this. The operator finds the cause in my log."


class Answers(Protocol):
    """What the worker asks of `gateway.turn.Turns`."""

    @property
    def adapters(self) -> Mapping[str, Any]:
        """The platforms that are on."""

    async def run(self, claim: Claim) -> None:
        """Answer one message and commit that; raises `ModelFault`, `ClaimLost`, or whatever went wrong."""

    def posts(self, claim: Claim, markdown: str, *, kind: str = "") -> list[Post]:
        """Return the parts that tell the person something about this message."""


class Worker:
    """Runs turns until `close`; conversations in parallel, each in its order. `beat` is in seconds."""

    def __init__(
        self,
        inbox: Inbox,
        turns: Answers,
        clock: Clock,
        *,
        concurrency: int,
        patience: float,
        beat: float = _BEAT_SECONDS,
    ) -> None:
        self._inbox = inbox
        self._turns = turns
        self._clock = clock
        self._patience = patience
        self._beat = beat
        self._running: dict[str, _Running] = {}
        self._closing = False
        self._consumer = Consumer(self._next, self._one, arrived=inbox.arrived, concurrency=concurrency)

    def stop(self, token: str) -> None:
        """Cancel the turn of the claim with this token, if it runs here; the next message is never touched."""
        running = self._running.get(token)
        if running is not None:
            running.stop()

    def lose(self, token: str) -> None:
        """Drop the turn of the claim with this token, if it runs here: its message was put back and is taken anew."""
        running = self._running.get(token)
        if running is not None:
            running.task.cancel()

    def close(self) -> None:
        """Take no more messages; `run` returns when the turns under way have ended."""
        self._closing = True
        self._consumer.close()

    async def run(self) -> None:
        """Claim and run."""
        await self._consumer.run()

    async def _next(self) -> Claim | None:
        return None if self._closing else await self._inbox.claim(self._turns.adapters)

    async def _one(self, claim: Claim) -> None:
        if claim.attempts > _CRASHES_ALLOWED:
            log.error("turn_given_up", inbox_id=claim.id, attempt=claim.attempts)
            await self._settle(claim, _GIVEN_UP, error="the process died each time")
            return
        log.info("turn_started", inbox_id=claim.id, platform=claim.inbound.address.platform, attempt=claim.attempts)
        running = _Running(asyncio.create_task(self._turns.run(claim)))
        self._running[claim.token] = running
        try:
            async with self._heartbeat(claim, running):
                await running.task
            log.info("turn_done", inbox_id=claim.id)
        except asyncio.CancelledError:
            if not running.stopped:
                raise
            await self._settle(claim, STOPPED, error=STOP)
        except ClaimLost:
            log.warning("claim_lost", inbox_id=claim.id)
        except ModelUnavailable as error:
            await self._wait_for_model(claim, error)
        except ModelRefused as error:
            await self._settle(claim, f"I can't answer this: {error.public}.", error=str(error))
        except Exception as error:  # edge: one turn must not end the others
            log.exception("turn_fault", inbox_id=claim.id)
            await self._fault(claim, error)
        finally:
            del self._running[claim.token]

    @asynccontextmanager
    async def _heartbeat(self, claim: Claim, running: "_Running") -> AsyncIterator[None]:
        beating = asyncio.create_task(self._keep(claim, running))
        try:
            yield
        finally:
            beating.cancel()
            running.task.cancel()
            await asyncio.wait({beating, running.task})  # a turn is over when it has put down what it held

    async def _keep(self, claim: Claim, running: "_Running") -> None:
        while True:
            await asyncio.sleep(self._beat)
            try:
                if await self._inbox.renew(claim):
                    running.stop()
            except ClaimLost:
                log.warning("claim_lost", inbox_id=claim.id)
                running.task.cancel()
                return
            except DBAPIError as error:  # away for a moment: the lease is longer than a beat
                log.warning("renewal_failed", inbox_id=claim.id, error=error)

    async def _wait_for_model(self, claim: Claim, error: ModelUnavailable) -> None:
        """Keep the message and say so once; answer it when the model is back, within bounds."""
        waited = self._clock().timestamp() - claim.received_at
        log.warning("model_unavailable", inbox_id=claim.id, waited=round(waited, 1), error=error)
        if waited >= self._patience:
            word = f"I could not answer this: {error.public}. Please send it again later."
            await self._settle(claim, word, error=str(error))
            return
        word = f"I can't think right now: {error.public}. Your message is kept, and I answer as soon as I can."
        pause = max(error.retry_after or 0.0, min(max(waited, _FIRST_WAIT), _LONGEST_WAIT))
        with suppress(ClaimLost):
            await self._inbox.retry(
                claim,
                after=min(pause, self._patience - waited),
                error=str(error),
                attempts=0,  # that the model is away is not this message's fault
                replies=self._turns.posts(claim, word, kind="down"),
            )

    async def _fault(self, claim: Claim, error: Exception) -> None:
        fault = type(error).__name__
        if claim.attempts >= _FAULTS_ALLOWED:
            await self._settle(claim, _GIVEN_UP, error=fault)
            return
        with suppress(ClaimLost):
            await self._inbox.retry(claim, after=2.0**claim.attempts, error=fault, attempts=claim.attempts)

    async def _settle(self, claim: Claim, word: str, *, error: str) -> None:
        """Set the message aside with a word, which takes the place of what was shown of an answer."""
        with suppress(ClaimLost):
            await self._inbox.bury(claim, error=error, replies=self._turns.posts(claim, word))


class _Running:
    """A turn under way."""

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self.task = task
        self.stopped = False

    def stop(self) -> None:
        if not self.stopped:  # a second one would hit the turn while it stores what it had written
            self.stopped = True
            self.task.cancel(STOP)
