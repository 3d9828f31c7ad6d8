"""From what Slack sends to an `Inbound`: pure functions, no calls.

Slack sends `message` and `app_mention` for one mention. Both carry the same channel and ts, so both give the
same `external_id`, and both are read by the same rules, so that it does not matter which of them comes first.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from adapters.base import Account, Address, ChatKind, Inbound, Quoted
from adapters.slack.attached import Shared, attachments, shared_with
from adapters.slack.people import Person

_SAID_BY_PEOPLE = frozenset({"", "file_share", "thread_broadcast"})
"""The subtypes that are new messages; edits, joins, unfurls and all the rest are not."""

_TOKEN = re.compile(r"<([^<>]+)>")
_USER = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")
_FIRST_MENTIONS = re.compile(r"\A(?:\s*(?:<@[^<>]+>|<!subteam\^[^<>]+>))+")
_SLACKBOT = "USLACKBOT"
_MOST_NAMES = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Bot:
    """Who we are in the workspace, as `auth.test` says."""

    team: str
    user: str
    bot: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What is known beside an event: who we are, who the people are, and where it was said.

    With `threaded`, each direct message that is no reply begins a thread, as it does in Slack's agent view.
    """

    bot: Bot
    people: Mapping[str, Person]
    chat_title: str = ""
    threaded: bool = False

    def name(self, user: str) -> str:
        """Return a person's name, their id if it is not known."""
        return self.people[user].name if user in self.people else user

    def locale(self, user: str) -> str:
        """Return the locale of a person's client, empty if it is not known."""
        return self.people[user].locale if user in self.people else ""

    def read(self, text: str) -> str:
        """Turn Slack's markup into what a reader would see."""
        return readable(text, names={user: each.name for user, each in self.people.items()} | self._own_name)

    @property
    def _own_name(self) -> dict[str, str]:
        return {self.bot.user: self.bot.name}


def is_message(event: Mapping[str, Any], *, bot: Bot) -> bool:
    """Say whether a person other than ourselves has said something new."""
    if event.get("type") == "app_mention" and event.get("edited"):
        return False
    return is_said(event, bot=bot) and not event.get("hidden") and bool(event.get("channel"))


def is_said(message: Mapping[str, Any], *, bot: Bot) -> bool:
    """Say whether a message is a person's and not ours, a bot's or Slack's."""
    return (
        str(message.get("subtype") or "") in _SAID_BY_PEOPLE
        and not message.get("bot_id")
        and bool(message.get("user") and message.get("ts"))
        and message.get("user") not in {bot.user, _SLACKBOT}
    )


def is_addressed(event: Mapping[str, Any], *, bot: Bot) -> bool:
    """Say whether the bot is meant: in direct messages, or by a mention."""
    private = is_private(str(event["channel"]), kind=str(event.get("channel_type") or ""))
    mentioned = bot.user in _USER.findall(str(event.get("text") or ""))
    return private or mentioned or event.get("type") == "app_mention"


def people_in(event: Mapping[str, Any], *, bot: Bot) -> list[str]:
    """List the user ids whose names the message needs, its sender first, each once.

    Of a message that mentions half a workspace only the first are looked up, each look-up being a request; of what is
    said to a channel at large only the sender.
    """
    ids = [str(event.get("user", "")), *_USER.findall(str(event.get("text") or ""))]
    most = _MOST_NAMES if is_addressed(event, bot=bot) or event.get("thread_ts") else 1
    return [user for user in dict.fromkeys(ids) if user and user != bot.user][:most]


def read_event(event: Mapping[str, Any], *, scene: Scene) -> Inbound | None:
    """Return the message that the event reports, or None if it reports none."""
    if not is_message(event, bot=scene.bot):
        return None
    bot, user, ts = scene.bot, str(event["user"]), str(event["ts"])
    address, private = where(event, event, scene=scene)
    said, shared = said_in(event, scene=scene), shared_with(event)
    passed_on = shared is not None and not said
    return Inbound(
        external_id=external_id(str(event["channel"]), ts, bot=bot),
        address=address,
        kind=ChatKind.PRIVATE if private else ChatKind.SHARED,
        account=Account(platform="slack", workspace=home_of(event, bot=bot), user=user),
        name=scene.name(user),
        text=scene.read(shared.text) if shared and passed_on else said,
        message_id=ts,
        sent_at=datetime.fromtimestamp(float(ts), tz=UTC),
        addressed=is_addressed(event, bot=bot),
        chat_title="" if private else scene.chat_title,
        language=scene.locale(user),
        attachments=tuple(attachments(event.get("files") or ())),
        for_another=not private and _is_for_another(str(event.get("text") or ""), bot=bot),
        thread_reply=bool(event.get("thread_ts")),
        quoted=_quoted(shared, scene=scene) if shared and not passed_on else None,
        forwarded_from=_author(shared, scene=scene) if shared and passed_on else "",
    )


def read_command(payload: Mapping[str, Any], *, scene: Scene, now: datetime) -> Inbound:
    """Return a slash command as the text command that it stands for: `/reverie status` says `/status`.

    Slack runs slash commands outside threads only, so the address has none; where each conversation is a thread, that
    is no conversation. Nobody else sees the command.
    """
    user, channel, bot = str(payload["user_id"]), str(payload["channel_id"]), scene.bot
    said = scene.read(str(payload.get("text") or "").strip()).removeprefix("/")
    private = is_private(channel, kind="")
    title = str(payload.get("channel_name") or "")
    return Inbound(
        external_id=f"{bot.team}:trigger:{payload['trigger_id']}",
        address=Address(platform="slack", workspace=bot.team, chat=channel),
        kind=ChatKind.PRIVATE if private else ChatKind.SHARED,
        account=Account(platform="slack", workspace=home_of(payload, bot=bot), user=user),
        name=scene.name(user),
        text=f"/{said or 'help'}",
        message_id="",
        sent_at=now,
        addressed=True,
        chat_title="" if private else title,
        language=scene.locale(user),
        in_conversation=private and not scene.threaded,
        only_for_sender=True,
    )


def external_id(channel: str, ts: str, *, bot: Bot) -> str:
    """Return what a message is known by, the same in every event about it."""
    return f"{bot.team}:{channel}:{ts}"


def where(event: Mapping[str, Any], message: Mapping[str, Any], *, scene: Scene) -> tuple[Address, bool]:
    """Return the conversation of a message that an event is about, and whether it is private."""
    channel = str(event["channel"])
    private = is_private(channel, kind=str(event.get("channel_type") or ""))
    begins = "" if private and not scene.threaded else str(message["ts"])
    thread = str(message.get("thread_ts") or "") or begins
    return Address(platform="slack", workspace=scene.bot.team, chat=channel, thread=thread), private


def said_in(message: Mapping[str, Any], *, scene: Scene) -> str:
    """Return what a message says, the mention of the bot that leads it taken out."""
    return scene.read(_without_mention(str(message.get("text") or ""), bot=scene.bot))


def is_private(channel: str, *, kind: str) -> bool:
    """Say whether the channel is one person's direct messages; a group of direct messages is shared.

    `kind` is `channel_type`, which `app_mention` and slash commands leave out: then only a D id is private.
    """
    return kind == "im" if kind else channel.startswith("D")


def home_of(event: Mapping[str, Any], *, bot: Bot) -> str:
    """Return the sender's own workspace, which Slack Connect names when it is not ours."""
    named = (event.get(key) for key in ("user_team", "source_team", "team", "team_id"))
    return next((str(team) for team in named if team), bot.team)


def readable(text: str, *, names: Mapping[str, str]) -> str:
    """Turn Slack's `<@U1>`, `<#C1|name>`, `<url|label>` and `&amp;` into what a reader would see."""
    out, end = [], 0
    for token in _TOKEN.finditer(text):
        out += [_unescaped(text[end : token.start()]), _token(token[1], names=names)]
        end = token.end()
    return "".join([*out, _unescaped(text[end:])])


def _is_for_another(text: str, *, bot: Bot) -> bool:
    return bool(_FIRST_MENTIONS.match(text)) and bot.user not in _USER.findall(text)


def _quoted(shared: Shared, *, scene: Scene) -> Quoted:
    mine = shared.user == scene.bot.user
    return Quoted(name=_author(shared, scene=scene), text=scene.read(shared.text), mine=mine)


def _author(shared: Shared, *, scene: Scene) -> str:
    if shared.user == scene.bot.user:
        return scene.bot.name
    return shared.name or scene.name(shared.user)


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
