"""The Slack app as Slack's "create an app from a manifest" takes it: what this adapter uses, and no more."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

ESSENTIAL_SCOPE = "chat:write"
"""Without it the bot can't answer at all; each of the others costs one ability."""

SCOPES: Mapping[str, str] = MappingProxyType(
    {
        ESSENTIAL_SCOPE: "answer, edit and stream",
        "app_mentions:read": "hear mentions in channels",
        "channels:history": "hear public channels that it is in",
        "groups:history": "hear private channels that it is in",
        "im:history": "hear direct messages",
        "mpim:history": "hear group direct messages",
        "channels:read": "know public channels by name, and hear when it is invited or archived",
        "groups:read": "know private channels by name, and hear when it is invited or archived",
        "users:read": "know people by name and language",
        "files:read": "open what people attach",
        "files:write": "send files",
        "reactions:write": "mark a message as seen",
        "assistant:write": "suggest what to ask, and name conversations",
        "commands": "take /reverie",
    }
)
"""The bot token's scopes, each with what it lets the bot do."""

EVENTS = (
    "agent_session_stopped",
    "app_home_opened",
    "app_mention",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "member_joined_channel",
    "member_left_channel",
    "channel_archive",
    "channel_deleted",
    "channel_left",
    "channel_unarchive",
    "group_archive",
    "group_deleted",
    "group_left",
    "group_unarchive",
)
"""The bot events that Slack has to send. An app that still has the assistant view needs `assistant_thread_started` too;
with the agent view, which the manifest asks for, Slack has no such event."""


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f"      - {name}" for name in names)


MANIFEST = f"""\
display_information:
  name: Reverie
  description: A chat bot that remembers.
  background_color: "#2b2d42"
features:
  app_home:
    home_tab_enabled: true
    messages_tab_enabled: true
    messages_tab_read_only_enabled: false
  bot_user:
    display_name: reverie
    always_online: true
  slash_commands:
    - command: /reverie
      description: Ask Reverie for its commands
      usage_hint: help
      should_escape: true
  agent_view:
    agent_description: Answers in direct messages and threads, and remembers what matters.
oauth_config:
  scopes:
    bot:
{_listed(SCOPES)}
settings:
  event_subscriptions:
    bot_events:
{_listed(EVENTS)}
  interactivity:
    is_enabled: true
  org_deploy_enabled: false
  socket_mode_enabled: true
  token_rotation_enabled: false
"""
"""YAML for "From a manifest" at api.slack.com/apps; deploy/slack-manifest.yaml is the same text."""
