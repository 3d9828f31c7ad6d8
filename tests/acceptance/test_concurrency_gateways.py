"""Two gateway processes on one database and one folder: twenty threads of one channel write to its memory at once.

Turns write, extractions do, a person edits by hand, and two dreams put the notes in order meanwhile: the first, in a
process of its own, fails and is put back, the second ends well.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, select

from gateway.db.engine import Database, connect
from gateway.db.models import DueRow, FactRow
from gateway.llm.standin.server import Given, ModelStandin
from memory.index import INDEX, pointers
from memory.provenance import fact_hash
from tests.acceptance.busy_chat import (
    FACT,
    SHARED,
    TOLD,
    TWINS,
    WHOLE,
    BusyDream,
    BusyModel,
    asks,
    is_whole,
    numbered,
)
from tests.acceptance.gateway_process import GatewayProcess
from tests.acceptance.stage import SlackPlace, World
from tests.acceptance.test_check_20 import is_dream

THREADS, TWICE = 20, 8
STEPS = 8  # of a dream, at most
BUSY = 100.0
"""Seconds that anything may take on a machine that is busy with other things."""
PEOPLE = ("UANN", "UBEN", "UCAT", "UDAN")
CHANNEL = "C1"
ALONE = "hand.md"
REPEATED = [f"- Twin {number} stands in both notes." for number in range(6)]


@dataclass(kw_only=True)
class Channel:
    """The channel with the two gateways, and what was said in it."""

    world: World
    gateways: tuple[GatewayProcess, GatewayProcess]
    model: BusyModel
    said: dict[str, str] = field(default_factory=dict)
    """Each fact, with the account of who said it."""
    half: list[str] = field(default_factory=list)
    """What was no whole note when somebody looked."""

    @property
    def memory(self) -> Path:
        return self.model.hand.memory

    async def begin(self) -> None:
        """Say hello, so that there is a memory, and fill it."""
        await self._answered(self._thread(PEOPLE[0]), "Hello.", "Noted")
        [self.model.hand.memory] = self.world.home.glob("homes/*/projects/*/memory")
        texts = {WHOLE: numbered([]), TOLD: numbered([]), SHARED: "- Begun.\n", ALONE: "- Begun.\n"}
        texts |= {TWINS[0]: "\n".join([*REPEATED[:4], ""]), TWINS[1]: "\n".join([*REPEATED[2:], ""])}
        for name, text in texts.items():
            (self.memory / name).write_text(text)
        (self.memory / INDEX).write_text("".join(f"- [{name}]({name}) — hook\n" for name in texts))

    def _thread(self, person: str) -> SlackPlace:
        root = self.world.slack.say(CHANNEL, person, "Let us talk here.")
        return SlackPlace(standin=self.world.slack, channel=CHANNEL, person=person, thread=root)

    async def _answered(self, place: SlackPlace, words: str, answer: str) -> None:
        before = len(place.heard())
        place.say(words)
        try:
            await self.world.slack.wait_for(lambda _: any(answer in said for said in place.heard()[before:]), BUSY)
        except TimeoutError:
            raise AssertionError(f"no answer to {words!r}, but {place.heard()[before:]}") from None

    async def talk(self, number: int, second: asyncio.Event) -> None:
        """Have a fact noted in a thread, and in some threads another one during the second dream."""
        person = PEOPLE[number % len(PEOPLE)]
        place = self._thread(person)
        for turn in range(2 if number < TWICE else 1):
            words, token = asks(number, turn)
            self.said[FACT.findall(words)[0]] = f"slack:T1/{person}"
            await self._answered(place, words, "Noted" if "later" in words else f"Noted {token}")
            await second.wait()

    async def edit_by_hand(self, ended: asyncio.Event) -> None:
        """Add to a note that nobody else changes, and look at all of them, again and again."""
        while not ended.is_set():
            self.model.hand.add(ALONE)
            texts = {path.name: path.read_text() for path in self.memory.glob("*.md")}
            self.half += [name for name, text in texts.items() if not text.endswith("\n")]
            self.half += [name for name in (WHOLE, TOLD) if not is_whole(texts[name])]
            await asyncio.sleep(0.05)

    def dreams(self) -> tuple[BusyDream, BusyDream]:
        """Let one dream fail and the next one end well."""
        both = BusyDream(self.model, fails=True), BusyDream(self.model, fails=False)

        async def step(body: dict[str, Any]) -> Given:
            return await next(each for each in both if not each.is_over)(body)

        for _ in range(2 * STEPS):
            self.world.model.script(step, when=is_dream)
        return both

    async def dream_apart(self) -> None:
        """Dream in a process of its own, in vain."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "dream", "run", "--principal", f"chat:slack:T1/{CHANNEL}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self.world.gateway.environ,
        )
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert (process.returncode, "no usable answer" in said.decode()) == (1, True), said.decode()

    async def dream_here(self) -> None:
        """Dream as somebody asks for it in a thread."""
        await self._answered(self._thread(PEOPLE[0]), "/dream", "Memory is in order: ")

    async def wrote(self, run: str) -> list[float]:
        """Return how often each of the gateways has written a file in runs of this kind."""
        found = []
        async with httpx.AsyncClient(trust_env=False) as client:
            for each in self.gateways:
                text = (await client.get(f"{each.url}/metrics")).text
                samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
                ours = [one for one in samples if one.name == "reverie_memory_tool_calls_total"]
                wrote = (one for one in ours if one.labels["tool"] in {"write", "append", "edit"})
                found.append(sum(one.value for one in wrote if one.labels["run"] == run))
        return found


@asynccontextmanager
async def opened(home: Path, url: str) -> AsyncIterator[Channel]:
    quiet = {"REVERIE_MEMORY__RECALL_ENABLED": "false", "REVERIE_MEMORY__NOTICES": "off"}
    world = World(home, DATABASE_URL=url, TELEGRAM_BOT_TOKEN="", **quiet)
    model = BusyModel()
    world.model = ModelStandin(rules=model)
    for person in PEOPLE:
        world.slack.person(id=person, name=person.lower(), real_name=person.title())
    world.slack.channel(id=CHANNEL, name="tools", members=PEOPLE)
    async with world.served():
        other = GatewayProcess(world.gateway.environ, log=home.with_suffix(".other.log"))
        try:
            await asyncio.gather(world.gateway.start(), other.start())
            yield Channel(world=world, gateways=(world.gateway, other), model=model)
        finally:
            await other.end()


async def extracted(database: Database) -> None:
    """Wait until no extraction is due any more."""
    async with asyncio.timeout(BUSY):
        due = 1
        while due:
            await asyncio.sleep(0.1)
            async with database.read() as session:
                due = await session.scalar(select(func.count()).select_from(DueRow)) or 0


async def sources(database: Database) -> set[tuple[str, str, str]]:
    """Return who said what, as it is on record: note, fact and account."""
    async with database.read() as session:
        rows = await session.scalars(select(FactRow))
        return {(row.note, row.fact_hash, row.account) for row in rows}


@pytest.mark.timeout(180)
async def test_two_gateways_lose_no_write_and_index_notes_and_sources_agree(tmp_path: Path, postgres_url: str) -> None:
    ended, database = asyncio.Event(), connect(postgres_url)
    async with opened(tmp_path / "home", postgres_url) as channel:
        await channel.begin()
        first, second = channel.dreams()
        async with asyncio.TaskGroup() as by_hand:
            by_hand.create_task(channel.edit_by_hand(ended))
            async with asyncio.TaskGroup() as group:
                apart = group.create_task(channel.dream_apart())
                await first.began.wait()
                for number in range(THREADS):
                    group.create_task(channel.talk(number, second.began))
                await apart
                group.create_task(channel.dream_here())
            await extracted(database)
            ended.set()
        in_turns, in_extractions = await channel.wrote("chat"), await channel.wrote("extraction")
        assert [await each.stop() for each in channel.gateways] == [0, 0]
    known = await sources(database)
    await database.engine.dispose()
    texts = {path.name: path.read_text() for path in channel.memory.glob("*.md")}
    lines = [line for name, text in texts.items() for line in text.splitlines() if name != INDEX]
    stands = Counter(found for line in lines for found in FACT.findall(line) if "description: " not in line)
    assert channel.half == []
    assert stands == Counter(channel.said.keys())
    assert channel.model.told == channel.said.keys()
    assert Counter(line for line in lines if line in channel.model.hand.lines) == Counter(channel.model.hand.lines)
    assert sorted(line for line in lines if line in REPEATED) == REPEATED
    assert TWINS[1] not in texts
    assert not any("Draft" in line for line in lines)
    assert sorted(target for _, target in pointers(texts[INDEX])) == sorted(name for name in texts if name != INDEX)
    assert (min(in_turns) > 0, sum(in_extractions) > 0) == (True, True)
    at = {found: name for name, text in texts.items() for found in FACT.findall(text)}
    assert known == {(at[each], fact_hash(each), account) for each, account in channel.said.items()}
    assert [path.name for path in channel.memory.iterdir() if path.suffix == ".tmp"] == []
