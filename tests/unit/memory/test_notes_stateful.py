"""Two writers of one memory directory, with stale knowledge and people who edit by hand: against a model of it."""

import asyncio
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memory.doubles import LocalLeases
from memory.errors import Conflict, NoteMissing
from memory.notes import INDEX, Notes, content_hash, pointers
from memory.paths import Homes, ProjectRef, ensure
from memory.scope import Mode
from memory.settings import MemorySettings

NAMES = ("a.md", "b c.md", "sub/d.md")
names = st.sampled_from(NAMES)


@dataclass(kw_only=True)
class Writer:
    """One process: its notes, and what it has read or written last, with the hash; "" for a file that was not there."""

    notes: Notes
    knows: dict[str, tuple[str, str]] = field(default_factory=dict)


class Memory(RuleBasedStateMachine):
    """`texts` is what each file must hold, `dangling` what a person deleted without a look at the index."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.numbers = count(1)
        self.texts: dict[str, str] = {}
        self.dangling: set[str] = set()
        self.writers: list[Writer] = []

    @initialize()
    def start(self) -> None:
        homes = Homes(Path(self.folder.name) / "homes", settings=MemorySettings())
        self.scope = homes.scope(
            principal="ann",
            project=ProjectRef(name="p"),
            member=False,
            shared=False,
            mode=Mode.AUTO,
            timezone="UTC",
        )
        ensure(self.scope)
        leases = LocalLeases()
        self.writers = [Writer(notes=Notes(leases=leases)) for _ in range(2)]

    def teardown(self) -> None:
        self.runner.close()
        self.folder.cleanup()

    def fact(self) -> str:
        return f"- fact {next(self.numbers)}\n"

    def hash(self, name: str) -> str:
        return content_hash(self.texts[name]) if name in self.texts else ""

    def path(self, name: str) -> Path:
        return self.scope.memory_dir / name

    async def point(self, writer: Writer, name: str) -> None:
        hook = f"hook {next(self.numbers)}"
        await writer.notes.add_pointer(self.scope, self.scope.memory_dir, title=name[:-3], file=name, hook=hook)
        self.dangling.discard(name)

    @rule(who=st.integers(0, 1), name=names)
    def read(self, who: int, name: str) -> None:
        writer = self.writers[who]
        try:
            note = self.runner.run(writer.notes.read(self.scope, self.path(name)))
        except NoteMissing:
            assert name not in self.texts
            writer.knows[name] = ("", "")
        else:
            assert note.text == self.texts[name]
            writer.knows[name] = (note.text, note.hash)

    @rule(who=st.integers(0, 1), name=names)
    def save(self, who: int, name: str) -> None:
        """Rewrite a note as one knows it, with one fact more, and point to it: what an extraction does."""
        writer = self.writers[who]
        text, known = writer.knows.get(name, ("", None))
        text += self.fact()

        async def both() -> None:
            note = await writer.notes.write(self.scope, Path(name), text, expected=known)
            self.texts[name] = text
            writer.knows[name] = (text, note.hash)
            await self.point(writer, name)

        stale = known != self.hash(name) if known is not None else name in self.texts
        if stale:
            with pytest.raises(Conflict) as caught:
                self.runner.run(both())
            assert caught.value.actual == self.hash(name)
        else:
            self.runner.run(both())

    @rule(name=names)
    def add_at_once(self, name: str) -> None:
        """Both writers add to one file at the same time."""
        facts = [self.fact(), self.fact()]

        async def both() -> None:
            adding = (
                each.notes.append(self.scope, Path(name), text) for each, text in zip(self.writers, facts, strict=True)
            )
            await asyncio.gather(*adding)
            await asyncio.gather(*(self.point(each, name) for each in self.writers))

        self.runner.run(both())
        before, after = self.texts.get(name, ""), self.path(name).read_text()
        assert after in (before + facts[0] + facts[1], before + facts[1] + facts[0])
        self.texts[name] = after

    @rule(who=st.integers(0, 1), name=names, number=st.integers(0, 9))
    def edit(self, who: int, name: str, number: int) -> None:
        """Replace one fact in whatever the file holds by now."""
        lines = self.texts.get(name, "").splitlines(keepends=True)
        if not lines:
            return
        old, new = lines[number % len(lines)], self.fact()
        note = self.runner.run(self.writers[who].notes.edit(self.scope, Path(name), old, new, expected=None))
        self.texts[name] = "".join(new if line == old else line for line in lines)
        assert note.text == self.texts[name]

    @rule(who=st.integers(0, 1), name=names)
    def delete(self, who: int, name: str) -> None:
        writer = self.writers[who]
        _, known = writer.knows.get(name, ("", None))
        deleting = writer.notes.delete(self.scope, Path(name), expected=known or None)
        if name in self.texts and known and known != self.hash(name):
            with pytest.raises(Conflict):
                self.runner.run(deleting)
        elif name not in self.texts and name not in self.dangling:
            with pytest.raises(NoteMissing):
                self.runner.run(deleting)
        else:
            self.runner.run(deleting)
            self.texts.pop(name, None)
            self.dangling.discard(name)
            writer.knows[name] = ("", "")

    @rule(who=st.integers(0, 1))
    def look_at_index(self, who: int) -> None:
        writer = self.writers[who]
        try:
            note = self.runner.run(writer.notes.read(self.scope, self.scope.index))
        except NoteMissing:
            return
        writer.knows[INDEX] = (note.text, note.hash)

    @precondition(lambda self: any(INDEX in each.knows for each in self.writers))
    @rule(who=st.integers(0, 1))
    def tidy_index(self, who: int) -> None:
        """Rewrite the index as one saw it, maybe long ago, with other words: what a dream does."""
        writer = self.writers[who]
        if INDEX not in writer.knows:
            return
        text, known = writer.knows[INDEX]
        text = text.replace("hook", "tidied")
        note = self.runner.run(writer.notes.write(self.scope, Path(INDEX), text, expected=known))
        writer.knows[INDEX] = (note.text, note.hash)
        self.dangling = {target for _, target in pointers(note.text)} - set(self.texts)

    @rule(name=names)
    def edit_by_hand(self, name: str) -> None:
        if name in self.texts:
            self.texts[name] += self.fact()
            self.path(name).write_text(self.texts[name])

    @rule(name=names)
    def delete_by_hand(self, name: str) -> None:
        if self.texts.pop(name, None) is not None:
            self.path(name).unlink()
            self.dangling.add(name)

    @invariant()
    def files_hold_what_they_must(self) -> None:
        if self.writers:
            found = {path for path in self.scope.memory_dir.rglob("*") if path.is_file() and path.name != INDEX}
            assert found == {self.path(name) for name in self.texts}
            assert all(self.path(name).read_text() == text for name, text in self.texts.items())

    @invariant()
    def index_and_notes_agree(self) -> None:
        if not self.writers:
            return
        text = self.scope.index.read_text() if self.scope.index.exists() else ""
        targets = [target for _, target in pointers(text)]
        assert sorted(targets) == sorted({*self.texts, *self.dangling})


Memory.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestMemory = Memory.TestCase
