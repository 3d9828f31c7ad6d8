"""Markdown as plain text."""

from adapters.text.plain import render


def test_marks_are_gone_and_addresses_are_there() -> None:
    markdown = "# Head\n\nSome **bold** `code`, [a link](https://a.b) and <https://c.d>."
    assert render(markdown) == "Head\n\nSome bold code, a link (https://a.b) and https://c.d."


def test_lists_quotations_and_tasks_keep_their_shape() -> None:
    assert render("3. c\n   - [x] done\n   - [ ] not\n\n> said") == "3. c\n   • ☑ done\n   • ☐ not\n\n> said"


def test_fences_and_tables_stay_in_columns() -> None:
    assert render("```py\nx\n```\n\n|a|n|\n|-|-:|\n|漢|1|") == "```py\nx\n```\n\n```\na  | n\n---+--\n漢 | 1\n```"


def test_nothing_that_was_written_is_escaped_or_hidden() -> None:
    assert render("<id> & ||secret||") == "<id> & ||secret||"
