from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.base import Account, Address
from gateway.errors import StartRefused
from gateway.settings import Settings, home_directory
from memory.paths import Homes
from memory.scope import Mode

Read = Callable[..., Settings]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], None]:
    """Write a settings file: policy/reverie.toml, home/reverie.local.toml or home/reverie.toml."""

    def to(name: str, content: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)

    return to


Write = Callable[[str, str], None]


def test_each_source_gives_way_to_the_one_above_it(settings_of: Read, write: Write) -> None:
    assert settings_of().model.chat.startswith("claude-")
    write("home/reverie.toml", 'timezone = "Asia/Tokyo"\n[model]\nchat = "file"\nmax_tokens = 1000')
    assert settings_of().model.chat == "file"
    write("home/reverie.local.toml", '[model]\nchat = "local"')
    assert settings_of().model.chat == "local"
    assert settings_of(REVERIE_MODEL__CHAT="variable").model.chat == "variable"
    write("policy/reverie.toml", '[model]\nchat = "policy"')
    settings = settings_of(REVERIE_MODEL__CHAT="variable")
    assert (settings.model.chat, settings.model.max_tokens, settings.timezone) == ("policy", 1000, "Asia/Tokyo")


@pytest.mark.parametrize("above", ["policy/reverie.toml", "home/reverie.local.toml"])
def test_an_empty_memory_directory_stops_the_chain_so_that_notes_lie_in_the_homes(
    settings_of: Read, write: Write, above: str
) -> None:
    write("home/reverie.toml", '[memory]\nauto_memory_directory = "/srv/{principal}/{project}"')
    assert directory_of(settings_of()) == Path("/srv/ann/_chat")
    write(above, '[memory]\nauto_memory_directory = ""')
    settings = settings_of()
    assert settings.memory.auto_memory_directory == ""
    assert directory_of(settings) == settings.home.resolve() / "homes/ann/projects/_chat/memory"


def directory_of(settings: Settings) -> Path:
    homes = Homes(settings.home / "homes", settings=settings.memory)
    scope = homes.scope(principal="ann", project=None, member=False, shared=False, mode=Mode.AUTO, timezone="UTC")
    return scope.memory_dir


@pytest.mark.parametrize("written", ["22", '"22:00Z"', '"22:00+02:00"'])
def test_a_time_that_is_no_local_one_refuses_the_start_and_names_the_setting(
    settings_of: Read, write: Write, written: str
) -> None:
    write("home/reverie.toml", f"[scheduler]\nquiet_from = {written}")
    with pytest.raises(StartRefused, match=r'scheduler\.quiet_from: .*write it as "22:00"'):
        settings_of()
    write("home/reverie.toml", "[scheduler]\nquiet_from = 22:30:00")
    assert settings_of().scheduler.quiet_from.minute == 30


def test_the_fixed_names_reach_their_settings(settings_of: Read) -> None:
    settings = settings_of(
        DATABASE_URL="sqlite+aiosqlite:////x.db",
        TELEGRAM_BOT_TOKEN="1:a",
        TELEGRAM_API_URL="http://127.0.0.1:1",
        SLACK_BOT_TOKEN="xoxb-1",
        SLACK_APP_TOKEN="xapp-1",
        SLACK_SIGNING_SECRET="s",
        SLACK_API_URL="http://127.0.0.1:2/api",
        ANTHROPIC_API_KEY="k",
        ANTHROPIC_BASE_URL="http://127.0.0.1:3",
        REVERIE_HTTP="0.0.0.0:99",
    )
    assert settings.database == "sqlite+aiosqlite:////x.db"
    assert settings.telegram is not None
    assert settings.telegram.token.get_secret_value() == "1:a"
    assert settings.telegram.api_url == "http://127.0.0.1:1"
    assert settings.slack is not None
    assert settings.slack.bot_token.get_secret_value() == "xoxb-1"
    assert settings.slack.app_token is not None
    assert settings.slack.api_url == "http://127.0.0.1:2/api/"
    assert settings.model.base_url == "http://127.0.0.1:3"
    assert settings.http_address == ("0.0.0.0", 99)


def test_a_platforms_address_without_its_token_switches_nothing_on(settings_of: Read) -> None:
    settings = settings_of(TELEGRAM_API_URL="http://127.0.0.1:1", SLACK_API_URL="http://127.0.0.1:2/api/")
    assert (settings.telegram, settings.slack) == (None, None)


def test_a_token_in_a_file_and_the_address_in_the_environment_make_one_platform(
    settings_of: Read, write: Write
) -> None:
    write("home/reverie.toml", '[telegram]\ntoken = "1:a"')
    settings = settings_of(TELEGRAM_API_URL="http://127.0.0.1:1")
    assert settings.telegram is not None
    assert settings.telegram.api_url == "http://127.0.0.1:1"


def test_this_processs_own_environment_is_not_looked_at(settings_of: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVERIE_MODEL__CHAT", "leaked")
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "1:leaked")
    settings = settings_of()
    assert (settings.model.chat == "leaked", settings.telegram) == (False, None)


def test_an_empty_variable_counts_as_unset(settings_of: Read) -> None:
    settings = settings_of(REVERIE_MODEL__CHAT="", TELEGRAM_BOT_TOKEN="", REVERIE_HTTP="")
    assert (settings.telegram, settings.http) == (None, "127.0.0.1:8710")


def test_lists_of_people_go_with_commas(settings_of: Read) -> None:
    owners = settings_of(REVERIE_ACCESS__OWNERS="telegram:42,slack:T1/U1 , telegram:7").access.owners
    ann = Account(platform="telegram", user="42")
    assert owners[:2] == (ann, Account(platform="slack", workspace="T1", user="U1"))
    assert len(owners) == 3


def test_projects_bind_chats_with_their_topics(settings_of: Read, write: Write) -> None:
    write(
        "home/reverie.toml",
        '[projects.tea]\nrepo = "r"\nchats = ["telegram:-100", "slack:T1/C1"]\nmembers = ["telegram:42"]\n'
        '[projects.jam]\nchats = ["telegram:-100/9"]\n[chats."telegram:-100"]\nmode = "log"',
    )
    settings = settings_of()
    topic = Address(platform="telegram", chat="-100", thread="7")
    bound = settings.project_of(topic)
    assert bound is not None
    assert (bound[0], bound[1].repo) == ("tea", "r")
    special = settings.project_of(Address(platform="telegram", chat="-100", thread="9"))
    assert special is not None
    assert special[0] == "jam"
    assert settings.project_of(Address(platform="telegram", chat="-101")) is None
    assert settings.chat(topic).mode is Mode.LOG


def test_the_home_is_absolute_and_by_default_in_the_users_folder() -> None:
    assert home_directory({}) == Path.home() / ".reverie"
    assert home_directory({"REVERIE_HOME": "here"}) == Path.cwd() / "here"
    assert home_directory({"REVERIE_HOME": "~/there"}) == Path.home() / "there"


def test_no_secret_shows_in_the_settings_text(settings_of: Read) -> None:
    settings = settings_of(TELEGRAM_BOT_TOKEN="1:canary", ANTHROPIC_API_KEY="canary", SLACK_BOT_TOKEN="canary")
    assert "canary" not in repr(settings)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("a = = 1", ["reverie.toml", "line 1", "Mend that line"]),
        ("tiemzone = 1", ["tiemzone", "Mend"]),
        ('[model]\nchta = "x"', ["model.chta"]),
        ('timezone = "Mars/Base"', ["'Mars/Base'", "Europe/Berlin"]),
        ('[chats."telegram:1"]\ntimezone = "Mars/Base"', ["Mars/Base", "Europe/Berlin"]),
        ('[chats."nowhere"]\nmode = "log"', ["nowhere", "telegram:CHAT"]),
        ('http = "8710"', ["'8710'", "127.0.0.1:8710"]),
        ('http = "localhost:99999"', ["localhost:99999"]),
        ('[access]\nowners = ["ann"]', ["'ann'", "telegram:USER"]),
        ('[access]\nprivate = "everyone"', ["access.private", "'pairing'"]),
        ("workers = 0", ["workers", "1"]),
        ('[telegram]\napi_url = "http://x"', ["telegram.token"]),
        ('[projects.a]\nchats=["telegram:1"]\n[projects.b]\nchats=["telegram:1"]', ["telegram:1", "a and b"]),
    ],
)
def test_a_broken_file_is_refused_with_its_place_and_cure(
    settings_of: Read, write: Write, content: str, names: list[str]
) -> None:
    write("home/reverie.toml", content)
    with pytest.raises(StartRefused) as refused:
        settings_of()
    assert refused.value.exit_code == 1
    assert "\n" not in str(refused.value)
    for name in names:
        assert name in str(refused.value)


def test_a_file_that_is_no_text_is_refused(settings_of: Read, tmp_path: Path, write: Write) -> None:
    write("home/reverie.toml", "")
    (tmp_path / "home/reverie.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StartRefused, match="is not UTF-8 text"):
        settings_of()


@pytest.mark.parametrize(
    "environ",
    [{"REVERIE_WORKERS": "many"}, {"REVERIE_PROJECTS": "{oops"}, {"REVERIE_ACCESS__OWNERS": "ann"}],
)
def test_a_broken_variable_is_refused(settings_of: Read, environ: dict[str, str]) -> None:
    with pytest.raises(StartRefused) as refused:
        settings_of(**environ)
    assert "\n" not in str(refused.value)
