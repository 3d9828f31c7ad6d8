"""The corpus of answers, and a referee of plain rules over what a renderer makes of one for Telegram."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regex

from adapters.standins.telegram_text import TEXT_LIMIT, formatted
from adapters.standins.telegram_wire import Refused

_FOLDER = Path(__file__).parent / "corpus"

Messages = Sequence[tuple[str, list[dict[str, Any]]]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """An answer, and what is to be seen of it."""

    name: str
    markdown: str
    shown: tuple[str, ...]
    styled: tuple[tuple[str, str], ...]
    gone: tuple[str, ...]


def cases() -> list[Case]:
    """Return the corpus; a file without expectations, or the other way round, is a mistake."""
    expected = tomllib.loads((_FOLDER / "expected.toml").read_text())
    assert {path.stem for path in _FOLDER.glob("*.md")} == set(expected)
    return [
        Case(
            name=name,
            markdown=(_FOLDER / f"{name}.md").read_text(),
            shown=tuple(facts["shown"]),
            styled=tuple((kind, text) for kind, text in facts.get("styled", ())),
            gone=tuple(facts.get("gone", ())),
        )
        for name, facts in expected.items()
    ]


def faults(case: Case, messages: Messages) -> list[str]:
    """Return each rule that the messages break."""
    return [*_refused(messages), *_unseen(case, messages), *_unstyled(case, messages), *_cut(case, messages)]


def _refused(messages: Messages) -> Iterator[str]:
    for text, entities in messages:
        try:
            taken = formatted(text, entities, parse_mode=None, limit=TEXT_LIMIT, may_be_empty=False)
        except Refused as refusal:
            yield f"refused: {refusal}"
        else:
            yield from taken.oddities


def _unseen(case: Case, messages: Messages) -> Iterator[str]:
    whole = _spaced(" ".join(text for text, _ in messages))
    yield from (f"lost: {words}" for words in case.shown if _spaced(words) not in whole)
    yield from (f"left over: {mark}" for mark in case.gone if _spaced(mark) in whole)


def _unstyled(case: Case, messages: Messages) -> Iterator[str]:
    covered: dict[str, list[str]] = {}
    for text, entities in messages:
        units = text.encode("utf-16-le")
        for entity in entities:
            inside = units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])]
            covered.setdefault(entity["type"], []).append(_spaced(inside.decode("utf-16-le", "replace")))
    for kind, words in case.styled:
        if not any(_spaced(words) in inside for inside in covered.get(kind, ())):
            yield f"not {kind}: {words}"


def _cut(case: Case, messages: Messages) -> Iterator[str]:
    """Yield what stands at a cut and is only a piece of what a reader sees as one character."""
    whole = set(regex.findall(r"\X", case.markdown))
    joined = [cluster for cluster in whole if len(cluster) > 1]
    rows = [regex.findall(r"\X", text) for text, _ in messages]
    edges = {row[0] for row in rows[1:] if row} | {row[-1] for row in rows[:-1] if row}
    yield from (f"cut: {edge!r}" for edge in edges - whole if any(edge in cluster for cluster in joined))


def _spaced(text: str) -> str:
    return " ".join(text.split())
