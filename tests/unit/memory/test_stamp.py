import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory.consolidation import Ending
from memory.stamp import NAME, NEVER, last_consolidated, stamp
from tests.unit.memory.dreams import Night, tidy

WHEN = datetime(2026, 5, 1, 3, 0, 0, 123456, tzinfo=UTC)


def test_a_directory_that_was_never_consolidated_says_so(tmp_path: Path) -> None:
    assert last_consolidated(tmp_path) == NEVER
    assert last_consolidated(tmp_path / "missing") == NEVER


def test_the_stamp_tells_the_moment_and_who_set_it(tmp_path: Path) -> None:
    stamp(tmp_path, WHEN, 42)
    assert abs(last_consolidated(tmp_path) - WHEN) < timedelta(microseconds=2)
    assert (tmp_path / NAME).read_text().split()[-1] == "42"
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        stamp(tmp_path, WHEN, 1)
    assert not (tmp_path / "elsewhere").exists()


def put_a_folder(place: Path) -> None:
    place.mkdir()


def put_a_link(place: Path) -> None:
    place.symlink_to(place.with_name("elsewhere"))


def put_a_pipe(place: Path) -> None:
    os.mkfifo(place)


@pytest.mark.parametrize("obstruct", [put_a_folder, put_a_link, put_a_pipe])
async def test_no_dream_begins_whose_stamp_could_not_be_set_and_the_reason_names_the_cure(
    tmp_path: Path, obstruct: Callable[[Path], None]
) -> None:
    night = Night(tmp_path)
    obstruct(night.directory / NAME)
    result = await night.dream(night.scope, forced=True)
    assert (result.ending, night.run.prompts) == (Ending.GATED, [])
    assert f"{NAME} in the memory folder is no plain file" in result.reason
    with pytest.raises(OSError, match=r"."):
        stamp(night.directory, WHEN, 1)


def test_a_pipe_that_somebody_reads_from_is_not_stamped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    reader = os.open(tmp_path / NAME, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="no plain file"):
        stamp(tmp_path, WHEN, 1)
    os.close(reader)


async def test_a_stamp_that_is_missing_after_a_dream_that_stands_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Night(tmp_path)
    night.run.script = tidy

    def killed(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("memory.stamp.stamp", killed)
        assert (await night.dream(night.scope)).ending is Ending.CHANGED
    assert last_consolidated(night.directory) == NEVER
    began, night.now = night.now, night.now + timedelta(minutes=10)
    assert await night.dream.recover(night.scope) is False
    assert last_consolidated(night.directory) == began
    assert "b.md" in night.texts()
