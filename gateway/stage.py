"""The demo's stage: the stand-ins in this process, the gateway in one of its own, and a narrator."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import text

from adapters.serving import serving
from adapters.standins.slack import SlackStandin
from adapters.standins.telegram import Chat, TelegramStandin
from gateway.db.engine import connect
from gateway.errors import GatewayError
from gateway.llm.standin.server import ModelStandin

_DAY = 86_400
_PATIENCE = 30.0  # seconds that a scene waits for what it tells
_LOG = "gateway.log"
_ANN, _GROUP, _CHANNEL, _ANN_IN_SLACK, _BOT_IN_SLACK = 42, -1001, "C1", "UANN", "UBOT"
_SLACK_TOKEN, _SLACK_APP_TOKEN = "xoxb-demo", "xapp-demo"
_SETTINGS = f"""\
# Written by `reverie demo`.
[access]
owners = ["telegram:{_ANN}", "slack:T1/{_ANN_IN_SLACK}"]

[projects.garden]
repo = "demo/garden"
chats = ["slack:T1/{_CHANNEL}", "telegram:{_GROUP}"]

[chats."telegram:{_GROUP}"]
mode = "log"

[scheduler]
start_delay = 3600      # so that the jobs run when the story asks for them
"""
# Columns that hold Unix seconds of what has happened.
_TIMES = {"sessions": ("started_at", "last_at", "told_notes_at"), "messages": ("at",)}


class DemoFailed(GatewayError):
    """What the story was about to tell did not come true."""


@dataclass(kw_only=True)
class Stage:
    """Who acts, where, and who tells of it."""

    root: Path
    say: Callable[[str], None]
    telegram: TelegramStandin
    slack: SlackStandin
    model: ModelStandin
    private: Chat
    group: Chat
    environ: dict[str, str]
    process: asyncio.subprocess.Process | None = None
    heard: set[str] = field(default_factory=set)

    def title(self, words: str) -> None:
        """Begin a scene."""
        self.say(f"\n{words}\n{'─' * len(words)}")

    def show(self, contents: str) -> None:
        """Show a file."""
        self.say("\n".join(f"    │ {line}" for line in contents.strip().splitlines()) + "\n")

    def check(self, holds: object, otherwise: str) -> None:
        """Raise `DemoFailed` unless the story is true."""
        if not holds:
            raise DemoFailed(otherwise)

    # -- chatting

    async def tell_telegram(self, words: str) -> str:
        """Ann writes in her private chat; returns the answer."""
        return await self._tell_telegram(self.private, words)

    async def tell_group(self, words: str) -> str:
        """Ann writes in the Telegram group; returns the answer."""
        return await self._tell_telegram(self.group, words)

    async def _tell_telegram(self, chat: Chat, words: str) -> str:
        self.say(f"  Ann  {words}")
        message = self.telegram.say(chat, self.telegram.person(_ANN), words)
        return await self.hear_telegram(lambda _: True, chat=chat, reply_to=message)

    async def hear_telegram(
        self, fits: Callable[[str], bool], *, chat: Chat | None = None, reply_to: int | None = None
    ) -> str:
        """Wait for a new message of the bot."""
        place = chat or self.private

        def found() -> tuple[str, str] | None:
            for shown in self.telegram.messages(place):
                key = f"{place.id}:{shown.message_id}"
                right = shown.from_bot and (reply_to is None or shown.reply_to == reply_to) and fits(shown.text)
                if right and key not in self.heard:
                    return key, shown.text
            return None

        return await self._hear(found)

    def post_slack(self, words: str, *, mention: bool = True, thread: str | None = None) -> str:
        """Ann posts in the channel; returns the message's ts."""
        self.say(f"  Ann  {'@Reverie ' if mention else ''}{words}")
        spoken = f"<@{_BOT_IN_SLACK}> {words}" if mention else words
        return self.slack.say(_CHANNEL, _ANN_IN_SLACK, spoken, thread_ts=thread)

    async def tell_slack(self, words: str, *, thread: str | None = None) -> str:
        """Ann mentions the bot in the channel; returns the answer."""
        ts = self.post_slack(words, thread=thread)
        return await self.hear_slack(lambda _: True, thread=thread or ts)

    async def hear_slack(self, fits: Callable[[str], bool], *, thread: str) -> str:
        """Wait for a new, finished message of the bot in a thread."""

        def found() -> tuple[str, str] | None:
            for shown in self.slack.messages(_CHANNEL, thread):
                if shown.bot_id and not shown.streaming and fits(shown.text) and shown.ts not in self.heard:
                    return shown.ts, shown.text
            return None

        return await self._hear(found)

    async def _hear(self, found: Callable[[], tuple[str, str] | None]) -> str:
        deadline = time.monotonic() + _PATIENCE
        while (answer := found()) is None:
            self.check(time.monotonic() < deadline, "no answer came in time")
            self.check(self.process and self.process.returncode is None, "the gateway has ended")
            await asyncio.sleep(0.05)
        key, words = answer
        self.heard.add(key)
        self.say("  Bot  " + words.strip().replace("\n", "\n       "))
        return words

    # -- the gateway's process

    async def start_gateway(self) -> None:
        """Start `reverie run` and wait until both platforms are connected."""
        greeted = self._greetings()
        with (self.root / _LOG).open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway", "run", env=self.environ, stdout=log, stderr=log
            )

        def ready() -> bool:
            return self._greetings() > greeted and bool(self.slack.deliveries.sockets)

        deadline = time.monotonic() + _PATIENCE
        while not ready():
            self.check(time.monotonic() < deadline and self.process.returncode is None, "the gateway did not start")
            await asyncio.sleep(0.05)
        self.say(f"  (`reverie run` is process {self.process.pid}.)")

    def _greetings(self) -> int:
        return sum(call.method == "getMe" for call in self.telegram.calls)

    async def stop_gateway(self) -> None:
        """Ask the gateway to end, and wait for it."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            await self.process.wait()

    async def reverie(self, *arguments: str) -> None:
        """Run a command of the shell and show it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gateway",
            *arguments,
            env=self.environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        told = "\n".join(f"    {line}" for line in output.decode().strip().splitlines())
        self.check(process.returncode == 0, f"`reverie {' '.join(arguments)}` ended with {process.returncode}:\n{told}")
        self.say(f"  $ reverie {' '.join(arguments)}\n{told}\n")

    async def turn_back(self, *, days: int) -> None:
        """Make what is stored older, files and rows alike; the gateway must not be running."""
        for file in self.root.glob("homes/**/*.md"):
            moment = file.stat().st_mtime - days * _DAY
            os.utime(file, (moment, moment))
        database = connect(f"sqlite+aiosqlite:///{self.root / 'reverie.db'}")
        async with database.write() as session:
            for table, columns in _TIMES.items():
                older = ", ".join(f"{column} = {column} - {days * _DAY}" for column in columns)
                await session.execute(text(f"UPDATE {table} SET {older}"))  # noqa: S608  # names of ours, above
        await database.engine.dispose()

    # -- what is on disk, and what the model was asked

    def memory_of(self, principal: str) -> Path:
        """Return the memory directory of the principal whose folder's name begins so."""
        return next(self.root.glob(f"homes/{principal}*/projects/*/memory"))

    def show_notes(self, principal: str) -> None:
        """Show every note of a principal, with its path below the home."""
        for note in sorted(self.memory_of(principal).rglob("*.md")):
            self.say(f"    {note.relative_to(self.root)}")
            self.show(note.read_text())

    async def wait_for_file(self, principal: str, pattern: str) -> Path:
        """Wait until a file of this pattern is in a principal's memory directory."""
        deadline = time.monotonic() + _PATIENCE
        while not (found := list(self.root.glob(f"homes/{principal}*/projects/*/memory/{pattern}"))):
            self.check(time.monotonic() < deadline, f"no file {pattern} came")
            await asyncio.sleep(0.05)
        return found[0]

    def recalled(self, word: str) -> str:
        """Return the injected block with this word in the newest chat request."""
        for request in reversed(self.model.requests):
            last = request.body["messages"][-1]["content"] if request.body.get("messages") else []
            for block in last if isinstance(last, list) else []:
                said = str(block.get("text", ""))
                if said.startswith("<reminder>") and word in said:
                    return said
        raise DemoFailed("no note was recalled")


@asynccontextmanager
async def stage_in(root: Path, say: Callable[[str], None]) -> AsyncIterator[Stage]:
    """Set the stage in a folder, with the gateway running, and clear everything away when left."""
    async with AsyncExitStack() as stack:
        telegram, slack, model = TelegramStandin(), _slack(), ModelStandin()
        private, group = _people(telegram, slack)
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OURS)},
            "REVERIE_HOME": str(root),
            "REVERIE_HTTP": "127.0.0.1:0",
            "TELEGRAM_BOT_TOKEN": telegram.token,
            "TELEGRAM_API_URL": await stack.enter_async_context(serving(telegram.app)),
            "SLACK_BOT_TOKEN": _SLACK_TOKEN,
            "SLACK_APP_TOKEN": _SLACK_APP_TOKEN,
            "SLACK_API_URL": await stack.enter_async_context(serving(slack.app)) + "/api/",
            "ANTHROPIC_BASE_URL": await stack.enter_async_context(serving(model.app)),
        }
        root.joinpath("reverie.toml").write_text(_SETTINGS, encoding="utf-8")
        stage = Stage(
            root=root,
            say=say,
            telegram=telegram,
            slack=slack,
            model=model,
            private=private,
            group=group,
            environ=environ,
        )
        say("Reverie's demo. Telegram, Slack and the model are stand-ins on this machine, spoken to over real HTTP")
        say("with the real SDKs; the model follows rules and does not think. Everything else is the product itself.")
        stack.push_async_callback(stage.stop_gateway)
        await stage.start_gateway()
        yield stage


_OURS = ("REVERIE_", "TELEGRAM_", "SLACK_", "ANTHROPIC_", "DATABASE_URL")


def _slack() -> SlackStandin:
    return SlackStandin(bot_token=_SLACK_TOKEN, app_token=_SLACK_APP_TOKEN, team_id="T1", bot_user_id=_BOT_IN_SLACK)


def _people(telegram: TelegramStandin, slack: SlackStandin) -> tuple[Chat, Chat]:
    ann = telegram.person(_ANN, first_name="Ann", username="ann", language_code="en")
    private, group = telegram.private(ann), telegram.group(_GROUP, title="Garden")
    slack.person(id=_ANN_IN_SLACK, name="ann", real_name="Ann")
    slack.channel(id=_CHANNEL, name="garden", members=[_ANN_IN_SLACK])
    return private, group


def log_tail(root: Path) -> str:
    """Return the last lines of the gateway's own log."""
    log = root / _LOG
    return "\n".join(log.read_text(errors="replace").splitlines()[-25:]) if log.exists() else "(there is none)"
