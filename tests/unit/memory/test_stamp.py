import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.stamp import NAME, last_consolidated, last_consolidated_ns, restore, stamp

WHEN = datetime(2026, 5, 1, 3, 0, 0, 123456, tzinfo=UTC)


def test_a_directory_that_was_never_consolidated_says_zero(tmp_path: Path) -> None:
    assert last_consolidated(tmp_path) == 0
    assert last_consolidated(tmp_path / "missing") == 0


def test_the_stamp_tells_the_moment_and_who_set_it(tmp_path: Path) -> None:
    stamp(tmp_path, WHEN, 42)
    assert last_consolidated(tmp_path) == pytest.approx(WHEN.timestamp(), abs=1e-6)
    assert (tmp_path / NAME).read_text().split()[-1] == "42"
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_a_rollback_brings_back_the_very_nanosecond_and_empties_the_body(tmp_path: Path) -> None:
    stamp(tmp_path, WHEN, 1)
    os.utime(tmp_path / NAME, ns=(1_777_000_000_123_456_789,) * 2)
    previous = last_consolidated_ns(tmp_path)
    stamp(tmp_path, WHEN, 2)
    restore(tmp_path, previous)
    assert last_consolidated_ns(tmp_path) == 1_777_000_000_123_456_789
    assert (tmp_path / NAME).read_text() == ""


def test_a_rollback_of_the_first_stamp_leaves_no_file(tmp_path: Path) -> None:
    stamp(tmp_path, WHEN, 1)
    restore(tmp_path, 0)
    restore(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        stamp(tmp_path, WHEN, 1)
    assert not (tmp_path / "elsewhere").exists()
