"""Telegram as an `Adapter`."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import telegram
from starlette.routing import BaseRoute
from telegram.constants import ChatAction
from telegram.error import BadRequest, TelegramError

from adapters.base import (
    Account,
    Address,
    Attachment,
    Button,
    Capabilities,
    Health,
    Identity,
    Inbox,
    Live,
    Outbound,
    OutFile,
)
from adapters.errors import AdapterError, Misconfigured, Transient, Unsure
from adapters.telegram import menu
from adapters.telegram.connection import connect
from adapters.telegram.drafts import Drafts
from adapters.telegram.errors import described, translated
from adapters.telegram.files import Files
from adapters.telegram.inbound import PLATFORM
from adapters.telegram.live import DRAFT_AGAIN, DRAFT_EVERY, EDIT_EVERY, Edited, Showing
from adapters.telegram.mentions import Me
from adapters.telegram.pacing import Pacing
from adapters.telegram.parts import labelled, parts_of
from adapters.telegram.polling import Polling, drop_webhook
from adapters.telegram.posts import Posts, chat_and_thread
from adapters.telegram.reactions import Reactions
from adapters.telegram.reception import Reception
from adapters.telegram.settings import TelegramSettings
from adapters.telegram.sight import Sight
from adapters.telegram.webhook import Webhook

_PRIVACY_NOTE = (
    "privacy mode is on: in groups the bot sees only mentions, replies to it and commands, unless it is an "
    "administrator there (@BotFather: /setprivacy)"
)

_FILE_BYTES, _LOCAL_FILE_BYTES = 50_000_000, 2_000_000_000
"""What Telegram, and a local Bot API server, take of a file."""

_log = structlog.get_logger()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TelegramAdapter:
    """One bot. `menus` are Telegram's menus of commands; `commands`, (name, description) pairs, are one for all chats.

    `draft_every`, `draft_again` and `edit_every` are in seconds.
    """

    platform = PLATFORM
    capabilities = Capabilities(can_find=False)  # bots are shown no history

    def __init__(
        self,
        settings: TelegramSettings,
        *,
        commands: menu.Commands = (),
        menus: menu.Menus | None = None,
        clock: Callable[[], datetime] = _utc_now,
        jitter: Callable[[], float] = random.random,
        draft_every: float = DRAFT_EVERY,
        draft_again: float = DRAFT_AGAIN,
        edit_every: float = EDIT_EVERY,
        first_pause: float = 1.0,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._menus: menu.Menus = menus or {menu.Where.ANYWHERE: {"": commands}}
        self._draft_every, self._draft_again, self._edit_every = draft_every, draft_again, edit_every
        bot = self._bot = connect(settings)
        pacing = self._pacing = Pacing(every=edit_every)
        file_bytes = _LOCAL_FILE_BYTES if settings.local else _FILE_BYTES
        self._posts = Posts(bot, pacing, file_bytes=file_bytes)
        self._files, self._drafts, self._sight = Files(bot, settings), Drafts(bot, pacing), Sight(bot)
        self._reactions = Reactions(bot, pacing)
        self._reception: Reception | None = None
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
            private = user.can_read_all_group_messages is False
            self._reception = self._received(inbox, user)
            await self._open_source()
            await menu.show(self._bot, self._menus)
            async with self._files.open(), _background(self._source.run()):
                yield Identity(id=str(user.id), name=user.name, note=_PRIVACY_NOTE if private else "")
        finally:
            reception, self._reception = self._reception, None
            if reception is not None:
                await reception.aclose()
            await self._bot.shutdown()

    def routes(self) -> Sequence[BaseRoute]:
        """Return the webhook's route, or none when we poll."""
        return [self._source.route()] if isinstance(self._source, Webhook) else []

    def render(
        self, markdown: str, *, buttons: Sequence[Button] = (), file: OutFile | None = None
    ) -> list[dict[str, Any]]:
        """Cut Markdown into parts, each within one message."""
        return parts_of(markdown, buttons=buttons, file=file)

    def labelled(self, part: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Return the part with the label as its last line, cut to what a message still takes."""
        return labelled(part, label)

    async def deliver(self, post: Outbound) -> str:
        """Post or edit one part once, and return its message id."""
        if self._reception is None:
            raise Transient("Telegram is not connected")
        return await self._posts.deliver(post)

    async def find(self, post: Outbound, *, since: datetime) -> str | None:
        """Telegram shows bots no history: `can_find` is false, and whoever asks all the same learns nothing."""
        raise Unsure(f"Telegram has no way to look for {post.key} since {since:%H:%M}")

    async def fetch(self, attachment: Attachment, *, address: Address, into: Path, limit: int) -> None:
        """Write what came along into a new file."""
        await self._files.fetch(attachment, into=into, limit=limit)

    async def acknowledge(self, address: Address, message_id: str, *, seen: bool) -> None:
        """React to a message with eyes, or take them away."""
        await self._reactions.mark(address, message_id, seen=seen)

    async def sight(self, address: Address) -> str:
        """Say what the bot gets to see in a chat."""
        return await self._sight.of(address)

    async def working(self, address: Address, *, status: str) -> None:
        """Show "typing" for about five seconds; there are no words for it, and it clears itself.

        Nothing is needed where a draft is shown.
        """
        chat, thread = chat_and_thread(address)
        if not status or self._drafts.shown_at(address) or self._pacing.closed_for(chat):
            return
        try:
            with self._pacing.heeding(chat):
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
            draft = self._drafts.open(address, chat=chat, thread=thread, key=key)
            return Showing(draft, every=self._draft_every, renew_after=self._draft_again)
        post = Outbound(address=address, key=key, part={"text": "…"}, reply_to=reply_to)
        message_id = await self.deliver(post)
        edited = Edited(self._bot, chat=chat, message_id=message_id, pacing=self._pacing)
        return Showing(edited, every=self._edit_every)

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

    def _received(self, inbox: Inbox, user: telegram.User) -> Reception:
        me = Me(
            id=user.id,
            username=user.username or "",
            reads_everything=bool(user.can_read_all_group_messages),
            commands=menu.names(self._menus),
        )
        return Reception(inbox, me, bot=self._bot, drafts=self._drafts, sight=self._sight, clock=self._clock)

    async def _receive(self, update: telegram.Update) -> None:
        """Store what the update says; raises what the store raises."""
        if self._reception is None:
            raise Transient("Telegram is not connected")
        await self._reception.take(update)


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
