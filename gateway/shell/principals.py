"""Whose memory a command is about, and what it says if there is no such memory."""

from collections.abc import Callable, Sequence

import click

from gateway.errors import StartRefused
from gateway.scopes import Scopes
from memory.paths import UNNAMED
from memory.scope import Scope

FORMS = "person:telegram:42 or chat:slack:T1/C1"
"""How principals look."""
_OFFERED = 10
_WHOSE = f"Whose memory, such as {FORMS}; `reverie memory list` names them."


def of_a_scope(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name a scope."""
    principal = click.option("--principal", required=True, help=_WHOSE)
    return principal(in_a_project(command))


def in_a_project(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option that names a project."""
    said = f"Of which project; {UNNAMED} is a chat bound to none."
    return click.option("--project", default=UNNAMED, show_default=True, help=said)(command)


async def scope_named(scopes: Scopes, principal: str, project: str) -> Scope:
    """Return the scope; raises `StartRefused` that names those that there are."""
    there = (*await scopes.known(), *await scopes.left())
    for scope in there:
        if (scope.principal, scope.project or UNNAMED) == (principal, project or UNNAMED):
            return scope
    raise _unknown(there, principal, project or UNNAMED)


def _unknown(there: Sequence[Scope], principal: str, project: str) -> StartRefused:
    if projects := [scope.project or UNNAMED for scope in there if scope.principal == principal]:
        cure = " or ".join(f"--project {name}" for name in projects)
        return StartRefused(f"{principal} has no memory in project {project!r}", cure=f"Add {cure}.")
    unknown = f"There is no memory of {principal!r}"
    if not there:
        return StartRefused(f"{unknown}: nobody has talked to the bot yet", cure=f"Principals look like {FORMS}.")
    names = list(dict.fromkeys(scope.principal for scope in there))
    like = [name for name in names if principal.casefold() in name.casefold()] or names
    more = ", …" if len(like) > _OFFERED else ""
    return StartRefused(
        unknown,
        cure=f"Principals look like {FORMS}; here there are {', '.join(like[:_OFFERED])}{more}. "
        "`reverie memory list` names all, with their projects.",
    )
