"""A simulated month: the real gateway on real files, driven through fake time by what people do and by its own jobs.

Nothing sleeps. What a running gateway would do by itself is done in the order of the fake time: messages are claimed
and answered, due extractions run, answers are delivered, and every job is fired as a tick fires it
(`SchedulerClock.fire`), all of them after each start, as in life.

A tick comes every `Plan.step`, which may be an hour at most, and each job has it at its own trigger's moments; days and
dreams have it every half hour at most, as the clocks of all zones are whole quarters of an hour apart and nothing of
these is late before an hour has gone by. Where the step is longer than a chore's period, the product records the ticks
between as missed, and so they are accounted for as well.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from sqlalchemy import event, select

from adapters.base import Account, Address, ChatKind, Inbound
from adapters.doubles import RecordingAdapter
from gateway import app
from gateway.core import Core, open_core
from gateway.db.models import InboxRow, OutboxRow
from gateway.running import Gateway
from gateway.settings import load
from memory.errors import LeaseLost
from memory.paths import ensure
from memory.scope import Mode, Scope
from scheduler.execution import Ran
from scheduler.slots import key_of
from tests.acceptance.month_cast import Event, Fact, Member, Plan, Told, cast, events, toml
from tests.acceptance.month_model import AT_ONCE, ScriptedModel
from tests.acceptance.month_world import FakeClock, aged_files, in_one_thread, unsynced

_SELDOMER = {"close-day": 1800.0, "distil": 1800.0, "dream": 1800.0}
"""How often a job is fired where that is less often than in life, in seconds."""
_KEPT_BY_PLATFORM = timedelta(hours=24)


class Month:
    """The simulation and what it has counted; `lived` goes through it once."""

    def __init__(self, plan: Plan, home: Path) -> None:
        self.plan = plan
        self.home = home
        self.clock = FakeClock(plan.start)
        self.told = Told(plan.seed)
        self.members = cast(plan)
        self.model = ScriptedModel(plan, self.told, self.clock)
        self.figures: Counter[str] = Counter()
        self.dream_walls: list[float] = []
        self.last_tick = plan.start
        self.first_turn: dict[str, datetime] = {}
        self.switched: dict[str, tuple[datetime, datetime]] = {}
        """By principal, when the mode was switched and the last tick before that."""
        self.faults: list[str] = []
        self.core: Core
        self._gateway: Gateway
        self._adapter = RecordingAdapter(live_stays=False)
        self._rng = random.Random(f"{plan.seed} driver")
        self._waiting: dict[str, Fact] = {}
        self._numbers = count(1)
        self._ticks = count(1)

    @asynccontextmanager
    async def lived(self) -> AsyncIterator[None]:
        """Live through it, with its downtimes, and come to rest; the gateway is up until left."""
        coming = events(self.plan, self.members, random.Random(f"{self.plan.seed} events"))
        with aged_files(self.clock), in_one_thread(), patch("gateway.llm.client.connect", self._connected):
            for began, length in [*self.plan.downtimes, (self.plan.end - self.plan.start, timedelta())]:
                until = self.plan.start + began
                async with self._up():
                    await self._live([each for each in coming if each.at < until], until)
                    coming = [each for each in coming if each.at >= until]
                self.clock.to(until + length)
                coming = [each for each in coming if self.clock.now - each.at < _KEPT_BY_PLATFORM]
            async with self._up():
                await self._rest()
                yield

    @asynccontextmanager
    async def _connected(self, *_: object, **__: object) -> AsyncIterator[Any]:
        yield self.model

    @asynccontextmanager
    async def _up(self) -> AsyncIterator[None]:
        """Start a gateway on the home as it lies there, and stop it."""
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "reverie.toml").write_text(toml(self.plan, self.members))
        environ = {"REVERIE_HOME": str(self.home), "REVERIE_MANAGED_DIR": str(self.home / "none")}
        adapters = {"telegram": self._adapter}
        async with AsyncExitStack() as stack:
            opened = open_core(load(environ), adapters=adapters, environ=MappingProxyType(environ), clock=self.clock)
            self.core = await stack.enter_async_context(opened)
            event.listen(self.core.database.engine.sync_engine, "connect", unsynced)
            await self.core.database.engine.dispose()  # the connections of its start are synced still
            self._gateway = app.assemble(self.core, adapters)
            for member in self.members:
                scope = await self.scope(member)
                ensure(scope)
                self.model.members[scope.memory_dir] = member
            yield

    async def scope(self, member: Member) -> Scope:
        """Return what a member's turn may touch now."""
        return await self.core.scopes.of(Address(platform="telegram", chat=member.chat), member.principal)

    async def _live(self, coming: Sequence[Event], until: datetime) -> None:
        for job in self.core.night.clock.jobs:  # what a start does after its short delay
            await self._fire(job.id)
        left = list(coming)
        tick = self.clock.now - (self.clock.now - self.plan.start) % self.plan.step + self.plan.step
        while tick <= until:
            while left and left[0].at < tick:
                self.clock.to(left[0].at)
                await self._happen(left.pop(0))
                await self._work()
            self.clock.to(tick)
            await self._tick(tick)
            tick += self.plan.step

    async def _tick(self, tick: datetime) -> None:
        self.last_tick = tick
        for job in self.core.night.clock.jobs:
            every = max(_SELDOMER.get(job.id, job.trigger.period.total_seconds()), self.plan.step.total_seconds())
            if tick.timestamp() % every == 0:
                await self._fire(job.id)
        await self._work()
        await self._deliver()

    async def _deliver(self) -> None:
        delivering = asyncio.create_task(self.core.outbox.deliver({"telegram": self._adapter}))
        await asyncio.sleep(0)  # it is under way, and ends when nothing is left
        self.core.outbox.close()
        await delivering

    async def _fire(self, job: str) -> None:
        began = time.perf_counter()
        ran = await self.core.night.clock.fire(job)
        self.figures[f"slots of {job}"] += len(ran)
        self.figures[f"ms of {job}"] += round(1000 * (time.perf_counter() - began))
        if job in {"dream", "distil"} and ran:
            self.dream_walls += [(time.perf_counter() - began) / len(ran)] * len(ran)
            await self._take_note(job, ran)

    async def _take_note(self, job: str, ran: Sequence[Ran]) -> None:
        """Expect what a consolidation set out to do where the product says that it has kept it, and nowhere else."""
        scopes = {scope.memory_dir: scope for scope in await self.core.scopes.active()}
        keys = {key_of(scope): memory for memory, scope in scopes.items()}
        for each in ran:
            ending = each.detail.split(" late: ")[-1].split(";")[0].split(":")[0]
            self.figures[f"{job} {each.outcome.value} {ending}"] += 1
            rewrite = self.model.rewrites.pop(keys[each.scope], None)
            if ending == "changed" and rewrite is not None:
                for mark, note in rewrite.moves.items():
                    self.told.facts[mark].note = note
                for mark in rewrite.removes:
                    self.told.facts[mark].removed = "a dream, as it was replaced"

    async def _work(self) -> None:
        """Do what a running gateway does by itself, until nothing is left that could be done now."""
        busy = True
        while busy:
            busy = False
            if (claim := await self._gateway.inbox.claim({"telegram": self._adapter})) is not None:
                await self._gateway.worker._one(claim)
                busy = True
            for session_id in await self.core.history.due():
                await self._gateway.extractions._one(session_id)
                busy = True
        await self._answered()

    async def _answered(self) -> None:
        """Expect a fact to be kept once the turn that told it is committed."""
        if not self._waiting:
            return
        rows = select(InboxRow.external_id, InboxRow.state).where(InboxRow.external_id.in_(self._waiting))
        async with self.core.database.read() as session:
            found = {row.external_id: row.state for row in (await session.execute(rows)).all()}
        for external_id, state in found.items():
            if state in {"done", "dead"}:
                fact = self._waiting.pop(external_id)
                fact.answered = state == "done"
                self.figures["turns"] += 1
                mode = (await self.scope(fact.owner)).mode
                fact.log = mode is Mode.LOG
                fact.note = "" if fact.log else fact.topic

    # -- what people do

    async def _happen(self, happening: Event) -> None:
        acts: dict[str, Callable[[Member], Any]] = {
            "turn": self._turn, "forget": self._forget, "mode": self._mode,
            "edit": self._edit, "clash": self._clash, "drop": self._drop,
        }  # fmt: skip
        await acts[happening.kind](happening.who)

    async def _say(self, who: Member, speaker: tuple[str, str], words: str) -> str:
        account, name = speaker
        number = next(self._numbers)
        self.first_turn.setdefault(who.principal, self.clock.now)
        inbound = Inbound(
            external_id=f"u{number}",
            address=Address(platform="telegram", chat=who.chat),
            kind=ChatKind.SHARED if who.shared else ChatKind.PRIVATE,
            account=Account(platform="telegram", user=account),
            name=name,
            text=words,
            message_id=f"m{number}",
            sent_at=self.clock.now,
            addressed=True,
        )
        await self._gateway.intake.put(inbound)
        return inbound.external_id

    async def _turn(self, who: Member) -> None:
        speaker = self._rng.choice(who.speakers)
        if self._rng.random() < 0.35:
            self.figures["turns"] += 1
            await self._say(who, speaker, "What do we know about this by now, all in all?")
            return
        scope = await self.scope(who)
        team = bool(who.shared and who.project and not who.log and self._rng.random() < 0.3)
        mine = [each for each in self.told.of(who) if each.account == speaker[0] and not each.replaced and each.note]
        replaces = self._rng.choice(mine).mark if mine and not team and self._rng.random() < 0.12 else ""
        fact = self.told.new(who, *speaker, self.clock.now, team=team, replaces=replaces)
        words = fact.sentence
        if scope.mode is Mode.AUTO and not team and not await self._owed() and self._rng.random() < 0.08:
            words = f"{AT_ONCE} {words}"
        self._waiting[await self._say(who, speaker, words)] = fact

    async def _owed(self) -> bool:
        return bool(await self.core.history.due())

    async def _command(self, who: Member, account: str, name: str, words: str) -> str:
        await self._say(who, (account, name), words)
        await self._work()
        await self._deliver()
        conversation = str(Address(platform="telegram", chat=who.chat))
        latest = select(OutboxRow.part).where(OutboxRow.conversation == conversation).order_by(OutboxRow.id.desc())
        async with self.core.database.read() as session:
            part = await session.scalar(latest.limit(1))
        return str(part["text"]) if part else ""

    async def _forget(self, who: Member) -> None:
        facts = [each for each in self.told.of(who) if each.note]
        if not facts:
            return
        fact = self._rng.choice(facts)
        listed = await self._command(who, fact.account, fact.speaker, f"/forget {fact.words}")
        numbers = [line.partition(".")[0] for line in listed.splitlines() if f"{fact.mark} " in line]
        reply = await self._command(who, fact.account, fact.speaker, f"/forget {' '.join(numbers)}")
        if reply.startswith("Forgotten: "):
            fact.forgotten = True
            self.figures["forgotten"] += 1
        else:
            self.faults.append(f"/forget of {fact.mark} in {fact.note} was answered: {reply!r}")

    async def _mode(self, who: Member) -> None:
        wanted = "auto" if (await self.scope(who)).mode is Mode.LOG else "log"
        reply = await self._command(who, *who.speakers[0], f"/mode {wanted}")
        self.switched[who.principal] = (self.clock.now, self.last_tick)
        self.figures["modes switched"] += 1
        if f"(`{wanted}`)" not in reply:
            self.faults.append(f"/mode {wanted} was answered: {reply!r}")

    async def _edit(self, who: Member) -> None:
        """Add a line to a note of a team's copy by hand, and mostly have it pushed at once, as the watch would."""
        scope = await self.scope(who)
        notes = _team_notes(scope)
        if notes:
            self._add(who, self._rng.choice(notes))
            if self._rng.random() < 0.7:
                await self._push(scope)

    async def _clash(self, who: Member) -> None:
        """Add lines to the same note in two copies before either has heard of the other."""
        scope = await self.scope(who)
        others = [each for each in self.members if each.project == who.project and each is not who]
        other = self._rng.choice(others)
        beside = await self.scope(other)
        both = [note for note in _team_notes(scope) if beside.team_dir and (beside.team_dir / note.name).exists()]
        if both and beside.team_dir:
            note = self._rng.choice(both)
            self._add(who, note)
            self._add(other, beside.team_dir / note.name)
            self.figures["clashes"] += 1
            await self._push(scope)

    async def _drop(self, who: Member) -> None:
        """Delete a note of a team's copy by hand, with its line in the index."""
        notes = _team_notes(await self.scope(who))
        if not notes:
            return
        note = self._rng.choice(notes)
        for fact in self.told.facts.values():
            if fact.team and fact.owner.project == who.project and Path(fact.note).name == note.name:
                fact.removed = "a note was deleted by hand"
        note.unlink()
        index = note.parent / "MEMORY.md"
        if index.exists():
            lines = index.read_text().splitlines(keepends=True)
            self._put(index, "".join(line for line in lines if f"({note.name})" not in line))
        self.figures["team notes deleted"] += 1

    def _add(self, who: Member, note: Path) -> None:
        account, name = who.speakers[0]
        fact = self.told.new(who, account, name, self.clock.now, team=True)
        fact.answered, fact.note = True, f"team/{note.name}"
        self._put(note, f"{note.read_text()}{fact.line}\n")
        self.figures["edits by hand"] += 1

    def _put(self, path: Path, text: str) -> None:
        path.write_text(text)
        os.utime(path, ns=(self._now_ns(), self._now_ns()))

    def _now_ns(self) -> int:
        return round(self.clock.now.timestamp() * 1_000_000) * 1000 + next(self._ticks)

    async def _push(self, scope: Scope) -> None:
        try:
            await self.core.night.sync.push(scope, wait=0)
        except LeaseLost:
            self.faults.append(f"a push of {scope.principal} met another exchange")

    async def _rest(self) -> None:
        """Let what waits for its next try be done, and every copy hear of the last change of every other."""
        for _ in range(24):
            self.clock.forward(300)
            await self._work()
        for _ in range(3):
            for scope in await self.core.scopes.active():
                if scope.team_dir is not None and scope.repo:
                    report = await self.core.night.sync.sync(scope)
                    if report.failure is not None:
                        self.faults.append(f"the last exchange of {scope.principal} failed: {report.failure}")


def _team_notes(scope: Scope) -> list[Path]:
    if scope.team_dir is None:
        return []
    return sorted(path for path in scope.team_dir.glob("chat*.md") if ".conflict-" not in path.name)
