"""The word under a thread that the bot is at work, where the workspace has one."""

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Address
from adapters.errors import AdapterError
from adapters.slack.errors import posting, refusal_behind

_log = structlog.get_logger(__name__)
_FOR_GOOD = frozenset(
    {"unknown_method", "method_deprecated", "missing_scope", "not_allowed_token_type", "access_denied"}
)
_WAYS = ("assistant", "agent")


class Status:
    """Shows a status in words (assistant view) or as "processing" (agent view), whichever Slack takes.

    A way that is refused for good is not tried again; when none is left, nothing is shown.
    """

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._ways = list(_WAYS)

    async def show(self, address: Address, *, status: str) -> None:
        """Show or, if `status` is empty, clear it; both views need a thread, and failures are swallowed."""
        if not address.thread:
            return
        for way in tuple(self._ways):
            try:
                with posting():
                    await self._set(way, address, status=status)
                return
            except AdapterError as error:
                refusal = refusal_behind(error)
                if refusal not in _FOR_GOOD:
                    return
                _log.info("slack.no_status", way=way, error=refusal)
                self._ways = [other for other in self._ways if other != way]

    async def _set(self, way: str, address: Address, *, status: str) -> None:
        if way == "assistant":
            await self._client.assistant_threads_setStatus(
                channel_id=address.chat, thread_ts=address.thread, status=status
            )
        else:
            await self._client.agents_sessions_setStatus(
                channel_id=address.chat, thread_ts=address.thread, status="processing" if status else "active"
            )
