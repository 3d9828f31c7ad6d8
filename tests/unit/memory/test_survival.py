"""Which claims count as left out by a rewrite, and which as said in another way."""

import pytest

from memory.survival import left_out


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The rent is due in 3 days", "The rent is due on 2031-05-05"),
        ("The rent is due in three days", "The rent is due on 2031-05-05"),
        ("Rent due in a couple of weeks", "Rent due on 2031-05-16"),
        ("Meets Bo the day after tomorrow", "Meets Bo on 2031-05-04"),
        ("Met Bo eleven weeks ago", "Met Bo on 2031-02-14"),
        ("Miete in drei Tagen fällig", "Miete am 2031-05-05 fällig"),
        ("Miete übermorgen fällig", "Miete am 2031-05-04 fällig"),
        ("明天交房租", "2031-05-03交房租"),
        ("下周三交房租给安", "2031-05-07交房租给安"),
        ("三天后交房租给安", "2031-05-05交房租给安"),
        ("来週の金曜日に家賃を払う", "2031-05-09に家賃を払う"),
    ],
)
def test_a_relative_day_that_became_a_date_leaves_nothing_out(before: str, after: str) -> None:
    assert left_out([before], [after]) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The rent is due in three days", "The rent is due"),
        ("The rent is due in three days", "The tea is due on 2031-05-05"),
        ("明天交房租", "交房租"),
        ("明天交房租", "2031-05-03安喜欢茶"),
        ("Takes 3 pills daily", "Takes pills daily since 2031-05-02"),
    ],
)
def test_a_relative_day_without_a_date_in_its_place_and_what_else_is_missing_is_left_out(
    before: str, after: str
) -> None:
    assert left_out([before], [after]) == [before]


@pytest.mark.parametrize(
    ("before", "after", "survives"),
    [
        ("Ann drinks green tea", "Ann drinks green tea, never coffee", True),
        ("Ann drinks green tea", "Ann never drinks green tea", False),
        ("Bob owes Ann 5 euros", "Ann owes Bob 5 euros", False),
        ("The oven is at 180 degrees", "The oven is at 200 degrees", False),
        ("The train leaves at 9 pm", "The train leaves at 21:00", True),
    ],
)
def test_a_claim_survives_in_its_words_with_its_numbers_names_and_denials(
    before: str, after: str, survives: bool
) -> None:
    assert (left_out([before], [after]) == []) is survives
