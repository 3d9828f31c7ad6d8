"""The mark on a person's message that it was seen."""

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from adapters.errors import AdapterError
from adapters.slack.errors import posting, refusal_behind

_log = structlog.get_logger(__name__)

SEEN = "eyes"
_NEVER = frozenset({"missing_scope", "not_allowed_token_type"})
_AS_IT_IS = frozenset({"already_reacted", "no_reaction"})


class Reactions:
    """Puts the mark and takes it away; a token that may not is asked once."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._may = True

    async def mark(self, channel: str, ts: str, *, seen: bool) -> None:
        """Mark a message as seen, or take the mark away. Raises nothing."""
        if not self._may or not ts:
            return
        try:
            with posting():
                if seen:
                    await self._client.reactions_add(channel=channel, timestamp=ts, name=SEEN)
                else:
                    await self._client.reactions_remove(channel=channel, timestamp=ts, name=SEEN)
        except AdapterError as error:
            refusal = refusal_behind(error)
            self._may = refusal not in _NEVER
            if refusal not in _AS_IT_IS:
                _log.info("slack.not_marked", error=refusal or type(error).__name__)
