"""`reverie run`: whether there is anything to run, and what is odd about the settings; then the gateway."""

import importlib
import os

import click

from gateway.checks.environment import check_environment
from gateway.checks.preferences import check_preferences
from gateway.checks.team import check_grants
from gateway.errors import NothingToRun
from gateway.settings import Settings, load
from gateway.shell.starting import configure_log, warn_of

_MODEL = "  Claude     ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL  (any server that speaks the Messages API)"
_PLATFORMS = """\
  Telegram   TELEGRAM_BOT_TOKEN                        (from @BotFather)
  Slack      SLACK_BOT_TOKEN with SLACK_APP_TOKEN      (Socket Mode), or with SLACK_SIGNING_SECRET (HTTP events)"""
_ELSE = "`reverie init` asks for all of them. `reverie chat` and `reverie demo` need none."


_SERVING = "gateway.shell.serving"
"""Imported once there is something to run: it brings the SDKs of the model and the platforms, seconds of work."""


@click.command()
@click.option("--bare", is_flag=True, help="Without memory: no prompt, recall, extraction, dream or team sync.")
def run(*, bare: bool) -> None:
    """Run the gateway. Each platform is on when its tokens are set."""
    settings = load()
    configure_log(settings, level=settings.log_level)
    warn_of([*check_environment(os.environ), *check_grants(settings), *check_preferences(settings)])
    if missing := _missing(settings):
        raise NothingToRun(missing)
    importlib.import_module(_SERVING).serve(settings, bare=bare)


def _missing(settings: Settings) -> str:
    """Return what has to be set before there is anything to run, and how; "" if nothing has."""
    platform = settings.telegram is not None or settings.slack is not None
    wanted = {"the model": settings.model.is_set, "at least one chat platform": platform}
    names = [name for name, is_set in wanted.items() if not is_set]
    lines = [] if settings.model.is_set else [_MODEL]
    lines += [] if platform else [_PLATFORMS]
    return "\n".join([f"Nothing to run yet. Set {' and '.join(names)}:", *lines, _ELSE]) if names else ""
