"""What each fact of a note stands under: what it is read as being about, though it does not say so itself.

That is, from near to far: the item that it is part of, a line that ends with a colon or is all in one emphasis, the
summary of what is folded away, headings however they are written, and what the note is called and says of itself.
Quotes and code are read as notes within the note, and a table row by row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import PurePosixPath

import regex

from memory.blocks import ITEM, Block, blocks, joined

_HEADING = regex.compile(r"\s{0,3}(#{1,6})\s++(.*)")
_UNDERLINE = regex.compile(r"\s{0,3}(=++|-++)\s*+\Z")
_RULE = regex.compile(r"\s{0,3}(?:[-*_]\s*+){3,}+\Z")
_TAGGED = regex.compile(r"<(\w++)\b[^<>]*+>([^<>]*+)</\1>[:：]?\Z", regex.IGNORECASE)
_HTML_HEADING = regex.compile(r"h([1-6])\Z", regex.IGNORECASE)
_OPENS = regex.compile(r"<summary\b", regex.IGNORECASE)
_CLOSES = regex.compile(r"</summary>", regex.IGNORECASE)
_UNFOLDS = regex.compile(r"</details>", regex.IGNORECASE)
_EMPHASIS = "*_`"
_QUOTED = regex.compile(r"\s*+(?:>\s?)++")
_FENCE = regex.compile(r"\s*+(?:`{3,}+|~{3,}+)[^`]*+\Z")
_DELIMITERS = regex.compile(r"(?=[^|\n]*+\|)(?=[^-\n]*+-)[\s|:-]++\Z")
_BAR = regex.compile(r"(?<!\\)\|")
_DEFINED = regex.compile(r"\s*+:\s")
_MOST = 12
"""Items and folds around a fact that count, the nearest first."""
_DEEPEST = 4
"""Quotes and code within one another that are looked into."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A fact, or a part of one that stands under something of its own; `whole` is the fact as `memory.facts` has it.

    `cells` are those of a row of a table, each with the head of its column.
    """

    text: str
    whole: str
    under: tuple[str, ...]
    """What it stands under, the nearest first."""
    cells: tuple[tuple[str, str], ...] = ()


def placed(body: str) -> Iterator[tuple[Block, tuple[str, ...]]]:
    """Yield each list item and paragraph of a note's body, with what it stands under there, the nearest first."""
    above = _Above()
    found = blocks(body)
    for block, below in pairwise([*found, Block(lines=())]):
        first = block.lines[0].seen
        if not block.text:
            above.passed(first)
            continue
        above.leave(_indent(first))
        yield block, above.levels
        underline = _UNDERLINE.match(below.lines[0].seen) if below.lines and not below.text else None
        above.take(block, underline)


def parts(body: str, under: tuple[str, ...] = ()) -> Iterator[Part]:
    """Yield what a note's body says, as finely cut as it is read; `under` is what all of it stands under."""
    for block, levels in placed(body):
        lines = [line.seen for line in block.lines]
        yield from _parted(lines, block.text, (*levels, *under), depth=0)


def called(note: str, metadata: Mapping[str, object]) -> tuple[str, ...]:
    """Return what a note is called and says of itself, the nearest first: its names, its other values, its folders.

    A description is none of these: it sums up the facts, and so names people whom they don't concern.
    """
    path = PurePosixPath(note)
    values = [str(value) for key, value in metadata.items() if key not in {"name", "description"}]
    folders = [title(folder) for folder in reversed(path.parts[:-1])]
    return (f"{title(path.stem)} {metadata.get('name') or ''}", *values, *folders)


def title(name: str) -> str:
    """Return what a file or folder is called, as it would be written: such names have no capitals."""
    return name.replace("-", " ").replace("_", " ").title()


def is_label(text: str) -> bool:
    """Return whether a line says what those below it are about: it ends with a colon, or is all in one emphasis."""
    if text.endswith((":", "：")) or _TAGGED.match(text):
        return True
    core = text.rstrip(".")
    within = core.strip(_EMPHASIS)
    marked = len(core) - len(within) > 1 and core[0] in _EMPHASIS and core[-1] in _EMPHASIS
    return marked and bool(within) and not any(sign in within for sign in "*`")


@dataclass(kw_only=True, slots=True)
class _Above:
    """What stands above a line, as one goes down a note."""

    headings: list[tuple[int, str]] = field(default_factory=list)
    folds: list[str] = field(default_factory=list)
    label: str = ""
    items: list[tuple[int, str]] = field(default_factory=list)
    in_summary: bool = False

    @property
    def levels(self) -> tuple[str, ...]:
        label = [self.label] if self.label else []
        items = [text for _, text in self.items[: -_MOST - 1 : -1]]
        headings = [text for _, text in reversed(self.headings)]
        return (*items, *label, *self.folds[: -_MOST - 1 : -1], *headings)

    def leave(self, indent: int) -> None:
        while self.items and indent <= self.items[-1][0]:
            self.items.pop()

    def passed(self, line: str) -> None:
        """Take note of a line that is no fact."""
        if heading := _HEADING.match(line):
            self._head(len(heading[1]), heading[2])
        elif _RULE.match(line):
            self._reset()
        self._folded(line)

    def take(self, block: Block, underline: regex.Match[str] | None) -> None:
        """Take note of a fact, below which others may stand."""
        first, raw = block.lines[0].seen, "\n".join(line.seen for line in block.lines)
        is_item = ITEM.match(first) is not None
        tagged = _TAGGED.match(block.text)
        if self.in_summary or _OPENS.search(raw):
            self.folds.append(block.text)
        elif underline and not is_item:
            self._head(1 if "=" in underline[1] else 2, block.text)
        elif tagged and (level := _HTML_HEADING.match(tagged[1])):
            self._head(int(level[1]), tagged[2])
        elif is_label(block.text):
            self.label = block.text
        if is_item:
            self.items.append((_indent(first), block.text))
        self._folded(raw)

    def _folded(self, text: str) -> None:
        if _OPENS.search(text):
            self.in_summary = True
        if _CLOSES.search(text):
            self.in_summary = False
        for _ in _UNFOLDS.findall(text):
            self.folds[-1:] = []
            self._reset()

    def _head(self, level: int, text: str) -> None:
        self.headings = [*(each for each in self.headings if each[0] < level), (level, text)]
        self._reset()

    def _reset(self) -> None:
        self.label = ""
        self.items = []


def _parted(lines: Sequence[str], whole: str, under: tuple[str, ...], *, depth: int) -> Iterator[Part]:
    within = _within(lines) if depth < _DEEPEST else None
    if within is not None:
        for block, levels in placed(within):
            inner = [line.seen for line in block.lines]
            found = _parted(inner, block.text, (*levels, *under), depth=depth + 1)
            yield from (replace(part, whole=whole) for part in found)
        return
    end = next((place for place in range(1, len(lines)) if _DELIMITERS.match(lines[place])), 0)
    if end:
        if end > 1:
            yield from _labelled(lines[: end - 1], joined(lines[: end - 1]), under)
        yield from _rows(lines[end - 1], lines[end + 1 :], whole, under)
    else:
        yield from _labelled(lines, whole, under)


def _within(lines: Sequence[str]) -> str | None:
    """Return what is quoted or stands between fences, if that is all there is."""
    if all(map(_QUOTED.match, lines)):
        return "\n".join(_QUOTED.sub("", line) for line in lines)
    if _FENCE.match(lines[0]):
        return "\n".join(line for line in lines if not _FENCE.match(line))
    return None


def _rows(head: str, rows: Sequence[str], whole: str, under: tuple[str, ...]) -> Iterator[Part]:
    heads = _cells(head)
    for row in rows:
        cells = _cells(row)
        yield Part(text=" ".join(cells), whole=whole, under=under, cells=tuple(zip(heads, cells, strict=False)))


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in _BAR.split(row.strip().removeprefix("|").removesuffix("|"))]


def _labelled(lines: Sequence[str], whole: str, under: tuple[str, ...]) -> Iterator[Part]:
    """Yield a paragraph in one, or what stands in it below each line that is a label or is defined there."""
    labels = {
        place
        for place, (line, below) in enumerate(pairwise(lines))
        if is_label(joined([line])) or (_DEFINED.match(below) and not _DEFINED.match(line))
    }
    if not labels:
        yield Part(text=whole, whole=whole, under=under)
        return
    edges = [*sorted({0, *labels}), len(lines)]
    for start, end in pairwise(edges):
        first = start + 1 if start in labels else end
        label, text = joined(lines[start:first]), joined([_DEFINED.sub("", line) for line in lines[first:end]])
        yield Part(text=label, whole=whole, under=under)
        if text:
            yield Part(text=text, whole=whole, under=(label, *under))


def _indent(line: str) -> int:
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
