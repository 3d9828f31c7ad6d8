from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory.stamp import NAME, NEVER, last_consolidated, stamp

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
