"""What `run` and `chat` do alike before the gateway runs."""

import asyncio
import signal
from contextlib import ExitStack

from gateway import home, log
from gateway.settings import Settings


def configure_log(settings: Settings, *, level: str) -> None:
    """Log from here on, without the settings' secrets."""
    log.configure(level=level, json=settings.log_json, secrets=settings.secrets)


def has_model(settings: Settings) -> bool:
    """Whether the settings name a model, ours or another server's."""
    return settings.model.api_key is not None or settings.model.base_url is not None


def hold_home(settings: Settings) -> ExitStack:
    """Make the home and, on SQLite, keep every other gateway out of it until the stack is left."""
    home.prepare(settings.home)
    with ExitStack() as stack:
        if not settings.database_url or settings.database_url.startswith("sqlite"):
            stack.enter_context(home.only_gateway(settings.home))
        return stack.pop_all()


def stopped_by_signals(stop: asyncio.Event | None = None) -> asyncio.Event:
    """Return an event that Ctrl-C or a request to end sets; the given one if there is one."""
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop
