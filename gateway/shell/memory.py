"""`reverie memory`: what is remembered, and of whom."""

import click
from anyio import to_thread

from gateway.shell.groups import Commands
from gateway.shell.principals import FORMS, in_a_project, of_a_scope, scope_named
from gateway.shell.rows import print_rows
from gateway.shell.store import Store, with_store
from memory.errors import MemoryFault
from memory.lookup import day_logs, look_up
from memory.paths import UNNAMED, readable_path
from memory.rank import Ranking

_OFFERED = 10
_FOUND = 20


@click.group(cls=Commands)
def memory() -> None:
    """Look at what is remembered."""


@memory.command("list")
@click.option("--principal", help=f"Whose notes, such as {FORMS}; without it, list the principals.")
@in_a_project
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def memory_list(*, principal: str | None, project: str, as_json: bool) -> None:
    """List principals, or the notes and day logs of one."""

    async def work(store: Store) -> list[dict[str, str]]:
        if principal is None:
            return await _principals(store)
        scope = await scope_named(store.scopes, principal, project)
        headers = await store.scanner.scan(scope)
        rows = [{"note": each.name, "type": each.type or "", "description": each.description} for each in headers]
        logs = [path.relative_to(scope.memory_dir).as_posix() for path in await to_thread.run_sync(day_logs, scope)]
        return rows + [{"note": each, "type": "log", "description": "of a day"} for each in logs]

    print_rows(with_store(work), as_json=as_json)


async def _principals(store: Store) -> list[dict[str, str]]:
    return [
        {
            "principal": scope.principal,
            "project": scope.project or UNNAMED,
            "folder": str(scope.memory_dir),
            "bound": "elsewhere by now" if left else "",
        }
        for left, scopes in enumerate((await store.scopes.known(), await store.scopes.left()))
        for scope in scopes
    ]


@memory.command("show")
@click.argument("note")
@of_a_scope
def memory_show(*, note: str, principal: str, project: str) -> None:
    """Print one note, by its file, its title or a word of them, or the log of a day, by its date."""

    async def work(store: Store) -> str:
        scope = await scope_named(store.scopes, principal, project)
        found = await look_up(scope, store.scanner, note)
        if len(found) > 1:
            names = ", ".join(path.relative_to(scope.memory_dir).as_posix() for path in found[:_OFFERED])
            raise click.ClickException(f"Several notes fit {note!r}, such as {names}: name one.")
        path = found[0] if found else readable_path(scope, note)  # which says why it may not be looked at
        return (await store.notes.read(scope, path)).text

    try:
        click.echo(with_store(work), nl=False)
    except MemoryFault as error:
        raise click.ClickException(f"{note}: {error} (`reverie memory list --principal …` names the notes)") from error


@memory.command("search")
@click.argument("query")
@of_a_scope
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def memory_search(*, query: str, principal: str, project: str, as_json: bool) -> None:
    """Find notes by the words in them, best first."""

    async def work(store: Store) -> list[dict[str, str]]:
        scope = await scope_named(store.scopes, principal, project)
        headers = await store.scanner.scan(scope)
        found = await Ranking().best(scope, headers, query, _FOUND)
        described = {each.name: each.description for each in headers}
        return [{"note": name, "score": f"{score:.3f}", "description": described[name]} for name, score in found]

    print_rows(with_store(work), as_json=as_json)
