"""The people and the channels of a workspace, as Slack describes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.errors import reading


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A person: the name that Slack shows, and the locale of their client, such as `en-US`. Either may be empty."""

    name: str
    locale: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Channel:
    """A channel: its name without the hash, and whether the bot is a member."""

    title: str
    joined: bool


async def look_up_person(client: AsyncWebClient, user: str) -> Person:
    """Ask Slack for a person."""
    with reading():
        response = await client.users_info(user=user, include_locale=True)
    found = response.get("user") or {}
    return Person(name=display_name(found) or user, locale=str(found.get("locale") or ""))


async def look_up_channel(client: AsyncWebClient, channel: str) -> Channel:
    """Ask Slack for a channel; that of a direct conversation has no title."""
    with reading():
        response = await client.conversations_info(channel=channel)
    found = response.get("channel") or {}
    private = bool(found.get("is_im"))
    return Channel(
        title="" if private else str(found.get("name") or ""),
        joined=private or bool(found.get("is_member", found.get("is_mpim"))),
    )


def display_name(user: Mapping[str, Any]) -> str:
    """Return the name that Slack shows for a `users.info` user, empty if it has none."""
    profile = user.get("profile") or {}
    shown = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"), user.get("name"))
    return next((str(name) for name in shown if name), "")
