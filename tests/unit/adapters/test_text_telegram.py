import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.standins.telegram_text import formatted
from adapters.text.telegram import MAX_ENTITIES, MAX_UNITS, PLACEHOLDER, TelegramPart, render, utf16_units

PIECES = (
    st.sampled_from(
        [
            "word ",
            "**b** ",
            "*i* ",
            "~~s~~ ",
            "`c` ",
            "[a](https://b.c) ",
            "[`x`](https://b.c) ",
            "**`y`** ",
            "\n",
            "\n\n",
            "- a\n",
            "  - b\n",
            "3. c\n",
            "> q\n",
            "> - z\n",
            "```py\n",
            "# h\n",
            "漢字。",
            "👨\u200d👩\u200d👧\u200d👦",
            "🇩🇪",
            "é",
            "<id> ",
            "***\n",
            "\ud800",
            "\x00",
            "\u200b",
            "&lt;",
            "**",
            "[",
            "    ",
        ]
    )
    | st.just("|a|b|\n|-|-|\n|1|2|\n")
    | st.sampled_from(["x" * 900, "😀" * 700])
)


def covered(part: TelegramPart, entity: dict[str, Any]) -> str:
    units = part.text.encode("utf-16-le")
    return units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")


def styles(part: TelegramPart) -> list[tuple[str, str]]:
    return [(entity["type"], covered(part, entity)) for entity in part.entities]


@settings(max_examples=200, deadline=None)
@given(markdown=st.one_of(st.lists(PIECES, max_size=80).map("".join), st.text(max_size=300)))
def test_the_api_takes_every_part_and_drops_nothing_of_it(markdown: str) -> None:
    parts = render(markdown)
    assert parts
    for part in parts:
        assert utf16_units(part.text) <= MAX_UNITS
        taken = formatted(part.text, list(part.entities), parse_mode=None, limit=MAX_UNITS, may_be_empty=False)
        assert taken.oddities == ()


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.sampled_from(["word", "漢字。", "👨‍👩‍👧‍👦", "e\u0301", " ", "x" * 500]), min_size=1, max_size=100)
)
def test_the_parts_together_hold_every_visible_character(words: list[str]) -> None:
    text = "".join(words)
    whole = "".join("".join(part.text.split()) for part in render(text))
    assert whole == ("".join(text.split()) or "".join(PLACEHOLDER.split()))


@pytest.mark.parametrize("markdown", ["", " \n", "\u200b", "```\n```", "[](https://a.b)", "\u2800"])
def test_nothing_to_see_becomes_a_placeholder(markdown: str) -> None:
    assert render(markdown) == [TelegramPart(text=PLACEHOLDER)]


def test_styles_become_entities_counted_in_utf16_units() -> None:
    (part,) = render("😀 **bold *both*** ~~gone~~ `code` [link](https://a.b)")
    assert part.text == "😀 bold both gone code link"
    assert styles(part) == [
        ("bold", "bold both"),
        ("italic", "both"),
        ("strikethrough", "gone"),
        ("code", "code"),
        ("text_link", "link"),
    ]


def test_a_link_wins_over_code_and_code_over_bold() -> None:
    (part,) = render("[`a`](https://b.c) **b `c`**")
    assert styles(part) == [("text_link", "a"), ("bold", "b"), ("code", "c")]


def test_a_long_fence_is_closed_and_opened_again_in_its_language() -> None:
    parts = render("```py\n" + "value = 1\n" * 1000 + "```")
    assert len(parts) == 3
    assert [entity["language"] for part in parts for entity in part.entities] == ["py"] * 3
    assert all(styles(part) == [("pre", part.text)] for part in parts)


def test_a_narrow_table_is_monospace_and_a_wide_one_a_list() -> None:
    (narrow,) = render("|a|b|\n|-|-|\n|1|2|")
    assert [kind for kind, _ in styles(narrow)] == ["pre"]
    (wide,) = render(f"|a|b|\n|-|-|\n|{'x' * 30}|{'y' * 30}|")
    assert wide.text.startswith("• xxx")
    assert "b: yyy" in wide.text


def test_tasks_are_ticked_and_spoilers_hidden() -> None:
    (part,) = render("- [x] done\n1. [ ] not\n\n||who||")
    assert part.text == "☑ done\n\n1. ☐ not\n\nwho"
    assert styles(part) == [("spoiler", "who")]


def test_a_formula_of_several_lines_is_no_list() -> None:
    markdown = "\\[\na\n- b_1 * c\n= d * e\n\\]"
    assert render(f"So:\n{markdown}\n\nend") == [TelegramPart(text=f"So:\n\n{markdown}\n\nend")]


def test_quotes_are_not_nested() -> None:
    (part,) = render("> outer\n> > inner")
    assert styles(part) == [("blockquote", "outer\n> inner")]


def test_html_stays_as_it_was_written() -> None:
    (part,) = render("<id> & <b>x</b>")
    assert part == TelegramPart(text="<id> & <b>x</b>")


def test_a_part_has_no_more_entities_than_telegram_keeps() -> None:
    parts = render("`a` " * 1000)
    assert sum(len(part.entities) for part in parts) == 1000
    assert max(len(part.entities) for part in parts) <= MAX_ENTITIES


def seconds(markdown: str) -> float:
    def once() -> float:
        start = time.process_time()
        render(markdown)
        return time.process_time() - start

    return min(once() for _ in range(3))


@pytest.mark.parametrize("unit", ["x", "lorem ipsum. ", "漢", "👨‍👩‍👧‍👦", "🇩🇪", "e\u0301"])
def test_one_line_of_fifty_kilobytes_takes_time_in_proportion(unit: str) -> None:
    count = 50_000 // len(unit.encode())
    assert seconds(unit * count) < 8 * seconds(unit * (count // 4)) + 0.05


LINES = ["# a\n", "- a\n", "a\n\n", "> a\n", "|a|b|\n", "```\n", "  ```\n", "$$\n"]
MARKS = [
    "`a` ",
    "*a* ",
    "*a_",
    "[",
    "](",
    "[a](",
    "![",
    "http://",
    "https://a.b/(",
    "||a ",
    "~~a",
    "$a ",
    "\\\\(",
    "`a``b```",
    "<a",
]


@pytest.mark.parametrize("unit", [*LINES, *MARKS, "&", "[a](https://b.c) ", "👨\u200d", "\u0301"])
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    table = "|a|b|\n|-|-|\n" if unit.startswith("|") else ""
    assert seconds(table + unit * 8000) < 8 * seconds(table + unit * 2000) + 0.05
