"""`reverie doctor`: looks at everything that the gateway needs, and names the cure of each fault."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime

import click
from pydantic import SecretStr

from gateway.checks import agents, machine, memories, preferences, services, store, team
from gateway.checks.environment import check_environment
from gateway.checks.finding import Finding, Limits, Status, fail, off, ok, refused
from gateway.errors import StartRefused
from gateway.log import configure, redact
from gateway.settings import Settings, home_directory, load

Check = Awaitable[list[Finding]]

_SHORTEST_SECRET = 6  # shorter ones stand for no secret, and would be found in every other word


def _utc_now() -> datetime:
    return datetime.now(UTC)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(*, as_json: bool) -> None:
    """Check settings, tokens, database, folders, clock and limits; each failure with its cure."""
    configure(level="ERROR")  # the findings say what there is to say
    sys.exit(asyncio.run(examine(as_json=as_json, say=click.echo)))


async def examine(
    *,
    as_json: bool,
    say: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    limits: Limits | None = None,
    now: Callable[[], datetime] = _utc_now,
) -> int:
    """Run every check, say what was found, and return 0, or 1 if anything failed.

    Nothing is changed, here or there, and no token is shown. With `as_json` one JSON list of
    `{check, status, finding, cure}` is said.
    """
    found = await examined(environ, limits or Limits(), now)
    if as_json:
        say(json.dumps([asdict(each) for each in found], ensure_ascii=False, indent=2))
    else:
        for line in _lines(found):
            say(line)
    return 1 if any(each.status is Status.FAIL for each in found) else 0


async def examined(environ: Mapping[str, str], limits: Limits, now: Callable[[], datetime]) -> list[Finding]:
    """Return the findings in the order of the checks, which run side by side."""
    about_settings, settings = _read(environ)
    home = home_directory(environ)
    checks: list[Check] = [
        _safe("home", asyncio.to_thread(machine.check_home, home, limits)),
        _safe("files", asyncio.to_thread(machine.check_files, home, limits)),
        *(_with_settings(settings, limits, now, whole=about_settings[0].status is Status.OK) if settings else []),
        _safe("limits", asyncio.to_thread(machine.check_limits, limits)),
    ]
    found = [each for part in await asyncio.gather(*checks) for each in part]
    hide = _secrets(settings)
    return [
        replace(each, finding=_hidden(each.finding, hide), cure=_hidden(each.cure, hide))
        for each in (*about_settings, *found)
    ]


def _read(environ: Mapping[str, str]) -> tuple[list[Finding], Settings | None]:
    """Read the settings; from the environment alone if the files are broken, so that the rest can be looked at."""
    try:
        settings = load(environ)
    except StartRefused as error:
        broken = refused("settings", error)
    else:
        file = settings.home / "reverie.toml"
        source = f"{file} and the environment" if file.exists() else f"the environment; there is no {file}"
        return [ok("settings", f"valid, from {source}"), *check_environment(environ)], settings
    broken += check_environment(environ)
    try:
        return broken, load(environ, read_files=False)
    except StartRefused:
        return broken, None


def _with_settings(settings: Settings, limits: Limits, now: Callable[[], datetime], *, whole: bool) -> list[Check]:
    database, in_a_file = store.check_database(settings), settings.database.startswith("sqlite")
    groups = settings.access.shared != "off"
    telegram = services.check_telegram(settings.telegram, groups=groups) if settings.telegram else None
    slack = services.check_slack(settings.slack, limits) if settings.slack else None
    model = services.check_model(settings.model, limits) if settings.model.is_set else None
    return [
        # A big SQLite file is read through, which takes its time; only a server can keep us waiting for nothing.
        _safe("database", database) if in_a_file else _bounded("database", database, limits),
        _if_set("telegram", telegram, limits, whole=whole, cure="Set TELEGRAM_BOT_TOKEN to turn it on."),
        _if_set("slack", slack, limits, whole=whole, cure="Set SLACK_BOT_TOKEN and SLACK_APP_TOKEN to turn it on."),
        _if_set("model", model, limits, whole=whole, cure="Set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL."),
        _bounded("team", team.check_team(settings, limits), limits),
        _bounded("clock", services.check_clock(settings, limits, now), limits),
        _safe("time zone", asyncio.to_thread(machine.check_zones, settings)),
        _safe("preferences", asyncio.to_thread(preferences.check_preferences, settings)),
        _safe("agents", asyncio.to_thread(agents.check_agents, settings)),
        _safe("memories", asyncio.to_thread(memories.check_memories, settings)),
        _safe("running", asyncio.to_thread(machine.check_start, settings)),
        _bounded("http", machine.check_port(settings, limits), limits),
    ]


async def _if_set(name: str, check: Check | None, limits: Limits, *, whole: bool, cure: str) -> list[Finding]:
    if check is not None:
        return await _bounded(name, check, limits)
    return [
        off(name, "not set up" if whole else "not looked at, for the settings can't be read", cure if whole else "")
    ]


async def _bounded(name: str, check: Check, limits: Limits) -> list[Finding]:
    try:
        async with asyncio.timeout(limits.answer_within):
            return await _safe(name, check)
    except TimeoutError:
        said = f"no answer within {limits.answer_within:g} s"
        return [fail(name, said, "Check this machine's network and proxy, and the address in the settings.")]


async def _safe(name: str, check: Check) -> list[Finding]:
    try:
        return await check
    except Exception as error:  # noqa: BLE001 - an edge: one broken check must not hide what the others found
        said = f"the check itself failed: {type(error).__name__}: {error}"
        return [fail(name, said, "This is a fault of Reverie's: please report it with this line.")]


def _secrets(settings: Settings | None) -> list[str]:
    if settings is None:
        return []
    sections = (settings.telegram, settings.slack, settings.model, settings.memory)
    values = [value for section in sections if section is not None for _, value in section]
    secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
    return [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]


def _hidden(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return redact(text)


def _lines(found: list[Finding]) -> Iterable[str]:
    width = max(len(each.check) for each in found)
    for each in found:
        yield f"{each.status:4}  {each.check:{width}}  {each.finding}"
        if each.cure:
            yield f"{'':4}  {'':{width}}  -> {each.cure}"
    counted = Counter(each.status for each in found)
    yield ""
    yield f"{counted[Status.FAIL]} failed, {counted[Status.WARN]} with a warning, {counted[Status.OK]} fine"
