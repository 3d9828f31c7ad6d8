"""From what Slack sends of anything but new messages: edits, deletions, presses, stops, and the bot's own comings."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from adapters.base import Account, Address, Amended, ChatKind, Inbound, Pressed
from adapters.slack.inbound import Bot, Scene, external_id, home_of, is_private, is_said, people_in, said_in, where

_DELETED = frozenset({"tombstone"})
"""What Slack puts in the place of a deleted message that has replies."""

REACHABLE: Mapping[str, bool] = MappingProxyType(
    {
        "member_joined_channel": True,
        "channel_unarchive": True,
        "group_unarchive": True,
        "member_left_channel": False,
        "channel_left": False,
        "group_left": False,
        "channel_archive": False,
        "group_archive": False,
        "channel_deleted": False,
        "group_deleted": False,
    }
)
"""The events after which the bot can, or can't, post in a channel. The first of each kind tell of people too."""


def changed_message(event: Mapping[str, Any], *, bot: Bot) -> Mapping[str, Any] | None:
    """Return a person's message that they have edited or deleted, as it is now or was last; None for all else.

    Slack reports as a change what is none of a person's: previews of links, replies that were added, languages it has
    detected, titles of assistant threads. `edited` is on a message from its first edit on, so it must be new.
    """
    before, now = event.get("previous_message") or {}, event.get("message") or {}
    if _is_deletion(event):
        return before if is_said(before, bot=bot) else None
    edited = now.get("edited") or {}
    by_its_author = bool(edited) and edited.get("user") == now.get("user")
    news = edited != before.get("edited") and now.get("text") != before.get("text")
    return now if by_its_author and news and is_said(now, bot=bot) else None


def people_in_change(event: Mapping[str, Any], *, bot: Bot) -> list[str] | None:
    """List the user ids whose names a change needs; None if it is none of a person's."""
    message = changed_message(event, bot=bot)
    return None if message is None else people_in({**message, "channel": event["channel"]}, bot=bot)


def read_change(event: Mapping[str, Any], *, scene: Scene) -> Amended | None:
    """Return what became of a person's message; None if the event tells of no change that a person made."""
    message = changed_message(event, bot=scene.bot)
    if message is None:
        return None
    address, _ = where(event, message, scene=scene)
    return Amended(
        external_id=external_id(str(event["channel"]), str(message["ts"]), bot=scene.bot),
        address=address,
        account=Account(platform="slack", workspace=home_of(message, bot=scene.bot), user=str(message["user"])),
        text=None if _is_deletion(event) else said_in(message, scene=scene),
    )


def _is_deletion(event: Mapping[str, Any]) -> bool:
    now = event.get("message") or {}
    return event.get("subtype") == "message_deleted" or str(now.get("subtype") or "") in _DELETED


def read_stop(event: Mapping[str, Any], *, scene: Scene) -> Inbound:
    """Return a press of Slack's own stop button as the command that it stands for."""
    user, channel, thread = str(event["user"]), str(event["channel"]), str(event.get("thread_ts") or "")
    stamp = str(event["event_ts"])
    private = is_private(channel, kind="")
    return Inbound(
        external_id=f"{scene.bot.team}:stop:{channel}:{thread}:{stamp}",
        address=Address(platform="slack", workspace=scene.bot.team, chat=channel, thread=thread),
        kind=ChatKind.PRIVATE if private else ChatKind.SHARED,
        account=Account(platform="slack", workspace=home_of(event, bot=scene.bot), user=user),
        name=scene.name(user),
        text="/stop",
        message_id="",
        sent_at=datetime.fromtimestamp(float(stamp), tz=UTC),
        addressed=True,
        language=scene.locale(user),
    )


def read_press(payload: Mapping[str, Any], *, scene: Scene) -> Pressed | None:
    """Return the press of a button under a message; None for what is under no message."""
    container, action = payload.get("container") or {}, payload["actions"][0]
    channel, ts = str(container.get("channel_id") or ""), str(container.get("message_ts") or "")
    if not channel or not ts or not action.get("value"):
        return None
    user, bot = str(payload["user"]["id"]), scene.bot
    thread = str(container.get("thread_ts") or "")
    return Pressed(
        external_id=f"{bot.team}:press:{channel}:{ts}:{action.get('action_ts', '')}:{user}",
        # A message of ours that others have answered since is named as its own thread.
        address=Address(platform="slack", workspace=bot.team, chat=channel, thread="" if thread == ts else thread),
        kind=ChatKind.PRIVATE if is_private(channel, kind="") else ChatKind.SHARED,
        account=Account(platform="slack", workspace=str(payload["user"].get("team_id") or bot.team), user=user),
        name=scene.name(user),
        token=str(action["value"]),
        message_id=ts,
        language=scene.locale(user),
    )


def reached(event: Mapping[str, Any], *, bot: Bot) -> tuple[Address, bool] | None:
    """Return a channel and whether the bot can post there from now on; None for what concerns other people."""
    kind, channel = str(event.get("type")), event.get("channel")
    if kind.startswith("member_") and event.get("user") != bot.user:
        return None
    chat = str(channel.get("id") if isinstance(channel, Mapping) else channel)
    return Address(platform="slack", workspace=bot.team, chat=chat), REACHABLE[kind]
