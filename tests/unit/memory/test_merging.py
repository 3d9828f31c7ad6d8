import pytest

from memory.merging import rebased

BASE = "one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ("ONE\ntwo\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour\nFIVE\n", "ONE\ntwo\nthree\nfour\nFIVE\n"),
        (f"{BASE}ours\n", f"{BASE}theirs\n", f"{BASE}theirs\nours\n"),
        (f"{BASE}six\n", f"zero\n{BASE}", f"zero\n{BASE}six\n"),
        ("one\ntwo\nthree\nfour\n", f"zero\n{BASE}", "zero\none\ntwo\nthree\nfour\n"),
        (BASE, "one\n", "one\n"),
        ("", BASE, ""),
    ],
)
def test_changes_of_different_lines_are_both_kept(ours: str, theirs: str, both: str) -> None:
    assert rebased(BASE, ours, theirs) == both


@pytest.mark.parametrize("theirs", [BASE.replace("two", "zwei"), BASE.replace("three", "drei"), "", "other\n"])
def test_changes_of_the_same_lines_are_not_made_into_one(theirs: str) -> None:
    assert rebased(BASE, BASE.replace("two", "deux"), theirs) is None
