"""A local server that speaks Slack's protocols, for tests, the demo and load runs.

`SlackStandin(...).app` answers the Web API under `/api/<method>`, hands out Socket Mode sockets, signs Events
over HTTP, and takes and serves files; where Slack's behaviour is known it is strict about it. It never
de-duplicates for the app: one mention causes a `message` and an `app_mention`, the app's own posts and edits
come back as events, and what is not acknowledged is sent again. All state is in the object, so that an app
can be killed and started anew against it. Ping frames of the sockets are uvicorn's (every 20 s).

Tests and the demo call the methods of the object; another process does the same over a JSON API (POST with an
object; GET with a query serves too where nothing but text is passed). A mistake gets 400 and `{"error"}`.

| path | body | answer |
| --- | --- | --- |
| `/control/person` | `id, name, real_name?, tz?, locale?` | `{"id"}` |
| `/control/channel` | `id, name, members: [ids], bot_is_member?, kind?` | `{"id"}` |
| `/control/dm` | `person` (id) | `{"id"}` of the direct conversation with the bot |
| `/control/say` | `channel, person, text, thread_ts?` | `{"ts"}` |
| `/control/edit` | `channel, ts, text` | `{}` |
| `/control/command` | `channel, person, command, text?` | `{}` |
| `/control/messages` | `channel, thread_ts?` | the visible messages, as `Shown` |
| `/control/calls` | `method?` | `[{"method", "arguments", "answer"}]` |
| `/control/fail` | `method, times?, error?, status?, retry_after?, after_acting?` | `{}` |
| `/control/delay` | `method, seconds` | `{}` |
| `/control/limit` | `method, per_second, burst?` | `{}` |
| `/control/press` | `channel, person, ts, action_id` | `{}` |
| `/control/stop` | `channel, person, thread_ts` | `{}` |
| `/control/drop` | `{}` | `{}`, when every socket is closed |
| `/control/events` | `url` | `{"proven"}`: events go to this URL from now on if it answered the challenge |
| `/control/state` | | counts of sockets, pending, acknowledged and lost envelopes; `faults`, `ephemeral` |
"""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
from starlette.applications import Starlette

from adapters.standins.slack_control import control_routes
from adapters.standins.slack_delivery import Deliveries, Envelope
from adapters.standins.slack_people import People
from adapters.standins.slack_values import AgentSession, Channel, MentionOrder, Person, View
from adapters.standins.slack_web import Call, Failure, WebApi
from adapters.standins.slack_workspace import Workspace

Found = TypeVar("Found")

_LOOK_AGAIN = 0.05
"""Seconds after which `wait_for` looks again unasked: a predicate may ask about more than the stand-in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A message as people see it now; `text` has every edit and everything streamed in it."""

    ts: str
    user: str
    bot_id: str
    text: str
    thread_ts: str
    blocks: list[dict[str, Any]] | None
    metadata: dict[str, Any] | None
    files: tuple[str, ...]
    edited: bool
    streaming: bool
    reactions: tuple[str, ...]
    tasks: tuple[dict[str, Any], ...] = ()


class SlackStandin(People):
    """One workspace, `team_id`, with one installed app whose bot is `bot_user_id`; serve its `app`.

    `ack_timeout` is how long an acknowledgement may take, seconds; `retry_delays` how long to wait before
    each repeated HTTP request (in Socket Mode only their number counts: what was sent once more than that
    rests until a socket connects). `now` is the clock of timestamps and streams, seconds since 1970. `view` is what
    the app's manifest makes of the direct messages with it.
    """

    def __init__(
        self,
        *,
        bot_token: str = "xoxb-stand-in",  # noqa: S107 - no secret
        app_token: str = "xapp-stand-in",  # noqa: S107
        signing_secret: str = "stand-in-signing-secret",  # noqa: S107
        team_id: str = "T1",
        bot_user_id: str = "UBOT",
        bot_name: str = "reverie",
        ack_timeout: float = 3.0,
        retry_delays: Sequence[float] = (0.0, 60.0, 300.0),
        now: Callable[[], float] = time.time,
        view: View = "classic",
    ) -> None:
        self._changed_event = anyio.Event()
        deliveries = Deliveries(
            signing_secret=signing_secret,
            ack_timeout=ack_timeout,
            retry_delays=retry_delays,
            answered=self._answered,
            changed=self._changed,
        )
        bot = Person(id=bot_user_id, name=bot_name, real_name=bot_name, is_bot=True)
        workspace = Workspace(
            team_id=team_id,
            bot=bot,
            bot_id="BBOT",
            app_id="ABOT",
            now=now,
            publish=self._queue_event,
            changed=self._changed,
        )
        workspace.view = view
        super().__init__(workspace, deliveries)
        self._web = WebApi(workspace, deliveries, bot_token=bot_token, app_token=app_token, changed=self._changed)
        self.app = Starlette(routes=[*self._web.routes(), *control_routes(self)], lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.deliveries.serve_http)
            yield
            tasks.cancel_scope.cancel()

    # what came of it

    def messages(self, channel: Channel | str, thread_ts: str | None = None) -> list[Shown]:
        """Return what is visible now, in order: a channel with its threads, or one thread with its root."""
        return [
            Shown(
                ts=m.ts,
                user=m.user,
                bot_id=m.bot_id,
                text=m.text,
                thread_ts=m.thread_ts,
                blocks=m.blocks,
                metadata=m.metadata,
                files=tuple(m.files),
                edited=m.edited,
                streaming=self.workspace.streaming(m),
                reactions=tuple(name for name, users in m.reactions.items() if users),
                tasks=tuple(m.tasks.values()),
            )
            for m in self.workspace.visible(self._channel(channel), thread_ts=thread_ts)
        ]

    @property
    def calls(self) -> list[Call]:
        """Every call of the Web API, in the order in which they came."""
        return self._web.calls

    @property
    def faults(self) -> list[str]:
        """What the app did that Slack passes over in silence: parameters that a method does not have."""
        return self._web.faults

    @property
    def ephemeral(self) -> list[dict[str, Any]]:
        """What was shown to one person only."""
        return self.workspace.ephemeral

    @property
    def statuses(self) -> Mapping[tuple[str, str], str]:
        """The assistant statuses that show now, by channel and thread."""
        return self.workspace.statuses

    @property
    def sessions(self) -> Mapping[tuple[str, str], AgentSession]:
        """The agent sessions by channel and thread."""
        return self.workspace.sessions

    @property
    def at_work(self) -> list[tuple[str, str]]:
        """Where people see the bot at work: by a status, or by a session that it has begun and not left."""
        sessions = [place for place, session in self.sessions.items() if session.status == "processing"]
        return sorted({*self.statuses, *sessions})

    @property
    def home_views(self) -> Mapping[str, dict[str, Any]]:
        """The home tabs by person."""
        return self.workspace.views

    @property
    def downloads(self) -> list[tuple[str, bool]]:
        """The files that were asked for, by name, each with whether the bot's token came along."""
        return self._web.downloads

    async def wait_for(self, predicate: Callable[["SlackStandin"], Found], timeout: float = 40.0) -> Found:  # noqa: ASYNC109
        """Return what `predicate` finds as soon as it does; the `TimeoutError` tells what there is."""
        with anyio.move_on_after(timeout):
            while True:
                event = self._changed_event
                if found := predicate(self):
                    return found
                with anyio.move_on_after(_LOOK_AGAIN):
                    await event.wait()
        raise TimeoutError(
            f"not within {timeout} s; {self.deliveries.sockets} sockets, "
            f"{len(self.deliveries.pending)} pending, "
            f"calls {[call.method for call in self.calls[-20:]]}"
        )

    # what goes wrong

    def fail(
        self,
        method: str,
        times: int = 1,
        *,
        error: str = "ratelimited",
        status: int = 429,
        retry_after: float | None = 1.0,
        after_acting: bool = False,
    ) -> None:
        """Let the next calls of a method fail.

        `status` is 429 (with `Retry-After`), 200 (a refusal by the name `error`), a 5xx, or 0 (the
        connection is closed without an answer). With `after_acting` the call is carried out and its answer
        lost: by the 5xx, else by closing the connection.
        """
        failure = Failure(
            error=error,
            status=status,
            retry_after=retry_after if status == 429 else None,
            after_acting=after_acting,
            times=times,
        )
        self._web.failures.setdefault(method, []).append(failure)

    def forgive(self) -> None:
        """Let no call fail any more that has not failed yet."""
        self._web.failures.clear()

    def delay(self, method: str, seconds: float) -> None:
        """Let every call of a method take this long before it is looked at; 0 ends it."""
        self._web.delays[method] = seconds

    def limit(self, method: str, *, per_second: float, burst: float = 1.0) -> None:
        """Grant so many calls of a method in each channel from now on, and answer 429 to more."""
        self._web.rates.limit(method, per_second=per_second, burst=burst)

    def withhold(self, *scopes: str) -> None:
        """Let the bot's token lack these scopes from now on."""
        self._web.withheld |= set(scopes)

    async def drop_sockets(self) -> None:
        """Close every socket without warning and return when they are closed."""
        await self.deliveries.drop()

    async def refresh_sockets(self) -> None:
        """Send the `disconnect` message by which Slack asks an app to reconnect."""
        await self.deliveries.announce_disconnect()

    async def use_events_url(self, url: str) -> bool:
        """Send events over HTTP to `url` from now on, if it answers the challenge; return whether it did."""
        return await self.deliveries.challenge(url)

    @property
    def mention_order(self) -> MentionOrder:
        """Which of the two events of a mention is sent first."""
        return self.workspace.mention_order

    @mention_order.setter
    def mention_order(self, order: MentionOrder) -> None:
        self.workspace.mention_order = order

    def _changed(self) -> None:
        self._changed_event.set()
        self._changed_event = anyio.Event()

    def _queue_event(self, payload: dict[str, Any]) -> None:
        self.deliveries.add("events_api", payload)

    def _answered(self, envelope: Envelope, answer: Mapping[str, Any]) -> None:
        if envelope.kind == "slash_commands" and answer:
            self._web.show_response(envelope.payload["channel_id"], envelope.payload["user_id"], answer)
