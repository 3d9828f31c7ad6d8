"""The whole core, opened for a command that runs a job or asks the scheduler."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import click

from adapters.serving import serving
from gateway.core import Core, open_core
from gateway.llm.standin.server import ModelStandin
from gateway.settings import Settings, load
from gateway.shell.starting import open_quietly

Result = TypeVar("Result")


def with_core(work: Callable[[Core], Awaitable[Result]]) -> Result:
    """Do this, which asks no model, with the core open; raises `StartRefused` if it can't be opened."""

    async def go() -> Result:
        settings = load()
        open_quietly(settings)
        async with open_core(settings, adapters={}) as core:
            return await work(core)

    return asyncio.run(go())


def with_thinking_core(work: Callable[[Core], Awaitable[Result]]) -> Result:
    """Do what may ask the model in the same way; where none is set, the built-in stand-in answers."""

    async def go() -> Result:
        settings = load()
        open_quietly(settings)
        async with model_url(settings) as url, open_core(settings, adapters={}, model_url=url) as core:
            return await work(core)

    return asyncio.run(go())


@asynccontextmanager
async def model_url(settings: Settings, *, pace: float = 0.0) -> AsyncIterator[str | None]:
    """Serve the built-in stand-in if no model is set, and say so; yields its URL, None if one is set.

    `pace` is the time in seconds between pieces of its answers.
    """
    if settings.model.is_set:
        yield None
        return
    async with serving(ModelStandin(chunk_delay=pace).app) as url:
        click.echo("No model is set, so the built-in stand-in answers: it follows rules and does not think.")
        yield url
