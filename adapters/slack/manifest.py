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
        "users:read": "know people by name",
        "assistant:write": "show that it is at work",
        "commands": "take /reverie",
    }
)
"""The bot token's scopes, each with what it lets the bot do."""

EVENTS = ("app_mention", "message.channels", "message.groups", "message.im", "message.mpim")
"""The bot events that Slack has to send."""


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f"      - {name}" for name in names)


MANIFEST = f"""\
display_information:
  name: Reverie
  description: A chat bot that remembers.
  background_color: "#2b2d42"
features:
  app_home:
    home_tab_enabled: false
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
    is_enabled: false
  org_deploy_enabled: false
  socket_mode_enabled: true
  token_rotation_enabled: false
"""
"""YAML for "From a manifest" at api.slack.com/apps; deploy/slack-manifest.yaml is the same text."""
