import pytest

from memory.counts import counted, listed


@pytest.mark.parametrize(
    ("number", "many", "said"),
    [(0, "", "0 notes"), (1, "", "1 note"), (2, "", "2 notes"), (1, "notices", "1 note"), (2, "notices", "2 notices")],
)
def test_only_of_one_is_spoken_in_the_singular(number: int, many: str, said: str) -> None:
    assert counted(number, "note", many) == said


def test_names_beyond_the_most_that_are_told_are_counted() -> None:
    names = ["a.md", "b.md", "c.md"]
    assert [listed(names, most) for most in (2, 3)] == ["a.md, b.md and 1 more", "a.md, b.md, c.md"]
    assert listed([], 2) == ""
