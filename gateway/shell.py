"""The shell's side of what the bot commands do: access, memory, jobs, stand-ins."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import click

from adapters.base import Account, Address
from gateway import app, log
from gateway.errors import StartRefused
from gateway.scopes import Scopes
from gateway.settings import load
from memory.errors import MemoryFault
from memory.paths import readable_path
from memory.rank import Ranking
from memory.scope import Scope
from scheduler.errors import UnknownJob
from scheduler.runs import Outcome

Result = TypeVar("Result")
_THINKING = ("dream", "distil")  # the jobs that ask the model


@asynccontextmanager
async def _core() -> AsyncIterator[app.Core]:
    settings = load()
    log.configure(level="WARNING", json=settings.log_json)
    async with app.open_core(settings, adapters={}) as core:
        yield core


def _with_core(work: Callable[[app.Core], Awaitable[Result]]) -> Result:
    async def go() -> Result:
        async with _core() as core:
            return await work(core)

    return asyncio.run(go())


@click.group()
def access() -> None:
    """Who may talk to the bot, and where."""


@access.command("list")
def access_list() -> None:
    """List the people and chats that were let in, besides those in the settings."""
    for line in _with_core(lambda core: core.access.known()) or ["nobody and nowhere yet"]:
        click.echo(line)


@access.command()
@click.argument("code")
def approve(code: str) -> None:
    """Let in the person who was given this pairing code."""
    who = _with_core(lambda core: core.access.approve(code))
    if who is None:
        raise click.ClickException("No such code, or it is older than an hour. Ask them to write to the bot again.")
    click.echo(f"{who} may talk to the bot now.")


@access.command()
@click.argument("what")
def allow(what: str) -> None:
    """Allow a chat (telegram:-100…, slack:T1/C1) or a person (telegram:42, slack:T1/U1)."""
    _set_allowed(what, allowed=True)
    click.echo(f"{what} is allowed now.")


@access.command()
@click.argument("what")
def revoke(what: str) -> None:
    """Take back what `allow` or `approve` gave; it counts from the next message on."""
    _set_allowed(what, allowed=False)
    click.echo(f"{what} is not allowed any more.")


def _set_allowed(what: str, *, allowed: bool) -> None:
    try:
        who, where = Account.parse(what), Address.parse(what)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    # Platforms tell people from shared chats by the id: Telegram's groups are negative, Slack's people begin with U, W.
    person = who.user.isdecimal() if who.platform == "telegram" else who.user.startswith(("U", "W"))
    if person:
        _with_core(lambda core: core.access.allow_account(who, allowed=allowed))
    else:
        _with_core(lambda core: core.access.allow_chat(where, allowed=allowed))


@click.group()
def memory() -> None:
    """Look at what is remembered."""


@memory.command("list")
@click.option("--principal", help="Whose memory; without it, list the principals.")
@click.option("--project", default="", help="Of which project; without it, of the chats that are bound to none.")
@click.option("--json", "as_json", is_flag=True)
def memory_list(*, principal: str | None, project: str, as_json: bool) -> None:
    """List principals, or the notes of one."""

    async def work(core: app.Core) -> list[dict[str, str]]:
        if principal is None:
            return [
                {"principal": scope.principal, "project": scope.project, "folder": str(scope.memory_dir)}
                for scope in await core.scopes.known()
            ]
        headers = await core.scanner.scan(await _scope(core.scopes, principal, project))
        return [{"note": each.name, "type": each.type or "", "description": each.description} for each in headers]

    _print(_with_core(work), as_json=as_json)


@memory.command("show")
@click.argument("note")
@click.option("--principal", required=True)
@click.option("--project", default="")
def memory_show(*, note: str, principal: str, project: str) -> None:
    """Print one note."""

    async def work(core: app.Core) -> str:
        scope = await _scope(core.scopes, principal, project)
        path = readable_path(scope, note)
        if path.suffix != ".md" and not path.is_file():
            path = path.with_name(f"{path.name}.md")
        return (await core.notes.read(scope, path)).text

    try:
        click.echo(_with_core(work), nl=False)
    except MemoryFault as error:
        raise click.ClickException(f"{note}: {error} (`reverie memory list --principal …` names the notes)") from error


@memory.command("search")
@click.argument("query")
@click.option("--principal", required=True)
@click.option("--project", default="")
@click.option("--json", "as_json", is_flag=True)
def memory_search(*, query: str, principal: str, project: str, as_json: bool) -> None:
    """Find notes by the words in them, best first."""

    async def work(core: app.Core) -> list[dict[str, str]]:
        scope = await _scope(core.scopes, principal, project)
        headers = await core.scanner.scan(scope)
        found = await Ranking().best(scope, headers, query, 20)
        described = {each.name: each.description for each in headers}
        return [{"note": name, "score": f"{score:.3f}", "description": described[name]} for name, score in found]

    _print(_with_core(work), as_json=as_json)


async def _scope(scopes: Scopes, principal: str, project: str) -> Scope:
    for scope in await scopes.known():
        if (scope.principal, scope.project) == (principal, project):
            return scope
    raise StartRefused(f"There is no memory of {principal!r} in project {project!r}. `reverie memory list` names them.")


@click.group()
def jobs() -> None:
    """What the scheduler does."""


@jobs.command("list")
@click.option("--json", "as_json", is_flag=True)
def jobs_list(*, as_json: bool) -> None:
    """List the jobs and how their last runs ended."""

    async def work(core: app.Core) -> list[dict[str, str]]:
        following = core.night.clock.following()
        recent = {name: await core.night.runs.recent(name, limit=1) for name in following}
        return [
            {
                "job": name,
                "scope": last[0].scope if last else "",
                "last": last[0].started_at.isoformat(timespec="seconds") if last else "never",
                "outcome": str(last[0].outcome or "running") if last else "",
                "detail": last[0].detail if last else "",
            }
            for name, last in recent.items()
        ]

    _print(_with_core(work), as_json=as_json)


@jobs.command("run")
@click.argument("name")
def jobs_run(name: str) -> None:
    """Run one job now, for every scope, whatever the time. Exit code 1 if it failed for one of them."""
    model = load().model
    if name in _THINKING and model.api_key is None and model.base_url is None:
        raise click.ClickException(f"{name} needs a model: set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL.")
    try:
        ran = _with_core(lambda core: core.night.clock.run_now(name))
    except UnknownJob as error:
        raise click.ClickException(str(error)) from error
    for each in ran:
        click.echo(f"{name} {each.scope or '-'}: {each.outcome.value}: {each.detail}")
    if not ran:
        click.echo(f"{name}: nothing to do")
    if any(each.outcome is Outcome.FAILED for each in ran):
        sys.exit(1)


def _print(rows: list[dict[str, str]], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for row in rows:
        click.echo("  ".join(value for value in row.values() if value))
    if not rows:
        click.echo("nothing")
