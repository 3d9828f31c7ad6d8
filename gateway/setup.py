"""`reverie init`: a few questions, and `reverie.toml` as the answer."""

import itertools
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from adapters.base import Account
from adapters.slack.manifest import MANIFEST
from gateway.errors import StartRefused
from gateway.settings import home_directory
from memory.disk import Folder
from memory.errors import PathRefused
from memory.paths import make_private

_FILE = "reverie.toml"
_TELEGRAM_TOKEN = re.compile(r"\d{5,}:[\w-]{30,}", re.ASCII)
_TELEGRAM_STEPS = """\
  1. In Telegram write to @BotFather: /newbot. Choose a name and a user name; it answers with a token.
  2. To let the bot follow the talk in groups, not only mentions: /setprivacy, choose the bot, Disable.
     Then add it to the group (again, if it was there before)."""
_SLACK_STEPS = """\
  1. Open https://api.slack.com/apps, Create New App, From a manifest; choose the workspace and paste this as YAML:

{manifest}
  2. Install App: install it, and copy the Bot User OAuth Token (xoxb-…).
  3. Basic Information, App-Level Tokens: make one with the scope connections:write and copy it (xapp-…)."""
_OWNER_STEPS = """\
  An owner may always write to the bot, without a pairing code.
  Telegram: your number, which @userinfobot tells you; write telegram:42.
  Slack: your profile, the three dots, Copy member ID; the team's id (T…) is in the address of Slack in the
  browser; write slack:T1/U1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """What was answered; empty where a part was skipped."""

    api_key: str = ""
    base_url: str = ""
    telegram_token: str = ""
    slack_bot_token: str = ""
    slack_app_token: str = ""
    slack_signing_secret: str = ""
    owners: tuple[str, ...] = ()
    timezone: str = "UTC"


def interview(environ: Mapping[str, str] = os.environ) -> None:
    """Ask, and write `$REVERIE_HOME/reverie.toml` (0600); a file that is there is replaced only after a yes.

    The file that was there is kept beside it as `.bak`. Nothing is written before the last answer.
    Raises `StartRefused` if the home can't be written.
    """
    home = home_directory(environ)
    file = home / _FILE
    try:
        is_there = file.exists()
    except OSError as error:
        raise _unwritable(file, error) from error
    click.echo(f"This writes {file}. An empty answer skips a part; Ctrl-C ends without a trace.\n")
    if is_there and not click.confirm(f"{file} is there already. Replace it? It is kept as .bak", default=False):
        click.echo("Left as it is.")
        return
    answers = _ask()
    kept = _write(home, settings_text(answers))
    if kept:
        click.echo(f"The old file is kept as {kept}.")
    click.echo(_ending(file, answers))


def _ask() -> Answers:
    click.secho("Model", bold=True)
    api_key = _secret("  Anthropic API key")
    base_url = _checked("  Base URL, if another server speaks the Messages API for you", _is_address)
    click.secho("\nTelegram", bold=True)
    click.echo(_TELEGRAM_STEPS)
    telegram = _secret("  Bot token", _is_telegram_token)
    click.secho("\nSlack", bold=True)
    slack = _ask_slack() if click.confirm("  Set it up now?", default=False) else ("", "", "")
    click.secho("\nOwners", bold=True)
    click.echo(_OWNER_STEPS)
    owners = _checked("  Owners, with commas between them", _are_accounts)
    click.secho("\nTime zone", bold=True)
    timezone = _checked("  Of this gateway", _is_zone, default=_zone_here())
    return Answers(
        api_key=api_key,
        base_url=base_url,
        telegram_token=telegram,
        slack_bot_token=slack[0],
        slack_app_token=slack[1],
        slack_signing_secret=slack[2],
        owners=tuple(owners.replace(",", " ").split()),
        timezone=timezone,
    )


def _ask_slack() -> tuple[str, str, str]:
    click.echo(_SLACK_STEPS.format(manifest=MANIFEST))
    bot = _secret("  Bot token", _starts_with("xoxb-"))
    if not bot:
        return "", "", ""
    app = _secret("  App token", _starts_with("xapp-"))
    secret = "" if app else _secret("  Signing secret, if Slack shall call /slack/events instead")
    if not app and not secret:
        click.echo("  Without one of the two Slack has no way in, so Slack stays off.")
        return "", "", ""
    return bot, app, secret


Check = Callable[[str], str]
"""Returns what is wrong with an answer, empty if nothing is; never repeats the answer, which may be a secret."""


def _secret(question: str, check: Check = lambda _: "") -> str:
    return _repeated(
        lambda: click.prompt(f"{question} (not shown)", default="", show_default=False, hide_input=True), check
    )


def _checked(question: str, check: Check, *, default: str = "") -> str:
    return _repeated(lambda: click.prompt(question, default=default, show_default=bool(default)), check)


def _repeated(ask: Callable[[], str], check: Check) -> str:
    while True:
        answer = ask().strip()
        fault = check(answer) if answer else ""
        if not fault:
            return answer
        click.echo(f"  {fault}")


def _is_address(answer: str) -> str:
    return "" if re.match(r"https?://\S+\Z", answer) else "Write the whole address, e.g. http://127.0.0.1:8080"


def _is_telegram_token(answer: str) -> str:
    fits = _TELEGRAM_TOKEN.fullmatch(answer)
    return "" if fits else "That is no whole token: it has digits, a colon, and about 35 letters and digits."


def _starts_with(prefix: str) -> Check:
    return lambda answer: "" if answer.startswith(prefix) else f"That is another token: this one begins with {prefix}"


def _are_accounts(answer: str) -> str:
    try:
        for account in answer.replace(",", " ").split():
            Account.parse(account)
    except ValueError as error:
        return str(error)
    return ""


def _is_zone(answer: str) -> str:
    try:
        ZoneInfo(answer)
    except (KeyError, ValueError, OSError):
        return "That is no IANA time zone: write e.g. Europe/Berlin"
    return ""


def _zone_here() -> str:
    """Return this machine's zone, as far as /etc/localtime names it."""
    name = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
    return name if name and not _is_zone(name) else "UTC"


def settings_text(answers: Answers) -> str:
    """Return the file: every part that was skipped stands there as a comment, to be filled in later."""
    owners = f"[{', '.join(_quoted(owner) for owner in answers.owners)}]"
    socket_mode = not answers.slack_signing_secret
    return f"""\
# Reverie's settings. What is left out has its default; the environment goes before this file.
# Keep it to yourself: it holds secrets.

timezone = {_quoted(answers.timezone)}

[model]
# The key of the Anthropic API, or of the server at base_url.
{_line("api_key", answers.api_key)}
# Any server that speaks the Messages API; without it the public one.
{_line("base_url", answers.base_url)}

{_section("telegram", answers.telegram_token)}
# From @BotFather.
{_line("token", answers.telegram_token)}

{_section("slack", answers.slack_bot_token)}
# OAuth & Permissions, Bot User OAuth Token (xoxb-…).
{_line("bot_token", answers.slack_bot_token)}
# Basic Information, App-Level Tokens (xapp-…): Socket Mode, which needs no public address.
{_line("app_token", answers.slack_app_token if socket_mode else "")}
# Basic Information, Signing Secret: instead of app_token, when Slack calls /slack/events.
{_line("signing_secret", answers.slack_signing_secret)}

[access]
# These may always write to the bot; others need a pairing code: reverie access approve CODE.
owners = {owners}
"""


def _section(name: str, needed: str) -> str:
    return f"[{name}]" if needed else f"# [{name}]"


def _line(key: str, value: str) -> str:
    return f"{key} = {_quoted(value)}" if value else f'# {key} = ""'


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace(
        "\x7f", "\\u007f"
    )  # JSON's string is TOML's, but for this one character


def _write(home: Path, text: str) -> str:
    """Put the file in its place; returns the name under which the one before it was kept."""
    try:
        home = home.resolve()
        make_private(home)
        home.chmod(0o700)
        with Folder.opened(home, root=home) as folder:
            before = folder.read(_FILE, limit=1024 * 1024)
            kept = _free_name(home) if before else ""
            if before:
                folder.replace(kept, before.data)
            folder.replace(_FILE, text.encode())
    except (OSError, PathRefused) as error:
        raise _unwritable(home / _FILE, error) from error
    return kept


def _free_name(home: Path) -> str:
    names = (f"{_FILE}.bak{number or ''}" for number in itertools.count())
    return next(name for name in names if not (home / name).exists())


def _unwritable(file: Path, error: Exception) -> StartRefused:
    reason = getattr(error, "strerror", None) or str(error)
    return StartRefused(
        f"{file} can't be written: {reason}. Give this user the folder, or set REVERIE_HOME to another."
    )


def _ending(file: Path, answers: Answers) -> str:
    model = bool(answers.api_key or answers.base_url)
    platform = bool(answers.telegram_token or answers.slack_bot_token)
    lines = [f"\nWritten: {file} (for your eyes only: 0600). Next:"]
    if not model or not platform:
        missing = " and ".join([*([] if model else ["a model"]), *([] if platform else ["Telegram or Slack"])])
        lines.append(f"  {missing} still to be set, in that file or by reverie init")
    lines.append("  reverie doctor   checks everything, and names the cure of each fault")
    lines.append(
        "  reverie run      starts the gateway"
        if model and platform
        else "  reverie chat     talks here, in the terminal"
    )
    return "\n".join(lines)
