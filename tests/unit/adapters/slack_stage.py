"""What the tests of the Slack adapter share: the stand-in with its people, and an adapter that serves it."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from pydantic import SecretStr
from starlette.applications import Starlette

from adapters.base import Account, Address, Button, Outbound, OutFile
from adapters.doubles import RecordingInbox
from adapters.serving import serving
from adapters.slack.adapter import SlackAdapter
from adapters.slack.settings import Pace, SlackSettings
from adapters.standins.slack import SlackStandin
from adapters.standins.slack_values import View
from tests.waiting import HANGS

ADA = Account(platform="slack", workspace="T1", user="U1")
PACE = Pace(append_every=0.05, edit_every=0.05, name_within=HANGS, connect_within=HANGS, drain_within=HANGS)


def standin(*, view: View = "classic") -> SlackStandin:
    """Return a workspace with Ada, Bo and a channel of theirs that the bot is in."""
    slack = SlackStandin(ack_timeout=60, retry_delays=(0.01, 0.05, 0.05), view=view)
    ada = slack.person(id="U1", name="ada", real_name="Ada L.", locale="de-DE")
    bo = slack.person(id="U2", name="bo", locale="zh-CN")
    slack.channel(id="C1", name="lab", members=[ada, bo])
    slack.channel(id="C2", name="elsewhere", members=[ada], bot_is_member=False)
    return slack


@contextlib.asynccontextmanager
async def serve(slack: SlackStandin, inbox: RecordingInbox, *, http: bool = False) -> AsyncIterator[SlackAdapter]:
    """Serve an adapter on the stand-in, which must find no fault with it."""
    async with serving(slack.app) as url:
        settings = SlackSettings(
            bot_token=SecretStr("xoxb-stand-in"),
            app_token=None if http else SecretStr("xapp-stand-in"),
            signing_secret=SecretStr("stand-in-signing-secret"),
            api_url=f"{url}/api/",
        )
        adapter = SlackAdapter(settings, pace=PACE)
        async with adapter.serve(inbox):
            if http:
                async with serving(Starlette(routes=list(adapter.routes()))) as ours:
                    assert await slack.use_events_url(f"{ours}/slack/events")
                    yield adapter
            else:
                yield adapter
        assert slack.faults == []


def place(channel: str, thread: str = "") -> Address:
    """Return an address of the workspace."""
    return Address(platform="slack", workspace="T1", chat=channel, thread=thread)


def posts(
    adapter: SlackAdapter,
    address: Address,
    markdown: str,
    *,
    key: str = "k1",
    buttons: Sequence[Button] = (),
    file: Path | None = None,
    message_id: str = "",
    only_for: Account | None = None,
) -> list[Outbound]:
    """Return the posts that say something there."""
    out = OutFile(path=file, name=file.name, media_type="application/octet-stream") if file else None
    parts = adapter.render(markdown, buttons=buttons, file=out)
    return [
        Outbound(
            address=address,
            key=f"{key}:{number}",
            part=part,
            message_id="" if number else message_id,
            only_for=only_for,
        )
        for number, part in enumerate(parts)
    ]
