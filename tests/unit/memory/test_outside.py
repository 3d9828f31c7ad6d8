"""Nothing outside of a scope's directory is opened for writing, whatever path a model comes up with."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory.doubles import LocalLeases
from memory.errors import MemoryFault
from memory.notes import INDEX, Notes
from memory.paths import Homes, ProjectRef, ensure
from memory.scope import Mode, Scope
from memory.settings import MemorySettings

BAIT = "bait\n"
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PARTS = st.sampled_from(
    [
        *("..", ".", "", "~", "a.md", "A.md", "sub", "SUB", "new", INDEX, "team", "logs", "a\\b.md", "..\\bait.md"),
        *("caf\u00e9.md", "cafe\u0301.md", "\uff0e\uff0e", "%2e%2e", "bait.md", "outside", "bob", "homes", "code"),
        *(
            "out",
            "out.md",
            "up",
            "dangling.md",
            "dangling",
            "loop.md",
            "loop",
            "inner",
            "a.md ",
            " ",
            "a\n.md",
            "\0.md",
        ),
    ]
)
STARTS = st.sampled_from(["", "/", "//", "{A}/", "{A}-evil/", "{top}/", "{top}/outside/", "../../../../bob/", "~/"])
PATHS = st.builds(lambda start, parts: start + "/".join(parts), STARTS, st.lists(PARTS, min_size=1, max_size=6))


class Openings:
    """Keeps what is opened for writing, made, moved or removed, with the folder that a relative name counts from."""

    def __init__(self) -> None:
        self.places: list[str] | None = None
        sys.addaudithook(self)

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        """See an event. There is no way to take a hook back, so that it looks away most of the time."""
        if self.places is None:
            return
        if event == "open" and isinstance(given[2], int) and given[2] & WRITES:
            self._note(given[0], None)
        elif event in {"os.mkdir", "os.remove", "os.rmdir", "os.chmod"}:
            self._note(given[0], given[-1])
        elif event in {"os.rename", "os.link", "os.symlink"}:
            self._note(given[1], given[-1])

    def _note(self, name: Any, folder: int | None) -> None:
        assert self.places is not None
        if isinstance(name, str | bytes | os.PathLike):
            at = Path(f"/proc/self/fd/{folder}").readlink() if folder is not None and folder >= 0 else Path()
            self.places.append(os.path.normpath(at / os.fsdecode(name)))

    @contextmanager
    def kept(self) -> Iterator[list[str]]:
        """Keep what is opened meanwhile."""
        places = self.places = []
        try:
            yield places
        finally:
            self.places = None


@cache
def openings() -> Openings:
    return Openings()


def make(top: Path) -> Scope:
    """Return a scope in a tree with bait around it, and links out of it and into nowhere."""
    homes = Homes(top / "homes", settings=MemorySettings())
    project = ProjectRef(name="p", root=top / "code")
    scope = homes.scope(principal="ann", project=project, member=True, shared=False, mode=Mode.AUTO, timezone="UTC")
    assert ensure(scope)
    memory = scope.memory_dir
    for folder in (top / "outside", top / "code", top / "homes/bob", memory.with_name("memory-evil"), memory.parent):
        folder.mkdir(exist_ok=True)
        for name in ("bait.md", "a.md", INDEX):
            (folder / name).write_text(BAIT)
    (memory / "sub").mkdir()
    for name in ("a.md", "sub/a.md", INDEX, "cafe\u0301.md"):
        (memory / name).write_text("- [A](a.md) text\n")
    links = {"out": top / "outside", "out.md": top / "outside/bait.md", "up": memory.parent, "inner": memory / "sub"}
    links |= {"dangling": top / "outside/none", "dangling.md": top / "outside/none.md", "loop": memory / "loop"}
    for name, target in (links | {"loop.md": memory / "loop.md", "sub/out.md": top / "code/a.md"}).items():
        (memory / name).symlink_to(target)
    return scope


def state(top: Path, inside: Path) -> dict[str, tuple[int, ...]]:
    """Return of all that lies outside when it was changed last, which tells of folders what came and went."""
    found = (Path(place, name) for place, folders, files in os.walk(top) for name in ("", *folders, *files))
    outside = (path for path in found if path != inside and not path.is_relative_to(inside))
    return {str(path): (facts.st_ino, facts.st_ctime_ns, facts.st_size) for path in outside if (facts := path.lstat())}


async def tried(notes: Notes, scope: Scope, path: Path) -> None:
    for attempt in (
        lambda: notes.append(scope, path, "- more"),
        lambda: notes.edit(scope, path, "bait", "eaten", expected=None),
        lambda: notes.edit(scope, path, "text", "words", expected=None),
        lambda: notes.write(scope, path, "new\n", expected=None),
        lambda: notes.write(scope, path, "new\n", expected=""),
        lambda: notes.add_pointer(scope, path.parent, title="A", file=path.name, hook="h"),
        lambda: notes.delete(scope, path, expected=None),
    ):
        with suppress(MemoryFault):
            await attempt()


@settings(deadline=None, max_examples=150)
@given(PATHS)
@example("out/bait.md")
@example("dangling.md")
@example("sub/../../memory-evil/bait.md")
@example("{top}/outside/bait.md")
def test_nothing_outside_is_changed_or_opened_for_writing(path: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        top = Path(os.path.realpath(place))
        scope = make(top)
        before = state(top, scope.memory_dir)
        given_path = Path(path.format(A=scope.memory_dir, top=top))
        with openings().kept() as opened:
            asyncio.run(tried(Notes(leases=LocalLeases()), scope, given_path))
        assert state(top, scope.memory_dir) == before
        # Files are opened by a bare name in a folder that is open already; the audit event does not say which.
        stray = [each for each in opened if "/" in each and not Path(each).is_relative_to(scope.memory_dir)]
        assert stray == []
        assert all(each not in {"", ".", ".."} for each in opened)


def test_what_may_be_written_is_seen_by_the_test_above(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path))
    scope = make(top)
    with openings().kept() as opened:
        asyncio.run(tried(Notes(leases=LocalLeases()), scope, Path("new/b.md")))
        (top / "outside/other.md").write_text("x")
    assert {str(scope.memory_dir / "new"), str(scope.memory_dir / "new/b.md")} <= set(opened)
    assert str(top / "outside/other.md") in opened
