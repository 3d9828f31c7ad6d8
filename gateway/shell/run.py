"""`reverie run`: the gateway."""

import asyncio

import click

from adapters.base import Adapter
from adapters.slack.adapter import SlackAdapter
from adapters.telegram.adapter import TelegramAdapter
from gateway import app, log
from gateway.commands.table import MENU
from gateway.core import open_core
from gateway.errors import NothingToRun
from gateway.settings import Settings, load
from gateway.shell.starting import configure_log, has_model, hold_home, stopped_by_signals

_MODEL = "  Claude     ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL  (any server that speaks the Messages API)"
_PLATFORMS = """\
  Telegram   TELEGRAM_BOT_TOKEN                        (from @BotFather)
  Slack      SLACK_BOT_TOKEN with SLACK_APP_TOKEN      (Socket Mode), or with SLACK_SIGNING_SECRET (HTTP events)"""
_ELSE = "`reverie init` asks for all of them. `reverie chat` and `reverie demo` need none."


@click.command()
@click.option("--bare", is_flag=True, help="Without memory: no prompt, recall, extraction, dream or team sync.")
def run(*, bare: bool) -> None:
    """Run the gateway. Each platform is on when its tokens are set."""
    settings = load()
    configure_log(settings, level=settings.log_level)
    adapters = _platforms(settings)
    if not adapters or not has_model(settings):
        raise NothingToRun(_missing(settings, adapters))
    asyncio.run(_run(settings, adapters, bare=bare))


def _platforms(settings: Settings) -> dict[str, Adapter]:
    adapters: dict[str, Adapter] = {}
    if settings.telegram is not None:
        adapters["telegram"] = TelegramAdapter(settings.telegram, commands=MENU)
    if settings.slack is not None:
        adapters["slack"] = SlackAdapter(settings.slack)
    return adapters


def _missing(settings: Settings, adapters: dict[str, Adapter]) -> str:
    wanted = [] if has_model(settings) else [_MODEL]
    wanted += [] if adapters else [_PLATFORMS]
    what = {2: "the model and at least one chat platform", 1: "the model" if adapters else "at least one chat platform"}
    return "\n".join([f"Nothing to run yet. Set {what[len(wanted)]}:", *wanted, _ELSE])


async def _run(settings: Settings, adapters: dict[str, Adapter], *, bare: bool) -> None:
    with hold_home(settings):
        async with open_core(settings, adapters=adapters, bare=bare) as core:
            stop = stopped_by_signals()

            def say(line: str) -> None:
                click.echo(log.redact(line, settings.secrets))

            for line in _off(settings):
                say(line)
            say(f"Model     {settings.model.chat} at {settings.model.base_url or 'the public API'}")
            click.echo(f"Memory    {'on' if core.memory_on else 'off'}, in {settings.memory_base / 'homes'}")
            await app.assemble(core, adapters).run(stop, announce=say)


def _off(settings: Settings) -> list[str]:
    lines = []
    if settings.telegram is None:
        lines.append("Telegram  off; set TELEGRAM_BOT_TOKEN to turn it on")
    if settings.slack is None:
        lines.append("Slack     off; set SLACK_BOT_TOKEN and SLACK_APP_TOKEN to turn it on")
    return lines
