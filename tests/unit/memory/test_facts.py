import time

import pytest

from memory.facts import facts, facts_of, forgettable, without


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


@pytest.mark.parametrize("unit", ["- ", "* ", "=", "_  ", " ", "1"])
def test_a_line_that_is_almost_a_rule_takes_no_longer_by_its_square(unit: str) -> None:
    def seconds(size: int) -> float:
        line = f"{unit * (size // len(unit))}x"
        before = time.process_time()
        facts(line)
        return time.process_time() - before

    few, many = (min(seconds(size) for _ in range(3)) for size in (40_000, 160_000))
    assert many < 8 * few


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "- bread[^1]\n[^1]: The key\n[^2]: The cat\n  sleeps\n",
            ["bread[^1]", "[^1]: The key", "[^2]: The cat sleeps"],
        ),
        ("[a]: <x> (The key)\n[b]: <y> (The cat)\n", ["[a]: <x> (The key)", "[b]: <y> (The cat)"]),
        ("bread\n<details>\n<summary>The key</summary>\nhangs\n</details>\n", ["bread", "The key", "hangs"]),
        ("<details><summary>The key</summary>\n\n- hangs\n\n</details>\n", ["The key", "hangs"]),
    ],
)
def test_each_footnote_and_definition_and_what_is_folded_away_is_a_fact_of_its_own(text: str, found: list[str]) -> None:
    assert facts(text) == found
    for place, each in enumerate(found):
        assert facts(without(text, each.__eq__)) == [*found[:place], *found[place + 1 :]]


def test_a_line_of_code_that_looks_like_a_footnote_stays_within_its_fence() -> None:
    text = "```\nx\n[^1]: y\n```\n\nThe cat\n"
    assert facts(text) == ["``` x [^1]: y ```", "The cat"]


def test_a_description_above_facts_can_be_forgotten_and_counts_as_none_of_them() -> None:
    text = "---\ndescription: about keys\n---\n\n- The key hangs\n"
    assert (facts_of(text), forgettable(text)) == (["The key hangs"], ["The key hangs", "about keys"])
    alone = "---\ndescription: about keys\n---\n"
    assert (facts_of(alone), forgettable(alone)) == (["about keys"], ["about keys"])
