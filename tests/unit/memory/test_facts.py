import time

import pytest

from memory.facts import facts, vanished


def test_each_list_item_and_each_paragraph_is_a_fact() -> None:
    text = """---
name: Tea
description: not a fact
---
# Heading

Ann drinks tea.
It is green.

- milk first <!-- from=12 -->
  and then the tea
1. no sugar
## More
Last one.
---
"""
    assert facts(text) == [
        "Ann drinks tea. It is green.",
        "milk first and then the tea",
        "no sugar",
        "Last one.",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ann prefers the early train", "Ann prefers the early train to Kiel"),
        ("Ann really prefers the early train.", "ANN prefers the early train"),
        ("安喜欢早班火车", "安喜欢坐早班火车去"),
    ],
)
def test_a_fact_in_slightly_other_words_has_survived(before: str, after: str) -> None:
    assert vanished([before], ["something else", after]) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ann prefers the early train", "Bob lives in Kiel"),
        ("安喜欢早班火车", "他住在基尔"),
        ("Ann prefers the early train", ""),
    ],
)
def test_a_fact_that_is_nowhere_any_more_has_vanished(before: str, after: str) -> None:
    assert vanished([before, "kept"], [after, "Kept"]) == [before]


@pytest.mark.parametrize("unit", ["- ", "* ", "=", "_  ", " ", "1"])
def test_a_line_that_is_almost_a_rule_takes_no_longer_by_its_square(unit: str) -> None:
    def seconds(size: int) -> float:
        line = f"{unit * (size // len(unit))}x"
        before = time.process_time()
        facts(line)
        return time.process_time() - before

    few, many = (min(seconds(size) for _ in range(3)) for size in (40_000, 160_000))
    assert many < 8 * few
