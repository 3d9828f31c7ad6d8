import re
import stat
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from adapters.slack.manifest import MANIFEST
from gateway.errors import StartRefused
from gateway.settings import load
from gateway.settings_file import TEMPLATE, amended
from gateway.setup import interview
from memory.settings import MemorySettings

TELEGRAM_TOKEN = "123456789:AAE" + "x" * 32
NOTHING = ["", "", "", "n", "", "UTC"]  # key, address, Telegram, Slack?, owners, zone


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def answered(home: Path, *answers: str) -> Result:
    @click.command()
    def ask() -> None:
        interview({"REVERIE_HOME": str(home)})

    return CliRunner().invoke(ask, input="".join(f"{answer}\n" for answer in answers))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def environ(home: Path) -> dict[str, str]:
    return {"REVERIE_HOME": str(home), "REVERIE_MANAGED_DIR": str(home / "none")}


def test_the_answers_become_valid_settings_that_only_their_owner_may_read(home: Path) -> None:
    slack = ["y", "xoxb-bot", "socket", "xapp-app"]
    owners = "telegram:42, slack:T1/U1"
    result = answered(home, "sk-ant-key", "", TELEGRAM_TOKEN, *slack, owners, "Europe/Berlin")
    assert result.exit_code == 0, result.output
    settings = load(environ(home))
    assert settings.model.api_key
    assert settings.model.api_key.get_secret_value() == "sk-ant-key"
    assert settings.telegram
    assert settings.telegram.token.get_secret_value() == TELEGRAM_TOKEN
    assert settings.slack
    assert settings.slack.app_token
    assert settings.slack.app_token.get_secret_value() == "xapp-app"
    assert [str(owner) for owner in settings.access.owners] == ["telegram:42", "slack:T1/U1"]
    assert settings.timezone == "Europe/Berlin"
    assert (mode(home), mode(home / "reverie.toml")) == (0o700, 0o600)


def test_the_file_names_each_switch_of_memory_with_its_default() -> None:
    lines = re.findall(r"^# (\w+ = .*)$", TEMPLATE.partition("[memory]\n")[2], re.MULTILINE)
    shown = tomllib.loads("\n".join(lines))
    assert len(lines) == len(shown) == len(MemorySettings.model_fields)
    assert shown.keys() == MemorySettings.model_fields.keys()
    unset = {name for name, value in MemorySettings() if value is None}
    assert unset == {"auto_memory_directory", "log_keep_days", "team_server_url", "team_token", "team_max_entries"}
    assert MemorySettings.model_validate({name: shown[name] for name in shown.keys() - unset}) == MemorySettings()
    MemorySettings.model_validate(shown)  # what is shown of the others can be used as well


def test_secrets_show_nowhere_but_in_the_file(home: Path) -> None:
    result = answered(home, "sk-ant-key", "", TELEGRAM_TOKEN, "y", "xoxb-bot", "", "xapp-app", "", "UTC")
    assert not [secret for secret in ("sk-ant-key", TELEGRAM_TOKEN, "xoxb-bot", "xapp-app") if secret in result.output]


def test_what_is_skipped_is_off_and_stays_as_a_comment(home: Path) -> None:
    result = answered(home, *NOTHING)
    settings = load(environ(home))
    assert (settings.telegram, settings.slack, settings.model.api_key) == (None, None, None)
    assert '# token = ""' in (home / "reverie.toml").read_text()
    assert "a model and Telegram or Slack still to be set" in result.output
    assert "reverie doctor" in result.output


def test_the_steps_at_botfather_and_the_manifest_are_printed(home: Path) -> None:
    result = answered(home, "", "", "", "y", "", "", "UTC")
    assert "/newbot" in result.output
    assert "/setprivacy" in result.output
    assert MANIFEST in result.output
    assert yaml.safe_load(MANIFEST)["settings"]["socket_mode_enabled"] is True


def test_an_answer_of_the_wrong_form_is_asked_for_again(home: Path) -> None:
    telegram = [TELEGRAM_TOKEN[:20], TELEGRAM_TOKEN]
    slack = ["y", "xapp-app", "xoxb-bot", "socket", "xoxb-bot", "xapp-app"]
    result = answered(
        home, "", "example.org", "https://example.org", *telegram, *slack, "42", "telegram:42", "Berlin", "UTC"
    )
    assert result.exit_code == 0, result.output
    settings = load(environ(home))
    assert settings.model.base_url == "https://example.org"
    assert settings.telegram
    assert settings.telegram.token.get_secret_value() == TELEGRAM_TOKEN
    assert settings.slack
    assert settings.slack.bot_token.get_secret_value() == "xoxb-bot"
    assert "no whole token" in result.output
    assert "begins with xoxb-" in result.output


def test_slack_can_call_over_http_and_without_a_way_in_stays_off(home: Path) -> None:
    result = answered(home, "", "", "", "y", "xoxb-bot", "http", "", "", "UTC")
    assert "no way in" in result.output
    assert load(environ(home)).slack is None
    answered(home, "y", "", "", "", "y", "xoxb-bot", "http", "shh", "", "UTC")
    settings = load(environ(home))
    assert settings.slack
    assert settings.slack.signing_secret
    assert settings.slack.app_token is None
    assert "/slack/events" in result.output


def test_changing_to_http_takes_the_app_token_out_for_it_would_go_first(home: Path) -> None:
    answered(home, "", "", "", "y", "xoxb-bot", "socket", "xapp-app", "", "UTC")
    answered(home, "y", "", "", "", "", "", "http", "shh", "", "UTC")
    settings = load(environ(home))
    assert settings.slack
    assert (settings.slack.app_token, settings.slack.bot_token.get_secret_value()) == (None, "xoxb-bot")


@pytest.mark.parametrize("key", ["sk-ant two", "sk-ant\tkey", "sk-ant-k\u00e9y", "sk\u200b-ant"])
def test_a_key_with_what_no_key_has_is_asked_for_again(home: Path, key: str) -> None:
    result = answered(
        home, key, "sk-ant-key", "", "", "y", "xoxb-a b", "xoxb-bot", "", "xapp- a", "xapp-app", "", "UTC"
    )
    settings = load(environ(home))
    assert settings.model.api_key
    assert settings.model.api_key.get_secret_value() == "sk-ant-key"
    assert result.output.count("no key has") == 3


MINE = """\
# mine
timezone = "Europe/Berlin"   # where we are

[telegram]
token = "{token}"
[access]
owners = [
  "telegram:42",  # Ann
]
[projects.tea]
chats = ["telegram:-100"]
"""


def test_what_is_there_is_kept_and_what_is_missing_is_added(home: Path) -> None:
    home.mkdir()
    (home / "reverie.toml").write_text(MINE.format(token=TELEGRAM_TOKEN))
    result = answered(home, "y", "sk-ant-key", "", "", "n", "", "")
    assert result.exit_code == 0, result.output
    text = (home / "reverie.toml").read_text()
    assert text == MINE.format(token=TELEGRAM_TOKEN) + '\n[model]\napi_key = "sk-ant-key"\n'
    assert "Bot token (not shown) (set)" in result.output
    assert "[telegram:42]" in result.output
    assert TELEGRAM_TOKEN not in result.output
    assert "reverie run" in result.output


def test_a_changed_answer_takes_the_place_of_the_old_one_and_no_other_line_changes(home: Path) -> None:
    home.mkdir()
    (home / "reverie.toml").write_text(MINE.format(token=TELEGRAM_TOKEN))
    answered(home, "y", "", "", "", "n", "telegram:42, telegram:43", "UTC")
    assert (home / "reverie.toml").read_text().splitlines() == [
        "# mine", 'timezone = "UTC"', "", "[telegram]", f'token = "{TELEGRAM_TOKEN}"', "[access]",
        'owners = ["telegram:42", "telegram:43"]', "[projects.tea]", 'chats = ["telegram:-100"]',
    ]  # fmt: skip


def test_when_nothing_is_new_nothing_is_written(home: Path) -> None:
    answered(home, "sk-ant-key", "", "", "n", "telegram:42", "UTC")
    before = (home / "reverie.toml").read_text()
    assert "Nothing was changed" in answered(home, "y", "", "", "", "n", "", "").output
    assert [file.name for file in home.iterdir()] == ["reverie.toml"]
    assert (home / "reverie.toml").read_text() == before


@pytest.mark.parametrize("text", ['telegram.token = "a"\n', 'telegram = { token = "a" }\n', "owners = [\n"])
def test_a_file_that_is_laid_out_otherwise_is_left_as_it_is_with_a_word_and_no_secret(home: Path, text: str) -> None:
    home.mkdir()
    (home / "reverie.toml").write_text(text)
    result = answered(home, "y", "", "", TELEGRAM_TOKEN, "n", "", "UTC")
    assert isinstance(result.exception, StartRefused)
    assert TELEGRAM_TOKEN not in str(result.exception)
    assert (home / "reverie.toml").read_text() == text


def test_an_existing_file_is_left_alone_unless_the_answer_is_yes(home: Path) -> None:
    home.mkdir()
    (home / "reverie.toml").write_text("# mine\n")
    for answer in ("", "n"):
        assert "Left as it is" in answered(home, answer).output
    assert (home / "reverie.toml").read_text() == "# mine\n"


def test_each_changed_file_is_kept_and_no_kept_one_is_lost(home: Path) -> None:
    home.mkdir(mode=0o755)
    (home / "reverie.toml").write_text("# first\n")
    answered(home, "y", *NOTHING)
    second = (home / "reverie.toml").read_text()
    result = answered(home, "y", "sk-ant-key", *NOTHING[1:])
    assert "kept as reverie.toml.bak1" in result.output
    assert (home / "reverie.toml.bak").read_text() == "# first\n"
    assert (home / "reverie.toml.bak1").read_text() == second
    assert (mode(home), mode(home / "reverie.toml.bak")) == (0o700, 0o600)


def test_breaking_off_leaves_no_trace(home: Path) -> None:
    result = answered(home, "sk-ant-key", "")  # and the input ends
    assert result.exit_code == 1
    assert not home.exists()


def test_a_home_that_can_not_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = answered(tmp_path / "file" / "home", *NOTHING)
    assert isinstance(result.exception, StartRefused)
    assert "set REVERIE_HOME" in str(result.exception)


@pytest.mark.parametrize("secret", ['quo"te', "back\\slash", "snow☃man", "smile\U0001f600", "del\x7f", "tab\t"])
def test_any_text_survives_the_file(home: Path, secret: str) -> None:
    home.mkdir(mode=0o700)
    (home / "reverie.toml").write_text(amended(TEMPLATE, {("model", "api_key"): secret}), encoding="utf-8")
    settings = load(environ(home))
    assert settings.model.api_key
    assert settings.model.api_key.get_secret_value() == secret
