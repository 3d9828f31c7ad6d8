"""Intake: what an adapter hands over is judged, then stored; /stop goes round the line."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import structlog

from adapters.base import Adapter, Address, Inbound
from gateway.access import Access, Verdict
from gateway.errors import Closing
from gateway.inbox import Inbox
from gateway.outbox import Post

log = structlog.get_logger(__name__)


class Intake:
    """The gateway's side of `adapters.base.Inbox`.

    `stop` cancels the turn of a claim, if it runs in this process; `move` stores that a chat has a new id.
    """

    def __init__(
        self,
        inbox: Inbox,
        access: Access,
        adapters: Mapping[str, Adapter],
        stop: Callable[[str], None],
        move: Callable[[Address, Address], Awaitable[None]],
    ) -> None:
        self._inbox = inbox
        self._access = access
        self._adapters = adapters
        self._stop = stop
        self._move = move
        self._closed = False

    def close(self) -> None:
        """Take nothing more: the platforms may stay connected for what is still to be delivered."""
        self._closed = True

    async def put(self, inbound: Inbound) -> None:
        """Store the message, durably, before returning. What is not meant for the bot is not kept at all.

        Raises `Closing` after `close`.
        """
        if self._closed:
            raise Closing
        if not inbound.addressed or await self._inbox.knows(inbound):
            return
        inbound = _storable(inbound)
        verdict = await self._access.judge(inbound)
        if not verdict.allowed:
            await self._refuse(inbound, verdict)
        elif _word(inbound) == "/stop" and inbound.in_conversation:
            await self._stop_running(inbound, verdict)
        else:
            await self._inbox.add(inbound, principal=verdict.principal)

    async def moved(self, old: Address, new: Address) -> None:
        """Store that a chat goes on under another id. Raises `Closing` after `close`."""
        if self._closed:
            raise Closing
        await self._move(old, new)

    async def _refuse(self, inbound: Inbound, verdict: Verdict) -> None:
        log.info("refused", chat=str(inbound.address), account=str(inbound.account))
        kept_nothing = replace(inbound, name="", text="", chat_title="", language="", attachments=())
        await self._inbox.add(
            kept_nothing,
            principal=verdict.principal,
            state="refused",
            replies=self._posts(inbound, verdict, verdict.word),
        )

    async def _stop_running(self, inbound: Inbound, verdict: Verdict) -> None:
        def replies(running: bool) -> list[Post]:  # noqa: FBT001  # a fact handed on, not a switch
            return [] if running else self._posts(inbound, verdict, "There is nothing to stop.")

        token = await self._inbox.add_stop(inbound, principal=verdict.principal, replies=replies)
        if token is not None:
            self._stop(token)

    def _posts(self, inbound: Inbound, verdict: Verdict, word: str) -> list[Post]:
        if not word:
            return []
        adapter = self._adapters[inbound.address.platform]
        return [
            Post(
                key=f"{inbound.address.platform}:{inbound.external_id}:{number}",
                principal=verdict.principal,
                address=inbound.address,
                part=part,
                reply_to=inbound.message_id if number == 0 else "",
            )
            for number, part in enumerate(adapter.render(word))
        ]


def _storable(inbound: Inbound) -> Inbound:
    """Take out what no database keeps, so that one odd message can't come again and again and hold up the rest."""
    return replace(inbound, name=_text(inbound.name), text=_text(inbound.text), chat_title=_text(inbound.chat_title))


def _text(text: str) -> str:
    return text.replace("\0", "").encode(errors="replace").decode()


def _word(inbound: Inbound) -> str:
    words = inbound.text.split(maxsplit=1)
    return words[0].split("@")[0].lower() if words else ""
