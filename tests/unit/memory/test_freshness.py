"""Age is elapsed time."""

import pytest

from memory.freshness import age_days, age_words, freshness_note

HOUR = 3600.0


@pytest.mark.parametrize(
    ("hours", "days", "words"),
    [
        (-5.0, 0, "today"),
        (0.0, 0, "today"),
        (23.99, 0, "today"),
        (24.0, 1, "yesterday"),
        (47.98, 1, "yesterday"),
        (48.0, 2, "2 days ago"),
        (24.0 * 400, 400, "400 days ago"),
    ],
)
def test_days_are_whole_and_never_negative(hours: float, days: int, words: str) -> None:
    now = 1_700_000_000.0
    assert age_days(now - hours * HOUR, now) == days
    assert age_words(days) == words


@pytest.mark.parametrize("days", [-1, 0, 1])
def test_a_note_of_up_to_two_days_carries_no_warning(days: int) -> None:
    assert freshness_note(days) == ""


def test_an_older_note_says_how_old_it_is_and_asks_for_a_check() -> None:
    text = freshness_note(2)
    assert "2 days ago" in text
    assert "Check it" in text
    assert "\n" not in text
