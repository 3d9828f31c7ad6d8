"""Slack as one of Reverie's platforms, on slack-bolt's AsyncApp and slack-sdk."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from adapters.base import (
    Account,
    Address,
    Attachment,
    Button,
    Capabilities,
    Health,
    Identity,
    Inbox,
    Live,
    Outbound,
    OutFile,
)
from adapters.errors import Misconfigured
from adapters.slack.client import web_client
from adapters.slack.connection import Socket, open_socket
from adapters.slack.intake import Intake
from adapters.slack.listeners import COMMAND, Listeners
from adapters.slack.parts import parts_of
from adapters.slack.sdk_log import sdk_logger
from adapters.slack.settings import Pace, SlackSettings
from adapters.slack.workspace import Workspace
from adapters.text.slack import labelled

__all__ = ["COMMAND", "SlackAdapter"]

_log = structlog.get_logger(__name__)


class SlackAdapter:
    """One Slack app, by Socket Mode or by HTTP events, in the workspace that its bot token is for.

    Every event is acknowledged after the inbox has taken it. No request is repeated by the SDK: a repeated
    post is a double answer.
    """

    platform = "slack"
    capabilities = Capabilities(can_find=True)

    def __init__(
        self,
        settings: SlackSettings,
        *,
        pace: Pace | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings, self._pace, self._now = settings, pace or Pace(), now
        self._workspace = Workspace(settings, token=settings.bot_token.get_secret_value(), pace=self._pace)
        self._intake = Intake()
        self._app = self._make_app()
        self._http = AsyncSlackRequestHandler(self._app)
        self._socket: Socket | None = None

    @asynccontextmanager
    async def serve(self, inbox: Inbox) -> AsyncIterator[Identity]:
        """Check the tokens, connect, and put what comes into `inbox` until left.

        Raises `Misconfigured` if Slack refuses a token and `Transient` if Slack can't be reached now. On
        leaving, what is being put is waited for; later events stay unacknowledged, so Slack sends them again.
        """
        self._check_ways_in()
        async with AsyncExitStack() as stack:
            note = await stack.enter_async_context(self._workspace.open())
            self._intake.open(inbox)
            stack.callback(self._intake.close)
            if self._settings.app_token:
                self._socket = await stack.enter_async_context(
                    open_socket(
                        self._app,
                        app_token=self._settings.app_token.get_secret_value(),
                        client=self._workspace.client,
                        pace=self._pace,
                        now=self._now,
                    )
                )
            stack.callback(setattr, self, "_socket", None)
            stack.push_async_callback(self._intake.drain, within=self._pace.drain_within)
            bot = self._workspace.bot
            yield Identity(id=f"{bot.team}/{bot.user}", name=bot.name, note=note)

    def _check_ways_in(self) -> None:
        if not self._settings.app_token and not self._settings.signing_secret:
            raise Misconfigured(
                "Slack has no way in: set SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP events)"
            )

    def routes(self) -> Sequence[BaseRoute]:
        """Return `POST /slack/events`, or nothing in Socket Mode."""
        if self._settings.app_token:
            return []
        return [Route("/slack/events", self._receive, methods=["POST"])]

    def render(
        self, markdown: str, *, buttons: Sequence[Button] = (), file: OutFile | None = None
    ) -> list[dict[str, Any]]:
        """Cut Markdown into messages of text and blocks."""
        return parts_of(markdown, buttons=buttons, file=file)

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Return the message with the label as a line of its own below it."""
        return {**part, **labelled(part, label)}

    async def deliver(self, post: Outbound) -> str:
        """Post or edit one part and return its ts; after it, nothing says any more that the bot is at work there."""
        there = self._connected(post.address)
        ts = await there.posts.deliver(post)
        there.status.answered(post.address)
        return ts

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Look through the thread, or the channel, for a message of ours with the key of the post.

        One that only one person sees is in no history; it counts as absent, and they may see it twice.
        """
        return await self._connected(post.address).posts.find(post, since=since)

    async def fetch(self, attachment: Attachment, *, address: Address, into: Path, limit: int) -> None:
        """Fetch a file that came along."""
        await self._connected(address).files.fetch(attachment, into=into, limit=limit)

    async def acknowledge(self, address: Address, message_id: str, *, seen: bool) -> None:
        """Mark a message as seen, or take the mark away."""
        await self._in(address).reactions.mark(address.chat, message_id, seen=seen)

    async def sight(self, address: Address) -> str:
        """Say what the bot gets to see in a channel."""
        return await self._in(address).sight(address)

    async def working(self, address: Address, *, status: str) -> None:
        """Show `status` under the thread, or mark the message where there is none; empty, it ends that."""
        await self._in(address).status.show(address, status=status)

    def live_stays(self, address: Address) -> bool:
        """Say that a live answer is a message that stays: streamed in a thread, edited elsewhere."""
        return True

    async def open_live(self, address: Address, *, key: str, reply_to: str, recipient: Account) -> Live:
        """Post the message that will show the answer: a stream in a thread, else one that is edited."""
        return await self._connected(address).live.open(address, key=key, recipient=recipient)

    def health(self) -> Health:
        """Judge the socket by its last sign of life; over HTTP only Slack knows whether it can reach us."""
        waits_for_socket = self._settings.app_token is not None and self._socket is None
        if waits_for_socket or not self._intake.is_open:
            return Health(ok=False, detail="not connected")
        if self._socket is not None:
            return self._socket.health()
        return Health(ok=True, detail="Slack calls /slack/events")

    # --- which workspace ---

    def _in(self, address: Address) -> Workspace:
        """Return where an address is; there is one workspace, and nothing is posted but there."""
        return self._workspace

    def _connected(self, address: Address) -> Workspace:
        there = self._in(address)
        there.check_connected()
        return there

    def _of(self, team: str) -> Workspace | None:
        """Return the workspace that an event is from, None if it is not ours."""
        return self._workspace if team in {"", self._workspace.bot.team} else None

    # --- in ---

    def _make_app(self) -> AsyncApp:
        secret = self._settings.signing_secret

        async def authorize() -> AuthorizeResult:  # Bolt takes no bound method here
            bot = self._workspace.bot
            return AuthorizeResult(enterprise_id=None, team_id=bot.team, bot_user_id=bot.user, bot_id=bot.bot)

        # Bolt gets a client without the token, and an authorisation of ours: the built-in one calls auth.test
        # with the first event and acknowledges that event, unseen, when the call fails.
        app = AsyncApp(
            name="slack_bolt.reverie",
            logger=sdk_logger(),
            client=web_client(self._settings, token=None),
            authorize=authorize,
            signing_secret=secret.get_secret_value() if secret else "",
            process_before_response=True,
        )
        Listeners(self._intake, workspace=self._of, now=self._now).register(app)
        return app

    async def _receive(self, request: Request) -> Response:
        if not self._intake.is_open:
            return Response(status_code=503)
        if not request.headers.get("x-slack-request-timestamp", "").isdecimal():
            return Response(status_code=401)  # Bolt would stumble over it before it looks at the signature
        try:
            return await self._http.handle(request)
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            # Signed, and yet no event. What goes wrong with an event itself is Bolt's to answer, with 500.
            _log.warning("slack.request_not_understood", error=type(error).__name__)
            return Response(status_code=400)
