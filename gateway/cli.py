"""The command line: `reverie COMMAND`."""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NoReturn

import click

from adapters.base import Adapter
from adapters.serving import serving
from adapters.slack.adapter import SlackAdapter
from adapters.telegram.adapter import TelegramAdapter
from adapters.terminal import ACCOUNT, TerminalAdapter
from gateway import app, demo, doctor, home, log, setup, shell, standins
from gateway.commands.table import MENU
from gateway.core import open_core
from gateway.errors import NothingToRun, StartRefused
from gateway.llm.standin.server import ModelStandin
from gateway.settings import Settings, load

_MODEL = "  Claude     ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL  (any server that speaks the Messages API)"
_PLATFORMS = """\
  Telegram   TELEGRAM_BOT_TOKEN                        (from @BotFather)
  Slack      SLACK_BOT_TOKEN with SLACK_APP_TOKEN      (Socket Mode), or with SLACK_SIGNING_SECRET (HTTP events)"""
_STANDIN_PACE = 0.01  # seconds between pieces of its answers, so that one can be seen growing, and stopped
_ELSE = "`reverie init` asks for all of them. `reverie chat` and `reverie demo` need none."


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reverie", message="%(package)s %(version)s")
def cli() -> None:
    """Reverie: a chat-bot gateway with persistent memory, for Telegram and Slack."""


@cli.command()
@click.option("--bare", is_flag=True, help="Without memory: no prompt, recall, extraction, dream or team sync.")
def run(*, bare: bool) -> None:
    """Run the gateway. Each platform is on when its tokens are set."""
    settings = load()
    _log(settings)
    adapters = _platforms(settings)
    if not adapters or not _has_model(settings):
        raise NothingToRun(_missing(settings, adapters))
    asyncio.run(_run(settings, adapters, bare=bare))


@cli.command()
@click.option("--bare", is_flag=True, help="Without memory.")
def chat(*, bare: bool) -> None:
    """Talk to the same agent, with the same memory, in this terminal. Leave with /quit or Ctrl-D."""
    settings = load()
    _log(settings, quiet=True)
    asyncio.run(_chat(settings, bare=bare))


@cli.command("demo")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave everything in this folder to look at.")
def demo_command(*, keep: Path | None) -> None:
    """Play the whole product on this machine alone: no tokens, no network."""
    sys.exit(demo.play(keep=keep, say=click.echo))


@cli.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor_command(*, as_json: bool) -> None:
    """Check settings, tokens, database, folders, clock and limits; each failure with its cure."""
    sys.exit(asyncio.run(doctor.examine(as_json=as_json, say=click.echo)))


@cli.command()
def init() -> None:
    """Ask a few questions and write reverie.toml."""
    setup.interview()


for group in (shell.access, shell.memory, shell.jobs, shell.dream, standins.standins):
    cli.add_command(group)


def _platforms(settings: Settings) -> dict[str, Adapter]:
    adapters: dict[str, Adapter] = {}
    if settings.telegram is not None:
        adapters["telegram"] = TelegramAdapter(settings.telegram, commands=MENU)
    if settings.slack is not None:
        adapters["slack"] = SlackAdapter(settings.slack)
    return adapters


def _has_model(settings: Settings) -> bool:
    return settings.model.api_key is not None or settings.model.base_url is not None


def _missing(settings: Settings, adapters: dict[str, Adapter]) -> str:
    wanted = [] if _has_model(settings) else [_MODEL]
    wanted += [] if adapters else [_PLATFORMS]
    what = {2: "the model and at least one chat platform", 1: "the model" if adapters else "at least one chat platform"}
    return "\n".join([f"Nothing to run yet. Set {what[len(wanted)]}:", *wanted, _ELSE])


async def _run(settings: Settings, adapters: dict[str, Adapter], *, bare: bool) -> None:
    async with AsyncExitStack() as stack:
        home.prepare(settings.home)
        if not settings.database_url or settings.database_url.startswith("sqlite"):
            stack.enter_context(home.only_gateway(settings.home))
        core = await stack.enter_async_context(open_core(settings, adapters=adapters, bare=bare))
        stop = _stop_on_signals()

        def say(line: str) -> None:
            click.echo(log.redact(line, settings.secrets))

        for line in _off(settings):
            say(line)
        say(f"Model     {settings.model.chat} at {settings.model.base_url or 'the public API'}")
        click.echo(f"Memory    {'on' if core.memory_on else 'off'}, in {settings.home / 'homes'}")
        await app.assemble(core, adapters).run(stop, announce=say)


def _off(settings: Settings) -> list[str]:
    lines = []
    if settings.telegram is None:
        lines.append("Telegram  off; set TELEGRAM_BOT_TOKEN to turn it on")
    if settings.slack is None:
        lines.append("Slack     off; set SLACK_BOT_TOKEN and SLACK_APP_TOKEN to turn it on")
    return lines


async def _chat(settings: Settings, *, bare: bool) -> None:
    terminal = TerminalAdapter()
    adapters: dict[str, Adapter] = {"terminal": terminal}
    settings = settings.model_copy(
        update={
            "http": "127.0.0.1:0",
            "access": settings.access.model_copy(update={"owners": (*settings.access.owners, ACCOUNT)}),
        }
    )
    async with AsyncExitStack() as stack:
        home.prepare(settings.home)
        if not settings.database_url or settings.database_url.startswith("sqlite"):
            stack.enter_context(home.only_gateway(settings.home))
        model_url = None
        if not _has_model(settings):
            model_url = await stack.enter_async_context(serving(ModelStandin(chunk_delay=_STANDIN_PACE).app))
            click.echo("No model is set, so the built-in stand-in answers: it follows rules and does not think.")
        click.echo("Talk to Reverie; /help lists what it understands, /quit or Ctrl-D leaves.")
        core = await stack.enter_async_context(open_core(settings, adapters=adapters, model_url=model_url, bare=bare))
        stop = _stop_on_signals(terminal.finished)
        await app.assemble(core, adapters).run(stop, announce=lambda _: None)


def _stop_on_signals(stop: asyncio.Event | None = None) -> asyncio.Event:
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def _log(settings: Settings, *, quiet: bool = False) -> None:
    log.configure(level="ERROR" if quiet else settings.log_level, json=settings.log_json, secrets=settings.secrets)


def main() -> None:
    """Run the command line. A refused start is one sentence and an exit code, never a traceback."""
    os.umask(0o077)  # whatever we make, the database's side files too, is its owner's alone
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except StartRefused as refused:
        _refuse(refused)
    except BaseExceptionGroup as group:
        refused_in = group.subgroup(StartRefused)
        if refused_in is None:
            raise
        _refuse(_first(refused_in))


def _refuse(refused: StartRefused) -> NoReturn:
    click.echo(log.redact(str(refused)), err=True)
    sys.exit(refused.exit_code)


def _first(group: BaseExceptionGroup[StartRefused]) -> StartRefused:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
