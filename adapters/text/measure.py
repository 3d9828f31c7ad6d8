"""What a text takes on a platform, by what splitting asks about."""

from typing import NamedTuple, Protocol

from adapters.text.tree import Block, Bullets, Span


class Cost(NamedTuple):
    """What something takes, or what there is room for; in three things that the platform limits."""

    length: int
    size: int
    pieces: int

    def fits(self, room: "Cost") -> bool:
        """Say whether there is room for it."""
        return self[0] <= room[0] and self[1] <= room[1] and self[2] <= room[2]

    def plus(self, other: "Cost") -> "Cost":
        """Return what both take."""
        return Cost(self[0] + other[0], self[1] + other[1], self[2] + other[2])

    def minus(self, other: "Cost") -> "Cost":
        """Return what is left of the room."""
        return Cost(self[0] - other[0], self[1] - other[1], self[2] - other[2])


class Place(NamedTuple):
    """Where a block stands: how much is written before each of its lines, and how deep it is nested."""

    indent: int = 0
    depth: int = 0


class Measure(Protocol):
    """Says what the parts of a document take. The sum of the parts must be at least what the whole takes."""

    def gap(self, place: Place) -> Cost:
        """Return what is written between two blocks, with what stands before the second."""
        ...

    def frame(self, block: Block, place: Place) -> Cost:
        """Return what a block takes besides what is in it."""
        ...

    def item(self, bullets: Bullets, number: int, place: Place) -> Cost:
        """Return what an item takes besides its blocks."""
        ...

    def inside(self, block: Block, place: Place) -> Place:
        """Return where the blocks of a quotation or of an item stand."""
        ...

    def span(self, span: Span, last: Span | None, place: Place) -> Cost:
        """Return what a span takes, behind another one of the same paragraph."""
        ...

    def verbatim(self, text: str, place: Place) -> Cost:
        """Return what the text of a fence, or of an aligned table, takes."""
        ...
