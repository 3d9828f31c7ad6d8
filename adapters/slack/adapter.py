"""Slack as one of Reverie's platforms, on slack-bolt's AsyncApp and slack-sdk."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import aiohttp
import structlog
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.authorization import AuthorizeResult
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from adapters.base import Account, Address, Capabilities, Health, Identity, Inbox, Live, Outbound
from adapters.errors import Misconfigured, Transient
from adapters.slack.client import web_client
from adapters.slack.connection import Socket, open_socket
from adapters.slack.errors import reading
from adapters.slack.identity import identify
from adapters.slack.inbound import Bot, is_message, people_in, read_command, read_event
from adapters.slack.intake import Intake, NotServingError
from adapters.slack.live import LiveDoor
from adapters.slack.people import People, display_name
from adapters.slack.posts import Posts
from adapters.slack.sdk_log import sdk_logger
from adapters.slack.settings import Pace, SlackSettings
from adapters.slack.status import Status
from adapters.text.slack import labelled, render

_log = structlog.get_logger(__name__)

COMMAND = "/reverie"

Read = TypeVar("Read")


class SlackAdapter:
    """One Slack workspace, by Socket Mode or by HTTP events.

    Every event is acknowledged after `Inbox.put` has returned. No request is repeated by the SDK: a repeated
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
        self._client = web_client(settings, token=settings.bot_token.get_secret_value())
        self._app = self._make_app()
        self._http = AsyncSlackRequestHandler(self._app)
        self._people = People(self._look_up)
        self._posts = Posts(self._client)
        self._live = LiveDoor(self._client, pace=self._pace)
        self._status = Status(self._client)
        self._bot: Bot | None = None
        self._intake = Intake()
        self._in_order = asyncio.Lock()  # lets tasks through in the order in which they came
        self._socket: Socket | None = None

    @asynccontextmanager
    async def serve(self, inbox: Inbox) -> AsyncIterator[Identity]:
        """Check the tokens, connect, and put what comes into `inbox` until left.

        Raises `Misconfigured` if Slack refuses a token and `Transient` if Slack can't be reached now. On
        leaving, what is being put is waited for; later events stay unacknowledged, so Slack sends them again.
        """
        async with AsyncExitStack() as stack:
            timeout = aiohttp.ClientTimeout(total=self._pace.answer_within, connect=self._pace.answer_within / 3)
            self._client.session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
            stack.callback(setattr, self._client, "session", None)
            self._check_ways_in()
            self._bot, note = await identify(self._client)
            stack.push_async_callback(self._people.aclose)
            stack.push_async_callback(self._live.aclose)
            self._intake.open(inbox)
            stack.callback(self._intake.close)
            if self._settings.app_token:
                self._socket = await stack.enter_async_context(
                    open_socket(
                        self._app,
                        app_token=self._settings.app_token.get_secret_value(),
                        client=self._client,
                        pace=self._pace,
                        now=self._now,
                    )
                )
            stack.callback(setattr, self, "_socket", None)
            stack.push_async_callback(self._intake.drain, within=self._pace.drain_within)
            yield Identity(id=f"{self._bot.team}/{self._bot.user}", name=self._bot.name, note=note)

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

    def render(self, markdown: str) -> list[dict[str, Any]]:
        """Cut Markdown into messages of text and blocks."""
        return render(markdown)

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Return the message with the label as a line of its own below it."""
        return labelled(part, label)

    async def deliver(self, post: Outbound) -> str:
        """Post or edit one part and return its ts."""
        self._check_connected()
        return await self._posts.deliver(post)

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Look through the thread, or the channel, for a message of ours with the key of the post."""
        self._check_connected()
        return await self._posts.find(post, bot=self._known_bot(), since=since)

    async def working(self, address: Address, *, status: str) -> None:
        """Show `status` under the thread; where Slack has no such thing, nothing happens."""
        await self._status.show(address, status=status)

    def live_stays(self, address: Address) -> bool:
        """Say that a live answer is a message that stays: streamed in a thread, edited elsewhere."""
        return True

    async def open_live(self, address: Address, *, key: str, reply_to: str, recipient: Account) -> Live:
        """Post the message that will show the answer: a stream in a thread, else one that is edited."""
        self._check_connected()
        return await self._live.open(address, key=key, recipient=recipient)

    def health(self) -> Health:
        """Judge the socket by its last sign of life; over HTTP only Slack knows whether it can reach us."""
        waits_for_socket = self._settings.app_token is not None and self._socket is None
        if waits_for_socket or not self._intake.is_open:
            return Health(ok=False, detail="not connected")
        if self._socket is not None:
            return self._socket.health()
        return Health(ok=True, detail="Slack calls /slack/events")

    def _check_connected(self) -> None:
        if self._client.session is None or self._bot is None:
            raise Transient("Slack is not connected")

    # --- in ---

    def _make_app(self) -> AsyncApp:
        secret = self._settings.signing_secret

        async def authorize() -> AuthorizeResult:  # Bolt takes no bound method here
            bot = self._known_bot()
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
        app.event("message")(self._on_message)
        app.event("app_mention")(self._on_message)
        app.command(COMMAND)(self._on_command)
        # An event without a listener is answered 404, and Slack switches off an app that does so too often.
        app.event(re.compile(".*"))(self._on_other)
        app.error(self._on_error)
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

    async def _on_message(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        bot = self._known_bot()
        if body.get("team_id", bot.team) != bot.team:
            _log.warning("slack.other_workspace")
            return
        people = _understood(lambda: people_in(event, bot=bot) if is_message(event, bot=bot) else None)
        if people is None:
            return
        # Names are looked up side by side, but what came first is stored first: its order is the conversation's.
        naming = asyncio.ensure_future(self._people.names(people, within=self._pace.name_within))
        async with self._in_order:
            names = await naming
            inbound = _understood(lambda: read_event(event, bot=bot, names=names))
            if inbound is not None:
                await self._intake.put(inbound)

    async def _on_command(self, ack: AsyncAck, command: dict[str, Any]) -> None:
        bot, user = self._known_bot(), str(command.get("user_id"))
        names = await self._people.names([user], within=self._pace.name_within)
        inbound = _understood(lambda: read_command(command, bot=bot, name=names[user], now=self._now()))
        if inbound is not None:
            await self._intake.put(inbound)
        await ack()

    async def _on_other(self) -> None:
        """Acknowledge what is not for us."""

    async def _on_error(self, error: Exception) -> None:
        # The text of the error is left out: a store's error quotes the message that it could not store.
        _log.error("slack.not_acknowledged", error=type(error).__name__)

    def _known_bot(self) -> Bot:
        if self._bot is None:
            raise NotServingError
        return self._bot

    async def _look_up(self, user: str) -> str:
        with reading():
            response = await self._client.users_info(user=user)
        return display_name(response.get("user") or {})


def _understood(read: Callable[[], Read]) -> Read | None:
    """Return what was read; None, with a word in the log, for what Slack can't have meant.

    Such an event is acknowledged all the same: Slack would send it again, and it would be no better.
    """
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - the edge: one odd event must not hold up the others
        _log.error("slack.event_not_understood", error=type(error).__name__)
        return None
