"""markdown-it's reader of blocks as it is used here: bounded, so that no text takes long to read or to lay out.

Whatever goes beyond a bound, which nothing that is meant to be read does, stays plain text; nothing is lost.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from markdown_it import MarkdownIt
from markdown_it.common.utils import mdTrim
from markdown_it.rules_block import StateBlock, blockquote, code, fence, heading, hr, list_block, table
from markdown_it.token import Token

MOST_TOKENS = 8000  # of blocks: three for a paragraph, five for an item of a list
MOST_MARKS = 6300  # what may style a text, in all of it; both ends of a style count
_MOST_CELLS = 2000  # of all tables together
_MOST_COLUMNS = 60
_MAX_LEVEL = 20  # of nested quotes and lists (a list counts twice)
_UNDERLINE = re.compile(r"(=+|-+)[ \t]*")
_UNDER_HEADER = frozenset("|:-")
_BORDER = re.compile(r"(?<!\\)\|")
_STARTS = re.compile(r"`{3}|~{3}|#{1,6}[ \t]")  # what begins a block wherever it stands


@dataclass(kw_only=True, slots=True)
class Budget:
    """What a text may still hold."""

    tokens: int = MOST_TOKENS
    marks: int = MOST_MARKS
    cells: int = _MOST_CELLS


def read_blocks(markdown: str, budget: Budget) -> list[Token]:
    """Return the tokens of blocks; their leaves are of the type `inline`, or `verbatim`, which is not to be read on."""
    tokens: list[Token] = []
    reader = _reader()
    reader.block.parse(markdown, reader, {"budget": budget}, tokens)
    budget.tokens -= len(tokens)
    return tokens


@cache
def _reader() -> MarkdownIt:
    # There are no definitions of links: "[Update]: done" would silently vanish as one.
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 2 * _MAX_LEVEL, "tasklists": True})
    made.block.ruler.before("table", "any", _any)
    for chain, rules in _ENDING.items():
        made.block.ruler.before("table", f"ends_{chain}", _Ends(rules), {"alt": [chain]})
    made.block.ruler.enableOnly(["any", "code", *(f"ends_{chain}" for chain in _ENDING)])
    return made


def _any(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - the library's signature
    """Take the block that begins here, asking only the rules that can begin with its first character.

    In the library each rule is asked about each line, several times: that is half of all the time.
    """
    if state.level >= _MAX_LEVEL or len(state.tokens) > state.env["budget"].tokens:
        return _too_much(state, start, end)
    if state.is_code_block(start):
        return code(state, start, end, silent)
    for rule in _BEGINNING.get(_first(state, start), ()):
        if rule(state, start, end, silent):
            return True
    return (_is_table(state, start, end) and _table(state, start, end)) or _paragraph(state, start, end)


class _Ends:
    """Says whether a block begins at a line that would otherwise go on with the one before."""

    def __init__(self, rules: "frozenset[_Rule]") -> None:
        self._rules = {
            first: kept
            for first, every in _BEGINNING.items()
            if (kept := tuple(rule for rule in every if rule in rules))
        }
        self._tables = table in rules

    def __call__(self, state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
        if len(state.tokens) > state.env["budget"].tokens:
            return True
        for rule in self._rules.get(_first(state, start), ()):
            if rule(state, start, end, silent):
                return True
        return self._tables and _is_table(state, start, end)


def _paragraph(state: StateBlock, start: int, end: int) -> bool:
    """Take a paragraph, or a heading with a line of `=` or `-` below."""
    outer, state.parentType = state.parentType, "paragraph"
    ends = state.md.block.ruler.getRules("paragraph")[0]
    level, line = 0, start + 1
    while line < state.lineMax and not state.isEmpty(line):
        indent = state.sCount[line] - state.blkIndent
        if 0 <= indent <= 3 and line < end and (underline := _UNDERLINE.fullmatch(_line(state, line))):
            level = 1 if underline[1][0] == "=" else 2
            break
        if indent <= 3 and state.sCount[line] >= 0 and ends(state, line, end, True):  # noqa: FBT003
            break
        line += 1
    state.parentType = outer
    _push(state, start, line, kind=f"h{level}" if level else "p")
    state.line = line + bool(level)
    return True


def _too_much(state: StateBlock, start: int, end: int) -> bool:
    """Take what is nested too deep, or comes after too many blocks, as plain text."""
    line = start
    while line < end and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent):
        line += 1
    return _push_verbatim(state, start, line)


def _is_table(state: StateBlock, start: int, end: int) -> bool:
    return start + 1 < end and _first(state, start + 1) in _UNDER_HEADER and table(state, start, end, True)  # noqa: FBT003


def _table(state: StateBlock, start: int, end: int) -> bool:
    """Take a table as one token, or as plain text if it is too wide, or has too many cells with those before it."""
    header = cells_of(_line(state, start))
    outer, state.parentType = state.parentType, "table"
    ends = state.md.block.ruler.getRules("blockquote")[0]
    line = start + 2
    while line < end and not state.isEmpty(line) and 0 <= state.sCount[line] - state.blkIndent <= 3:
        if ends(state, line, end, True):  # noqa: FBT003
            break
        line += 1
    state.parentType = outer
    count = len(header) * (line - start)
    budget: Budget = state.env["budget"]
    if len(header) > _MOST_COLUMNS or count > budget.cells:
        return _push_verbatim(state, start, line)
    budget.cells -= count
    rows = [header, *(cells_of(_line(state, at)) for at in range(start + 2, line))]
    marks = [mark.strip(" \t") for mark in _line(state, start + 1).split("|")]
    state.push("table", "table", 0).meta = {"rows": rows, "marks": [mark for mark in marks if mark]}
    state.line = line
    return True


def cells_of(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    cells = [cell.replace("\\|", "|") for cell in _BORDER.split(mdTrim(line))]
    return [mdTrim(cell) for cell in cells[not cells[0] : len(cells) - (len(cells) > 1 and not cells[-1])]]


def _formula(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    """Take a formula of several lines as it is written: `- b` in it is no list, `=` no underline."""
    first = _line(state, start)
    closing = {"$$": "$$", "\\[": "\\]"}.get(first[:2])
    if closing is None or closing in first[2:]:
        return False
    line = start + 1
    while line < end and not state.isEmpty(line) and state.sCount[line] >= state.blkIndent:
        line += 1
        text = _line(state, line - 1)
        if _STARTS.match(text):
            return False
        if closing in text:
            ends = text.rstrip(" \t.,;").endswith(closing)
            if ends and not silent:
                _push_verbatim(state, start, line)
            return ends
    return False


def _first(state: StateBlock, line: int) -> str:
    at = state.bMarks[line] + state.tShift[line]
    return state.src[at : at + 1]


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _push(state: StateBlock, start: int, line: int, *, kind: str) -> Token:
    name = "paragraph" if kind == "p" else "heading"
    state.push(f"{name}_open", kind, 1)
    leaf = state.push("inline", "", 0)
    leaf.content = mdTrim(state.getLines(start, line, state.blkIndent, keepLastLF=False))
    state.push(f"{name}_close", kind, -1)
    return leaf


def _push_verbatim(state: StateBlock, start: int, line: int) -> bool:
    _push(state, start, line, kind="p").type = "verbatim"  # `inline` would be read for styles
    state.line = line
    return True


_Rule = Callable[[StateBlock, int, int, bool], bool]
_BEGINNING: Mapping[str, tuple[_Rule, ...]] = MappingProxyType(
    {
        **dict.fromkeys("`~", (fence,)),
        **dict.fromkeys("*-", (hr, list_block)),
        **dict.fromkeys("+0123456789", (list_block,)),
        **dict.fromkeys("$\\", (_formula,)),
        ">": (blockquote,),
        "_": (hr,),
        "#": (heading,),
    }
)
_ENDING: Mapping[str, frozenset[_Rule]] = MappingProxyType(
    {
        "paragraph": frozenset({fence, blockquote, hr, list_block, heading, table, _formula}),
        "blockquote": frozenset({fence, blockquote, hr, list_block, heading}),
        "list": frozenset({fence, blockquote, hr}),
    }
)
