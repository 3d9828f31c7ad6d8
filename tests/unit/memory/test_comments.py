import time
from collections.abc import Callable

import pytest

from memory.comments import without_comments
from memory.facts import facts, without
from memory.prompt import strip_hidden


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", ""),
        ("a", "a"),
        ("a<!-- b\nc -->d<!--e-->f", "adf"),
        ("a<!-- b <!-- c --> d -->", "a d -->"),
        ("a --> <!-- never closed", "a --> <!-- never closed"),
        ("<!---->a<!-->b-->", "a"),
        ("<!--a-->b<!--", "b<!--"),
    ],
)
def test_whole_comments_are_left_out_and_nothing_else(text: str, left: str) -> None:
    assert without_comments(text) == left


def seconds(read: Callable[[str], object], text: str) -> float:
    def once() -> float:
        before = time.process_time()
        read(text)
        return time.process_time() - before

    return min(once() for _ in range(3))


@pytest.mark.parametrize("read", [facts, lambda text: without(text, lambda _: True), strip_hidden, without_comments])
@pytest.mark.parametrize("unit", ["<!--", "<!-- ", "<!--\n", "a <!--"])
def test_comments_never_closed_take_no_longer_by_their_square(read: Callable[[str], object], unit: str) -> None:
    few, many = (unit * (size // len(unit)) for size in (20_000, 80_000))
    assert seconds(read, many) < 8 * seconds(read, few)
