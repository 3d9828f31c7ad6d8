"""What each fact of a note stands under, the nearest first, and where that ends."""

import pytest

from memory.contexts import called, is_label, parts


def under(body: str, text: str) -> tuple[str, ...]:
    return next(part.under for part in parts(body) if part.text == text)


def test_a_heading_ends_with_the_next_of_its_level_and_a_label_with_the_next_heading_or_label() -> None:
    body = "# A\n\n## B\n\nFood:\n\n- x\n\n**Ways**\n\n- y\n\n## C\n\n- z\n"
    assert under(body, "x") == ("Food:", "B", "A")
    assert under(body, "y") == ("**Ways**", "B", "A")
    assert under(body, "z") == ("C", "A")


def test_an_item_stands_over_those_that_are_further_in_and_over_no_others() -> None:
    body = "- a\n  - b\n    - c\n  - d\n- e\n\nf\n"
    assert under(body, "c") == ("b", "a")
    assert under(body, "d") == ("a",)
    assert under(body, "e") == under(body, "f") == ()


def test_what_is_folded_away_ends_with_its_tag() -> None:
    body = "<details><summary>A</summary>\n\n- x\n\n</details>\n\n- y\n"
    assert under(body, "x") == ("A",)
    assert under(body, "y") == ()


def test_a_row_of_a_table_has_its_cells_with_their_heads() -> None:
    (row,) = parts("| Who | What |\n| --- | --- |\n| Ann | tea \\| milk |\n")
    assert row.cells == (("Who", "Ann"), ("What", "tea \\| milk"))


def test_a_note_is_called_by_its_file_its_header_and_its_folders() -> None:
    header = {"name": "food", "author": "Ann", "description": "what Bob likes"}
    assert called("about-ann/what_she-eats.md", header) == ("What She Eats food", "Ann", "About Ann")


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("Ann:", True),
        ("**Ann**", True),
        ("__Ann__.", True),
        ("<b>Ann</b>", True),
        ("Ann", False),
        ("**A** and **B**", False),
    ],
)
def test_a_label_ends_with_a_colon_or_is_all_in_one_emphasis(line: str, is_one: bool) -> None:
    assert is_label(line) is is_one


def test_thousands_of_folds_and_items_within_one_another_are_read_at_once() -> None:
    body = "<details><summary>x</summary>\n" * 3000 + "".join(f"{' ' * depth}- y\n" for depth in range(300))
    assert max(len(part.under) for part in parts(body)) < 30
