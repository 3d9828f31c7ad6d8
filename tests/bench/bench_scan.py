"""What a turn pays to look at its notes: run by hand, `python -m tests.bench.bench_scan [COUNT …]`.

Compare columns of one run with each other, never with those of another machine or another hour: `list + stat` is what
the operating system asks for the same walk.
"""

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from memory.disk import walk
from memory.scan import Scanner

ROUNDS = 30


def fill(folder: Path, count: int) -> None:
    """Write notes as they come about, the same for the same count."""
    rng = random.Random(count)
    for number in range(count):
        head = f"---\nname: note {number}\ndescription: about {rng.random()} and what matters\ntype: project\n---\n"
        (folder / f"note-{number}.md").write_text(head + "a line of the body\n" * rng.choice((1, 5, 40)))


def listed(folder: Path) -> None:
    """Do what no scan gets round."""
    with os.scandir(folder) as entries:
        for entry in entries:
            entry.stat(follow_symlinks=False)


def walked(folder: Path) -> None:
    """Do the same by handles, as a scan does."""
    for _, _, entry in walk(folder, enter=lambda _: True):
        entry.stat(follow_symlinks=False)


async def timed(act: Callable[[], Awaitable[object]]) -> float:
    """Return the milliseconds that it took."""
    began = time.perf_counter()
    await act()
    return (time.perf_counter() - began) * 1000


async def typical(act: Callable[[], Awaitable[object]]) -> float:
    """Return the median of some rounds."""
    return statistics.median([await timed(act) for _ in range(ROUNDS)])


async def bench(count: int) -> None:
    """Print one line of figures, in ms."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        fill(folder, count)
        await asyncio.sleep(0.2)  # what was written just now is read again
        scanner = Scanner(limit=None)
        cold = await timed(lambda: scanner.scan_directory(folder))
        floor = await typical(lambda: asyncio.to_thread(listed, folder))
        handles = await typical(lambda: asyncio.to_thread(walked, folder))
        unchanged = await typical(lambda: scanner.scan_directory(folder))
        since = time.monotonic()
        await scanner.scan_directory(folder)
        again = await typical(lambda: scanner.scan_directory(folder, since=since))
        (folder / "note-0.md").write_text("changed")
        one = await timed(lambda: scanner.scan_directory(folder))
    figures = (cold, floor, handles, unchanged, one, again)
    print(f"{count:>8}" + "".join(f"{figure:>14.3f}" for figure in figures) + f"{unchanged / floor:>10.2f}")


def main() -> None:
    """Measure each size that is asked for."""
    titles = ("cold", "list + stat", "walk", "unchanged", "one changed", "same turn")
    print(f"{'notes':>8}" + "".join(f"{title:>14}" for title in titles) + f"{'ratio':>10}")
    for count in [int(each) for each in sys.argv[1:]] or [200, 10_000]:
        asyncio.run(bench(count))


if __name__ == "__main__":
    main()
