"""Check 24: an edit that is made on the disk, as the gateway's own watcher sees it, and what becomes of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count, pairwise
from pathlib import Path
from time import monotonic

import anyio
import pytest
from starlette.responses import HTMLResponse, Response

from adapters.serving import serving
from tests.acceptance.team_server import project
from tests.acceptance.test_check_23_keys import synced
from tests.acceptance.test_check_24 import GROUP, THREE, TOKEN, Group, Listener
from tests.acceptance.whole import whole
from tests.waiting import until

DEBOUNCE = 1.0
QUICK = 0.05


@asynccontextmanager
async def watched(home: Path, debounce: float) -> AsyncIterator[Group]:
    """Three files on both sides of a gateway that watches its copy, and the requests of that forgotten."""
    server = Listener(entries=dict(THREE))
    async with serving(server.app) as url:
        async with whole(home, project(url)) as running:
            await running.tell(GROUP, "Hello there.")
        async with whole(home, project(url) + f"team_debounce = {debounce}\n") as running:
            await synced(running)
            team = (await running.scope(GROUP)).team_dir
            assert team is not None
            group = Group(running=running, server=server, team=team)
            await seen(group, every=debounce + 1.0)
            yield group


async def seen(group: Group, *, every: float) -> None:
    """Edit a file until the watcher, which takes a moment to begin, has one of the edits pushed."""
    numbers = count(1)

    def pushed() -> bool:
        (group.team / "a.md").write_text(f"one, {next(numbers)}")
        return bool(group.server.puts)

    await until(pushed, every=every)
    await until(lambda: group.server.entries["a.md"] == (group.team / "a.md").read_text())
    group.server.puts.clear()


@pytest.fixture
async def edited(tmp_path: Path) -> AsyncIterator[Group]:
    async with watched(tmp_path / "home", QUICK) as found:
        yield found


def rested(group: Group) -> float:
    """Return how many pushes have come to nothing as pushes rest."""
    lines = group.running.core.metrics.exposition("")[0].decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("reverie_team_pushes_suppressed_total "))


async def write_in_a_row(group: Group, texts: list[str]) -> bool:
    """Write them, a while apart; returns whether no pause was so long that it may have been taken for the end."""
    at = []
    for text in texts:
        (group.team / "b.md").write_text(text)
        at.append(monotonic())
        await anyio.sleep(DEBOUNCE * 0.4)  # so that each is an event of its own
    return all(later - earlier < DEBOUNCE * 0.7 for earlier, later in pairwise(at))


async def test_check_24_five_edits_in_a_row_make_one_push_after_the_last(tmp_path: Path) -> None:
    async with watched(tmp_path / "home", DEBOUNCE) as group:
        for number in count():
            texts = [f"{number}.{edit}" for edit in range(5)]
            in_a_row = await write_in_a_row(group, texts)
            await until(lambda last=texts[-1]: group.server.entries["b.md"] == last)  # type: ignore[misc]
            if in_a_row:
                break
            group.server.puts.clear()  # a machine that stood still
    assert group.server.puts == [{"b.md": texts[-1]}], "and none when the gateway stops"


async def test_check_24_after_a_403_edits_send_nothing_until_a_file_is_deleted(edited: Group) -> None:
    edited.server.refusals.append(lambda: Response(status_code=403))
    (edited.team / "b.md").write_text("two and a half")
    await until(lambda: edited.server.puts)
    for number, text in enumerate(("2.6", "2.7")):
        (edited.team / "b.md").write_text(text)
        await until(lambda number=number: rested(edited) > number)  # type: ignore[misc]
    assert edited.server.puts == [{"b.md": "two and a half"}]
    (edited.team / "c.md").unlink()
    await until(lambda: edited.server.entries["b.md"] == "2.7")
    assert edited.server.puts[1:] == [{"b.md": "2.7"}]


REFUSALS: list[Callable[[], Response]] = [
    lambda: HTMLResponse("<p>no</p>", status_code=409),
    lambda: HTMLResponse("<p>no</p>", status_code=429),
    lambda: HTMLResponse("<p>no</p>", status_code=500),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=["409", "429", "500"])
async def test_check_24_what_may_pass_is_tried_again_with_the_next_edit(
    edited: Group, refusal: Callable[[], Response]
) -> None:
    edited.server.refusals.append(refusal)
    (edited.team / "b.md").write_text("two and a half")
    await until(lambda: edited.server.puts)
    assert edited.server.entries["b.md"] == "two"
    (edited.team / "b.md").write_text("2.6")
    await until(lambda: edited.server.entries["b.md"] == "2.6")
    assert rested(edited) == 0


async def test_check_24_an_edit_that_brings_a_secret_is_pushed_without_that_file(edited: Group) -> None:
    (edited.team / "b.md").write_text(f"the token is {TOKEN}")
    (edited.team / "c.md").write_text("four")
    await until(lambda: edited.server.entries["c.md"] == "four")
    assert TOKEN not in str(edited.server.puts)
    assert edited.server.entries["b.md"] == "two"
