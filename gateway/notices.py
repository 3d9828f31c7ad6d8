"""Short lines that nobody asked for: what was saved, what the night has changed."""

import secrets

from adapters.base import Address
from gateway.history import History
from gateway.outbox import Outbox, Post, unrendered
from memory.counts import counted
from memory.scope import Scope

__all__ = ["Notices", "counted"]


class Notices:
    """Puts notices into the outbox. Implements `memory.ports.Notice`."""

    def __init__(self, outbox: Outbox, history: History) -> None:
        self._outbox = outbox
        self._history = history

    async def __call__(self, scope: Scope, text: str) -> None:
        """Tell whoever the scope belongs to, in the conversation where they were last heard."""
        conversation = await self._history.latest_conversation(scope)
        if conversation is not None:
            await self.tell(conversation, scope.principal, text, key=f"notice:{secrets.token_hex(8)}")

    async def tell(self, conversation: str, principal: str, text: str, *, key: str) -> None:
        """Post a line to a conversation; the same key again posts nothing.

        Also from a process that has no adapter: whoever delivers it renders it.
        """
        await self.say(conversation, principal, f"_{text}_" if "_" not in text else text, key=key)

    async def say(self, conversation: str, principal: str, text: str, *, key: str) -> None:
        """Do the same with Markdown of any length, as it stands."""
        part = unrendered(text)
        await self._outbox.send([Post(key=key, principal=principal, address=Address.parse(conversation), part=part)])
