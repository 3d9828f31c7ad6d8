"""What Slack sends, from Bolt to the inbox: each thing is acknowledged after it was stored."""

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp

from adapters.base import Account
from adapters.slack.changes import REACHABLE, people_in_change, reached, read_change, read_press, read_stop
from adapters.slack.inbound import Scene, is_message, is_private, people_in, read_command, read_event
from adapters.slack.intake import Intake
from adapters.slack.workspace import Workspace

_log = structlog.get_logger(__name__)

COMMAND = "/reverie"
_ANY = re.compile(".*")
_CHANGES = frozenset({"message_changed", "message_deleted"})

Read = TypeVar("Read")


class Listeners:
    """Hears one app, for all workspaces that it is installed in; `workspace` returns one by its team's id, or None."""

    def __init__(
        self, intake: Intake, *, workspace: Callable[[str], Workspace | None], now: Callable[[], datetime]
    ) -> None:
        self._intake, self._workspace, self._now = intake, workspace, now
        self._in_order = asyncio.Lock()  # lets tasks through in the order in which they came

    def register(self, app: AsyncApp) -> None:
        """Let the app tell us of everything that concerns us, and acknowledge the rest."""
        app.event("message")(self._on_message)
        app.event("app_mention")(self._on_message)
        app.event("agent_session_stopped")(self._on_stop)
        app.event("app_home_opened")(self._on_home)
        app.event("assistant_thread_started")(self._on_thread)
        for kind in REACHABLE:
            app.event(kind)(self._on_reach)
        app.command(COMMAND)(self._on_command)
        app.action(_ANY)(self._on_press)
        # An event without a listener is answered 404, and Slack switches off an app that does so too often.
        app.event(_ANY)(self._on_other)
        app.error(self._on_error)

    def _there(self, body: Mapping[str, Any]) -> Workspace | None:
        # In a channel that is shared with others `team_id` is where it was said, the context where we heard it.
        team = body.get("context_team_id") or body.get("team_id") or (body.get("team") or {}).get("id") or ""
        there = self._workspace(str(team))
        if there is None:
            _log.warning("slack.other_workspace")
        return there

    async def _on_message(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        there = self._there(body)
        if there is None:
            return
        if event.get("subtype") in _CHANGES:
            await self._on_change(there, event)
            return
        people = _understood(lambda: people_in(event, bot=there.bot) if is_message(event, bot=there.bot) else None)
        if people is None:
            return
        # Names are looked up side by side, but what came first is stored first: its order is the conversation's.
        looking = self._look(there, event, people)
        async with self._in_order:
            scene = await looking
            inbound = _understood(lambda: read_event(event, scene=scene))
            if inbound is not None:
                there.heard(inbound)
                await self._intake.put(inbound)
        if inbound is not None:
            await there.views.entitle(inbound.address)

    async def _on_change(self, there: Workspace, event: dict[str, Any]) -> None:
        people = _understood(lambda: people_in_change(event, bot=there.bot))
        if people is None:
            return
        looking = self._look(there, event, people)
        async with self._in_order:
            scene = await looking
            amended = _understood(lambda: read_change(event, scene=scene))
            if amended is not None:
                await self._intake.amended(amended)

    def _look(self, there: Workspace, event: Mapping[str, Any], people: list[str]) -> "asyncio.Task[Scene]":
        channel = str(event["channel"])
        direct = is_private(channel, kind=str(event.get("channel_type") or ""))
        return asyncio.create_task(there.scene(people, channel=channel, direct=direct))

    async def _on_stop(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        there = self._there(body)
        if there is None:
            return
        scene = await there.scene([str(event.get("user") or "")])
        inbound = _understood(lambda: read_stop(event, scene=scene))
        if inbound is not None:
            await self._intake.put(inbound)
            await there.status.leave(inbound.address)

    async def _on_home(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        there = self._there(body)
        if there is None:
            return
        if event.get("tab") == "messages":
            await there.views.opened(str(event.get("channel") or ""))
            return
        account = _understood(lambda: Account(platform="slack", workspace=there.bot.team, user=str(event["user"])))
        if account is not None and event.get("tab") == "home":
            await there.show_home(account, self._intake.home)

    async def _on_thread(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        there = self._there(body)
        if there is not None:
            await there.views.thread_started(event.get("assistant_thread") or {})

    async def _on_reach(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        there = self._there(body)
        found = _understood(lambda: reached(event, bot=there.bot)) if there is not None else None
        if there is None or found is None:
            return
        chat, reachable = found
        there.channels.forget(chat.chat)
        await self._intake.reachable(chat, reachable=reachable)

    async def _on_command(self, ack: AsyncAck, command: dict[str, Any]) -> None:
        there = self._there(command)
        if there is not None:
            user, channel = str(command.get("user_id")), str(command.get("channel_id"))
            private = is_private(channel, kind="")
            scene = await there.scene([user], channel=channel if private else "", direct=private)
            inbound = _understood(lambda: read_command(command, scene=scene, now=self._now()))
            if inbound is not None:
                there.heard(inbound)
                there.posts.asides.heard(command)
                await self._intake.put(inbound)
        await ack()

    async def _on_press(self, ack: AsyncAck, body: dict[str, Any]) -> None:
        there = self._there(body)
        if there is not None:
            scene = await there.scene([str((body.get("user") or {}).get("id") or "")])
            pressed = _understood(lambda: read_press(body, scene=scene))
            there.posts.asides.pressed(body)
            word = await self._intake.pressed(pressed) if pressed is not None else ""
            if pressed is not None and word:
                address = pressed.address
                await there.posts.asides.tell(address.chat, pressed.account.user, word, thread=address.thread)
        await ack()

    async def _on_other(self) -> None:
        """Acknowledge what is not for us."""

    async def _on_error(self, error: Exception) -> None:
        # The text of the error is left out: a store's error quotes the message that it could not store.
        _log.error("slack.not_acknowledged", error=type(error).__name__)


def _understood(read: Callable[[], Read]) -> Read | None:
    """Return what was read; None, with a word in the log, for what Slack can't have meant.

    Such an event is acknowledged all the same: Slack would send it again, and it would be no better.
    """
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - the edge: one odd event must not hold up the others
        _log.error("slack.event_not_understood", error=type(error).__name__)
        return None
