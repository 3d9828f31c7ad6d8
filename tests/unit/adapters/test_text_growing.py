"""Rendering a text while it grows, and reading it by stretches."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.standins.slack_blocks import Limits, check_blocks
from adapters.text import slack, telegram
from adapters.text.reader import Budget, read_blocks
from adapters.text.reading import Reading, blocks_of_tokens, parse
from adapters.text.tree import Document
from tests.unit.adapters.rendering_referee import cases

LINES = ["word ", "a\n", "- a\n", "  - b\n", "3. c\n", "1. x\n", "> q\n", "```\n", "```py\n", "  ```\n", "   ```\n"]
LINES += ["~~~\n", "````\n", "# h\n", "\n", "\n\n", "    ", "  ", "\t", "|a|b|\n|-|-|\n", "|1|2|\n", "***\n", "---\n"]
LINES += [
    "===\n",
    "**b** ",
    "`c",
    "$$\n",
    "\\[\n",
    "\\]\n",
    "- [ ] t\n",
    " \n",
    "漢",
    "1",
    "-",
    "#",
    "+ \n",
    "text\n\n",
]
LONG = ["x" * 900, "word " * 200, "漢字。" * 300, "[l](https://a.b) " * 30, "😀" * 700, "||s|| ", "\u200b"]
GROWING: list[Callable[[], Any]] = [
    telegram.Growing,
    lambda: telegram.Growing(first=telegram.MAX_CAPTION),
    slack.Growing,
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=14).map("".join))
def test_reading_by_stretches_gives_what_reading_the_whole_gives(markdown: str) -> None:
    budget = Budget()
    whole = blocks_of_tokens(read_blocks(markdown, budget), budget)
    assert parse(markdown) == Document(blocks=whole)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=14), st.data())
def test_what_is_finished_never_changes(pieces: list[str], data: st.DataObject) -> None:
    reading, markdown = Reading(), "".join(pieces)
    for cut in sorted(data.draw(st.lists(st.integers(0, len(markdown)), max_size=4))):
        assert reading.read(markdown[:cut]) == parse(markdown[:cut])
    assert reading.read(markdown) == parse(markdown)


@pytest.mark.parametrize("made", GROWING)
@settings(max_examples=40, deadline=None)
@given(pieces=st.lists(st.sampled_from(LINES + LONG), max_size=40), often=st.integers(1, 5))
def test_a_growing_answer_is_rendered_as_the_whole_would_be(
    made: Callable[[], Any], pieces: list[str], often: int
) -> None:
    growing, markdown = made(), ""
    for number, piece in enumerate(pieces):
        markdown += piece
        if number % often == 0:
            assert growing.render(markdown) == made().render(markdown)


def test_another_text_than_before_is_rendered_from_its_beginning() -> None:
    growing = telegram.Growing()
    for markdown in ("# one\n\ntwo\n\nthree", "# one\n\nnew\n\nthree", "# one", ""):
        assert growing.render(markdown) == telegram.render(markdown)


class Watched(telegram.Growing):
    """Counts what it lays out."""

    laid = 0

    def shown(self, document: Document) -> telegram.TelegramPart | None:
        self.laid += 1
        return super().shown(document)


@pytest.mark.parametrize("paragraphs", [800, 3000])
def test_what_is_finished_is_not_laid_out_again(paragraphs: int) -> None:
    growing, markdown = Watched(), "a long paragraph\n\n" * paragraphs
    before = len(growing.render(markdown))
    growing.laid = 0
    assert growing.render(markdown + "end") == telegram.render(markdown + "end")
    assert growing.laid <= before // 3  # beyond what is read as Markdown all of the rest is


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_slack_takes_every_message_of_the_corpus(case: Any) -> None:
    for part in slack.render(case.markdown):
        assert check_blocks(part["blocks"], Limits()) == part["blocks"]
        assert len(part["text"]) <= slack.MAX_TEXT


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_caption_holds_what_fits_and_messages_the_rest(case: Any) -> None:
    caption, *others = telegram.render(case.markdown, first=telegram.MAX_CAPTION)
    assert telegram.utf16_units(caption.text) <= telegram.MAX_CAPTION
    assert all(telegram.utf16_units(part.text) <= telegram.MAX_UNITS for part in others)
