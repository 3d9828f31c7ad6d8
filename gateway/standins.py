"""`reverie standins`: Telegram, Slack and the model on this machine, to try everything without an account."""

import asyncio
import json
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import click
from starlette.applications import Starlette

from adapters.serving import serving
from adapters.standins.slack import SlackStandin
from adapters.standins.telegram import TelegramStandin
from gateway.errors import StartRefused
from gateway.llm.standin.server import ModelStandin

_TELEGRAM_TOKEN = "4200000000:stand-in"  # noqa: S105 - opens nothing
_SLACK_TOKEN = "xoxb-stand-in"  # noqa: S105
_SLACK_APP_TOKEN = "xapp-stand-in"  # noqa: S105
_MODEL_PACE = 0.01  # seconds between pieces of an answer, so that one can be seen growing, and stopped
_SLOW = json.dumps(
    {
        "answers": [{"text": " ".join(map(str, range(1, 61))), "chunk_delay": 1.5}],
        "when": {"contains": "Count", "structured": False},
    }
)
_PORT = click.IntRange(0, 65535)


@click.command()
@click.option("--telegram-port", type=_PORT, default=0, show_default="any free one")
@click.option("--slack-port", type=_PORT, default=0, show_default="any free one")
@click.option("--model-port", type=_PORT, default=0, show_default="any free one")
def standins(*, telegram_port: int, slack_port: int, model_port: int) -> None:
    """Serve stand-ins for Telegram, Slack and the model on loopback until Ctrl-C."""
    ports = {"Telegram": telegram_port, "Slack": slack_port, "the model": model_port}
    asyncio.run(_until_signal(ports))


async def _until_signal(ports: Mapping[str, int]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(ports, say=click.echo, stop=stop)


async def serve(ports: Mapping[str, int], *, say: Callable[[str], None], stop: asyncio.Event) -> None:
    """Serve the three, say how they are reached, and return soon after `stop` is set.

    `ports` has `Telegram`, `Slack` and `the model`; 0 takes a free port. Raises `StartRefused` if one is taken.
    """
    slack = SlackStandin(bot_token=_SLACK_TOKEN, app_token=_SLACK_APP_TOKEN)
    slack.person(id="U1", name="ada", real_name="Ada")
    slack.channel(id="C1", name="general", members=["U1"])
    dm = slack.dm("U1").id
    apps = {
        "Telegram": TelegramStandin(_TELEGRAM_TOKEN).app,
        "Slack": slack.app,
        "the model": ModelStandin(chunk_delay=_MODEL_PACE).app,
    }
    async with AsyncExitStack() as stack:
        bases = {name: await _open(stack, name, app, ports[name]) for name, app in apps.items()}
        say(_told(telegram=bases["Telegram"], slack=bases["Slack"], model=bases["the model"], dm=dm))
        await stop.wait()


async def _open(stack: AsyncExitStack, name: str, app: Starlette, port: int) -> str:
    try:
        return await stack.enter_async_context(serving(app, port=port))
    except OSError as error:
        raise StartRefused(
            f"Port {port} for {name} can't be listened on: {error.strerror}",
            cure="Give another one, or 0 for any free one.",
        ) from error


def _told(*, telegram: str, slack: str, model: str, dm: str) -> str:
    return f"""\
# On this machine alone, until Ctrl-C; then they forget everything. The model follows rules and does not think.
#   Telegram   {telegram}
#   Slack      {slack}
#   Model      {model}

# In another terminal, so that nothing of this gets into your own memory:
export REVERIE_HOME="$HOME/.reverie-standins"
export TELEGRAM_BOT_TOKEN={_TELEGRAM_TOKEN}
export TELEGRAM_API_URL={telegram}
export SLACK_BOT_TOKEN={_SLACK_TOKEN}
export SLACK_APP_TOKEN={_SLACK_APP_TOKEN}
export SLACK_API_URL={slack}/api/
export ANTHROPIC_API_KEY=stand-in
export ANTHROPIC_BASE_URL={model}
# Ada is an owner: she needs no pairing code. Groups and channels are open, so that the lines below are answered; by
# default each is closed until `reverie access allow telegram:-100`: leave the second line out to see that.
export REVERIE_ACCESS__OWNERS=telegram:42,slack:T1/U1
export REVERIE_ACCESS__SHARED=open
reverie run

# Say something as a person, then read the chat. Telegram: 42 is a private chat, -100 a group.
curl -s {telegram}/control/say -d '{{"chat": 42, "text": "I am Ada. Please remember that I like short answers."}}'
curl -s '{telegram}/control/messages?chat=42'
curl -s {telegram}/control/say -d '{{"chat": -100, "from": 42, "text": "@reverie_bot hello"}}'

# An answer that grows slowly, and is stopped.
curl -s {model}/control/script -d '{_SLOW}'
curl -s {telegram}/control/say -d '{{"chat": 42, "text": "Count, please."}}'
sleep 3
curl -s {telegram}/control/say -d '{{"chat": 42, "text": "/stop"}}'

# A stranger is given a code, and let in with `reverie access approve CODE` in the terminal with the exports.
curl -s {telegram}/control/say -d '{{"chat": 77, "text": "Hello, I am Bo."}}'
curl -s '{telegram}/control/messages?chat=77'

# Slack: {dm} are Ada's direct messages, C1 is a channel; <@UBOT> mentions the bot.
curl -s {slack}/control/say -d '{{"channel": "{dm}", "person": "U1", "text": "hello"}}'
curl -s {slack}/control/say -d '{{"channel": "C1", "person": "U1", "text": "<@UBOT> hello"}}'
curl -s {slack}/control/command -d '{{"channel": "C1", "person": "U1", "command": "/reverie", "text": "status"}}'
curl -s '{slack}/control/messages?channel=C1'

# The model: what it was asked, and what it says next.
curl -s {model}/control/requests
curl -s {model}/control/script -d '{{"answers": [{{"text": "As you wish."}}]}}'"""
