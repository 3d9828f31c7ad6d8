"""Where the acceptance tests play: the gateway as a process of its own, the platforms and the model in the test's."""

import itertools
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx

from adapters.serving import serving
from adapters.standins.slack import SlackStandin
from adapters.standins.telegram import Chat, Person, TelegramStandin
from gateway.llm.standin.answers import Answer
from gateway.llm.standin.request import Conversation
from gateway.llm.standin.rules import answer_by_rules
from gateway.llm.standin.server import ModelStandin
from gateway.outbox import MAYBE_TWICE
from tests.acceptance.gateway_process import PATIENCE, GatewayProcess
from tests.acceptance.wire import Hold, Moment, Tapped, Wire

_ROOT = Path(__file__).parents[2]
_OURS = ("REVERIE_", "TELEGRAM_", "SLACK_", "ANTHROPIC_", "DATABASE_URL")
_MARKER = re.compile(r"\bq\d+q\b")


class Place(Protocol):
    """A conversation, as the person sees it."""

    def say(self, text: str) -> str:
        """Write to the bot; returns the message's id."""

    def heard(self) -> list[str]:
        """Return what the bot has posted here and is visible now, in order."""


@dataclass(frozen=True, kw_only=True)
class TelegramPlace:
    """A private chat or a group."""

    standin: TelegramStandin
    chat: Chat
    person: Person

    def say(self, text: str) -> str:
        mention = "" if self.chat.person else f"@{self.standin.bot.username} "
        return str(self.standin.say(self.chat, self.person, mention + text))

    def heard(self) -> list[str]:
        return [shown.text for shown in self.standin.messages(self.chat) if shown.from_bot]


@dataclass(frozen=True, kw_only=True)
class SlackPlace:
    """A thread in a channel, or direct messages."""

    standin: SlackStandin
    channel: str
    person: str
    thread: str | None = None

    def say(self, text: str) -> str:
        mention = f"<@{self.standin.workspace.bot.id}> " if self.thread else ""
        return self.standin.say(self.channel, self.person, mention + text, thread_ts=self.thread)

    def heard(self) -> list[str]:
        shown = self.standin.messages(self.channel, self.thread)
        return [each.text + ("<streaming>" if each.streaming else "") for each in shown if each.bot_id]


def long_text(marker: str) -> str:
    """Return an answer of about 9 000 characters, with a table and a fence, each line of which names itself."""
    rows = [f"| {marker} | row {n} |" for n in range(1, 9)]
    code = [f'print("{marker} code {n}")' for n in range(1, 41)]
    lines = [f"{marker} line {n}: {'so it goes on and on, ' * 6}" for n in range(1, 61)]
    table = ["| who | what |", "| --- | --- |", *rows]
    fence = "\n".join(["```python", *code, "```"])
    return "\n\n".join([*lines[:20], "\n".join(table), *lines[20:40], fence, *lines[40:], _end(marker)])


def _end(marker: str) -> str:
    return f"This is the end of {marker}."


def answer(body: Mapping[str, Any]) -> Answer:
    """Answer a question with its own marker, so that answers can be told apart; the rest by the usual rules."""
    prompt = Conversation.of(body).prompt
    markers = _MARKER.findall(prompt)
    if body.get("output_config") or "memory extraction" in prompt.casefold() or not markers:
        return answer_by_rules(body)
    marker = markers[-1]
    if "long" in prompt:
        return Answer(text=long_text(marker))
    if "slowly" in prompt:
        return Answer(text=slow_text(marker), delay=0.9, chunk_delay=0.1)
    return Answer(text=plain_text(marker))


def plain_text(marker: str) -> str:
    """Return the answer to an ordinary question."""
    return f"Answer to {marker}."


def slow_text(marker: str) -> str:
    """Return the answer that takes some seconds to be written."""
    return f"Answer to {marker}:" + "".join(f" {marker} word {n}," for n in range(1, 51)) + " end."


class World:
    """Both platforms, the model, the gateway, and what was asked so far."""

    def __init__(self, home: Path, **environ: str) -> None:
        self.home = home
        self.telegram, self.model = TelegramStandin(), ModelStandin(rules=answer)
        self.slack = SlackStandin(retry_delays=(0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0))
        self.slack.person(id="UANN", name="ann", real_name="Ann")
        self.wires = {"telegram": Wire(), "slack": Wire(), "model": Wire()}
        self.telegram.app.add_middleware(Tapped, wire=self.wires["telegram"])
        self.slack.app.add_middleware(Tapped, wire=self.wires["slack"])
        self.model.app.add_middleware(Tapped, wire=self.wires["model"])
        self.asked: list[tuple[Place, str]] = []
        self._numbers = itertools.count(1)
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OURS)},
            "PYTHONPATH": str(_ROOT),
            "REVERIE_HOME": str(home),
            "REVERIE_MANAGED_DIR": str(home / "managed"),
            "REVERIE_HTTP": "127.0.0.1:0",
            "REVERIE_ACCESS__PRIVATE": "open",
            "REVERIE_ACCESS__SHARED": "open",
            "REVERIE_ACCESS__OWNERS": "telegram:42,slack:T1/UANN",
            "REVERIE_MODEL__RETRIES": "0",
            "REVERIE_MEMORY__RECALL_DEADLINE": str(PATIENCE),
            "REVERIE_SCHEDULER__START_DELAY": "3600",
            "TELEGRAM_BOT_TOKEN": self.telegram.token,
            "SLACK_BOT_TOKEN": "xoxb-stand-in",
            "SLACK_APP_TOKEN": "xapp-stand-in",
        } | environ
        self.gateway = GatewayProcess(self._environ, log=home.with_suffix(".log"))

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve the stand-ins; the gateway is gone when this is left."""
        async with AsyncExitStack() as stack:
            urls = {
                "TELEGRAM_API_URL": await stack.enter_async_context(serving(self.telegram.app)),
                "SLACK_API_URL": await stack.enter_async_context(serving(self.slack.app)) + "/api/",
                "ANTHROPIC_BASE_URL": await stack.enter_async_context(serving(self.model.app)),
            }
            self.gateway.environ = {name: value for name, value in (urls | self._environ).items() if value}
            stack.push_async_callback(self.gateway.end)
            yield

    # -- who talks where; each call opens a new conversation

    def private(self) -> TelegramPlace:
        """Open a private chat in Telegram."""
        person = self.telegram.person(1000 + next(self._numbers), first_name="Ann")
        return TelegramPlace(standin=self.telegram, chat=self.telegram.private(person), person=person)

    def group(self) -> TelegramPlace:
        """Open a Telegram group."""
        person = self.telegram.person(1000 + next(self._numbers), first_name="Ann")
        chat = self.telegram.group(-next(self._numbers), title="Garden")
        return TelegramPlace(standin=self.telegram, chat=chat, person=person)

    def thread(self) -> SlackPlace:
        """Open a thread in a Slack channel of its own."""
        channel = self.slack.channel(id=f"C{next(self._numbers)}", name="garden", members=["UANN"])
        root = self.slack.say(channel, "UANN", "Let us talk here.")
        return SlackPlace(standin=self.slack, channel=channel.id, person="UANN", thread=root)

    def dm(self) -> SlackPlace:
        """Open direct messages in Slack."""
        person = self.slack.person(id=f"U{next(self._numbers)}", name="ben")
        return SlackPlace(standin=self.slack, channel=self.slack.dm(person).id, person=person.id)

    def ask(self, place: Place, how: str = "please") -> str:
        """Ask something and return the marker that the answer will carry."""
        marker = f"q{next(self._numbers)}q"
        if "long" not in how:  # an answer in several parts is not for `faults`
            self.asked.append((place, marker))
        place.say(f"{marker} {how}")
        return marker

    # -- waiting and judging

    async def answered(self, place: Place, *markers: str, within: float = PATIENCE) -> None:
        """Wait until all these questions have a finished answer."""

        async def all_there() -> bool:
            return all(any(_ended(said, marker) for said in place.heard()) for marker in markers)

        await self.gateway.until(all_there, f"no answer to {markers}; heard {place.heard()}", within=within)

    async def wait(self, holds: Callable[[], object], otherwise: str, *, within: float = PATIENCE) -> None:
        """Wait until something is so."""

        async def so() -> bool:
            return bool(holds())

        await self.gateway.until(so, otherwise, within=within)

    async def wait_for_faults(self, parts: set[str], *, within: float) -> None:
        """Wait until `/readyz` names exactly these parts."""

        async def named() -> bool:
            async with httpx.AsyncClient(trust_env=False) as client:
                return set((await client.get(f"{self.gateway.url}/readyz")).json()["faults"]) == parts

        await self.gateway.until(named, f"/readyz does not name {parts}", within=within)

    def faults(self, asked: Iterable[tuple[Place, str]] | None = None, *, repeats: int = 1) -> list[str]:
        """Compare what was asked with all that is visible: the promises of the durable path, one line per breach.

        `repeats` is how many labelled repeats an answer may have where the platform can't be looked at.
        """
        found, pairs = list[str](), list(asked or self.asked)
        for place, marker in pairs:
            said = [post for post in place.heard() if marker in post]
            plain = [post for post in said if MAYBE_TWICE not in post]
            allowed = repeats if isinstance(place, TelegramPlace) else 0
            found += [f"{marker} is not answered"] * (not said)
            found += [f"{marker} is answered {len(plain)} times: {plain}"] * (len(plain) > 1)
            found += [f"{marker} is repeated: {said}"] * (len(said) - len(plain) > allowed)
        for place in {id(place): place for place, _ in pairs}.values():
            posts = place.heard()
            first = [min((n for n, post in enumerate(posts) if m in post), default=0) for p, m in pairs if p is place]
            found += [f"not in order: {posts}"] * (first != sorted(first))
            if isinstance(place, SlackPlace):
                found += [f"left lying: {post}" for post in posts if post == "…" or "<streaming>" in post]
        return found

    def notes(self, place: TelegramPlace) -> list[Path]:
        """Return the notes about the person of a private chat."""
        found = self.home.glob(f"homes/person-telegram-{place.person.id}-*/projects/*/memory/*.md")
        return [note for note in sorted(found) if note.name != "MEMORY.md"]

    def working_on(self, *markers: str) -> bool:
        """Say whether the model is being asked each of these now."""
        open_now = [request.raw.decode() for request in self.model.requests if request.outcome == "open"]
        return all(any(marker in raw for raw in open_now) for marker in markers)

    async def extracted(self, place: TelegramPlace) -> None:
        """Wait until the extraction of what was said here has ended: the second look finds nothing new."""
        marker = self.ask(place)
        await self.answered(place, marker)

        def done() -> bool:
            asked = [request for request in self.model.requests if marker in request.raw.decode()]
            return any(b"memory extraction" in r.raw.lower() and r.outcome == "answered" for r in asked)

        await self.wait(done, "no second extraction")

    # -- killing

    def hold(self, server: str, path: str, moment: Moment, *, nth: int = 1, lost: bool = False) -> Hold:
        """Let the `nth` exchange of this path (piece of a body, if streaming) stop at this moment."""
        hold = Hold(path=path, moment=moment, nth=nth, lost=lost)
        self.wires[server].holds.append(hold)
        return hold

    async def kill_at(self, *holds: Hold) -> None:
        """Kill the gateway when all these moments are reached, let them go on without it, and start it again."""
        await self.wait(lambda: all(hold.reached.is_set() for hold in holds), f"not reached: {holds}")
        self.gateway.kill()
        await self.gateway.killed()
        for hold in holds:
            hold.go_on.set()
        await self.gateway.start()

    def log_since(self, position: int) -> str:
        """Return what the gateway has logged after this many bytes."""
        log = self.gateway.log
        return log.read_bytes()[position:].decode(errors="replace") if log.exists() else ""


def _ended(said: str, marker: str) -> bool:
    """Say whether this post is the end of an answer, not of a live one."""
    whole = said.removesuffix(MAYBE_TWICE).strip()
    ends = (plain_text(marker), slow_text(marker), _end(marker))
    return whole.endswith(ends)
