"""The table of Web API methods that the Slack stand-in has, with the parameters that each one takes."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from adapters.standins import slack_chat as chat
from adapters.standins import slack_conversations as conversations
from adapters.standins import slack_files as files
from adapters.standins import slack_views as views
from adapters.standins.slack_arguments import Arguments
from adapters.standins.slack_blocks import RefusalError
from adapters.standins.slack_workspace import Workspace

Handler = Callable[[Workspace, Arguments], dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """One method: what it does, what it takes, and whether it wants the app's token instead of the bot's.

    `scope` is what the bot's token needs for it; where Slack takes one of several, the one that Reverie asks for.
    """

    run: Handler
    parameters: frozenset[str]
    scope: str = ""
    app_token: bool = False


def _auth_test(workspace: Workspace, _: Arguments) -> dict[str, Any]:
    return {
        "url": f"{workspace.base}/",
        "team": workspace.team_name,
        "team_id": workspace.team_id,
        "user": workspace.bot.name,
        "user_id": workspace.bot.id,
        "bot_id": workspace.bot_id,
        "is_enterprise_install": False,
    }


def _open_connection(workspace: Workspace, _: Arguments) -> dict[str, Any]:
    ticket = uuid.uuid4().hex
    workspace.tickets.add(ticket)
    return {"url": f"ws{workspace.base.removeprefix('http')}/link/?ticket={ticket}&app_id={workspace.app_id}"}


def _team_info(workspace: Workspace, _: Arguments) -> dict[str, Any]:
    return {"team": {"id": workspace.team_id, "name": workspace.team_name, "domain": "stand-in", "icon": {}}}


def _bots_info(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    if arguments.text("bot") not in {"", workspace.bot_id}:
        raise RefusalError("bot_not_found")
    bot = workspace.bot
    return {
        "bot": {
            "id": workspace.bot_id,
            "app_id": workspace.app_id,
            "user_id": bot.id,
            "name": bot.name,
            "deleted": False,
        }
    }


def _users_info(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    person = workspace.person(arguments.required("user"))
    return {"user": workspace.person_shape(person, with_locale=arguments.flag("include_locale"))}


def _method(run: Handler, parameters: str = "", *, scope: str = "") -> Method:
    return Method(run=run, parameters=frozenset(parameters.split()), scope=scope)


_CONTENT = "channel text attachments blocks markdown_text as_user link_names parse"
_LOOK = "icon_emoji icon_url username"
_RANGE = "channel cursor inclusive include_all_metadata latest limit oldest"

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "agents.sessions.rename": _method(views.rename_session, "channel_id title thread_ts"),
        "agents.sessions.setStatus": _method(
            views.set_session_status, f"channel_id status thread_ts title initiator_user_id {_LOOK}"
        ),
        "apps.connections.open": replace(_method(_open_connection), app_token=True),
        "assistant.threads.setStatus": _method(
            views.set_status, f"channel_id thread_ts status loading_messages {_LOOK}"
        ),
        "assistant.threads.setSuggestedPrompts": _method(
            views.set_prompts, "channel_id thread_ts title prompts", scope="assistant:write"
        ),
        "assistant.threads.setTitle": _method(views.set_title, "channel_id thread_ts title", scope="assistant:write"),
        "auth.test": _method(_auth_test),
        "bots.info": _method(_bots_info, "bot team_id"),
        "chat.appendStream": _method(chat.append_stream, "channel ts markdown_text chunks"),
        "chat.delete": _method(chat.delete, "channel ts as_user"),
        "chat.postEphemeral": _method(chat.post_ephemeral, f"{_CONTENT} user thread_ts {_LOOK}"),
        "chat.postMessage": _method(
            chat.post_message,
            f"{_CONTENT} {_LOOK} thread_ts reply_broadcast unfurl_links unfurl_media container_id mrkdwn metadata",
        ),
        "chat.startStream": _method(
            chat.start_stream,
            f"channel thread_ts markdown_text recipient_team_id recipient_user_id chunks task_display_mode {_LOOK}",
        ),
        "chat.stopStream": _method(chat.stop_stream, "channel ts markdown_text blocks metadata chunks session_status"),
        "chat.update": _method(chat.update, f"{_CONTENT} ts file_ids reply_broadcast metadata"),
        "conversations.history": _method(conversations.history, _RANGE),
        "conversations.info": _method(
            conversations.info, "channel include_locale include_num_members", scope="channels:read"
        ),
        "conversations.join": _method(conversations.join, "channel"),
        "conversations.list": _method(conversations.list_all, "cursor exclude_archived limit team_id types"),
        "conversations.members": _method(conversations.members, "channel cursor limit"),
        "conversations.open": _method(conversations.open_direct, "channel return_im users prevent_creation"),
        "conversations.replies": _method(conversations.replies, f"{_RANGE} ts"),
        "files.completeUploadExternal": _method(
            files.complete_upload, "files channel_id channels initial_comment thread_ts blocks", scope="files:write"
        ),
        "files.getUploadURLExternal": _method(
            files.upload_url, "filename length alt_txt snippet_type", scope="files:write"
        ),
        "files.info": _method(files.file_info, "file count cursor limit page", scope="files:read"),
        "reactions.add": _method(views.add_reaction, "channel name timestamp", scope="reactions:write"),
        "reactions.remove": _method(
            views.remove_reaction, "name channel file file_comment timestamp", scope="reactions:write"
        ),
        "team.info": _method(_team_info, "team domain include_slackbot_availability"),
        "users.info": _method(_users_info, "user include_locale", scope="users:read"),
        "views.publish": _method(views.publish_view, "user_id view hash"),
    }
)
