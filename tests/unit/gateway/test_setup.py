import stat
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from adapters.slack.manifest import MANIFEST
from gateway.errors import StartRefused
from gateway.settings import load
from gateway.setup import Answers, interview, settings_text

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
    slack = ["y", "xoxb-bot", "xapp-app"]
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


def test_secrets_show_nowhere_but_in_the_file(home: Path) -> None:
    result = answered(home, "sk-ant-key", "", TELEGRAM_TOKEN, "y", "xoxb-bot", "xapp-app", "", "UTC")
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
    slack = ["y", "xapp-app", "xoxb-bot", "xoxb-bot", "xapp-app"]
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


def test_slack_without_app_token_takes_the_signing_secret_or_stays_off(home: Path) -> None:
    answered(home, "", "", "", "y", "xoxb-bot", "", "shh", "", "UTC")
    settings = load(environ(home))
    assert settings.slack
    assert settings.slack.signing_secret
    assert settings.slack.app_token is None
    result = answered(home, "y", "", "", "", "y", "xoxb-bot", "", "", "", "UTC")
    assert "stays off" in result.output
    assert load(environ(home)).slack is None


def test_an_existing_file_is_left_alone_unless_the_answer_is_yes(home: Path) -> None:
    home.mkdir()
    (home / "reverie.toml").write_text("# mine\n")
    for answer in ("", "n"):
        assert "Left as it is" in answered(home, answer).output
    assert (home / "reverie.toml").read_text() == "# mine\n"


def test_each_replaced_file_is_kept_and_no_kept_one_is_lost(home: Path) -> None:
    home.mkdir(mode=0o755)
    (home / "reverie.toml").write_text("# first\n")
    answered(home, "y", *NOTHING)
    second = (home / "reverie.toml").read_text()
    result = answered(home, "y", *NOTHING)
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
    (home / "reverie.toml").write_text(settings_text(Answers(api_key=secret)), encoding="utf-8")
    settings = load(environ(home))
    assert settings.model.api_key
    assert settings.model.api_key.get_secret_value() == secret
