"""Settings: one frozen value, read once at start.

From high to low: the operator's policy (`$REVERIE_MANAGED_DIR/reverie.toml`), the environment,
`$REVERIE_HOME/reverie.local.toml`, `$REVERIE_HOME/reverie.toml`, the defaults below. Files are merged key by key.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from adapters.base import Account, Address
from adapters.slack.settings import SlackSettings
from adapters.telegram.settings import TelegramSettings
from gateway.errors import StartRefused
from memory.instructions.settings import InstructionSettings
from memory.scope import Mode
from memory.settings import MemoryEnv, MemorySettings
from scheduler.settings import SchedulerSettings

_SHORTEST_SECRET = 8  # a shorter one would blot out ordinary words

# Names that other programs rely on, and where their values belong in the tree of settings.
_FIXED_NAMES: Mapping[str, tuple[str, ...]] = {
    "DATABASE_URL": ("database_url",),
    "TELEGRAM_BOT_TOKEN": ("telegram", "token"),
    "TELEGRAM_API_URL": ("telegram", "api_url"),
    "SLACK_BOT_TOKEN": ("slack", "bot_token"),
    "SLACK_APP_TOKEN": ("slack", "app_token"),
    "SLACK_SIGNING_SECRET": ("slack", "signing_secret"),
    "SLACK_API_URL": ("slack", "api_url"),
    "ANTHROPIC_API_KEY": ("model", "api_key"),
    "ANTHROPIC_BASE_URL": ("model", "base_url"),
}


def _read_list(read: Callable[[str], object]) -> Callable[[object], object]:
    def listed(value: object) -> object:
        items = value.replace(",", " ").split() if isinstance(value, str) else value
        return [read(item) if isinstance(item, str) else item for item in items] if isinstance(items, list) else items

    return listed


def _address(text: str) -> str:
    return str(Address.parse(text))


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no IANA time zone (write e.g. Europe/Berlin)") from error
    return name


_FORMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "telegram": (re.compile(r"[1-9][0-9]*", re.ASCII), "telegram:42, with the person's number and not their @name"),
    "slack": (re.compile(r"[A-Z0-9]+/[A-Z0-9]+", re.ASCII), "slack:T1/U1, in capitals"),
    "terminal": (re.compile(r"\w+", re.ASCII), "terminal:local"),
}


def account_of(text: str) -> Account:
    """Read an account that a person wrote; raises `ValueError` for one that nobody can ever have."""
    account = Account.parse(text)
    form, example = _FORMS.get(account.platform, (None, "one of: telegram, slack, terminal"))
    if form is None or not form.fullmatch(str(account).partition(":")[2]):
        raise ValueError(f"{text!r} is nobody's id: write {example}")
    return account


Accounts = Annotated[tuple[Account, ...], NoDecode, BeforeValidator(_read_list(account_of))]
Addresses = Annotated[tuple[Address, ...], NoDecode, BeforeValidator(_read_list(Address.parse))]
Zone = Annotated[str, AfterValidator(_zone)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelSettings(_Section):
    """The model and its limits. Any server that speaks the Messages API can stand behind `base_url`."""

    api_key: SecretStr | None = None
    base_url: str | None = None
    chat: str = "claude-sonnet-5-5"
    """Answers, extraction and dreams: forks must share the chat's model, for they share its cache."""
    recall: str = "claude-haiku-5-5"
    """Picks the notes for a message: small and fast."""
    max_tokens: int = Field(default=8192, ge=256)
    session_tokens: int = Field(default=150_000, ge=10_000)
    """A conversation whose request and answer come to more than this ends with the turn, and a new one begins; below
    the 200,000 that today's smaller models take, so that the extraction still fits."""
    timeout: float = Field(default=120.0, gt=0)
    """Seconds without a byte from the model before a request counts as failed."""
    turn_minutes: float = Field(default=15.0, gt=0)
    """A turn that takes longer, tools and all, is ended with a word to the person."""
    retries: int = Field(default=2, ge=0)
    max_tool_rounds: int = Field(default=40, ge=1)
    patience: float = Field(default=3600.0, ge=0)
    """Seconds that a message waits for a model that is down before it is set aside with a word to the person."""


class AccessSettings(_Section):
    """Who may talk to the bot."""

    private: Literal["pairing", "open", "listed", "off"] = "pairing"
    shared: Literal["approved", "open", "off"] = "approved"
    owners: Accounts = ()
    members: Accounts = ()
    """People who may talk in private besides the owners and those approved by a pairing code."""


class ProjectSettings(_Section):
    """Named work that chats are bound to."""

    root: Path | None = None
    repo: str = ""
    chats: Addresses = ()
    members: Accounts = ()
    """People whose private chat, bound to this project, may load its team memory."""


class ChatSettings(_Section):
    """What one chat does differently, keyed by its address."""

    mode: Mode | None = None
    timezone: Zone | None = None


class Settings(BaseSettings):
    """Everything that can be set. Sections may be given as `REVERIE_<SECTION>__<KEY>`."""

    model_config = SettingsConfigDict(
        env_prefix="REVERIE_", env_nested_delimiter="__", frozen=True, extra="forbid", env_ignore_empty=True
    )

    home: Path
    remote_memory_dir: Path | None = None
    """Where memory lies instead of the home, with all of its homes: a directory that stays when the machine goes."""
    http: str = "127.0.0.1:8710"
    database_url: str = ""
    cache: Path | None = None
    """For derived indexes, once there are any; default: in the home."""
    managed_dir: Path = Path("/etc/reverie")
    timezone: Zone = "UTC"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_json: bool = False
    workers: int = Field(default=256, ge=1)
    """Turns that run at the same time, each in its own conversation."""
    session_silence: float = Field(default=8 * 3600.0, gt=0)
    """Seconds without a message after which a session ends; the figure of the memory specification."""
    telegram: TelegramSettings | None = None
    slack: SlackSettings | None = None
    model: ModelSettings = ModelSettings()
    access: AccessSettings = AccessSettings()
    memory: MemorySettings = MemorySettings()
    instructions: InstructionSettings = InstructionSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    projects: dict[str, ProjectSettings] = Field(default_factory=dict)
    chats: dict[Annotated[str, AfterValidator(_address)], ChatSettings] = Field(default_factory=dict)

    @field_validator("http")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        if not (host and colon and port.isdecimal() and int(port) < 65536):
            raise ValueError(f"{value!r} is not host:port (write e.g. 127.0.0.1:8710)")
        return value

    @model_validator(mode="after")
    def _one_project_per_chat(self) -> Self:
        bound: dict[Address, str] = {}
        for name, project in self.projects.items():
            for chat in project.chats:
                if bound.setdefault(chat, name) != name:
                    raise ValueError(f"{chat} is bound to two projects, {bound[chat]} and {name}: take it out of one")
        return self

    @property
    def http_address(self) -> tuple[str, int]:
        """Where the HTTP server listens."""
        host, _, port = self.http.rpartition(":")
        return host, int(port)

    @property
    def secrets(self) -> frozenset[str]:
        """The values of all tokens and keys, so that they can be kept out of what is printed."""
        found: set[str] = set()
        sections: list[BaseModel] = [self]
        while sections:
            section = sections.pop()
            values = [getattr(section, name) for name in type(section).model_fields]
            values += [each for value in values if isinstance(value, dict) for each in value.values()]
            sections += [value for value in values if isinstance(value, BaseModel)]
            found.update(value.get_secret_value() for value in values if isinstance(value, SecretStr))
        return frozenset(secret for secret in found if len(secret) >= _SHORTEST_SECRET)

    @property
    def memory_base(self) -> Path:
        """The directory that the homes and the shared memory of agents lie in."""
        return (self.remote_memory_dir or self.home).absolute()

    @property
    def database(self) -> str:
        """The database's URL; SQLite in the home unless set otherwise."""
        return self.database_url or f"sqlite+aiosqlite:///{self.home / 'reverie.db'}"

    def project_of(self, *names: Address) -> tuple[str, ProjectSettings] | None:
        """Return the project that the chat is bound to; a topic or thread goes with its chat unless bound itself.

        `names` are the addresses of this one conversation, today's first.
        """
        bound = {chat: (name, project) for name, project in self.projects.items() for chat in project.chats}
        return next((bound[place] for place in _places(names) if place in bound), None)

    def chat(self, *names: Address) -> ChatSettings:
        """Return what was set for this chat or topic; `names` as in `project_of`."""
        return next((self.chats[str(place)] for place in _places(names) if str(place) in self.chats), ChatSettings())


def _places(names: Iterable[Address]) -> Iterator[Address]:
    for name in names:
        yield name
        yield name.whole_chat


def home_directory(environ: Mapping[str, str]) -> Path:
    """Return `$REVERIE_HOME`, by default `~/.reverie`."""
    return Path(environ.get("REVERIE_HOME") or Path.home() / ".reverie").expanduser().absolute()


def load(environ: Mapping[str, str] = os.environ, *, read_files: bool = True) -> Settings:
    """Read the settings; raises `StartRefused` with the file or variable, the fault and the cure."""
    home = home_directory(environ)
    managed = Path(environ.get("REVERIE_MANAGED_DIR") or "/etc/reverie")
    files = [managed / "reverie.toml", home / "reverie.local.toml", home / "reverie.toml"] if read_files else []
    policy, *own = [_read(file) for file in files] or [{}]

    class _Located(Settings):
        """The settings with this process's files as sources."""

        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: object, **__: object
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            layers = [InitSettingsSource(settings_cls, init_kwargs=layer) for layer in own]
            return (
                InitSettingsSource(settings_cls, init_kwargs=policy),
                InitSettingsSource(settings_cls, init_kwargs=_fixed(environ, [policy, *own]) | {"home": home}),
                _Environment(settings_cls, environ),
                *layers,
            )

    try:
        found = _Located()
        return found.model_copy(update={"memory": MemoryEnv.read(environ).applied(found.memory)})
    except ValidationError as error:
        raise StartRefused(_explain(error)) from error
    except SettingsError as error:
        raise StartRefused(f"The environment doesn't fit: {error}. Lists go with commas, tables as JSON.") from error


class _Environment(EnvSettingsSource):
    """The variables that were handed in, which need not be this process's."""

    def __init__(self, settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        self._environ = environ
        super().__init__(settings_cls)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._environ.items() if value}


def _fixed(environ: Mapping[str, str], files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, path in _FIXED_NAMES.items():
        if value := environ.get(name):
            *sections, key = path
            node = tree
            for section in sections:
                node = node.setdefault(section, {})
            node[key] = value
    for section, token in (("telegram", "token"), ("slack", "bot_token")):
        given = any(token in layer.get(section, {}) for layer in [tree, *files])
        if not given and f"REVERIE_{section}__{token}".upper() not in environ:
            tree.pop(section, None)  # an address without a token switches nothing on
    return tree


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except NotADirectoryError as error:
        raise StartRefused(
            f"{file.parent} is not a folder. Set REVERIE_HOME (or REVERIE_MANAGED_DIR) to one, or move the file away."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise StartRefused(f"{file} is not valid TOML: {error}. Mend that line, or move the file away.") from error
    except RecursionError as error:
        raise StartRefused(f"{file} is nested too deeply to be settings. Mend it, or move it away.") from error
    except UnicodeDecodeError as error:
        raise StartRefused(f"{file} is not UTF-8 text. Save it as UTF-8, or move it away.") from error
    except OSError as error:
        raise StartRefused(
            f"{file} can't be read: {error}. Give this user the right to read it, or move it away."
        ) from error


_UNKNOWN = "there is no such setting (misspelt, or in the wrong section?)"


def _told(fault: ErrorDetails) -> str:
    return _UNKNOWN if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")


def _explain(error: ValidationError) -> str:
    found = error.errors(include_input=False, include_url=False)
    faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {_told(fault)}" for fault in found)
    return f"The settings don't fit: {faults}. Mend them in reverie.toml or in the variables REVERIE_<SECTION>__<KEY>."
