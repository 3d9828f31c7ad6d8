"""What a memory says, cut so that whatever a rewrite leaves out can be counted: its claims.

Each fact in plain words is one (`memory.facts`), and so is each line of a quote, a table or code, be it within a fact
or alone, without what a reader does not see there: what is struck out, where links lead, titles and attributes. A note
that has none of either says its description and its comments, or its headings if there is no description; an index says
what stands between its pointers.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import regex

from memory import comments
from memory.blocks import Block
from memory.contexts import called, placed
from memory.facts import described, facts_of
from memory.index import is_index
from memory.metadata import parse

_SAYING = regex.compile(r"[\p{L}\p{N}]")
_MARKS = regex.compile(r"\A[\s>|]*+(?:[-*+]\s++)?|<[^<>\n]*+>|[|\s]++\Z")
_FENCE = regex.compile(r"[\s>]*+(?:`{3}|~{3})")
_DELIMITERS = regex.compile(r"(?=[^|\n]*+\|)(?=[^-\n]*+-)[\s|:>-]++\Z")
_HEADING = regex.compile(r"\s{0,3}#{1,6}\s")
_DEFINITION = regex.compile(r"\s{0,3}\[(?!\^)[^\]\n]++\]:")
_TARGET = regex.compile(r"""(?<=\])\((?:[^()<>"\n]|<[^<>\n]*+>|"[^"\n]*+"|\([^()\n]*+\))*+\)""")
_STRUCK = regex.compile(r"~~(?=\S)[^~\n]++~~|<(del|s|strike)\b[^<>]*+>[^<>]*+</\1>", regex.IGNORECASE)
_TAG = regex.compile(r"""</?\p{L}(?:[^<>"'\n]|"[^"\n]*+"|'[^'\n]*+')*+>""")
_ADDRESS = regex.compile(r"\p{L}[\w+.-]*+://[^\s<>()]++")


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What a memory says: `plain` are facts in plain words, `lined` lines of what is no plain text.

    `beside` is what stands where no reader looks for facts, such as comments; a fact that is only there has gone.
    """

    plain: tuple[str, ...]
    lined: tuple[str, ...]
    beside: tuple[str, ...]
    under: Mapping[str, Sequence[tuple[str, ...]]]
    """What each of the first two stands under, wherever it stands, by the claim in lower case (`memory.contexts`)."""


def claims(files: Mapping[str, str]) -> Claims:
    """Return the claims of some files, each text by its name; the same words twice are one claim."""
    found = [_claims_of(name, text) for name, text in files.items()]
    under: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for each in found:
        for claim, levels in each.under.items():
            under[claim] += levels
    return Claims(
        plain=_distinct(claim for each in found for claim in each.plain),
        lined=_distinct(claim for each in found for claim in each.lined),
        beside=_distinct(claim for each in found for claim in each.beside),
        under={claim: tuple(dict.fromkeys(levels)) for claim, levels in under.items()},
    )


def _claims_of(name: str, text: str) -> Claims:
    if is_index(name):
        return Claims(plain=(), lined=(), beside=tuple(facts_of(text, name)), under={})
    metadata, body = parse(text)
    about = tuple(described(text))
    own = called(name, metadata)
    plain, lined, beside = list[str](), list[str](), list[str]()
    under: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for block, levels in placed(body):
        facts = list(filter(_SAYING.search, [visible(block.bare)]))
        lines = list(filter(_SAYING.search, map(visible, _lines(block))))
        seen = [line.seen for line in block.lines]
        heads = [line for line, below in pairwise(seen) if _DELIMITERS.match(below)]
        plain += facts
        lined += lines
        beside += _hidden(block)
        for claim in (*facts, *lines):
            under[claim.casefold()].append((*heads, *levels, *own))
    if plain or lined:
        return Claims(plain=tuple(plain), lined=tuple(lined), beside=tuple(beside), under=under)
    beside += [*_commented(body), *(() if about else _headings(body))]
    return Claims(plain=about, lined=(), beside=tuple(beside), under={})


def visible(text: str) -> str:
    """Return what a reader sees of a line, and no address: no titles of links, no attributes, nothing struck out."""
    if _DEFINITION.match(text):
        return ""
    for unseen in (_TARGET, _ADDRESS, _STRUCK, _TAG):
        text = unseen.sub(" ", text)
    return " ".join(text.split())


def _hidden(block: Block) -> Iterator[str]:
    """Yield the definitions of links, and all other addresses: a link and its words may part."""
    for line in (line.seen for line in block.lines):
        yield from [line.strip()] if _DEFINITION.match(line) else _ADDRESS.findall(line)


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
