"""The command line: `reverie COMMAND`."""

import atexit
import gc
import os
import sys
from typing import NoReturn

import click

from gateway import log
from gateway.errors import StartRefused
from gateway.shell.groups import Loaded, Place

COMMANDS = {
    "init": Place(at="gateway.setup:init", summary="Ask a few questions and write reverie.toml."),
    "doctor": Place(
        at="gateway.doctor:doctor",
        summary="Check settings, tokens, database, folders, clock and limits; each failure with its cure.",
    ),
    "run": Place(at="gateway.shell.run:run", summary="Run the gateway."),
    "chat": Place(
        at="gateway.shell.chat:chat", summary="Talk to the same agent, with the same memory, in this terminal."
    ),
    "demo": Place(
        at="gateway.demo:demo", summary="Play the whole product on this machine alone: no tokens, no network."
    ),
    "standins": Place(
        at="gateway.standins:standins",
        summary="Serve stand-ins for Telegram, Slack and the model on loopback until Ctrl-C.",
    ),
    "access": Place(at="gateway.shell.access:access", summary="Who may talk to the bot, and where."),
    "memory": Place(at="gateway.shell.memory:memory", summary="Look at what is remembered."),
    "dream": Place(at="gateway.shell.dream:dream", summary="Put a memory in order, and take that back."),
    "jobs": Place(at="gateway.shell.jobs:jobs", summary="What the scheduler does."),
}


@click.group(cls=Loaded, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reverie", message="%(package)s %(version)s")
def cli() -> None:
    """Reverie: a chat-bot gateway with persistent memory, for Telegram and Slack."""


def main() -> None:
    """Run the command line. A refused start is one sentence and an exit code, never a traceback."""
    atexit.register(gc.freeze)  # else Python looks through all that the SDKs have made before it ends: most of a second
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
