"""Telegram as an `Adapter`."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
import telegram
from starlette.routing import BaseRoute
from telegram.constants import ChatAction
from telegram.error import BadRequest, TelegramError

from adapters.base import Account, Address, Capabilities, Health, Identity, Inbound, Inbox, Live, Outbound
from adapters.errors import AdapterError, Misconfigured, Transient, Unsure
from adapters.live import LiveText
from adapters.telegram.connection import connect
from adapters.telegram.errors import described, translated
from adapters.telegram.inbound import PLATFORM, Me, to_inbound, to_move
from adapters.telegram.live import DRAFT_EVERY, EDIT_EVERY, LAST_WORD_WITHIN, Draft, Edited
from adapters.telegram.polling import Polling, drop_webhook
from adapters.telegram.posts import Posts, chat_and_thread
from adapters.telegram.settings import TelegramSettings
from adapters.telegram.webhook import Webhook
from adapters.text.telegram import HARD_UNITS, render, utf16_units

_PRIVACY_NOTE = (
    "privacy mode is on: in groups the bot sees only mentions, replies to it and commands, unless it is an "
    "administrator there (@BotFather: /setprivacy)"
)

_MENU = 50  # the API says 100, and refuses far fewer when their descriptions are long

_log = structlog.get_logger()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TelegramAdapter:
    """One bot. `commands` are (name, description) pairs for Telegram's menu."""

    platform = PLATFORM
    capabilities = Capabilities(can_find=False)  # bots are shown no history

    def __init__(
        self,
        settings: TelegramSettings,
        *,
        commands: Sequence[tuple[str, str]] = (),
        clock: Callable[[], datetime] = _utc_now,
        jitter: Callable[[], float] = random.random,
        draft_every: float = DRAFT_EVERY,
        edit_every: float = EDIT_EVERY,
        first_pause: float = 1.0,
    ) -> None:
        self._settings, self._commands = settings, tuple(commands)
        self._draft_every, self._edit_every = draft_every, edit_every
        self._bot = connect(settings)
        self._posts = Posts(self._bot)
        self._reception: _Reception | None = None
        self._source: Polling | Webhook = (
            Webhook(
                self._bot,
                self._receive,
                url=settings.webhook_url,
                secret=settings.webhook_secret.get_secret_value(),
                clock=clock,
            )
            if settings.webhook_url and settings.webhook_secret
            else Polling(self._bot, self._receive, clock=clock, jitter=jitter, first_pause=first_pause)
        )

    @contextlib.asynccontextmanager
    async def serve(self, inbox: Inbox) -> AsyncIterator[Identity]:
        """Check the token, then receive messages until left.

        Raises `Misconfigured` for a token or webhook that Telegram refuses, and `Transient` if Telegram can't
        be reached now: enter again then. Polling takes a webhook away that is set; what waits for
        it is not lost.
        """
        try:
            user = await self._greet()
            commands = frozenset(name.casefold() for name, _ in self._commands)
            private = user.can_read_all_group_messages is False
            me = Me(
                id=user.id,
                username=user.username or "",
                reads_everything=bool(user.can_read_all_group_messages),
                commands=commands,
            )
            self._reception = _Reception(inbox, me)
            await self._open_source()
            await self._show_commands()
            async with _background(self._source.run()):
                yield Identity(id=str(user.id), name=user.name, note=_PRIVACY_NOTE if private else "")
        finally:
            self._reception = None
            await self._bot.shutdown()

    def routes(self) -> Sequence[BaseRoute]:
        """Return the webhook's route, or none when we poll."""
        return [self._source.route()] if isinstance(self._source, Webhook) else []

    def render(self, markdown: str) -> list[dict[str, Any]]:
        """Cut Markdown into parts of `text` and `entities`, each within one message."""
        return [{"text": part.text, "entities": list(part.entities)} for part in render(markdown)]

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Return the part with the label as its last line, cut to what a message still takes."""
        room = HARD_UNITS - utf16_units(f"{part['text']}\n")
        return {**part, "text": f"{part['text']}\n{label[: room // 2]}"}  # a character has at most two units

    async def deliver(self, post: Outbound) -> str:
        """Post or edit one part once, and return its message id."""
        if self._reception is None:
            raise Transient("Telegram is not connected")
        return await self._posts.deliver(post)

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Telegram shows bots no history: `can_find` is false, and whoever asks all the same learns nothing."""
        raise Unsure(f"Telegram has no way to look for {post.key} since {since:%H:%M}")

    async def working(self, address: Address, *, status: str) -> None:
        """Show "typing" for about five seconds; there are no words for it, and it clears itself."""
        if not status:
            return
        chat, thread = chat_and_thread(address)
        try:
            await self._bot.send_chat_action(chat, ChatAction.TYPING, message_thread_id=thread)
        except TelegramError as error:
            _log.info("telegram_typing_failed", address=str(address), error=described(error))

    def live_stays(self, address: Address) -> bool:
        """Groups, whose ids are negative, have no drafts: there a message is edited, and stays."""
        return address.chat.startswith("-")

    async def open_live(self, address: Address, *, key: str, reply_to: str, recipient: Account) -> Live:
        """Begin to show an answer: a draft in a private chat, in a group a message that has been posted."""
        chat, thread = chat_and_thread(address)
        if not self.live_stays(address):
            draft = Draft(self._bot, chat=chat, thread=thread, key=key)
            return LiveText(draft, every=self._draft_every, last_word_within=LAST_WORD_WITHIN)
        post = Outbound(address=address, key=key, part={"text": "…"}, reply_to=reply_to)
        edited = Edited(self._bot, chat=chat, message_id=await self.deliver(post))
        return LiveText(edited, every=self._edit_every, last_word_within=LAST_WORD_WITHIN)

    def health(self) -> Health:
        """Say whether messages can arrive."""
        if self._reception is None:
            return Health(ok=False, detail="not connected")
        return self._source.health()

    async def _greet(self) -> telegram.User:
        """Connect and learn who the bot is; whoever serves tries again."""
        try:
            await self._bot.initialize()
        except TelegramError as error:
            # without the cause, which may hold the token
            raise _said(translated(error), error, self._settings.api_url) from None
        return self._bot.bot

    async def _open_source(self) -> None:
        if isinstance(self._source, Polling):
            await drop_webhook(self._bot)
            return
        try:
            await self._source.register()
        except BadRequest as error:
            raise Misconfigured(f"Telegram refuses the webhook address: {error}; correct webhook_url") from error
        except TelegramError as error:
            raise _said(translated(error), error, self._settings.api_url) from error

    async def _show_commands(self) -> None:
        if not self._commands:
            return
        try:
            await self._bot.set_my_commands(self._commands[:_MENU])
        except TelegramError as error:
            _log.warning("telegram_commands_not_shown", error=described(error))

    async def _receive(self, update: telegram.Update) -> None:
        """Store what the update says; raises what the store raises."""
        if self._reception is None:
            raise Transient("Telegram is not connected")
        match self._reception.understood(update):
            case Inbound() as inbound:
                await self._reception.inbox.put(inbound)
            case (old, new):
                await self._reception.inbox.moved(old, new)


class _Reception:
    """Where messages go while the adapter is served, and for whom they are meant."""

    def __init__(self, inbox: Inbox, me: Me) -> None:
        self.inbox, self._me = inbox, me

    def understood(self, update: telegram.Update) -> Inbound | tuple[Address, Address] | None:
        """Return the message, or from where to where a chat has moved; None for what is neither, or odd."""
        try:
            if (changed := update.my_chat_member) is not None:
                status = str(changed.new_chat_member.status)
                _log.info("telegram_membership_changed", chat=changed.chat.id, status=status)
            return to_move(update) or to_inbound(update, self._me)
        except Exception as error:  # noqa: BLE001 - the edge: one odd message must not hold up all others
            _log.error("telegram_update_not_understood", update_id=update.update_id, error=type(error).__name__)
            return None


def _said(ours: AdapterError, error: TelegramError, api_url: str) -> AdapterError:
    """Return our error for the way in, where nothing can have been posted yet."""
    if isinstance(ours, Misconfigured):
        return ours
    wait = ours.retry_after if isinstance(ours, Transient) else None
    return Transient(f"Telegram at {api_url} can't be used now: {described(error)}", retry_after=wait)


@contextlib.asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
