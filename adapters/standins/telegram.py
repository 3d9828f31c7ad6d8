"""A stand-in for Telegram: the Bot API over HTTP, and people who chat, driven from Python or over HTTP.

`TelegramStandin.app` is served with `adapters.serving.serving`, which yields the bot's base URL:
`{base}/bot{token}/{method}` and `{base}/file/bot{token}/{path}`. The state lives in the object, so a bot can
be killed and started again. Nothing is de-duplicated for the bot.

Another process drives it below `/control`, JSON in and out (400 with `{"error"}` for what makes no sense):

    POST /control/say       {chat, from, text, reply_to?, thread?, title?}   -> {message_id}
    POST /control/edit      {chat, message_id, text}                         -> {}
    POST /control/press     {chat, from, message_id, data}                   -> {query_id}
    POST /control/stop      {chat, thread?}     the draft's own button       -> {}
    POST /control/fail      {method, times?, status?, description?, parameters?, after_acting?}   -> {}
    POST /control/delay     {method, seconds}                                -> {}
    GET  /control/messages?chat=ID     -> [what is visible, in order]
    GET  /control/calls?method=NAME    -> [{method, params, at, status, result}]     `method` may be left out
    GET  /control/faults               -> [{method, detail}]
    GET  /control/pending              -> [updates that the bot has not confirmed]

`chat` is an id: a positive one is the private chat of that person, a negative one a group, both made when
first named (`title` names the group). `from` is a person's id or `{id, first_name, username, language_code}`;
in a private chat it may be left out.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from starlette.applications import Starlette

from adapters.standins.telegram_chats import Chat, Messenger, Person, Shown
from adapters.standins.telegram_control import control_routes
from adapters.standins.telegram_http import DROPPED, BotApi, Call, Fault
from adapters.standins.telegram_sendings import Sendings
from adapters.standins.telegram_updates import Updates
from adapters.waiting import happens

__all__ = ["DROPPED", "Call", "Chat", "Fault", "Person", "Shown", "TelegramStandin"]

T = TypeVar("T")


class TelegramStandin(Sendings):
    """One bot's view of Telegram. All runs in the event loop that serves `app`; nothing is thread-safe.

    With `privacy` the bot receives of a group only commands, mentions, replies to it and service messages,
    unless it is an administrator there. The token's number is the bot's id. `clock` gives seconds since 1970.
    `group_limit` is how many posts and edits a group takes within a minute (the real one: about 20); a server with a
    `disk` is a local one, which names files by their path there.
    """

    def __init__(
        self,
        token: str = "4200000000:stand-in",  # noqa: S107 - opens nothing
        *,
        bot: Person | None = None,
        privacy: bool = True,
        group_limit: int | None = None,
        disk: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        bot_id = int(token.partition(":")[0])
        bot = bot or Person(id=bot_id, first_name="Reverie", username="reverie_bot", is_bot=True)
        world = Messenger(bot, clock, privacy=privacy, group_limit=group_limit, disk=disk)
        updates = Updates(clock)
        super().__init__(world, updates, changed=self._wake)
        self.token = token
        self._stirred = asyncio.Event()
        self._api = BotApi(token, world, updates, clock=clock, changed=self._wake)
        routes = [*self._api.routes(), control_routes(self, self._api)]
        self.app = Starlette(routes=routes, lifespan=self._api.lifespan)

    @property
    def calls(self) -> list[Call]:
        """Every request that was answered, in the order of the answers."""
        return self._api.calls

    @property
    def faults(self) -> list[Fault]:
        """What the real API would have swallowed in silence; empty for a bot without faults."""
        return self._api.faults

    async def wait_for(
        self,
        predicate: Callable[[], T | None],
        timeout: float = 40,  # noqa: ASYNC109 - how long a test waits
    ) -> T:
        """Wait until the predicate is true and return its value.

        It is asked after each thing that happens here, and every 50 ms in case it looks elsewhere too.
        Raises `TimeoutError`, which names the last calls, after `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                while not (found := predicate()):
                    await happens(self._stirred, within=0.05)
                return found
        except TimeoutError:
            last = ", ".join(f"{call.method} {call.status}" for call in self.calls[-8:])
            raise TimeoutError(f"not within {timeout} s; last calls: {last or 'none'}") from None

    def fail(
        self,
        method: str,
        *,
        times: int = 1,
        status: int = 429,
        description: str = "",
        parameters: Mapping[str, int] | None = None,
        after_acting: bool = False,
    ) -> None:
        """Let the next calls of a method (`*`: of any) fail, in the API's own words where none are given.

        With `after_acting` the call is carried out and its answer lost. Status 0 closes the connection
        without an answer.
        """
        self._api.fail(
            method,
            times=times,
            status=status,
            description=description,
            parameters=parameters or {},
            after_acting=after_acting,
        )

    def delay(self, method: str, seconds: float) -> None:
        """Let each call of a method wait before it is carried out, until told otherwise with 0."""
        self._api.delay(method, seconds)

    def fail_download(self, status: int) -> None:
        """Let the next download of a file fail; `DROPPED` closes its connection."""
        self._api.download_fails_with = status

    def _wake(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()
