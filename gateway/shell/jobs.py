"""`reverie jobs`: what the scheduler did last and does next, and a job run by hand."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from gateway.commands.jobs import PER_JOB, PER_PAGE, outcomes, told, would
from gateway.core import Core, utc_now
from gateway.settings import load
from gateway.shell.core import with_core, with_thinking_core
from gateway.shell.groups import Commands
from gateway.shell.principals import FORMS
from gateway.shell.rows import print_rows
from scheduler.board import JobStatus, lasted, outcome_of
from scheduler.clock import Ran
from scheduler.errors import NotReady, UnknownJob, UnknownScope
from scheduler.runs import Outcome

NAMES = (
    "close-day",
    "distil",
    "dream",
    "team-sync",
    "tidy-team",
    "end-sessions",
    "leave-teams",
    "recover-dreams",
    "forget-logs",
    "forget-runs",
    "clear-away",
)
"""The jobs that there are, for the help, which opens no database; a test compares it with the table of jobs."""
_THINKING = ("dream", "distil", "tidy-team")  # the jobs that ask the model
# Lines of their own, as click would break a name at its hyphen.
_NAMED = "\b\nJobs (`reverie jobs list` says what each does):\n" + "\n".join(f"  {name}" for name in NAMES)


@click.group(cls=Commands)
def jobs() -> None:
    """What the scheduler does."""


@jobs.command("list", epilog=_NAMED)
@click.argument("name", required=False)
@click.option("--page", default=1, type=click.IntRange(min=1), help="Of the scopes of one job.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def jobs_list(*, name: str | None, page: int, as_json: bool) -> None:
    """List the jobs, or one, with the last run of each scope: those that failed first. Needs no running gateway."""

    async def work(core: Core) -> Sequence[JobStatus]:
        board = core.night.board
        if name is None:
            return await board.overview(limit=PER_PAGE if as_json else PER_JOB)
        return [await board.of(name, limit=PER_PAGE, page=page)]

    timezone = load().timezone
    with refusing():
        statuses = with_core(work)
    if as_json:
        print_rows([row for status in statuses for row in _rows(status)], as_json=True)
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
            "outcome": outcome_of(run, now=utc_now()),
            "seconds": "" if (length := lasted(run)) is None else f"{length.total_seconds():.1f}",
            "detail": run.detail,
        }
        for run in status.last
    ]
    never = {"scope": "", "slot": "", "last": "never", "outcome": "", "seconds": "", "detail": ""}
    return [job | run for run in runs or [never]]


@jobs.command("run", epilog=_NAMED)
@click.argument("name")
@click.option(
    "--scope", "only", default="", help=f"PRINCIPAL or PRINCIPAL/PROJECT, such as {FORMS}; without it, every scope."
)
@click.option("--dry-run", "dry", is_flag=True, help="Say what the clock would run now, and why not the rest.")
def jobs_run(*, name: str, only: str, dry: bool) -> None:
    """Run one job now, whatever the time. Exit code 1 if it failed for a scope."""
    with refusing():
        if dry:
            click.echo(would(name, with_core(lambda core: core.night.clock.dry_run(name, only=only))))
        else:
            opened = with_thinking_core if name in _THINKING else with_core
            report(name, opened(lambda core: core.night.clock.run_now(name, only=only)))


def report(name: str, ran: Sequence[Ran]) -> None:
    """Say what a run by hand did, and end with code 1 if it failed for a scope."""
    for line in outcomes(name, ran):
        click.echo(line)
    if any(each.outcome is Outcome.FAILED for each in ran):
        sys.exit(1)


@contextmanager
def refusing() -> Iterator[None]:
    """Turn a job or scope that there is none of, and what keeps all jobs from running, into words with the cure."""
    try:
        yield
    except NotReady as error:
        raise click.ClickException(str(error)) from error
    except UnknownJob as error:
        raise click.ClickException(f"{error}.") from error
    except UnknownScope as error:
        cure = f"A scope is PRINCIPAL or PRINCIPAL/PROJECT, and principals look like {FORMS}"
        raise click.ClickException(f"{error}. {cure}; `reverie memory list` names them.") from error
