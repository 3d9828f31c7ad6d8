"""What can't start says why and what to do, in one sentence on stderr, with an exit code, and changes nothing."""

import asyncio
import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from adapters.serving import serving
from adapters.standins.slack import SlackStandin
from adapters.standins.telegram import TelegramStandin
from tests.acceptance.stage import World

pytestmark = pytest.mark.timeout(180)  # seconds, for a machine that is busy with other things

TELEGRAM = TelegramStandin().token
MODEL = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def reverie(home: Path, **environ: str) -> Ended:
    """Run `python -m gateway run` to its end in an environment of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "run"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home.parent),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "REVERIE_MANAGED_DIR": "/nowhere",
            "REVERIE_HTTP": "127.0.0.1:0",
            "REVERIE_HOME": str(home),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


async def meanwhile(home: Path, **environ: str) -> Ended:
    """Do the same while this process plays the platforms."""
    return await asyncio.to_thread(reverie, home, **environ)


def contents(folder: Path) -> Mapping[str, bytes]:
    """Return every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def assert_refused(ended: Ended, *words: str, code: int = 1) -> None:
    assert ended.code == code, ended
    assert "Traceback" not in ended.out + ended.err
    assert ended.err.strip().count("\n") == 0, "more than one line"
    for word in words:
        assert word in ended.err


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
async def telegram_url() -> AsyncIterator[str]:
    async with serving(TelegramStandin().app) as url:
        yield url


def test_without_tokens_it_names_everything_that_can_be_set_and_what_needs_nothing(home: Path) -> None:
    ended = reverie(home)
    assert ended.code == 2
    named = ("TELEGRAM_BOT_TOKEN", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "ANTHROPIC_API_KEY")
    for word in (*named, "ANTHROPIC_BASE_URL", "reverie chat", "reverie demo"):
        assert word in ended.err
    assert "Traceback" not in ended.err
    assert not home.exists()


def test_a_platform_without_a_model_is_told_which_model_variables_to_set(home: Path) -> None:
    ended = reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM)
    assert ended.code == 2
    assert "ANTHROPIC_API_KEY" in ended.err
    assert not home.exists()


def test_a_broken_settings_file_is_named_with_its_line(home: Path) -> None:
    home.mkdir()
    (home / "reverie.toml").write_text("[access]\nowners = [\n")
    before = contents(home)
    assert_refused(reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM, **MODEL), str(home / "reverie.toml"), "line", "Mend")
    assert contents(home) == before


@pytest.mark.parametrize(
    ("text", "word"),
    [("[acess]\nprivate = 'open'\n", "acess"), ("[access]\nprivat = 'open'\n", "access.privat")],
    ids=["section", "key"],
)
def test_a_setting_that_does_not_exist_is_named(home: Path, text: str, word: str) -> None:
    home.mkdir()
    (home / "reverie.toml").write_text(text)
    before = contents(home)
    assert_refused(reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM, **MODEL), word, "Mend", "reverie.toml")
    assert contents(home) == before


def test_a_variable_with_a_value_that_can_not_be_is_named(home: Path) -> None:
    ended = reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM, REVERIE_ACCESS__PRIVATE="everybody", **MODEL)
    assert_refused(ended, "access.private", "pairing")
    assert not home.exists()


def test_a_variable_of_ours_that_does_not_exist_is_named(home: Path) -> None:
    ended = reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM, REVERIE_ACCESS__PRIVAT="open", **MODEL)
    assert_refused(ended, "access.privat")
    assert not home.exists()


def test_a_token_that_is_no_token_is_refused_without_being_printed(home: Path) -> None:
    ended = reverie(home, TELEGRAM_BOT_TOKEN="not a/token", **MODEL)
    assert_refused(ended, "@BotFather")
    assert "not a/token" not in ended.err + ended.out


async def test_a_telegram_token_that_telegram_refuses_is_said_with_the_cure(home: Path, telegram_url: str) -> None:
    wrong = "4200000000:AAEwrongwrongwrongwrongwrongwrongwro"
    ended = await meanwhile(home, TELEGRAM_BOT_TOKEN=wrong, TELEGRAM_API_URL=telegram_url, **MODEL)
    assert_refused(ended, "@BotFather", "TELEGRAM_BOT_TOKEN")
    assert wrong not in ended.err + ended.out


@pytest.mark.parametrize(
    ("bot", "app", "named"),
    [("xoxb-wrong", "xapp-stand-in", "SLACK_BOT_TOKEN"), ("xoxb-stand-in", "xapp-wrong", "SLACK_APP_TOKEN")],
    ids=["bot", "app"],
)
async def test_a_slack_token_that_slack_refuses_is_said_with_the_cure(
    home: Path, bot: str, app: str, named: str
) -> None:
    async with serving(SlackStandin().app) as url:
        ended = await meanwhile(home, SLACK_BOT_TOKEN=bot, SLACK_APP_TOKEN=app, SLACK_API_URL=f"{url}/api/", **MODEL)
    assert_refused(ended, named)
    assert "-wrong" not in ended.err + ended.out


async def test_a_slack_bot_token_alone_is_told_about_the_two_ways_in(home: Path) -> None:
    async with serving(SlackStandin().app) as url:
        ended = await meanwhile(home, SLACK_BOT_TOKEN="xoxb-stand-in", SLACK_API_URL=f"{url}/api/", **MODEL)
    assert_refused(ended, "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET")


def test_a_file_in_the_place_of_the_home_is_left_alone(home: Path) -> None:
    home.write_text("my own")
    assert_refused(reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM, **MODEL), str(home), "REVERIE_HOME")
    assert home.read_text() == "my own"


def test_a_home_below_a_file_is_refused(home: Path) -> None:
    home.write_text("my own")
    assert_refused(reverie(home / "below", TELEGRAM_BOT_TOKEN=TELEGRAM, **MODEL), str(home), "REVERIE_HOME")


def test_a_folder_in_the_place_of_the_settings_file_is_named(home: Path) -> None:
    (home / "reverie.toml").mkdir(parents=True)
    assert_refused(reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM, **MODEL), str(home / "reverie.toml"))


def test_a_database_of_a_newer_schema_is_left_as_it_is(home: Path) -> None:
    home.mkdir()
    with contextlib.closing(sqlite3.connect(home / "reverie.db")) as database, database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
    ended = reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM, **MODEL)
    assert_refused(ended, "9999", "newer", "Nothing was changed")
    with contextlib.closing(sqlite3.connect(home / "reverie.db")) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("alembic_version",)]


def test_a_file_that_is_no_database_is_left_as_it_is(home: Path) -> None:
    home.mkdir()
    (home / "reverie.db").write_bytes(b"these are my own words, " * 100)
    assert_refused(reverie(home, TELEGRAM_BOT_TOKEN=TELEGRAM, **MODEL), "reverie.db", "DATABASE_URL")
    assert (home / "reverie.db").read_bytes() == b"these are my own words, " * 100


async def test_a_port_in_use_is_said_with_the_cure(home: Path, telegram_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = await meanwhile(
            home, TELEGRAM_BOT_TOKEN=TELEGRAM, TELEGRAM_API_URL=telegram_url, REVERIE_HTTP=address, **MODEL
        )
    assert_refused(ended, address, "REVERIE_HTTP")


async def test_a_second_gateway_on_the_same_home_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    async with world.served():
        await world.gateway.start()
        ended = await meanwhile(world.home, TELEGRAM_BOT_TOKEN=TELEGRAM, **MODEL)
        assert_refused(ended, str(world.home), "REVERIE_HOME")
        place = world.private()
        await world.answered(place, world.ask(place))
