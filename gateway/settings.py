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
from gateway import settings_faults
from gateway.errors import StartRefused
from gateway.settings_faults import Sources
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

# What memory's own part of the environment is called; see `memory.settings`.
_READ_ELSEWHERE = frozenset(
    {"REVERIE_DISABLE_AUTO_MEMORY", "REVERIE_MEMORY_PATH_OVERRIDE", "REVERIE_REMOTE", "REVERIE_SIMPLE"}
)


def _read_list(read: Callable[[str], object]) -> Callable[[object], object]:
    def listed(value: object) -> object:
        items = value.replace(",", " ").split() if isinstance(value, str) else value
        return [read(item) if isinstance(item, str) else item for item in items] if isinstance(items, list) else items

    return listed


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no IANA time zone (Europe/Berlin is one)") from error
    return name


def _whole_path(path: Path) -> Path:
    whole = path.expanduser()
    if not whole.is_absolute():  # the project's memory is named after it, and would move with the working directory
        raise ValueError(f"{str(path)!r} is relative: write the whole path, from / or ~/ on")
    return whole


_Forms = Mapping[str, tuple[re.Pattern[str], str]]
_PEOPLE: _Forms = {
    "telegram": (re.compile(r"[1-9][0-9]*", re.ASCII), "telegram:42, with the person's number and not their @name"),
    "slack": (re.compile(r"[A-Z0-9]+/[A-Z0-9]+", re.ASCII), "slack:T1/U1, in capitals"),
    "terminal": (re.compile(r"\w+", re.ASCII), "terminal:local"),
}
_CHATS: _Forms = {
    "telegram": (
        re.compile(r"-?[1-9][0-9]*(/[0-9]+)?", re.ASCII),
        "telegram:-1001234, with the chat's number and not its @name; telegram:-1001234/7 is one topic of it",
    ),
    "slack": (
        re.compile(r"[A-Z0-9]+/[A-Z0-9]+(/[0-9]+\.[0-9]+)?", re.ASCII),
        "slack:T1/C1, in capitals; slack:T1/C1/1700000000.000100 is one thread of it",
    ),
    "terminal": (re.compile(r"\w+", re.ASCII), "terminal:local"),
}


def account_of(text: str) -> Account:
    """Read an account that a person wrote; raises `ValueError` for one that nobody can ever have."""
    account = Account.parse(text)
    _check_form(account, text, _PEOPLE, "nobody's id")
    return account


def chat_of(text: str) -> Address:
    """Read a chat that a person wrote, or a topic or thread; raises `ValueError` for one that can't be there."""
    address = Address.parse(text)
    _check_form(address, text, _CHATS, "no chat's id")
    return address


def _check_form(named: Account | Address, text: str, forms: _Forms, fault: str) -> None:
    form, example = forms.get(named.platform, (None, f"one of: {', '.join(forms)}"))
    if form is None or not form.fullmatch(str(named).partition(":")[2]):
        raise ValueError(f"{text!r} is {fault}: write {example}")


def _says(text: str, name: str) -> bool:
    """Whether a text holds a name as a word; between words of a script without spaces it stands in no gap."""
    word = re.escape(name.casefold())
    return re.search(rf"(?<!\w){word}(?!\w)" if name.isascii() else word, text.casefold()) is not None


Accounts = Annotated[tuple[Account, ...], NoDecode, BeforeValidator(_read_list(account_of))]
Addresses = Annotated[tuple[Address, ...], NoDecode, BeforeValidator(_read_list(chat_of))]
Zone = Annotated[str, AfterValidator(_zone)]
Root = Annotated[Path, AfterValidator(_whole_path)]


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

    @property
    def is_set(self) -> bool:
        """Whether a model is named, the public API's or another server's; otherwise the built-in stand-in answers."""
        return self.api_key is not None or self.base_url is not None


class AccessSettings(_Section):
    """Who may talk to the bot."""

    private: Literal["pairing", "open", "listed", "off"] = "pairing"
    shared: Literal["approved", "open", "off"] = "approved"
    owners: Accounts = ()
    members: Accounts = ()
    """People who may talk in private besides the owners and those approved by a pairing code."""


class ProjectSettings(_Section):
    """Named work that chats are bound to."""

    root: Root | None = None
    repo: str = ""
    chats: Addresses = ()
    members: Accounts = ()
    """People whose private chat, bound to this project, may load its team memory."""


class AttachmentSettings(_Section):
    """What is taken of what comes along with messages."""

    most: int = Field(default=20, ge=0, le=100)
    """Of one message."""
    picture_bytes: int = Field(default=10_000_000, ge=1)
    file_bytes: int = Field(default=30_000_000, ge=1)
    fetch_seconds: float = Field(default=120.0, gt=0)
    """For one of them, the transcribing of a voice message included."""
    request_bytes: int = Field(default=20_000_000, ge=1)
    """Of base64 in one request, newest first; the API takes 32 MB in all."""
    keep_days: float = Field(default=30.0, gt=0)
    """A file that no request has needed for so long is deleted."""


class ToolSettings(_Section):
    """What tools may do by themselves."""

    ask: tuple[str, ...] = ()
    """Tools that are run only when the person says so, each time or for the rest of a conversation."""
    ask_seconds: float = Field(default=300.0, gt=0)
    """How long the question waits; no answer is a no."""


class VoiceSettings(_Section):
    """What listens to voice messages."""

    command: tuple[str, ...] = ()
    """A program and its arguments, which prints what is said in `{file}`; `{language}` may stand there too. None: voice
    messages can't be listened to."""
    seconds: float = Field(default=100.0, gt=0)


class ReplySettings(_Section):
    """What is shown besides answers."""

    acknowledge: bool = True
    """A message that must wait for another one of its conversation is marked as seen until it is answered."""
    footer: bool = False
    """An answer ends with a line of what it took: the model, tokens, notes that came to mind, seconds."""


class ChatSettings(_Section):
    """What one chat does differently, keyed by its address."""

    mode: Mode | None = None
    timezone: Zone | None = None
    answer: Literal["addressed", "all"] = "addressed"
    """Which messages of a group are answered: those that mention the bot, answer it or name it, or all that it sees."""
    names: tuple[str, ...] = ()
    """What else the bot is called here: a message that says one of these names is for it."""

    def hears(self, text: str) -> bool:
        """Whether a message that does not address the bot by the platform's means is for it all the same."""
        return self.answer == "all" or any(_says(text, name) for name in self.names)


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
    attachments: AttachmentSettings = Field(default_factory=AttachmentSettings)
    tools: ToolSettings = Field(default_factory=ToolSettings)
    voice: VoiceSettings = Field(default_factory=VoiceSettings)
    reply: ReplySettings = Field(default_factory=ReplySettings)
    chats: dict[Annotated[str, AfterValidator(lambda text: str(chat_of(text)))], ChatSettings] = Field(
        default_factory=dict
    )

    @field_validator("http")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        if not (host and colon and port.isdecimal() and int(port) < 65536):
            raise ValueError(f"{value!r} is not host:port (127.0.0.1:8710 is one)")
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

    @property
    def own_paths(self) -> tuple[Path, ...]:
        """Every directory and file of the gateway's own: nothing there is read as a part of a project."""
        scheme, _, file = self.database.partition(":///")
        database = [Path(file.partition("?")[0])] if scheme.startswith("sqlite") and file else []
        cache = [self.cache] if self.cache else []
        return tuple(each.absolute() for each in (self.home, self.memory_base, self.managed_dir, *cache, *database))

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


def files_of(home: Path, managed: Path) -> list[Path]:
    """Return the files that settings are read from, the policy's first; none need be there."""
    return [managed / "reverie.toml", home / "reverie.local.toml", home / "reverie.toml"]


def load(environ: Mapping[str, str] = os.environ, *, read_files: bool = True) -> Settings:
    """Read the settings; raises `StartRefused` with the file or variable, the fault and the cure."""
    home = home_directory(environ)
    managed = Path(environ.get("REVERIE_MANAGED_DIR") or "/etc/reverie")
    files = files_of(home, managed) if read_files else []
    policy, *own = trees = [_read(file) for file in files] or [{}]

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
        read = list(zip(files, trees, strict=False))  # no file, one empty tree
        sources = Sources(files=read, environ=environ, fixed=_FIXED_NAMES)
        raise settings_faults.told(error, Settings, sources) from None  # it quotes what was refused, be it a token
    except SettingsError as error:
        raise settings_faults.told_unreadable(error) from error


def misspelt(environ: Mapping[str, str]) -> list[str]:
    """Return a clause for each variable that begins as ours do and that nothing reads."""
    return list(settings_faults.misspelt(environ, Settings, besides=_READ_ELSEWHERE))


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
            f"{file.parent} is not a folder",
            cure="Set REVERIE_HOME (or REVERIE_MANAGED_DIR) to one, or move the file away.",
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise StartRefused(
            f"{file} is not valid TOML: {error}", cure="Mend that line, or move the file away."
        ) from error
    except RecursionError as error:
        raise StartRefused(f"{file} is nested too deeply to be settings", cure="Mend it, or move it away.") from error
    except UnicodeDecodeError as error:
        raise StartRefused(f"{file} is not UTF-8 text", cure="Save it as UTF-8, or move it away.") from error
    except OSError as error:
        raise StartRefused(
            f"{file} can't be read: {error}", cure="Give this user the right to read it, or move it away."
        ) from error
