"""The shell's side of what the bot commands do: access, memory, jobs, stand-ins."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import click

from adapters.base import Account, Address
from gateway import log
from gateway.commands.dream import described, spent, undone
from gateway.commands.jobs import PER_JOB, PER_PAGE, outcomes, told, would
from gateway.core import Core, open_core, utc_now
from gateway.errors import StartRefused
from gateway.scopes import Scopes
from gateway.settings import load
from memory.errors import MemoryFault
from memory.lookup import look_up
from memory.paths import UNNAMED, readable_path
from memory.rank import Ranking
from memory.scope import Scope
from scheduler.board import JobStatus, lasted
from scheduler.errors import UnknownJob, UnknownScope
from scheduler.runs import Outcome

Result = TypeVar("Result")
_OFFERED = 10
_IDS = {"telegram": re.compile(r"-?[0-9]+"), "slack": re.compile(r"[A-Z][A-Z0-9]*")}
_HOW = {
    "telegram": "Telegram's ids are numbers: telegram:42 for a person, telegram:-1001234 for a group.",
    "slack": "Slack's ids are capital letters and digits: slack:T1/U1 for a person, slack:T1/C1 for a channel.",
}
_THINKING = ("dream", "distil")  # the jobs that ask the model


@asynccontextmanager
async def _core() -> AsyncIterator[Core]:
    settings = load()
    log.configure(level="WARNING", json=settings.log_json)
    async with open_core(settings, adapters={}) as core:
        yield core


def _with_core(work: Callable[[Core], Awaitable[Result]]) -> Result:
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
    ids = _IDS.get(where.platform)
    if allowed and ids is not None and not ids.fullmatch(where.chat):  # what was allowed before can still be revoked
        raise click.ClickException(f"{what} is no id. {_HOW[where.platform]} Write to the bot there, and it names it.")
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
@click.option("--project", default=UNNAMED, show_default=True, help="Of which project; _chat is a chat bound to none.")
@click.option("--json", "as_json", is_flag=True)
def memory_list(*, principal: str | None, project: str, as_json: bool) -> None:
    """List principals, or the notes of one."""

    async def work(core: Core) -> list[dict[str, str]]:
        if principal is None:
            return [
                {
                    "principal": scope.principal,
                    "project": scope.project or UNNAMED,
                    "folder": str(scope.memory_dir),
                    "bound": "elsewhere by now" if left else "",
                }
                for left, scopes in enumerate((await core.scopes.known(), await core.scopes.left()))
                for scope in scopes
            ]
        headers = await core.scanner.scan(await _scope(core.scopes, principal, project))
        return [{"note": each.name, "type": each.type or "", "description": each.description} for each in headers]

    _print(_with_core(work), as_json=as_json)


@memory.command("show")
@click.argument("note")
@click.option("--principal", required=True)
@click.option("--project", default=UNNAMED, show_default=True)
def memory_show(*, note: str, principal: str, project: str) -> None:
    """Print one note."""

    async def work(core: Core) -> str:
        scope = await _scope(core.scopes, principal, project)
        found = await look_up(scope, core.scanner, note)
        if len(found) > 1:
            names = ", ".join(path.relative_to(scope.memory_dir).as_posix() for path in found[:_OFFERED])
            raise click.ClickException(f"Several notes fit {note!r}, such as {names}: name one.")
        path = found[0] if found else readable_path(scope, note)  # which says why it may not be looked at
        return (await core.notes.read(scope, path)).text

    try:
        click.echo(_with_core(work), nl=False)
    except MemoryFault as error:
        raise click.ClickException(f"{note}: {error} (`reverie memory list --principal …` names the notes)") from error


@memory.command("search")
@click.argument("query")
@click.option("--principal", required=True)
@click.option("--project", default=UNNAMED, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def memory_search(*, query: str, principal: str, project: str, as_json: bool) -> None:
    """Find notes by the words in them, best first."""

    async def work(core: Core) -> list[dict[str, str]]:
        scope = await _scope(core.scopes, principal, project)
        headers = await core.scanner.scan(scope)
        found = await Ranking().best(scope, headers, query, 20)
        described = {each.name: each.description for each in headers}
        return [{"note": name, "score": f"{score:.3f}", "description": described[name]} for name, score in found]

    _print(_with_core(work), as_json=as_json)


async def _scope(scopes: Scopes, principal: str, project: str) -> Scope:
    for scope in (*await scopes.known(), *await scopes.left()):
        if (scope.principal, scope.project or UNNAMED) == (principal, project or UNNAMED):
            return scope
    raise StartRefused(f"There is no memory of {principal!r} in project {project!r}. `reverie memory list` names them.")


@click.group()
def jobs() -> None:
    """What the scheduler does."""


@jobs.command("list")
@click.argument("name", required=False)
@click.option("--page", default=1, type=click.IntRange(min=1), help="Of the scopes of one job.")
@click.option("--json", "as_json", is_flag=True)
def jobs_list(*, name: str | None, page: int, as_json: bool) -> None:
    """List the jobs, or one, with the last run of each scope: those that failed first. Needs no running gateway."""

    async def work(core: Core) -> Sequence[JobStatus]:
        board = core.night.board
        if name is None:
            return await board.overview(limit=PER_PAGE if as_json else PER_JOB)
        return [await board.of(name, limit=PER_PAGE, page=page)]

    timezone = load().timezone
    with _refusing():
        statuses = _with_core(work)
    if as_json:
        _print([row for status in statuses for row in _rows(status)], as_json=True)
        return
    for status in statuses:
        click.echo(told(status, now=utc_now(), timezone=timezone))


def _rows(status: JobStatus) -> list[dict[str, str]]:
    following = "" if status.following is None else status.following.isoformat(timespec="seconds")
    job = {"job": status.job.id, "tells": status.job.tells, "next": following}
    runs = [
        {
            "scope": run.scope,
            "slot": run.slot,
            "last": run.started_at.isoformat(timespec="seconds"),
            "outcome": str(run.outcome or "running"),
            "seconds": "" if (length := lasted(run)) is None else f"{length.total_seconds():.1f}",
            "detail": run.detail,
        }
        for run in status.last
    ]
    never = {"scope": "", "slot": "", "last": "never", "outcome": "", "seconds": "", "detail": ""}
    return [job | run for run in runs or [never]]


@jobs.command("run")
@click.argument("name")
@click.option("--scope", "only", default="", help="PRINCIPAL or PRINCIPAL/PROJECT; without it, every scope.")
@click.option("--dry-run", "dry", is_flag=True, help="Say what the clock would run now, and why not the rest.")
def jobs_run(*, name: str, only: str, dry: bool) -> None:
    """Run one job now, whatever the time. Exit code 1 if it failed for a scope."""
    if dry:
        with _refusing():
            click.echo(would(name, _with_core(lambda core: core.night.clock.dry_run(name, only=only))))
        return
    model = load().model
    if name in _THINKING and model.api_key is None and model.base_url is None:
        raise click.ClickException(f"{name} needs a model: set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL.")
    with _refusing():
        ran = _with_core(lambda core: core.night.clock.run_now(name, only=only))
    for line in outcomes(name, ran):
        click.echo(line)
    if any(each.outcome is Outcome.FAILED for each in ran):
        sys.exit(1)


@click.group()
def dream() -> None:
    """Put a memory in order, and take that back."""


def _of_a_scope(command: Callable[..., None]) -> Callable[..., None]:
    principal = click.option("--principal", required=True, help="Whose memory; `reverie memory list` names them.")
    return principal(click.option("--project", default=UNNAMED, show_default=True)(command))


@dream.command("status")
@_of_a_scope
def dream_status(*, principal: str, project: str) -> None:
    """Say when it was last done, what the next one waits for, and how far the one is that runs."""

    async def work(core: Core) -> str:
        scope, night = await _scope(core.scopes, principal, project), core.night
        tokens = spent(await night.budget.tonight(), night.budget.per_night)
        return f"{described(scope, await night.dreams.dream.standing(scope))}\n{tokens}"

    click.echo(_with_core(work))


@dream.command("run")
@_of_a_scope
@click.pass_context
def dream_run(context: click.Context, *, principal: str, project: str) -> None:
    """Dream now, whatever the time. Exit code 1 if it failed."""
    context.invoke(jobs_run, name="dream", only=f"{principal}/{project}", dry=False)


@dream.command("stop")
@_of_a_scope
def dream_stop(*, principal: str, project: str) -> None:
    """End the dream that runs, in whichever process; the notes are then as they were."""

    async def work(core: Core) -> bool:
        return await core.night.dreams.dream.stop(await _scope(core.scopes, principal, project))

    click.echo("The dream is being ended." if _with_core(work) else "No dream runs there now.")


@dream.command("undo")
@_of_a_scope
def dream_undo(*, principal: str, project: str) -> None:
    """Take back what the last dream changed."""

    async def work(core: Core) -> str:
        scope = await _scope(core.scopes, principal, project)
        return undone(scope, await core.night.undo(scope))

    click.echo(_with_core(work))


@dream.command("diff")
@_of_a_scope
def dream_diff(*, principal: str, project: str) -> None:
    """Print what the last dream changed, as a patch."""

    async def work(core: Core) -> str:
        return await core.night.undo.diff(await _scope(core.scopes, principal, project))

    click.echo(_with_core(work), nl=False)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (UnknownJob, UnknownScope) as error:
        raise click.ClickException(str(error)) from error


def _print(rows: list[dict[str, str]], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for row in rows:
        click.echo("  ".join(value for value in row.values() if value))
    if not rows:
        click.echo("nothing")
