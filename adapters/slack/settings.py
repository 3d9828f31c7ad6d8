"""What an operator sets for Slack, and the pace at which the adapter calls it."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator


class SlackSettings(BaseModel):
    """How to reach one Slack workspace.

    `app_token` set means Socket Mode; `signing_secret` set without it means that Slack calls `/slack/events`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bot_token: SecretStr
    app_token: SecretStr | None = None
    signing_secret: SecretStr | None = None
    api_url: str = "https://slack.com/api/"
    prompts: tuple[str, ...] = ("What can you do?", "What do you remember about me?", "What did we talk about last?")
    """What is suggested in direct messages of an app with an agent or assistant view, at most four.

    With none, nothing is suggested, and nobody finds out that an app has the agent view.
    """

    @field_validator("api_url")
    @classmethod
    def _is_a_base(cls, url: str) -> str:
        if not url.startswith(("https://", "http://")):
            raise ValueError("write the whole base address, e.g. https://slack.com/api/")
        return url if url.endswith("/") else f"{url}/"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often and how long, in seconds. The defaults stay under Slack's published tiers.

    `append_every` (chat.appendStream, tier 4), `edit_every` (chat.update, tier 3), `stream_for` (Slack ends a
    stream about five minutes after its start, appends or not), `name_within` (Slack wants its acknowledgement
    in three seconds), `ping_every` (the Socket Mode ping; four unanswered pings mean a dead socket).
    """

    append_every: float = 0.8
    edit_every: float = 1.5
    stream_for: float = 240.0
    name_within: float = 1.0
    ping_every: float = 10.0
    connect_within: float = 20.0
    drain_within: float = 5.0
    answer_within: float = 30.0
