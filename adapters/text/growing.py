"""Rendering a text in parts, once or again and again while it grows."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from adapters.text.measure import Cost, Measure
from adapters.text.reading import Reading
from adapters.text.split import Splitter
from adapters.text.tree import Block, Blocks, Document

Part = TypeVar("Part")


class Rendering(ABC, Generic[Part]):
    """Renders one text; what can't change any more by what is added to it is neither read nor laid out again."""

    def __init__(self, measure: Measure, limit: Cost, *, first: Cost) -> None:
        self._splitter, self._first = Splitter(measure, limit), first
        self._reading = Reading()
        self._restart()

    def _restart(self) -> None:
        self._finished = self._reading.finished
        self._taken = 0
        self._rest: Blocks = ()
        self._parts: list[Part] = []

    @abstractmethod
    def prepared(self, block: Block) -> Block:
        """Return a block as the platform can show it."""

    @abstractmethod
    def shown(self, document: Document) -> Part | None:
        """Return a part, or None if there is nothing to see."""

    @abstractmethod
    def placeholder(self) -> Part:
        """Return what is shown where there is nothing to see."""

    def render(self, markdown: str) -> list[Part]:
        """Return the parts of a text, at least one; what comes of it is the same however often it was asked."""
        document = self._reading.read(markdown)
        if self._finished is not self._reading.finished:
            self._restart()
        self._rest += tuple(map(self.prepared, self._finished[self._taken :]))
        self._taken = len(self._finished)
        unfinished = tuple(map(self.prepared, document.blocks[self._taken :]))
        parts, rest, settled = list(self._parts), self._rest + unfinished, True
        while rest:
            head, rest = self._splitter.cut(rest, first=None if parts else self._first)
            part = self.shown(Document(blocks=head))
            parts += [] if part is None else [part]
            # The cut depends on the first block that is left and, behind a heading, on the one after it.
            settled = settled and len(rest) >= len(unfinished) + 2
            if settled:
                self._parts, self._rest = list(parts), rest[: len(rest) - len(unfinished)]
        return parts or [self.placeholder()]
