"""Twenty sessions on one memory directory, in two processes on one database, while a person edits and a dream runs."""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.db.engine import connect, migrate
from gateway.db.leases import DatabaseLeases
from memory.consolidation import Consolidation
from memory.dream import Dream
from memory.errors import Conflict
from memory.notes import INDEX, Notes, pointers
from memory.paths import Homes, ProjectRef, ensure
from memory.ports import Outcome, Progress, Rights, RunReport, Said
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

SESSIONS = 10
ROUNDS = 3
SETTINGS = MemorySettings(lease_wait=60, dream_min_sittings=0)
SHARED = ("shared-a.md", "shared-b.md")
WHOLE = "whole.md"
HAND = "hand.md"
PADDING = "x" * 60


def now() -> datetime:
    return datetime.now(UTC)


def scope_of(home: Path) -> Scope:
    homes = Homes(home, settings=SETTINGS)
    return homes.scope(
        principal="ann", project=ProjectRef(name="p"), member=False, shared=False, mode=Mode.AUTO, timezone="UTC"
    )


def numbered(facts: Sequence[str]) -> str:
    """Return a long note that says how many lines it has, so that half of it is told from the whole."""
    return "".join([f"{len(facts)} lines\n", *(f"{fact} {PADDING}\n" for fact in facts)])


def is_whole(text: str) -> bool:
    head, *rest = text.split("\n")
    return text.endswith("\n") and head == f"{len(rest) - 1} lines"


@dataclass(kw_only=True)
class Sessions:
    """One process: `kept` names each fact that was acknowledged and not replaced later by its own session."""

    name: str
    scope: Scope
    notes: Notes
    kept: dict[str, str] = field(default_factory=dict)

    async def session(self, number: int) -> None:
        rng = random.Random(f"{self.name}{number}")
        for turn in range(ROUNDS):
            fact = f"- {self.name}-{number}-{turn}"
            acts = [self.save, self.append, self.correct, self.rewrite, self.tidy]
            rng.shuffle(acts)
            for act in acts[:3]:
                await act(f"{fact}-{act.__name__}", rng)

    async def save(self, fact: str, _: random.Random) -> None:
        """Make a note and point to it, as an extraction does."""
        file = f"{fact[2:]}.md"
        await self.notes.write(self.scope, Path(file), f"{fact}\n", expected="")
        await self.notes.add_pointer(self.scope, self.scope.memory_dir, title=file, file=file, hook="hook")
        self.kept[fact] = file

    async def append(self, fact: str, rng: random.Random) -> None:
        file = rng.choice(SHARED)
        await self.again(lambda: self.notes.append(self.scope, Path(file), fact))
        self.kept[fact] = file

    async def correct(self, fact: str, rng: random.Random) -> None:
        """Add a fact and put a better one in its place."""
        file = rng.choice(SHARED)
        await self.again(lambda: self.notes.append(self.scope, Path(file), f"{fact}-wrong"))
        await self.again(
            lambda: self.notes.edit(self.scope, Path(file), f"{fact}-wrong\n", f"{fact}-right\n", expected=None)
        )
        self.kept[f"{fact}-right"] = file

    async def rewrite(self, fact: str, _: random.Random) -> None:
        """Read a whole note and write it with one fact more; whoever was late reads again."""

        async def once() -> None:
            note = await self.notes.read(self.scope, Path(WHOLE))
            facts = [line.removesuffix(f" {PADDING}") for line in note.text.splitlines()[1:]]
            await self.notes.write(self.scope, Path(WHOLE), numbered([*facts, fact]), expected=note.hash)

        await self.again(once)
        self.kept[fact] = WHOLE

    async def tidy(self, fact: str, _: random.Random) -> None:
        """Rewrite the index as it was a moment ago, with other words."""
        note = await self.notes.read(self.scope, Path(INDEX))
        await asyncio.sleep(0.05)
        await self.again(
            lambda: self.notes.write(self.scope, Path(INDEX), note.text.replace("hook", "word"), expected=note.hash)
        )

    async def again(self, act: Callable[[], Awaitable[object]]) -> None:
        """Do what a model does that lost a race: the same again with what is there now."""
        while True:
            try:
                await act()
            except Conflict:
                continue
            return

    async def dream(self, leases: DatabaseLeases) -> str:
        """Dream for real; its run tidies the index and adds to a note, with its hands full of what it read before."""

        async def run(scope: Scope, *, rights: Rights, progress: Progress | None = None, **_: Any) -> RunReport:
            index = await self.notes.read(self.scope, Path(INDEX))
            await asyncio.sleep(0.3)
            await self.again(
                lambda: self.notes.write(
                    self.scope, Path(INDEX), index.text.replace("hook", "dreamt"), expected=index.hash
                )
            )
            await self.again(lambda: self.notes.append(self.scope, Path(SHARED[0]), f"- {self.name}-dreamt"))
            written = tuple(rights.write[0] / name for name in (INDEX, SHARED[0]))
            if progress:
                await progress(turn=1, text="Tidied.", tools=2, written=written)
            return RunReport(outcome=Outcome.COMPLETED, written=written, text="Tidied.", turns=1)

        async def notice(scope: Scope, text: str) -> None:
            return None

        consolidation = Consolidation(run, notes=self.notes, leases=leases, notice=notice, settings=SETTINGS, clock=now)
        dream = Dream(consolidation, history=Silent(), settings=SETTINGS, clock=now)
        return (await dream(self.scope, forced=True)).ending.value


class Silent:
    """A history in which nothing was said."""

    async def sittings_since(self, scope: Scope, since: datetime, *, enough: int) -> Sequence[datetime]:
        return []

    async def said_between(self, scope: Scope, start: datetime, end: datetime) -> Sequence[Said]:
        return []


async def one_process(home: Path, name: str) -> dict[str, Any]:
    """Play ten sessions and a dream; return what has to be there afterwards."""
    database = connect(f"sqlite+aiosqlite:///{home}/reverie.db")
    leases = DatabaseLeases(database, now)
    played = Sessions(name=name, scope=scope_of(home / "homes"), notes=Notes(leases=leases, settings=SETTINGS))
    try:
        async with asyncio.TaskGroup() as group:
            dreamt = group.create_task(played.dream(leases))
            for number in range(SESSIONS):
                group.create_task(played.session(number))
    finally:
        await database.engine.dispose()
    return {"kept": played.kept, "dreamt": dreamt.result()}


async def start(home: Path, name: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.acceptance.test_concurrency",
        str(home),
        name,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def add_by_hand(memory: Path, number: int) -> str:
    """Add a line to a note that is this person's own, and one to a note in which everybody writes."""
    line = f"- hand-{number}"
    for name in (HAND, SHARED[number % 2]):
        with (memory / name).open("a") as stream:
            stream.write(f"{line}\n")
    return line


def half_written(memory: Path) -> list[str]:
    """Read every file as anybody might at this moment, and return what is no whole file."""
    wrong = []
    for path in memory.glob("*.md"):
        text = path.read_text()
        if not text.endswith("\n") or (path.name == WHOLE and not is_whole(text)):
            wrong.append(f"{path.name}: {text[-80:]!r}")
    return wrong


@pytest.mark.timeout(180)
async def test_no_write_is_lost_and_index_and_notes_agree(tmp_path: Path) -> None:
    database = connect(f"sqlite+aiosqlite:///{tmp_path}/reverie.db")
    await migrate(database)
    await database.engine.dispose()
    scope = scope_of(tmp_path / "homes")
    ensure(scope)
    memory = scope.memory_dir
    for name in (*SHARED, HAND):
        (memory / name).write_text("- begun\n")
    (memory / WHOLE).write_text(numbered([]))
    (memory / INDEX).write_text("".join(f"- [{name}]({name}) — hook\n" for name in (*SHARED, HAND, WHOLE)))

    processes = [await start(tmp_path, name) for name in ("one", "two")]
    ends = asyncio.gather(*(process.communicate() for process in processes))
    by_hand, wrong, reads = [], list[str](), 0
    deadline = time.monotonic() + 120
    try:
        while not ends.done() and time.monotonic() < deadline:
            wrong += await asyncio.to_thread(half_written, memory)
            by_hand.append(await asyncio.to_thread(add_by_hand, memory, reads))
            reads += 1
            await asyncio.sleep(0.05)
        outputs = await asyncio.wait_for(ends, 20)
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert [process.returncode for process in processes] == [0, 0], [error.decode() for _, error in outputs]
    results = [json.loads(out) for out, _ in outputs]

    assert wrong == []
    assert by_hand
    texts = {path.name: path.read_text() for path in memory.glob("*.md")}
    lost = [fact for each in results for fact, file in each["kept"].items() if fact not in texts.get(file, "")]
    assert lost == []
    assert sum(len(each["kept"]) for each in results) > 2 * SESSIONS * ROUNDS
    assert texts[HAND].splitlines()[1:] == by_hand
    assert not any("-wrong\n" in text for text in texts.values())
    assert "changed" in [each["dreamt"] for each in results]
    targets = [target for _, target in pointers(texts[INDEX])]
    assert sorted(targets) == sorted(name for name in texts if name != INDEX)
    assert [path.name for path in memory.iterdir() if path.name.endswith(".tmp")] == []


def main() -> None:
    """Be one of the processes."""
    home, name = sys.argv[1:]
    print(json.dumps(asyncio.run(one_process(Path(home), name))))


if __name__ == "__main__":
    main()
