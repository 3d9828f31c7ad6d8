"""`reverie chat`: the same agent and memory, in the terminal."""

import asyncio
from contextlib import AsyncExitStack

import click

from adapters.base import Adapter
from adapters.terminal import ACCOUNT, TerminalAdapter
from gateway import app
from gateway.core import open_core
from gateway.settings import Settings, load
from gateway.shell.core import model_url
from gateway.shell.starting import configure_log, hold_home, stopped_by_signals

_STANDIN_PACE = 0.01  # seconds between pieces of its answers, so that one can be seen growing, and stopped


@click.command()
@click.option("--bare", is_flag=True, help="Without memory.")
def chat(*, bare: bool) -> None:
    """Talk to the same agent, with the same memory, in this terminal. Leave with /quit or Ctrl-D."""
    settings = load()
    configure_log(settings, level="ERROR")
    asyncio.run(_chat(_here(settings), bare=bare))


def _here(settings: Settings) -> Settings:
    """Return the settings for a gateway on any free port, whose owner sits at this terminal."""
    owners = (*settings.access.owners, ACCOUNT)
    access = settings.access.model_copy(update={"owners": owners})
    return settings.model_copy(update={"http": "127.0.0.1:0", "access": access})


async def _chat(settings: Settings, *, bare: bool) -> None:
    terminal = TerminalAdapter()
    adapters: dict[str, Adapter] = {"terminal": terminal}
    async with AsyncExitStack() as stack:
        stack.enter_context(hold_home(settings))
        url = await stack.enter_async_context(model_url(settings, pace=_STANDIN_PACE))
        click.echo("Talk to Reverie; /help lists what it understands, /quit or Ctrl-D leaves.")
        core = await stack.enter_async_context(open_core(settings, adapters=adapters, model_url=url, bare=bare))
        stop = stopped_by_signals(terminal.finished)
        await app.assemble(core, adapters).run(stop, announce=lambda _: None)
