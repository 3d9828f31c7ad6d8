"""The pieces that a line is read into, and how they become spans."""

from collections.abc import Sequence

from adapters.text.emphasis import Run
from adapters.text.links import linkable, normal
from adapters.text.tree import Span, Spans


class Code(str):
    """Verbatim text."""

    __slots__ = ()


class Address(str):
    """An address that is its own text."""

    __slots__ = ()


class Begin(str):
    """Where the text of a link to this address begins."""

    __slots__ = ()


class End(str):
    """Where the text of a link to this address ends."""

    __slots__ = ()


class Picture:
    """A picture, which a text can only name."""

    __slots__ = ("source", "text")

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source


Piece = str | Run | Picture


_Style = tuple[bool, bool, bool, bool, bool, str]  # in the order of the fields of a span


class _Writer:
    """Writes spans: the styles that are on at one place of a line."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._on = {"bold": 0, "italic": 0, "strike": 0, "spoiler": 0}
        self._links: list[str] = []
        self._style: _Style = (False, False, False, False, False, "")
        self._now = self._style
        self._run: list[str] = []

    def text(self, text: str, *, code: bool = False, href: str = "") -> None:
        if not text:
            return
        style = self._now
        if code or href:
            style = (*style[:4], code, style[5] or href)
        if style != self._style:
            self._end_run()
            self._style = style
        self._run.append(text)

    def _change(self) -> None:
        on, href = self._on, self._links[-1] if self._links else ""
        self._now = (on["bold"] > 0, on["italic"] > 0, on["strike"] > 0, on["spoiler"] > 0, False, href)

    def run(self, run: Run) -> None:
        if run.ends:
            for style in run.ends:
                self._on[style] -= 1
            self._change()
        if run.count:
            self.text(run.mark * run.count)
        if run.begins:
            for style in run.begins:
                self._on[style] += 1
            self._change()

    def begin_link(self, address: str) -> None:
        self._links.append(address if linkable(address) else "")
        self._change()

    def end_link(self, address: str) -> None:
        reached = self._links.pop()
        self._change()
        if address and not reached:
            self.text(f" ({address})")

    def picture(self, picture: Picture) -> None:
        alt, source = picture.text, picture.source
        if linkable(source):
            self.text(alt or source, href=source)
        else:
            self.text(f"{alt} ({source})" if alt and source else alt or source)

    def done(self) -> Spans:
        self._end_run()
        return tuple(self._spans)

    def _end_run(self) -> None:
        if self._run:
            bold, italic, strike, spoiler, code, href = self._style
            text = "".join(self._run)
            self._spans.append(
                Span(text=text, bold=bold, italic=italic, strike=strike, spoiler=spoiler, code=code, href=href)
            )
            self._run = []


def joined(pieces: Sequence[Piece]) -> Spans:
    """Return pieces as spans, neighbours of the same styles as one."""
    writer = _Writer()
    for piece in pieces:
        if type(piece) is str:
            writer.text(piece)
        elif isinstance(piece, Run):
            writer.run(piece)
        elif isinstance(piece, Code):
            writer.text(piece, code=True)
        elif isinstance(piece, Address):
            writer.text(piece, href=normal(piece))
        elif isinstance(piece, Begin):
            writer.begin_link(piece)
        elif isinstance(piece, End):
            writer.end_link(piece)
        elif isinstance(piece, Picture):
            writer.picture(piece)
    return writer.done()
