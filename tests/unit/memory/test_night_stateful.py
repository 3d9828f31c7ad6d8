"""Extractions, dreams, hands, erasures, undo on one memory: nothing that came in is lost, nothing erased is there."""

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memory import snapshot as snapshots
from memory.citations import Citations
from memory.consolidation import Consolidated, Consolidation, Ending
from memory.dream import Dream
from memory.erasure import erase
from memory.errors import Conflict, NoteMissing, WriteRefused
from memory.extraction_witness import ExtractionWitness
from memory.gone import Item, gone, holding
from memory.index import INDEX, pointers
from memory.judgement import NoSources
from memory.places import read_files
from memory.ports import Outcome
from memory.provenance import Placed, Spoken, fact_hash
from memory.scan import Scanner
from memory.scope import Scope
from tests.unit.memory.dreams import Night, ScriptedRun

NAMES = ("one.md", "two.md", "three.md")
ENOUGH = 5
"""So many facts are there before any is forgotten: that ends each dream that runs."""
names = st.sampled_from(NAMES)
Act = Callable[[ScriptedRun], Awaitable[None]]


class Forgotten(NoSources):
    """The host's record of when something was forgotten."""

    def __init__(self) -> None:
        self.moments: list[datetime] = []

    async def erased_since(self, scope: Scope, moment: datetime) -> bool:
        return any(each >= moment for each in self.moments)


@dataclass(kw_only=True)
class Extraction:
    """A run that has heard one fact, and not written it yet."""

    fact: str
    witness: ExtractionWitness
    began: int
    """How much had been forgotten by then."""


class Nights(RuleBasedStateMachine):
    """`kept` are the facts that must stand somewhere, `erased` those that must stand nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.numbers = count(1)
        self.kept: set[str] = set()
        self.erased: set[str] = set()
        self.extraction: Extraction | None = None
        self.dreaming: asyncio.Task[Consolidated] | None = None
        self.can_undo = False
        self.listening = False
        self.knows: dict[str, tuple[str, str]] = {}
        """What the dream has read of each note, with its hash."""

    @initialize()
    def start(self) -> None:
        self.night = Night(Path(self.folder.name), fresh=False, dream_min_hours=0)
        self.night.directory.joinpath(INDEX).write_text("".join(f"- [{name[:-3]}]({name}) — hook\n" for name in NAMES))
        self.ledger = Forgotten()
        for name in NAMES:
            self.by_hand(name)
        night = self.night
        self.dream = Dream(
            Consolidation(
                night.run,
                notes=night.notes,
                leases=night.leases,
                notice=night.notice,
                settings=night.settings,
                clock=self.clock,
                ledger=self.ledger,
            ),
            history=night.history,
            settings=night.settings,
            clock=self.clock,
        )
        night.run.script = self.dreamt

    def teardown(self) -> None:
        if self.dreaming is not None:
            self.end_dream(Outcome.COMPLETED)
        self.runner.close()
        self.folder.cleanup()

    def clock(self) -> datetime:
        self.night.now += timedelta(seconds=1)
        return self.night.now

    def fact(self) -> str:
        """Return a fact that shares no word with any other."""
        number = next(self.numbers)
        return f"alpha{number} beta{number} gamma{number}"

    @property
    def texts(self) -> dict[str, str]:
        """What stands in the notes, as it lies on the disk."""
        return {name: text for name, text in self.night.texts().items() if name != INDEX}

    # -- what comes in

    @rule(name=names)
    def by_hand(self, name: str) -> None:
        """Add to a note, which is made if there is none; then its line may be missing as well."""
        path, fact = self.night.directory / name, self.fact()
        path.write_text((path.read_text() if path.exists() else "") + f"- {fact}\n")
        self.kept.add(fact)
        self.runner.run(self.pointed(name))

    async def pointed(self, name: str) -> None:
        night = self.night
        if name not in {target for _, target in pointers(night.scope.index.read_text())}:
            await night.notes.add_pointer(night.scope, night.directory, title=name[:-3], file=name, hook="hook")

    @precondition(lambda self: self.extraction is None)
    @rule()
    def begin_extraction(self) -> None:
        fact, began = self.fact(), self.clock()
        heard = [Spoken(message_id=1, account="telegram:42", speaker="Ann", text=fact, at=began)]
        erased = partial(self.ledger.erased_since, self.night.scope, began)
        witness = ExtractionWitness(Citations(heard), shown=(), erased=erased)
        self.extraction = Extraction(fact=fact, witness=witness, began=len(self.erased))

    @precondition(lambda self: self.extraction is not None)
    @rule(name=names, whole=st.booleans())
    def end_extraction(self, name: str, *, whole: bool) -> None:
        """Write what was heard, unless something was forgotten meanwhile; then again, which changes nothing."""
        run, self.extraction = self.extraction, None
        assert run is not None
        is_new = run.began == len(self.erased)
        assert self.runner.run(self.extracted(run, name, whole=whole)) == is_new
        if is_new:
            self.kept.add(run.fact)
            placed = Placed(note=name, fact=run.fact)
            assert isinstance(run.witness.origin(placed, heard=()), Spoken)
            assert not self.runner.run(self.extracted(run, "again.md", whole=False))

    async def extracted(self, run: Extraction, name: str, *, whole: bool) -> bool:
        night = self.night
        notes, path = night.notes.watched(run.witness), night.directory / name
        try:
            if whole and path.exists():
                there = await notes.read(night.scope, path)
                await notes.write(night.scope, path, f"{there.text}- {run.fact}\n", expected=there.hash)
            else:
                await notes.append(night.scope, path, f"- {run.fact}")
        except WriteRefused:
            return False
        await self.pointed(name)
        return True

    # -- what goes

    @precondition(lambda self: len(self.kept) > ENOUGH)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        fact = data.draw(st.sampled_from(sorted(self.kept)))
        self.runner.run(self.forgotten(fact))
        self.kept.discard(fact)
        self.erased.add(fact)

    async def forgotten(self, fact: str) -> None:
        """Forget as the host does: on record before and after, under the lease of extraction."""
        night = self.night
        files = read_files(night.scope, await Scanner(limit=None).scan(night.scope))
        what = gone(files, [Item(note=next(iter(files)), hash=fact_hash(fact), text=fact)])
        self.ledger.moments.append(self.clock())
        held = holding(files, what)
        await erase(night.scope, what, held, messages=frozenset(), notes=night.notes, leases=night.leases)
        self.ledger.moments.append(self.clock())

    # -- the dream

    async def dreamt(self, run: ScriptedRun, scope: Scope) -> None:
        try:
            while (act := await self.next_act()) is not None:
                try:
                    await act(run)
                except (Conflict, NoteMissing, WriteRefused):
                    self.knows = {}  # it reads again
                self.acts.task_done()
        finally:
            self.listening = False

    async def next_act(self) -> Act | None:
        self.listening = True
        act = await self.acts.get()
        self.listening = False
        return act

    def act(self, act: Act | None) -> None:
        """Let the dream do something; it may be stopped by that."""

        async def acted() -> None:
            self.acts.put_nowait(act)
            joined = asyncio.ensure_future(self.acts.join())
            assert self.dreaming is not None
            await asyncio.wait({joined, self.dreaming}, return_when=asyncio.FIRST_COMPLETED)
            joined.cancel()
            for _ in range(10):  # by then it listens again, unless it is being stopped
                await asyncio.sleep(0)
            if not self.listening:  # what it did is being put back: that is no moment to look, nor to write by hand
                await asyncio.wait({self.dreaming})

        self.runner.run(acted())
        self.over()

    def over(self) -> None:
        if self.dreaming is not None and self.dreaming.done():
            self.can_undo |= self.dreaming.result().ending is Ending.CHANGED
            self.dreaming = None

    @precondition(lambda self: self.dreaming is None)
    @rule()
    def begin_dream(self) -> None:
        self.knows = {}

        async def begun() -> None:
            self.acts: asyncio.Queue[Act | None] = asyncio.Queue()
            self.dreaming = asyncio.create_task(self.dream(self.night.scope, forced=True))
            self.acts.put_nowait(self.reads)
            joined = asyncio.ensure_future(self.acts.join())
            await asyncio.wait({joined, self.dreaming}, return_when=asyncio.FIRST_COMPLETED)
            joined.cancel()

        self.night.run.written = []
        self.runner.run(begun())
        self.over()

    async def reads(self, run: ScriptedRun) -> None:
        for name in (*self.texts, INDEX):
            note = await run.notes.read(self.night.scope, self.night.directory / name)
            self.knows[name] = note.text, note.hash

    @precondition(lambda self: self.dreaming is not None)
    @rule()
    def look_again(self) -> None:
        self.act(self.reads)

    @precondition(lambda self: self.dreaming is not None)
    @rule(one=names, other=names, again=st.booleans(), rewords=st.booleans())
    def merge(self, one: str, other: str, *, again: bool, rewords: bool) -> None:
        """Let the dream put what it knows of one note into another, maybe with words around it.

        With `again` somebody adds to that note right before, and the dream reads everything again.
        """
        if again:
            self.by_hand(other)

        async def merged(run: ScriptedRun) -> None:
            if again:
                await self.reads(run)
            if one != other and one in self.knows and other in self.knows:
                (text, known), (more, _) = self.knows[other], self.knows[one]
                text += "".join(f"{line}\n" for line in more.splitlines() if line not in text)
                await self.puts(run, other, f"# Merged\n\n{text}" if rewords else text, known)

        self.act(merged)

    async def puts(self, run: ScriptedRun, name: str, text: str, known: str) -> None:
        note = await run.watched.write(self.night.scope, self.night.directory / name, text, expected=known)
        self.knows[name] = note.text, note.hash
        await run._tell(note.path)

    @precondition(lambda self: self.dreaming is not None)
    @rule(name=names)
    def drop(self, name: str) -> None:
        """Let the dream delete a note of which it knows that all stands in another one."""

        async def dropped(run: ScriptedRun) -> None:
            text, known = self.knows.get(name, ("", ""))
            others = "".join(more for other, (more, _) in self.knows.items() if other != name)
            if all(line in others for line in text.splitlines()) and text:
                await run.watched.delete(self.night.scope, self.night.directory / name, expected=known)
                del self.knows[name]
                await run._tell(self.night.directory / name)

        self.act(dropped)

    @precondition(lambda self: self.dreaming is not None)
    @rule()
    def tidy_index(self) -> None:
        """Let the dream rewrite the index as it saw it, maybe long ago."""

        async def tidied(run: ScriptedRun) -> None:
            if INDEX in self.knows:
                text, known = self.knows[INDEX]
                await self.puts(run, INDEX, text.replace("hook", "dreamt"), known)

        self.act(tidied)

    @precondition(lambda self: self.dreaming is not None)
    @rule(outcome=st.sampled_from([Outcome.FAILED, Outcome.COMPLETED]))
    def end_dream(self, outcome: Outcome) -> None:
        self.night.run.outcome = outcome
        self.act(None)
        if self.dreaming is not None:
            self.runner.run(asyncio.wait_for(asyncio.wait({self.dreaming}), 30))
            self.over()

    @precondition(lambda self: self.can_undo)
    @rule()
    def undo(self) -> None:
        """Take the last dream back, which has to wait while another one runs."""
        undone = self.runner.run(self.night.undo(self.night.scope))
        assert undone.busy == (self.dreaming is not None)
        self.can_undo = undone.busy

    # -- what must hold

    @invariant()
    def nothing_that_came_in_is_lost(self) -> None:
        there = {line.removeprefix("- ") for text in self.texts.values() for line in text.splitlines()}
        assert self.kept <= there

    @invariant()
    def nothing_erased_is_there(self) -> None:
        """Nor in what is kept to undo; a dream that runs may have put it back until it is stopped."""
        if self.dreaming is None and self.erased:
            kept = snapshots.kept_beside(self.night.scope)
            files = [*self.night.directory.rglob("*.md"), *kept.rglob("*.md")]
            words = Counter(word for path in files for word in re.findall(r"\w+\d+", path.read_text()))
            assert not words.keys() & {word for fact in self.erased for word in fact.split()}

    @invariant()
    def index_and_notes_agree(self) -> None:
        if self.dreaming is None:
            targets = [target for _, target in pointers(self.night.scope.index.read_text())]
            assert sorted(targets) == sorted(self.texts)


Nights.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestNights = Nights.TestCase
