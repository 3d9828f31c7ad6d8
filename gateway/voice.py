"""Voice messages: turned into words by a program of the operator's choice."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import structlog

from gateway.errors import NotTranscribed

log = structlog.get_logger(__name__)

_ENDING_SECONDS = 5.0
_MOST_WORDS = 50_000  # characters; more is no voice message


class Transcriber(Protocol):
    """Turns speech into words."""

    async def __call__(self, audio: Path, *, media_type: str, language: str) -> str:
        """Return what is said in a file; `language` is a tag such as `de`, or empty. Raises `NotTranscribed`."""


class Command:
    """A program that is given a file and prints what is said in it.

    In its arguments `{file}` stands for the path and `{language}` for the language, which may be empty. It runs without
    a shell, and is ended with all that it has started when its time is up.
    """

    def __init__(self, arguments: Sequence[str], *, seconds: float) -> None:
        self._arguments, self._seconds = tuple(arguments), seconds

    async def __call__(self, audio: Path, *, media_type: str, language: str) -> str:
        """Run the program; raises `NotTranscribed`."""
        told = {"{file}": str(audio), "{language}": language.partition("-")[0], "{media_type}": media_type}
        command = [_put_in(argument, told) for argument in self._arguments]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            log.error("transcriber_not_started", error=type(error).__name__)
            raise NotTranscribed("the program that should listen to it could not be started") from error
        try:
            async with asyncio.timeout(self._seconds):
                said, complaint = await process.communicate()
        except TimeoutError as error:
            await _end(process)
            raise NotTranscribed("listening to it took too long") from error
        except BaseException:
            await _end(process)
            raise
        if process.returncode:
            log.error("transcriber_failed", status=process.returncode, complaint_bytes=len(complaint))
            raise NotTranscribed("the program that should listen to it failed")
        return said.decode(errors="replace")[:_MOST_WORDS]


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program and what it has started, which may outlive it and hold its pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):  # something left the group: it is not waited for
        async with asyncio.timeout(_ENDING_SECONDS):
            await process.wait()


def _put_in(argument: str, told: dict[str, str]) -> str:
    for placeholder, value in told.items():
        argument = argument.replace(placeholder, value)
    return argument
