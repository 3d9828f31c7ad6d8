"""What commands do alike before they work."""

import asyncio
import signal
from collections.abc import Iterable
from contextlib import ExitStack

import click

from gateway import home, log
from gateway.checks.finding import Finding, Status
from gateway.checks.preferences import check_preferences
from gateway.settings import Settings


def configure_log(settings: Settings, *, level: str) -> None:
    """Log from here on, without the settings' secrets."""
    log.configure(level=level, json=settings.log_json, secrets=settings.secrets)


def open_quietly(settings: Settings) -> None:
    """Log errors only from here on, as whoever asks something wants no log, and say in sentences what is amiss."""
    configure_log(settings, level="ERROR")
    warn_of(check_preferences(settings))


def warn_of(findings: Iterable[Finding]) -> None:
    """Say each warning among these in a line."""
    for found in findings:
        if found.status is Status.WARN:
            click.echo(log.redact(f"Warning   {found.finding}. {found.cure}"), err=True)


def hold_home(settings: Settings) -> ExitStack:
    """Make the home and, on SQLite, keep every other gateway out of it until the stack is left."""
    home.prepare(settings.home)
    with ExitStack() as stack:
        if not settings.database_url or settings.database_url.startswith("sqlite"):
            stack.enter_context(home.only_gateway(settings.home))
            home.mark_start(settings.home)
        return stack.pop_all()


def stopped_by_signals(stop: asyncio.Event | None = None) -> asyncio.Event:
    """Return an event that Ctrl-C or a request to end sets; the given one if there is one."""
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop
