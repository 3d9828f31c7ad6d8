"""What could not be written, as the disk was full, is extracted later, and nothing twice."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory.dailylog import log_path
from memory.disk import Folder
from tests.acceptance.extraction_runs import figure
from tests.acceptance.whole import ANN, Clock, calls, note, whole

QUIET = "[scheduler]\nstart_delay = 3600\n"
LATER = 10.0  # seconds, more than the first pause after a failure


@pytest.fixture
def disk_full(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Return what lets every write of a file with these words fail; of b"", none."""
    full, replace = [b""], Folder.replace

    def replaced(self: Folder, name: str, data: bytes, **given: Any) -> int:
        if full[0] and full[0] in data:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, name, data, **given)

    monkeypatch.setattr(Folder, "replace", replaced)
    return lambda words: full.__setitem__(0, words)


async def test_notes_that_could_not_be_written_are_later_and_each_fact_stands_once(
    tmp_path: Path, disk_full: Callable[[bytes], None]
) -> None:
    clock = Clock()
    tea = ("append", {"file_path": "tea.md", "content": "- Ann drinks tea"})
    train = ("write", {"file_path": "train.md", "content": note("Ann takes the early train")})
    async with whole(tmp_path / "home", QUIET, clock=clock) as running:
        running.then_fork(calls(tea, train), "Done.", calls(tea, train), "Done.")
        disk_full(b"train")
        await running.tell(ANN, "I drink tea and take the early train")
        await running.settled()
        memory = (await running.scope(ANN)).memory_dir
        assert ((memory / "tea.md").exists(), (memory / "train.md").exists()) == (True, False)
        assert await running.cursor() == 0
        assert await figure(running, "extractions", outcome="failed") == 1
        disk_full(b"")
        clock.forward(seconds=LATER)
        await running.settled()
        assert await running.cursor() > 0
        assert (memory / "tea.md").read_text() == "- Ann drinks tea\n"
        assert "early train" in (memory / "train.md").read_text()


async def test_a_day_log_that_could_not_be_added_to_is_later_and_holds_each_line_once(
    tmp_path: Path, disk_full: Callable[[bytes], None]
) -> None:
    clock = Clock()
    async with whole(tmp_path / "home", QUIET + '[memory]\nmemory_mode = "log"\n', clock=clock) as running:
        log = log_path(await running.scope(ANN), clock())
        lines = [
            ("append", {"file_path": str(log), "content": f"- 12:00 Ann: {words}"}) for words in ("tea", "early train")
        ]
        running.then_fork(calls(*lines), "Done.", calls(*lines), "Done.")
        disk_full(b"train")
        await running.tell(ANN, "I drink tea and take the early train")
        await running.settled()
        assert (log.read_text(), await running.cursor()) == ("- 12:00 Ann: tea\n", 0)
        disk_full(b"")
        clock.forward(seconds=LATER)
        await running.settled()
        assert await running.cursor() > 0
        assert log.read_text() == "- 12:00 Ann: tea\n- 12:00 Ann: early train\n"
