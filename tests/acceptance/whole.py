"""The whole gateway inside the test's process: the platform is a double, the model is the stand-in over HTTP."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import pytest
from sqlalchemy import func, select

from adapters.base import Account, Address, ChatKind, Inbound
from adapters.doubles import RecordingAdapter
from adapters.serving import serving
from gateway import app
from gateway.core import Core, open_core
from gateway.db.models import DueRow, InboxRow, OutboxRow, SessionRow
from gateway.llm.standin.answers import Answer, ToolCall
from gateway.llm.standin.request import Conversation
from gateway.llm.standin.server import ModelStandin, Recorded, Scripted
from gateway.running import Gateway
from gateway.settings import load
from memory.paths import ensure
from memory.scope import Scope
from tests.waiting import HANGS

T = TypeVar("T")
PATIENCE = HANGS
_LAST_MINUTES = timedelta(minutes=5)
_numbers = itertools.count(1)


class Clock:
    """The real time, and what a test has added to it.

    For one that is made in the last minutes of a day the next has begun: no test runs into midnight by chance.
    """

    def __init__(self) -> None:
        now = datetime.now(UTC)
        self.ahead = _LAST_MINUTES if (now + _LAST_MINUTES).date() != now.date() else timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def forward(self, **time: float) -> None:
        self.ahead += timedelta(**time)


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """Somebody who writes, and where."""

    user: str
    chat: str
    name: str = "Ann"
    thread: str = ""

    @property
    def shared(self) -> bool:
        return self.chat.startswith("-")

    @property
    def principal(self) -> str:
        return f"chat:telegram:{self.chat}" if self.shared else f"person:telegram:{self.user}"

    def says(self, words: str) -> Inbound:
        number = next(_numbers)
        return Inbound(
            external_id=f"u{number}",
            address=Address(platform="telegram", chat=self.chat, thread=self.thread),
            kind=ChatKind.SHARED if self.shared else ChatKind.PRIVATE,
            account=Account(platform="telegram", user=self.user),
            name=self.name,
            text=words,
            message_id=f"m{number}",
            sent_at=datetime.now(UTC),
            addressed=True,
        )


ANN = Speaker(user="42", chat="42")
BOB = Speaker(user="43", chat="43", name="Bob")


@dataclass(kw_only=True)
class Whole:
    """A gateway that runs, and what is seen of it."""

    core: Core
    gateway: Gateway
    model: ModelStandin
    adapter: RecordingAdapter
    url: str = ""
    announced: list[str] = field(default_factory=list)

    async def tell(self, who: Speaker, words: str) -> str:
        """Say something and return the answer to it."""
        inbound = who.says(words)
        await self.gateway.intake.put(inbound)

        async def answer() -> str | None:
            parts = [shown.text for shown in self.adapter.shown.values() if shown.reply_to == inbound.message_id]
            return "".join(parts) or None

        return await until(answer, f"no answer to {words!r}")

    async def settled(self) -> None:
        """Wait until nothing is left that could be done now."""

        async def done() -> bool:
            now = self.core.clock().timestamp()
            async with self.core.database.read() as session:
                waiting = [
                    await session.scalar(select(func.count()).select_from(row).where(*which))
                    for row, which in (
                        (DueRow, (DueRow.not_before <= now,)),
                        (InboxRow, (InboxRow.state.in_(("pending", "claimed")), InboxRow.not_before <= now)),
                        (OutboxRow, (OutboxRow.state.in_(("pending", "sending")), OutboxRow.not_before <= now)),
                    )
                ]
            # A run tells what it saved after its row is gone.
            return not any(waiting) and not self.gateway.extractions._under_way

        await until(done, "the gateway did not come to rest")

    async def scope(self, who: Speaker) -> Scope:
        """Return whose memory a speaker reaches where they write, with its directories made."""
        scope = await self.core.scopes.of(Address(platform="telegram", chat=who.chat), who.principal)
        ensure(scope)
        return scope

    async def remember(self, who: Speaker, words: str, *, name: str = "canary", team: bool = False) -> Path:
        """Put a note and its index line where a speaker's memory is."""
        scope = await self.scope(who)
        folder = scope.team_dir if team else scope.memory_dir
        assert folder is not None
        (folder / f"{name}.md").write_text(note(words))
        (folder / "MEMORY.md").write_text(f"- [{name}]({name}.md): {words}\n")
        return folder / f"{name}.md"

    def then(self, *answers: Scripted) -> None:
        """Script what the chat requests get, in order; side queries and forks go by the rules."""
        for answer in answers:
            self.model.script(answer, when=is_chat)

    def then_fork(self, *answers: Scripted) -> None:
        """Script what the requests of extraction runs get, in order."""
        for answer in answers:
            self.model.script(answer, when=is_fork)

    @property
    def chats(self) -> list[Recorded]:
        return [request for request in self.model.requests if is_chat(request.body)]

    @property
    def forks(self) -> list[Recorded]:
        return [request for request in self.model.requests if is_fork(request.body)]

    @property
    def recalls(self) -> list[Recorded]:
        return [request for request in self.model.requests if is_recall(request.body)]

    async def cursor(self) -> int:
        """Return how far the newest session is extracted."""
        newest = select(SessionRow.extracted_to).order_by(SessionRow.id.desc()).limit(1)
        async with self.core.database.read() as session:
            return await session.scalar(newest) or 0


def note(words: str) -> str:
    return f"---\nname: note\ndescription: {words}\ntype: project\n---\n\n{words}\n"


def calls(*tools: tuple[str, Mapping[str, Any]]) -> Answer:
    """Return an answer that asks for these tools."""
    return Answer(tools=[ToolCall(name=name, input=dict(given)) for name, given in tools])


def is_recall(body: dict[str, Any]) -> bool:
    return bool((body.get("output_config") or {}).get("format"))


def is_fork(body: dict[str, Any]) -> bool:
    return not is_recall(body) and "This is a memory extraction run" in Conversation.of(body).prompt


def is_chat(body: dict[str, Any]) -> bool:
    system = Conversation.of(body).system
    return not is_recall(body) and not is_fork(body) and "You are Reverie" in system


def bare(part: Any) -> str:
    """Return a part of a request as JSON, in the order of its bytes, without the marks of the cache."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(inner) for name, inner in value.items() if name != "cache_control"}
        return [without(inner) for inner in value] if isinstance(value, list) else value

    return json.dumps(without(part), ensure_ascii=False)


def extends(later: Recorded, earlier: Recorded) -> bool:
    """Whether a request begins with the very bytes of an earlier one: tools, system and every message."""
    same = all(bare(json.loads(later.raw)[part]) == bare(json.loads(earlier.raw)[part]) for part in ("tools", "system"))
    before, after = json.loads(earlier.raw)["messages"], json.loads(later.raw)["messages"]
    return same and len(after) > len(before) and bare(after[: len(before)]) == bare(before)


async def until(found: Callable[[], Awaitable[T | None]], otherwise: str, *, within: float = PATIENCE) -> T:
    """Wait until a coroutine function returns something true, and return it."""
    try:
        async with asyncio.timeout(within):
            while not (result := await found()):  # noqa: ASYNC110  (what is waited for has no event)
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(otherwise) from None
    return result


def _environ(home: Path, toml: str, more: Mapping[str, str]) -> dict[str, str]:
    home.mkdir(parents=True, exist_ok=True)
    (home / "reverie.toml").write_text('[access]\nprivate = "open"\nshared = "open"\n' + toml)
    ours = {"REVERIE_HOME": str(home), "REVERIE_MANAGED_DIR": str(home / "none"), "REVERIE_HTTP": "127.0.0.1:0"}
    if "start_delay" not in toml:
        ours["REVERIE_SCHEDULER__START_DELAY"] = "3600"
    if "recall_deadline" not in toml:
        ours["REVERIE_MEMORY__RECALL_DEADLINE"] = str(PATIENCE)
    return ours | dict(more)


@asynccontextmanager
async def whole(
    home: Path,
    toml: str = "",
    *,
    bare_mode: bool = False,
    clock: Clock | None = None,
    model: ModelStandin | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Whole]:
    """Run a gateway on a home; everybody may talk to it. The same home again is the same gateway, restarted.

    Unless its settings say otherwise, no job is fired but by the test, however long that takes, and recall gets all the
    time it wants: how fast it is, is for tests/bench to say.
    """
    environ = _environ(home, toml, environ)
    adapter, standin = RecordingAdapter(live_stays=False), model or ModelStandin()
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("gateway.consumer._IDLE_SECONDS", 0.02)
        patch.setattr("gateway.extraction._LOOK_SECONDS", 0.02)
        patch.setattr("memory.recall.READING_SECONDS", PATIENCE)
        settings = load(environ)
        settings = settings.model_copy(update={"model": settings.model.model_copy(update={"retries": 0})})
        url = await stack.enter_async_context(serving(standin.app))
        adapters = {"telegram": adapter}
        opened = open_core(
            settings,
            adapters=adapters,
            model_url=url,
            bare=bare_mode,
            environ=environ,
            clock=clock or Clock(),
        )
        core = await stack.enter_async_context(opened)
        running = Whole(core=core, gateway=app.assemble(core, adapters), model=standin, adapter=adapter)
        stop = asyncio.Event()
        task = asyncio.create_task(running.gateway.run(stop, announce=running.announced.append))

        async def ready() -> bool:
            return task.done() or adapter.inbox is not None

        await until(ready, "the gateway did not start")
        running.url = next(line.split()[2].strip(",") for line in running.announced if line.startswith("HTTP"))
        try:
            yield running
        finally:
            stop.set()
            await asyncio.wait_for(task, PATIENCE)
