"""Intake: what an adapter hands over is judged, then stored; /stop and approvals go round the line."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import structlog

from adapters.base import Account, Adapter, Address, Amended, Inbound, Pressed
from gateway.access import Access, Verdict
from gateway.approvals import Approvals
from gateway.buttons import Buttons
from gateway.errors import Closing
from gateway.inbox import Inbox
from gateway.outbox import Post, posts_for
from gateway.settings import ChatSettings

log = structlog.get_logger(__name__)

_OVER = "This button can't be pressed any more, or is not for you."


class Intake:
    """The gateway's side of `adapters.base.Inbox`.

    `stop` cancels the turn of a claim, if it runs in this process, and `lose` drops it so that it begins anew; `move`
    stores that a chat has a new id. `taken` hears of each message that was stored to be answered; it returns at once.
    """

    def __init__(
        self,
        *,
        inbox: Inbox,
        access: Access,
        adapters: Mapping[str, Adapter],
        chats: Mapping[str, ChatSettings],
        stop: Callable[[str], None],
        lose: Callable[[str], None],
        taken: Callable[[Inbound], None],
        move: Callable[[Address, Address], Awaitable[None]],
        buttons: Buttons,
        approvals: Approvals,
        page: Callable[[Account], Awaitable[str]],
    ) -> None:
        self._inbox = inbox
        self._access = access
        self._adapters = adapters
        self._chats = chats
        self._stop = stop
        self._lose = lose
        self._taken = taken
        self._move = move
        self._buttons = buttons
        self._approvals = approvals
        self._page = page
        self._closed = False

    def close(self) -> None:
        """Take nothing more: the platforms may stay connected for what is still to be delivered."""
        self._closed = True

    async def put(self, inbound: Inbound) -> None:
        """Store the message, durably, before returning. What is not meant for the bot is not kept at all.

        Raises `Closing` after `close`.
        """
        await self._put(inbound)

    async def _put(self, inbound: Inbound) -> str:
        """Do so, and return what is said to whoever pressed a button, and to nobody else."""
        if self._closed:
            raise Closing
        if not await self._is_meant(inbound) or await self._inbox.knows(inbound):
            return ""
        inbound = _storable(inbound)
        verdict = await self._access.judge(inbound)
        if not verdict.allowed:
            if inbound.addressed:  # who did not speak to us is not told that we are off
                await self._refuse(inbound, verdict)
        elif _word(inbound) == "/stop" and inbound.in_conversation:
            await self._stop_running(inbound, verdict)
        elif (answered := await self._approvals.answer(inbound)) is not None:
            aside = bool(inbound.in_place_of) and not answered.decided  # what was decided stays to be read
            replies = [] if aside else self._posts(inbound, verdict, answered.says)
            await self._inbox.add(inbound, principal=verdict.principal, state="done", replies=replies)
            return answered.says if aside else ""
        elif await self._inbox.add(inbound, principal=verdict.principal):
            self._taken(inbound)
        return ""

    async def _is_meant(self, inbound: Inbound) -> bool:
        """Whether a message is for the bot: it says so, or its chat's settings or its thread make it so."""
        if inbound.addressed:
            return True
        if inbound.for_another:
            return False
        chat = self._chats.get(str(inbound.address.whole_chat))
        if chat is not None and chat.hears(inbound.text):
            return True
        return inbound.thread_reply and await self._inbox.takes_part(inbound.address)

    async def moved(self, old: Address, new: Address) -> None:
        """Store that a chat goes on under another id. Raises `Closing` after `close`."""
        if self._closed:
            raise Closing
        await self._move(old, new)

    async def amended(self, amended: Amended) -> None:
        """Let a message that waits, or is being answered, say what it says now. Raises `Closing` after `close`."""
        if self._closed:
            raise Closing
        text = None if amended.text is None else _text(amended.text)
        token = await self._inbox.amend(replace(amended, text=text))
        if token is not None:
            (self._stop if text is None else self._lose)(token)

    async def pressed(self, pressed: Pressed) -> str:
        """Store what a pressed button says, like any message. Raises `Closing` after `close`."""
        if self._closed:
            raise Closing
        inbound = await self._buttons.said(pressed)
        if inbound is None:
            return _OVER
        return await self._put(inbound)

    async def reachable(self, chat: Address, reachable: bool) -> None:  # noqa: FBT001  # a fact, not a switch
        """Store whether the bot can post in a chat. Raises `Closing` after `close`."""
        if self._closed:
            raise Closing
        await self._access.reach(chat, reachable=reachable)

    async def home(self, account: Account) -> str:
        """Return what a person may see on their own page."""
        return await self._page(account)

    async def _refuse(self, inbound: Inbound, verdict: Verdict) -> None:
        log.info("refused", chat=str(inbound.address), account=str(inbound.account))
        await self._inbox.add(
            inbound,
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
        return posts_for(
            inbound,
            self._adapters[inbound.address.platform].render(word),
            key=f"{inbound.address.platform}:{inbound.external_id}",
            principal=verdict.principal,
            reply_to=inbound.message_id,
            message_id=inbound.in_place_of,
        )


def _storable(inbound: Inbound) -> Inbound:
    """Take out what no database keeps, so that one odd message can't come again and again and hold up the rest."""
    return replace(inbound, name=_text(inbound.name), text=_text(inbound.text), chat_title=_text(inbound.chat_title))


def _text(text: str) -> str:
    return text.replace("\0", "").encode(errors="replace").decode()


def _word(inbound: Inbound) -> str:
    words = inbound.own_words.split(maxsplit=1)
    return words[0].split("@")[0].lower() if words else ""
