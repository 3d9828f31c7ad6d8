"""The Markdown parser as it is used here: bounded, so that no text takes long to read or to lay out.

Whatever goes beyond a bound, which nothing that is meant to be read does, stays plain text; nothing is lost.
"""

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_MAX_LEVEL = 20  # of nested quotes and lists (a list counts twice)
_MOST_TOKENS = 8000  # of blocks: three for a paragraph, five for an item of a list
_MOST_MARKS = 6000  # characters that may style a text, in all of it
_MOST_CELLS = 2000  # of all tables together
_MOST_COLUMNS = 60
_MARK = re.compile(r"[\n*_~`\[\]!<&\\]")


def reader() -> MarkdownIt:
    """Return a parser for one text; its leaves are tokens of the type `inline`, or `verbatim` with one text in it."""
    # `reference` is off because "[Update]: done" would silently vanish as the definition of a link.
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 2 * _MAX_LEVEL})
    made.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    # Where one of these says silently that it begins, the list or the paragraph before it ends.
    made.block.ruler.before("table", "too_much", _too_much, {"alt": ["paragraph", "list", "blockquote"]})
    made.block.ruler.before("table", "too_large", _TableLimit())
    made.core.ruler.at("inline", _styles)
    return made


def _too_much(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the library's signature
    """Take what is nested too deep, or comes after too many blocks, as plain text."""
    many = len(state.tokens) > _MOST_TOKENS
    if silent:
        return many
    if state.level < _MAX_LEVEL and not many:
        return False
    line = start
    while line < end and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent):
        line += 1
    _push_verbatim(state, start, line)
    return True


class _TableLimit:
    """Takes a table as plain text if it has too many columns, or too many cells with those before it."""

    def __init__(self) -> None:
        self._cells = _MOST_CELLS

    def __call__(self, state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
        if silent or start + 1 >= end or "|" not in _line(state, start):
            return False
        below = _line(state, start + 1)
        if "-" not in below or below.strip(" \t|:-"):
            return False
        columns = below.strip().strip("|").count("|") + 1
        line = start
        while line < end and not state.isEmpty(line) and state.sCount[line] >= state.blkIndent:
            line += 1
        cells = columns * (line - start)
        if columns <= _MOST_COLUMNS and cells <= self._cells:
            self._cells -= cells
            return False
        _push_verbatim(state, start, line)
        return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _push_verbatim(state: StateBlock, start: int, line: int) -> None:
    state.push("paragraph_open", "p", 1)
    leaf = state.push("inline", "", 0)
    text = state.getLines(start, line, state.blkIndent, keepLastLF=False).strip()
    leaf.children = [Token("text", "", 0, content=text)]
    leaf.type = "verbatim"  # `inline` would be read for styles
    state.push("paragraph_close", "p", -1)
    state.line = line


def _styles(state: StateCore) -> None:
    """Read the styles of the leaves in their order, until there are more marks than are worth the time."""
    left = _MOST_MARKS
    for token in state.tokens:
        if token.type != "inline":
            continue
        left -= sum(1 for _ in _MARK.finditer(token.content))
        token.children = []
        if left >= 0:
            state.md.inline.parse(token.content, state.md, state.env, token.children)
        else:
            token.children.append(Token("text", "", 0, content=token.content))
