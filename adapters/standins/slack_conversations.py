"""The `conversations.*` methods of the Slack stand-in."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

from adapters.standins.slack_arguments import Arguments
from adapters.standins.slack_blocks import RefusalError
from adapters.standins.slack_values import Channel, Message
from adapters.standins.slack_workspace import Workspace

Item = TypeVar("Item")


def info(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `conversations.info`."""
    channel = workspace.channel(arguments.required("channel"))
    shaped = workspace.channel_shape(channel)
    if arguments.flag("include_num_members"):
        shaped["num_members"] = len(channel.members)
    return {"channel": shaped}


def open_direct(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `conversations.open`."""
    if arguments.text("channel"):
        channel = workspace.channel(arguments.text("channel"))
    else:
        channel = workspace.open_im(arguments.required("users").split(","))
    shaped = workspace.channel_shape(channel) if arguments.flag("return_im") else {"id": channel.id}
    return {"channel": shaped}


def join(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `conversations.join`."""
    channel = workspace.channel(arguments.required("channel"))
    if channel.kind != "channel":
        raise RefusalError("method_not_supported_for_channel_type")
    if workspace.bot.id not in channel.members:
        channel.members.append(workspace.bot.id)
    return {"channel": workspace.channel_shape(channel)}


def list_all(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `conversations.list`."""
    kinds = {"public_channel": "channel", "private_channel": "group", "im": "im", "mpim": "mpim"}
    wanted = {kinds.get(kind.strip()) for kind in (arguments.text("types") or "public_channel").split(",")}
    if None in wanted:
        raise RefusalError("invalid_types")
    bot = workspace.bot.id
    channels = [
        c
        for c in workspace.channels.values()
        if c.kind in wanted
        and (c.kind == "channel" or bot in c.members)
        and not (c.is_archived and arguments.flag("exclude_archived"))
    ]
    page, more = _page(channels, arguments, default=100)
    return {"channels": [workspace.channel_shape(channel) for channel in page], **more}


def members(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `conversations.members`."""
    page, more = _page(workspace.channel(arguments.required("channel")).members, arguments, default=100)
    return {"members": page, **more}


def history(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `conversations.history`: newest first, metadata only if asked for."""
    channel = _readable(workspace, arguments)
    found = [m for m in channel.messages if (not m.thread_ts or m.broadcast) and _within(m, arguments)]
    page, more = _page(found[::-1], arguments, default=100)
    return {
        "messages": _shown(workspace, channel, page, arguments),
        "has_more": bool(more["response_metadata"]),
        **more,
    }


def replies(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `conversations.replies`: oldest first, led by the first message."""
    channel = _readable(workspace, arguments)
    asked = channel.find(arguments.required("ts"))
    if asked is None:
        raise RefusalError("thread_not_found")
    found = [m for m in channel.messages if m.thread_ts == asked.root and _within(m, arguments)]
    page, more = _page(found, arguments, default=1000)
    parent = channel.find(asked.root)
    whole = [parent, *page] if parent else page  # the first message leads every page, in range or not
    return {
        "messages": _shown(workspace, channel, whole, arguments),
        "has_more": bool(more["response_metadata"]),
        **more,
    }


def _readable(workspace: Workspace, arguments: Arguments) -> Channel:
    channel = workspace.channel(arguments.required("channel"))
    if workspace.bot.id not in channel.members:
        raise RefusalError("not_in_channel")
    return channel


def _within(message: Message, arguments: Arguments) -> bool:
    oldest, latest = (_moment(arguments, name) for name in ("oldest", "latest"))
    at = _microseconds(message.ts)
    if arguments.flag("inclusive"):
        return (oldest is None or at >= oldest) and (latest is None or at <= latest)
    return (oldest is None or at > oldest) and (latest is None or at < latest)


def _moment(arguments: Arguments, name: str) -> int | None:
    text = arguments.text(name)
    if not text or text == "now":
        return None
    try:
        return _microseconds(text)
    except ValueError as broken:
        raise RefusalError(f"invalid_ts_{name}") from broken


def _microseconds(ts: str) -> int:
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int((fraction or "0").ljust(6, "0")[:6])


def _shown(
    workspace: Workspace, channel: Channel, messages: Sequence[Message], arguments: Arguments
) -> list[dict[str, Any]]:
    shaped = [workspace.shape(channel, message) for message in messages]
    if not arguments.flag("include_all_metadata"):
        for one in shaped:
            one.pop("metadata", None)
    return shaped


def _page(items: Sequence[Item], arguments: Arguments, *, default: int) -> tuple[list[Item], dict[str, Any]]:
    limit = arguments.number("limit", default)
    if not 1 <= limit <= 1000:
        raise RefusalError("invalid_limit")
    try:
        start = int(base64.b64decode(arguments.text("cursor"), validate=True) or b"0")
    except (binascii.Error, ValueError) as broken:
        raise RefusalError("invalid_cursor") from broken
    following = start + limit
    cursor = base64.b64encode(str(following).encode()).decode() if following < len(items) else ""
    return list(items[start:following]), {"response_metadata": {"next_cursor": cursor} if cursor else {}}
