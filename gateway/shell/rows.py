"""Rows, for people a line each and for programs as JSON."""

import json

import click


def print_rows(rows: list[dict[str, str]], *, as_json: bool) -> None:
    """Print the rows; for people without their names and without what is empty."""
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for row in rows:
        click.echo("  ".join(value for value in row.values() if value))
    if not rows:
        click.echo("nothing")
