import stat
from pathlib import Path

import pytest

from gateway.errors import StartRefused
from gateway.home import only_gateway, prepare


def test_a_new_home_is_its_owners_only(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    prepare(home)
    prepare(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_home_that_is_a_file_is_refused_with_the_cure(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StartRefused, match=r"is not a folder\. Set REVERIE_HOME"):
        prepare(tmp_path / place)


def test_a_second_gateway_is_kept_out_until_the_first_has_gone(tmp_path: Path) -> None:
    refused = pytest.raises(StartRefused, match="Another Reverie runs in")
    with only_gateway(tmp_path), refused, only_gateway(tmp_path):
        pass
    with only_gateway(tmp_path):
        assert stat.S_IMODE((tmp_path / "gateway.lock").stat().st_mode) == 0o600


def test_a_home_without_a_place_for_the_lock_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="can't be opened"), only_gateway(tmp_path / "gone"):
        pass
