"""A chat that goes on under another id: a Telegram group that became a supergroup is still the same group."""

import structlog
from sqlalchemy import update

from adapters.base import Address
from gateway.access import Access
from gateway.db.addresses import moved, within
from gateway.db.engine import Database
from gateway.db.models import ApprovalRow, ButtonRow
from gateway.history import History
from gateway.inbox import Inbox

log = structlog.get_logger(__name__)


class Moves:
    """Moves a chat with all that waits in it."""

    def __init__(self, database: Database, access: Access, history: History, inbox: Inbox) -> None:
        self._database = database
        self._access = access
        self._history = history
        self._inbox = inbox

    async def __call__(self, old: Address, new: Address) -> None:
        """Let the chat keep its memory, its approval and its open conversation, all in one transaction.

        The platform tells it twice and in either order; what is done already changes nothing.
        """
        async with self._database.write() as session:
            principal = await self._access.move(session, old, new)
            await self._history.move(session, old, new)
            await self._inbox.move(session, old, new, principal=principal)
            for table in (ButtonRow, ApprovalRow):  # a press comes from the chat's new place
                here = update(table).where(within(table.conversation, old))
                await session.execute(here.values(conversation=moved(table.conversation, old, new)))
        log.info("chat_moved", old=str(old), new=str(new), principal=principal)
