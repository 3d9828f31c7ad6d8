"""What the Slack stand-in shows around messages: reactions, the assistant and agent views, the home tab."""

from dataclasses import replace
from typing import Any

from adapters.standins.slack_arguments import Arguments
from adapters.standins.slack_blocks import RefusalError, check_blocks, invalid_arguments
from adapters.standins.slack_chat import SESSION_STATUSES
from adapters.standins.slack_values import AgentSession, Message
from adapters.standins.slack_workspace import Workspace


def _reacted(workspace: Workspace, arguments: Arguments) -> tuple[Message, str]:
    channel = workspace.channel(arguments.required("channel"))
    message, name = channel.find(arguments.required("timestamp")), arguments.required("name").strip(":")
    if message is None:
        raise RefusalError("message_not_found")
    return message, name


def add_reaction(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `reactions.add`."""
    message, name = _reacted(workspace, arguments)
    users = message.reactions.setdefault(name, [])
    if workspace.bot.id in users:
        raise RefusalError("already_reacted")
    users.append(workspace.bot.id)
    workspace.changed()
    return {}


def remove_reaction(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `reactions.remove`."""
    message, name = _reacted(workspace, arguments)
    if workspace.bot.id not in message.reactions.get(name, ()):
        raise RefusalError("no_reaction")
    message.reactions[name].remove(workspace.bot.id)
    workspace.changed()
    return {}


def _place(workspace: Workspace, arguments: Arguments) -> tuple[str, str]:
    channel = workspace.postable(arguments.required("channel_id"))
    thread = arguments.text("thread_ts")
    if thread and channel.find(thread) is None:
        raise RefusalError("thread_not_found")
    return channel.id, thread


def set_status(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `assistant.threads.setStatus`."""
    arguments.required("thread_ts")
    place = _place(workspace, arguments)
    if arguments.get("status") is None:
        raise invalid_arguments("missing required field: status")
    if len(arguments.get("loading_messages") or ()) > 10:
        raise invalid_arguments("loading_messages must have at most 10 items")
    workspace.statuses[place] = arguments.text("status")
    if not arguments.text("status"):
        del workspace.statuses[place]
    workspace.changed()
    return {}


def set_title(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `assistant.threads.setTitle`; an assistant's thread is told to be changed, as Slack does."""
    channel = workspace.postable(arguments.required("channel_id"))
    root = channel.find(arguments.required("thread_ts"))
    workspace.titles[_place(workspace, arguments)] = arguments.required("title")
    if root is not None and root.subtype == "assistant_app_thread":
        before = workspace.shape(channel, root)
        root.text, root.edited = arguments.text("title"), True
        workspace.change(channel, root, before)
    workspace.changed()
    return {}


def set_prompts(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `assistant.threads.setSuggestedPrompts`.

    With a thread it belongs to the assistant view, and in the agent view, says Slack's reference, nothing comes of it.
    Without one it is taken in the agent view only; by which word Slack refuses it elsewhere is a guess.
    """
    prompts = arguments.get("prompts")
    if not isinstance(prompts, list) or not 1 <= len(prompts) <= 4:
        raise invalid_arguments("prompts must have between 1 and 4 items")
    if not all(isinstance(p, dict) and p.get("title") and p.get("message") for p in prompts):
        raise invalid_arguments("a prompt needs title and message")
    place = _place(workspace, arguments)
    if not place[1] and workspace.view != "agent":
        raise RefusalError("invalid_thread_ts")
    if bool(place[1]) != (workspace.view == "agent"):
        workspace.prompts[place] = prompts
    workspace.changed()
    return {}


def set_session_status(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `agents.sessions.setStatus`: a title counts only when the session is made."""
    arguments.required("thread_ts")
    place, status = _place(workspace, arguments), arguments.required("status")
    if status not in SESSION_STATUSES:
        raise invalid_arguments(f"status must be one of {sorted(SESSION_STATUSES)}")
    if len(arguments.text("title")) > 200:
        raise invalid_arguments("title must be less than 201 characters")
    before = workspace.sessions.get(place)
    title = before.title if before else arguments.text("title")  # a title counts only when the session is made
    workspace.sessions[place] = AgentSession(status=status, title=title)
    workspace.changed()
    return {"status": status, "agent_status": status, "title": title}


def rename_session(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `agents.sessions.rename`."""
    place = _place(workspace, arguments)
    if place not in workspace.sessions:
        raise RefusalError("session_not_found")
    title = arguments.required("title")
    workspace.sessions[place] = AgentSession(status=workspace.sessions[place].status, title=title)
    workspace.changed()
    return {"title": title}


def publish_view(workspace: Workspace, arguments: Arguments) -> dict[str, Any]:
    """Answer `views.publish`."""
    person, view = workspace.person(arguments.required("user_id")), arguments.get("view")
    if not isinstance(view, dict) or view.get("type") != "home":
        raise invalid_arguments("view must be of type home")
    check_blocks(view.get("blocks"), replace(workspace.limits, block_count=100, all_blocks=250_000))
    before = workspace.views.get(person.id)
    if arguments.text("hash") and before and before["hash"] != arguments.text("hash"):
        raise RefusalError("hash_conflict")
    made = {
        **view,
        "id": f"V{workspace.number():010d}",
        "hash": f"{workspace.number()}.h",
        "team_id": workspace.team_id,
    }
    workspace.views[person.id] = made
    workspace.changed()
    return {"view": made}
