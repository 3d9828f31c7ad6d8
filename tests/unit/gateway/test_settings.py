import re
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.base import Account, Address
from gateway.errors import StartRefused
from gateway.settings import Settings, home_directory, misspelt
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


def test_a_topic_a_thread_and_the_terminal_are_chats_and_a_root_may_begin_at_the_users_folder(
    settings_of: Read, write: Write
) -> None:
    chats = ["telegram:-1001/7", "slack:T1/C1/1700000000.000100", "terminal:local"]
    write("home/reverie.toml", f'[projects.tea]\nroot = "~/tea"\nchats = {chats}\n[chats."{chats[1]}"]\nmode = "log"')
    settings = settings_of()
    assert list(map(str, settings.projects["tea"].chats)) == chats
    assert settings.projects["tea"].root == Path.home() / "tea"
    assert settings.chat(Address.parse(chats[1])).mode is Mode.LOG


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
        ('[projects.a]\nchats = ["telegram:abc"]', ["projects.a.chats: 'telegram:abc'", "telegram:-1001234"]),
        ('[projects.a]\nchats = ["slack:t1/c1"]', ["'slack:t1/c1'", "in capitals"]),
        ('[chats."telegram:@club"]\nmode = "log"', ["chats.telegram:@club: 'telegram:@club'", "telegram:-1001234"]),
        ('[chats."matrix:1"]\nmode = "log"', ["'matrix:1'", "telegram, slack, terminal"]),
        ('[projects.a]\nroot = "garden"', ["projects.a.root: 'garden' is relative", "from / or ~/ on"]),
        ('[memory]\nteam_server_url = "x"', ["it should be a whole address, with http:// or https:// before it"]),
        ("[projects.a]\nmembers = [1]", ["projects.a.members.0: it should be a text, in quotes"]),
        ("[access]\nowners = 4", ["access.owners: it should be a list"]),
        ("projects = 3", ["projects: it should be a table"]),
        ("workers = 0.5", ["workers: it should be a whole number"]),
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
    assert str(refused.value).startswith(f"{next(iter(environ))}: ")


def test_each_fault_has_a_line_with_its_place_its_whole_cause_and_the_name_that_was_meant(
    settings_of: Read, write: Write, tmp_path: Path
) -> None:
    write("home/reverie.toml", 'timezne = "UTC"\nhttp = "8710"\n[model]\nchta = "x"\n[projects.a]\nrots = "/srv"\n')
    write("policy/reverie.toml", '[memory.team_grants.a]\ntoken = "short"\nrepos = ["a"]\n')
    with pytest.raises(StartRefused) as refused:
        settings_of(REVERIE_WORKERS="many", TELEGRAM_API_URL="nowhere", TELEGRAM_BOT_TOKEN="1:x")
    own, policy = tmp_path / "home/reverie.toml", tmp_path / "policy/reverie.toml"
    *faults, cure = str(refused.value).splitlines()
    assert f"{own}: timezne: there is no such setting (did you mean timezone?)" in faults
    assert f"{own}: http: '8710' is not host:port (127.0.0.1:8710 is one)" in faults
    assert f"{own}: model.chta: there is no such setting (did you mean chat?)" in faults
    assert f"{own}: projects.a.rots: there is no such setting (did you mean root?)" in faults
    assert f"{policy}: memory.team_grants.a.token: it has a length of 5, and should have at least 16" in faults
    assert "REVERIE_WORKERS: workers: it should be a whole number" in faults
    assert any(fault.startswith("TELEGRAM_API_URL: ") for fault in faults)
    assert (len(faults), cure[:7]) == (7, "Mend it")


def test_a_misspelt_variable_is_told_with_the_name_that_was_meant() -> None:
    said = misspelt({"REVERIE_ACESS__PRIVATE": "off", "REVERIE_TIMZONE": "UTC", "REVERIE_HTPP": "", "PATH": "/bin"})
    assert said == [
        "REVERIE_ACESS__PRIVATE is no setting and does nothing (did you mean REVERIE_ACCESS__PRIVATE?)",
        "REVERIE_TIMZONE is no setting and does nothing (did you mean REVERIE_TIMEZONE?)",
    ]


def test_no_variable_that_the_program_reads_counts_as_misspelt() -> None:
    root = Path(__file__).parents[3]
    files = [*(file for part in ("gateway", "memory", "adapters", "scheduler") for file in (root / part).rglob("*.py"))]
    texts = [file.read_text() for file in [*files, root / "deploy/env.example", root / "README.md"]]
    names = {name for text in texts for name in re.findall(r"REVERIE_[A-Z_]*[A-Z]", text)}
    assert {"REVERIE_SIMPLE", "REVERIE_MEMORY__TEAM_TOKEN"} < names
    assert misspelt(dict.fromkeys(names - {"REVERIE_TEST_POSTGRES"}, "1")) == []


def test_a_refusal_quotes_no_token_in_its_traceback(settings_of: Read) -> None:
    secret = "x" * 12  # the lines of this test stand in the traceback as well
    with pytest.raises(StartRefused) as refused:
        settings_of(REVERIE_TELEGRAM=f'{{"token": ["{secret}"]}}')
    assert secret not in "".join(traceback.format_exception(refused.value))
