"""The switches of memory, each with its default, and the chain that decides whether memory is on at all."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from memory.scope import Mode

Notices = Literal["off", "summary", "full"]
TeamWrites = Literal["ask", "direct", "off"]
Share = Annotated[float, Field(gt=0, le=1)]

_TRUTHY = frozenset({"1", "true", "yes", "on"})
_FALSY = frozenset({"0", "false", "no", "off"})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[!-~]([ \t!-~]*[!-~])?")
_CONTRACTS = frozenset({"authorization", "content-length", "content-type", "host", "if-match", "if-none-match"})
"""The headers that a request to a team's server has by itself."""
_TOKEN = re.compile(r"[!-~]*")


def _stripped(value: object) -> object:
    """Take off what an editor or a file leaves around a token: blanks and line ends."""
    return value.strip() if isinstance(value, str) else value


def _visible(token: SecretStr) -> SecretStr:
    if not _TOKEN.fullmatch(token.get_secret_value()):
        raise ValueError("a token is made of visible ASCII characters: look for a blank, a line end or an accent in it")
    return token


Token = Annotated[SecretStr, BeforeValidator(_stripped), AfterValidator(_visible)]
"""A bearer token, as it stands in a header."""


class TeamGrant(BaseModel):
    """A token that the operator gives out, at least 16 characters, and the repos that it opens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: Token = Field(min_length=16)
    repos: tuple[str, ...] = Field(min_length=1)


class MemorySettings(BaseModel):
    """Every switch of memory. Times are in the unit of their name, else seconds; sizes in UTF-8 bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    auto_memory_enabled: bool = True
    auto_memory_directory: str | None = None
    """Where memory directories are put instead of the homes; may hold `~/`, `{principal}` and `{project}`."""
    memory_mode: Mode = Mode.AUTO
    extra_guidelines: str = ""
    """The operator's own words near the end of the memory prompt; blank: none."""
    skip_index: bool = False
    """Leave the index out of the prompt and out of the saving steps."""
    search_past_context: bool = False
    """Tell the model how to search older notes and transcripts."""

    recall_enabled: bool = True
    recall_deadline: float = Field(default=2.0, gt=0)
    recall_fallback: bool = True
    """The local ranking stands in when the selector is late, broken or absent."""
    recall_max_notes: int = Field(default=5, ge=1)
    recall_note_lines: int = Field(default=200, ge=1)
    recall_note_bytes: int = Field(default=4096, ge=256)
    recall_session_units: int = Field(default=61_440, ge=0)
    """How many UTF-16 units recall may put into one session before it falls silent."""
    scan_limit: int = Field(default=200, ge=1)
    """How many notes a manifest lists, newest first."""

    extraction_enabled: bool = True
    extraction_throttle: int = Field(default=1, ge=1)
    """A run after every n-th turn."""
    extraction_max_turns: int = Field(default=5, ge=1)
    extraction_drain: float = Field(default=60.0, ge=0)
    """How long a stopping process waits for runs that have begun."""

    agent_max_turns: int = Field(default=20, ge=1)
    """Requests that one run of a sub-agent may make."""
    agent_snapshots: bool = True
    """Begin an agent's empty user memory with the project's snapshot of it."""

    auto_dream_enabled: bool = True
    dream_min_hours: float = Field(default=24.0, ge=0)
    dream_min_sittings: int = Field(default=5, ge=0)
    dream_scan_minutes: float = Field(default=10.0, ge=0)
    """A scope's sittings are counted no more often than this."""
    dream_max_turns: int = Field(default=30, ge=1)
    dream_max_minutes: float = Field(default=60.0, gt=0)
    dream_max_removed: Share = 0.2
    """A dream that would remove a larger share of the facts is not kept."""
    dream_tokens_per_run: int = Field(default=1_000_000, ge=1)
    """A dream or distillation that has used so many is stopped and put back. All kinds of tokens count alike."""
    dream_tokens_per_night: int = Field(default=5_000_000, ge=1)
    """What all dreams and distillations of the gateway may use from one midnight to the next, in its time zone."""
    distil_max_turns: int = Field(default=30, ge=1)
    log_keep_days: int | None = Field(default=None, ge=1)
    """How long a day log stays after its day, once it is distilled; None: for ever, as it is the record of what was
    said, in plain Markdown, and small."""

    team_memory_enabled: bool = True
    team_writes: TeamWrites = "ask"
    """A write into team memory from a private chat is staged until confirmed, done at once, or refused."""
    team_server_url: str | None = Field(default=None, pattern="^https?://")
    """The server of team memory; None: this gateway's own store."""
    team_token: Token | None = None
    team_headers: dict[str, SecretStr] = Field(default_factory=dict)
    """More headers for each request to that server, by name: where it wants a beta header, or another `user-agent`."""
    team_grants: dict[str, TeamGrant] = Field(default_factory=dict)
    """Other gateways that may use this one's team memory, by the name that their writes are signed with."""
    team_timeout: float = Field(default=30.0, gt=0)
    team_pull_deadline: float = Field(default=2.0, gt=0)
    """How long the first message of a session waits for what others have shared."""
    team_pull_minutes: float = Field(default=15.0, gt=0)
    team_max_entries: int | None = Field(default=None, ge=1)
    team_watch: bool = True
    """Push an edit of team memory soon after it was made, besides the exchanges by the clock.

    Edits are noticed only on the host where they are made: on a shared volume each gateway sees its own.
    """
    team_debounce: float = Field(default=2.0, ge=0)
    """How long editing must rest before it is pushed."""
    team_tidy_enabled: bool = True
    """Have the model look once a day how a team's notes could be put in order, and propose that to the owners.

    It works under the dream's limits of time, tokens and removed facts."""
    team_tidy_max_turns: int = Field(default=30, ge=1)

    notices: Notices = "summary"

    write_max_bytes: int = Field(default=1024 * 1024, ge=1024)
    lease_seconds: float = Field(default=30.0, gt=0)
    lease_wait: float = Field(default=45.0, ge=0)

    @field_validator("team_headers")
    @classmethod
    def _none_of_the_contracts(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value.get_secret_value()):
                raise ValueError(f"{name!r}: a header has a name and a value of plain characters, on one line")
            if name.lower() in _CONTRACTS:
                raise ValueError(f"{name}: this header is the contract's own; the token goes into team_token")
        return headers

    @model_validator(mode="after")
    def _a_token_for_each(self) -> Self:
        tokens = [grant.token.get_secret_value() for grant in self.team_grants.values()]
        if len(set(tokens)) < len(tokens):
            raise ValueError("team_grants: two gateways have the same token; give each its own")
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEnv:
    """What the environment says about memory, read once by the composition root."""

    path_override: str | None = None
    bare: bool = False
    """The environment's part of bare mode; the command line's `--bare` counts as well."""
    remote: bool = False
    """The gateway runs where nothing stays but one directory: there is memory only if that is named, and neither
    extraction nor a dream that begins by itself."""
    remote_memory_dir: str | None = None
    """The base directory of memory instead of the gateway's home, used as it stands."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Take memory's variables out of `environ`; empty text counts as unset."""
        return cls(
            path_override=environ.get("REVERIE_MEMORY_PATH_OVERRIDE") or None,
            bare=_says(environ, "REVERIE_SIMPLE") is True,
            remote=_says(environ, "REVERIE_REMOTE") is True,
            remote_memory_dir=environ.get("REVERIE_REMOTE_MEMORY_DIR") or None,
        )

    def applied(self, chosen: MemorySettings) -> MemorySettings:
        """Return the settings as they hold in this environment."""
        off = {"extraction_enabled": False, "auto_dream_enabled": False, "team_tidy_enabled": False}
        return chosen.model_copy(update=off) if self.remote else chosen


def enabled(settings: MemorySettings, *, environ: Mapping[str, str], bare: bool) -> bool:
    """Return whether memory is on: the first link of the chain that has an opinion wins.

    `REVERIE_DISABLE_AUTO_MEMORY` that is false turns memory on even in bare mode; a caller that makes the
    prompt or starts work in the background has to ask about bare mode itself as well.
    """
    disabled = _says(environ, "REVERIE_DISABLE_AUTO_MEMORY")
    if disabled is not None:
        return not disabled
    env = MemoryEnv.read(environ)
    if bare or env.bare or (env.remote and env.remote_memory_dir is None):
        return False
    return settings.auto_memory_enabled


def _says(environ: Mapping[str, str], name: str) -> bool | None:
    value = environ.get(name, "").strip().lower()
    if value in _TRUTHY:
        return True
    return False if value in _FALSY else None
