"""Short lines that nobody asked for: what was saved, what the night has changed."""

import secrets
from collections.abc import Mapping

from adapters.base import Adapter, Address
from gateway.history import History
from gateway.outbox import Outbox, Post
from memory.scope import Scope


class Notices:
    """Puts notices into the outbox. Implements `memory.ports.Notice`."""

    def __init__(self, outbox: Outbox, history: History, adapters: Mapping[str, Adapter]) -> None:
        self._outbox = outbox
        self._history = history
        self._adapters = adapters

    async def __call__(self, scope: Scope, text: str) -> None:
        """Tell whoever the scope belongs to, in the conversation where they were last heard."""
        conversation = await self._history.latest_conversation(scope)
        if conversation is not None:
            await self.tell(conversation, scope.principal, text, key=f"notice:{secrets.token_hex(8)}")

    async def tell(self, conversation: str, principal: str, text: str, *, key: str) -> None:
        """Post a line to a conversation; the same key again posts nothing."""
        address = Address.parse(conversation)
        adapter = self._adapters.get(address.platform)
        if adapter is None:
            return
        parts = adapter.render(f"_{text}_" if "_" not in text else text)
        posts = [
            Post(key=f"{key}:{number}", principal=principal, address=address, part=part)
            for number, part in enumerate(parts)
        ]
        await self._outbox.send(posts)
