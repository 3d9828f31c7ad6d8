"""From what Slack sends to an `Inbound`: pure functions, no calls.

Slack sends `message` and `app_mention` for one mention. Both carry the same channel and ts, so both give the
same `external_id`, and both are read by the same rules, so that it does not matter which of them comes first.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from adapters.base import Account, Address, ChatKind, Inbound

_SAID_BY_PEOPLE = frozenset({"", "file_share", "thread_broadcast"})
"""The subtypes that are new messages; edits, joins, unfurls and all the rest are not."""

_TOKEN = re.compile(r"<([^<>]+)>")
_USER = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")
_SLACKBOT = "USLACKBOT"
_MOST_NAMES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Bot:
    """Who we are in the workspace, as `auth.test` says."""

    team: str
    user: str
    bot: str
    name: str


def is_message(event: Mapping[str, Any], *, bot: Bot) -> bool:
    """Say whether a person other than ourselves has said something new."""
    if event.get("type") == "app_mention" and event.get("edited"):
        return False
    return (
        str(event.get("subtype") or "") in _SAID_BY_PEOPLE
        and not event.get("bot_id")
        and not event.get("hidden")
        and bool(event.get("user") and event.get("channel") and event.get("ts"))
        and event.get("user") not in {bot.user, _SLACKBOT}
    )


def is_addressed(event: Mapping[str, Any], *, bot: Bot) -> bool:
    """Say whether the bot is meant: in direct messages, or by a mention."""
    private = is_private(str(event["channel"]), kind=str(event.get("channel_type") or ""))
    mentioned = bot.user in _USER.findall(str(event.get("text") or ""))
    return private or mentioned or event.get("type") == "app_mention"


def people_in(event: Mapping[str, Any], *, bot: Bot) -> list[str]:
    """List the user ids whose names the message needs, its sender first, each once; none if the bot is not meant.

    Of a message that mentions half a workspace only the first are looked up, each look-up being a request.
    """
    if not is_addressed(event, bot=bot):
        return []
    ids = [str(event.get("user", "")), *_USER.findall(str(event.get("text") or ""))]
    return [user for user in dict.fromkeys(ids) if user and user != bot.user][:_MOST_NAMES]


def read_event(event: Mapping[str, Any], *, bot: Bot, names: Mapping[str, str]) -> Inbound | None:
    """Return the message that the event reports, or None if it reports none that was meant for anyone.

    `names` maps user ids to display names; an id that is missing shows as itself.
    """
    if not is_message(event, bot=bot):
        return None
    user, channel, ts = str(event["user"]), str(event["channel"]), str(event["ts"])
    text = str(event.get("text") or "")
    private = is_private(channel, kind=str(event.get("channel_type") or ""))
    thread = str(event.get("thread_ts") or "")
    return Inbound(
        external_id=f"{bot.team}:{channel}:{ts}",
        address=Address(platform="slack", workspace=bot.team, chat=channel, thread=thread or ("" if private else ts)),
        kind=ChatKind.PRIVATE if private else ChatKind.SHARED,
        account=Account(platform="slack", workspace=_home(event, bot=bot), user=user),
        name=names.get(user, user),
        text=readable(_without_mention(text, bot=bot), names={**names, bot.user: bot.name}),
        message_id=ts,
        sent_at=datetime.fromtimestamp(float(ts), tz=UTC),
        addressed=is_addressed(event, bot=bot),
        attachments=tuple(_kinds(event.get("files") or ())),
    )


def read_command(payload: Mapping[str, Any], *, bot: Bot, name: str, now: datetime) -> Inbound:
    """Return a slash command as the text command that it stands for: `/reverie status` says `/status`.

    Slack runs slash commands outside threads only, so the address has none; in a channel that is no conversation.
    """
    user, channel = str(payload["user_id"]), str(payload["channel_id"])
    said = readable(str(payload.get("text") or "").strip(), names={bot.user: bot.name}).removeprefix("/")
    private = is_private(channel, kind="")
    title = str(payload.get("channel_name") or "")
    return Inbound(
        external_id=f"{bot.team}:trigger:{payload['trigger_id']}",
        address=Address(platform="slack", workspace=bot.team, chat=channel),
        kind=ChatKind.PRIVATE if private else ChatKind.SHARED,
        account=Account(platform="slack", workspace=_home(payload, bot=bot), user=user),
        name=name,
        text=f"/{said or 'help'}",
        message_id="",
        sent_at=now,
        addressed=True,
        chat_title="" if private else title,
        in_conversation=private,
    )


def is_private(channel: str, *, kind: str) -> bool:
    """Say whether the channel is one person's direct messages; a group of direct messages is shared.

    `kind` is `channel_type`, which `app_mention` and slash commands leave out: then only a D id is private.
    """
    return kind == "im" if kind else channel.startswith("D")


def readable(text: str, *, names: Mapping[str, str]) -> str:
    """Turn Slack's `<@U1>`, `<#C1|name>`, `<url|label>` and `&amp;` into what a reader would see."""
    out, end = [], 0
    for token in _TOKEN.finditer(text):
        out += [_unescaped(text[end : token.start()]), _token(token[1], names=names)]
        end = token.end()
    return "".join([*out, _unescaped(text[end:])])


def _token(inner: str, *, names: Mapping[str, str]) -> str:
    target, _, label = inner.partition("|")
    label = _unescaped(label)
    match target[0]:
        case "@":
            return f"@{names.get(target[1:]) or label or target[1:]}"
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            return label or f"@{target[1:].split('^')[0]}"
    address = _unescaped(target).removeprefix("mailto:")
    shown = not label or label in {address, address.split("://")[-1]}
    return address if shown else f"{label} ({address})"


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _without_mention(text: str, *, bot: Bot) -> str:
    return re.sub(rf"\A\s*<@{re.escape(bot.user)}(?:\|[^<>]*)?>[\s:,]*", "", text).strip()


def _home(event: Mapping[str, Any], *, bot: Bot) -> str:
    """Return the sender's own workspace, which Slack Connect names when it is not ours."""
    named = (event.get(key) for key in ("user_team", "source_team", "team", "team_id"))
    return next((str(team) for team in named if team), bot.team)


def _kinds(files: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for file in files:
        main = str(file.get("mimetype") or "").split("/")[0]
        if file.get("subtype") == "slack_audio":
            yield "voice"
        else:
            yield {"image": "photo", "audio": "audio", "video": "video"}.get(main, "document")
