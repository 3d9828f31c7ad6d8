"""The demo, before anything is played."""

from pathlib import Path

import pytest

from gateway.demo import play


@pytest.mark.parametrize(
    ("made", "place", "fault"),
    [
        ("file", "file/below", "can't be used: Not a directory. Give --keep a folder of your own"),
        ("file", "file", "is not an empty folder: give --keep a new one"),
        ("full/file", "full", "is not an empty folder: give --keep a new one"),
    ],
)
def test_a_place_where_nothing_can_be_left_is_refused_in_one_line(
    tmp_path: Path, made: str, place: str, fault: str
) -> None:
    (tmp_path / made).parent.mkdir(exist_ok=True)
    (tmp_path / made).write_text("mine")
    said: list[str] = []
    assert play(keep=tmp_path / place, say=said.append) == 1
    assert len(said) == 1
    assert said[0].startswith(f"{tmp_path / place} {fault}")
    assert (tmp_path / made).read_text() == "mine"
