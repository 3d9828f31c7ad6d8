"""The `files.*` methods of the Slack stand-in: the second version of uploading, and `files.info`."""

from collections.abc import Mapping
from typing import Any

from adapters.standins.slack_arguments import Arguments
from adapters.standins.slack_blocks import RefusalError, invalid_arguments
from adapters.standins.slack_chat import thread_of
from adapters.standins.slack_values import Message, StoredFile
from adapters.standins.slack_workspace import Workspace


def upload_url(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `files.getUploadURLExternal`."""
    name, length = arguments.required("filename"), arguments.number("length", 0)
    if length < 1:
        raise invalid_arguments("length must be greater than 0")
    file = StoredFile(id=f"F{workspace.number():010d}", name=name, user=workspace.bot.id, length=length)
    workspace.files[file.id] = file
    return {"upload_url": f"{workspace.base}/upload/v1/{file.id}", "file_id": file.id}


def complete_upload(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `files.completeUploadExternal`."""
    files = [_uploaded(workspace, given) for given in arguments.get("files") or ()]
    if not files:
        raise invalid_arguments("missing required field: files")
    places = [arguments.text("channel_id"), *arguments.text("channels").split(",")]
    for channel in [workspace.postable(place) for place in dict.fromkeys(places) if place]:
        thread = thread_of(channel, arguments.text("thread_ts"))
        made = workspace.post(
            channel,
            Message(
                ts=workspace.next_ts(),
                user=workspace.bot.id,
                bot_id=workspace.bot_id,
                subtype="file_share",
                text=arguments.text("initial_comment"),
                thread_ts=thread,
                files=[file.id for file in files],
            ),
        )
        for file in files:
            file.posted.append((channel.id, made.ts))
    return {"files": [workspace.file_shape(file) for file in files]}  # where they were shared, only files.info tells


def _uploaded(workspace: Workspace, given: Mapping[str, Any]) -> StoredFile:
    file = workspace.files.get(str(given.get("id")))
    if file is None or file.content is None:
        raise RefusalError("file_not_found")
    file.title, file.shared = str(given.get("title") or file.name), True
    return file


def file_info(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `files.info`."""
    file = workspace.files.get(arguments.required("file"))
    if file is None or file.content is None:
        raise RefusalError("file_not_found")
    file.access = "visible"  # asking for a stub is how an app gets the whole
    shaped = workspace.file_shape(file) | {"shares": _shares(workspace, file)}
    return {"file": shaped, "comments": [], "response_metadata": {"next_cursor": ""}}


def _shares(workspace: Workspace, file: StoredFile) -> dict[str, Any]:
    shares: dict[str, Any] = {}
    for channel, ts in file.posted:
        kind = "public" if workspace.channels[channel].kind == "channel" else "private"
        shares.setdefault(kind, {}).setdefault(channel, []).append({"ts": ts})
    return shares
