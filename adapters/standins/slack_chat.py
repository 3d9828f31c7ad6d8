"""The `chat.*` methods of the Slack stand-in: messages, edits, and streams."""

from dataclasses import replace
from typing import Any

from adapters.standins.slack_arguments import Arguments
from adapters.standins.slack_blocks import (
    RefusalError,
    Streamed,
    check_blocks,
    check_metadata,
    invalid_arguments,
    read_chunks,
)
from adapters.standins.slack_values import AgentSession, Channel, Message
from adapters.standins.slack_workspace import Workspace

SESSION_STATUSES = frozenset({"active", "processing", "suspended", "closed"})


def post_message(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `chat.postMessage`."""
    channel = workspace.postable(arguments.required("channel"))
    text, blocks = _content(workspace, arguments, longest=workspace.limits.text)
    message = Message(
        ts=workspace.next_ts(),
        user=workspace.bot.id,
        bot_id=workspace.bot_id,
        text=text,
        blocks=blocks,
        thread_ts=thread_of(channel, arguments.text("thread_ts")),
        broadcast=arguments.flag("reply_broadcast"),
        metadata=_metadata(workspace, arguments),
    )
    workspace.post(channel, message)
    return {"channel": channel.id, "ts": message.ts, "message": workspace.shape(channel, message)}


def post_ephemeral(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `chat.postEphemeral`; what was shown is kept in `ephemeral`."""
    channel = workspace.postable(arguments.required("channel"))
    user = arguments.required("user")
    if user not in channel.members:
        raise RefusalError("user_not_in_channel")
    text, blocks = _content(workspace, arguments, longest=workspace.limits.text)
    ts = workspace.next_ts()
    workspace.ephemeral.append(
        {
            "channel": channel.id,
            "user": user,
            "text": text,
            "blocks": blocks,
            "ts": ts,
            "thread_ts": thread_of(channel, arguments.text("thread_ts")),
        }
    )
    workspace.changed()
    return {"message_ts": ts}


def update(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `chat.update`: text without blocks takes the old blocks away, metadata stays unless given."""
    channel = workspace.channel(arguments.required("channel"))
    message = _own(workspace, channel, arguments.required("ts"), refusal="cant_update_message")
    if workspace.streaming(message):
        raise RefusalError("streaming_state_conflict")
    text, blocks = _content(workspace, arguments, longest=workspace.limits.update_text)
    before = workspace.shape(channel, message)
    if arguments.get("blocks") is None or arguments.get("text") is not None:
        message.text = text
    message.blocks = blocks
    message.edited = True
    if arguments.get("metadata") is not None:
        message.metadata = _metadata(workspace, arguments)
    workspace.change(channel, message, before)
    return {
        "channel": channel.id,
        "ts": message.ts,
        "text": message.text,
        "message": workspace.shape(channel, message),
    }


def delete(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `chat.delete`."""
    channel = workspace.channel(arguments.required("channel"))
    message = _own(workspace, channel, arguments.required("ts"), refusal="cant_delete_message")
    if workspace.streaming(message):
        raise RefusalError("cant_delete_message")
    workspace.delete(channel, message)
    return {"channel": channel.id, "ts": message.ts}


def start_stream(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `chat.startStream`: a thread is required, in channels also the person that it is for."""
    channel = workspace.postable(arguments.required("channel"))
    thread = thread_of(channel, arguments.required("thread_ts"))
    if channel.kind != "im":
        _check_recipient(workspace, arguments)
    added = _streamed(workspace, arguments)
    message = Message(
        ts=workspace.next_ts(),
        user=workspace.bot.id,
        bot_id=workspace.bot_id,
        text=added.text,
        blocks=added.blocks or None,
        tasks=added.tasks,
        thread_ts=thread,
        stream="open",
        started_at=workspace.now(),
    )
    workspace.post(channel, message)
    return {"channel": channel.id, "ts": message.ts}


def append_stream(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `chat.appendStream`."""
    channel, message = _open_stream(workspace, arguments)
    if arguments.get("markdown_text") is None and arguments.get("chunks") is None:
        raise invalid_arguments("missing required field: markdown_text")
    _append(workspace, arguments, message)
    workspace.changed()
    return {"channel": channel.id, "ts": message.ts}


def stop_stream(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `chat.stopStream`: the last text, blocks below it, metadata, and the session's status."""
    channel, message = _open_stream(workspace, arguments)
    status = arguments.text("session_status")
    if status and status not in SESSION_STATUSES:
        raise invalid_arguments(f"session_status must be one of {sorted(SESSION_STATUSES)}")
    below = check_blocks(arguments.get("blocks") or [], workspace.limits)
    metadata = _metadata(workspace, arguments)
    before = workspace.shape(channel, message)
    _append(workspace, arguments, message)
    message.blocks = [*(message.blocks or []), *below] or None
    message.metadata = metadata or message.metadata
    message.stream = "stopped"
    if status:
        before_it = workspace.sessions.get((channel.id, message.root), AgentSession(status=status))
        workspace.sessions[channel.id, message.root] = replace(before_it, status=status)
    workspace.change(channel, message, before)
    return {"channel": channel.id, "ts": message.ts, "message": workspace.shape(channel, message)}


def _content(workspace: Workspace, arguments: Arguments, *, longest: int) -> tuple[str, list[dict[str, Any]] | None]:
    text, markdown, blocks = arguments.text("text"), arguments.text("markdown_text"), arguments.get("blocks")
    if markdown and (text or blocks):
        raise RefusalError("markdown_text_conflict")
    if not (text or markdown or blocks or arguments.get("attachments")):
        raise RefusalError("no_text")
    if len(text) > longest or len(markdown) > workspace.limits.markdown_text:
        raise RefusalError("msg_too_long")
    if markdown:
        return markdown, [{"type": "markdown", "text": markdown}]
    return text, check_blocks(blocks, workspace.limits) if blocks else None


def _metadata(workspace: Workspace, arguments: Arguments) -> dict[str, Any] | None:
    metadata = arguments.get("metadata")
    return None if metadata is None else check_metadata(metadata, workspace.limits) or None


def thread_of(channel: Channel, thread_ts: str) -> str:
    """Return the first message of the thread that `thread_ts` is in; raises `thread_not_found`."""
    if not thread_ts:
        return ""
    parent = channel.find(thread_ts)
    if parent is None:
        raise RefusalError("thread_not_found")
    return parent.root


def _own(workspace: Workspace, channel: Channel, ts: str, *, refusal: str) -> Message:
    message = channel.find(ts)
    if message is None:
        raise RefusalError("message_not_found")
    if message.bot_id != workspace.bot_id:
        raise RefusalError(refusal)
    return message


def _check_recipient(workspace: Workspace, arguments: Arguments) -> None:
    if not arguments.text("recipient_user_id"):
        raise RefusalError("missing_recipient_user_id")
    if not arguments.text("recipient_team_id"):
        raise RefusalError("missing_recipient_team_id")
    workspace.person(arguments.text("recipient_user_id"))
    if arguments.text("recipient_team_id") != workspace.team_id:
        raise RefusalError("team_not_found")


def _open_stream(workspace: Workspace, arguments: Arguments) -> tuple[Channel, Message]:
    channel = workspace.channel(arguments.required("channel"))
    message = _own(workspace, channel, arguments.required("ts"), refusal="message_not_owned_by_app")
    if message.stream == "stopped_by_user":
        raise RefusalError("stopped_by_user")
    if not workspace.streaming(message):
        raise RefusalError("message_not_in_streaming_state")
    return channel, message


def _streamed(workspace: Workspace, arguments: Arguments) -> Streamed:
    text = arguments.text("markdown_text")
    if len(text) > workspace.limits.markdown_text:
        raise RefusalError("msg_too_long")
    if arguments.get("chunks") is None:
        return Streamed(text=text)
    added = read_chunks(arguments.get("chunks"), workspace.limits)
    return replace(added, text=text + added.text)


def _append(workspace: Workspace, arguments: Arguments, message: Message) -> None:
    added = _streamed(workspace, arguments)
    message.text += added.text
    message.blocks = [*(message.blocks or []), *added.blocks] or None
    message.tasks |= added.tasks
