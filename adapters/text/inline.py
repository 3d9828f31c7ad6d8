"""What stands in one line of Markdown (a paragraph, a heading, a cell), as spans; any text, in linear time.

CommonMark's inline rules without references and HTML, and beyond them what answers hold: `~~strike~~`,
`||spoiler||`, bare addresses as links, formulas in TeX kept as they are written (`\\(…\\)`, `\\[…\\]`, `$…$`,
`$$…$$`), and emphasis beside CJK punctuation, by the amendment "CommonMark for CJK". It is not markdown-it's own
reader of lines because that one has none of these, and takes four times as long.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from types import MappingProxyType

from adapters.text.emphasis import Run, pair, run_at
from adapters.text.links import TARGET, bare_address, linkable, normal, unescaped
from adapters.text.pieces import Address, Begin, Code, End, Picture, Piece, joined
from adapters.text.reader import Budget
from adapters.text.tree import Span, Spans, text_of

_SPECIAL = re.compile(r"[*_~|`\[\]!<&\\$:]")
_LINE_EDGE = re.compile(r"(?:(?<![\\ \t])[ \t]++)?+\n[ \t]*+")
_AUTOLINK = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\x00-\x20]*|[\w.!#$%&'*+/=?^`{|}~-]+@[\w.-]+)>")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\n")
_TICKS = re.compile("`+")
# One dollar is money more often than mathematics: pandoc's rule, and no code in it.
_DOLLARS = re.compile(r"\$(?=[^\s$])(?:[^$\n`\\]|\\[^\n])*+\$(?<=[^\s]\$)(?![\w$])")
_DOUBLE_DOLLARS = re.compile(r"\$\$(?!\$)(?:[^$\\]|\\[\s\S]|\$(?!\$))++\$\$(?!\$)")


class LineReader:
    """Reads the lines of one text, until they hold more marks than are worth the time."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def read(self, text: str) -> Spans:
        """Return the spans of a line, neighbours of the same styles joined."""
        if "\n" in text:
            text = _LINE_EDGE.sub("\n", text)
        if not _SPECIAL.search(text):
            return (Span(text=text),) if text else ()
        line = _Line(text)
        self._budget.marks -= line.scan(self._budget.marks)
        return line.spans()


class _Bracket:
    """A `[` or `![` that may begin a link: its piece, and how many runs came before it."""

    __slots__ = ("image", "piece", "runs")

    def __init__(self, piece: int, runs: int, *, image: bool) -> None:
        self.piece, self.runs, self.image = piece, runs, image


class _Line:
    def __init__(self, text: str) -> None:
        self._text = text
        self._pieces: list[Piece] = []
        self._runs: list[Run] = []
        self._brackets: list[_Bracket] = []
        self._dead = 0  # so many brackets can't begin a link any more: links don't nest
        self._ticks: dict[int, list[int]] | None = None
        self._last = {closing: text.rfind(closing) for closing in ("\\)", "\\]")} if "\\" in text else {}

    def scan(self, most: int) -> int:
        """Divide the text into pieces, and return how many marks it holds; beyond `most` of them it is bare."""
        text, pieces, search = self._text, self._pieces, _SPECIAL.search
        place = marks = 0
        while (found := search(text, place)) and marks < most:
            at = found.start()
            if at > place:
                pieces.append(text[place:at])
            place = _READERS[text[at]](self, at)
            marks += 1 + (text[at] == "`")  # code has both of its ends here
        if place < len(text):
            pieces.append(text[place:])
        pair(self._runs)
        return marks

    def _literal(self, at: int, length: int = 1) -> int:
        self._pieces.append(self._text[at : at + length])
        return at + length

    def _run(self, at: int) -> int:
        run = run_at(self._text, at)
        self._pieces.append(run)
        if run.opens or run.closes:
            self._runs.append(run)
        return at + run.count

    def _code(self, at: int) -> int:
        if self._ticks is None:
            self._ticks = {}
            for found in _TICKS.finditer(self._text, at):
                self._ticks.setdefault(len(found[0]), []).append(found.start())
        opening = _TICKS.match(self._text, at)
        assert opening is not None
        count, begin = len(opening[0]), opening.end()
        places = self._ticks.get(count, [])
        later = bisect_left(places, begin)
        if later == len(places):
            return self._literal(at, count)
        code = self._text[begin : places[later]].replace("\n", " ")
        if code[0] == code[-1] == " " and code.strip(" "):
            code = code[1:-1]
        self._pieces.append(Code(code))
        return places[later] + count

    def _backslash(self, at: int) -> int:
        following = self._text[at + 1 : at + 2]
        if following in {"(", "["}:
            closing = "\\)" if following == "(" else "\\]"
            if self._last[closing] > at + 2:
                end = self._text.find(closing, at + 2) + 2
                return self._literal(at, end - at)
        if following not in _ESCAPABLE or not following:
            return self._literal(at)
        self._pieces.append(following)
        return at + 2

    def _dollar(self, at: int) -> int:
        double = self._text.startswith("$$", at)
        found = (_DOUBLE_DOLLARS if double else _DOLLARS).match(self._text, at)
        if found is None or self._text[at - 1 : at].isalnum():
            return self._literal(at, 1 + double)
        return self._literal(at, len(found[0]))

    def _entity(self, at: int) -> int:
        found = _ENTITY.match(self._text, at)
        if found is None:
            return self._literal(at)
        self._pieces.append(unescaped(found[0]))
        return found.end()

    def _angle(self, at: int) -> int:
        found = _AUTOLINK.match(self._text, at)
        address = found[1] if found and ":" in found[1] else f"mailto:{found[1]}" if found else ""
        if found is None or not linkable(address):
            return self._literal(at)
        self._pieces += [Begin(address), found[1], End(address)]
        return found.end()

    def _colon(self, at: int) -> int:
        """Take a bare address, which began before its colon, before anything in it is read as a mark."""
        before = self._pieces[-1] if self._pieces else ""
        found = bare_address(self._text, at, before) if type(before) is str else None
        if found is None:
            return self._literal(at)
        start, end = found
        self._pieces[-1] = before[: start - at]  # type: ignore[index]
        address = unescaped(self._text[start:end])
        self._pieces.append(Address(address) if linkable(address) else address)
        return end

    def _bang(self, at: int) -> int:
        if not self._text.startswith("![", at):
            return self._literal(at)
        self._brackets.append(_Bracket(len(self._pieces), len(self._runs), image=True))
        return self._literal(at, 2)

    def _opening(self, at: int) -> int:
        self._brackets.append(_Bracket(len(self._pieces), len(self._runs), image=False))
        return self._literal(at)

    def _closing(self, at: int) -> int:
        if not self._brackets:
            return self._literal(at)
        bracket = self._brackets.pop()
        dead = not bracket.image and len(self._brackets) < self._dead
        self._dead = min(self._dead, len(self._brackets))
        found = None if dead else TARGET.match(self._text, at + 1)
        if found is None:
            return self._literal(at)
        address = normal(unescaped(found["angled"] if found["angled"] is not None else found["plain"]))
        pair(self._runs[bracket.runs :])
        del self._runs[bracket.runs :]
        if bracket.image:
            inner = self._pieces[bracket.piece + 1 :]
            self._pieces[bracket.piece :] = [Picture(text_of(joined(inner)), address)]
        else:
            self._pieces[bracket.piece] = Begin(address)
            self._pieces.append(End(address))
            self._dead = len(self._brackets)
        return found.end()

    def spans(self) -> Spans:
        """Return the pieces as spans."""
        return joined(self._pieces)


_READERS: Mapping[str, Callable[[_Line, int], int]] = MappingProxyType(
    dict.fromkeys("*_~|", _Line._run)
    | {
        "`": _Line._code,
        "\\": _Line._backslash,
        "$": _Line._dollar,
        "&": _Line._entity,
        "<": _Line._angle,
        ":": _Line._colon,
        "!": _Line._bang,
        "[": _Line._opening,
        "]": _Line._closing,
    }
)
