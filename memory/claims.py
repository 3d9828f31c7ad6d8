"""What a memory says, cut so that whatever a rewrite leaves out can be counted: its claims.

Each fact in plain words is one (`memory.facts`), and so is each line of a quote, a table or code, be it within a fact
or alone. A note that has none of either says its description and its comments, or its headings if there is no
description; an index says what stands between its pointers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

from memory import comments
from memory.blocks import Block, blocks
from memory.facts import described, facts_of, is_index
from memory.metadata import parse

_SAYING = regex.compile(r"[\p{L}\p{N}]")
_MARKS = regex.compile(r"\A[\s>|]*+(?:[-*+]\s++)?|<[^<>\n]*+>|[|\s]++\Z")
_FENCE = regex.compile(r"[\s>]*+(?:`{3}|~{3})")
_DELIMITERS = regex.compile(r"(?=[^|\n]*+\|)(?=[^-\n]*+-)[\s|:>-]++\Z")
_HEADING = regex.compile(r"\s{0,3}#{1,6}\s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What a memory says: `plain` are facts in plain words, `lined` lines of what is no plain text.

    `beside` is what stands where no reader looks for facts, such as comments; a fact that is only there has gone.
    """

    plain: tuple[str, ...]
    lined: tuple[str, ...]
    beside: tuple[str, ...]


def claims(files: Mapping[str, str]) -> Claims:
    """Return the claims of some files, each text by its name; the same words twice are one claim."""
    found = [_claims_of(name, text) for name, text in files.items()]
    return Claims(
        plain=_distinct(claim for each in found for claim in each.plain),
        lined=_distinct(claim for each in found for claim in each.lined),
        beside=_distinct(claim for each in found for claim in each.beside),
    )


def _claims_of(name: str, text: str) -> Claims:
    if is_index(name):
        return Claims(plain=(), lined=(), beside=tuple(facts_of(text, name)))
    _, body = parse(text)
    found = [block for block in blocks(body) if block.text]
    plain = tuple(block.bare for block in found if _SAYING.search(block.bare))
    lined = tuple(line for block in found for line in _lines(block))
    if plain or lined:
        return Claims(plain=plain, lined=lined, beside=())
    about = tuple(described(text))
    return Claims(plain=about, lined=(), beside=(*_commented(body), *(() if about else _headings(body))))


def _lines(block: Block) -> Iterator[str]:
    """Yield the lines of a block that are no plain text; the head of a table only says what its rows are."""
    seen = [line.seen for line in block.lines[block.aside :]]
    for line, below in pairwise([*seen, ""]):
        said = _MARKS.sub("", line)
        if _SAYING.search(said) and not _FENCE.match(line) and not _DELIMITERS.match(below):
            yield said


def _commented(body: str) -> Iterator[str]:
    for piece, is_comment in comments.parts(body):
        for line in piece.removeprefix("<!--").removesuffix("-->").split("\n") if is_comment else ():
            if _SAYING.search(line):
                yield line.strip()


def _headings(body: str) -> Iterator[str]:
    return (line for line in comments.without_comments(body).split("\n") if _HEADING.match(line))


def _distinct(found: Iterable[str]) -> tuple[str, ...]:
    by_form: dict[str, str] = {}
    for claim in found:
        by_form.setdefault(claim.casefold(), claim)
    return tuple(by_form.values())


def all_of(said: Claims) -> Sequence[str]:
    """Return all claims."""
    return [*said.plain, *said.lined, *said.beside]
