"""`reverie dream`: put a memory in order now, see how that stands, and take it back."""

from collections.abc import Sequence

import click

from gateway.commands.dream import described, spent, undone, why_none
from gateway.core import Core
from gateway.shell.core import with_core, with_thinking_core
from gateway.shell.groups import Commands
from gateway.shell.jobs import refusing, report
from gateway.shell.principals import of_a_scope, scope_named
from memory.paths import UNNAMED
from scheduler.clock import Ran


@click.group(cls=Commands)
def dream() -> None:
    """Put a memory in order, and take that back."""


@dream.command("status")
@of_a_scope
def dream_status(*, principal: str, project: str) -> None:
    """Say when it was last done, what the next one waits for, and how far the one is that runs."""

    async def work(core: Core) -> str:
        scope, night = await scope_named(core.scopes, principal, project), core.night
        tokens = spent(await night.budget.tonight(), night.budget.per_night)
        return f"{described(scope, await night.dreams.dream.standing(scope))}\n{tokens}"

    click.echo(with_core(work))


@dream.command("run")
@of_a_scope
def dream_run(*, principal: str, project: str) -> None:
    """Dream now, whatever the time. Exit code 1 if it failed."""

    async def work(core: Core) -> Sequence[Ran]:
        scope = await scope_named(core.scopes, principal, project)
        return await core.night.clock.run_now("dream", only=f"{scope.principal}/{scope.project or UNNAMED}")

    with refusing():
        report("dream", with_thinking_core(work))


@dream.command("stop")
@of_a_scope
def dream_stop(*, principal: str, project: str) -> None:
    """End the dream that runs, in whichever process; the notes are then as they were."""

    async def work(core: Core) -> bool:
        return await core.night.dreams.dream.stop(await scope_named(core.scopes, principal, project))

    click.echo("The dream is being ended." if with_core(work) else "No dream runs there now.")


@dream.command("undo")
@of_a_scope
def dream_undo(*, principal: str, project: str) -> None:
    """Take back what the last dream changed."""

    async def work(core: Core) -> str:
        scope = await scope_named(core.scopes, principal, project)
        return undone(scope, await core.night.undo(scope))

    click.echo(with_core(work))


@dream.command("diff")
@of_a_scope
def dream_diff(*, principal: str, project: str) -> None:
    """Print what the last dream changed, as a patch; if there is nothing to show, say why instead."""

    async def work(core: Core) -> tuple[str, str]:
        scope = await scope_named(core.scopes, principal, project)
        patch = await core.night.undo.diff(scope)
        return patch, "" if patch else why_none(scope, await core.night.dreams.dream.standing(scope))

    patch, why = with_core(work)
    click.echo(patch, nl=False)
    if why:
        click.echo(f"Nothing to show: {why}. `reverie dream run` begins one now.", err=True)
