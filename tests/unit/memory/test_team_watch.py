"""An edit of team memory is pushed soon after, once, and nothing else is."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from memory.errors import LeaseLost
from memory.scope import Scope
from memory.team.errors import SyncFailed
from memory.team.report import SyncReport
from memory.team.watch import Push, TeamWatch, file_changes
from tests.unit.memory.team_members import Member, ann, answers, bob, sync, team_server
from tests.waiting import HANGS, until

__all__ = ["ann", "bob", "team_server"]


class Edits:
    """Changes as a test makes them, and a debounce that a test lets end."""

    def __init__(self) -> None:
        self.watched: list[frozenset[Path]] = []
        self.waits: list[float] = []
        self.quiet = asyncio.Event()
        self._paths: asyncio.Queue[Path] = asyncio.Queue()

    async def changes(self, directories: Collection[Path], stop: asyncio.Event) -> AsyncIterator[Collection[Path]]:
        self.watched.append(frozenset(directories))
        ending = asyncio.create_task(stop.wait())
        while not stop.is_set():
            edit = asyncio.create_task(self._paths.get())
            await asyncio.wait({edit, ending}, return_when=asyncio.FIRST_COMPLETED)
            if edit.done():
                yield [edit.result()]
            edit.cancel()

    async def comes(self, event: asyncio.Event, within: float) -> bool:
        """Wait until something is edited, or the test says that the time is over."""
        self.waits.append(within)
        waits = {asyncio.create_task(event.wait()), asyncio.create_task(self.quiet.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        return event.is_set()

    async def edit(self, path: Path) -> None:
        before = len(self.waits)
        self._paths.put_nowait(path)
        await until(lambda: len(self.waits) > before, every=0)


class Pushes:
    """Takes pushes, and answers with what a test has put into `ends`."""

    def __init__(self) -> None:
        self.of: list[tuple[str, float]] = []
        self.ends: list[SyncFailed | LeaseLost | None] = []

    async def __call__(self, scope: Scope, *, wait: float) -> SyncReport:
        self.of.append((scope.principal, wait))
        end = self.ends.pop(0) if self.ends else None
        if isinstance(end, LeaseLost):
            raise end
        return SyncReport(failure=end)


def watching(edits: Edits, push: Push, *members: Member) -> AbstractAsyncContextManager[None]:
    async def scopes() -> Sequence[Scope]:
        return [member.scope for member in members]

    return TeamWatch(push, scopes=scopes, debounce=2.0, changes=edits.changes, comes=edits.comes).running()


async def test_five_edits_in_a_row_make_one_push_two_seconds_after_the_last(ann: Member) -> None:
    edits, pushes = Edits(), Pushes()
    async with watching(edits, pushes, ann):
        for _ in range(5):
            await edits.edit(ann.team / "a.md")
        assert (edits.waits, pushes.of) == ([2.0] * 5, [])
        edits.quiet.set()
        await until(lambda: bool(pushes.of))
    assert pushes.of == [("ann", 0.0)]


async def test_one_watcher_looks_after_all_copies_and_each_is_pushed_by_itself(ann: Member, bob: Member) -> None:
    edits, pushes = Edits(), Pushes()
    edits.quiet.set()
    async with watching(edits, pushes, ann, bob):
        await edits.edit(bob.team / "sub/a.md")
        await until(lambda: bool(pushes.of))
    assert (edits.watched, pushes.of) == ([frozenset({ann.team, bob.team})], [("bob", 0.0)])


@pytest.mark.parametrize(
    "name", [".0123456789abcdef.tmp", "a.conflict-01234567.md", ".git/a.md", "a.txt", "/elsewhere/b.md"]
)
async def test_what_is_no_note_of_the_team_is_no_edit(ann: Member, name: str) -> None:
    edits, pushes = Edits(), Pushes()
    edits.quiet.set()
    async with watching(edits, pushes, ann):
        edits._paths.put_nowait(ann.team / name)
        await edits.edit(ann.team / "b.md")
        await until(lambda: bool(pushes.of))
    assert len(edits.waits) == 1


async def test_while_an_exchange_is_under_way_the_push_is_put_off(ann: Member) -> None:
    edits, pushes = Edits(), Pushes()
    pushes.ends = [LeaseLost("busy"), LeaseLost("busy"), None]
    edits.quiet.set()
    async with watching(edits, pushes, ann):
        await edits.edit(ann.team / "a.md")
        await until(lambda: len(pushes.of) == 3)
    assert edits.waits == [2.0] * 3


async def test_a_push_that_failed_waits_for_the_next_edit_and_for_the_end(ann: Member) -> None:
    edits, pushes = Edits(), Pushes()
    pushes.ends = [SyncFailed("x", status=500)] * 2
    edits.quiet.set()
    async with watching(edits, pushes, ann):
        for number in (1, 2):
            await edits.edit(ann.team / "a.md")
            await until(lambda number=number: len(pushes.of) == number)  # type: ignore[misc]
    assert pushes.of == [("ann", 0.0), ("ann", 0.0), ("ann", 2.0)], "the last one as the gateway stops"


async def test_what_still_waits_is_pushed_at_the_end(ann: Member) -> None:
    await sync(ann)
    edits = Edits()
    async with watching(edits, ann.sync.push, ann):
        ann.write("a.md", "written at the last moment")
        await edits.edit(ann.team / "a.md")
    assert ann.wire.bodies() == [{"entries": {"a.md": "written at the last moment"}}]


async def test_a_pull_that_writes_and_an_edit_before_the_first_pull_send_nothing(ann: Member, bob: Member) -> None:
    edits = Edits()
    edits.quiet.set()
    async with watching(edits, ann.sync.push, ann):
        ann.write("a.md", "by Ann")
        await edits.edit(ann.team / "a.md")
        await until(lambda: ann.meter.values("team_sync_seconds") == [0])
        assert ann.wire.seen == []
        bob.write("b.md", "by Bob")
        await sync(bob, ann)
        ann.wire.seen.clear()
        await edits.edit(ann.team / "b.md")
        await until(lambda: len(ann.meter.values("team_sync_seconds")) == 3)
    assert ann.wire.seen == []


async def test_after_a_permanent_failure_an_edit_sends_nothing_until_something_is_deleted(ann: Member) -> None:
    await sync(ann)
    ann.write("b.md", "x")
    ann.wire.scripted.append(answers("PUT", 403, times=1))
    edits = Edits()
    edits.quiet.set()
    async with watching(edits, ann.sync.push, ann):
        for number in (1, 2, 3):
            ann.write("a.md", f"edit {number}")
            if number == 3:
                (ann.team / "b.md").unlink()
            before = len(ann.meter.values("team_sync_seconds"))
            await edits.edit(ann.team / "a.md")
            await until(lambda before=before: len(ann.meter.values("team_sync_seconds")) > before)  # type: ignore[misc]
    assert [body["entries"] for body in ann.wire.bodies()] == [
        {"a.md": "edit 1", "b.md": "x"},
        {"a.md": "edit 3"},
    ]


async def test_without_leave_to_watch_the_gateway_goes_on(ann: Member) -> None:
    async def refusing(directories: Collection[Path], stop: asyncio.Event) -> AsyncIterator[Collection[Path]]:
        raise OSError(28, "no more watches")
        yield []

    async def scopes() -> Sequence[Scope]:
        return [ann.scope]

    async with TeamWatch(Pushes(), scopes=scopes, debounce=2.0, changes=refusing).running():
        await asyncio.sleep(0)


async def test_the_operating_system_tells_of_an_edit_and_of_a_deletion(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    stop, seen = asyncio.Event(), set[str]()

    async def read() -> None:
        async for paths in file_changes([tmp_path], stop):
            seen.update(path.name for path in paths)

    reading = asyncio.create_task(read())
    with anyio.fail_after(HANGS):
        while "a.md" not in seen:  # the watcher may not have begun yet: until it has, nobody is told
            (tmp_path / "sub/a.md").write_text("x")
            await asyncio.sleep(0.05)
        (tmp_path / "b.md").write_text("x")
        (tmp_path / "b.md").unlink()
        while "b.md" not in seen:  # noqa: ASYNC110  (as above)
            await asyncio.sleep(0.01)
        stop.set()
        await reading
