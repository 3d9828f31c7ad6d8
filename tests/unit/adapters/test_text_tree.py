import time
from collections.abc import Callable

import pytest

from adapters.text import slack, telegram
from adapters.text.layout import lay_out
from adapters.text.reading import parse
from adapters.text.tables import aligned, table_as_list
from adapters.text.tree import Bullets, Document, Fence, Paragraph, Quote, Span, Table, text_of


def only(markdown: str) -> object:
    (block,) = parse(markdown).blocks
    return block


def test_styles_are_flat_and_add_up() -> None:
    assert only("a **b *c* ~~d~~**`e`") == Paragraph(
        spans=(
            Span(text="a "),
            Span(text="b ", bold=True),
            Span(text="c", bold=True, italic=True),
            Span(text=" ", bold=True),
            Span(text="d", bold=True, strike=True),
            Span(text="e", code=True),
        )
    )


@pytest.mark.parametrize(
    "text", ["use <id> here", "<b>no</b>", "<!-- kept -->", "<div>\nkept\n</div>", "[Update]: done", "[x]: https://a.b"]
)
def test_what_looks_like_markup_of_another_kind_stays_text(text: str) -> None:
    assert lay_out(parse(text)).text == text


@pytest.mark.parametrize("href", ["https://a.b/c?d", "http://a.b", "mailto:a@b.c", "tg://user?id=1"])
def test_links_that_a_chat_can_follow_are_links(href: str) -> None:
    assert only(f"[x]({href})") == Paragraph(spans=(Span(text="x", href=href),))


@pytest.mark.parametrize("href", ["docs/a.md", "ftp://a.b", "http://", "https://a.b/" + "c" * 2100])
def test_other_links_are_written_out(href: str) -> None:
    assert only(f"[x]({href})") == Paragraph(spans=(Span(text=f"x ({href})"),))


def test_blank_text_has_no_blocks() -> None:
    assert parse(" \n\t\n").blocks == ()


@pytest.mark.parametrize("mark", ["> ", "- "])
def test_nesting_without_end_keeps_the_text(mark: str) -> None:
    text = lay_out(parse(mark * 500 + "the *end*\n\nand on")).text
    assert "the *end*" in text
    assert "and on" in text


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert lay_out(parse("a\ud83db")).text == "a\ufffdb"


def test_blocks_are_read_with_what_they_need() -> None:
    document = parse("7. a\n8. b\n\n~~~js x\ncode\n~~~\n\n> q\n\n|a|b|\n|:-:|-:|\n|1|2|")
    numbered, fence, quote, table = document.blocks
    assert isinstance(numbered, Bullets)
    assert numbered.start == 7
    assert fence == Fence(text="code", language="js")
    assert isinstance(quote, Quote)
    assert isinstance(table, Table)
    assert table.aligns == ("center", "right")


def table_of(markdown: str) -> Table:
    table = only(markdown)
    assert isinstance(table, Table)
    return table


def test_table_columns_line_up_where_cjk_takes_two() -> None:
    assert aligned(table_of("|name|n|\n|-|-:|\n|漢字|7|\n|a|10|")) == "name |  n\n-----+---\n漢字 |  7\na    | 10"


def test_a_table_as_a_list_leads_each_cell_by_its_heading() -> None:
    bullets = table_as_list(table_of("|name|age|\n|-|-|\n|Ann|7|\n|Bob||"))
    assert lay_out(Document(blocks=(bullets,))).text.replace("\u00a0", " ") == "• Ann\n  age: 7\n• Bob"


def test_long_headings_are_not_repeated_in_every_row() -> None:
    rows = "|x|y|\n" * 900
    bullets = table_as_list(table_of(f"|{'h' * 5000}|b|\n|-|-|\n{rows}"))
    assert len(lay_out(Document(blocks=(bullets,))).text) < 20_000


def seconds(render: Callable[[str], object], markdown: str) -> float:
    def once() -> float:
        before = time.process_time()
        render(markdown)
        return time.process_time() - before

    return min(once() for _ in range(3))


TABLE = "|a|*b*|c|d|\n|-|-|-|-|\n" + "|cell|*two*|[3](http://a.b)|four|\n" * 200
WIDE = f"{'|a' * 2000}|\n{'|-' * 2000}|\n" + f"{'|b' * 2000}|\n" * 2


@pytest.mark.parametrize("render", [telegram.render, slack.render])
@pytest.mark.parametrize("unit", ["*_[", "- a\n", "> a\n\n", "> ", "# a\n", TABLE, WIDE])
def test_what_nobody_could_read_takes_no_longer_by_its_square(render: Callable[[str], object], unit: str) -> None:
    few, many = (unit * (size // len(unit)) for size in (40_000, 160_000))
    assert seconds(render, many) < 8 * seconds(render, few)


@pytest.mark.parametrize("unit", ["a_", "a|b\n", WIDE, "[a", "a\\\\"])
def test_beyond_the_limits_a_text_stays_as_it_is_written(unit: str) -> None:
    markdown = unit * (60_000 // len(unit))
    (paragraph,) = parse(markdown).blocks
    assert isinstance(paragraph, Paragraph)
    assert text_of(paragraph.spans).endswith(markdown.strip()[-10_000:])


@pytest.mark.parametrize("unit", ["*a* ", "`a` ", "[a](https://b.c) "])
def test_the_beginning_of_a_line_of_too_many_marks_keeps_its_styles(unit: str) -> None:
    (paragraph,) = parse(unit * 9000).blocks
    assert isinstance(paragraph, Paragraph)
    assert sum(span != Span(text=span.text) for span in paragraph.spans) > 3000
    assert paragraph.spans[-1].text.endswith(unit.strip())


@pytest.mark.parametrize("mark", ["- ", "> ", "1. ", "\n", "# ", "> - "])
def test_beyond_the_limits_no_block_is_lost(mark: str) -> None:
    words = [f"w{number}" for number in range(9000)]
    shown = lay_out(parse("\n".join(mark + word for word in words))).text
    assert [word for word in shown.split() if word.startswith("w")] == words
    assert len(parse("\n".join(mark + word for word in words)).blocks) < 5000


def test_tables_beyond_the_limits_are_written_out_and_those_before_stay_tables() -> None:
    document = parse(f"{TABLE}\n{TABLE}\n{TABLE}\n{TABLE}")
    assert [type(block) for block in document.blocks] == [Table, Table, Paragraph, Paragraph]
    assert lay_out(document).text.count("[3](http://a.b)") == 400


def test_a_long_readable_answer_keeps_its_styles_to_the_end() -> None:
    chapter = "## Chapter\n\nSome *words* and `code` in a **paragraph**.\n\n- one\n- two\n\n```py\nx = 1\n```\n\n"
    blocks = parse(chapter * 200 + "the *end*").blocks
    assert blocks[-1] == Paragraph(spans=(Span(text="the "), Span(text="end", italic=True)))
