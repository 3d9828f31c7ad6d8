"""The gateway of `reverie run`, with the platforms that are set."""

import asyncio

import click

from adapters.base import Adapter
from adapters.slack.adapter import SlackAdapter
from adapters.telegram.adapter import TelegramAdapter
from gateway import app, log
from gateway.commands.table import MENU
from gateway.core import open_core
from gateway.settings import Settings
from gateway.shell.starting import hold_home, stopped_by_signals


def serve(settings: Settings, *, bare: bool) -> None:
    """Serve until Ctrl-C or a request to end; raises `StartRefused` if a part can't start."""
    asyncio.run(_run(settings, _platforms(settings), bare=bare))


def _platforms(settings: Settings) -> dict[str, Adapter]:
    adapters: dict[str, Adapter] = {}
    if settings.telegram is not None:
        adapters["telegram"] = TelegramAdapter(settings.telegram, commands=MENU)
    if settings.slack is not None:
        adapters["slack"] = SlackAdapter(settings.slack)
    return adapters


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
