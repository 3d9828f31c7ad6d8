"""Our renderer beside the two that users would take instead, over the corpus, by one referee."""

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any, ClassVar

import chatgpt_md_converter  # type: ignore[import-untyped, unused-ignore]
import pytest
import telegramify_markdown

from adapters.standins.telegram_text import TEXT_LIMIT
from adapters.text import telegram
from tests.unit.adapters.rendering_referee import Case, Messages, cases, faults

CASES = {case.name: case for case in cases()}


def ours(markdown: str) -> Messages:
    return [(part.text, list(part.entities)) for part in telegram.render(markdown)]


def telegramify(markdown: str) -> Messages:
    text, entities = telegramify_markdown.convert(markdown)
    parts = telegramify_markdown.split_entities(text, entities, TEXT_LIMIT)
    return [(part, [entity.to_dict() for entity in inside]) for part, inside in parts]


def converter(markdown: str) -> Messages:
    html = chatgpt_md_converter.telegram_format(markdown)
    return [read_html(part) for part in chatgpt_md_converter.split_html_for_telegram(html)]


class _Html(HTMLParser):
    """Reads HTML as the Bot API does: into text and entities."""

    KINDS: ClassVar = {
        **{"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "s": "strikethrough", "u": "underline"},
        **{"code": "code", "pre": "pre", "a": "text_link", "blockquote": "blockquote", "span": "spoiler"},
    }

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.entities: list[dict[str, Any]] = []
        self._open: list[tuple[str, dict[str, str | None], int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append((tag, dict(attrs), self._units()))

    def handle_endtag(self, tag: str) -> None:
        opened, attributes, start = self._open.pop()
        kind = self.KINDS.get(tag, tag) if opened == tag else f"{opened} ended as {tag}"
        if self._units() == start or (tag == "code" and self._open and self._open[-1][0] == "pre"):
            return
        entity = {"type": kind, "offset": start, "length": self._units() - start}
        self.entities.append(entity | ({"url": attributes.get("href")} if tag == "a" else {}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def _units(self) -> int:
        return len(self.text.encode("utf-16-le")) // 2


def read_html(html: str) -> tuple[str, list[dict[str, Any]]]:
    reader = _Html()
    reader.feed(html)
    reader.close()
    return reader.text, reader.entities


def judged(render: Callable[[str], Messages], case: Case) -> list[str]:
    try:
        return faults(case, render(case.markdown))
    except Exception as failure:  # noqa: BLE001 - whatever a library raises: there was no message
        return [f"failed: {failure!r}"]


@pytest.mark.parametrize("name", CASES)
def test_no_rule_is_broken_by_our_messages(name: str) -> None:
    assert judged(ours, CASES[name]) == []


@pytest.mark.parametrize("other", [telegramify, converter])
def test_the_referee_finds_the_faults_of_others(other: Callable[[str], Messages]) -> None:
    broken = {name for name, case in CASES.items() if judged(other, case)}
    assert {"cjk_emphasis", "formulas", "html_looking", "bare_addresses"} & broken


@pytest.mark.parametrize("other", [telegramify, converter])
def test_the_referee_passes_the_others_where_they_are_right(other: Callable[[str], Messages]) -> None:
    assert [name for name, case in CASES.items() if not judged(other, case)]
