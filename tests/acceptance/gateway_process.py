"""The gateway as a process of its own: started, watched, stopped, killed."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import httpx

from tests.waiting import HANGS

PATIENCE = HANGS
"""Seconds that a test waits for something that should come."""


class GatewayProcess:
    """`python -m gateway run`, with everything it prints in a file."""

    def __init__(self, environ: Mapping[str, str], *, log: Path) -> None:
        self.environ = dict(environ)
        self.log = log
        self._process: asyncio.subprocess.Process | None = None
        self._read_from = 0

    async def start(self) -> None:
        """Start it and wait until `/readyz` says that events can arrive."""
        await self.launch()
        await self.until(self.ready, "the gateway did not get ready")

    async def launch(self, *arguments: str) -> None:
        """Start it without waiting for anything."""
        self._read_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway", "run", *arguments, env=self.environ, stdout=out, stderr=out
            )

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.returncode is None

    @property
    def said(self) -> str:
        """What this run has printed so far."""
        return self.log.read_bytes()[self._read_from :].decode(errors="replace") if self.log.exists() else ""

    @property
    def url(self) -> str:
        """The base address of its HTTP port; empty until it has said so."""
        found = re.search(r"^HTTP +on, (http://\S+)", self.said, re.MULTILINE)
        return found[1] if found else ""

    async def ready(self) -> bool:
        """Ask `/readyz`."""
        return bool(self.url) and await self.get("/readyz") == 200

    async def get(self, path: str) -> int:
        """Return the status that a path is answered with."""
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.get(self.url + path)).status_code

    async def until(self, holds: Callable[[], Awaitable[bool]], otherwise: str, *, within: float = PATIENCE) -> None:
        """Wait until it holds; the gateway must live meanwhile."""
        try:
            async with asyncio.timeout(within):
                while not await holds():
                    assert self.running, f"the gateway has ended:\n{self.said}"
                    await asyncio.sleep(0.03)
        except TimeoutError:
            raise AssertionError(f"{otherwise}:\n{self.said[-4000:]}") from None

    def kill(self) -> None:
        """Send SIGKILL: from this moment the process does nothing any more."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)

    async def killed(self) -> None:
        """Wait until a killed process is gone."""
        assert self._process is not None
        assert await self._process.wait() == -signal.SIGKILL

    async def stop(self) -> int:
        """Ask it to end and return its exit code."""
        assert self._process is not None
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    async def end(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None and self.running:
            self._process.kill()
        if self._process is not None:
            await self._process.wait()
