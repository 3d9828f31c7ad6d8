"""`reverie access`: who may talk to the bot, and where."""

import re

import click

from adapters.base import Account, Address
from gateway.settings import Settings
from gateway.shell.groups import Commands
from gateway.shell.rows import print_rows
from gateway.shell.store import Store, with_store

_IDS = {"telegram": re.compile(r"-?[0-9]+"), "slack": re.compile(r"[A-Z][A-Z0-9]*")}
_HOW = {
    "telegram": "Telegram's ids are numbers: telegram:42 for a person, telegram:-1001234 for a group.",
    "slack": "Slack's ids are capital letters and digits: slack:T1/U1 for a person, slack:T1/C1 for a channel.",
}
_LOOKS = "A person looks like telegram:42 or slack:T1/U1, a group or channel like telegram:-1001234 or slack:T1/C1."
_ASK = "Write to the bot there, and it names it."


@click.group(cls=Commands)
def access() -> None:
    """Who may talk to the bot, and where."""


@access.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def access_list(*, as_json: bool) -> None:
    """List the people and chats that were let in, besides those in the settings."""
    known = with_store(lambda store: store.access.known())
    if as_json:
        print_rows([dict(zip(("kind", "id"), each.split(" ", 1), strict=True)) for each in known], as_json=True)
        return
    for line in known or ["nobody and nowhere yet"]:
        click.echo(line)


@access.command()
@click.argument("code")
def approve(code: str) -> None:
    """Let in the person who was given this pairing code."""
    who = with_store(lambda store: store.access.approve(code))
    if who is None:
        raise click.ClickException("No such code, or it is older than an hour. Ask them to write to the bot again.")
    click.echo(f"{who} may talk to the bot now.")


@access.command()
@click.argument("what")
def allow(what: str) -> None:
    """Allow a chat (telegram:-100…, slack:T1/C1) or a person (telegram:42, slack:T1/U1)."""
    who, where = _read(what)
    ids = _IDS.get(where.platform)
    if ids is None or not ids.fullmatch(where.chat):
        how = _HOW.get(where.platform, _LOOKS)
        raise click.ClickException(f"{what} is neither a person nor a chat. {how} {_ASK}")
    # Platforms tell people from shared chats by the id: Telegram's groups are negative, Slack's people begin with U, W.
    person = who.user.isdecimal() if who.platform == "telegram" else who.user.startswith(("U", "W"))
    if person:
        with_store(lambda store: store.access.allow_account(who, allowed=True))
    else:
        with_store(lambda store: store.access.allow_chat(where, allowed=True))
    click.echo(f"{what} is allowed now.")


@access.command()
@click.argument("what")
def revoke(what: str) -> None:
    """Take back what `allow` or `approve` gave; it counts from the next message on.

    Exit code 1 if nobody and no chat of this name was let in.
    """
    who, where = _read(what)
    revoked, still = with_store(lambda store: _revoked(store, who, where))
    if not revoked:
        raise click.ClickException(still or f"{what} was not let in. `reverie access list` names who was, and where.")
    click.echo(f"{what} is not allowed any more.")
    if still:
        click.echo(still, err=True)


async def _revoked(store: Store, who: Account, where: Address) -> tuple[bool, str]:
    """Take the right away; return whether there was one, and what lets them in all the same."""
    known = await store.access.known()
    person, chat = f"person {who}" in known, f"chat {where}" in known
    if person:
        await store.access.allow_account(who, allowed=False)
    if chat:
        await store.access.allow_chat(where, allowed=False)
    return person or chat, _let_in_by(store.settings, who, where)


def _let_in_by(settings: Settings, who: Account, where: Address) -> str:
    """Return what in the settings lets them in, with the cure; "" if nothing does."""
    for name, people in (("owners", settings.access.owners), ("members", settings.access.members)):
        if who in people:
            return f"{who} is let in by the settings: take it out of {name} in [access], or out of the environment."
    if bound := settings.project_of(where):
        return f"{where} is let in by the settings: take it out of the chats of [projects.{bound[0]}]."
    return ""


def _read(what: str) -> tuple[Account, Address]:
    try:
        return Account.parse(what), Address.parse(what)
    except ValueError as error:
        raise click.ClickException(f"{what!r} is neither a person nor a chat. {_LOOKS} {_ASK}") from error
