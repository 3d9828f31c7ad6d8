"""`reverie init`: a few questions, and `reverie.toml` as the answer."""

import itertools
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from adapters.slack.manifest import MANIFEST
from gateway.errors import StartRefused
from gateway.settings import account_of, home_directory
from gateway.settings_file import TEMPLATE, Value, amended
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
  3. Either Socket Mode, which needs no public address: Basic Information, App-Level Tokens, make one with the scope
     connections:write and copy it (xapp-…).
     Or HTTP, when this gateway has a public address: copy Basic Information, Signing Secret; turn Socket Mode off; give
     https://YOUR-HOST/slack/events as the request URL of Event Subscriptions and of the slash command."""
_OWNER_STEPS = """\
  An owner may always write to the bot, without a pairing code.
  Telegram: your number, which @userinfobot tells you; write telegram:42.
  Slack: your profile, the three dots, Copy member ID; the team's id (T…) is in the address of Slack in the
  browser; write slack:T1/U1."""


Answers = dict[tuple[str, str], Value]
"""What shall stand in the file, by section and key; empty where a part was skipped, None where it shall go."""


@click.command()
def init() -> None:
    """Ask a few questions and write reverie.toml."""
    interview()


def interview(environ: Mapping[str, str] = os.environ) -> None:
    """Ask, and write `$REVERIE_HOME/reverie.toml` (0600); one that is there is gone through after a yes.

    Of a file that is there every line stays that no answer is about, and as it was it is kept beside as `.bak`.
    Nothing is written before the last answer. Raises `StartRefused` if the home can't be written or the file not read.
    """
    file = home_directory(environ) / _FILE
    before = _read(file)
    click.echo(f"This writes {file}. An empty answer skips a part; Ctrl-C ends without a trace.\n")
    there: dict[str, Any] = {}
    if before is not None:
        there = _parsed(file, before)
        question = (
            f"{file} is there already. Add to it? An empty answer keeps what is set; the old file is kept as .bak"
        )
        if not click.confirm(question, default=False):
            click.echo("Left as it is.")
            return
    answers = _ask(there)
    new = {place: value for place, value in answers.items() if value != "" and value != _found(there, *place)}
    if before is not None and not new:
        click.echo("\nNothing was changed.")
    else:
        _write_answers(file, before, new)
    click.echo(_ending(there, answers))


def _write_answers(file: Path, before: str | None, new: Answers) -> None:
    try:
        text = amended(TEMPLATE if before is None else before, new)
    except ValueError as error:
        names = ", ".join(".".join(filter(None, place)) for place in new)
        raise StartRefused(
            f"{file} can't be changed from here: {error}", cure=f"Write {names} into it yourself, or move it away."
        ) from None  # the cause may quote a secret
    kept = _write(file.parent, text)
    if kept:
        click.echo(f"The old file is kept as {kept}.")
    click.echo(f"\nWritten: {file} (for your eyes only: 0600).")


def _found(there: Mapping[str, Any], section: str, key: str) -> str | tuple[str, ...] | None:
    """Return what the file has set there, None if that is nothing or nothing of this kind."""
    table = there.get(section, {}) if section else there
    value = table.get(key) if isinstance(table, dict) else None
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return value if isinstance(value, str) and value else None


def _ask(there: Mapping[str, Any]) -> Answers:
    click.secho("Model", bold=True)
    answers: Answers = {
        ("model", "api_key"): _secret("  Anthropic API key", _is_one_word, there, "model", "api_key"),
        ("model", "base_url"): _checked(
            "  Base URL, if another server speaks the Messages API for you",
            _is_address,
            default=str(_found(there, "model", "base_url") or ""),
        ),
    }
    click.secho("\nTelegram", bold=True)
    click.echo(_TELEGRAM_STEPS)
    answers["telegram", "token"] = _secret("  Bot token", _is_telegram_token, there, "telegram", "token")
    click.secho("\nSlack", bold=True)
    if click.confirm("  Set it up now?", default=_found(there, "slack", "bot_token") is not None):
        answers |= _ask_slack(there)
    click.secho("\nOwners", bold=True)
    click.echo(_OWNER_STEPS)
    known = _found(there, "access", "owners") or ()
    default = known if isinstance(known, str) else ", ".join(known)
    owners = _checked("  Owners, with commas between them", _are_accounts, default=default)
    answers["access", "owners"] = tuple(owners.replace(",", " ").split()) or ""
    click.secho("\nTime zone", bold=True)
    zone = str(_found(there, "", "timezone") or _zone_here())
    answers["", "timezone"] = _checked("  Of this gateway", _is_zone, default=zone)
    return answers


def _ask_slack(there: Mapping[str, Any]) -> Answers:
    click.echo(_SLACK_STEPS.format(manifest=MANIFEST))
    bot = _secret("  Bot token", _starts_with("xoxb-"), there, "slack", "bot_token")
    if not bot:
        return {}
    calls = _found(there, "slack", "signing_secret") is not None and _found(there, "slack", "app_token") is None
    way = click.prompt("  Events come by", type=click.Choice(["socket", "http"]), default="http" if calls else "socket")
    answers: Answers = {("slack", "bot_token"): bot}
    if way == "socket":
        key = answers["slack", "app_token"] = _secret("  App token", _starts_with("xapp-"), there, "slack", "app_token")
    else:
        key = answers["slack", "signing_secret"] = _secret(
            "  Signing secret", _is_one_word, there, "slack", "signing_secret"
        )
        if _found(there, "slack", "app_token") is not None:
            answers["slack", "app_token"] = None  # it would go first
    if key:
        return answers
    click.echo("  Without it Slack has no way in, so Slack is left as it was.")
    return {}


Check = Callable[[str], str]
"""Returns what is wrong with an answer, empty if nothing is; never repeats the answer, which may be a secret."""


def _secret(question: str, check: Check, there: Mapping[str, Any], section: str, key: str) -> str:
    known = str(_found(there, section, key) or "")
    shown = f"{question} (not shown){' (set)' if known else ''}"
    answer = _repeated(lambda: click.prompt(shown, default="", show_default=False, hide_input=True), check)
    return answer or known


def _checked(question: str, check: Check, *, default: str = "") -> str:
    return _repeated(lambda: click.prompt(question, default=default, show_default=bool(default)), check)


def _repeated(ask: Callable[[], str], check: Check) -> str:
    while True:
        answer = ask().strip()
        fault = check(answer) if answer else ""
        if not fault:
            return answer
        click.echo(f"  {fault}")


def _is_one_word(answer: str) -> str:
    fits = answer.isascii() and answer.isprintable() and " " not in answer
    return "" if fits else "There is a space or a sign in it that no key has: paste it again, in one piece."


def _is_address(answer: str) -> str:
    return "" if re.match(r"https?://\S+\Z", answer) else "Write the whole address, e.g. http://127.0.0.1:8080"


def _is_telegram_token(answer: str) -> str:
    fits = _TELEGRAM_TOKEN.fullmatch(answer)
    return "" if fits else "That is no whole token: it has digits, a colon, and about 35 letters and digits."


def _starts_with(prefix: str) -> Check:
    def check(answer: str) -> str:
        other = "" if answer.startswith(prefix) else f"That is another token: this one begins with {prefix}"
        return other or _is_one_word(answer)

    return check


def _are_accounts(answer: str) -> str:
    try:
        for account in answer.replace(",", " ").split():
            account_of(account)
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


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _unwritable(file, error) from error


def _parsed(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StartRefused(
            f"{file} is not valid TOML: {error}", cure="Mend that line, or move the file away."
        ) from error


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
        f"{file} can't be written: {reason}", cure="Give this user the folder, or set REVERIE_HOME to another."
    )


def _ending(there: Mapping[str, Any], answers: Answers) -> str:
    def is_set(section: str, key: str) -> bool:
        return bool(answers.get((section, key)) or _found(there, section, key))

    model = is_set("model", "api_key") or is_set("model", "base_url")
    platform = is_set("telegram", "token") or is_set("slack", "bot_token")
    lines = ["Next:"]
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
