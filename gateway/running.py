"""The gateway while it runs: what is started, in which order it ends, what keeps it from working."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog
from starlette.applications import Starlette

from adapters.base import Adapter, Identity
from adapters.errors import AdapterError, Transient
from adapters.serving import serving
from adapters.waiting import happens
from gateway.core import Core
from gateway.errors import StartRefused
from gateway.extraction import Extractions
from gateway.inbox import Inbox
from gateway.intake import Intake
from gateway.signs import Signs
from gateway.worker import Worker
from memory.lease_names import EXTRACTING

log = structlog.get_logger(__name__)

_SETTLE_SECONDS = 20.0  # how long a stopping gateway waits for turns, and then for deliveries
_LATE_DELIVERY_SECONDS = 600.0
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """Everything that runs."""

    core: Core
    adapters: Mapping[str, Adapter]
    inbox: Inbox
    intake: Intake
    worker: Worker
    signs: Signs
    extractions: Extractions
    identities: dict[str, Identity]
    web: Starlette

    async def run(self, stop: asyncio.Event, *, announce: Callable[[str], None]) -> None:
        """Serve until `stop` is set, then finish what is under way. Raises `StartRefused` if a part can't start.

        It does not start either where this machine's clock is too far from the database's for leases to hold.

        On SQLite the caller holds the home's lock, so whatever is claimed was claimed by a process that died.
        """
        core = self.core
        if why := await core.night.database_clock.apart():
            raise StartRefused(why)
        if core.database.is_sqlite:
            await self.inbox.take_over()
            await core.outbox.take_over()
            await core.leases.take_over(EXTRACTING)  # nothing but a gateway extracts
        async with asyncio.TaskGroup() as group:
            turns = group.create_task(self.worker.run())
            extractions = group.create_task(self.extractions.run())
            deliveries = group.create_task(core.outbox.deliver(self.adapters))
            settled = asyncio.Event()
            try:
                async with (
                    self._serving_http(announce),
                    core.night.clock,
                    core.night.watching(),
                    asyncio.TaskGroup() as doors,
                ):
                    for name, adapter in self.adapters.items():
                        doors.create_task(self._hold_open(name, adapter, settled, announce))
                    await stop.wait()
                    self.intake.close()  # nothing comes in any more; what goes out still needs the platforms
                    await self._settle(turns, extractions, deliveries)
                    settled.set()
            finally:
                await self._settle(turns, extractions, deliveries)

    async def _settle(
        self, turns: "asyncio.Task[None]", extractions: "asyncio.Task[None]", deliveries: "asyncio.Task[None]"
    ) -> None:
        """Finish what is under way, each part after those that make work for it; what is done already takes no time."""
        self.worker.close()
        await _finish(turns, _SETTLE_SECONDS)
        self.extractions.close()
        await _finish(extractions, self.core.settings.memory.extraction_drain)
        self.core.outbox.close()
        await _finish(deliveries, _SETTLE_SECONDS)
        await self.signs.aclose()

    @asynccontextmanager
    async def _serving_http(self, announce: Callable[[str], None]) -> AsyncIterator[None]:
        host, port = self.core.settings.http_address
        async with AsyncExitStack() as stack:
            try:
                base = await stack.enter_async_context(serving(self.web, host=host, port=port))
            except OSError as error:
                raise StartRefused(
                    f"{host}:{port} can't be listened on: {error.strerror}",
                    cure="Stop what uses it, or set REVERIE_HTTP to another host:port.",
                ) from error
            announce(f"HTTP      on, {base} (/healthz, /readyz)")
            yield

    async def _hold_open(
        self, name: str, adapter: Adapter, stop: asyncio.Event, announce: Callable[[str], None]
    ) -> None:
        """Receive from one platform until `stop`; a platform that can't be reached yet is tried again."""
        title, pause = name.capitalize(), 1.0
        while not stop.is_set():
            try:
                async with adapter.serve(self.intake) as identity:
                    self.identities[name] = identity
                    announce(f"{title:9} on, as {identity.name}" + (f" ({identity.note})" if identity.note else ""))
                    await stop.wait()
            except Transient as error:
                announce(f"{title:9} not yet: {error}; trying again in {pause:.0f} s")
                await happens(stop, within=pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except AdapterError as error:
                raise StartRefused(f"{title} can't be started: {error}") from error

    async def faults(self) -> Mapping[str, str]:
        """Return what keeps the gateway from working; empty if nothing does."""
        now = self.core.clock()
        found = {name: health.detail for name, adapter in self.adapters.items() if not (health := adapter.health()).ok}
        if not self.core.night.clock.healthy(now):
            found["scheduler"] = "its clock has not ticked lately"
        if why := await self.core.night.database_clock.apart():
            found["clock"] = why
        oldest = await self.core.outbox.oldest_waiting()
        if oldest is not None and now.timestamp() - oldest > _LATE_DELIVERY_SECONDS:
            found["outbox"] = "an answer has waited for delivery for more than ten minutes"
        return found


async def _finish(task: "asyncio.Task[None]", seconds: float) -> None:
    """Wait for a task that was asked to end; cancel it when its time is up."""
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        log.warning("cut_short", part=task.get_coro().__qualname__)  # type: ignore[union-attr]
        task.cancel()
        await asyncio.wait({task})
