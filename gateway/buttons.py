"""Buttons: what a button says when it is pressed is kept here, so that the platform holds a number and nothing else."""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.base import Account, Address, Button, Inbound, Pressed
from gateway.db.engine import Database
from gateway.db.models import ButtonRow
from memory.ports import Clock

_KEPT_SECONDS = 24 * 3600.0
"""How long a button can be pressed."""
_NAME = 18  # characters of a name in a label: a phone shows about thirty of a row


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A button to be offered: pressing it is as if `says` had been written. What may be forgotten is not named in it.

    For it stays for a day, whatever becomes of what it is about.
    """

    label: str
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """Buttons for a post that is yet to be stored; they work once `keep` was called in the transaction that stores it.

    `accounts` are who may press them, and only in this conversation. `alone`: nobody else sees the post.
    """

    principal: str
    conversation: Address
    accounts: Collection[Account]
    choices: Sequence[Choice]
    buttons: Sequence[Button]
    until: float
    alone: bool = False

    def keep(self, session: AsyncSession) -> None:
        """Store what the buttons say, inside the caller's transaction."""
        accounts = " ".join(sorted(map(str, self.accounts)))
        session.add_all(
            ButtonRow(
                token=button.token,
                principal=self.principal,
                conversation=str(self.conversation),
                account=accounts,
                says=choice.says,
                alone=self.alone,
                until=self.until,
            )
            for choice, button in zip(self.choices, self.buttons, strict=True)
        )


class Buttons:
    """The buttons that are on offer."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def offer(
        self,
        choices: Sequence[Choice],
        *,
        principal: str,
        conversation: Address,
        accounts: Collection[Account],
        alone: bool = False,
    ) -> Offer:
        """Return buttons for a post in a conversation, which these accounts may press; see `Offer.keep`."""
        return Offer(
            principal=principal,
            conversation=conversation,
            accounts=accounts,
            choices=choices,
            buttons=[Button(label=each.label, token=secrets.token_urlsafe(16)) for each in choices],
            until=self._clock().timestamp() + _KEPT_SECONDS,
            alone=alone,
        )

    async def said(self, pressed: Pressed) -> Inbound | None:
        """Return the message that a press stands for; None if it is not on offer there, to them, any more.

        Whether they may speak there is judged as for any other message.
        """
        async with self._database.read() as session:
            row = await session.get(ButtonRow, pressed.token)
        now = self._clock()
        if row is None or row.until < now.timestamp() or row.conversation != str(pressed.address):
            return None
        if str(pressed.account) not in row.account.split():
            return None
        return _inbound(pressed, row, now=now)

    async def prune(self) -> int:
        """Drop what can't be pressed any more; returns how many."""
        gone = delete(ButtonRow).where(ButtonRow.until < self._clock().timestamp()).returning(ButtonRow.token)
        async with self._database.write() as session:
            return len((await session.scalars(gone)).all())


def short(name: str) -> str:
    """Return a note's name as it stands in a label."""
    bare = name.rpartition("/")[2].removesuffix(".md")
    return bare if len(bare) <= _NAME else f"{bare[: _NAME - 1]}…"


def _inbound(pressed: Pressed, row: ButtonRow, *, now: datetime) -> Inbound:
    return Inbound(
        external_id=pressed.external_id,
        address=pressed.address,
        kind=pressed.kind,
        account=pressed.account,
        name=pressed.name,
        text=row.says,
        message_id=pressed.message_id,
        sent_at=now,
        addressed=True,
        language=pressed.language,
        only_for_sender=row.alone,
        in_place_of=pressed.message_id,
    )
