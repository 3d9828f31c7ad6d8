"""What an update does: it is understood, and stored by the inbox before this returns."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
import telegram
from telegram import CallbackQuery
from telegram.error import TelegramError

from adapters.base import Address, Amended, Inbound, Inbox
from adapters.telegram.drafts import Drafts
from adapters.telegram.errors import described
from adapters.telegram.inbound import (
    Reach,
    stop_said,
    to_amended,
    to_inbound,
    to_move,
    to_pressed,
    to_reach,
    to_stopped,
)
from adapters.telegram.mentions import Me
from adapters.telegram.sight import Sight

_MOST_TOAST = 100  # characters of the word that a pressed button brings; the API takes 200 units, a character has two
_ANSWERED_WITHIN = 2.0  # seconds that are left for it when the adapter is closed
_SOON = timedelta(seconds=2)
_MOST_OPEN = 200

_log = structlog.get_logger(__name__)

_Understood = Inbound | Amended | Reach | tuple[Address, Address] | None


class Reception:
    """Where updates go while the adapter is served, and for whom they are meant."""

    def __init__(
        self,
        inbox: Inbox,
        me: Me,
        *,
        bot: telegram.Bot,
        drafts: Drafts,
        sight: Sight,
        clock: Callable[[], datetime],
    ) -> None:
        self._inbox, self._me, self._bot = inbox, me, bot
        self._drafts, self._sight, self._clock = drafts, sight, clock
        self._parts = _Parts()
        self._answers: set[asyncio.Task[None]] = set()

    async def take(self, update: telegram.Update) -> None:
        """Store what the update says; raises what the store raises, and then it is to come again."""
        if (query := update.callback_query) is not None:
            await self._press(query)
            return
        match self._understood(update):
            case Inbound() as inbound:
                await self._inbox.put(inbound)
            case Amended() as amended:
                await self._inbox.amended(amended)
            case Reach(chat=chat, reachable=reachable):
                self._sight.forget(chat)
                await self._inbox.reachable(chat, reachable)
            case (old, new):
                await self._inbox.moved(old, new)

    async def aclose(self) -> None:
        """Let the last buttons be answered, for a moment."""
        if self._answers:
            _, late = await asyncio.wait(self._answers, timeout=_ANSWERED_WITHIN)
            for task in late:
                task.cancel()

    def _understood(self, update: telegram.Update) -> _Understood:
        """Return what happened; None for what concerns nobody, or is odd."""
        try:
            if (changed := update.my_chat_member) is not None:
                _log.info(
                    "telegram_membership_changed", chat=changed.chat.id, status=str(changed.new_chat_member.status)
                )
                return to_reach(changed)
            if (moved := to_move(update)) is not None:
                return moved
            if (inbound := to_inbound(update, self._me)) is not None:
                return self._parts.known(inbound)
            return to_amended(update, self._me) or self._stop(update)
        except Exception as error:  # noqa: BLE001 - the edge: one odd update must not hold up all others
            _log.error("telegram_update_not_understood", update_id=update.update_id, error=type(error).__name__)
            return None

    def _stop(self, update: telegram.Update) -> Inbound | None:
        """Return the /stop that a draft's button stands for, if that answer is still written: else it hit the next."""
        stopped = to_stopped(update)
        if stopped is None:
            return None
        address = self._drafts.stop(stopped.chat.id, stopped.draft)
        if address is None:
            _log.info("telegram_draft_stopped_late", chat=stopped.chat.id)
            return None
        return stop_said(stopped, address, update_id=update.update_id, now=self._clock())

    async def _press(self, query: CallbackQuery) -> None:
        """Hand a press on and answer it in any case: until then the button shows that it is at work."""
        try:
            pressed = to_pressed(query)
        except Exception as error:  # noqa: BLE001 - the edge, as above
            _log.error("telegram_press_not_understood", error=type(error).__name__)
            pressed = None
        word = await self._inbox.pressed(pressed) if pressed is not None else ""
        task = asyncio.create_task(self._answer(query.id, word))  # it must not hold up what came after it
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, query_id: str, word: str) -> None:
        try:
            await self._bot.answer_callback_query(query_id, text=word[:_MOST_TOAST] or None)
        except TelegramError as error:  # pressed long ago, while we were away: nobody waits for it any more
            _log.info("telegram_press_not_answered", error=described(error))


class _Parts:
    """Knows what is a part of something that was for the bot: in a group only the first part names it.

    It is asked of what comes within seconds, so it is kept in memory alone; albums by their number, texts that an app
    has cut by their sender.
    """

    def __init__(self) -> None:
        self._open: dict[str, datetime] = {}

    def known(self, inbound: Inbound) -> Inbound:
        """Return the message, addressed if an earlier part of it was."""
        key = inbound.batch or f"{inbound.address} {inbound.account}"
        since = self._open.get(key)
        continues = since is not None and (inbound.batch or inbound.sent_at - since <= _SOON)
        if continues and not inbound.addressed and not inbound.for_another:
            inbound = replace(inbound, addressed=True)
        self._open.pop(key, None)
        if inbound.addressed and inbound.more_may_follow:
            self._open[key] = inbound.sent_at
            while len(self._open) > _MOST_OPEN:
                self._open.pop(next(iter(self._open)))
        return inbound
