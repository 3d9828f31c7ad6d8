"""One workspace that the app is installed in: our client there, and everything that goes through it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import structlog

from adapters.base import Account, Address, Inbound
from adapters.errors import AdapterError, Transient
from adapters.slack.client import web_client
from adapters.slack.errors import posting, refusal_behind
from adapters.slack.files import Files
from adapters.slack.home import home_view
from adapters.slack.identity import identify
from adapters.slack.inbound import Bot, Scene
from adapters.slack.intake import NotServingError
from adapters.slack.live import LiveDoor
from adapters.slack.lookups import Lookups
from adapters.slack.pacing import Pacing
from adapters.slack.people import look_up_channel, look_up_person
from adapters.slack.posts import Posts
from adapters.slack.reactions import Reactions
from adapters.slack.settings import Pace, SlackSettings
from adapters.slack.status import Status
from adapters.slack.views import Views

_log = structlog.get_logger(__name__)

_NOT_A_MEMBER = "I am not in this channel: Slack shows me nothing of it until somebody invites me with /invite."
_A_MEMBER = "Slack shows me what is written here, since I was invited; a message is meant for me if it mentions me."


class Workspace:
    """A client with its token, and what was learnt with it. Usable while `open` is entered."""

    def __init__(self, settings: SlackSettings, *, token: str, pace: Pace) -> None:
        self._pace = pace
        self._bot: Bot | None = None
        self.client = client = web_client(settings, token=token)
        pacing = Pacing()
        self.reactions = Reactions(client)
        self.views = Views(client, prompts=settings.prompts)
        self.status = Status(client, views=self.views, reactions=self.reactions)
        self.posts = Posts(client, bot=lambda: self.bot, pacing=pacing)
        self.live = LiveDoor(client, pace=pace, pacing=pacing)
        self.files = Files(client, api_url=settings.api_url)
        self.people = Lookups(lambda user: look_up_person(client, user))
        self.channels = Lookups(lambda channel: look_up_channel(client, channel))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Connect and learn who we are; yields a note on missing scopes. Raises as `identify` does."""
        async with AsyncExitStack() as stack:
            timeout = aiohttp.ClientTimeout(total=self._pace.answer_within, connect=self._pace.answer_within / 3)
            self.client.session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
            stack.callback(setattr, self.client, "session", None)
            self._bot, note = await identify(self.client)
            for closing in (self.people, self.channels, self.views, self.status, self.live):
                stack.push_async_callback(closing.aclose)
            yield note

    @property
    def bot(self) -> Bot:
        """Who we are there; raises `NotServingError` before that is known."""
        if self._bot is None:
            raise NotServingError
        return self._bot

    def check_connected(self) -> None:
        """Raise `Transient` unless requests can be made."""
        if self.client.session is None or self._bot is None:
            raise Transient("Slack is not connected")

    async def scene(self, users: list[str], *, channel: str = "", direct: bool = False) -> Scene:
        """Look up what an event is read with, for a limited time; what is not known by then is left out."""
        within = self._pace.name_within
        people, channels, threaded = await asyncio.gather(
            self.people.get(users, within=within),
            self.channels.get([channel] if channel and not direct else [], within=within),
            self.views.is_agent(channel, within=within) if direct else _no(),
        )
        title = channels[channel].title if channel in channels else ""
        return Scene(bot=self.bot, people=people, chat_title=title, threaded=threaded)

    def heard(self, inbound: Inbound) -> None:
        """Note what a message tells of its conversation; to be called before it can be answered."""
        if inbound.addressed:
            self.status.heard(inbound.address, inbound.message_id)
            self.views.heard(inbound)

    async def sight(self, address: Address) -> str:
        """Say what the bot gets to see in a chat; empty for direct messages, and if Slack does not tell."""
        if address.chat.startswith("D"):
            return ""
        found = await self.channels.get([address.chat], within=self._pace.name_within)
        if address.chat not in found:
            return ""
        return _A_MEMBER if found[address.chat].joined else _NOT_A_MEMBER

    async def show_home(self, account: Account, page: Callable[[Account], Awaitable[str]]) -> None:
        """Publish a person's home tab, which nobody else can open; a failure is only noted."""
        markdown = await page(account)
        if not markdown.strip():
            return
        try:
            with posting():
                await self.client.views_publish(user_id=account.user, view=home_view(markdown))
        except AdapterError as error:
            _log.info("slack.home_not_shown", error=refusal_behind(error) or type(error).__name__)


async def _no() -> bool:
    return False
