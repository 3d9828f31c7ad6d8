"""Groups of commands: their help in whole sentences, and the names that there are where one is wrong."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import click

_WHOLE_SENTENCE = 1000  # characters; click cuts summaries off at what fits beside the name


class Commands(click.Group):
    """A group whose help cuts no summary off, and whose error on a wrong name lists the right ones."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; raises `click.UsageError` that names those that there are."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            known = ", ".join(self.list_commands(ctx))
            said = f"There is no command {args[0]!r} here; there are {known}."
            raise click.UsageError(said, ctx=ctx) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are declared, which is that of their use."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each name with its summary, over several lines where it takes them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.summary(ctx, name)) for name in self.list_commands(ctx)])

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the first sentence of a command's help."""
        command = self.get_command(ctx, name)
        return command.get_short_help_str(_WHOLE_SENTENCE) if command else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a command is, `module:attribute`, and its summary, so that the help can list it unloaded."""

    at: str
    summary: str


class Loaded(Commands):
    """A group that imports a command's module when the command is chosen.

    The gateway brings the model's and the platforms' SDKs with it, which take seconds to import. Were they imported
    with the command line, `reverie --help` would pay for them, and so would every command that asks only the database.
    """

    def __init__(self, *given: Any, places: Mapping[str, Place], **options: Any) -> None:
        super().__init__(*given, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None for a name that is not in the table."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.at.partition(":")
        return cast("click.Command", getattr(importlib.import_module(module), name))

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return what the table says."""
        return self._places[name].summary
