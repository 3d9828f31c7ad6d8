"""What only one person is to see in a channel."""

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from adapters.base import Outbound
from adapters.errors import AdapterError, Permanent, Transient
from adapters.slack.errors import posting, refusal_behind

_log = structlog.get_logger(__name__)
_NOT_A_MEMBER = frozenset({"not_in_channel", "channel_not_found", "user_not_in_channel"})
_TAKEN_FOR = 25 * 60.0  # seconds; Slack takes such answers for half an hour
_MOST_DOORS = 1000


class Asides:
    """Posts ephemeral messages: to a member of a channel that the bot is in, or where Slack says.

    Slack gives an address for answers with each slash command, which may come from a channel that the bot is not in,
    and with each press of a button, by which the message can be replaced. These are kept in memory only, as they are as
    good as passwords: after a restart the one can't be answered any more, and the other is followed by a new message.
    """

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._commands: OrderedDict[tuple[str, str], _Door] = OrderedDict()
        self._pressed: OrderedDict[tuple[str, str], _Door] = OrderedDict()

    def heard(self, command: Mapping[str, Any]) -> None:
        """Keep where a slash command can be answered."""
        user = str(command.get("user_id"))
        _keep(self._commands, (str(command.get("channel_id")), user), _Door(command, user=user))

    def pressed(self, payload: Mapping[str, Any]) -> None:
        """Keep who alone sees a message whose button was pressed, and where it can be replaced."""
        container = payload.get("container") or {}
        if container.get("is_ephemeral"):
            place = (str(container.get("channel_id")), str(container.get("message_ts")))
            _keep(self._pressed, place, _Door(payload, user=str((payload.get("user") or {}).get("id"))))

    def only_for(self, post: Outbound) -> str:
        """Return the id of who alone is to see a post: who it names, or who pressed a button that only they saw."""
        if post.only_for is not None:
            return post.only_for.user
        door = self._pressed.get((post.address.chat, post.message_id))
        return door.user if door else ""

    async def post(self, post: Outbound, *, user: str) -> str:
        """Post a part for one person; raises `Permanent` for a file, which everybody there would see."""
        if post.part.get("file"):
            raise Permanent("Slack can't show a file to one person only")
        pressed = self._pressed.get((post.address.chat, post.message_id))
        if pressed is not None and pressed.is_open:
            await self._answer(pressed, post, replace_original=True)
            return post.message_id
        try:
            return await self._ephemeral(post, user=user)
        except Permanent as error:
            command = self._commands.get((post.address.chat, user))
            if refusal_behind(error) not in _NOT_A_MEMBER or command is None or not command.is_open:
                raise
        await self._answer(command, post, replace_original=False)
        return ""

    async def tell(self, channel: str, user: str, text: str, *, thread: str = "") -> None:
        """Say a word to one person; a failure is only noted."""
        try:
            with posting():
                await self._client.chat_postEphemeral(channel=channel, user=user, text=text, thread_ts=thread or None)
        except AdapterError as error:
            _log.info("slack.not_told", error=refusal_behind(error) or type(error).__name__)

    async def _ephemeral(self, post: Outbound, *, user: str) -> str:
        with posting():
            response = await self._client.chat_postEphemeral(
                channel=post.address.chat,
                user=user,
                text=post.part["text"],
                blocks=post.part["blocks"] or None,
                thread_ts=post.address.thread or None,
            )
        return str(response.get("message_ts") or "")

    async def _answer(self, door: "_Door", post: Outbound, *, replace_original: bool) -> None:
        session = self._client.session
        body = {"text": post.part["text"], "blocks": post.part["blocks"], "replace_original": replace_original}
        if session is None:
            raise Transient("Slack is not connected")
        with posting():
            async with session.post(
                door.url,
                json={"response_type": "ephemeral", **body},
                proxy=self._client.proxy,
                allow_redirects=False,
            ) as response:
                if response.status == 429 or response.status >= 500:
                    raise Transient(f"Slack: HTTP {response.status}")
                if response.status != 200:
                    raise Permanent(f"Slack does not take an answer any more (HTTP {response.status})")


class _Door:
    """An address that takes answers for a while, and who sees them."""

    def __init__(self, payload: Mapping[str, Any], *, user: str) -> None:
        self.url, self.user = str(payload.get("response_url") or ""), user
        self._until = time.monotonic() + _TAKEN_FOR

    @property
    def is_open(self) -> bool:
        """Whether an answer is still taken."""
        return bool(self.url) and time.monotonic() < self._until


def _keep(doors: OrderedDict[tuple[str, str], _Door], place: tuple[str, str], door: _Door) -> None:
    doors[place] = door
    doors.move_to_end(place)
    while len(doors) > _MOST_DOORS:
        doors.popitem(last=False)
