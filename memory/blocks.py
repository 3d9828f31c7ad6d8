"""The lines of a note, cut into facts and what stands around them, and how some of them are taken out.

A fact is a list item or a paragraph; each footnote, each definition below another one and the summary of what is folded
away is one by itself. Headings, comments, quotes, tables, code and footnotes stand around facts; where such a thing has
words of its own, they may tell what a fact told.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import regex

from memory import comments

ITEM = regex.compile(r"\s*+(?:[-*+]|\d++[.)])\s++(?=\S)")
_HEADING = regex.compile(r"\s{0,3}(?:#{1,6}\s|(?:[-*_=]\s*+){3,}+$)")  # or a rule, or an underline
_UNDERLINE = regex.compile(r"\s{0,3}(?:=++|-++)\s*+\Z")
_ASIDE = regex.compile(r"\s*+(?:[>|<:]|\[[^\]\n]*+\]:|`{3}|~{3})")  # a quote, table, HTML, definition, footnote, code
_INDENTED = regex.compile(r"(?: {4}| {0,3}\t)")
_FOOTNOTE = regex.compile(r" {0,3}\[\^[^\]\n]++\]:")
_DEFINITION = regex.compile(r" {0,3}\[[^\]\n]++\]:")
_SUMMARY = regex.compile(r"\s{0,3}(?:<details\b[^<>\n]*+>\s*+)?<summary\b", regex.IGNORECASE)
_FOLD = regex.compile(r"\s*+(?:</?(?:details|summary)\b[^<>\n]*+>\s*+)++\Z", regex.IGNORECASE)
_FOLD_TAG = regex.compile(r"</?(?:details|summary)\b[^<>\n]*+>", regex.IGNORECASE)
_SUMMED_UP = regex.compile(r"[^\n]*</summary>\s*+\Z", regex.IGNORECASE)
_DELIMITERS = regex.compile(r"(?=[^|\n]*+\|)(?=[^-\n]*+-)[\s|:-]++\Z")  # below the head of a table
_TOGETHER = 3
"""How many lines are looked at as one: what is told in a sentence may go over a line's end."""
_FENCE = regex.compile(r"\s*+(`{3,}+|~{3,}+)")
_LINK_TITLE = regex.compile(
    r"""(?<=\]\((?:[^()\s]{1,1000}|<[^<>\n]{1,1000}>))\s++(?:"[^"\n]*+"|'[^'\n]*+'|\([^()\n]*+\))(?=\s*+\))"""
)


@dataclass(kw_only=True, slots=True)
class Line:
    """A line as a reader sees it: `pieces` of the text, each with whether it is a comment, which may be many lines."""

    pieces: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def seen(self) -> str:
        """The line without its comments."""
        return "".join(piece for piece, is_comment in self.pieces if not is_comment)

    @property
    def raw(self) -> str:
        """The line as it stands in the file."""
        return "".join(piece for piece, _ in self.pieces)

    def rewritten(self, *, seen: Callable[[str], str], comment: Callable[[str], str]) -> "Line":
        """Return the line with each piece changed."""
        return Line(pieces=[(comment(piece) if hidden else seen(piece), hidden) for piece, hidden in self.pieces])


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Lines that stand together: a list item, a paragraph or the like, or else one heading or blank line."""

    lines: tuple[Line, ...]
    text: str = ""
    """Of an item or a paragraph its words on one line; empty for all else."""
    aside: int = 0
    """From which line on it is a quote, a table, code or the like, which tells something beside the facts."""

    @property
    def bare(self) -> str:
        """The words of an item or a paragraph alone: without what is aside, and without what links hide."""
        seen = [_LINK_TITLE.sub("", line.seen) for line in self.lines[: self.aside]]
        return joined(seen) if self.text else ""

    @property
    def beside(self) -> tuple[str, ...]:
        """The lines of an item or a paragraph that are aside, as a reader sees them."""
        return tuple(line.seen for line in self.lines[self.aside :]) if self.text else ()


def texts(body: str) -> list[str]:
    """Return the texts of the list items, paragraphs and the like in a note's body."""
    seen = comments.without_comments(body).split("\n")
    return [joined(seen[start:end]) for start, end, alone in _spans(seen) if not alone]


def blocks(body: str) -> list[Block]:
    """Return a note's body as blocks; the raw lines of all of them are the body."""
    lines = _lines(body)
    seen = [line.seen for line in lines]
    in_code = _in_code(seen)
    found: list[Block] = []
    for start, end, alone in _spans(seen):
        span = seen[start:end]
        words = "" if alone else joined(span)
        aside = 0 if alone or start in in_code else _aside(span, below=seen[end : end + 1])
        found.append(Block(lines=tuple(lines[start:end]), text=words, aside=aside))
    return found


def joined(lines: Sequence[str]) -> str:
    """Return the lines of an item or paragraph as one, without the bullet and the tags that fold something away."""
    text = " ".join(_FOLD_TAG.sub(" ", " ".join(lines)).split())
    item = ITEM.match(text)  # searched for in the middle, it would take time by the square of a run of blanks
    return text[item.end() :] if item else text


def cleared(
    found: Sequence[Block], drop: Callable[[str], bool], *, betrays: Callable[[str], bool] | None = None
) -> str:
    """Return the body without the blocks whose text `drop` says yes to, and without what else `betrays` says yes to.

    Facts that stay do so to the letter, with a quote, code or a table that is part of them, but for comments and titles
    of links. None is joined to another one by what goes between them.
    """
    left: list[tuple[int, Line]] = []
    headless = False
    for place, block in enumerate(found):
        if headless and not block.text and _UNDERLINE.match(block.lines[0].seen):
            headless = False  # it made a heading of what is gone
            continue
        if block.text and drop(block.text):
            lines: Sequence[Line] = ()
        else:
            lines = _kept(block, betrays) if betrays else block.lines
        headless = bool(block.text) and not lines and not ITEM.match(block.lines[0].seen)
        left += [(place, line) for line in lines]
    return "\n".join(_apart(left))


def without_telling(lines: Sequence[str], betrays: Callable[[str], bool]) -> list[str]:
    """Return the lines without those that betray something, each alone or with those next to it."""
    told = _telling(lines, betrays)
    return [line for place, line in enumerate(lines) if place not in told]


def _telling(lines: Sequence[str], betrays: Callable[[str], bool]) -> set[int]:
    told = {place for place, line in enumerate(lines) if betrays(line)}
    left = [place for place in range(len(lines)) if place not in told]
    for size in range(2, _TOGETHER + 1):
        for start in range(len(left) - size + 1):
            near = left[start : start + size]
            if told.isdisjoint(near) and betrays(joined([lines[place] for place in near])):
                told.update(near)
    return told


def _kept(block: Block, betrays: Callable[[str], bool]) -> Sequence[Line]:
    def titled(piece: str) -> str:
        return _LINK_TITLE.sub(lambda title: "" if betrays(title[0]) else title[0], piece)

    def comment(piece: str) -> str:
        return comments.EMPTY if _telling(piece.split("\n"), betrays) else piece

    lines = [line.rewritten(seen=titled, comment=comment) for line in block.lines]
    if block.aside:
        return lines
    if block.text:
        return _aside_without(lines, betrays)
    emptied = not lines[0].seen.strip() and lines[0].raw != block.lines[0].raw
    return [] if emptied or betrays(lines[0].seen) else lines


def _aside_without(lines: Sequence[Line], betrays: Callable[[str], bool]) -> Sequence[Line]:
    """Drop the lines that betray, of a fence only the words behind it: without it all below would become code."""
    fences = {place: fence[0] for place, line in enumerate(lines) if (fence := _FENCE.match(line.seen))}
    told = _telling([line.seen for line in lines], betrays)
    bare = {place: Line(pieces=[(fence, False)]) for place, fence in fences.items() if place in told}
    return [bare.get(place, line) for place, line in enumerate(lines) if place not in told or place in bare]


def _apart(left: Sequence[tuple[int, Line]]) -> Iterator[str]:
    """Yield the raw lines, with a blank one where two blocks would become one."""
    for (before, line), (after, below) in pairwise([*left[:1], *left]):
        above, text = line.seen, below.seen
        if after > before + 1 and above.strip() and text.strip():
            ends = _HEADING.match(above) and not _UNDERLINE.match(text)
            if not ends and not ITEM.match(text) and not text.lstrip().startswith("#"):
                yield ""
        yield below.raw


def _lines(body: str) -> list[Line]:
    """Cut at each line end that is in no comment."""
    lines = [Line()]
    for part, is_comment in comments.parts(body):
        first, *more = [part] if is_comment else part.split("\n")
        lines[-1].pieces.append((first, is_comment))
        lines += [Line(pieces=[(piece, False)]) for piece in more]
    return lines


def _spans(seen: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
    """Yield where each list item or paragraph begins and ends, and each other line, with true for these."""
    start: int | None = None
    in_code = _in_code(seen)
    for place, line in enumerate(seen):
        folds = place not in in_code and _FOLD.match(line) is not None
        alone = not line.strip() or _HEADING.match(line) is not None or folds
        begins = ITEM.match(line) or (
            start is not None and place not in in_code and _begins(line, seen[start], seen[place - 1])
        )
        if start is not None and (alone or begins):
            yield start, place, False
            start = None
        if alone:
            yield place, place + 1, True
        elif start is None:
            start = place
    if start is not None:
        yield start, len(seen), False


def _begins(line: str, first: str, above: str) -> bool:
    """Return whether a line is no part of the paragraph above, of which it is told how it begins and ends.

    Such is a footnote, a definition below another one, and what is folded away with its summary.
    """
    if _FOOTNOTE.match(line) or (_DEFINITION.match(line) and _DEFINITION.match(first)):
        return True
    return _SUMMARY.match(line) is not None or _SUMMED_UP.match(above) is not None


def _aside(span: Sequence[str], *, below: Sequence[str]) -> int:
    """Return the first line of an item or paragraph that is no plain text; all of them may be."""
    first = 1 if ITEM.match(span[0]) else 0
    if not first and (_INDENTED.match(span[0]) or any(map(_UNDERLINE.match, (*span[1:], *below)))):
        return 0
    for place, line in enumerate(span[first:], first):
        if _ASIDE.match(line):
            return place
        if _DELIMITERS.match(line):
            return max(first, place - 1)
    return len(span)


def _in_code(seen: Sequence[str]) -> frozenset[int]:
    """Return the lines of code between fences, with the fences; one that is never closed fences nothing."""
    inside: set[int] = set()
    start, opening = 0, ""
    for place, line in enumerate(seen):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if not opening:
            start, opening = place, fence[1]
        elif fence[1].startswith(opening) and not line[fence.end() :].strip():
            inside.update(range(start, place + 1))
            opening = ""
    return frozenset(inside)
